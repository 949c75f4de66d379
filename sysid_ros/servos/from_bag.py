# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From a bag to the logs of a servo on a pendulum, or of a single joint that is like one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment import Alignment, align
from sysid_ros.alignment.health import dead_columns
from sysid_ros.alignment.pairing import channel_labels
from sysid_ros.alignment.pairs import (
    Mapping,
    Pair,
    PairRole,
    column_name,
    field_columns,
    raw_values,
)
from sysid_ros.bags import BagColumns
from sysid_ros.bags.reader import read_bag
from sysid_ros.config.schema import ChannelMapping, MarkerConfig
from sysid_ros.config.servos import ServoBagConfig
from sysid_ros.errors import AlignmentError, nearest
from sysid_ros.servos.logs import PERIOD, Commands, ServoLog, write_log
from sysid_ros.signals import Method, TimeSeries, Trajectory
from sysid_ros.simulation.servo import CONSTANT_UNITS

Array = NDArray[np.float64]

#: A pendulum that covers less than this in every log tells nothing, rad.
_STILL = 0.01


def convert_servo(
    path: Path, config: ServoBagConfig, output: Path
) -> tuple[Alignment, tuple[ServoLog, ...], tuple[Path, ...]]:
    """Write the logs of a bag into a folder, and return the recording's runs, logs, and files."""
    given = (
        *(config.position, config.velocity, config.command, config.torque_enable),
        *(config.segments.marker, config.segments.contacts),
    )
    topics = [item.topic for item in given if isinstance(item, (ChannelMapping, MarkerConfig))]
    topics += [config.joint_states] if config.joint else []
    bag = read_bag(path, tuple(dict.fromkeys(topics)))
    alignment = align_servo(bag, config)
    logs = logs_of(alignment, config)
    paths = tuple(output / f'{log.name}.json' for log in logs)
    for file, log in zip(paths, logs, strict=True):
        write_log(file, log)
    return alignment, logs, paths


def align_servo(bag: BagColumns, config: ServoBagConfig) -> Alignment:
    """Return the runs of a servo in a bag, and what was found about their recording.

    Raises:
        AlignmentError: The bag has not what the configuration names.
    """
    for name in config.constants:
        if name not in CONSTANT_UNITS:
            hint = nearest(name, CONSTANT_UNITS, len(CONSTANT_UNITS))
            raise AlignmentError(f'No servo has a constant {name!r}; {hint}.')
    pairs = []
    for name, role, channel in _channels(bag, config):
        (label,) = channel_labels(bag, f'the {name} of the servo', channel, 1)
        pair = Pair(role, name, channel.topic, channel.field, label, channel.scale, channel.offset)
        if not np.isfinite(raw_values(bag, pair)).any():
            where = column_name(channel.topic, channel.field, label)
            raise AlignmentError(
                f'The mapping pairs the {name} of the servo with {where}, which is never a number.'
            )
        pairs.append(pair)
    mapping = Mapping(tuple(pairs), (), ())
    return align(bag, _hinge(pairs), mapping, config.stamps, segments=config.segments)


def logs_of(alignment: Alignment, config: ServoBagConfig) -> tuple[ServoLog, ...]:
    """Turn the runs of a servo, from `align_servo`, into logs, one for each segment.

    They are raw ones, of the readings of the position and of the commands when they came. With
    ``dt`` they are evenly sampled, and positions are interpolated linearly, as velocities always
    are; goals and the motor's state are held until the next message. Where nothing moves, an
    AlignmentError says so.
    """
    several = len(alignment.sequences) > 1
    logs = tuple(
        _log(sequence, config, f'_{number:02d}' if several else '')
        for number, sequence in enumerate(alignment.sequences)
    )
    covered = max(float(np.ptp(log.position)) for log in logs)
    if covered < _STILL:
        what = config.joint or str(config.position and config.position.topic)
        raise AlignmentError(
            f'Nothing moves in bag {alignment.bag!r}: expected {what!r} to cover {_STILL:g} rad or '
            f'more, found {covered:.2g}.'
        )
    return logs


def _channels(
    bag: BagColumns, config: ServoBagConfig
) -> list[tuple[str, PairRole, ChannelMapping]]:
    """Return what each signal of a log is read from, with the joint's sign and zero applied.

    The velocity of a joint is taken where it is recorded and not always the same.
    """
    found = []
    for name in ('position', 'velocity'):
        channel = getattr(config, name)
        if channel is None and config.joint and _lives(bag, config, name):
            channel = ChannelMapping(topic=config.joint_states, field=name, label=config.joint)
        if channel is not None:
            zero = config.zero if name == 'position' else 0.0
            found.append((name, PairRole.SENSOR, _turned(config, channel, zero)))
    if config.command is not None:
        turned = _turned(config, config.command, config.zero)
        found.append(('goal', PairRole.ACTUATOR, turned))
    if isinstance(config.torque_enable, ChannelMapping):
        found.append(('enabled', PairRole.ACTUATOR, config.torque_enable))
    return found


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


def _turned(config: ServoBagConfig, channel: ChannelMapping, zero: float) -> ChannelMapping:
    """Apply the joint's sign, and its zero."""
    scale, offset = config.sign * channel.scale, config.sign * (channel.offset - zero)
    return channel.model_copy(update={'scale': scale, 'offset': offset})


def _hinge(pairs: Sequence[Pair]) -> mujoco.MjModel:
    """Return a hinge with these sensors and inputs: what columns are aligned with."""
    driven = ''.join(
        f'<motor name="{pair.name}" joint="servo"/>'
        for pair in pairs
        if pair.role is PairRole.ACTUATOR
    )
    measured = ''.join(
        f'<joint{pair.name[:3]} name="{pair.name}" joint="servo"/>'
        for pair in pairs
        if pair.role is PairRole.SENSOR
    )
    return mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body><joint name="servo"/><geom size=".1"/></body></worldbody>'
        f'<actuator>{driven}</actuator><sensor>{measured}</sensor></mujoco>'
    )


def _log(run: Trajectory, config: ServoBagConfig, suffix: str) -> ServoLog:
    measured = _series(run, 'position')
    if measured is None:
        raise AlignmentError(f'Expected positions in {run.name!r}, found none.')
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
    label = '_'.join(filter(None, (f'{run.bag}{suffix}', config.trajectory, f'kp{config.kp:g}')))
    return ServoLog(
        name=re.sub(r'[^\w.-]+', '_', label),
        motor=config.motor,
        trajectory=config.trajectory,
        mass=config.mass,
        arm_mass=config.arm_mass,
        length=config.length,
        constants={
            'kp': config.kp,
            **({} if config.vin is None else {'vin': config.vin}),
            **config.constants,
        },
        dt=PERIOD if config.dt is None else config.dt,
        position=measured.interpolate(times)[:, measured.get_indices('position')[1][0]],
        goal=np.zeros(len(times)) if goal is None else goal,
        enabled=(enabled != 0).astype(np.float64),
        speed=_sampled(run, 'velocity', times, 'linear'),
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
        np.full(len(times), enabled) if on is None else (on != 0).astype(np.float64),
    )


def _series(run: Trajectory, name: str) -> TimeSeries | None:
    both = (*run.measurements, *run.commands)
    return next((series for series in both if name in series.signal_mapping), None)


def _sampled(run: Trajectory, name: str, times: Array, method: Method) -> Array | None:
    """Return the (n,) values of a signal at times, None where a run has it not."""
    series = _series(run, name)
    if series is None:
        return None
    return series.interpolate(times, method)[:, series.signal_mapping[name][1][0]]
