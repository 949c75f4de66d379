# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A result as a piece of HTML, for a cell of a notebook."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from sysid_ros.report.numbers import interval, padded, rounded, significant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sysid_ros.results.result import CalibrationResult, ParameterResult

#: Legible on light and dark pages: colours of the page itself, and a word beside each colour.
_NAME = 'style="text-align:left;padding:.1em .8em"'
_NUMBER = 'style="text-align:right;padding:.1em .8em;font-variant-numeric:tabular-nums"'
_ACCEPTED, _REJECTED = '#1a7f4b', '#b3261e'


def parameters_html(parameters: Iterable[ParameterResult]) -> str:
    """Return the table of parameters: value, interval, unit, start and verdict."""
    rows = [
        (
            parameter.name,
            rounded(parameter.value, parameter.half_width),
            interval(parameter.low, parameter.high),
            parameter.unit,
            significant(parameter.initial),
            str(parameter.verdict),
        )
        for parameter in parameters
    ]
    return _table(
        ('parameter', 'value', '95 % interval', 'unit', 'start', 'verdict'), rows, numbers={1, 2, 4}
    )


def result_html(result: CalibrationResult) -> str:
    """Return verdict, parameters, and errors before and after, held-out ones where there are."""
    word, colour = ('accepted', _ACCEPTED) if result.accepted else ('rejected', _REJECTED)
    held_out = [error for error in result.errors if error.role == 'validate']
    errors = _table(
        ('sensor', 'before', 'after', 'unit'),
        [
            (error.sensor, padded(error.before), padded(error.after), error.unit)
            for error in held_out or result.errors
        ],
        numbers={1, 2},
    )
    warnings = ''.join(f'<li>{escape(warning)}</li>' for warning in result.warnings)
    unsure = sum(1 for parameter in result.parameters if math.isnan(parameter.half_width))
    note = f'; {unsure} parameters without interval' if unsure else ''
    return (
        f'<p><b style="color:{colour}">{word}</b>: {escape(result.acceptance)}{note}</p>'
        f'{parameters_html(result.parameters)}'
        f'<details><summary>{"Held-out" if held_out else "Training"} error, root mean square'
        f'</summary>{errors}</details>'
        + (f'<details><summary>Warnings</summary><ul>{warnings}</ul></details>' if warnings else '')
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: set[int]) -> str:
    """Return an HTML table; the columns in ``numbers`` are aligned on the right."""

    def line(cells: Sequence[str], tag: str) -> str:
        styled = (
            f'<{tag} {_NUMBER if place in numbers else _NAME}>{escape(cell)}</{tag}>'
            for place, cell in enumerate(cells)
        )
        return f'<tr>{"".join(styled)}</tr>'

    body = ''.join(line(row, 'td') for row in rows)
    return f'<table><thead>{line(header, "th")}</thead><tbody>{body}</tbody></table>'
