# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""An aligned bag as text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sysid_ros.alignment.pairs import Role, column_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sysid_ros.alignment.pairs import Unmapped
    from sysid_ros.alignment.sequences import Alignment


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
