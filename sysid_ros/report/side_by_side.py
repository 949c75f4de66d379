# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Results beside each other as one HTML page, and as tables on a console."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from markupsafe import Markup

from sysid_ros.files import replace_file
from sysid_ros.report.numbers import MISSING, interval, padded, rounded, significant
from sysid_ros.report.tables import print_table

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sysid_ros.report.tables import LiteralConsole
    from sysid_ros.results.result import DriftedParameter, ParameterResult, SensorError
    from sysid_ros.results.side_by_side import Row, SideBySide


def render_side_by_side(found: SideBySide) -> str:
    """Render results as the text of a self-contained HTML page, which runs no script."""
    from sysid_ros.report.html import STANDING, asset, environment  # noqa: PLC0415 (slow to import)

    context = {
        'found': found,
        'standing': STANDING,
        'held_out': found.role == 'validate',
        # It holds no text of the user's.
        'style': Markup(asset('report.css')),  # noqa: S704
    }
    return environment().get_template('side_by_side.html.j2').render(context)


def write_side_by_side(found: SideBySide, path: Path) -> None:
    """Write results as one HTML file that opens offline.

    Raises:
        ResultError: The file cannot be written.
    """
    replace_file(path, render_side_by_side(found).encode('utf-8'))


def print_side_by_side(console: LiteralConsole, found: SideBySide) -> None:
    """Print standing, parameters, errors and what else differs."""
    rows = [
        (
            name,
            result.standing,
            result.acceptance,
            result.provenance.created,
        )
        for name, result in zip(found.names, found.results, strict=True)
    ]
    columns = ('result', 'standing', '~why', 'made')
    print_table(console, 'Results', columns, rows)
    sides = [f'>{name}' for name in found.names]
    print_table(
        console,
        'Parameters',
        ('parameter', *sides, *('>std errors', '') * len(found.drifts), 'unit'),
        [
            (
                row.name,
                *map(_value, row.sides),
                *(text for drift in found.drifted(row.name) for text in _drift(drift)),
                row.known.unit,
            )
            for row in found.parameters
        ],
    )
    role = 'held-out' if found.role == 'validate' else 'training'
    print_table(
        console,
        f'Errors on {role} recordings, nominal → fitted',
        ('sensor', *sides, 'unit'),
        [(row.name, *map(_error, row.sides), row.known.unit) for row in found.errors],
    )
    different = [*_different(found.models), *_different(found.recordings)]
    different += _different(found.versions)
    if different:
        print_table(console, 'What differs', ('', *found.names), different)
    for sentence in found.sentences:
        console.print(sentence)


def _value(parameter: ParameterResult | None) -> str:
    if parameter is None:
        return MISSING
    value = rounded(parameter.value, parameter.half_width)
    if math.isnan(parameter.half_width):
        return value
    return f'{value} {interval(parameter.low, parameter.high)}'


def _drift(drift: DriftedParameter | None) -> tuple[str, str]:
    if drift is None:
        return MISSING, ''
    return significant(drift.deviations, 2), 'differs' if drift.changed else 'agrees'


def _error(error: SensorError | None) -> str:
    return MISSING if error is None else f'{padded(error.before)} → {padded(error.after)}'


def _different(rows: Iterable[Row[str]]) -> list[tuple[str, ...]]:
    return [(row.name, *(side or MISSING for side in row.sides)) for row in rows if row.differs]
