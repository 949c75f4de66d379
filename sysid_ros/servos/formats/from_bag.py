# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From a bag to the logs of a servo on a pendulum, or of a single joint that is like one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from sysid_ros.alignment import align
from sysid_ros.alignment.pairs import Mapping, Role
from sysid_ros.bags import read_bag
from sysid_ros.config import ChannelMapping
from sysid_ros.errors import AlignmentError, nearest
from sysid_ros.servos.formats.bag_channels import (
    COMMANDED,
    command_switch,
    pair,
    servo_channels,
    servo_numbers,
    servo_topics,
)
from sysid_ros.servos.formats.log import Log
from sysid_ros.servos.formats.logs import write_log
from sysid_ros.servos.laws.coefficients import CONSTANT_UNITS

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

#: A pendulum that covers less than this in every log tells nothing, rad.
_STILL = 0.01
#: The motor is on where its channel says more than this.
_ON = 0.5
#: Numbers that cannot be 0; the others cannot be negative.
_POSITIVE = ('mass', 'length', 'vin')


def logs_from_bag(bag: BagColumns, config: ServoBagConfig) -> tuple[Log, ...]:
    """Turn a bag into evenly sampled logs, one for each segment.

    Positions, velocities, load and control are interpolated linearly; goals and the motor's state
    are held until the next message. Numbers that come from a channel are its median during the log,
    or what was said last before it.

    Args:
        bag: Columns of the bag.
        config: What is where.

    Raises:
        AlignmentError: The bag has not what the configuration names, or nothing moves.
    """
    return logs_of(bag, align_servo(bag, config), config)


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
    sensors = [item.name for item in pairs if item.role is Role.SENSOR]
    inputs = [item.name for item in pairs if item.role is Role.ACTUATOR]
    model = _model(sensors, inputs)
    mapping = Mapping(pairs, (), ())
    return align(bag, model, mapping, config.stamps, segments=config.segments)


def logs_of(bag: BagColumns, alignment: Alignment, config: ServoBagConfig) -> tuple[Log, ...]:
    """Sample the runs of a servo evenly; see `logs_from_bag`.

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
) -> tuple[Alignment, tuple[Log, ...], tuple[Path, ...]]:
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
    return alignment, logs, _write(output, logs)


def _write(folder: Path, logs: tuple[Log, ...]) -> tuple[Path, ...]:
    paths = tuple(folder / f'{log.name}.json' for log in logs)
    for path, log in zip(paths, logs, strict=True):
        write_log(path, log)
    return paths


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


def _log(bag: BagColumns, run: Trajectory, config: ServoBagConfig, suffix: str) -> Log:
    measured = _series(run, 'position')
    if measured is None:
        msg = f'Expected positions in {run.name!r}, found none.'
        raise AlignmentError(msg)
    first, last = measured.times[[0, -1]]
    # The small part keeps a last sample that floating point puts after the end.
    times = first + config.dt * np.arange(int((last - first) / config.dt + 1e-6) + 1)
    goal = _sampled(run, 'goal', times, 'zoh')
    enabled = _sampled(run, 'enabled', times, 'zoh')
    if enabled is None:
        enabled = np.full(len(times), float(config.torque_enable is not False))
    numbers = {name: _number(run, name, given) for name, given in servo_numbers(config).items()}
    _check(run.name, numbers)
    trajectory = _text(bag, run, config.trajectory)
    label = '_'.join(filter(None, (f'{run.bag}{suffix}', trajectory, f'kp{numbers["kp"]:g}')))
    return Log(
        name=re.sub(r'[^\w.-]+', '_', label),
        motor=config.motor,
        trajectory=trajectory,
        mass=numbers.pop('mass'),
        arm_mass=numbers.pop('arm_mass'),
        length=numbers.pop('length'),
        constants=numbers,
        dt=config.dt,
        position=measured.get(times)[1][:, 0],
        goal=np.zeros(len(times)) if goal is None else goal,
        enabled=(enabled > _ON).astype(np.float64),
        speed=_sampled(run, 'velocity', times, 'linear'),
        load=_sampled(run, 'load', times, 'linear'),
        control=_sampled(run, 'control', times, 'linear'),
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


def _check(name: str, numbers: dict[str, float]) -> None:
    for key, value in numbers.items():
        if value < 0 or (value == 0 and key in _POSITIVE):
            least = 'greater than 0' if key in _POSITIVE else 'of at least 0'
            msg = f'Expected a {key} {least} in {name!r}, found {value:g}.'
            raise AlignmentError(msg)


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
