# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The servos of a configuration: what drives the joints of a robot, and what is to be found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import mujoco

from sysid_ros.config import ServoConfig
from sysid_ros.errors import ConfigError, ParameterError, nearest
from sysid_ros.model.targets import Role, Target, resolve
from sysid_ros.model.unknown import Unknown
from sysid_ros.rollout.drives import no_law
from sysid_ros.servos.formats.parameter_file import read_parameters, write_parameters
from sysid_ros.servos.laws.friction import Coefficient
from sysid_ros.servos.laws.joints import ServoDrive, ServoJoints, starting_values
from sysid_ros.servos.laws.servo import Servo
from sysid_ros.text import file_stems

#: Of a pendulum, not of a joint of a robot.
_OFFSET = 'q_offset'
_ARMATURE = 'armature'


def joints_of(entries: Sequence[ServoConfig], model: mujoco.MjModel) -> ServoJoints | None:
    """Return the joints that servos drive; None where there are no servos.

    Args:
        entries: The section ``servos`` of a configuration.
        model: The compiled nominal model.

    Raises:
        ConfigError: A pattern matches no actuator.
        ParameterError: A kind, law or coefficient is unknown, or an actuator cannot be driven so.
    """
    if not entries:
        return None
    return ServoJoints(model, [_drive(entry, model) for entry in entries])


def unknowns_of(
    entries: Sequence[ServoConfig], model: mujoco.MjModel, given: Sequence[Unknown]
) -> Iterator[Unknown]:
    """Yield the coefficients that entries want to be found, but those that are given already."""
    known = {target.path for unknown in given for target in unknown.targets}
    for entry in entries:
        if entry.identify == 'none':
            continue
        names = None if entry.identify == 'all' else entry.identify
        joints = ServoJoints(model, [_drive(entry, model)])
        for unknown in servo_unknowns(joints, names, shared=entry.shared):
            if not known & {target.path for target in unknown.targets}:
                yield unknown


def usual(joints: ServoJoints | None, target: Target) -> Coefficient | None:
    """Return where a number of a law starts, and its bounds; None for what is of no law.

    Raises:
        ParameterError: No servo drives the actuator, or it has no such number.
    """
    if target.role is not Role.LAW:
        return None
    if joints is None:
        raise no_law(target)
    return start_of(joints, target)


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
    known = {name for drive in joints.drives for name in fitted(drive, joints)}
    for name in names or ():
        if name not in known:
            raise ParameterError(
                f'No servo here has the coefficient {name!r}; {nearest(name, sorted(known))}.'
            )
    found: list[Unknown] = []
    for drive in joints.drives:
        for name, usual in fitted(drive, joints).items():
            if names is not None and name not in names:
                continue
            targets: list[Target] = []
            for actuator in drive.actuators:
                path = f'actuator/{actuator}/{name}'
                if name == _ARMATURE:
                    path = f'joint/{joints.joints[joints.place(actuator)]}/{name}'
                targets.extend(resolve(path, joints.model))
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
        raise ParameterError(
            f'The servo {drive.servo.name!r} of actuator {target.name!r} has no '
            f'{target.attribute!r}; {nearest(target.attribute, usual)}.'
        )
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


def write_servos(folder: Path, joints: ServoJoints, values: Mapping[str, float]) -> list[Path]:
    """Write a file of coefficients for each driven actuator.

    Args:
        folder: Where to.
        joints: The driven joints.
        values: Path of a target to its value; coefficients that are missing are the servo's.

    Returns:
        The new files, in the order of the actuators.
    """
    made = []
    stems = file_stems(joints.actuators)
    for actuator, joint, stem in zip(joints.actuators, joints.joints, stems, strict=True):
        drive = joints.drive_of(actuator)
        dof = joints.dofs[joints.place(actuator)]
        found = {**starting_values(drive.servo), **drive.values, _OFFSET: 0.0}
        found['armature'] = float(joints.model.dof_armature[dof])
        for name, start in found.items():
            element = f'joint/{joint}' if name == 'armature' else f'actuator/{actuator}'
            found[name] = values.get(f'{element}/{name}', start)
        file = folder / f'{stem}.json'
        write_parameters(file, drive.servo, {n: found[n] for n in drive.servo.coefficients})
        made.append(file)
    return made


def _drive(entry: ServoConfig, model: mujoco.MjModel) -> ServoDrive:
    """Return the servos of an entry, with the coefficients that they start from."""
    values: dict[str, float] = {}
    if entry.params is not None:
        servo, values = read_parameters(entry.params, entry.type)
        # The command delay of the pendulum's logs is not the robot's.
        servo = Servo(servo.type, servo.friction)
        values.pop(_OFFSET, None)
        if entry.model is not None and entry.model != servo.friction.name:
            servo = Servo.named(entry.type or servo.type.name, entry.model)
    else:
        assert entry.type is not None  # noqa: S101 (the configuration is complete)
        assert entry.model is not None  # noqa: S101
        servo = Servo.named(entry.type, entry.model)
    started = starting_values(servo)
    started.pop(_OFFSET, None)
    return ServoDrive(
        _actuators(entry, model),
        servo,
        {**started, **{n: v for n, v in values.items() if n in started}, **entry.values},
        entry.constants,
    )


def _actuators(entry: ServoConfig, model: mujoco.MjModel) -> tuple[str, ...]:
    names = [model.actuator(row).name for row in range(model.nactuator)]
    found: dict[str, None] = {}
    for pattern in entry.actuators:
        matches = [name for name in names if fnmatchcase(name, pattern)]
        if not matches:
            raise ConfigError(
                f'No actuator matches {pattern!r} in servos; {nearest(pattern, names)}.'
            )
        found.update(dict.fromkeys(matches))
    return tuple(found)
