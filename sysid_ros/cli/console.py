# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the command line shows: progress, tables, paths."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.table import Table

from sysid_ros.report.numbers import interval, padded, rounded, significant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from sysid_ros.identification.least_squares import Iteration
    from sysid_ros.results.comparison import Comparison
    from sysid_ros.results.result import CalibrationResult

#: Width of tables where the output is not a terminal.
_WIDTH = 130


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
        anew = ' in units of a new noise estimate' if iteration.cost > self._cost else ''
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
    table = Table(title='Parameters', title_justify='left', box=None, pad_edge=False)
    table.add_column('parameter', no_wrap=True)
    for title in ('value', '95 % interval', 'unit', 'start'):
        table.add_column(title, justify='left' if title == 'unit' else 'right', no_wrap=True)
    if truth:
        table.add_column('true', justify='right', no_wrap=True)
    table.add_column('verdict', overflow='fold')
    for parameter in result.parameters:
        row = [
            parameter.name,
            rounded(parameter.value, parameter.half_width),
            interval(parameter.low, parameter.high),
            parameter.unit,
            significant(parameter.initial),
        ]
        if truth:
            row.append(significant(truth[parameter.name]) if parameter.name in truth else '')
        table.add_row(*row, parameter.verdict)
    console.print(table)
    console.print()
    print_errors(console, result)
    for warning in result.warnings:
        console.print(f'warning: {warning}', markup=False)
    console.print(result.acceptance, markup=False)
    if not result.accepted:
        console.print('REJECTED: the identified model is not written.', markup=False)


def print_errors(console: Console, result: CalibrationResult) -> None:
    """Print the error of each sensor before and after, held-out where there is any."""
    held_out = [error for error in result.errors if error.role == 'validate']
    shown = held_out or list(result.errors)
    title = 'Held-out error' if held_out else 'Training error'
    table = Table(
        title=f'{title} (root mean square)', title_justify='left', box=None, pad_edge=False
    )
    table.add_column('sensor', no_wrap=True)
    for column in ('before', 'after', 'ratio'):
        table.add_column(column, justify='right', no_wrap=True)
    table.add_column('unit')
    for error in shown:
        ratio = error.before / error.after if error.after else math.inf
        smaller = f'{ratio:.1f}' if math.isfinite(ratio) else significant(ratio)
        table.add_row(error.sensor, padded(error.before), padded(error.after), smaller, error.unit)
    console.print(table)
    console.print()


def print_paths(console: Console, paths: Mapping[str, Path]) -> None:
    """Print where things were written, one line each."""
    for name, path in paths.items():
        console.print(f'{name + ":":18s} {path}', markup=False, soft_wrap=True)


def print_comparison(console: Console, rows: Iterable[Comparison]) -> None:
    """Print what agrees with a baseline and what moved."""
    table = Table(box=None, pad_edge=False)
    table.add_column('quantity', no_wrap=True)
    for column in ('baseline', 'now', 'moved by', 'allowed'):
        table.add_column(column, justify='right', no_wrap=True)
    table.add_column('unit')
    table.add_column('', overflow='fold')
    for row in rows:
        verdict = 'ok' if row.agrees else 'MOVED'
        table.add_row(
            row.name,
            significant(row.baseline, 6),
            significant(row.value, 6),
            significant(row.value - row.baseline, 2),
            significant(row.allowed, 2),
            row.unit,
            f'{verdict}, {row.note}' if row.note else verdict,
        )
    console.print(table)
