# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What ``sysid check`` says: a table, annotations, and the last line."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sysid_ros.cli.console import print_paths
from sysid_ros.errors import ResultError, listed
from sysid_ros.report.numbers import MISSING, significant
from sysid_ros.report.tables import LiteralConsole, markdown, print_table, workflow_commands
from sysid_ros.results.comparison import Case

_DIGITS = 4


@dataclass(frozen=True)
class Outcome:
    """What was checked.

    Attributes:
        title: What was checked.
        passed: Whether every case is as it has to be.
        notes: What is to be known beside, a sentence each.
        cases: Each thing that was checked.
        files: The new baseline; empty without ``--update``.
    """

    title: str
    passed: bool
    notes: Sequence[str]
    cases: Sequence[Case]
    files: Sequence[Path]

    @property
    def last_line(self) -> str:
        """The verdict."""
        failed = [case.name for case in self.cases if not case.passed]
        if failed:
            return f'{len(failed)} of {len(self.cases)} failed: {listed(failed)}.'
        if all(math.isinf(case.limit) and math.isnan(case.baseline) for case in self.cases):
            return 'No limits were given, so nothing failed.'
        return f'All {len(self.cases)} passed.'

    def show(self, console: LiteralConsole, *, quiet: bool) -> None:
        """Print the table, notes and the new baseline, and the verdict last."""
        if not quiet:
            _print_cases(console, self.title, self.cases)
            for line in self.notes:
                console.print(line, soft_wrap=True)
        for path in self.files:
            print_paths(console, {'new baseline': path})
        console.print(self.last_line, soft_wrap=True)

    def tell_github(self) -> None:
        """Annotate on standard error, and add to the summary of the step.

        Raises:
            ResultError: The summary cannot be written.
        """
        for line in workflow_commands(self.cases):
            print(line, file=sys.stderr)  # noqa: T201 (escaped as such commands are)
        summary = os.environ.get('GITHUB_STEP_SUMMARY')
        if summary:
            try:
                with Path(summary).open('a', encoding='utf-8') as stream:
                    stream.write(markdown(self.title, self.cases, self.notes))
            except OSError as err:
                raise ResultError(
                    f'Cannot write the step summary {summary!r}: {err.strerror}.'
                ) from err


def _print_cases(console: LiteralConsole, title: str, cases: Sequence[Case]) -> None:
    """Print what failed, and of what passed in several recordings the worst."""
    columns = ('what', 'recording', '>value', '>limit', '>baseline', 'unit', 'verdict')
    passed: dict[str, list[Case]] = {}
    for case in cases:
        if case.passed:
            passed.setdefault(case.name, []).append(case)
    rows = [_row(case, case.bag) for case in cases if not case.passed]
    for alike in passed.values():
        worst = max(alike, key=_nearness)
        more = f', worst of {len(alike)}' if len(alike) > 1 else ''
        rows.append(_row(worst, f'{worst.bag}{more}'))
    print_table(console, title, columns, rows)


def _nearness(case: Case) -> tuple[float, float]:
    """Return how near a value is to its limit, and how large."""
    return case.value / case.limit, case.value


def _row(case: Case, recording: str) -> tuple[str, ...]:
    judged = case.limit < math.inf or math.isnan(case.value)
    line = '' if case.place is None else f' ({case.place})'
    verdict = ('ok' if judged else '') if case.passed else f'FAILED: {case.sentence}{line}'
    limit = MISSING if math.isinf(case.limit) else significant(case.limit, _DIGITS)
    numbers = (
        significant(case.value, _DIGITS),
        limit,
        significant(case.baseline, _DIGITS),
    )
    return (case.name, recording, *numbers, case.unit, verdict)
