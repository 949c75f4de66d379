# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid process``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def run(args: argparse.Namespace) -> int:
    """Interpolate raw logs, and say what became of each.

    Raises:
        SysidError: In one sentence, what is wrong with a log or a folder.
    """
    from sysid_ros.servos.formats.logs import process, read_log  # noqa: PLC0415 (heavy)

    written = process(args.raw or args.raw_option, args.output or args.output_option, args.dt)
    for path in written:
        # As a fit will read it.
        log = read_log(path)
        seconds = (len(log) - 1) * log.dt
        print(f'wrote {path}: {len(log)} samples, {seconds:.2f} s')
    return 0
