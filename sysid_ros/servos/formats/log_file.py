# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A log as its file has it: BAM's keys and values, raw or processed, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sysid_ros.errors import LogError, nearest
from sysid_ros.servos.formats.json_file import bad_value, is_number, read_object
from sysid_ros.servos.laws.coefficients import CONSTANT_UNITS

if TYPE_CHECKING:
    from collections.abc import Mapping
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
#: So many keys of a file are named when it has not those of a log.
_HINTS = 5


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
        late = np.flatnonzero(np.diff(stamps) <= 0)
        if len(late):
            before, after = stamps[late[0]], stamps[late[0] + 1]
            msg = (
                f'Expected increasing stamps in {str(self.path)!r}, found {after:g} s in entry '
                f'{late[0] + 1} after {before:g} s.'
            )
            raise LogError(msg)
        return stamps


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
    if isinstance(value, bool) or not isinstance(value, int | float) or not is_number(value):
        raise LogError(bad_value(path, key, value, expected))
    if value < low:
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
