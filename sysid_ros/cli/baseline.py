# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid baseline``: what is another than the baseline, and a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysid_ros.config import load_thresholds
from sysid_ros.errors import ConfigError, some

if TYPE_CHECKING:
    import argparse


def run(args: argparse.Namespace) -> int:
    """Say what changed, and with ``update`` write it; ``diff`` returns 1 where something did."""
    thresholds = load_thresholds(args.thresholds)
    folder = thresholds.baseline
    if folder is None or (thresholds.model is None and thresholds.calibration is None):
        msg = (
            f'Expected the key baseline, and model, calibration or both, in '
            f'{str(args.thresholds)!r}, found {some(thresholds.model_fields_set) or "none"}.'
        )
        raise ConfigError(msg)
    # Imported late, so that a wrong file is told at once.
    from sysid_ros.cli.console import (  # noqa: PLC0415
        make_console,
        print_document,
        print_paths,
        progress_for,
    )
    from sysid_ros.cli.documents import BaselineDocument  # noqa: PLC0415
    from sysid_ros.files import check_writable  # noqa: PLC0415
    from sysid_ros.pipeline.baseline import find_parameters, find_predictions  # noqa: PLC0415
    from sysid_ros.report.cases import said  # noqa: PLC0415

    check_writable(folder)
    found = []
    with progress_for(args) as progress:
        if thresholds.model is not None:
            found.append(find_predictions(thresholds, observer=progress))
        if thresholds.calibration is not None:
            command = args.command_line
            found.append(
                find_parameters(
                    thresholds, thresholds.calibration, command=command, observer=progress
                )
            )
    lines = [
        line
        for part in found
        for line in (*part.notes, *(said(case) for case in part.cases if not case.passed))
    ]
    written = [part.write() for part in found] if args.action == 'update' else []
    if args.json:
        notes = [note for part in found for note in part.notes]
        cases = [case for part in found for case in part.cases]
        print_document(BaselineDocument(bool(lines), notes, cases, written))
    else:
        console = make_console()
        if not (args.quiet and written):
            for line in lines or ['Nothing is another than the baseline.']:
                console.print(line, soft_wrap=True)
        for path in written:
            print_paths(console, {'new baseline': path})
    return 1 if lines and args.action == 'diff' else 0
