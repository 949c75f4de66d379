# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the compiler decides by inertias, beside the numbers that ``mj_setConst`` updates.

It decides which bodies are "simple", how the boxes around geoms are arranged, which are in the
inertial frame, and where the inertial frame of an empty body is. A model whose numbers were edited
gets these decisions from a compiled spec with the same inertias, and then equals the model that a
file with the values compiles to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np

from sysid_ros.model.targets import Role, write_spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sysid_ros.model.targets import Target

#: How boxes around geoms are arranged, for finding contacts.
_TREES = ('bvh_aabb', 'bvh_child', 'bvh_depth', 'bvh_nodeid')
#: Targets that move a body.
POSES = frozenset({('body', 'pos'), ('body', 'quat')})


def spec_to_decide(
    written: mujoco.MjSpec,
    spec: mujoco.MjSpec,
    values: Sequence[tuple[Target, float]],
    nominal: mujoco.MjModel,
    model: mujoco.MjModel,
) -> mujoco.MjSpec | None:
    """Put the inertias that were written into a spec, where they change what the compiler decides.

    Args:
        written: The spec that was prepared for the values, and compiled.
        spec: The user's.
        values: Targets and values.
        nominal: The model as the user has it.
        model: The model with the values.

    Returns:
        What compiles to a model that has the decisions; None where there are none to make.
    """
    moved = np.any(nominal.body_ipos != model.body_ipos, axis=1)
    moved |= np.any(nominal.body_iquat != model.body_iquat, axis=1)
    prepared = [body.simple for body in written.bodies] != [body.simple for body in spec.bodies]
    if not prepared and not np.any(moved & (nominal.body_geomnum > 0)):
        return None
    trial = written.copy()
    for body, own, compiled in zip(trial.bodies, spec.bodies, written.bodies, strict=True):
        row = compiled.id
        # The trial has the joints where the user has them.
        placed = np.any(model.jnt_pos[model.jnt_bodyid == row])
        body.simple = own.simple and not placed
        if row > 0 and model.body_mass[row] > 0:
            body.explicitinertial, body.ialt.type = True, mujoco.mjtOrientation.mjORIENTATION_QUAT
            body.fullinertia = np.full(6, np.nan)
            body.mass, body.ipos = model.body_mass[row], model.body_ipos[row]
            body.iquat, body.inertia = model.body_iquat[row], model.body_inertia[row]
    trial.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_AUTO
    trial.compiler.settotalmass = -1.0
    for target, value in values:
        if target.role is Role.FIELD and target.element_and_attribute[1] == 'armature':
            write_spec(trial, target, value)
    return trial


def simplify(written: mujoco.MjSpec, spec: mujoco.MjSpec, decided: mujoco.MjModel) -> bool:
    """Let the compiler call those bodies "simple" that are so with the values.

    Others than these must not be, or the values could not be written.

    Args:
        written: What is changed: the spec that was prepared for the values, and compiled.
        spec: The user's.
        decided: What the compiler makes of the values.

    Returns:
        Whether anything changed.
    """
    bodies = list(zip(spec.bodies, written.bodies, strict=True))
    again = [
        prepared
        for own, prepared in bodies
        if own.simple and not prepared.simple and decided.body_simple[prepared.id]
    ]
    for body in again:
        body.simple = True
    return bool(again)


def copy_trees(decided: mujoco.MjModel, model: mujoco.MjModel) -> None:
    """Arrange the boxes around geoms as the compiler does with the values."""
    for field in _TREES:
        getattr(model, field)[:] = getattr(decided, field)


def move_empty_frames(
    spec: mujoco.MjSpec, model: mujoco.MjModel, values: Sequence[tuple[Target, float]]
) -> None:
    """Move the inertial frames of bodies that have none of their own.

    The compiler gives a body without mass and geoms an inertial frame that is, in numbers, the
    body's own frame in its parent (MuJoCo 4.0). Nothing but a sensor of that frame sees it.
    """
    for target, _ in values:
        if (target.element, target.attribute) in POSES:
            row = target.row
            empty = model.body_mass[row] == 0 and model.body_geomnum[row] == 0
            if empty and not spec.body(target.name).explicitinertial:
                model.body_ipos[row] = model.body_pos[row]
                model.body_iquat[row] = model.body_quat[row]
