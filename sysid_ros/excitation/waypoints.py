# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Motions from files of waypoints, CSV or YAML."""

from __future__ import annotations

import csv
import io
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.interpolate import CubicHermiteSpline, PchipInterpolator

from sysid_ros.config import read_yaml
from sysid_ros.errors import ConfigError, nearest
from sysid_ros.excitation.drives import drives
from sysid_ros.excitation.motion import Motion, sample_times
from sysid_ros.text import csv_header, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import mujoco
    from numpy.typing import NDArray

    from sysid_ros.excitation.drives import Drive

_YAML_KEYS = ('times', 'joints', 'positions')


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
    """Read waypoints from a file.

    A CSV file has the header ``time`` and the names of joints or actuators. A YAML file has the
    keys ``times``, ``joints`` and ``positions``, a list of numbers per time.

    Raises:
        ConfigError: The file cannot be read, or its times, names and positions do not fit together.
    """
    suffix = path.suffix.lower()
    if suffix == '.csv':
        times, names, rows = _read_csv(path)
    elif suffix in ('.yaml', '.yml'):
        times, names, rows = _read_yaml(path)
    else:
        msg = f'Expected a motion file ending in .csv, .yaml or .yml, found {str(path)!r}.'
        raise ConfigError(msg)
    return _checked(path, times, names, rows)


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
            msg = f'Columns {named[column]!r} and {name!r} of the motion move the same actuator.'
            raise ConfigError(msg)
        named[column] = name
        knots = _commands(chosen[column], name, waypoints.times, positions)
        since = waypoints.times - start
        slopes = PchipInterpolator(since, knots).derivative()(since)
        slopes[[0, -1]] = 0.0
        curve = CubicHermiteSpline(since, knots, slopes)
        commands[:, column] = curve(np.minimum(times, since[-1]))
    return Motion(times, commands, tuple(drive.actuator for drive in chosen))


def _read_csv(path: Path) -> tuple[list[float], list[str], list[list[float]]]:
    try:
        with path.open(encoding='utf-8', newline='') as stream:
            lines = [line for line in csv.reader(stream) if line and not line[0].startswith('#')]
    except (OSError, UnicodeDecodeError) as err:
        reason = err.strerror if isinstance(err, OSError) else 'it is not UTF-8 text'
        msg = f'Cannot read the motion {str(path)!r}: {reason}.'
        raise ConfigError(msg) from err
    header = [cell.strip() for cell in lines[0]] if lines else []
    if not header or header[0] != 'time':
        found = header[0] if header else 'nothing'
        msg = f'Expected a header that starts with time in {str(path)!r}, found {found!r}.'
        raise ConfigError(msg)
    rows = []
    for number, line in enumerate(lines[1:], start=1):
        try:
            rows.append([float(cell) for cell in line])
        except ValueError as err:
            msg = f'Expected numbers in row {number} of {str(path)!r}: {err}.'
            raise ConfigError(msg) from err
    return [row[0] for row in rows], header[1:], [row[1:] for row in rows]


def _read_yaml(path: Path) -> tuple[list[float], list[str], list[list[float]]]:
    document = read_yaml(path)
    unknown = [key for key in document if key not in _YAML_KEYS]
    if unknown:
        hint = nearest(str(unknown[0]), _YAML_KEYS)
        msg = f'Unknown key {unknown[0]!r} in {str(path)!r}; {hint}.'
        raise ConfigError(msg)
    lists = []
    for key in _YAML_KEYS:
        value = document.get(key)
        if not isinstance(value, list):
            found = 'nothing' if value is None else type(value).__name__
            msg = f'Expected a list for {key!r} in {str(path)!r}, found {found}.'
            raise ConfigError(msg)
        lists.append(value)
    try:
        times = [float(time) for time in lists[0]]
        rows = [[float(value) for value in row] for row in lists[2]]
    except (TypeError, ValueError) as err:
        msg = f'Expected numbers for times and positions in {str(path)!r}: {err}.'
        raise ConfigError(msg) from err
    return times, [str(name) for name in lists[1]], rows


def _checked(
    path: Path, times: list[float], names: list[str], rows: list[list[float]]
) -> Waypoints:
    if len(times) < 2 or not names:  # noqa: PLR2004 (a curve has two ends)
        msg = (
            f'Expected at least one joint and two waypoints in {str(path)!r}, '
            f'found {len(names)} and {len(times)}.'
        )
        raise ConfigError(msg)
    if len(rows) != len(times):
        msg = f'Expected {len(times)} rows of positions in {str(path)!r}, found {len(rows)}.'
        raise ConfigError(msg)
    for number, row in enumerate(rows, start=1):
        if len(row) != len(names):
            msg = (
                f'Expected {len(names)} positions in row {number} of {str(path)!r}, '
                f'found {len(row)}.'
            )
            raise ConfigError(msg)
        if not np.all(np.isfinite([times[number - 1], *row])):
            msg = f'Expected finite numbers in row {number} of {str(path)!r}.'
            raise ConfigError(msg)
    late = np.flatnonzero(np.diff(times) <= 0)
    if len(late):
        before, after = times[late[0]], times[late[0] + 1]
        msg = f'Expected increasing times in {str(path)!r}, found {after:g} after {before:g}.'
        raise ConfigError(msg)
    return Waypoints(np.array(times), tuple(names), np.array(rows))


def _column(name: str, chosen: tuple[Drive, ...]) -> int:
    """Find the actuator of a name; a joint's name stands for the servo that moves it."""
    by_joint = {drive.joint: row for row, drive in enumerate(chosen) if drive.joint}
    by_name = {drive.actuator: row for row, drive in enumerate(chosen)}
    if name not in by_name and name not in by_joint:
        hint = nearest(name, [*by_joint, *by_name])
        msg = f'The motion names {name!r}, which is no actuator and no actuated joint; {hint}.'
        raise ConfigError(msg)
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
        msg = (
            f'Expected {name!r} between {lower:g} and {upper:g} in the motion, '
            f'found {positions[row]:g} at {times[row]:g} s.'
        )
        raise ConfigError(msg)
    return knots
