# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Motions from CSV files of waypoints."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicHermiteSpline, PchipInterpolator

from sysid_ros.errors import ConfigError, nearest
from sysid_ros.excitation.drives import Drive, drives
from sysid_ros.excitation.motion import Motion, sample_times
from sysid_ros.text import csv_header, one_line


class Waypoints(NamedTuple):
    """Where to be when.

    Attributes:
        times: (n,) seconds.
        names: k names of joints or actuators.
        positions: (n, k) joint positions in rad or m, or actuators' commands.
    """

    times: NDArray[np.float64]
    names: tuple[str, ...]
    positions: NDArray[np.float64]


def read_waypoints(path: Path) -> Waypoints:
    """Read waypoints from a CSV file with the header ``time`` and names of joints or actuators.

    Raises:
        ConfigError: The file cannot be read, or its times, names and positions do not fit together.
    """
    try:
        with path.open(encoding='utf-8', newline='') as stream:
            lines = [line for line in csv.reader(stream) if line and not line[0].startswith('#')]
    except (OSError, UnicodeDecodeError) as err:
        reason = err.strerror if isinstance(err, OSError) else 'it is not UTF-8 text'
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

    Args:
        model: The compiled model.
        motion: Its commands.
        comments: Lines for people, at the top.
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

    Args:
        model: The compiled model.
        waypoints: Where to be when; the first time becomes 0.
        rate: Commands per second.

    Raises:
        ConfigError: A name is neither joint nor actuator, or a waypoint is outside the range.
    """
    chosen = drives(model)
    start = waypoints.times[0]
    # A duration that is no multiple of the period is completed by one more sample, at rest.
    duration = np.ceil((waypoints.times[-1] - start) * rate - 1e-6) / rate
    times = sample_times(float(duration), rate)
    commands = np.tile([drive.home for drive in chosen], (len(times), 1))
    named: dict[int, str] = {}
    for name, positions in zip(waypoints.names, waypoints.positions.T, strict=True):
        column = _column(name, chosen)
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


def _column(name: str, chosen: tuple[Drive, ...]) -> int:
    """Find the actuator of a name; a joint's name stands for the servo that moves it."""
    by_joint = {drive.joint: row for row, drive in enumerate(chosen) if drive.joint}
    by_name = {drive.actuator: row for row, drive in enumerate(chosen)}
    if name not in by_name and name not in by_joint:
        hint = nearest(name, [*by_joint, *by_name])
        raise ConfigError(
            f'The motion names {name!r}, which is no actuator and no actuated joint; {hint}.'
        )
    return by_joint.get(name, by_name.get(name, 0))


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
