# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Logs of servos on pendulums in BAM's format, which is that of its processed logs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from sysid_ros.errors import LogError, nearest
from sysid_ros.files import replace_file
from sysid_ros.servos.formats.log import Log
from sysid_ros.servos.formats.log_file import ON, find_logs, read_log_file
from sysid_ros.servos.laws.catalogue import ACTUATORS
from sysid_ros.servos.laws.coefficients import CONSTANT_UNITS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from sysid_ros.servos.formats.log_file import LogFile

#: Stamps that are off by at most this part of the period are even: they were rounded.
_EVEN = 0.01
#: Decimals of a period that is known from stamps only, the fewest first.
_DECIMALS = range(3, 10)
#: The stamps of a log end where its period says, within this part of its duration or one period.
_SAME_END = 0.01
#: Names in the catalogue that are laws for one and the same servo.
_SAME_SERVO = (frozenset({'xl330', 'xl330i'}),)


def read_log(path: Path) -> Log:
    """Read a processed log.

    ``dt`` says how far its samples are apart; without it stamps do, if they are even. ``arm-mass``
    is understood as well as ``arm_mass``, and no arm is taken to weigh nothing. A column that is
    missing in some entries was not recorded; keys that a `Log` has no place for are left out.

    Args:
        path: The file.

    Raises:
        LogError: It cannot be read, is no log, or a raw one.
    """
    file = read_log_file(path)
    values = file.values
    return Log(
        name=path.stem,
        motor=values.get('motor', ''),
        trajectory=values.get('trajectory', ''),
        mass=float(values['mass']),
        arm_mass=float(values.get('arm_mass', values.get('arm-mass', 0.0))),
        length=float(values['length']),
        constants={name: float(values[name]) for name in CONSTANT_UNITS if name in values},
        dt=_period(file),
        position=file.column('position'),
        goal=file.column('goal_position'),
        enabled=(file.column('torque_enable') > ON).astype(np.float64),
        speed=file.recorded('speed'),
        load=file.recorded('load'),
        control=file.recorded('control'),
        path=path,
    )


def read_logs(folder: Path) -> tuple[Log, ...]:
    """Read all logs of a folder, by name.

    Raises:
        LogError: There is no such folder, it holds no logs, or one of them cannot be read.
    """
    return tuple(read_log(path) for path in find_logs(folder))


def write_log(path: Path, log: Log) -> None:
    """Write a processed log; what was not recorded is left out.

    Raises:
        ResultError: The folder cannot be written.
    """
    texts = {'motor': log.motor, 'trajectory': log.trajectory}
    columns: dict[str, list[Any]] = {'position': log.position.tolist()}
    if log.speed is not None:
        columns['speed'] = log.speed.tolist()
    if log.load is not None:
        columns['load'] = log.load.tolist()
    if log.control is not None:
        columns['control'] = log.control.tolist()
    columns['goal_position'] = log.goal.tolist()
    columns['torque_enable'] = (log.enabled > ON).tolist()
    columns['timestamp'] = (np.arange(len(log)) * log.dt).tolist()
    document = {
        'mass': float(log.mass),
        'arm_mass': float(log.arm_mass),
        'length': float(log.length),
        **{name: float(value) for name, value in log.constants.items()},
        **{key: text for key, text in texts.items() if text},
        'dt': float(log.dt),
        'entries': [
            dict(zip(columns, sample, strict=True))
            for sample in zip(*columns.values(), strict=True)
        ],
    }
    replace_file(path, json.dumps(document).encode())


def split(logs: Sequence[Log], validation_kp: float) -> tuple[tuple[Log, ...], tuple[Log, ...]]:
    """Hold out the logs of one gain.

    Args:
        logs: All of them.
        validation_kp: The gain of those that are held out.

    Returns:
        The logs to fit, and those that were held out.

    Raises:
        LogError: No log has that gain, or all of them.
    """
    held_out = tuple(log for log in logs if log.constants.get('kp') == validation_kp)
    training = tuple(log for log in logs if log.constants.get('kp') != validation_kp)
    if held_out and training:
        return training, held_out
    found = sorted({log.constants['kp'] for log in logs if 'kp' in log.constants})
    kps = ', '.join(f'{kp:g}' for kp in found) or 'none'
    if held_out:
        msg = f'Expected logs of another kp than {validation_kp:g} to fit, found only {kps}.'
    else:
        msg = f'Expected logs of kp {validation_kp:g} to hold out, found {kps}.'
    raise LogError(msg)


def check_motor(logs: Sequence[Log], name: str) -> None:
    """Check that logs are of the servo that was asked for.

    Only names of the catalogue can contradict each other: a servo that a file defines, and a motor
    that nobody knows, go with everything.

    Args:
        logs: What was recorded.
        name: In the catalogue, or any other.

    Raises:
        LogError: A log is of another servo of the catalogue.
    """
    if name not in ACTUATORS:
        return
    known = {_plain(kind): kind for kind in ACTUATORS}
    found = [(log, known.get(_plain(log.motor), name)) for log in logs]
    wrong = [(log, kind) for log, kind in found if not _same_servo(kind, name)]
    if wrong:
        log, kind = wrong[0]
        msg = (
            f'Expected logs of the servo {name}, found {kind} in {log.name!r}, and {len(wrong)} of '
            f'{len(logs)} logs of another servo: ask for that one, or leave them out.'
        )
        raise LogError(msg)


def _plain(name: str) -> str:
    return name.lower().replace('-', '').replace('_', '').replace(' ', '')


def _same_servo(one: str, other: str) -> bool:
    return one == other or any({one, other} <= names for names in _SAME_SERVO)


def _period(file: LogFile) -> float:
    """Return the time between samples, s."""
    if 'dt' not in file.values:
        return _period_of_stamps(file)
    dt = float(file.values['dt'])
    if all('timestamp' in entry for entry in file.entries):
        stamps = file.stamps()
        steps = len(stamps) - 1
        span = float(stamps[-1] - stamps[0])
        if abs(span - steps * dt) > max(dt, _SAME_END * steps * dt):
            msg = (
                f'Expected stamps {dt:g} s apart in {str(file.path)!r}, as its dt says, found '
                f'{span / steps:g} s on average.'
            )
            raise LogError(msg)
    return dt


def _period_of_stamps(file: LogFile) -> float:
    if all('timestamp' not in entry for entry in file.entries):
        hint = nearest('dt', file.values)
        msg = f'Expected dt or stamps in {str(file.path)!r}, found neither; {hint}.'
        raise LogError(msg)
    stamps = file.stamps()
    steps = len(stamps) - 1
    if not steps:
        msg = f'Expected dt or at least two samples in {str(file.path)!r}, found one sample.'
        raise LogError(msg)
    mean = float(stamps[-1] - stamps[0]) / steps
    for dt in (*(round(mean, decimals) for decimals in _DECIMALS), mean):
        if dt > 0 and _are_even(stamps, dt):
            return dt
    gaps = np.diff(stamps)
    msg = (
        f'{str(file.path)!r} is a raw log, its stamps are {gaps.min():.3g} to {gaps.max():.3g} s '
        'apart: run `sysid process RAW OUTPUT` first.'
    )
    raise LogError(msg)


def _are_even(stamps: NDArray[np.float64], dt: float) -> bool:
    expected = stamps[0] + np.arange(len(stamps)) * dt
    return bool(np.abs(stamps - expected).max() <= _EVEN * dt)
