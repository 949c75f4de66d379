# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Actuators of a model, whatever they are, as motors that exert the torque that they are told."""

from __future__ import annotations

import mujoco
import numpy as np

from sysid_ros.errors import ParameterError, nearest
from sysid_ros.model.targets import element_names

_SCALAR = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
_TO_JOINT = (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT)


def joint_actuator(model: mujoco.MjModel, name: str) -> int:
    """Return the row of an actuator of a hinge or slide joint.

    Raises:
        ParameterError: The model has no such actuator, or it is no such.
    """
    row = int(mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_ACTUATOR, name))
    if row < 0:
        known = element_names(model, 'actuator')
        msg = f'The model has no actuator {name!r}; {nearest(name, known)}.'
        raise ParameterError(msg)
    transmission = mujoco.mjtTrn(int(model.actuator_trntype[row]))
    target = 'a ' + transmission.name.removeprefix('mjTRN_').lower()
    if transmission in _TO_JOINT:
        joint = model.joint(int(model.actuator_trnid[row, 0]))
        kind = mujoco.mjtJoint(int(joint.type[0]))
        gear = model.actuator_gear[model.actuator_outadr[row], 0]
        if kind in _SCALAR and model.actuator_plugin[row] < 0 and gear:
            return row
        target = f'the {kind.name.removeprefix("mjJNT_").lower()} joint {joint.name!r}'
        if kind in _SCALAR:
            target += ' by a plugin' if gear else ' with a gear of 0'
    msg = f'Expected actuator {name!r} to drive a hinge or slide joint, found {target}.'
    raise ParameterError(msg)


def joint_actuators(model: mujoco.MjModel, joint: int) -> list[int]:
    """Return the rows of the actuators of a joint."""
    kinds = [kind.value for kind in _TO_JOINT]
    own = np.isin(model.actuator_trntype, kinds) & (model.actuator_trnid[:, 0] == joint)
    return [int(row) for row in np.flatnonzero(own)]


def make_motor(model: mujoco.MjModel, row: int) -> None:
    """Make an actuator one whose force is its control."""
    model.actuator_dyntype[row] = mujoco.mjtDyn.mjDYN_NONE
    model.actuator_gaintype[row] = mujoco.mjtGain.mjGAIN_FIXED
    model.actuator_biastype[row] = mujoco.mjtBias.mjBIAS_NONE
    for field_name in ('dynprm', 'biasprm', 'gainprm', 'damping', 'dampingpoly', 'armature'):
        getattr(model, f'actuator_{field_name}')[row] = 0.0
    model.actuator_gainprm[row, 0] = 1.0
    for field_name in ('forcelimited', 'actlimited', 'actearly'):
        getattr(model, f'actuator_{field_name}')[row] = False
    model.actuator_ctrllimited[model.actuator_ctrladr[row]] = False
    model.actuator_delay[row] = 0.0
    # An activation state stays in the layout of the model's data, and nothing reads it.
    model.actuator_actadr[row], model.actuator_actnum[row] = -1, 0
