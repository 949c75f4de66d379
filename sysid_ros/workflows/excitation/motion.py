# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Motions: commands for all actuators on a fixed time grid, as sums of sines or from CSV files."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicHermiteSpline, PchipInterpolator

from sysid_ros.errors import ConfigError, ModelError, nearest, one_line
from sysid_ros.files import read_text
from sysid_ros.text import csv_header
from sysid_ros.workflows.excitation.drives import Drive, check_ranges, drives

#: Sines per actuator (Swevers et al., IEEE Trans. Robotics and Automation 13, 1997, use 5).
SINES = 5
#: Lowest frequency in Hz, unless the motion is too short for one period of it.
_SLOWEST = 0.05
#: Amplitudes fall with frequency to this power. At 0 the fastest sine would take all torque, at 1
#: (equal speeds) accelerations would be too weak to tell an armature.
AMPLITUDE_POWER = 0.75


@dataclass(frozen=True)
class Motion:
    """The (n, nu) commands of nu actuators on a fixed grid of (n,) times, s from the first."""

    times: NDArray[np.float64]
    commands: NDArray[np.float64]
    actuators: tuple[str, ...]

    def __post_init__(self) -> None:
        self.times.setflags(write=False)
        self.commands.setflags(write=False)

    @property
    def duration(self) -> float:
        """Seconds from the first to the last command."""
        return float(self.times[-1])


def sample_times(duration: float, rate: float) -> NDArray[np.float64]:
    """Return the (n,) times 0, 1/rate, … that are inside a duration."""
    # The small part keeps the last sample of 0.3 s at 10 Hz, which floating point puts below 3.
    return np.arange(int(np.floor(duration * rate + 1e-6)) + 1) / rate


def quintic(phase: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rest-to-rest polynomial from 0 to 1, constant outside phases 0 to 1.

    Its velocity and acceleration vanish at both ends: 10 p³ − 15 p⁴ + 6 p⁵.
    """
    p = np.clip(phase, 0.0, 1.0)
    shape: NDArray[np.float64] = p**3 * (10.0 + p * (6.0 * p - 15.0))
    return shape


def ramp_window(
    times: NDArray[np.float64], start: float, end: float, ramp: float
) -> NDArray[np.float64]:
    """Return (n,) weights that rise from 0 to 1 after a start and fall to 0 before an end."""
    if ramp <= 0:
        return np.ones_like(times)
    rising: NDArray[np.float64] = quintic((times - start) / ramp)
    return rising * quintic((end - times) / ramp)


def approach(
    motion: Motion, start: NDArray[np.float64], *, rate: float, max_speed: float = 0.5
) -> Motion:
    """Prepend a smooth move from (nu,) commands that ask for the present pose.

    Both have a rate of commands per second; in the move, none changes by more than ``max_speed``
    per second. The motion alone is returned when it starts here.
    """
    distance = motion.commands[0] - start
    # At half time a quintic is 30/16 times as fast as on average.
    duration = 30 / 16 * float(np.max(np.abs(distance), initial=0.0)) / max_speed
    steps = int(np.ceil(duration * rate))
    if steps == 0:
        return motion
    phase = np.arange(steps) / steps
    move = start + quintic(phase)[:, None] * distance
    times = np.concatenate((np.arange(steps) / rate, steps / rate + motion.times))
    return Motion(times, np.concatenate((move, motion.commands)), motion.actuators)


def sum_of_sines(
    model: mujoco.MjModel,
    *,
    duration: float = 15.0,
    ramp: float = 1.0,
    amplitude: float = 0.4,
    max_frequency: float = 1.5,
    seed: int = 0,
    rate: float = 100.0,
) -> Motion:
    """Excite all actuators at once, each with sines of its own frequencies and random phases.

    No two actuators share a frequency, so that each joint's response can be told from what the
    others do to it. Slow sines make joints pass through rest often and at many speeds, which
    friction needs; fast ones accelerate, which inertia needs. The motion starts and ends at rest
    in the home pose (keyframe ``home``, else ``qpos0``) when there is a ramp.

    Args:
        model: The compiled model.
        duration: Seconds, ramps included.
        ramp: Seconds over which the motion fades in, and out.
        amplitude: Peak as a fraction of half of each actuator's range; the motion is centred on
            the home pose, or as near to it as that range allows. Never outside the range.
        max_frequency: Highest frequency, Hz.
        seed: Of frequencies and phases; equal seeds give equal motions.
        rate: Commands per second.

    Raises:
        ModelError: There are no actuators, or one of them has no range.
        ConfigError: The ramps do not fit into the duration.
    """
    if 2 * ramp >= duration:
        raise ConfigError(
            f'Expected a ramp shorter than half the duration of {duration:g} s, found {ramp:g} s.'
        )
    chosen = drives(model)
    if not chosen:
        raise ModelError('The model has no actuators, so there is nothing to excite.')
    check_ranges(chosen)
    rng = np.random.default_rng(seed)
    times = sample_times(duration, rate)
    frequencies = _frequencies(rng, len(chosen), times[-1], max_frequency)
    phases = rng.uniform(0.0, 2.0 * np.pi, frequencies.shape)
    angle = 2.0 * np.pi * frequencies * times[:, None, None] + phases
    waves = np.sum(frequencies**-AMPLITUDE_POWER * np.sin(angle), axis=2)
    waves /= np.max(np.abs(waves), axis=0)
    window = ramp_window(times, 0.0, float(times[-1]), ramp)
    columns = zip(chosen, waves.T, strict=True)
    commands = np.stack([_inside(drive, x, window, amplitude) for drive, x in columns], axis=1)
    return Motion(times, commands, tuple(drive.actuator for drive in chosen))


def _frequencies(
    rng: np.random.Generator, actuators: int, duration: float, highest: float
) -> NDArray[np.float64]:
    """Return (actuators, sines) distinct frequencies in Hz.

    Sine k lies in the k-th of equal bands on a logarithmic scale; within a band every actuator has
    a slot of its own, dealt at random.
    """
    lowest = min(max(_SLOWEST, 1.0 / max(duration, 1e-9)), highest / 4.0)
    slots = SINES * actuators
    grid = highest * (lowest / highest) ** (np.arange(slots)[::-1] / slots)
    return np.stack([rng.permutation(band) for band in grid.reshape(SINES, actuators)], axis=1)


def _inside(
    drive: Drive, wave: NDArray[np.float64], window: NDArray[np.float64], amplitude: float
) -> NDArray[np.float64]:
    """Scale a wave of peak 1 into a drive's range.

    Home and centre ± peak are inside the range, the window is between 0 and 1, and an interval is
    convex: so is every command.
    """
    peak = amplitude * (drive.upper - drive.lower) / 2.0
    centre = min(max(drive.home, drive.lower + peak), drive.upper - peak)
    home = min(max(drive.home, drive.lower), drive.upper)
    return np.clip(home + window * (centre - home + peak * wave), drive.lower, drive.upper)


class Waypoints(NamedTuple):
    """Where to be when: (n, k) positions of k joints, rad or m, or commands of actuators."""

    times: NDArray[np.float64]
    names: tuple[str, ...]
    positions: NDArray[np.float64]


def read_waypoints(path: Path) -> Waypoints:
    """Read waypoints from a CSV file with the header ``time`` and names of joints or actuators.

    Raises:
        ConfigError: The file cannot be read, or its times, names and positions do not fit together.
    """
    try:
        rows_read = csv.reader(io.StringIO(read_text(path), newline=''))
        lines = [line for line in rows_read if line and not line[0].startswith('#')]
    except (OSError, UnicodeDecodeError, csv.Error) as err:
        reason = err.strerror if isinstance(err, OSError) else err
        reason = 'it is not UTF-8 text' if isinstance(err, UnicodeDecodeError) else reason
        raise ConfigError(f'Cannot read the motion {str(path)!r}: {reason}.') from err
    header = [cell.strip() for cell in lines[0]] if lines else ['nothing']
    if header[0] != 'time':
        raise ConfigError(
            f'Expected a header that starts with time in {str(path)!r}, found {header[0]!r}.'
        )
    if len(header) < 2 or len(lines) < 3:  # noqa: PLR2004 (a curve has two ends)
        raise ConfigError(
            f'Expected at least one joint and two waypoints in {str(path)!r}, '
            f'found {len(header) - 1} and {len(lines) - 1}.'
        )
    rows = []
    for number, line in enumerate(lines[1:], start=1):
        if len(line) != len(header):
            raise ConfigError(
                f'Expected {len(header) - 1} positions in row {number} of {str(path)!r}, '
                f'found {len(line) - 1}.'
            )
        try:
            rows.append([float(cell) for cell in line])
        except ValueError as err:
            raise ConfigError(f'Expected numbers in row {number} of {str(path)!r}: {err}.') from err
        if not np.all(np.isfinite(rows[-1])):
            raise ConfigError(f'Expected finite numbers in row {number} of {str(path)!r}.')
    table = np.array(rows)
    times = table[:, 0]
    late = np.flatnonzero(np.diff(times) <= 0)
    if len(late):
        before, after = times[late[0]], times[late[0] + 1]
        raise ConfigError(
            f'Expected increasing times in {str(path)!r}, found {after:g} after {before:g}.'
        )
    return Waypoints(times, tuple(header[1:]), table[:, 1:])


def format_waypoints(model: mujoco.MjModel, motion: Motion, comments: Iterable[str] = ()) -> str:
    """Return a motion as the text of a CSV file that `read_waypoints` and `follow` understand.

    Every command is a waypoint: followed at the same rate, the same commands come out. Position
    servos are named after their joint, in rad or m, all other actuators after themselves.
    Comments become lines at the top.
    """
    chosen = drives(model)
    joints = Counter(drive.joint for drive in chosen)
    others = {drive.actuator for drive in chosen}
    names, columns = [], []
    for drive, commands in zip(chosen, motion.commands.T, strict=True):
        clear = drive.joint == drive.actuator or drive.joint not in others
        if drive.takes_positions and drive.joint and joints[drive.joint] == 1 and clear:
            names.append(drive.joint)
            columns.append((commands - drive.offset) / drive.slope)
        else:
            names.append(drive.actuator)
            columns.append(commands)
    stream = io.StringIO(newline='')
    for comment in comments:
        stream.write(f'# {one_line(comment)}\n')
    writer = csv.writer(stream, lineterminator='\n')
    stream.write(csv_header(['time', *names]))
    for time, row in zip(motion.times, np.stack(columns, axis=1), strict=True):
        writer.writerow([f'{time:.9g}', *(f'{value:.9g}' for value in row)])
    return stream.getvalue()


def follow(model: mujoco.MjModel, waypoints: Waypoints, *, rate: float = 100.0) -> Motion:
    """Interpolate waypoints into a motion that starts and ends at rest.

    The curve is a monotone cubic (PCHIP, Fritsch and Butland 1984) with zero velocity at both
    ends: between two waypoints it stays between them, so it is inside the limits when they are.
    Actuators that are not named hold the home pose.

    The first time becomes 0, ``rate`` is that of commands, Hz.

    Raises:
        ConfigError: A name is neither joint nor actuator, or a waypoint is outside the range.
    """
    chosen = drives(model)
    # A joint's name stands for the servo that moves it.
    rows = {drive.actuator: row for row, drive in enumerate(chosen)}
    rows |= {drive.joint: row for row, drive in enumerate(chosen) if drive.joint}
    start = waypoints.times[0]
    # A duration that is no multiple of the period is completed by one more sample, at rest.
    duration = np.ceil((waypoints.times[-1] - start) * rate - 1e-6) / rate
    times = sample_times(float(duration), rate)
    commands = np.tile([drive.home for drive in chosen], (len(times), 1))
    named: dict[int, str] = {}
    for name, positions in zip(waypoints.names, waypoints.positions.T, strict=True):
        if name not in rows:
            raise ConfigError(
                f'The motion names {name!r}, which is no actuator and no actuated joint; '
                f'{nearest(name, rows)}.'
            )
        column = rows[name]
        if column in named:
            raise ConfigError(
                f'Columns {named[column]!r} and {name!r} of the motion move the same actuator.'
            )
        named[column] = name
        knots = _commands(chosen[column], name, waypoints.times, positions)
        since = waypoints.times - start
        slopes = PchipInterpolator(since, knots).derivative()(since)
        slopes[[0, -1]] = 0.0
        curve = CubicHermiteSpline(since, knots, slopes)
        commands[:, column] = curve(np.minimum(times, since[-1]))
    return Motion(times, commands, tuple(drive.actuator for drive in chosen))


def _commands(
    drive: Drive, name: str, times: NDArray[np.float64], positions: NDArray[np.float64]
) -> NDArray[np.float64]:
    convert = name == drive.joint and drive.takes_positions
    knots = drive.offset + drive.slope * positions if convert else positions
    outside = np.flatnonzero((knots < drive.lower) | (knots > drive.upper))
    if len(outside):
        row = outside[0]
        lower, upper = drive.lower, drive.upper
        if convert:
            lower, upper = sorted((drive.position(lower), drive.position(upper)))
        raise ConfigError(
            f'Expected {name!r} between {lower:g} and {upper:g} in the motion, '
            f'found {positions[row]:g} at {times[row]:g} s.'
        )
    return knots
