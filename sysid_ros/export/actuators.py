# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What drives the joints of an identified model, by the keys of mjlab, IsaacLab, ros2_control."""

from __future__ import annotations

import math
from typing import NamedTuple

import mujoco
import yaml

from sysid_ros.export.stored import Stored
from sysid_ros.model.joints import SCALAR_JOINTS, TO_JOINT
from sysid_ros.vocabulary import Quantity

#: The keys of each program, and what of a `Drive` they are. IsaacLab: ``ImplicitActuatorCfg`` from
#: 2.3 on; mjlab: ``Builtin…ActuatorCfg``; ros2_control: gains of ``joint_trajectory_controller``.
KEYS = {
    'isaaclab': {
        'stiffness': 'stiffness',
        'damping': 'damping',
        'effort_limit_sim': 'effort',
        'armature': 'armature',
        'friction': 'frictionloss',
        'dynamic_friction': 'frictionloss',
        'viscous_friction': 'viscous',
    },
    'mjlab': {
        'stiffness': 'stiffness',
        'damping': 'damping',
        'effort_limit': 'effort',
        'armature': 'armature',
        'frictionloss': 'frictionloss',
        'viscous_damping': 'viscous',
        'delay': 'delay',
    },
    'ros2_control': {'p': 'stiffness', 'd': 'damping', 'u_clamp_max': 'effort'},
}
#: Attributes of targets, by element, and the fields of a `Drive` that they are in.
_FIELDS = {
    ('joint', 'armature'): 'armature',
    ('joint', 'frictionloss'): 'frictionloss',
    ('joint', 'damping'): 'viscous',
    ('actuator', 'armature'): 'armature',
    ('actuator', 'damping'): 'viscous',
    ('actuator', 'kp'): 'stiffness',
    ('actuator', 'kv'): 'damping',
    ('actuator', 'gear'): 'stiffness',
    ('actuator', 'forcerange'): 'effort',
    ('actuator', 'forcelimit'): 'effort',
    ('actuator', 'delay'): 'delay',
}
_HEAD = """\
# Identified drives of {source}, as seen at the joints: a gear is multiplied in.
# SI units, with rad or m by the joint. law says what the drive is told; stiffness is effort per
# error of position, damping effort against the velocity, effort the smaller limit of both
# directions, delay (s) by how much commands act later. What is not said is not limited.
# isaaclab: friction is an effort from Isaac Sim 5 on; damping acts on the error of velocity.
# mjlab: take the actuators out of the identified MJCF, as mjlab adds these; delays are whole steps.
# ros2_control: for controllers that are to do with efforts what the robot's servos do; a velocity
# servo's p is its damping.
"""


class Drive(NamedTuple):
    """A hinge or slide and its one actuator, as seen at the joint, in SI units.

    Attributes:
        joint: Its name.
        actuator: Name of the actuator.
        law: What the actuator is told.
        stiffness: Effort per error of position, N·m/rad or N/m.
        damping: Effort against velocity that the actuator exerts, N·m·s/rad or N·s/m.
        effort: Of both directions the smaller limit, N·m or N; None where nothing limits it.
        delay: By which commands act later, s.
        armature: Of joint and actuator, kg·m² or kg.
        frictionloss: Of the joint, N·m or N.
        viscous: Passive damping of joint and actuator, N·m·s/rad or N·s/m.
    """

    joint: str
    actuator: str
    law: Quantity
    stiffness: float
    damping: float
    effort: float | None
    delay: float
    armature: float
    frictionloss: float
    viscous: float


def drives_of(model: mujoco.MjModel) -> tuple[list[Drive], list[str]]:
    """Return the plain servos and motors of single joints, and why other actuators are none."""
    drives, notes = [], []
    for row in range(model.nactuator):
        reason = _not_plain(model, row)
        if reason:
            notes.append(f'{model.actuator(row).name!r} is left out: {reason}.')
        else:
            drives.append(_drive(model, row))
    return drives, notes


def actuators_text(drives: list[Drive], source: str) -> str:
    """Return YAML with the numbers of drives, by program, joint and key."""
    document: dict[str, dict[str, dict[str, str | float]]] = {}
    for program, keys in KEYS.items():
        document[program] = {}
        for drive in drives:
            found = {key: getattr(drive, field) for key, field in keys.items()}
            if program == 'ros2_control' and drive.law is Quantity.EFFORT:
                continue
            if program == 'ros2_control' and drive.law is Quantity.VELOCITY:
                found |= {'p': drive.damping, 'd': 0.0}
            # Nine digits at most: no identified value is known better.
            numbers = {key: float(f'{x:.9g}') for key, x in found.items() if x is not None}
            document[program][drive.joint] = {'law': str(drive.law), **numbers}
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    return _HEAD.format(source=' '.join(source.split())) + text


def held_by_actuators(stored: Stored, drives: list[Drive]) -> set[str]:
    """Return the paths of identified targets that are in the numbers of drives."""
    driven = {('joint', drive.joint) for drive in drives}
    driven |= {('actuator', drive.actuator) for drive in drives}
    return {
        target.path
        for target, _ in stored.values
        if target.element_and_attribute in _FIELDS
        and not (target.index and target.element_and_attribute[1] == 'damping')
        and (target.element == 'default' or (target.element, target.name) in driven)
    }


def _not_plain(model: mujoco.MjModel, row: int) -> str:
    """Say why an actuator is no plain drive of one joint; empty where it is."""
    joint = int(model.actuator_trnid[row, 0])
    if model.actuator_trntype[row] not in TO_JOINT or model.jnt_type[joint] not in SCALAR_JOINTS:
        return 'it drives no single hinge or slide'
    for other in range(model.nactuator):
        of_joint = model.actuator_trntype[other] in TO_JOINT
        if other != row and of_joint and model.actuator_trnid[other, 0] == joint:
            return f'{model.actuator(other).name!r} drives the same joint'
    gain, bias = float(model.actuator_gainprm[row, 0]), model.actuator_biasprm[row, :3]
    plain = (
        model.actuator_gaintype[row] == mujoco.mjtGain.mjGAIN_FIXED
        and gain > 0
        and model.actuator_dyntype[row] == mujoco.mjtDyn.mjDYN_NONE
        and (
            model.actuator_biastype[row] == mujoco.mjtBias.mjBIAS_NONE
            or bias[1] == -gain
            or (bias[1] == 0 and bias[2] in {0, -gain})
        )
    )
    return '' if plain else 'it is neither a plain servo nor a motor'


def _drive(model: mujoco.MjModel, row: int) -> Drive:
    joint = int(model.actuator_trnid[row, 0])
    dof, gear = int(model.jnt_dofadr[joint]), float(model.actuator_gear[row, 0])
    gain, law = float(model.actuator_gainprm[row, 0]), Quantity.EFFORT
    damped = 0.0
    if model.actuator_biastype[row] == mujoco.mjtBias.mjBIAS_AFFINE:
        stiff, damped = (float(bias) for bias in model.actuator_biasprm[row, 1:3])
        law = Quantity.POSITION if stiff else Quantity.VELOCITY if damped else Quantity.EFFORT
    ranges = []
    if model.actuator_forcelimited[row]:
        ranges.append(gear * model.actuator_forcerange[row])
    control = int(model.actuator_ctrladr[row])
    if law is Quantity.EFFORT and model.actuator_ctrllimited[control]:
        ranges.append(gear * gain * model.actuator_ctrlrange[control])
    if model.jnt_actfrclimited[joint]:
        ranges.append(model.jnt_actfrcrange[joint])
    limit = min((float(min(-min(ends), max(ends))) for ends in ranges), default=math.inf)
    # A force of the actuator acts times the gear, which is also what velocities are seen by.
    return Drive(
        joint=model.joint(joint).name,
        actuator=model.actuator(row).name,
        law=law,
        stiffness=gear**2 * gain if law is Quantity.POSITION else 0.0,
        damping=0.0
        if law is Quantity.EFFORT
        else -(gear**2) * float(model.actuator_biasprm[row, 2]),
        effort=limit if math.isfinite(limit) else None,
        delay=float(model.actuator_delay[row]),
        armature=float(model.dof_armature[dof] + gear**2 * model.actuator_armature[row]),
        frictionloss=float(model.dof_frictionloss[dof]),
        viscous=float(model.dof_damping[dof] + gear**2 * model.actuator_damping[row]),
    )
