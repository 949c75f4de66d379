# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From a bag to the logs of a servo on a pendulum, or of a single joint that is like one."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from sysid_ros.alignment import align
from sysid_ros.alignment.health import GAP_PERIODS, GAP_S, SECOND_NS, dead_columns
from sysid_ros.alignment.mapping.pairing import channel_labels
from sysid_ros.alignment.pairs import (
    Mapping,
    Pair,
    PairRole,
    column_name,
    field_columns,
    raw_values,
    topic_columns,
)
from sysid_ros.bags import Field, TopicColumns, read_bag
from sysid_ros.config import ChannelMapping, MarkerConfig
from sysid_ros.errors import AlignmentError, nearest
from sysid_ros.servos.formats.logs import PERIOD, Commands, ServoLog, write_log
from sysid_ros.servos.laws.friction import CONSTANT_UNITS

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from sysid_ros.alignment import Alignment
    from sysid_ros.bags import BagColumns
    from sysid_ros.config import ServoBagConfig
    from sysid_ros.signals import TimeSeries
    from sysid_ros.signals.resampling import InterpolationMethod
    from sysid_ros.signals.trajectory import Trajectory

    Array = NDArray[np.float64]

#: The motor is on while there are commands.
COMMANDED = 'commanded'
#: Topic that `command_switch` adds to a bag; no topic of ROS is called like that.
_SWITCH = '/commands are numbers'
#: Field of joint states for each signal of a log.
_FIELDS = {'position': 'position', 'velocity': 'velocity', 'load': 'effort'}
#: A pendulum that covers less than this in every log tells nothing, rad.
_STILL = 0.01
#: The motor is on where its channel says more than this.
_ON = 0.5
#: Numbers that cannot be 0; the others cannot be negative.
_POSITIVE = ('mass', 'length', 'vin')


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
) -> dict[str, tuple[PairRole, ChannelMapping]]:
    """Return what each signal of a log is read from, with the joint's sign and zero applied.

    Velocity and effort of a joint are taken where they are recorded and not always the same.
    """
    found: dict[str, tuple[PairRole, ChannelMapping]] = {}
    for name, field in _FIELDS.items():
        channel = getattr(config, name)
        if channel is None and config.joint and _lives(bag, config, field):
            channel = ChannelMapping(topic=config.joint_states, field=field, label=config.joint)
        if channel is not None:
            found[name] = PairRole.SENSOR, _turned(config, channel, shifted=name == 'position')
    if config.control is not None:
        found['control'] = PairRole.SENSOR, _turned(config, config.control)
    if config.command is not None:
        found['goal'] = PairRole.ACTUATOR, _turned(config, config.command, shifted=True)
    if isinstance(config.torque_enable, ChannelMapping):
        found['enabled'] = PairRole.ACTUATOR, config.torque_enable
    elif config.torque_enable == COMMANDED:
        found['enabled'] = PairRole.ACTUATOR, ChannelMapping(topic=_SWITCH, field='data')
    for name, number in servo_numbers(config).items():
        if isinstance(number, ChannelMapping):
            found[name] = PairRole.ACTUATOR, number
    return found


def pair(bag: BagColumns, name: str, role: PairRole, channel: ChannelMapping) -> Pair:
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
    found = pair(bag, 'goal', PairRole.ACTUATOR, command)
    topic = topic_columns(bag, command.topic)
    on = np.isfinite(raw_values(bag, found)).astype(np.float64)
    header = np.zeros_like(topic.receive_ns) if topic.header_ns is None else topic.header_ns
    periods = np.diff(topic.receive_ns)
    median = float(np.median(periods)) if len(periods) else 0.0
    after = round(max(GAP_PERIODS * median, GAP_S * SECOND_NS))
    # Nobody knows what came after the last.
    silent = np.append(np.flatnonzero(periods > after), len(topic.receive_ns) - 1)
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


def align_servo(bag: BagColumns, config: ServoBagConfig) -> Alignment:
    """Return the runs of a servo in a bag with all that is to be said about their recording.

    Raises:
        AlignmentError: The bag has not what the configuration names.
    """
    for name in config.constants:
        if name not in CONSTANT_UNITS:
            hint = nearest(name, CONSTANT_UNITS, len(CONSTANT_UNITS))
            msg = f'No servo has a constant {name!r}; {hint}.'
            raise AlignmentError(msg)
    if config.torque_enable == COMMANDED and config.command is not None:
        bag = command_switch(bag, config.command)
    channels = servo_channels(bag, config)
    pairs = tuple(pair(bag, name, role, channel) for name, (role, channel) in channels.items())
    sensors = [item.name for item in pairs if item.role is PairRole.SENSOR]
    inputs = [item.name for item in pairs if item.role is PairRole.ACTUATOR]
    model = _model(sensors, inputs)
    mapping = Mapping(pairs, (), ())
    return align(bag, model, mapping, config.stamps, segments=config.segments)


def logs_of(bag: BagColumns, alignment: Alignment, config: ServoBagConfig) -> tuple[ServoLog, ...]:
    """Turn the runs of a servo into logs, one for each segment.

    They are raw ones, of the readings of the position and of the commands when they came. With
    ``dt`` they are evenly sampled, and positions are interpolated linearly, as velocities, load and
    control always are; goals and the motor's state are held until the next message. Numbers that
    come from a channel are its median during the log, or what was said last before it.

    Args:
        bag: Columns of the bag.
        alignment: From `align_servo`.
        config: What is where.

    Raises:
        AlignmentError: Nothing moves, a number is out of range, or a topic of texts is missing.
    """
    several = len(alignment.sequences) > 1
    logs = tuple(
        _log(bag, sequence, config, f'_{number:02d}' if several else '')
        for number, sequence in enumerate(alignment.sequences)
    )
    ranges = [float(np.ptp(log.position)) for log in logs]
    if max(ranges) < _STILL:
        what = config.joint or str(config.position and config.position.topic)
        msg = (
            f'Nothing moves in bag {alignment.bag!r}: expected {what!r} to cover {_STILL:g} rad or '
            f'more, found {max(ranges):.2g}.'
        )
        raise AlignmentError(msg)
    return logs


def convert_servo(
    path: Path, config: ServoBagConfig, output: Path
) -> tuple[Alignment, tuple[ServoLog, ...], tuple[Path, ...]]:
    """Write the logs of a bag into a folder.

    Args:
        path: The bag.
        config: What is where.
        output: The folder; it is made where there is none.

    Returns:
        What is to be said about the recording, the logs, and their files.

    Raises:
        SysidError: In one sentence, what is wrong; nothing was written.
    """
    bag = read_bag(path, servo_topics(config))
    alignment = align_servo(bag, config)
    logs = logs_of(bag, alignment, config)
    paths = tuple(output / f'{log.name}.json' for log in logs)
    for file, log in zip(paths, logs, strict=True):
        write_log(file, log)
    return alignment, logs, paths


def _model(sensors: list[str], inputs: list[str]) -> mujoco.MjModel:
    """Return a hinge with so many sensors and inputs: what columns are aligned with."""
    kinds = {'position': 'jointpos', 'velocity': 'jointvel'}
    measured = ''.join(
        f'<{kinds.get(name, "jointactuatorfrc")} name="{name}" joint="servo"/>' for name in sensors
    )
    driven = ''.join(f'<motor name="{name}" joint="servo"/>' for name in inputs)
    return mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body><joint name="servo"/><geom size=".1"/></body></worldbody>'
        f'<actuator>{driven}</actuator><sensor>{measured}</sensor></mujoco>'
    )


def _log(bag: BagColumns, run: Trajectory, config: ServoBagConfig, suffix: str) -> ServoLog:
    measured = _series(run, 'position')
    if measured is None:
        msg = f'Expected positions in {run.name!r}, found none.'
        raise AlignmentError(msg)
    first, last = measured.times[[0, -1]]
    if config.dt is None:
        times = np.unique(measured.times)
    else:
        # The small part keeps a last sample that floating point puts after the end.
        times = first + config.dt * np.arange(int((last - first) / config.dt + 1e-6) + 1)
    goal = _sampled(run, 'goal', times, 'zoh')
    enabled = _sampled(run, 'enabled', times, 'zoh')
    if enabled is None:
        enabled = np.full(len(times), float(config.torque_enable is not False))
    numbers = {name: _number(run, name, given) for name, given in servo_numbers(config).items()}
    for key, value in numbers.items():
        if value < 0 or (value == 0 and key in _POSITIVE):
            least = 'greater than 0' if key in _POSITIVE else 'of at least 0'
            msg = f'Expected a {key} {least} in {run.name!r}, found {value:g}.'
            raise AlignmentError(msg)
    trajectory = _text(bag, run, config.trajectory)
    label = '_'.join(filter(None, (f'{run.bag}{suffix}', trajectory, f'kp{numbers["kp"]:g}')))
    return ServoLog(
        name=re.sub(r'[^\w.-]+', '_', label),
        motor=config.motor,
        trajectory=trajectory,
        mass=numbers.pop('mass'),
        arm_mass=numbers.pop('arm_mass'),
        length=numbers.pop('length'),
        constants=numbers,
        dt=PERIOD if config.dt is None else config.dt,
        position=measured.get(times)[1][:, 0],
        goal=np.zeros(len(times)) if goal is None else goal,
        enabled=(enabled > _ON).astype(np.float64),
        speed=_sampled(run, 'velocity', times, 'linear'),
        load=_sampled(run, 'load', times, 'linear'),
        control=_sampled(run, 'control', times, 'linear'),
        stamps=times - first if config.dt is None else None,
        commands=_commands(run, first, last, enabled[0]) if config.dt is None else None,
    )


def _commands(run: Trajectory, first: float, last: float, enabled: float) -> Commands:
    """Return what was told from the first reading to the last, at the times of the commands."""
    told = [series for name in ('goal', 'enabled') if (series := _series(run, name)) is not None]
    every = np.unique(np.concatenate([[first], *(series.times for series in told)]))
    times = every[(every >= first) & (every <= last)]
    goal, on = (_sampled(run, name, times, 'zoh') for name in ('goal', 'enabled'))
    return Commands(
        times - first,
        np.zeros(len(times)) if goal is None else goal,
        np.full(len(times), enabled) if on is None else (on > _ON).astype(np.float64),
    )


def _series(run: Trajectory, name: str) -> TimeSeries | None:
    for series in (*run.measurements, *run.commands):
        if name in series.signal_mapping:
            return series.slice_by_name([name])
    return None


def _sampled(run: Trajectory, name: str, times: Array, method: InterpolationMethod) -> Array | None:
    """Return the (n,) values of a signal at times, None where a run has it not."""
    series = _series(run, name)
    return None if series is None else series.get(times, method)[1][:, 0]


def _number(run: Trajectory, name: str, given: float | ChannelMapping) -> float:
    """Return a constant, or the median of a channel."""
    series = _series(run, name)
    if not isinstance(given, ChannelMapping):
        return given
    if series is None:
        msg = f'Expected the {name} in {run.name!r}, found none.'
        raise AlignmentError(msg)
    values = series.data[:, 0]
    inside = values[(series.times >= 0) & (series.times <= run.duration)]
    return float(np.median(inside) if len(inside) else values[series.times < 0][-1])


def _text(bag: BagColumns, run: Trajectory, given: str) -> str:
    """Return a text, or what a topic said last when the run began."""
    if not given.startswith('/'):
        return given
    topics = {column.topic: column for column in bag.text_columns}
    if given not in topics:
        msg = f'The bag {run.bag!r} has no texts on topic {given!r}; {nearest(given, topics)}.'
        raise AlignmentError(msg)
    said = topics[given]
    row = int(np.searchsorted(said.receive_ns, run.origin_ns, side='right')) - 1
    return said.texts[row] if row >= 0 else ''
