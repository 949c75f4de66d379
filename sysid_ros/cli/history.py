# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid history`` and ``sysid rollback``: results over time, and back to an earlier one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sysid_ros.config import load_calibration

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from sysid_ros.report.tables import LiteralConsole
    from sysid_ros.results.history import Entry

#: Where results are looked for unless told: what this file says, or else in this folder.
_CONFIG, _OUTPUT = Path('calibration.yaml'), Path('out')


def run(args: argparse.Namespace) -> int:
    """Show the results of a folder in order of time."""
    # Imported late, so that a wrong configuration is told at once.
    from sysid_ros.cli.console import make_console, print_document  # noqa: PLC0415
    from sysid_ros.results.history import read_history  # noqa: PLC0415

    output = _output(args.output)
    entries = read_history(output)
    if args.json:
        print_document([entry.summary() for entry in entries])
        return 0
    print_history(make_console(), output, entries)
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
    from sysid_ros.cli.console import make_console, print_document  # noqa: PLC0415
    from sysid_ros.cli.documents import RollbackDocument  # noqa: PLC0415
    from sysid_ros.report.side_by_side import print_parameters  # noqa: PLC0415
    from sysid_ros.results.side_by_side import side_by_side  # noqa: PLC0415
    from sysid_ros.results.store import is_dated, roll_back  # noqa: PLC0415

    output, name = args.output, args.folder
    if output is not None and name is None and is_dated(output.name):
        output, name = output.parent, output.name
    output = _output(output)
    before, now = roll_back(output, name)
    found = side_by_side((before.name, now.name), (before.load(), now.load()))
    if args.json:
        print_document(RollbackDocument(output, now.name, before.name, found.parameters))
        return 0
    console = make_console()
    print_parameters(console, found)
    console.print(f'{output}/current is {now.name}, after {before.name}')
    return 0


def _output(given: Path | None) -> Path:
    """Return the folder of results that a folder or a configuration means."""
    if given is None:
        given = _CONFIG if _CONFIG.is_file() else _OUTPUT
    return load_calibration(given).output if given.is_file() else given
