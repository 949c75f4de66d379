# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid calibrate``."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from sysid_ros.cli.overrides import parse_overrides
from sysid_ros.config import load_calibration

if TYPE_CHECKING:
    import argparse


def run(args: argparse.Namespace) -> int:
    """Calibrate and print the result; return 1 when it was rejected."""
    if args.example:
        print(resources.files('sysid_ros.cli').joinpath('example.yaml').read_text('utf-8'), end='')
        return 0
    overrides = parse_overrides(args.overrides)
    if args.output is not None:
        overrides['output'] = str(args.output)
    config = load_calibration(args.config, overrides)
    # Imported late, so that a wrong configuration is told at once.
    from sysid_ros.cli.console import Progress, make_console, print_paths, print_result  # noqa: PLC0415
    from sysid_ros.pipeline import calibrate  # noqa: PLC0415

    progress = Progress()
    done = calibrate(config, command=args.command_line, observer=progress)
    progress.finish()
    console = make_console()
    print_result(console, done.result)
    console.print()
    paths = {'result': done.result_path, 'report': done.report_path}
    if done.mjcf_path is not None:
        paths = {'identified MJCF': done.mjcf_path, **paths}
    print_paths(console, paths)
    return 0 if done.result.accepted else 1
