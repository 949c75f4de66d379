# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid history`` and ``sysid rollback``: results over time, and back to an earlier one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from sysid_ros.config import load_calibration

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from sysid_ros.cli.documents import ChangedValue
    from sysid_ros.report.tables import LiteralConsole
    from sysid_ros.results.history import Entry
    from sysid_ros.results.result import CalibrationResult

#: Where results are looked for unless told: what this file says, or else in this folder.
_CONFIG, _OUTPUT = Path('calibration.yaml'), Path('out')


def run(args: argparse.Namespace) -> int:
    """Show the results of a folder in order of time."""
    # Imported late, so that a wrong configuration is told at once.
    from sysid_ros.cli.console import make_console, print_document, print_paths  # noqa: PLC0415
    from sysid_ros.results.history import read_history  # noqa: PLC0415

    output = _output(args.output)
    entries = read_history(output)
    if args.html is not None:
        from sysid_ros.report.trend import write_trend  # noqa: PLC0415 (slow to import)

        write_trend(entries, args.html, str(output))
    if args.json:
        print_document([entry.summary() for entry in entries])
        return 0
    console = make_console()
    print_history(console, output, entries)
    if args.html is not None:
        print_paths(console, {'trend': args.html})
    return 0


def print_history(console: LiteralConsole, output: Path, entries: Iterable[Entry]) -> None:
    """Print a row per result."""
    from sysid_ros.cli.console import print_table  # noqa: PLC0415

    columns = ('folder', 'standing', 'error', '>identified', 'changed since', '')
    rows = [
        (
            entry.name,
            entry.result.standing,
            entry.error,
            f'{entry.identified} of {len(entry.result.parameters)}',
            entry.changed,
            'current' if entry.current else '',
        )
        for entry in entries
    ]
    print_table(console, f'Results in {output}', columns, rows)


def rollback(args: argparse.Namespace) -> int:
    """Make an earlier accepted result current again and print what changed."""
    from sysid_ros.cli.console import make_console, print_document, print_table  # noqa: PLC0415
    from sysid_ros.cli.documents import RollbackDocument  # noqa: PLC0415
    from sysid_ros.results.store import is_dated, roll_back  # noqa: PLC0415

    output, name = args.output, args.folder
    if output is not None and name is None and is_dated(output.name):
        output, name = output.parent, output.name
    output = _output(output)
    before, now = roll_back(output, name)
    if args.json:
        changed = _changed(before.load(), now.load())
        print_document(RollbackDocument(output, now.name, before.name, changed))
        return 0
    console = make_console()
    print_table(console, 'Parameters', _COLUMNS, _rows(before.load(), now.load()))
    console.print(f'{output}/current is {now.name}, after {before.name}')
    return 0


_COLUMNS = ('parameter', '>earlier', '>now', '>change', 'unit')


def _rows(before: CalibrationResult, now: CalibrationResult) -> list[tuple[str, ...]]:
    from sysid_ros.report.numbers import MISSING, rounded  # noqa: PLC0415

    old = {parameter.name: parameter for parameter in before.parameters}
    new = {parameter.name: parameter for parameter in now.parameters}
    rows = []
    for name in dict.fromkeys((*old, *new)):
        was, is_now = old.get(name), new.get(name)
        change = MISSING
        if was is not None and is_now is not None and was.value:
            percent = 100 * (is_now.value - was.value) / abs(was.value)
            change = f'{percent:+.1f} %'
        shown = [MISSING if p is None else rounded(p.value, p.half_width) for p in (was, is_now)]
        unit = next(p.unit for p in (is_now, was) if p is not None)
        rows.append((name, *shown, change, unit))
    return rows


def _changed(before: CalibrationResult, now: CalibrationResult) -> list[ChangedValue]:
    from sysid_ros.cli.documents import ChangedValue  # noqa: PLC0415

    values = [{p.name: p.value for p in result.parameters} for result in (before, now)]
    units = {p.name: p.unit for result in (before, now) for p in result.parameters}
    return [
        ChangedValue(name, unit, *(own.get(name, math.nan) for own in values))
        for name, unit in units.items()
    ]


def _output(given: Path | None) -> Path:
    """Return the folder of results that a folder or a configuration means."""
    if given is None:
        given = _CONFIG if _CONFIG.is_file() else _OUTPUT
    return load_calibration(given).output if given.is_file() else given
