# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Results beside each other as tables on a console."""

from __future__ import annotations

import math

from sysid_ros.report.numbers import MISSING, interval, padded, rounded, significant
from sysid_ros.report.tables import LiteralConsole, print_table
from sysid_ros.results.history import ValueSummary
from sysid_ros.results.side_by_side import SideBySide


def print_side_by_side(console: LiteralConsole, found: SideBySide) -> None:
    """Print standing, parameters, errors and what else differs."""
    names = [result.name for result in found.results]
    rows = [(own.name, own.standing, own.acceptance, own.created) for own in found.results]
    print_table(console, 'Results', ('result', 'standing', 'why', 'made'), rows)
    print_parameters(console, found)
    role = 'held-out' if found.role == 'validate' else 'training'
    print_table(
        console,
        f'Errors on {role} recordings, nominal → fitted',
        ('sensor', *(f'>{name}' for name in names), 'unit'),
        [
            (
                row.sensor,
                *(
                    MISSING if side is None else f'{padded(side.nominal)} → {padded(side.fitted)}'
                    for side in row.sides
                ),
                row.unit,
            )
            for row in found.errors
        ],
    )
    if found.different:
        different = [
            (row.name, *(side or MISSING for side in row.sides)) for row in found.different
        ]
        print_table(console, 'What differs', ('', *names), different)
    for sentence in found.sentences:
        console.print(sentence)


def print_parameters(console: LiteralConsole, found: SideBySide) -> None:
    """Print a row per parameter: each value, and how far those after the first are from it."""
    names = [f'>{result.name}' for result in found.results]
    rows = []
    for row in found.parameters:
        differences: list[str] = []
        for deviations, changed in zip(row.deviations, row.changed, strict=True):
            differences.append(MISSING if deviations is None else significant(deviations, 2))
            differences.append({None: '', True: 'differs', False: 'agrees'}[changed])
        rows.append((row.name, *map(_value, row.sides), *differences, row.unit))
    columns = ('parameter', *names, *('>std errors', '') * (len(names) - 1), 'unit')
    print_table(console, 'Parameters', columns, rows)


def _value(side: ValueSummary | None) -> str:
    if side is None:
        return MISSING
    half_width = (side.high - side.low) / 2
    value = rounded(side.value, half_width)
    return value if math.isnan(half_width) else f'{value} {interval(side.low, side.high)}'
