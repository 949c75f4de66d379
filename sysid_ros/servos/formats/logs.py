# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Logs of servos on pendulums in BAM's format, raw and processed: read, checked, written."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sysid_ros.errors import LogError, nearest
from sysid_ros.files import replace_file
from sysid_ros.json_text import bad_value, is_number, read_object
from sysid_ros.servos.laws.friction import CONSTANT_UNITS
from sysid_ros.servos.laws.servo import ACTUATORS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

#: The motor is on where ``torque_enable`` is more than this, between 0 and 1.
ON = 0.5
#: What every entry of a log must have, and what it may have.
NEEDED = ('position', 'goal_position', 'torque_enable')
OPTIONAL = ('speed', 'load', 'control')
#: What every log must have.
_NEEDED_KEYS = ('mass', 'length', 'kp', 'entries')
#: Numbers of a log that cannot be 0, and those that can. Other ones have either sign.
_POSITIVE = ('mass', 'length', 'vin', 'dt')
_NOT_NEGATIVE = ('arm_mass', 'arm-mass', 'kp', 'damping')
_TEXTS = ('motor', 'trajectory')
#: Commands of a raw log, where they have stamps of their own. An object, which BAM's tools copy.
_COMMANDS = 'commands'
#: So many keys of a file are named when it has not those of a log.
_HINTS = 5
#: Stamps that are off by at most this part of the period are even: they were rounded.
_EVEN = 0.01
#: Decimals of a period that is known from stamps only, the fewest first.
_DECIMALS = range(3, 10)
#: The stamps of a log end where its period says, within this part of its duration or one period.
_SAME_END = 0.01
#: Names in the catalogue that are laws for one and the same servo.
_SAME_SERVO = (frozenset({'xl330', 'xl330i'}),)
#: Time between samples that BAM's tools and recordings have, s.
PERIOD = 0.005
#: The first entry comes at most so many periods of the recording after time 0: until then its
#: first two entries are extrapolated.
_LATEST_START = 10
#: An entry is interpolated to at most so many samples: more come from other units than seconds.
_MOST_SAMPLES = 100
#: Readings of a raw log are not farther apart on average, s: such stamps have another unit.
_FARTHEST = 0.5


class Commands(NamedTuple):
    """What a servo was told, each command held until the next.

    Attributes:
        times: (c,) s since the first reading, increasing.
        goal: (c,) rad.
        enabled: (c,) 1 where the motor is powered, else 0.
    """

    times: NDArray[np.float64]
    goal: NDArray[np.float64]
    enabled: NDArray[np.float64]


@dataclass(frozen=True)
class ServoLog:
    """What a servo was told and where it was.

    A processed log is evenly sampled. A raw one has the times at which the encoder was read, and
    nothing in it was interpolated.

    Attributes:
        name: Of the file, without folder and suffix.
        motor: The servo, as the log says.
        trajectory: Name of the motion.
        mass: At the end of the arm, kg.
        arm_mass: Of the arm, evenly distributed, kg.
        length: Of the arm, m.
        constants: Gains and supply during this log by name, as ``kp`` and ``vin`` (V).
        dt: Time between samples, s; in a raw log `PERIOD`, which the steps of a simulation divide.
        position: (n,) rad; 0 hangs down.
        goal: (n,) commanded position, rad, held from each sample to the next.
        enabled: (n,) 1 where the motor is powered, else 0.
        speed: (n,) rad/s, where it was recorded.
        load: (n,) in the servo's own unit, where it was recorded.
        control: (n,) in the unit of the motor law, where it was recorded.
        path: Of the file, where there is one.
        stamps: (n,) of a raw log, s since its first reading, increasing; None in a processed one.
        commands: Of a raw log, where they have times of their own.
    """

    name: str
    motor: str
    trajectory: str
    mass: float
    arm_mass: float
    length: float
    constants: Mapping[str, float]
    dt: float
    position: NDArray[np.float64]
    goal: NDArray[np.float64]
    enabled: NDArray[np.float64]
    speed: NDArray[np.float64] | None = None
    load: NDArray[np.float64] | None = field(default=None)
    control: NDArray[np.float64] | None = None
    path: Path | None = None
    stamps: NDArray[np.float64] | None = None
    commands: Commands | None = None

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.position)

    @property
    def times(self) -> NDArray[np.float64]:
        """(n,) s from the first sample to each."""
        if self.stamps is not None:
            return self.stamps
        found: NDArray[np.float64] = np.arange(len(self), dtype=np.float64) * self.dt
        return found


@dataclass(frozen=True)
class LogFile:
    """A file whose keys are those of a log; entries are checked when they are asked for.

    Attributes:
        path: Of the file.
        values: All its keys and values.
        entries: Keys and values of every sample, at least one.
    """

    path: Path
    values: Mapping[str, Any]
    entries: list[dict[str, Any]]

    def column(self, key: str) -> NDArray[np.float64]:
        """Return (n,) numbers, one of each entry.

        Raises:
            LogError: An entry has no such key, or its value is no finite number.
        """
        for number, entry in enumerate(self.entries):
            if key not in entry:
                hint = nearest(key, entry, _HINTS)
                msg = f'Entry {number} of {str(self.path)!r} has no {key}; {hint}.'
                raise LogError(msg)
            if not is_number(entry[key]):
                place = f'entries.{number}.{key}'
                raise LogError(bad_value(self.path, place, entry[key], 'a finite number'))
        return np.array([entry[key] for entry in self.entries], dtype=np.float64)

    def recorded(self, key: str) -> NDArray[np.float64] | None:
        """Return the same where every entry has the key, else None."""
        return self.column(key) if all(key in entry for entry in self.entries) else None

    def stamps(self) -> NDArray[np.float64]:
        """Return (n,) times of the entries, s, each later than the one before.

        Raises:
            LogError: They are not, or there are none.
        """
        stamps = self.column('timestamp')
        _check_increasing(self.path, stamps, 'entry')
        return stamps


def _check_increasing(path: Path, stamps: NDArray[np.float64], what: str) -> None:
    late = np.flatnonzero(np.diff(stamps) <= 0)
    if len(late):
        before, after = stamps[late[0]], stamps[late[0] + 1]
        msg = (
            f'Expected increasing stamps in {str(path)!r}, found {after:g} s in {what} '
            f'{late[0] + 1} after {before:g} s.'
        )
        raise LogError(msg)


def read_log_file(path: Path) -> LogFile:
    """Read a raw or processed log.

    Raises:
        LogError: There is no such file, it is not JSON, or not a log.
    """
    values = read_object(path, LogError)
    missing = [key for key in _NEEDED_KEYS if key not in values]
    if missing:
        hint = nearest(missing[0], values, _HINTS)
        msg = f'{str(path)!r} is not the log of a servo: it has no {", ".join(missing)}; {hint}.'
        raise LogError(msg)
    for key in (*_POSITIVE, *_NOT_NEGATIVE, *CONSTANT_UNITS):
        if key in values:
            _check_number(path, key, values[key])
    for key in _TEXTS:
        if not isinstance(values.get(key, ''), str):
            raise LogError(bad_value(path, key, values[key], 'text'))
    return LogFile(path, values, _entries(path, values['entries']))


def find_logs(folder: Path) -> tuple[Path, ...]:
    """Return all ``*.json`` files of a folder, by name.

    Raises:
        LogError: There is no such folder, or it holds none.
    """
    if not folder.exists():
        beside = [place.name for place in _listed(folder.parent) if place.is_dir()]
        msg = f'There is no folder {str(folder)!r}; {nearest(folder.name, beside)}.'
        raise LogError(msg)
    if not folder.is_dir():
        msg = f'Expected a folder of logs, found the file {str(folder)!r}.'
        raise LogError(msg)
    inside = _listed(folder)
    found = tuple(place for place in inside if place.suffix == '.json' and place.is_file())
    if not found:
        names = ', '.join(place.name for place in inside[:_HINTS])
        more = ', …' if len(inside) > _HINTS else ''
        msg = f'Expected logs *.json in {str(folder)!r}, found {names or "nothing"}{more}.'
        raise LogError(msg)
    return found


def _listed(folder: Path) -> list[Path]:
    """Return what is in a folder, without hidden files."""
    if not folder.is_dir():
        return []
    return sorted(place for place in folder.iterdir() if not place.name.startswith('.'))


def _check_number(path: Path, key: str, value: object) -> None:
    expected, low = 'a finite number', -np.inf
    if key in _POSITIVE:
        expected, low = 'a number greater than 0', np.nextafter(0.0, 1.0)
    elif key in _NOT_NEGATIVE:
        expected, low = 'a number of at least 0', 0.0
    # A number that is true is one in Python, but nobody weighs true kilograms.
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not is_number(value)
        or value < low
    ):
        raise LogError(bad_value(path, key, value, expected))


def _entries(path: Path, entries: object) -> list[dict[str, Any]]:
    if not isinstance(entries, list):
        raise LogError(bad_value(path, 'entries', entries, 'a list of samples'))
    if not entries:
        msg = f'Expected samples in {str(path)!r}, found none: its entries are empty.'
        raise LogError(msg)
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict):
            expected = f'keys and values ({", ".join(NEEDED)}, …)'
            raise LogError(bad_value(path, f'entries.{number}', entry, expected))
    return entries


def read_log(path: Path) -> ServoLog:
    """Read a raw or processed log.

    ``dt`` says how far the samples of a processed one are apart; without it stamps do, if they are
    even. A log without ``dt`` whose stamps are uneven, or whose commands have stamps of their own,
    is a raw one. ``arm-mass`` is understood as well as ``arm_mass``, and no arm is taken to weigh
    nothing. A column that is missing in some entries was not recorded; keys that a `ServoLog` has
    no place for are left out.

    Args:
        path: The file.

    Raises:
        LogError: It cannot be read, is no log, or its stamps cannot be used.
    """
    file = read_log_file(path)
    values = file.values
    dt, stamps = _times(file)
    return ServoLog(
        name=path.stem,
        motor=values.get('motor', ''),
        trajectory=values.get('trajectory', ''),
        mass=float(values['mass']),
        arm_mass=float(values.get('arm_mass', values.get('arm-mass', 0.0))),
        length=float(values['length']),
        constants={name: float(values[name]) for name in CONSTANT_UNITS if name in values},
        dt=dt,
        position=file.column('position'),
        goal=file.column('goal_position'),
        enabled=(file.column('torque_enable') > ON).astype(np.float64),
        speed=file.recorded('speed'),
        load=file.recorded('load'),
        control=file.recorded('control'),
        path=path,
        stamps=None if stamps is None else stamps - stamps[0],
        commands=None if stamps is None else _commands(file, stamps[0]),
    )


def read_logs(folder: Path) -> tuple[ServoLog, ...]:
    """Read all logs of a folder, by name.

    Raises:
        LogError: There is no such folder, it holds no logs, or one of them cannot be read.
    """
    return tuple(read_log(path) for path in find_logs(folder))


def write_log(path: Path, log: ServoLog) -> None:
    """Write a log, raw or processed as it is; what was not recorded is left out.

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
    columns['timestamp'] = log.times.tolist()
    document = {
        'mass': float(log.mass),
        'arm_mass': float(log.arm_mass),
        'length': float(log.length),
        **{name: float(value) for name, value in log.constants.items()},
        **{key: text for key, text in texts.items() if text},
        **({'dt': float(log.dt)} if log.stamps is None else {}),
        **({} if log.commands is None else {_COMMANDS: _written(log.commands)}),
        'entries': [
            dict(zip(columns, sample, strict=True))
            for sample in zip(*columns.values(), strict=True)
        ],
    }
    replace_file(path, json.dumps(document).encode())


def split(
    logs: Sequence[ServoLog], validation_kp: float
) -> tuple[tuple[ServoLog, ...], tuple[ServoLog, ...]]:
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


def check_motor(logs: Sequence[ServoLog], name: str) -> None:
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
    alike = {name}.union(*(names for names in _SAME_SERVO if name in names))
    wrong = [(log, kind) for log, kind in found if kind not in alike]
    if wrong:
        log, kind = wrong[0]
        msg = (
            f'Expected logs of the servo {name}, found {kind} in {log.name!r}, and {len(wrong)} of '
            f'{len(logs)} logs of another servo: ask for that one, or leave them out.'
        )
        raise LogError(msg)


def _plain(name: str) -> str:
    return name.lower().replace('-', '').replace('_', '').replace(' ', '')


def _times(file: LogFile) -> tuple[float, NDArray[np.float64] | None]:
    """Return the time between samples, s, and the stamps of a raw log."""
    if 'dt' in file.values:
        return _period(file), None
    if all('timestamp' not in entry for entry in file.entries):
        hint = nearest('dt', file.values)
        msg = f'Expected dt or stamps in {str(file.path)!r}, found neither; {hint}.'
        raise LogError(msg)
    stamps = file.stamps()
    if len(stamps) == 1:
        msg = f'Expected dt or at least two samples in {str(file.path)!r}, found one sample.'
        raise LogError(msg)
    dt = None if _COMMANDS in file.values else _period_of_stamps(stamps)
    if dt is not None:
        return dt, None
    apart = float(stamps[-1] - stamps[0]) / (len(stamps) - 1)
    if apart > _FARTHEST:
        msg = (
            f'Expected stamps in seconds in {str(file.path)!r}, at most {_FARTHEST:g} s apart on '
            f'average, found {apart:g} s.'
        )
        raise LogError(msg)
    return PERIOD, stamps


def _period(file: LogFile) -> float:
    """Return the time between samples that a processed log says, s."""
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


def _period_of_stamps(stamps: NDArray[np.float64]) -> float | None:
    """Return how far stamps are apart, s; None where they are uneven."""
    mean = float(stamps[-1] - stamps[0]) / (len(stamps) - 1)
    for dt in (*(round(mean, decimals) for decimals in _DECIMALS), mean):
        expected = stamps[0] + np.arange(len(stamps)) * dt
        if dt > 0 and np.abs(stamps - expected).max() <= _EVEN * dt:
            return dt
    return None


def _commands(file: LogFile, origin: float) -> Commands | None:
    """Return the commands of a raw log that have stamps of their own."""
    given = file.values.get(_COMMANDS)
    if given is None:
        return None
    names = ('timestamp', 'goal_position', 'torque_enable')
    columns = [given.get(name) if isinstance(given, dict) else None for name in names]
    lists = [column for column in columns if isinstance(column, list) and column]
    if len(lists) < len(names) or len({len(column) for column in lists}) > 1:
        expected = f'lists of one length: {", ".join(names)}'
        raise LogError(bad_value(file.path, _COMMANDS, given, expected))
    for name, column in zip(names, lists, strict=True):
        for number, value in enumerate(column):
            if not is_number(value):
                place = f'{_COMMANDS}.{name}.{number}'
                raise LogError(bad_value(file.path, place, value, 'a finite number'))
    stamps, goal, on = (np.array(column, dtype=np.float64) for column in lists)
    _check_increasing(file.path, stamps, 'command')
    return Commands(stamps - origin, goal, (on > ON).astype(np.float64))


def _written(commands: Commands) -> dict[str, list[Any]]:
    return {
        'timestamp': commands.times.tolist(),
        'goal_position': commands.goal.tolist(),
        'torque_enable': (commands.enabled > ON).tolist(),
    }


def process(raw: Path, output: Path, dt: float = PERIOD) -> tuple[Path, ...]:
    """Interpolate every raw log of a folder; see `interpolate`.

    All are read and checked before the first is written. Files keep their names.

    Args:
        raw: Folder of raw logs.
        output: Another folder; it is made where there is none.
        dt: Time between samples, s.

    Returns:
        The files that were written, by name.

    Raises:
        LogError: There are no logs, one of them cannot be used, or the folders are the same.
        ResultError: The output cannot be written.
    """
    if raw.exists() and output.exists() and raw.samefile(output):
        msg = f'Expected another folder than {str(raw)!r} for processed logs: raw ones are kept.'
        raise LogError(msg)
    made = {
        output / path.name: json.dumps(interpolate(read_log_file(path), dt))
        for path in find_logs(raw)
    }
    for path, text in made.items():
        replace_file(path, text.encode())
    return tuple(made)


def interpolate(file: LogFile, dt: float = PERIOD) -> dict[str, Any]:
    """Return a raw log evenly sampled from time 0 on, as BAM does it.

    Samples are linear between the entries before and after, and before the first entry on the line
    through the first two. The motor is on where its interpolated state is more than a half. A
    sample has the keys of the entry before it; values that are no numbers there or in the next
    entry, as texts, are those of the entry before.

    Args:
        file: The raw log.
        dt: Time between samples, s.

    Returns:
        Keys and values of the processed log: those of the raw one, new entries, and ``dt``.

    Raises:
        LogError: Stamps do not increase, are no seconds since the start, or required values are
            missing or not finite.
    """
    for key in NEEDED:
        file.column(key)
    for key in OPTIONAL:
        file.recorded(key)
    stamps = file.stamps()
    _check_times(file, stamps, dt)
    times = np.arange(0.0, stamps[-1], dt)
    # The first entry that is not before a sample is the one after it.
    before = np.maximum(np.searchsorted(stamps, times) - 1, 0)
    columns = {
        key: _interpolated(file, key, stamps, times, before)
        for key in dict.fromkeys(key for entry in file.entries for key in entry)
        if key != 'timestamp'
    }
    columns['torque_enable'] = [value > ON for value in columns['torque_enable']]
    entries = [
        {
            **{key: columns[key][row] for key in file.entries[entry] if key != 'timestamp'},
            'timestamp': time,
        }
        for row, (entry, time) in enumerate(zip(before.tolist(), times.tolist(), strict=True))
    ]
    return {**file.values, 'entries': entries, 'dt': dt}


def _interpolated(
    file: LogFile,
    key: str,
    stamps: NDArray[np.float64],
    times: NDArray[np.float64],
    before: NDArray[np.int64],
) -> list[Any]:
    """Return a value per time; of entries that lack the key it is never used."""
    found = [entry.get(key) for entry in file.entries]
    numeric = np.array([is_number(value) for value in found])
    numbers = np.array([value if is_number(value) else 0.0 for value in found], dtype=np.float64)
    after = before + 1
    change = (numbers[after] - numbers[before]) * (times - stamps[before])
    values = numbers[before] + change / (stamps[after] - stamps[before])
    linear = numeric[before] & numeric[after]
    return [
        value if between else found[entry]
        for value, between, entry in zip(
            values.tolist(), linear.tolist(), before.tolist(), strict=True
        )
    ]


def _check_times(file: LogFile, stamps: NDArray[np.float64], dt: float) -> None:
    name = str(file.path)
    if not (math.isfinite(dt) and dt > 0):
        msg = f'Expected a time between samples of more than 0 s, found {dt:g}.'
        raise LogError(msg)
    if len(stamps) < 2:  # noqa: PLR2004 (a line has two ends)
        msg = f'Expected at least two entries to interpolate in {name!r}, found one.'
        raise LogError(msg)
    period = float(np.median(np.diff(stamps)))
    if stamps[0] > _LATEST_START * period:
        msg = (
            f'Expected stamps in {name!r} that are seconds since its start, found '
            f'{stamps[0]:.10g} in the first entry.'
        )
        raise LogError(msg)
    if not dt < stamps[-1] <= _MOST_SAMPLES * dt * len(stamps):
        msg = (
            f'Expected {name!r} to be longer than {dt:g} s and at most {_MOST_SAMPLES} '
            f'samples per entry, found {len(stamps)} entries up to {stamps[-1]:g} s: are stamps '
            'and dt in seconds?'
        )
        raise LogError(msg)
