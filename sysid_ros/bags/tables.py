# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""CSV files and LeRobot datasets, read as the bags that they could have been.

A table has a column of times and a column for each number; what a column is, is told by the words
of its name. What measures joints becomes ``/joint_states``, what commands them ``/joint_commands``,
all else a topic with the file's name. An episode of a LeRobot dataset is a recording, named
``DATASET/episode_000000`` whichever files of Parquet hold it: ``observation.state`` is measured,
``action`` is commanded, ``meta/info.json`` has the joints.
"""

from __future__ import annotations

import csv
import functools
import importlib.util
import json
import math
import os
import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from sysid_ros.bags import BagColumns, Field, Span, TopicColumns, UnreadTopic
from sysid_ros.bags.budget import MOST_COLUMNS, Budget, DamagedFileError
from sysid_ros.bags.storage import (
    CSV,
    METADATA,
    PARQUET,
    TABLE_SUFFIXES,
    natural_order,
    suffix,
)
from sysid_ros.errors import BagError, listed, nearest
from sysid_ros.files import check_file, files_in, matching, read_text
from sysid_ros.vocabulary import (
    COMMANDED,
    COMPONENTS,
    CURRENT,
    MEASURED,
    PWM,
    QUANTITIES,
    WORD,
    Quantity,
    words_of,
)

STATES, COMMANDS = '/joint_states', '/joint_commands'
_STATE = 'sensor_msgs/msg/JointState'
#: What stands where a bag has the type of a message.
_TABLE = 'table'
#: Where a LeRobot dataset says what its columns are.
_INFO = 'meta/info.json'
#: Name of an episode in a dataset, where no such file has to be, and the column with its number.
_EPISODE, _EPISODES = re.compile(r'episode_(\d+)'), 'episode_index'
#: Positions of robots are seldom more than a turn, rad; LeRobot's are at most this in parts of
#: their range; and its robots of these types have grippers in parts also where arms are in degrees.
_MOST_RAD, _FULL = 2 * math.pi, 100.0
_GRIPS_IN_PARTS = re.compile(r'(bi_)?(so10[01]|koch|lekiwi)')
#: Words of a column's name to the field that a message would have; the first that fits counts.
_QUANTITIES = {
    'position': QUANTITIES[Quantity.POSITION],
    'velocity': QUANTITIES[Quantity.VELOCITY],
    'effort': QUANTITIES[Quantity.EFFORT] - CURRENT - PWM,
    'current': CURRENT,
    'pwm': PWM,
}
#: Words that are no part of a joint's name.
_NO_JOINTS = COMMANDED | MEASURED | {'dof'} | frozenset().union(*_QUANTITIES.values())
_TIMES = frozenset(
    ['t', 'time', 'times', 'timestamp', 'timestamps', 'stamp', 'stamps', 'sec', 'secs', 'seconds']
)
_TIME_NOISE = frozenset(
    ['ros', 'sim', 'elapsed', 'relative', 'rel', 'unix', 'epoch', 'system', 'header', 'log']
)
_TIME_UNITS = {'s': 1.0, 'ms': 1e-3, 'us': 1e-6, 'µs': 1e-6, 'ns': 1e-9}
_DEG = math.pi / 180
#: Units that a name may carry, to SI units; that of a current stays what it is.
_UNITS = {'deg': _DEG, 'degrees': _DEG, 'rev': 360 * _DEG, 'rpm': 6 * _DEG, 'mm': 1e-3, 'mnm': 1e-3}
_UNITS |= dict.fromkeys(('rad', 'radians', 'nm', 'm'), 1.0)
#: Seconds since 1970 of times that are dates; a larger number is one in smaller units.
_DATE_S = (5e8, 5e9)
#: What nanoseconds in 64 bits hold, s.
_LATEST_S = 9e9
#: Rows of a CSV file that are read at a time, and the characters that a line of it may have.
_ROWS, LONGEST_LINE = 10_000, 1 << 20
#: Bytes of a number.
_NUMBER = 8
#: Nobody records joints more slowly, s; such a period is one in smaller units.
_SLOWEST_S = 2.0


@dataclass
class _Table:
    """Columns of a file; what is no number has a reason instead."""

    name: str
    columns: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    #: Joint to what its positions are parts of.
    spans: dict[str, Span] = field(default_factory=dict)
    #: Column whose type says that it holds times; empty where none does.
    times: str = ''


def table_files(path: Path) -> tuple[Path, ...]:
    """Return the tables at a path: a file, those of a folder that holds no bag, or of a dataset."""
    dataset = path.parent if _EPISODE.fullmatch(path.name) and not path.exists() else path
    if (dataset / _INFO).exists():
        inside = list((dataset / 'data').rglob(f'*{PARQUET}'))
    else:
        inside = files_in(path)
        if any(entry.name == METADATA or suffix(entry) for entry in inside):
            return ()
    return tuple(sorted((e for e in inside if e.suffix in TABLE_SUFFIXES), key=natural_order))


def recordings(pattern: str) -> list[Path]:
    """Return the recordings that a path or a pattern means; a dataset stands for its episodes."""
    folder, name = os.path.split(pattern)
    inside = [path for match in matching(folder) for path in episodes_in(Path(match))]
    found = [path for path in inside if fnmatchcase(path.name, name)]
    for path in map(Path, () if found else matching(pattern)):
        found += episodes_in(path) or [path]
    return found


def episodes_in(path: Path) -> list[Path]:
    """Return the episodes of a dataset; none where there is no dataset."""
    files = table_files(path) if (path / _INFO).exists() else ()
    return [path / f'episode_{number:06d}' for number in _numbers(_whole(files))] if files else []


def _numbers(table: _Table) -> list[int]:
    """Return the numbers of the episodes in a table; none where it has no such column."""
    return sorted(map(int, set(table.columns.get(_EPISODES, ()))))


def read_tables(path: Path, topics: Collection[str] | None = None) -> BagColumns:
    """Read CSV files, a table of Parquet or an episode of a LeRobot dataset.

    Raises:
        BagError: A file is not what it should be, there are several episodes, or no such topic.
    """
    files = table_files(path)
    if all(file.suffix == PARQUET for file in files):
        tables = [_episode(path, files)]
    else:
        tables = _joined([_read_csv(f) if f.suffix == CSV else _episode(f, (f,)) for f in files])
    found: dict[str, TopicColumns] = {}
    unread: list[UnreadTopic] = []
    for table in tables:
        made = _topics(path, table, alone=len(tables) == 1)
        found.update({topic.topic: topic for topic in made})
        unread += [
            UnreadTopic(f'/{table.name}/{name}', _TABLE, 1, reason)
            for name, reason in table.unread.items()
        ]
    for topic in topics or ():
        if topic not in found:
            raise BagError(
                f'The table {str(path)!r} has no topic {topic!r}; {nearest(topic, found)}.'
            )
    kept = [found[name] for name in sorted(found) if topics is None or name in topics]
    return BagColumns(path, tuple(kept), tuple(unread))


def _read_csv(file: Path) -> _Table:
    """Read a file: its first line names the columns, a cell is a number or a list of such."""
    names: list[str] = []
    blocks: list[list[NDArray[np.float64] | list[Any]]] = []
    try:
        check_file(file, math.inf)
        with file.open(encoding='utf-8-sig', newline='') as stream:
            lines = iter(lambda: _line(stream), '')
            first = next(lines, '').lstrip('# ')
            delimiter = max(',;\t', key=first.count)
            names = [name.strip() for name in next(csv.reader([first], delimiter=delimiter), [])]
            _check_names(file, names)
            rows = ((n, row) for n, row in enumerate(csv.reader(lines, delimiter=delimiter), 2))
            filled = ((n, row) for n, row in rows if any(row))
            # Numbers take a tenth of the memory of the texts that they are made from.
            while block := list(islice(filled, _ROWS)):
                uneven = next((n for n, row in block if len(row) != len(names)), None)
                if uneven is not None:
                    count = next(len(row) for n, row in block if n == uneven)
                    raise _uneven(file, names, f'{count} in line {uneven}')
                blocks.append(
                    [_numbers_of(cells) for cells in zip(*(r for _, r in block), strict=True)]
                )
    except (OSError, ValueError, csv.Error) as err:
        reason = err.strerror if isinstance(err, OSError) else err
        raise BagError(f'The table {str(file)!r} cannot be read: {reason}.') from err
    if not blocks:
        raise _uneven(file, names, 'no line with any')
    table = _Table(file.stem)
    named = (name or 'unnamed' for name in names)
    for name, parts in zip(named, zip(*blocks, strict=True), strict=True):
        if all(isinstance(part, np.ndarray) for part in parts):
            table.columns[name] = np.concatenate(parts)
        else:
            _add(table, name, [cell for part in parts for cell in part], None)
    return table


def _line(stream: TextIO) -> str:
    line = stream.readline(LONGEST_LINE)
    if len(line) == LONGEST_LINE:
        raise ValueError(f'a line of it has more than {LONGEST_LINE} characters')
    return line


def _check_names(file: Path, names: list[str]) -> None:
    """Refuse names of columns that are none, or not each another one."""
    if not names or all(math.isfinite(_number(name)) for name in names):
        raise BagError(
            f'Expected the names of the columns in the first line of {str(file)!r}, found none.'
        )
    if len(names) > MOST_COLUMNS:
        raise BagError(
            f'Expected at most {MOST_COLUMNS} columns in {str(file)!r}, found {len(names)}.'
        )
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        raise BagError(
            f'Expected columns with different names in {str(file)!r}, found {twice!r} twice.'
        )


def _uneven(file: Path, names: list[str], found: str) -> BagError:
    return BagError(f'Expected {len(names)} values in each line of {str(file)!r}, found {found}.')


def _numbers_of(cells: tuple[str, ...]) -> NDArray[np.float64] | list[Any]:
    """Return the numbers of cells, at once as nearly all columns are, or what each cell is."""
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        return [_cell(cell) for cell in cells]


def _whole(files: tuple[Path, ...]) -> _Table:
    return _read_parquet(tuple((file, file.stat().st_mtime_ns) for file in files))


@functools.lru_cache(maxsize=1)
def _read_parquet(files: tuple[tuple[Path, int], ...]) -> _Table:
    """Read files with the times of their last changes: all episodes of a dataset at once."""
    first = files[0][0]
    if importlib.util.find_spec('pyarrow') is None:
        raise BagError(
            f'Expected the Python package pyarrow to read {str(first)!r}, found none; get it with '
            "`pip install 'sysid_ros[parquet]'`."
        )
    import pyarrow as pa  # noqa: PLC0415 (an extra)
    import pyarrow.parquet as pq  # noqa: PLC0415

    found = []
    for file, _ in files:
        try:
            check_file(file, math.inf)
            table = pq.ParquetFile(file)
            Budget(file.stat().st_size).take(_NUMBER * _count(table.metadata))
            found.append(table.read())
        except (pa.ArrowException, OSError, ValueError, DamagedFileError) as err:
            raise BagError(
                f'The table {str(file)!r} is damaged: {" ".join(str(err).split()).rstrip(".")}.'
            ) from err
    rows = pa.concat_tables(found, promote_options='permissive')
    table, (robot, known) = _Table(first.stem), _features(first)
    for name in rows.column_names:
        column = rows.column(name)
        if pa.types.is_timestamp(column.type):
            table.times = table.times or name
            unit = _time_unit(name) or math.nan
            ns = column.cast(pa.timestamp('ns')).cast(pa.int64()).to_numpy()
            table.columns[name] = ns / (1e9 if math.isnan(unit) else 1e9 * unit)
        elif pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
            table.columns[name] = column.to_numpy().astype(np.float64)
        elif pa.types.is_temporal(column.type):
            table.unread[name] = f'{column.type} is no number'
        else:
            _add(table, name, column.to_pylist(), known.get(name))
    table.spans = _spans(table, robot) if known else {}
    return table


def _count(metadata: Any) -> int:
    """Return how many values a file of Parquet has in all: a few bytes stand for many alike."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    return sum(
        group.column(column).num_values for group in groups for column in range(group.num_columns)
    )


def _episode(path: Path, files: tuple[Path, ...]) -> _Table:
    """Read the only episode of a table of Parquet, or the one that a path names."""
    whole, asked = _whole(files), _EPISODE.fullmatch(path.name)
    numbers = _numbers(whole)
    if asked is None and len(numbers) < 2:  # noqa: PLR2004 (one, or no dataset)
        return whole
    if asked is None or int(asked[1]) not in numbers:
        names = [f'DATASET/episode_{number:06d}' for number in numbers]
        raise BagError(
            f'Expected an episode of a dataset, found {str(path)!r}; {nearest(path.name, names)}.'
        )
    rows = whole.columns[_EPISODES] == int(asked[1])
    columns = {name: values[rows] for name, values in whole.columns.items()}
    return replace(whole, name=path.absolute().parent.name, columns=columns)


def _spans(table: _Table, robot: str) -> dict[str, Span]:
    """Return which joints of a dataset are in parts of their ranges, or may be, by their values.

    LeRobot limits them to exactly -100 and 100, and grippers to 0 and 100; degrees are not limited.
    Which of both a dataset has, ``use_degrees``, is not in it.
    """
    ends: dict[str, list[float]] = {}
    for text, values in table.columns.items():
        _, quantity, label, _ = _heading(text, '')
        if quantity == 'position' and text.startswith(('observation.state', 'action')):
            ends.setdefault(label, []).extend((np.nanmin(values), np.nanmax(values)))
    grips = {label for label in ends if 'gripper' in words_of(label)}
    most = max((abs(end) for label in ends.keys() - grips for end in ends[label]), default=0.0)
    if most <= _MOST_RAD:
        return {}
    found = {}
    for label, own in ends.items():
        low = 0.0 if label in grips else -_FULL
        if low <= min(own) and max(own) <= _FULL and (label in grips or most <= _FULL):
            told = most == _FULL or (label in grips and bool(_GRIPS_IN_PARTS.match(robot)))
            found[label] = Span(low, _FULL, told)
    return found


def _features(file: Path) -> tuple[str, dict[str, list[str]]]:
    """Return a dataset's type of robot, and what it calls the values of its columns."""
    info = next((up / _INFO for up in file.parents[:3] if (up / _INFO).exists()), None)
    if info is None:
        return '', {}
    try:
        said = json.loads(read_text(info))
        names = {name: _flat(item.get('names')) for name, item in said['features'].items()}
        return str(said.get('robot_type')), names
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        raise BagError(
            f'Expected the features of a LeRobot dataset in {str(info)!r}, found none.'
        ) from err


def _flat(names: Any) -> list[str]:
    """Return the names of a feature: a list, a list in a list, or lists by kinds."""
    if isinstance(names, dict):
        names = list(names.values())
    if not isinstance(names, list):
        return [] if names is None else [str(names)]
    return [flat for name in names for flat in _flat(name)]


def _add(table: _Table, name: str, cells: list[Any], labels: list[str] | None) -> None:
    """Add a column, or one for each value of a list; say why where its cells are no numbers."""
    wrong = next((cell for cell in cells if not isinstance(cell, (int, float, list))), None)
    lists = [cell for cell in cells if isinstance(cell, list)]
    widths = {len(cell) for cell in lists}
    if isinstance(cells[0], bool):
        table.unread[name] = 'true or false, no numbers'
    elif wrong is not None or (lists and (len(lists) < len(cells) or len(widths) > 1)):
        shown = str(lists[0] if wrong is None else wrong)[:20]
        table.unread[name] = f'{shown!r} is no number'
    elif not lists:
        table.columns[name] = np.array(cells, dtype=np.float64)
    else:
        try:
            values = np.array(cells, dtype=np.float64)
        except (TypeError, ValueError):
            table.unread[name] = 'lists of what are no numbers'
            return
        (width,) = widths
        known = labels if labels and len(labels) == width else list(map(str, range(width)))
        if values.ndim == 2:  # noqa: PLR2004 (a list of numbers in each row)
            table.columns |= {f'{name}.{label}': values[:, k] for k, label in enumerate(known)}


def _cell(text: str) -> Any:
    """Return a number, NaN for an empty cell, a list, or the text itself."""
    text = text.strip()
    if text.startswith('[') and text.endswith(']'):
        return [_number(item) for item in re.split(r'[,\s]+', text[1:-1].strip())]
    if not text or text.lower() == 'nan':
        return math.nan
    value = _number(text)
    return text if math.isnan(value) else value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _joined(tables: list[_Table]) -> list[_Table]:
    """Join the tables that have the same times: a file may hold positions and another efforts."""
    kept: list[_Table] = []
    for table in tables:
        times = {name: values for name, values in table.columns.items() if _time_unit(name)}
        for other in kept:
            same = all(
                name in other.columns and np.array_equal(values, other.columns[name])
                for name, values in times.items()
            )
            if times and same and set(table.columns) & set(other.columns) == set(times):
                other.columns |= table.columns
                other.unread |= table.unread
                break
        else:
            kept.append(table)
    return kept


def _time_unit(name: str) -> float | None:
    """Return the seconds per unit of a column of times, NaN where it has none, None otherwise."""
    words = words_of(name)
    unit = next((_TIME_UNITS[word] for word in words if word in _TIME_UNITS), math.nan)
    rest = set(words) - set(_TIME_UNITS) - _TIME_NOISE
    return unit if rest and rest <= _TIMES else None


def _times_ns(path: Path, table: _Table) -> tuple[str, NDArray[np.int64]]:
    """Return which column of a table has its times, and these, ns."""
    name = next((key for key in table.columns if _time_unit(key)), table.times)
    if not name:
        raise BagError(
            f'Expected a column of times (time, timestamp or t) in {str(path)!r}, '
            f'found {listed(table.columns, 8) or "none"}.'
        )
    values, unit = table.columns[name], _time_unit(name)
    periods = np.diff(values)
    if not np.isfinite(values).all() or not (periods > 0).any():
        raise BagError(
            f'Expected times that run on in column {name!r} of {str(path)!r}, found none.'
        )
    if unit is None or math.isnan(unit):
        period = float(np.median(periods[periods > 0]))
        sizes = [item for item in (1.0, 1e-3, 1e-6, 1e-9) if _plausible(values[0], period, item)]
        unit = sizes[0] if sizes else 1.0
    if not np.abs(values * unit).max() < _LATEST_S:
        raise BagError(
            f'Expected times in seconds in column {name!r} of {str(path)!r}, found '
            f'{np.abs(values).max():g}.'
        )
    start = round(float(values[0]) * unit) if values[0] * unit > _DATE_S[0] else 0
    seconds = (values - start / unit) * unit
    stamps: NDArray[np.int64] = start * 1_000_000_000 + np.round(1e9 * seconds).astype(np.int64)
    return name, stamps


def _plausible(first: float, period: float, unit: float) -> bool:
    """Whether times may be in a unit: dates of this century, or a period somebody records at."""
    if first * 1e-9 > _DATE_S[0]:
        return _DATE_S[0] < first * unit < _DATE_S[1]
    date = first * unit > _DATE_S[0]
    return (not date or first * unit < _DATE_S[1]) and period * unit < _SLOWEST_S


def _heading(text: str, file: str) -> tuple[bool, str, str, float]:
    """Read a column's name, and where that does not say it its file's.

    Returns:
        Whether it is a command, field of a message or empty, joint, and SI units per unit.
    """
    words, of_file = words_of(text), words_of(file)
    if COMPONENTS & set(words[-1:]):
        return False, '', text, 1.0
    quantity = next(
        (
            name
            for said in (words, of_file)
            for name, known in _QUANTITIES.items()
            if known & set(said)
        ),
        '',
    )
    if not quantity and ('action' in words or {'observation', 'state'} <= set(words)):
        quantity = 'position'
    unit = words[-1] if quantity and words and words[-1] in _UNITS else ''
    drop = _NO_JOINTS | {unit}
    label = WORD.sub(lambda word: '\0' if word.group().lower() in drop else word.group(), text)
    label = re.sub(r'[\W_]+', lambda gap: '_' if '\0' in gap[0] else gap[0], label)
    inside = re.search(r'[^\W_].*[^\W_]|[^\W_]', label, re.DOTALL)
    label = inside[0] if inside else ''
    return bool(COMMANDED & {*words, *of_file}), quantity, label, _UNITS.get(unit, 1.0)


def _topics(path: Path, table: _Table, *, alone: bool) -> list[TopicColumns]:
    """Sort the columns of a table into topics, with the rows in which each says anything."""
    times, stamps = _times_ns(path, table)
    place, file = ('', '') if alone else (f'/{table.name}', table.name)
    topics: dict[tuple[str, str], dict[str, dict[str, NDArray[np.float64]]]] = {}
    for text, values in table.columns.items():
        if text == times:
            continue
        commanded, quantity, label, factor = _heading(text, file)
        if quantity:
            key, name = (f'{place}{COMMANDS if commanded else STATES}', _STATE), quantity
        elif commanded:
            key, name = (f'{place}{COMMANDS}', _TABLE), 'data'
        else:
            key, name, label = (f'/{table.name}', _TABLE), text, ''
        topics.setdefault(key, {}).setdefault(name, {})[label] = factor * values
    made = []
    for (topic, kind), fields in topics.items():
        numbers = {name: np.column_stack([*found.values()]) for name, found in fields.items()}
        says = np.isfinite(np.column_stack([*numbers.values()])).any(axis=1)
        kept = tuple(
            Field(n, (*own,), numbers[n][says], spans=table.spans) for n, own in fields.items()
        )
        # Times of a table are those of the values. A header's stamp of zero would be none.
        made.append(TopicColumns(topic, kind, stamps[says], np.maximum(stamps[says], 1), kept))
    return made
