# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which columns of a bag are a servo's position, goal, switch and numbers."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.alignment.health import GAP_PERIODS, GAP_S, SECOND_NS, dead_columns
from sysid_ros.alignment.mapping.pairing import channel_labels
from sysid_ros.alignment.pairs import (
    Pair,
    Role,
    column_name,
    field_columns,
    raw_values,
    topic_columns,
)
from sysid_ros.bags import Field, TopicColumns
from sysid_ros.config import ChannelMapping, MarkerConfig
from sysid_ros.errors import AlignmentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.bags import BagColumns
    from sysid_ros.config import ServoBagConfig

#: The motor is on while there are commands.
COMMANDED = 'commanded'
#: Topic that `command_switch` adds to a bag; no topic of ROS is called like that.
_SWITCH = '/commands are numbers'
#: Field of joint states for each signal of a log.
_FIELDS = {'position': 'position', 'velocity': 'velocity', 'load': 'effort'}


def servo_topics(config: ServoBagConfig) -> tuple[str, ...]:
    """Return the topics that a configuration needs."""
    given = (
        config.position,
        config.velocity,
        config.load,
        config.control,
        config.command,
        config.torque_enable,
        config.segments.marker,
        config.segments.contacts,
        *servo_numbers(config).values(),
    )
    topics = [item.topic for item in given if isinstance(item, (ChannelMapping, MarkerConfig))]
    topics += [config.joint_states] if config.joint else []
    topics += [config.trajectory] if config.trajectory.startswith('/') else []
    return tuple(dict.fromkeys(topics))


def servo_numbers(config: ServoBagConfig) -> dict[str, float | ChannelMapping]:
    """Return what a log says once, by name."""
    numbers = {name: getattr(config, name) for name in ('mass', 'arm_mass', 'length', 'kp', 'vin')}
    given = {name: value for name, value in numbers.items() if value is not None}
    return {**given, **config.constants}


def servo_channels(
    bag: BagColumns, config: ServoBagConfig
) -> dict[str, tuple[Role, ChannelMapping]]:
    """Return what each signal of a log is read from, with the joint's sign and zero applied.

    Velocity and effort of a joint are taken where they are recorded and not always the same.
    """
    found: dict[str, tuple[Role, ChannelMapping]] = {}
    for name, field in _FIELDS.items():
        channel = getattr(config, name)
        if channel is None and config.joint and _lives(bag, config, field):
            channel = ChannelMapping(topic=config.joint_states, field=field, label=config.joint)
        if channel is not None:
            found[name] = Role.SENSOR, _turned(config, channel, shifted=name == 'position')
    if config.control is not None:
        found['control'] = Role.SENSOR, _turned(config, config.control)
    if config.command is not None:
        found['goal'] = Role.ACTUATOR, _turned(config, config.command, shifted=True)
    if isinstance(config.torque_enable, ChannelMapping):
        found['enabled'] = Role.ACTUATOR, config.torque_enable
    elif config.torque_enable == COMMANDED:
        found['enabled'] = Role.ACTUATOR, ChannelMapping(topic=_SWITCH, field='data')
    for name, number in servo_numbers(config).items():
        if isinstance(number, ChannelMapping):
            found[name] = Role.ACTUATOR, number
    return found


def pair(bag: BagColumns, name: str, role: Role, channel: ChannelMapping) -> Pair:
    """Return the column that a channel means.

    Raises:
        AlignmentError: The bag has none, or nothing in it is a number.
    """
    (label,) = channel_labels(bag, f'the {name} of the servo', channel, 1)
    found = Pair(role, name, channel.topic, channel.field, label, channel.scale, channel.offset)
    if not np.isfinite(raw_values(bag, found)).any():
        where = column_name(channel.topic, channel.field, label)
        msg = f'The mapping pairs the {name} of the servo with {where}, which is never a number.'
        raise AlignmentError(msg)
    return found


def command_switch(bag: BagColumns, command: ChannelMapping) -> BagColumns:
    """Add a topic that says when commands are numbers and keep coming.

    Raises:
        AlignmentError: The bag has no such commands.
    """
    found = pair(bag, 'goal', Role.ACTUATOR, command)
    topic = topic_columns(bag, command.topic)
    on = np.isfinite(raw_values(bag, found)).astype(np.float64)
    header = np.zeros_like(topic.receive_ns) if topic.header_ns is None else topic.header_ns
    silent, after = _silences(topic.receive_ns)
    receive = np.concatenate([topic.receive_ns, topic.receive_ns[silent] + after])
    # A stamp of zero says that there is none.
    stamps = np.where(header[silent] == 0, 0, header[silent] + after)
    header = np.concatenate([header, stamps])
    values = np.concatenate([on, np.zeros(len(silent))])
    order = np.argsort(receive, kind='stable')
    switch = TopicColumns(
        _SWITCH,
        'std_msgs/msg/Bool',
        receive[order],
        None if topic.header_ns is None else header[order],
        (Field('data', ('',), values[order, None]),),
    )
    return dataclasses.replace(bag, topics=(*bag.topics, switch))


def _silences(times_ns: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Return the messages that none follows for long, and how long that is, ns."""
    periods = np.diff(times_ns)
    median = float(np.median(periods)) if len(periods) else 0.0
    longest = round(max(GAP_PERIODS * median, GAP_S * SECOND_NS))
    # Nobody knows what came after the last.
    return np.append(np.flatnonzero(periods > longest), len(times_ns) - 1), longest


def _lives(bag: BagColumns, config: ServoBagConfig, field: str) -> bool:
    """Whether joint states have more than one number of the joint; its position is required."""
    if field == 'position':
        return True
    topic = next((item for item in bag.topics if item.topic == config.joint_states), None)
    columns = None if topic is None else field_columns(topic, field)
    if topic is None or columns is None or config.joint not in columns.labels:
        return False
    dead = [(item.name, label) for item, label in dead_columns(topic)]
    values = columns.values[:, columns.labels.index(config.joint)]
    return bool(np.isfinite(values).any()) and (field, config.joint) not in dead


def _turned(
    config: ServoBagConfig, channel: ChannelMapping, *, shifted: bool = False
) -> ChannelMapping:
    """Apply the joint's sign, and its zero where that counts."""
    zero = config.zero if shifted else 0.0
    turned = {
        'scale': config.sign * channel.scale,
        'offset': config.sign * (channel.offset - zero),
    }
    return channel.model_copy(update=turned)
