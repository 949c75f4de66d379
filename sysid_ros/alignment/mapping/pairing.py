# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Pairing the columns of a bag with the sensors and actuators of a model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import mujoco
import numpy as np

from sysid_ros.alignment.health import (
    UNSIGNED,
    FindingKind,
    HealthFinding,
    are_magnitudes,
    dead_columns,
)
from sysid_ros.alignment.mapping import by_name as auto
from sysid_ros.alignment.mapping.arms import check_one_arm, find_arms, find_leaders
from sysid_ros.alignment.mapping.axes import AxesMotion, Axis, AxisColumn, make_motion, respond
from sysid_ros.alignment.mapping.drives import judged_at, velocity_response
from sysid_ros.alignment.mapping.mechanism import (
    Mechanism,
    contradiction,
    motion_bases,
    times_needed,
)
from sysid_ros.alignment.pairs import (
    SENSOR_FIELDS,
    Mapping,
    Pair,
    PairRole,
    Unmapped,
    UnmappedKind,
    actuator_names,
    column_name,
    field_columns,
    pair_columns,
    raw_values,
    scalar_joints,
    sensor_names,
    topic_columns,
)
from sysid_ros.bags import BagColumns
from sysid_ros.config import ChannelMapping, MappingConfig
from sysid_ros.errors import AlignmentError, nearest, some
from sysid_ros.vocabulary import Quantity

#: So many labels are named in a message.
_SHOWN = 6
#: How a complaint ends.
ADVICE = '`sysid map BAG MODEL` proposes a mapping'
#: Correlations above this are certain, below this there is none.
_CERTAIN, _NONE = 0.9, 0.3
#: Factors between a velocity and the derivative of its position that no noise explains.
_FACTOR = 3.0
#: Why an effort is left out beside one that is no torque: a driver has one unit for all hinges, and
#: one for all slides.
_OTHERS = 'others of its message are no torques'
#: Positions that are outside of a range by more than its width for half of the time are no radians.
_HALF = 0.5


def map_columns(
    bag: BagColumns, model: mujoco.MjModel, mapping: Literal['auto'] | MappingConfig
) -> Mapping:
    """Pair a bag with a model.

    Args:
        bag: Columns of the bag.
        model: The compiled model.
        mapping: ``'auto'`` pairs by the joint names in both and by what the model's sensors and
            actuators refer to, never by order; a mapping pairs what it names and nothing else.

    Raises:
        AlignmentError: Nothing can be paired, the data contradict the names, or the mapping names
            what is not there.
    """
    if mapping == 'auto':
        leaders = find_leaders(bag)
        check_one_arm(bag, find_arms(bag, leaders), list(scalar_joints(model)))
        found = _checked(bag, model, auto.auto_mapping(bag, model, leaders))
        axes, joints = _axes(bag, model, found.pairs)
        motion = make_motion(axes)
        reason = next(_contradictions(model, axes, joints, motion), None)
        if reason is not None:
            raise AlignmentError(f'Mapping by names cannot be right: {reason}; {ADVICE}.')
        return found if motion is None else _torques_only(bag, model, found, axes, joints, motion)
    widths = [int(width) for width in model.sensor_dim]
    pairs = [
        *_explicit(bag, PairRole.SENSOR, mapping.sensors, sensor_names(model), widths),
        *_explicit(
            bag, PairRole.ACTUATOR, mapping.actuators, actuator_names(model), [1] * model.nactuator
        ),
    ]
    if not mapping.sensors:
        raise AlignmentError(
            f'The mapping names no sensor; {nearest("", filter(None, sensor_names(model)))}.'
        )
    for pair in pairs:
        if not np.isfinite(raw_values(bag, pair)).any():
            channel = column_name(pair.topic, pair.field, pair.label)
            raise AlignmentError(
                f'The mapping pairs {pair.role.value} {pair.name!r} with {channel}, '
                'which has no finite value in the bag.'
            )
    health = [
        HealthFinding(
            bag.path.name,
            column_name(pair.topic, pair.field, pair.label),
            FindingKind.DEAD_CHANNEL,
            1,
            f'never changes; kept as {pair.name!r} because the mapping names it',
        )
        for pair in pairs
        if pair.role is PairRole.SENSOR
        and (pair.field, pair.label)
        in [(field.name, label) for field, label in dead_columns(topic_columns(bag, pair.topic))]
    ]
    return _completed(bag, model, Mapping(tuple(pairs), (), tuple(health)), 'not in the mapping')


def _explicit(
    bag: BagColumns,
    role: PairRole,
    channels: dict[str, ChannelMapping],
    names: list[str],
    widths: list[int],
) -> list[Pair]:
    for name in channels:
        if name not in names:
            hint = nearest(name, filter(None, names))
            raise AlignmentError(
                f'The mapping names {role.value} {name!r}, which the model does not have; {hint}.'
            )
    pairs = []
    for name in sorted(channels, key=names.index):
        channel = channels[name]
        labels = channel_labels(bag, f'{role.value} {name!r}', channel, widths[names.index(name)])
        pairs += [
            Pair(
                role,
                name,
                channel.topic,
                channel.field,
                label,
                channel.scale,
                channel.offset,
                component,
            )
            for component, label in enumerate(labels)
        ]
    return pairs


def channel_labels(
    bag: BagColumns, subject: str, channel: ChannelMapping, width: int
) -> tuple[str, ...]:
    """Return the columns that a mapping means for a subject with so many values.

    Raises:
        AlignmentError: The bag has no such topic, field or label, or not so many.
    """
    unread = {item.topic: item for item in bag.unread}
    topics = [item.topic for item in bag.topics]
    start = f'The mapping pairs {subject} with'
    if channel.topic not in topics:
        if channel.topic in unread:
            item = unread[channel.topic]
            msg = f'{start} topic {channel.topic!r} of type {item.msgtype}: {item.reason}.'
        else:
            hint = nearest(channel.topic, topics)
            msg = f'{start} topic {channel.topic!r}, which is not in the bag; {hint}.'
        raise AlignmentError(msg)
    topic = topic_columns(bag, channel.topic)
    field = field_columns(topic, channel.field)
    if field is None:
        hint = nearest(channel.field, [item.name for item in topic.fields])
        raise AlignmentError(
            f'{start} field {channel.field!r} of {channel.topic!r}, which it does not have; {hint}.'
        )
    where = f'{channel.topic} {channel.field}'
    chosen = channel.labels or ((channel.label,) if channel.label is not None else field.labels)
    for label in chosen:
        if label not in field.labels:
            hint = nearest(label, field.labels)
            raise AlignmentError(
                f'{start} label {label!r} of {where}, which it does not have; {hint}.'
            )
    if len(chosen) != width:
        values = 'one value' if width == 1 else f'{width} values'
        found = f'{len(chosen)} of {where} ({some(chosen, _SHOWN)})'
        raise AlignmentError(
            f'Expected {values} for {subject}, found {found}; {nearest("", field.labels)}.'
        )
    return chosen


def _without(
    bag: BagColumns, mapping: Mapping, why: dict[Pair, tuple[FindingKind, str]]
) -> Mapping:
    """Leave out pairs, and say why in findings."""
    health, unmapped = list(mapping.health), list(mapping.unmapped)
    for pair, (kind, detail) in why.items():
        channel = column_name(pair.topic, pair.field, pair.label)
        count = len(topic_columns(bag, pair.topic).receive_ns)
        text = f'{detail}; {pair.name!r} left out'
        health.append(HealthFinding(bag.path.name, channel, kind, count, text, left_out=pair.name))
        unmapped.append(Unmapped(UnmappedKind(pair.role.value), pair.name, f'{channel}: {detail}'))
    kept = tuple(pair for pair in mapping.pairs if pair not in why)
    return Mapping(kept, tuple(unmapped), tuple(health))


def _checked(bag: BagColumns, model: mujoco.MjModel, found: Mapping) -> Mapping:
    """Leave out columns that hold nothing, then complete the mapping."""
    dead = {
        (topic.topic, field.name, label)
        for topic in bag.topics
        for field, label in dead_columns(topic)
    }
    why: dict[Pair, tuple[FindingKind, str]] = {}
    for pair in found.pairs:
        if not np.isfinite(raw_values(bag, pair)).any():
            why[pair] = FindingKind.MISSING, 'no finite value in the whole bag'
        elif pair.role is PairRole.SENSOR and (pair.topic, pair.field, pair.label) in dead:
            why[pair] = FindingKind.DEAD_CHANNEL, 'never changes while others move'
        elif pair.field == Quantity.EFFORT and are_magnitudes(pair_columns(bag, pair)):
            why[pair] = FindingKind.NO_TORQUE, UNSIGNED
    mapping = _without(bag, found, why)
    if not any(pair.role is PairRole.SENSOR for pair in mapping.pairs):
        raise AlignmentError(
            f'No column of {bag.path.name!r} is usable as a measurement: '
            f'{mapping.health[-1].detail}.'
        )
    return _completed(bag, model, mapping, 'no column of the bag refers to it', tuple(why))


def _completed(
    bag: BagColumns,
    model: mujoco.MjModel,
    mapping: Mapping,
    reason: str,
    left_out: Sequence[Pair] = (),
) -> Mapping:
    """Name everything in bag and model that has no counterpart, with the reason of elements.

    Pairs that were found and left out have a finding already.
    """
    name = bag.path.name
    unmapped = list(mapping.unmapped)
    health = list(mapping.health)
    explained = {(item.kind.value, item.name) for item in unmapped}
    used = {(pair.role, pair.name) for pair in mapping.pairs}
    model_names = [(PairRole.SENSOR, item) for item in sensor_names(model)]
    model_names += [(PairRole.ACTUATOR, item) for item in actuator_names(model)]
    for role, item in model_names:
        if (role, item) in used or (role.value, item) in explained:
            continue
        unmapped.append(Unmapped(UnmappedKind(role.value), item or '(unnamed)', reason))
    health += [
        HealthFinding(
            name, item.name, FindingKind.UNMAPPED, 1, f'{item.reason}; its control stays 0'
        )
        for item in unmapped
        if item.kind is UnmappedKind.ACTUATOR
    ]
    columns = {(pair.topic, pair.field, pair.label) for pair in (*mapping.pairs, *left_out)}
    refused = {item.name for item in unmapped if item.kind is UnmappedKind.TOPIC}
    why = 'no sensor or actuator of the model refers to it'
    of_use = {topic for topic, _, _ in columns}
    for topic in bag.topics:
        if topic.topic in refused:
            continue
        if topic.topic not in of_use and topic.fields:
            unmapped.append(Unmapped(UnmappedKind.TOPIC, topic.topic, why))
            continue
        for field in topic.fields:
            for label in field.labels:
                if (topic.topic, field.name, label) not in columns:
                    channel = column_name(topic.topic, field.name, label)
                    unmapped.append(Unmapped(UnmappedKind.COLUMN, channel, why))
    unmapped += [Unmapped(UnmappedKind.TOPIC, item.topic, item.reason) for item in bag.unread]
    return Mapping(mapping.pairs, tuple(unmapped), tuple(health))


def _torques_only(
    bag: BagColumns,
    model: mujoco.MjModel,
    mapping: Mapping,
    axes: list[Axis],
    joints: list[int],
    motion: AxesMotion,
) -> Mapping:
    """Leave out efforts that are no torques by what the model needs, and their message's alike."""
    told = dict(_no_torques(model, axes, joints, motion))
    kinds = {
        _Column(column.topic, column.field, column.label): int(model.jnt_type[joint])
        for axis, joint in zip(axes, joints, strict=True)
        if not axis.commanded
        and joint >= 0
        and (column := axis.columns.get(Quantity.EFFORT)) is not None
    }
    wrong = {(column.topic, column.field, kinds[column]) for column in told}
    why = {
        pair: told.get(column, _OTHERS)
        for pair in mapping.pairs
        if pair.role is PairRole.SENSOR
        for column in [_Column(pair.topic, pair.field, pair.label)]
        if (pair.topic, pair.field, kinds.get(column)) in wrong
    }
    ordered = sorted(why.items(), key=lambda item: item[1] == _OTHERS)
    return _without(
        bag, mapping, {pair: (FindingKind.NO_TORQUE, detail) for pair, detail in ordered}
    )


class _Column(NamedTuple):
    topic: str
    field: str
    label: str


def _no_torques(
    model: mujoco.MjModel, axes: list[Axis], joints: list[int], motion: AxesMotion
) -> Iterator[tuple[_Column, str]]:
    """Yield the efforts that what the model needs contradicts."""
    mechanism, rows = Mechanism(model), judged_at(motion)
    places = {joint.id: index for index, joint in enumerate(mechanism.joints)}
    measured = {
        row: places[joint]
        for row, (axis, joint) in enumerate(zip(axes, joints, strict=True))
        if not axis.commanded and joint in places
    }
    moved = {
        place: motion.signals[row, Quantity.POSITION].at(rows)
        for row, place in measured.items()
        if (row, Quantity.POSITION) in motion.signals
    }
    if not mechanism.fixed or not moved:
        return
    torques = mechanism.needed(moved, len(rows))
    for row, place in measured.items():
        effort = motion.signals.get((row, Quantity.EFFORT))
        if effort is None or place not in moved:
            continue
        joint, bases = mechanism.joints[place], motion_bases(torques[:, place], moved[place])
        times = contradiction(joint, effort.values[rows], bases)
        if times is not None:
            column = axes[row].columns[Quantity.EFFORT]
            yield _Column(column.topic, column.field, column.label), times_needed(times)


def _contradictions(
    model: mujoco.MjModel, axes: list[Axis], joints: list[int], motion: AxesMotion | None
) -> Iterator[str]:
    """Yield what cannot be right about pairs by names, which have no scales and offsets."""
    yield from _out_of_range(model, axes, joints)
    if motion is None:
        return
    for row, axis in enumerate(axes):
        found = velocity_response(motion, row)
        if abs(found.correlation) > _CERTAIN:
            velocity = axis.columns[Quantity.VELOCITY].name
            position = axis.columns[Quantity.POSITION].name
            if found.correlation < 0:
                yield f'{velocity} runs against the derivative of {position}'
            elif abs(math.log(found.slope)) > math.log(_FACTOR):
                yield f'{velocity} is {found.slope:.3g} times the derivative of {position}'
    yield from _not_followed(axes, joints, motion)


def _axes(
    bag: BagColumns, model: mujoco.MjModel, pairs: tuple[Pair, ...]
) -> tuple[list[Axis], list[int]]:
    """Return the pairs as axes, and the joint of each."""
    found: dict[tuple[bool, int], Axis] = {}
    driven = Mechanism(model).driven
    sensors, actuators = sensor_names(model), actuator_names(model)
    for pair in pairs:
        if pair.role is PairRole.SENSOR:
            sensor = sensors.index(pair.name)
            quantity = SENSOR_FIELDS.get(mujoco.mjtSensor(model.sensor_type[sensor]))
            joint = int(model.sensor_objid[sensor])
        else:
            actuator = actuators.index(pair.name)
            if actuator not in driven:
                continue
            (of, law), quantity = driven[actuator], Quantity.POSITION
            joint = of.id
            # Gears and units of controls other than positions leave signs and factors open.
            if not law.known or law.slope <= 0 or law.commanded is not quantity:
                continue
        if quantity is None:
            continue
        key = pair.role is PairRole.ACTUATOR, joint
        axis = found.setdefault(key, Axis(model.joint(joint).name, key[0], {}))
        topic = topic_columns(bag, pair.topic)
        axis.columns[quantity] = AxisColumn.of(topic, pair_columns(bag, pair), pair.label)
    return list(found.values()), [joint for _, joint in found]


def _out_of_range(model: mujoco.MjModel, axes: list[Axis], joints: list[int]) -> Iterator[str]:
    for axis, joint in zip(axes, joints, strict=True):
        column = axis.columns.get(Quantity.POSITION)
        if column is None or axis.commanded or not model.jnt_limited[joint]:
            continue
        low, high = (float(value) for value in model.jnt_range[joint])
        width = high - low
        values = column.values[np.isfinite(column.values)]
        outside = (values < low - width) | (values > high + width)
        if len(values) and float(np.mean(outside)) > _HALF:
            hinge = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE
            found = f'from {values.min():.4g} to {values.max():.4g}'
            allowed = f'{low:.4g} to {high:.4g} {"rad" if hinge else "m"}'
            yield f'{column.name} runs {found}, the range of joint {axis.name!r} is {allowed}'


def _not_followed(axes: list[Axis], joints: list[int], motion: AxesMotion) -> Iterator[str]:
    """Look for commands that their joint goes against, or that another joint follows."""
    measured = {
        joints[row]: motion.signals[row, Quantity.POSITION].rate
        for row, axis in enumerate(axes)
        if not axis.commanded and (row, Quantity.POSITION) in motion.signals
    }
    names = {joints[row]: axis.name for row, axis in enumerate(axes)}
    for commanded, axis in enumerate(axes):
        command = motion.signals.get((commanded, Quantity.POSITION))
        joint = joints[commanded]
        if not axis.commanded or command is None or joint not in measured:
            continue
        own = respond(command.rate, measured[joint], motion).correlation
        name = axis.columns[Quantity.POSITION].name
        if own < -_CERTAIN:
            yield f'joint {axis.name!r} moves against its command {name}'
        if abs(own) >= _NONE:
            continue
        others = {
            of: abs(respond(command.rate, rate, motion).correlation)
            for of, rate in measured.items()
            if of != joint
        }
        best = max(others, key=lambda of: others[of], default=None)
        if best is not None and others[best] > _CERTAIN:
            yield f'joint {names[best]!r} follows the command {name}, not {axis.name!r}'
