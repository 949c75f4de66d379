# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Pairing the columns of a bag with the sensors and actuators of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from sysid_ros.alignment.health import HealthFinding, dead_columns
from sysid_ros.alignment.mapping import by_name as auto
from sysid_ros.alignment.mapping.proposal.checks import ADVICE, contradiction
from sysid_ros.alignment.pairs import (
    Mapping,
    Pair,
    Role,
    Unmapped,
    actuator_names,
    column_name,
    field_columns,
    raw_values,
    sensor_names,
    topic_columns,
)
from sysid_ros.errors import AlignmentError, nearest

if TYPE_CHECKING:
    import mujoco

    from sysid_ros.bags import BagColumns
    from sysid_ros.config import ChannelMapping, MappingConfig

#: So many labels are named in a message.
_SHOWN = 6


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
        found = _checked(bag, model, auto.auto_mapping(bag, model))
        reason = contradiction(bag, model, found.pairs)
        if reason is not None:
            msg = f'Mapping by names cannot be right: {reason}; {ADVICE}.'
            raise AlignmentError(msg)
        return found
    widths = [int(width) for width in model.sensor_dim]
    pairs = [
        *_explicit(bag, Role.SENSOR, mapping.sensors, sensor_names(model), widths),
        *_explicit(
            bag, Role.ACTUATOR, mapping.actuators, actuator_names(model), [1] * model.nactuator
        ),
    ]
    if not mapping.sensors:
        msg = f'The mapping names no sensor; {nearest("", filter(None, sensor_names(model)))}.'
        raise AlignmentError(msg)
    for pair in pairs:
        if not np.isfinite(raw_values(bag, pair)).any():
            channel = column_name(pair.topic, pair.field, pair.label)
            msg = (
                f'The mapping pairs {pair.role.value} {pair.name!r} with {channel}, '
                'which has no finite value in the bag.'
            )
            raise AlignmentError(msg)
    health = [
        HealthFinding(
            bag.path.name,
            column_name(pair.topic, pair.field, pair.label),
            'dead channel',
            1,
            f'never changes; kept as {pair.name!r} because the mapping names it',
        )
        for pair in pairs
        if pair.role is Role.SENSOR
        and (pair.field, pair.label)
        in [(field.name, label) for field, label in dead_columns(topic_columns(bag, pair.topic))]
    ]
    return _completed(bag, model, Mapping(tuple(pairs), (), tuple(health)), 'not in the mapping')


def _explicit(
    bag: BagColumns,
    role: Role,
    channels: dict[str, ChannelMapping],
    names: list[str],
    widths: list[int],
) -> list[Pair]:
    for name in channels:
        if name not in names:
            hint = nearest(name, filter(None, names))
            msg = f'The mapping names {role.value} {name!r}, which the model does not have; {hint}.'
            raise AlignmentError(msg)
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
    """Return the columns that a mapping means, one per value of its sensor or actuator.

    Args:
        bag: Columns of the bag.
        subject: What they are mapped to, for errors.
        channel: The mapping of that.
        width: How many values that has.

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
        msg = (
            f'{start} field {channel.field!r} of {channel.topic!r}, which it does not have; {hint}.'
        )
        raise AlignmentError(msg)
    where = f'{channel.topic} {channel.field}'
    chosen = channel.labels or ((channel.label,) if channel.label is not None else field.labels)
    for label in chosen:
        if label not in field.labels:
            hint = nearest(label, field.labels)
            msg = f'{start} label {label!r} of {where}, which it does not have; {hint}.'
            raise AlignmentError(msg)
    if len(chosen) != width:
        values = 'one value' if width == 1 else f'{width} values'
        found = f'{len(chosen)} of {where} ({_some(chosen)})'
        msg = f'Expected {values} for {subject}, found {found}; {nearest("", field.labels)}.'
        raise AlignmentError(msg)
    return chosen


def _some(labels: tuple[str, ...]) -> str:
    return ', '.join(labels[:_SHOWN]) + (', …' if len(labels) > _SHOWN else '')


def _checked(bag: BagColumns, model: mujoco.MjModel, found: Mapping) -> Mapping:
    """Leave out columns that hold nothing, then complete the mapping."""
    kept: list[Pair] = []
    unmapped = list(found.unmapped)
    health = list(found.health)
    dead = {
        column_name(topic.topic, field.name, label)
        for topic in bag.topics
        for field, label in dead_columns(topic)
    }
    for pair in found.pairs:
        channel = column_name(pair.topic, pair.field, pair.label)
        reason = None
        if not np.isfinite(raw_values(bag, pair)).any():
            reason = ('masked', 'no finite value in the whole bag')
        elif pair.role is Role.SENSOR and channel in dead:
            reason = ('dead channel', 'never changes while others move')
        if reason is None:
            kept.append(pair)
            continue
        kind, detail = reason
        count = len(topic_columns(bag, pair.topic).receive_ns)
        health.append(
            HealthFinding(bag.path.name, channel, kind, count, f'{detail}; {pair.name!r} left out')
        )
        unmapped.append(Unmapped(pair.role.value, pair.name, f'{channel}: {detail}'))
    if not any(pair.role is Role.SENSOR for pair in kept):
        msg = f'No column of {bag.path.name!r} is usable as a measurement: {health[-1].detail}.'
        raise AlignmentError(msg)
    mapping = Mapping(tuple(kept), tuple(unmapped), tuple(health))
    return _completed(bag, model, mapping, 'no column of the bag refers to it')


def _completed(bag: BagColumns, model: mujoco.MjModel, mapping: Mapping, reason: str) -> Mapping:
    """Name everything in bag and model that has no counterpart."""
    name = bag.path.name
    unmapped = list(mapping.unmapped)
    health = list(mapping.health)
    explained = {(item.kind, item.name) for item in unmapped}
    used = {(pair.role, pair.name) for pair in mapping.pairs}
    model_names = [(Role.SENSOR, item) for item in sensor_names(model)]
    model_names += [(Role.ACTUATOR, item) for item in actuator_names(model)]
    for role, item in model_names:
        if (role, item) in used or (role.value, item) in explained:
            continue
        unmapped.append(Unmapped(role.value, item or '(unnamed)', reason))
    health += [
        HealthFinding(name, item.name, 'unmapped', 1, f'{item.reason}; its control stays 0')
        for item in unmapped
        if item.kind == Role.ACTUATOR.value
    ]
    columns = {(pair.topic, pair.field, pair.label) for pair in mapping.pairs}
    refused = {item.name for item in unmapped if item.kind == 'topic'}
    left_out = {item.subject for item in health}
    why = 'no sensor or actuator of the model refers to it'
    of_use = {pair.topic for pair in mapping.pairs} | {item.partition('.')[0] for item in left_out}
    for topic in bag.topics:
        if topic.topic in refused:
            continue
        if topic.topic not in of_use and topic.fields:
            unmapped.append(Unmapped('topic', topic.topic, why))
            continue
        for field in topic.fields:
            for label in field.labels:
                channel = column_name(topic.topic, field.name, label)
                if (topic.topic, field.name, label) not in columns and channel not in left_out:
                    unmapped.append(Unmapped('column', channel, why))
    unmapped += [Unmapped('topic', item.topic, item.reason) for item in bag.unread]
    return Mapping(mapping.pairs, tuple(unmapped), tuple(health))
