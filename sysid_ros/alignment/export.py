# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Aligned data as files and as text."""

from __future__ import annotations

import io
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sysid_ros.alignment.pairs import Role, column_name
from sysid_ros.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from sysid_ros.alignment.pairs import Unmapped
    from sysid_ros.alignment.sequences import Alignment
    from sysid_ros.identification.sequence import Sequence
    from sysid_ros.signals import TimeSeries


def write_npz(folder: Path, sequences: Iterable[Sequence]) -> tuple[Path, ...]:
    """Write each series of each sequence into a file of its own, readable without pickle.

    ``NAME_commands_0.npz`` and ``NAME_measurements_0.npz`` hold ``times`` (n,) s, ``data`` (n, k)
    and ``signal_mapping``, JSON of name to [type, columns], as MuJoCo's sysid toolbox stores a
    time series. ``NAME_initial.npz`` holds ``qpos``, ``qvel`` and ``origin_ns``.

    Returns:
        The files.

    Raises:
        ResultError: The folder cannot be written.
    """
    written = []
    for sequence in sequences:
        for stem, series in _all_series(sequence):
            path = folder / f'{stem}.npz'
            replace_file(
                path,
                _npz(times=series.times, data=series.data, signal_mapping=_mapping_json(series)),
            )
            written.append(path)
        path = folder / f'{sequence.name}_initial.npz'
        content = _npz(
            qpos=sequence.initial_qpos,
            qvel=sequence.initial_qvel,
            origin_ns=np.int64(sequence.origin_ns),
        )
        replace_file(path, content)
        written.append(path)
    return tuple(written)


def write_csv(folder: Path, sequences: Iterable[Sequence]) -> tuple[Path, ...]:
    """Write each series of each sequence as a table with a header line.

    The first column is ``time`` in s from the sequence's origin; numbers are exact.

    Returns:
        The files.

    Raises:
        ResultError: The folder cannot be written.
    """
    written = []
    for sequence in sequences:
        for stem, series in _all_series(sequence):
            path = folder / f'{stem}.csv'
            columns = [''] * series.data.shape[1]
            for name, (_, indices) in series.signal_mapping.items():
                for index in indices:
                    columns[int(index)] = name if len(indices) == 1 else f'{name}[{index}]'
            lines = [','.join(['time', *columns])]
            for time, row in zip(series.times.tolist(), series.data.tolist(), strict=True):
                lines.append(','.join(repr(value) for value in (time, *row)))
            replace_file(path, ('\n'.join(lines) + '\n').encode())
            written.append(path)
    return tuple(written)


def _all_series(sequence: Sequence) -> Iterator[tuple[str, TimeSeries]]:
    for what, several in (
        ('commands', sequence.commands),
        ('measurements', sequence.measurements),
    ):
        for number, series in enumerate(several):
            yield f'{sequence.name}_{what}_{number}', series


def _mapping_json(series: TimeSeries) -> str:
    return json.dumps(
        {
            name: [kind.value, np.asarray(indices).tolist()]
            for name, (kind, indices) in series.signal_mapping.items()
        }
    )


def _npz(**arrays: object) -> bytes:
    stream = io.BytesIO()
    content: dict[str, Any] = {name: np.asarray(value) for name, value in arrays.items()}
    np.savez(stream, **content)
    return stream.getvalue()


def describe(alignment: Alignment) -> str:
    """Say in plain text what was mapped, what was not and why, how fast it came, what is wrong."""
    sections = [
        _table(
            f'Mapped in {alignment.bag}',
            ('role', 'in the model', 'in the bag', 'scale', 'offset'),
            [
                (
                    pair.role.value,
                    pair.name,
                    column_name(pair.topic, pair.field, pair.label),
                    f'{pair.scale:g}',
                    f'{pair.offset:g}',
                )
                for pair in sorted(alignment.pairs, key=lambda pair: pair.role is Role.ACTUATOR)
            ],
        ),
        _table(
            'Not mapped',
            ('what', 'name', 'why'),
            _by_reason(alignment.unmapped),
        ),
        _table(
            'Topics',
            ('topic', 'messages', 'rate [Hz]', 'longest gap [s]'),
            [
                (
                    item.topic,
                    str(item.messages),
                    _known(item.rate, 2),
                    _known(item.longest_gap, 3),
                )
                for item in alignment.topics
            ],
        ),
        _table(
            'Health',
            ('subject', 'kind', 'count', 'detail'),
            [(item.subject, item.kind, str(item.count), item.detail) for item in alignment.health],
        ),
        _table(
            'Sequences',
            ('name', 'duration [s]', 'measured samples', 'command samples'),
            [
                (
                    item.name,
                    f'{item.duration:.3f}',
                    str(sum(len(series) for series in item.measurements)),
                    str(sum(len(series) for series in item.commands)),
                )
                for item in alignment.sequences
            ],
        ),
    ]
    return '\n\n'.join(section for section in sections if section) + '\n'


def _known(value: float, digits: int) -> str:
    return '-' if math.isnan(value) else f'{value:.{digits}f}'


def _by_reason(unmapped: Iterable[Unmapped]) -> list[tuple[str, ...]]:
    """Return what, names and why; a reason that many share is written once, beside the first."""
    together: dict[tuple[str, str], list[str]] = {}
    for item in unmapped:
        together.setdefault((item.kind, item.reason), []).append(item.name)
    rows: list[tuple[str, ...]] = []
    for (kind, reason), names in together.items():
        rows += [(kind, name, 'as above' if row else reason) for row, name in enumerate(names)]
    return rows


def _table(title: str, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a title and left-aligned columns, or nothing when there are no rows."""
    if not rows:
        return ''
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [
        '  '
        + '  '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    ]
    return '\n'.join([title, *lines])
