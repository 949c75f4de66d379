# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a bag says what drove the robot: without that, a fit explains motion by nothing.

A model whose actuators are told nothing still moves, by gravity and from where it started, and its
parameters bend until that looks like the recording. So a bag is refused before any simulation when

- an actuator has no commands although its joint moves, or
- no joint goes where it is told to, as those of a robot whose motors are off.

Actuators that really were off are named in the configuration, ``undriven``, and exert nothing. So
are joints without an actuator, where the model could not say so.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.health import FindingKind, are_magnitudes
from sysid_ros.alignment.mapping.mechanism import Mechanism
from sysid_ros.alignment.pairs import (
    SENSOR_FIELDS,
    Mapping,
    Pair,
    PairRole,
    UnmappedKind,
    actuator_names,
    column_name,
    command_quantity,
    drives_joint,
    field_columns,
    scalar_joints,
    sensor_names,
    topic_columns,
)
from sysid_ros.bags import BagColumns
from sysid_ros.errors import ConfigError, FitError, nearest, some
from sysid_ros.pipeline.following import follows, likeness, values_of
from sysid_ros.rollout.inverse import transmissions
from sysid_ros.vocabulary import Quantity, is_command

#: A joint that stays within this of one place does not move, rad (2°) or m: brakes and servos give.
_MOVES = {True: 0.035, False: 0.005}
#: The spread of a signal is between these percentiles: single wrong values are no motion.
_SPREAD = (0.1, 99.9)
#: A joint that moves by less than this part of what it is told does not follow.
_FOLLOWS = 0.1
#: Another joint follows in its place from this correlation on.
_SURELY = 0.8
#: So many names are shown.
_SHOWN = 6
#: So many joints are described that do not follow.
_TOLD = 2
#: Groups of actuators that a model can switch off.
_GROUPS = 31


def switched_off(
    spec: mujoco.MjSpec,
    model: mujoco.MjModel,
    patterns: Sequence[str],
    servos: Sequence[str] = (),
) -> mujoco.MjSpec:
    """Return a copy of a model in which actuators are in a group that is off: they exert nothing.

    Args:
        spec: The nominal model, which is not changed.
        model: The same, compiled.
        patterns: Names or patterns of actuators, or of joints without one.
        servos: Names of those that laws of servos drive.

    Raises:
        ConfigError: A pattern matches no actuator or one that a servo drives, or all groups of
            actuators are in use.
    """
    names = [*actuator_names(model), *scalar_joints(model)]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            hint = nearest(pattern, filter(None, names))
            raise ConfigError(
                f'Expected an actuator of the model in undriven, found {pattern!r}; {hint}.'
            )
        driven = next((name for name in servos if fnmatchcase(name, pattern)), None)
        if driven is not None:
            raise ConfigError(f'Actuator {driven!r} is in servos and in undriven; choose one.')
    used = {int(group) for group in model.actuator_group}
    free = next((group for group in reversed(range(_GROUPS)) if group not in used), None)
    if free is None:
        raise ConfigError(
            f'All {_GROUPS} groups of actuators are in use: none is left to be undriven.'
        )
    copy = spec.copy()
    copy.option.disableactuator |= 1 << free
    for actuator in copy.actuators:
        if any(fnmatchcase(actuator.name, pattern) for pattern in patterns):
            actuator.group = free
    return copy


def without_undriven(mapping: Mapping, model: mujoco.MjModel) -> Mapping:
    """Return a mapping without commands for actuators that are off, and without complaints."""
    names = {name for actuator, name in enumerate(actuator_names(model)) if _off(model, actuator)}
    return Mapping(
        tuple(p for p in mapping.pairs if p.role is not PairRole.ACTUATOR or p.name not in names),
        mapping.unmapped,
        tuple(
            h
            for h in mapping.health
            if h.kind is not FindingKind.UNMAPPED or h.subject not in names
        ),
    )


def _off(model: mujoco.MjModel, actuator: int) -> bool:
    group = int(model.actuator_group[actuator])
    return bool(0 <= group < _GROUPS and int(model.opt.disableactuator) >> group & 1)


class _Silent(NamedTuple):
    """An actuator without commands, and how far its joint moves: NaN where nobody knows.

    In place of an actuator that a model does not have it is -1, and the name is the joint's.
    """

    actuator: int
    joint: int
    name: str
    motion: float
    unit: str


class NotToldError(FitError):
    """A bag holds no commands for an actuator, so that no simulation can explain it."""


def tells_forces(model: mujoco.MjModel, mapping: Mapping) -> bool:
    """Return whether the position of every joint is measured, and the force of each driven one."""
    measured = _measured(model, mapping)
    moved = np.any(np.nan_to_num(transmissions(model)), axis=0)
    driven = set(model.dof_jntid[moved].tolist())
    return (
        bool(driven)
        and set(measured) == set(range(model.njnt))
        and all(Quantity.POSITION in columns for columns in measured.values())
        and all(Quantity.EFFORT in measured[joint] for joint in driven)
    )


def check_driven(
    bag: BagColumns, model: mujoco.MjModel, mapping: Mapping, undriven: Sequence[str] = ('*',)
) -> None:
    """Refuse a bag that does not say what drove the robot.

    Args:
        bag: Columns of the bag.
        model: The compiled model; its actuators that are off need no commands.
        mapping: Which column is what.
        undriven: Names or patterns of joints that are known to have no actuator; `*` where the
            model says so itself, which a URDF cannot.

    Raises:
        NotToldError: An actuator has no commands although its joint moves, or none has any and no
            other joint is known to swing alone.
        FitError: No joint follows its commands.
    """
    measured = _measured(model, mapping)
    told = {pair.name: pair for pair in mapping.pairs if pair.role is PairRole.ACTUATOR}
    names = actuator_names(model)
    driven = {_joint_of(model, a) for a, name in enumerate(names) if name in told} - {-1}
    candidates = [
        (actuator, joint, name or '(unnamed)')
        for actuator, name in enumerate(names)
        if name not in told
        and (joint := _joint_of(model, actuator)) not in driven
        and not _off(model, actuator)
    ]
    have = {_joint_of(model, actuator) for actuator in range(len(names))}
    candidates += [
        (-1, joint.id, joint.name)
        for joint in Mechanism(model).joints
        if joint.id in measured and joint.id not in have
        if not any(fnmatchcase(joint.name, pattern) for pattern in undriven)
    ]
    silent = []
    for actuator, joint, name in candidates:
        hinge = joint >= 0 and bool(model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE)
        pair = measured.get(joint, {}).get(Quantity.POSITION)
        motion = float('nan') if pair is None else _spread(values_of(bag, pair))
        silent.append(_Silent(actuator, joint, name, motion, 'rad' if hinge else 'm'))
    refused = [item for item in silent if item.motion > _MOVES[item.unit == 'rad']]
    if not told and (refused or not _swings(bag, model, measured, silent)):
        refused = silent
    if refused:
        raise NotToldError(_told_nothing(bag, model, mapping, refused, measured))
    _check_followed(bag, model, told, measured)


def _joint_of(model: mujoco.MjModel, actuator: int) -> int:
    """Return the joint that an actuator drives, -1 for other transmissions."""
    return int(model.actuator_trnid[actuator, 0]) if drives_joint(model, actuator) else -1


def _measured(model: mujoco.MjModel, mapping: Mapping) -> dict[int, dict[Quantity, Pair]]:
    """Return joint to what is measured of it, and by which column."""
    found: dict[int, dict[Quantity, Pair]] = {}
    sensors = sensor_names(model)
    for pair in mapping.pairs:
        if pair.role is PairRole.SENSOR:
            sensor = sensors.index(pair.name)
            quantity = SENSOR_FIELDS.get(mujoco.mjtSensor(model.sensor_type[sensor]))
            if quantity is not None:
                found.setdefault(int(model.sensor_objid[sensor]), {})[quantity] = pair
    return found


def _swings(
    bag: BagColumns,
    model: mujoco.MjModel,
    measured: MappingOf[int, MappingOf[Quantity, Pair]],
    silent: Sequence[_Silent],
) -> bool:
    """Whether joints without an actuator move while all those with one are known to stand still."""
    if any(np.isnan(item.motion) for item in silent):
        return False
    return any(
        Quantity.POSITION in columns
        and _spread(values_of(bag, columns[Quantity.POSITION]))
        > _MOVES[bool(model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE)]
        for joint, columns in measured.items()
    )


def _spread(values: NDArray[np.float64]) -> float:
    """Return how far values are apart; 0 where there are none."""
    known = values[np.isfinite(values)]
    return float(np.subtract(*np.percentile(known, _SPREAD[::-1]))) if len(known) else 0.0


def _told_nothing(
    bag: BagColumns,
    model: mujoco.MjModel,
    mapping: Mapping,
    silent: Sequence[_Silent],
    measured: MappingOf[int, MappingOf[Quantity, Pair]],
) -> str:
    """Say which actuators are told nothing, and what to do."""
    names = some((item.name for item in silent), _SHOWN)
    most = max(silent, key=lambda item: item.motion if item.motion > 0 else -1.0)
    moves = ''
    if most.motion > 0:
        whose = 'whose joint moves by' if len(silent) == 1 else 'whose joints move by up to'
        moves = f', {whose} {most.motion:.2g} {most.unit}'
    # Another column of a joint that has commands is no command of a joint that has none.
    known = tuple(f'[{pair.label}]' for pair in mapping.pairs if pair.role is PairRole.ACTUATOR)
    unused = next(
        (
            item
            for item in mapping.unmapped
            if is_command(item.name)
            and (
                item.kind is UnmappedKind.TOPIC
                or (item.kind is UnmappedKind.COLUMN and not item.name.endswith(known))
            )
        ),
        None,
    )
    hint = f' ({unused.name} is not used: {unused.reason})' if unused else ''
    every = len(silent) >= model.nactuator
    off = "'*'" if every else ', '.join(item.name for item in silent)
    return (
        f'Expected commands for every actuator in bag {bag.path.name!r}, found none for '
        f'{names}{moves}{hint}: record them or map them, as `sysid map BAG MODEL` proposes'
        f'{_by_efforts(bag, model, silent, measured)}; if the motors were off, say '
        f'undriven: [{off}] in the configuration.'
    )


def _by_efforts(
    bag: BagColumns,
    model: mujoco.MjModel,
    silent: Sequence[_Silent],
    measured: MappingOf[int, MappingOf[Quantity, Pair]],
) -> str:
    """Say how measured efforts can drive the model, where there are any."""
    for item in silent:
        if item.actuator < 0:
            continue
        columns = measured.get(item.joint, {})
        pair = columns.get(Quantity.EFFORT) or columns.get(Quantity.POSITION)
        field = None
        if pair is not None:
            field = field_columns(topic_columns(bag, pair.topic), Quantity.EFFORT.value)
        if pair is None or field is None or pair.label not in field.labels or are_magnitudes(field):
            continue
        if not _spread(field.values[:, field.labels.index(pair.label)]) > 0:
            continue
        if command_quantity(model, item.actuator) is not Quantity.EFFORT:
            return (
                '; the efforts that were measured could drive motors, but the actuators of the '
                'model are servos'
            )
        joint = Mechanism(model).driven.get(item.actuator)
        slope = joint.drive.slope if joint and joint.drive and joint.drive.known else 1
        channel = f"'{column_name(pair.topic, field.name, pair.label)}'"
        if slope != 1:
            column = f'topic: {pair.topic}, field: {field.name}, label: {pair.label}'
            channel = f'{{{column}, scale: {slope:.6g}}}'
        return (
            ', or let the measured efforts drive the model, under actuators of the mapping '
            f'`{item.name}: {channel}`'
        )
    return ''


def _check_followed(
    bag: BagColumns,
    model: mujoco.MjModel,
    told: MappingOf[str, Pair],
    measured: MappingOf[int, MappingOf[Quantity, Pair]],
) -> None:
    """Refuse a bag in which joints are told where to go, and none goes there.

    Raises:
        FitError: It is such a bag.
    """
    still = []
    for joint in Mechanism(model).joints:
        drive, columns = joint.drive, measured.get(joint.id, {})
        if drive is None or not drive.known or drive.commanded is not Quantity.POSITION:
            continue
        command, position = told.get(drive.name), columns.get(Quantity.POSITION)
        if command is None or position is None:
            continue
        asked = _spread(values_of(bag, command)) / abs(drive.slope)
        if asked <= _MOVES[joint.hinge]:
            continue
        moved = _spread(values_of(bag, position))
        if moved > _FOLLOWS * asked and follows(bag, command, position):
            return
        unit = 'rad' if joint.hinge else 'm'
        others = (
            model.joint(other).name
            for other, own in measured.items()
            if other != joint.id
            and Quantity.POSITION in own
            and likeness(bag, command, own[Quantity.POSITION])[0] > _SURELY
        )
        instead = next((f', which {name} follows instead' for name in others), '')
        still.append(
            f'{joint.name} is told to move by {asked:.2g} {unit}{instead}, and moves by {moved:.2g}'
        )
    if still:
        raise FitError(
            f'No joint follows its commands in bag {bag.path.name!r}, {"; ".join(still[:_TOLD])}: '
            'record with the motors on, correct the mapping as `sysid map BAG MODEL` proposes, or '
            "say undriven: ['*'] in the configuration if the motors were off."
        )
