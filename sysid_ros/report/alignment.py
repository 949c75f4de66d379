# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""An aligned bag as tables."""

from __future__ import annotations

import math
from collections.abc import Iterable

from sysid_ros.alignment.pairs import PairRole, Unmapped, column_name
from sysid_ros.alignment.trajectories import Alignment
from sysid_ros.report.tables import LiteralConsole, print_findings, print_table, printed

_PAIR_COLUMNS = ('in the model', 'role', 'in the bag', '>scale', '>offset')
_SEQUENCE_COLUMNS = ('name', '>duration/s', '>measured samples', '>command samples')


def alignment_text(alignment: Alignment) -> str:
    """Return what `print_alignment` prints, nothing folded."""
    return printed(lambda console: print_alignment(console, alignment))


def print_alignment(console: LiteralConsole, alignment: Alignment) -> None:
    """Print what was mapped, what was not and why, how fast it came, and what was found."""
    pairs = [
        (
            pair.name,
            pair.role.value,
            column_name(pair.topic, pair.field, pair.label),
            '' if pair.scale == 1 else f'{pair.scale:g}',
            '' if pair.offset == 0 else f'{pair.offset:g}',
        )
        for pair in sorted(alignment.pairs, key=lambda pair: pair.role is PairRole.ACTUATOR)
    ]
    print_table(console, f'Mapped in {alignment.bag}', _PAIR_COLUMNS, pairs)
    unmapped = _by_reason(alignment.unmapped)
    if unmapped:
        print_table(console, 'Not mapped', ('name', 'what', 'why'), unmapped)
    topics = [
        (item.topic, str(item.messages), _known(item.rate, 2), _known(item.longest_gap, 3))
        for item in alignment.topics
    ]
    print_table(console, 'Topics', ('topic', '>messages', '>rate/Hz', '>longest gap/s'), topics)
    print_findings(console, alignment.health, bags=False)
    sequences = [
        (
            item.name,
            f'{item.duration:.3f}',
            str(sum(len(series) for series in item.measurements)),
            str(sum(len(series) for series in item.commands)),
        )
        for item in alignment.sequences
    ]
    print_table(console, 'Sequences', _SEQUENCE_COLUMNS, sequences)


def _known(value: float, digits: int) -> str:
    return '-' if math.isnan(value) else f'{value:.{digits}f}'


def _by_reason(unmapped: Iterable[Unmapped]) -> list[tuple[str, str, str]]:
    """Return name, what it is and why; a reason that many share is written once, at the first."""
    together: dict[tuple[str, str], list[str]] = {}
    for item in unmapped:
        together.setdefault((item.kind.value, item.reason), []).append(item.name)
    return [
        (name, kind, 'as above' if row else reason)
        for (kind, reason), names in together.items()
        for row, name in enumerate(names)
    ]
