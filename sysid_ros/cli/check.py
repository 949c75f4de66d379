# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid check``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysid_ros.cli.overrides import parse_overrides
from sysid_ros.config import load_calibration

if TYPE_CHECKING:
    import argparse


def run(args: argparse.Namespace) -> int:
    """Fit again and compare with the baseline: 0 when all agrees, 1 when something moved."""
    config = load_calibration(args.config, parse_overrides(args.overrides))
    from sysid_ros.cli.console import Progress, make_console, print_comparison  # noqa: PLC0415 (a wrong configuration is told at once)
    from sysid_ros.pipeline import check  # noqa: PLC0415

    progress = Progress()
    _, rows = check(config, args.baseline, command=args.command_line, observer=progress)
    progress.finish()
    console = make_console()
    print_comparison(console, rows)
    moved = [row.name for row in rows if not row.agrees]
    if moved:
        console.print(f'{len(moved)} of {len(rows)} quantities moved: {", ".join(moved)}')
        return 1
    console.print(f'all {len(rows)} quantities agree with the baseline')
    return 0
