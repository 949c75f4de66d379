# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the command line shows: progress, tables, paths."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, NamedTuple, TextIO

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from sysid_ros.report.numbers import interval, padded, rounded, significant, times

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from sysid_ros.estimation.solver.problem import Iteration
    from sysid_ros.results.comparison import Comparison
    from sysid_ros.results.result import CalibrationResult

#: Width where the output is not a terminal: nothing is folded there.
_WIDTH = 1000


class Progress:
    """One line that changes on a terminal, one line per iteration elsewhere.

    It goes to standard output: all that standard error gets is what went wrong.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._live = self._stream.isatty()
        self._open = False
        self._cost = math.inf

    def stage(self, text: str) -> None:
        """Say that a new stage begins."""
        self.finish()
        print(text, file=self._stream, flush=True)

    def iteration(self, iteration: Iteration) -> None:
        """Say how far the solver is."""
        done = iteration.number
        left = ''
        if done:
            most = iteration.seconds / done * max(iteration.limit - done, 0)
            left = f', at most {most:.0f} s left'
        diverged = f', {iteration.diverged} diverged' if iteration.diverged else ''
        # The cost of one problem never rises: its unit, the noise, has changed.
        anew = ' (new noise estimate)' if iteration.cost > self._cost else ''
        self._cost = iteration.cost
        text = (
            f'iteration {done}: cost {iteration.cost:.6g}{anew}, '
            f'{iteration.rollouts} rollouts{diverged}{left}'
        )
        if self._live:
            self._stream.write(f'\r\x1b[K{text}')
            self._open = True
        else:
            print(text, file=self._stream)
        self._stream.flush()

    def finish(self) -> None:
        """End the changing line."""
        if self._open:
            self._stream.write('\n')
            self._open = False


class _Column(NamedTuple):
    """One column of a table; numbers are aligned on the right."""

    header: str
    number: bool = True


def make_console() -> Console:
    """Return a console for standard output; wide and plain where that is not a terminal."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=_WIDTH)


def print_result(
    console: Console, result: CalibrationResult, truth: Mapping[str, float] | None = None
) -> None:
    """Print the parameters of a result and its errors before and after.

    Args:
        console: Where to.
        result: What was found.
        truth: Parameter name to true value, where known.
    """
    columns = [
        _Column('parameter', number=False),
        _Column('value'),
        _Column('95 % interval'),
        _Column('unit', number=False),
        _Column('start'),
        *([_Column('true')] if truth else []),
        _Column('verdict', number=False),
    ]
    rows = []
    for parameter in result.parameters:
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
    _print_table(console, 'Parameters', columns, rows)
    _print_trust(console, result)
    _print_errors(console, result)
    _print_folds(console, result)
    for warning in result.warnings:
        console.print(f'warning: {warning}', markup=False)
    console.print(result.acceptance, markup=False)
    if not result.accepted:
        console.print('REJECTED: the identified model is not written.', markup=False)


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
    columns = [_Column('held out', number=False), *map(_Column, ('before', 'after', 'ratio'))]
    rows = [
        (fold.name, padded(fold.before), padded(fold.after), times(fold.before, fold.after))
        for fold in result.folds
    ]
    _print_table(console, 'Fitted to the other bags (error in units of the noise)', columns, rows)


def _print_errors(console: Console, result: CalibrationResult) -> None:
    """Print the error of each sensor before and after, held-out where there is any."""
    held_out = [error for error in result.errors if error.role == 'validate']
    title = 'Held-out error' if held_out else 'Training error'
    columns = [
        _Column('sensor', number=False),
        *map(_Column, ('before', 'after', 'ratio')),
        _Column('unit', number=False),
    ]
    rows = []
    for error in held_out or result.errors:
        ratio = error.before / error.after if error.after else math.inf
        smaller = f'{ratio:.1f}' if math.isfinite(ratio) else significant(ratio)
        rows.append((error.sensor, padded(error.before), padded(error.after), smaller, error.unit))
    _print_table(console, f'{title} (root mean square)', columns, rows)


def _print_table(
    console: Console, title: str, columns: Sequence[_Column], rows: Sequence[Sequence[str]]
) -> None:
    """Print a table, or a paragraph per row where the terminal is too narrow for it."""
    table = Table(title=title, title_justify='left', box=None, pad_edge=False)
    for column in columns:
        table.add_column(column.header, justify='right' if column.number else 'left', no_wrap=True)
    for row in rows:
        table.add_row(*map(escape, row))
    # Measured without limit: in its own width a table always fits.
    wanted = console.measure(table, options=console.options.update(width=_WIDTH)).maximum
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


def print_paths(console: Console, paths: Mapping[str, Path]) -> None:
    """Print where things were written, one line each."""
    for name, path in paths.items():
        console.print(f'{name + ":":18s} {path}', markup=False, soft_wrap=True)


def print_comparison(console: Console, comparisons: Iterable[Comparison]) -> None:
    """Print what agrees with a baseline and what moved."""
    columns = [
        _Column('quantity', number=False),
        *map(_Column, ('baseline', 'now', 'moved by', 'allowed')),
        _Column('unit', number=False),
        _Column('verdict', number=False),
    ]
    rows = []
    for row in comparisons:
        verdict = 'ok' if row.agrees else 'MOVED'
        rows.append(
            (
                row.name,
                significant(row.baseline, 6),
                significant(row.value, 6),
                significant(row.value - row.baseline, 2),
                significant(row.allowed, 2),
                row.unit,
                f'{verdict}, {row.note}' if row.note else verdict,
            )
        )
    _print_table(console, 'Comparison with the baseline', columns, rows)
