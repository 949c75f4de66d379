# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What was checked, as table, JSON, JUnit and annotations; and the exit code that follows."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sysid_ros.cli.console import make_console, print_document, print_paths
from sysid_ros.cli.documents import OutcomeDocument
from sysid_ros.errors import ResultError, some
from sysid_ros.files import check_writable, replace_file
from sysid_ros.report.cases import junit, markdown, workflow_commands
from sysid_ros.report.numbers import MISSING, significant
from sysid_ros.report.tables import print_table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from sysid_ros.report.tables import LiteralConsole
    from sysid_ros.results.case import Case

_DIGITS = 4


def check_outputs(args: argparse.Namespace, baseline: Path | None) -> None:
    """Check, before any work, that what was asked for can be written.

    Raises:
        ResultError: It cannot.
    """
    for folder in (args.junit and args.junit.parent, args.output, baseline):
        if folder is not None:
            check_writable(folder)


def show_outcome(
    args: argparse.Namespace,
    title: str,
    cases: Sequence[Case],
    notes: Sequence[str],
    written: Sequence[Path],
) -> int:
    """Say what was checked in the forms that were asked for.

    Args:
        args: With ``json``, ``quiet``, ``junit``, ``github`` and ``update``.
        title: What was checked.
        cases: Each thing that was.
        notes: What is to be known beside, a sentence each.
        written: Files of the new baseline.

    Returns:
        1 when something is not as it has to be, and the baseline stays; else 0.
    """
    failed = [case.name for case in cases if not case.passed]
    if args.junit is not None:
        replace_file(args.junit, junit(title, cases))
    if args.github:
        _tell_github(title, cases, notes)
    code = 1 if failed and not args.update else 0
    if args.json:
        print_document(OutcomeDocument(title, not failed, notes, cases, written))
        return code
    console = make_console()
    if not args.quiet:
        _print_cases(console, title, cases)
        for line in notes:
            console.print(line, soft_wrap=True)
    if failed:
        last = f'{len(failed)} of {len(cases)} failed: {some(failed)}.'
    elif all(math.isinf(case.limit) and math.isnan(case.baseline) for case in cases):
        last = 'No limits were given, so nothing failed.'
    else:
        last = f'All {len(cases)} passed.'
    console.print(last, soft_wrap=True)
    for path in written:
        print_paths(console, {'new baseline': path})
    return code


def _tell_github(title: str, cases: Sequence[Case], notes: Sequence[str]) -> None:
    """Annotate on standard error, which has what is wrong, and add to the summary of the step."""
    for line in workflow_commands(cases):
        print(line, file=sys.stderr)  # noqa: T201 (escaped as such commands are)
    summary = os.environ.get('GITHUB_STEP_SUMMARY')
    if summary:
        try:
            with Path(summary).open('a', encoding='utf-8') as stream:
                stream.write(markdown(title, cases, notes))
        except OSError as err:
            msg = f'Cannot write the step summary {summary!r}: {err.strerror}.'
            raise ResultError(msg) from err


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
