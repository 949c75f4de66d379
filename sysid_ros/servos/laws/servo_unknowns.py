# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of the servos of a robot as unknowns of an identification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysid_ros.errors import ParameterError, nearest
from sysid_ros.model.targets import resolve
from sysid_ros.model.unknown import Unknown
from sysid_ros.servos.laws.coefficients import Coefficient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sysid_ros.model.targets import Target
    from sysid_ros.servos.laws.joints import ServoJoints
    from sysid_ros.servos.laws.servo_drive import ServoDrive

_ARMATURE = 'armature'
#: Of a pendulum, not of a joint.
_OFFSET = 'q_offset'


def servo_unknowns(
    joints: ServoJoints, names: Sequence[str] | None = None, *, shared: bool = False
) -> tuple[Unknown, ...]:
    """Make unknowns of coefficients of servos.

    They start at the values of the drives, and their bounds are those of the coefficients, widened
    to hold the start. The armature is that of the joint.

    Args:
        joints: The driven joints.
        names: The coefficients; all that the servos have unless given.
        shared: Whether all actuators of a drive share a value. Else each has its own.

    Raises:
        ParameterError: No servo has such a coefficient.
    """
    _check_names(joints, names)
    found: list[Unknown] = []
    for drive in joints.drives:
        for name, usual in fitted(drive, joints).items():
            if names is not None and name not in names:
                continue
            targets = [_target(joints, actuator, name) for actuator in drive.actuators]
            if shared and len(targets) > 1:
                label = f'actuator/{{{",".join(drive.actuators)}}}/{name}'
                found.append(Unknown(label, tuple(targets), *usual))
            else:
                found.extend(Unknown(target.path, (target,), *usual) for target in targets)
    return tuple(found)


def start_of(joints: ServoJoints, target: Target) -> Coefficient:
    """Return where a number of a law starts, and how far it may go.

    Args:
        joints: The driven joints.
        target: Such as ``actuator/elbow/kt``.

    Raises:
        ParameterError: No servo drives the actuator, or it has no such number.
    """
    drive = joints.drive_of(target.name)
    usual = fitted(drive, joints)
    if target.attribute not in usual:
        msg = (
            f'The servo {drive.servo.name!r} of actuator {target.name!r} has no '
            f'{target.attribute!r}; {nearest(target.attribute, usual)}.'
        )
        raise ParameterError(msg)
    return usual[target.attribute]


def fitted(drive: ServoDrive, joints: ServoJoints) -> dict[str, Coefficient]:
    """Return the coefficients of a drive: starts and bounds by name."""
    found = {}
    for name, (_, low, high) in drive.servo.coefficients.items():
        if name == _OFFSET:
            continue
        if name in drive.values:
            start = float(drive.values[name])
        elif name == _ARMATURE:  # that of the model
            dof = joints.dofs[joints.place(drive.actuators[0])]
            start = float(joints.model.dof_armature[dof])
        else:
            start = drive.numbers[name]
        found[name] = Coefficient(start, min(low, start), max(high, start))
    return found


def _target(joints: ServoJoints, actuator: str, name: str) -> Target:
    path = f'actuator/{actuator}/{name}'
    if name == _ARMATURE:
        path = f'joint/{joints.joints[joints.place(actuator)]}/{name}'
    (target,) = resolve(path, joints.model)
    return target


def _check_names(joints: ServoJoints, names: Sequence[str] | None) -> None:
    known = {name for drive in joints.drives for name in fitted(drive, joints)}
    for name in names or ():
        if name not in known:
            msg = f'No servo here has the coefficient {name!r}; {nearest(name, sorted(known))}.'
            raise ParameterError(msg)
