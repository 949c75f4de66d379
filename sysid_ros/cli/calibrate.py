# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid calibrate``."""

from __future__ import annotations

import contextlib
from importlib import resources
from typing import TYPE_CHECKING

from sysid_ros.cli.parser import parse_overrides
from sysid_ros.config import load_calibration

if TYPE_CHECKING:
    import argparse


def run(args: argparse.Namespace) -> int:
    """Calibrate and print the result; return 1 when it was rejected."""
    if args.example:
        example = resources.files('sysid_ros.cli').joinpath('example.yaml').read_text('utf-8')
        print(example, end='')  # noqa: T201 (our own)
        return 0
    overrides = parse_overrides(args.overrides)
    if args.output is not None:
        overrides['output'] = str(args.output)
    if args.time is not None:
        overrides['solver.time'] = args.time
    config = load_calibration(args.config, overrides)
    # Imported late, so that a wrong configuration is told at once.
    from sysid_ros.cli.console import (  # noqa: PLC0415
        make_console,
        print_document,
        print_paths,
        print_result,
        progress_for,
    )
    from sysid_ros.cli.documents import CalibrationDocument  # noqa: PLC0415
    from sysid_ros.pipeline import calibrate  # noqa: PLC0415

    profile = None
    if args.profile:
        from sysid_ros.cli.profile import Profile  # noqa: PLC0415 (it imports what it looks for)

        profile = Profile()
    with progress_for(args, config.solver.time) as progress, profile or contextlib.nullcontext():
        done = calibrate(config, command=args.command_line, observer=progress)
    if args.json:
        spent = None if profile is None else profile.spent()
        print_document(
            CalibrationDocument(
                done.result.standing,
                done.paths.get('identified MJCF'),
                done.paths['result'],
                done.paths['report'],
                done.folder,
                spent,
                done.result.without_curves(),
            )
        )
        return 0 if done.result.accepted else 1
    console = make_console()
    if not args.quiet:
        print_result(console, done.result)
        console.print()
    if profile is not None:
        profile.show(console)
    print_paths(console, done.paths)
    return 0 if done.result.accepted else 1
