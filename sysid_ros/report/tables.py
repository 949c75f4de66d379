# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A result as tables of text: what the command line prints, and ``print(result)`` in Python."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from sysid_ros.report.numbers import interval, padded, rounded, significant, times

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sysid_ros.results.result import CalibrationResult, ParameterResult

#: Width where the output is not a terminal: nothing is folded there.
WIDE = 1000


class Column(NamedTuple):
    """One column of a table; numbers are aligned on the right."""

    header: str
    number: bool = True


def result_text(result: CalibrationResult) -> str:
    """Return what `print_result` prints, nothing folded."""
    stream = io.StringIO()
    print_result(Console(file=stream, highlight=False, width=WIDE), result)
    return _trimmed(stream.getvalue())


def parameters_text(parameters: Sequence[ParameterResult]) -> str:
    """Return the table of parameters alone."""
    stream = io.StringIO()
    _print_parameters(Console(file=stream, highlight=False, width=WIDE), parameters)
    return _trimmed(stream.getvalue())


def _trimmed(text: str) -> str:
    """Leave out the spaces that tables end their lines with."""
    return '\n'.join(line.rstrip() for line in text.rstrip().splitlines())


def print_result(
    console: Console, result: CalibrationResult, truth: Mapping[str, float] | None = None
) -> None:
    """Print the parameters of a result and its errors before and after.

    Args:
        console: Where to.
        result: What was found.
        truth: Parameter name to true value, where known.
    """
    _print_parameters(console, result.parameters, truth)
    _print_trust(console, result)
    _print_errors(console, result)
    _print_folds(console, result)
    for warning in result.warnings:
        console.print(f'warning: {warning}', markup=False)
    console.print(result.acceptance, markup=False)
    if not result.accepted:
        console.print('REJECTED: the identified model is not written.', markup=False)


def _print_parameters(
    console: Console,
    parameters: Iterable[ParameterResult],
    truth: Mapping[str, float] | None = None,
) -> None:
    columns = [
        Column('parameter', number=False),
        Column('value'),
        Column('95 % interval'),
        Column('unit', number=False),
        Column('start'),
        *([Column('true')] if truth else []),
        Column('verdict', number=False),
    ]
    rows = []
    for parameter in parameters:
        true = truth.get(parameter.name, math.nan) if truth else math.nan
        rows.append(
            (
                parameter.name,
                rounded(parameter.value, parameter.half_width),
                interval(parameter.low, parameter.high),
                parameter.unit,
                significant(parameter.initial),
                *([significant(true)] if truth else []),
                parameter.verdict,
            )
        )
    print_table(console, 'Parameters', columns, rows)


def _print_trust(console: Console, result: CalibrationResult) -> None:
    """Print how intervals were found, what the data cannot say, and what they say instead."""
    for parameter in result.parameters:
        if parameter.explanation:
            console.print(f'{parameter.name}: {parameter.explanation}', markup=False)
    for found in result.combinations:
        half_width = (found.high - found.low) / 2
        value = rounded(found.value, half_width)
        ends = interval(found.low, found.high)
        console.print(f'determined is {found.expression}: {value} {ends}', markup=False)
    if result.inference is not None:
        size = significant(result.inference.effective_samples, 3)
        console.print(
            f'Intervals: {result.inference.method}; {result.inference.samples} residuals say as '
            f'much as {size} independent ones.',
            markup=False,
        )
        for note in result.inference.notes:
            console.print(note, markup=False)
    if result.drift is not None:
        console.print(f'Against the last result: {result.drift.sentence}', markup=False)
    console.print()


def _print_folds(console: Console, result: CalibrationResult) -> None:
    """Print the error on each bag of a fit to the others."""
    if not result.folds:
        return
    columns = [Column('held out', number=False), *map(Column, ('before', 'after', 'ratio'))]
    rows = [
        (fold.name, padded(fold.before), padded(fold.after), times(fold.before, fold.after))
        for fold in result.folds
    ]
    print_table(console, 'Fitted to the other bags (error in units of the noise)', columns, rows)


def _print_errors(console: Console, result: CalibrationResult) -> None:
    """Print the error of each sensor before and after, held-out where there is any."""
    held_out = [error for error in result.errors if error.role == 'validate']
    title = 'Held-out error' if held_out else 'Training error'
    columns = [
        Column('sensor', number=False),
        *map(Column, ('before', 'after', 'ratio')),
        Column('unit', number=False),
    ]
    rows = []
    for error in held_out or result.errors:
        ratio = error.before / error.after if error.after else math.inf
        smaller = f'{ratio:.1f}' if math.isfinite(ratio) else significant(ratio)
        rows.append((error.sensor, padded(error.before), padded(error.after), smaller, error.unit))
    print_table(console, f'{title} (root mean square)', columns, rows)


def print_table(
    console: Console, title: str, columns: Sequence[Column], rows: Sequence[Sequence[str]]
) -> None:
    """Print a table, or a paragraph per row where the terminal is too narrow for it."""
    table = Table(title=title, title_justify='left', box=None, pad_edge=False)
    for column in columns:
        table.add_column(column.header, justify='right' if column.number else 'left', no_wrap=True)
    for row in rows:
        table.add_row(*map(escape, row))
    # Measured without limit: in its own width a table always fits.
    wanted = console.measure(table, options=console.options.update(width=WIDE)).maximum
    if wanted <= console.width:
        console.print(table)
    else:
        console.print(title, style='italic', markup=False)
        for name, *middle, last in rows:
            cells = zip(columns[1:-1], middle, strict=True)
            text = ', '.join(f'{column.header} {cell}' for column, cell in cells)
            console.print(f'{name}: {last}', markup=False)
            console.print(Padding(escape(text), (0, 0, 0, 4)))
    console.print()
