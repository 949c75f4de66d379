# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What drives each joint of a compiled model, in the words of controllers."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import mujoco

from sysid_ros.export.lost import Lost, identified_lost
from sysid_ros.export.stored import Stored
from sysid_ros.model.joints import SCALAR_JOINTS, TO_JOINT
from sysid_ros.model.targets import Target

#: Attributes of actuators that are in a law's gains.
_GAINS = frozenset({'kp', 'kv', 'gainprm', 'biasprm', 'gear'})


_CONSTANT = 'a constant force beside its command'


class Law(StrEnum):
    """What a drive is told."""

    POSITION = 'position'
    VELOCITY = 'velocity'
    EFFORT = 'effort'


@dataclass(frozen=True)
class JointDrive:
    """A hinge or slide and its one actuator, as seen at the joint, in SI units.

    Attributes:
        joint: Its name.
        actuator: Name of the actuator.
        slide: Whether the joint is a slide.
        law: What the actuator is told.
        stiffness: Effort per error of position, N·m/rad or N/m.
        damping: Effort against velocity that the actuator exerts, N·m·s/rad or N·s/m.
        effort: Least and largest effort, N·m or N; infinite where nothing limits it.
        delay: By which commands act later, s.
        armature: Of joint and actuator, kg·m² or kg.
        frictionloss: Of the joint, N·m or N.
        viscous: Passive damping of joint and actuator, N·m·s/rad or N·s/m.
    """

    joint: str
    actuator: str
    slide: bool
    law: Law
    stiffness: float
    damping: float
    effort: tuple[float, float]
    delay: float
    armature: float
    frictionloss: float
    viscous: float

    @property
    def limit(self) -> float | None:
        """The effort in either direction, of two the smaller; None where nothing limits it."""
        least = min(-self.effort[0], self.effort[1])
        return least if math.isfinite(least) else None


class Drives(NamedTuple):
    """The drives of a model, and what they do not say of it."""

    joints: tuple[JointDrive, ...]
    lost: tuple[Lost, ...]


def drives_of(stored: Stored, held: Container[str]) -> Drives:
    """Return what drives the joints of an identified model.

    Args:
        stored: The result.
        held: What a format holds of it: the names of fields of `JointDrive`.
    """
    model = stored.fitted
    names = {row: model.actuator(row).name for row in range(model.nactuator)}
    reasons = {row: _not_plain(model, row) for row in names}
    drives = [_drive(model, row) for row, reason in reasons.items() if not reason]
    lost = list(identified_lost(stored, _Held(drives, held)))
    lost += [
        Lost(f'actuator/{name}', bias, identified=True, why=_CONSTANT)
        for name, bias in stored.biases.items()
    ]
    told = {entry.name for entry in lost}
    lost += [
        Lost(f'actuator/{names[row]}', why=reason) for row, reason in reasons.items() if reason
    ]
    for drive in drives:
        lost += [entry for entry in _beyond(model, drive, held) if entry.name not in told]
    driven = {drive.joint for drive in drives}
    for row in range(model.njnt):
        name = model.joint(row).name
        if name not in driven and model.jnt_type[row] in SCALAR_JOINTS:
            lost.append(Lost(f'joint/{name}', why='no actuator of its own drives it'))
    return Drives(tuple(drives), tuple(lost))


class _Held:
    """Whether a format that holds some fields of drives holds a target."""

    def __init__(self, drives: list[JointDrive], held: Container[str]) -> None:
        self._joints = {drive.joint for drive in drives}
        self._actuators = {drive.actuator for drive in drives}
        self._held = held

    def __call__(self, target: Target) -> bool:
        element, attribute = target.element_and_attribute
        attribute = attribute.partition('[')[0]
        of_class = target.element == 'default'
        if element == 'joint' and (of_class or target.name in self._joints):
            names = {'armature': 'armature', 'frictionloss': 'frictionloss', 'damping': 'viscous'}
            return not target.index and names.get(attribute) in self._held
        if element == 'actuator' and (of_class or target.name in self._actuators):
            if attribute == 'forcerange':
                return 'effort' in self._held
            if attribute in {'armature', 'delay'}:
                return attribute in self._held
            return attribute in _GAINS and 'stiffness' in self._held
        return False


def _not_plain(model: mujoco.MjModel, row: int) -> str:
    """Say why an actuator is no plain drive of one joint; empty where it is."""
    if model.actuator_trntype[row] not in TO_JOINT:
        return 'it drives no single joint'
    joint = model.actuator_trnid[row, 0]
    if model.jnt_type[joint] not in SCALAR_JOINTS:
        return f'joint {model.joint(joint).name!r} is neither a hinge nor a slide'
    for other in range(model.nactuator):
        of_joint = model.actuator_trntype[other] in TO_JOINT
        if other != row and of_joint and model.actuator_trnid[other, 0] == joint:
            return f'{model.actuator(other).name!r} drives the same joint'
    return '' if _is_servo_or_motor(model, row) else 'it is neither a plain servo nor a motor'


def _is_servo_or_motor(model: mujoco.MjModel, row: int) -> bool:
    gain, bias = float(model.actuator_gainprm[row, 0]), model.actuator_biasprm[row, :3]
    fixed = model.actuator_gaintype[row] == mujoco.mjtGain.mjGAIN_FIXED and gain > 0
    if not fixed or model.actuator_dyntype[row] != mujoco.mjtDyn.mjDYN_NONE:
        return False
    if model.actuator_biastype[row] == mujoco.mjtBias.mjBIAS_NONE:
        return True
    position, velocity = bias[1] == -gain, bias[1] == 0 and bias[2] in {0, -gain}
    affine = model.actuator_biastype[row] == mujoco.mjtBias.mjBIAS_AFFINE
    return bool(affine and (position or velocity))


def _law(model: mujoco.MjModel, row: int) -> Law:
    if model.actuator_biastype[row] == mujoco.mjtBias.mjBIAS_NONE:
        return Law.EFFORT
    if model.actuator_biasprm[row, 1]:
        return Law.POSITION
    return Law.VELOCITY if model.actuator_biasprm[row, 2] else Law.EFFORT


def _drive(model: mujoco.MjModel, row: int) -> JointDrive:
    joint = int(model.actuator_trnid[row, 0])
    dof = int(model.jnt_dofadr[joint])
    law, gear = _law(model, row), float(model.actuator_gear[row, 0])
    gain = float(model.actuator_gainprm[row, 0])
    ranges = []
    if model.actuator_forcelimited[row]:
        ranges.append(gear * model.actuator_forcerange[row])
    control = int(model.actuator_ctrladr[row])
    if law is Law.EFFORT and model.actuator_ctrllimited[control]:
        ranges.append(gear * gain * model.actuator_ctrlrange[control])
    if model.jnt_actfrclimited[joint]:
        ranges.append(model.jnt_actfrcrange[joint])
    low = max((float(min(ends)) for ends in ranges), default=-math.inf)
    high = min((float(max(ends)) for ends in ranges), default=math.inf)
    # A force of the actuator acts times the gear, which is also what velocities are seen by.
    return JointDrive(
        joint=model.joint(joint).name,
        actuator=model.actuator(row).name,
        slide=bool(model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE),
        law=law,
        stiffness=gear**2 * gain if law is Law.POSITION else 0.0,
        damping=0.0 if law is Law.EFFORT else -(gear**2) * float(model.actuator_biasprm[row, 2]),
        effort=(low, high),
        delay=float(model.actuator_delay[row]),
        armature=float(model.dof_armature[dof] + gear**2 * model.actuator_armature[row]),
        frictionloss=float(model.dof_frictionloss[dof]),
        viscous=float(model.dof_damping[dof] + gear**2 * model.actuator_damping[row]),
    )


def _beyond(model: mujoco.MjModel, drive: JointDrive, held: Container[str]) -> Iterator[Lost]:
    """Yield what a model says of a driven joint, and a format that holds some fields does not."""
    joint, actuator = model.joint(drive.joint).id, model.actuator(drive.actuator).id
    dof = int(model.jnt_dofadr[joint])
    length = 'm' if drive.slide else 'rad'
    force = 'N' if drive.slide else 'N·m'
    fields = {
        f'joint/{drive.joint}/armature': (
            'armature',
            drive.armature,
            'kg' if drive.slide else 'kg·m²',
        ),
        f'joint/{drive.joint}/frictionloss': ('frictionloss', drive.frictionloss, force),
        f'joint/{drive.joint}/damping': ('viscous', drive.viscous, f'{force}·s/{length}'),
        f'joint/{drive.joint}/stiffness': ('', model.jnt_stiffness[joint], f'{force}/{length}'),
        f'actuator/{drive.actuator}/delay': ('delay', drive.delay, 's'),
    }
    for name, (field, value, unit) in fields.items():
        if field not in held and value:
            yield Lost(name, float(value), unit)
    if model.dof_dampingpoly[dof].any() or model.actuator_dampingpoly[actuator].any():
        yield Lost(f'joint/{drive.joint}/damping', why='its higher powers of the velocity')
    gear, constant = model.actuator_gear[actuator, 0], model.actuator_biasprm[actuator, 0]
    if constant and model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_AFFINE:
        yield Lost(f'actuator/{drive.actuator}', float(constant), why=_CONSTANT)
    if gear != 1:
        yield Lost(
            f'actuator/{drive.actuator}/gear',
            float(gear),
            why='the file is in units of the joint, so commands are, too',
        )
    low, high = drive.effort
    if 'effort' in held and -low != high:
        yield Lost(
            f'actuator/{drive.actuator}/forcerange',
            why=f'from {low:.6g} to {high:.6g} {force}; the smaller one is written',
        )
    control = int(model.actuator_ctrladr[actuator])
    if drive.law is not Law.EFFORT and model.actuator_ctrllimited[control]:
        low, high = model.actuator_ctrlrange[control]
        yield Lost(f'actuator/{drive.actuator}/ctrlrange', why=f'from {low:.6g} to {high:.6g}')
