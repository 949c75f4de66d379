# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Raw logs of servos, whose samples came when they came, become evenly sampled ones."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sysid_ros.errors import LogError
from sysid_ros.files import replace_file
from sysid_ros.servos.formats.json_file import is_number
from sysid_ros.servos.formats.log_file import NEEDED, ON, OPTIONAL, find_logs, read_log_file

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from sysid_ros.servos.formats.log_file import LogFile

#: Time between samples that BAM's tools and recordings have, s.
PERIOD = 0.005
#: The first entry comes at most so many periods of the recording after time 0: until then its
#: first two entries are extrapolated.
_LATEST_START = 10
#: An entry is interpolated to at most so many samples: more come from other units than seconds.
_MOST_SAMPLES = 100


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
            f'Expected {name!r} to be longer than {dt:g} s and at most {_MOST_SAMPLES} samples per '
            f'entry, found {len(stamps)} entries up to {stamps[-1]:g} s: are stamps and dt in '
            'seconds?'
        )
        raise LogError(msg)
