# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Files that an MJCF refers to and that are not there: what shows by them is left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import mujoco

from sysid_ros.errors import ModelError, some

Asset: TypeAlias = mujoco.MjsMesh | mujoco.MjsHField | mujoco.MjsTexture | mujoco.MjsSkin

_FROM_GEOMS = mujoco.mjtInertiaFromGeom


def drop_missing_files(spec: mujoco.MjSpec, path: Path) -> tuple[str, ...]:
    """Take out of a spec the meshes, height fields, textures and skins whose files are not there.

    Models are often passed on without them. They move nothing, unless a body has its inertia from
    one or touches something with it.

    Raises:
        ModelError: The inertia of a body that moves would be that of a file that is not there.
    """
    shapes = [asset for asset in (*spec.meshes, *spec.hfields) if _is_missing(spec, asset.file)]
    missing: list[Asset] = [
        *shapes,
        *(skin for skin in spec.skins if _is_missing(spec, skin.file)),
        *(
            texture
            for texture in spec.textures
            if any(_is_missing(spec, file) for file in (texture.file, *texture.cubefiles))
        ),
    ]
    # Includes and models inside of models have folders of their own, which MuJoCo knows.
    if not missing or _compiles(spec):
        return ()
    names = {asset.name for asset in shapes}
    geoms = [geom for geom in spec.geoms if {geom.meshname, geom.hfieldname} & names]
    for geom in geoms:
        if _gives_inertia(spec, geom):
            file = next(a.file for a in shapes if a.name in {geom.meshname, geom.hfieldname})
            raise ModelError(
                f'Body {geom.parent.name!r} of {str(path)!r} has its inertia from {file!r}, which '
                'is not there; expected the file, or an <inertial> in the body.'
            )
    touching = [geom for geom in geoms if geom.contype or geom.conaffinity]
    bodies = dict.fromkeys(geom.parent.name or 'a body without a name' for geom in touching)
    files = dict.fromkeys(asset.file or asset.cubefiles[0] for asset in missing)
    note = f'Files that are not there are left out: {some(files)}; that changes '
    note += f'the contacts of {some(bodies)}.' if bodies else 'the view only.'
    _take_out(spec, geoms, missing)
    return (note,)


def _is_missing(spec: mujoco.MjSpec, file: str) -> bool:
    if not file:
        return False
    inside = Path(file).name if spec.strippath else file
    folders = (spec.compiler.meshdir, spec.compiler.texturedir, '')
    return not any((Path(spec.modelfiledir) / folder / inside).is_file() for folder in folders)


def _compiles(spec: mujoco.MjSpec) -> bool:
    try:
        spec.copy().compile()
    except (ValueError, mujoco.FatalError):
        return False
    return True


def _gives_inertia(spec: mujoco.MjSpec, geom: mujoco.MjsGeom) -> bool:
    """Whether a body that moves has mass from a geom."""
    body, choice = geom.parent, spec.compiler.inertiafromgeom
    low, high = spec.compiler.inertiagrouprange
    weighs = geom.mass > 0 or (math.isnan(geom.mass) and geom.density > 0)
    if not weighs or not low <= geom.group <= high:
        return False
    if choice == _FROM_GEOMS.mjINERTIAFROMGEOM_FALSE or (
        choice == _FROM_GEOMS.mjINERTIAFROMGEOM_AUTO and body.explicitinertial
    ):
        return False
    while body.name != 'world' and not body.joints:
        body = body.parent
    return bool(body.joints)


def _take_out(
    spec: mujoco.MjSpec, geoms: Sequence[mujoco.MjsGeom], assets: Sequence[Asset]
) -> None:
    """Take out geoms, assets, and all that refers to them."""
    gone = {geom.name for geom in geoms if geom.name}
    for pair in list(spec.pairs):
        if {pair.geomname1, pair.geomname2} & gone:
            spec.delete(pair)
    for sensor in list(spec.sensors):
        ends = (sensor.objtype, sensor.objname), (sensor.reftype, sensor.refname)
        if any(kind == mujoco.mjtObj.mjOBJ_GEOM and name in gone for kind, name in ends):
            spec.delete(sensor)
    named = {asset.name for asset in assets if isinstance(asset, mujoco.MjsTexture)}
    for material in spec.materials:
        material.textures = ['' if name in named else name for name in material.textures]
    for entry in (*geoms, *assets):
        spec.delete(entry)
