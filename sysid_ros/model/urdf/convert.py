# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The MJCF that a URDF means: what MuJoCo reads, with each link as a body."""

from __future__ import annotations

import functools
import os
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote
from xml.sax.saxutils import quoteattr

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ModelError, listed
from sysid_ros.model.mjcf.exact import exact_xml
from sysid_ros.text import one_sentence

#: What MuJoCo reads.
_FORMATS = ('.stl', '.obj', '.msh')
#: What moves and has no mass gets this one, kg; a body without an inertia, that of a solid ball of
#: this radius, m.
_MASS, _RADIUS = 1e-3, 0.02
#: Moments of an inertia are the same up to this part.
_SAME = 1e-9
_WORLD = 'world'
#: How MuJoCo is to read a URDF: links that are fixed stay bodies, an inertia that no body can have
#: becomes a ball's, and shapes weigh nothing.
_COMPILER = {
    'fusestatic': 'false',
    'balanceinertia': 'true',
    'discardvisual': 'false',
    'inertiafromgeom': 'false',
    'strippath': 'false',
}


class Converted(NamedTuple):
    """The MJCF that a URDF means, and what a reader has to know, a sentence each."""

    mjcf: str
    notes: tuple[str, ...]


def convert(text: str, path: Path, packages: Sequence[Path] = ()) -> Converted:
    """Turn a URDF into MJCF by MuJoCo's own importer.

    Each link is a body of its name, also where it is fixed to another. The root stands still,
    unless it is called ``world`` and a floating joint moves what is below. Shapes are for the eye:
    they touch nothing, so that a model does not depend on which meshes are found.

    Args:
        text: The URDF.
        path: Its file, beside which meshes are looked for.
        packages: Folders of packages that it refers to, or that hold such folders.

    Raises:
        ModelError: It is no URDF, or MuJoCo refuses it.
    """
    try:
        robot = ET.fromstring(text)  # noqa: S314 (the expat of today limits entities)
    except ET.ParseError as err:
        raise ModelError(f'Cannot read the URDF {str(path)!r}: {err}.') from err
    if robot.tag != 'robot':
        raise ModelError(f'Expected <robot> at the top of {str(path)!r}, found {robot.tag}.')
    absent = _find_shapes(robot, path.parent, packages)
    extension = robot.find('mujoco')
    if extension is None:
        extension = ET.SubElement(robot, 'mujoco')
    for compiler in extension.findall('compiler'):
        extension.remove(compiler)
    ET.SubElement(extension, 'compiler', _COMPILER)
    try:
        spec = mujoco.MjSpec.from_string(ET.tostring(robot, encoding='unicode'))
        for geom in spec.geoms:
            geom.contype = geom.conaffinity = 0
        for mesh in spec.meshes:  # of a surface no volume is needed
            mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
        massless = _give_mass(spec)
        mended = _mended(spec)
    except (ValueError, mujoco.FatalError) as err:
        raise ModelError(f'Cannot read the URDF {str(path)!r}: {one_sentence(err)}.') from err
    notes = _notes(spec, robot, absent)
    if massless:
        notes.append(
            'These links move and have no mass or inertia, so each got that of a ball of '
            f'{1e3 * _MASS:g} g or of its mass: {listed(massless)}.'
        )
    if mended:
        names = listed(mended)
        notes.append(f'No body has the inertia of these links, so each got another: {names}.')
    return Converted(exact_xml(spec), tuple(notes))


def _notes(spec: mujoco.MjSpec, robot: ET.Element, absent: dict[str, str]) -> list[str]:
    """Say what there is to know of any URDF."""
    children = {child.get('link') for child in robot.iterfind('joint/child')}
    notes = [
        f'{body.name!r} stands still; for a robot that moves as a whole, put a link {_WORLD!r} and '
        'a floating joint above it.'
        for body in spec.worldbody.bodies
        if body.name not in children
    ]
    if spec.geoms or absent:
        notes.append(
            'The shapes of the URDF touch nothing here; for contacts, take the converted MJCF as '
            'the model and let its geoms collide.'
        )
    if absent:
        files = [f'{uri} ({reason})' for uri, reason in absent.items()]
        notes.append(f'Meshes that are left out, which changes the view only: {listed(files)}.')
    return notes


def _find_shapes(robot: ET.Element, near: Path, packages: Sequence[Path]) -> dict[str, str]:
    """Keep collision shapes, their meshes by absolute paths; return what is of no use, and why."""
    absent: dict[str, str] = {}
    for link in robot.iterfind('link'):
        for visual in link.findall('visual'):
            link.remove(visual)
        for collision in link.findall('collision'):
            mesh = collision.find('geometry/mesh')
            if mesh is not None:
                uri = mesh.get('filename', '')
                found = find_mesh(uri, near, packages)
                if isinstance(found, str):
                    absent[uri] = found
                    link.remove(collision)
                mesh.set('filename', str(found))
    return absent


def _give_mass(spec: mujoco.MjSpec) -> list[str]:
    """Give what moves and has no inertia that of a small ball; return the names of those."""
    found = []
    for body in spec.bodies:
        if body.joints and not _carries_mass(body) and not _moments(body).any():
            body.mass = body.mass or _MASS
            body.ipos = np.nan_to_num(body.ipos)  # a link without an <inertial> has none
            body.fullinertia = np.full(6, np.nan)
            body.inertia = np.full(3, 0.4 * body.mass * _RADIUS**2)
            body.explicitinertial = True
            found.append(body.name)
    return found


def _carries_mass(body: mujoco.MjsBody) -> bool:
    """Whether a link that is fixed to one has mass."""
    fixed = [below for below in body.bodies if not below.joints]
    return any(below.mass > 0 or _carries_mass(below) for below in fixed)


def _mended(spec: mujoco.MjSpec) -> list[str]:
    """Return the names of the links whose inertia the compiler replaces."""
    model = spec.copy().compile()
    bodies = [body for body in spec.bodies if body.explicitinertial]
    return [
        body.name
        for body in bodies
        if not np.allclose(np.sort(model.body(body.name).inertia), _moments(body), rtol=_SAME)
    ]


def _moments(body: mujoco.MjsBody) -> NDArray[np.float64]:
    """Return the principal moments that a body of a spec is told, increasing."""
    full = body.fullinertia
    if not np.isfinite(full).all():
        return np.sort(body.inertia)
    six = full[[[0, 3, 4], [3, 1, 5], [4, 5, 2]]]
    return np.asarray(np.linalg.eigvalsh(six))


def find_package(name: str, near: Path, given: Sequence[Path]) -> Path | None:
    """Find the folder of a package; None where there is none.

    Folders that are given or in ``ROS_PACKAGE_PATH``, and those inside of them, win. Then come
    folders around the file that names it, and ``share`` of each folder in ``AMENT_PREFIX_PATH``.
    """
    return next((folder for folder in _candidates(name, near, given) if folder.is_dir()), None)


def _candidates(name: str, near: Path, given: Sequence[Path]) -> Iterator[Path]:
    for folder in (*given, *_listed('ROS_PACKAGE_PATH')):
        yield from _called(name, folder)
        # A workspace has repositories, and these packages, which may have another name than theirs.
        for depth in ('*', '*/*'):
            for manifest in sorted(folder.glob(f'{depth}/package.xml')):
                yield from _called(name, manifest.parent)
        yield folder / name
    for folder in (near.resolve(), *near.resolve().parents):
        yield from _called(name, folder)
        # Packages of a workspace are side by side.
        if (folder / name / 'package.xml').is_file():
            yield folder / name
    for prefix in _listed('AMENT_PREFIX_PATH'):
        yield prefix / 'share' / name


def _called(name: str, folder: Path) -> Iterator[Path]:
    """Yield a folder that is called so, or whose manifest says that its package is."""
    manifest = folder / 'package.xml'
    if folder.resolve().name == name or (
        manifest.is_file() and f'<name>{name}</name>' in manifest.read_text('utf-8', 'replace')
    ):
        yield folder


def _listed(variable: str) -> list[Path]:
    return [Path(entry) for entry in os.environ.get(variable, '').split(os.pathsep) if entry]


def find_mesh(uri: str, near: Path, given: Sequence[Path]) -> Path | str:
    """Find the file of a mesh; a sentence's part that says why not where it is of no use.

    The URI is ``package://``, ``file://``, or a path relative to the folder of the URDF.
    """
    scheme, separator, rest = uri.partition('://')
    if not separator:
        path = near / uri
    elif scheme in {'package', 'model'}:
        package, _, inside = unquote(rest).partition('/')
        folder = find_package(package, near, given)
        if folder is None:
            return f'no package {package!r}'
        path = folder / inside
    else:
        path = Path(unquote(rest))
    if not path.is_file():
        return 'no such file'
    if path.suffix.lower() not in _FORMATS:
        return f'MuJoCo reads {", ".join(_FORMATS)}'
    path = path.resolve()
    return 'MuJoCo refuses it' if not _readable(path, path.stat().st_mtime_ns) else path


@functools.cache
def _readable(path: Path, _changed_ns: int) -> bool:
    """Whether MuJoCo compiles a mesh: one bad file must not cost the model."""
    asset = f'<mesh name="mesh" file={quoteattr(str(path))} inertia="shell"/>'
    try:
        mujoco.MjModel.from_xml_string(f'<mujoco><asset>{asset}</asset></mujoco>')
    except ValueError:
        return False
    return True
