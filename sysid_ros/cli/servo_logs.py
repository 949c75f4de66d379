# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid servo-logs`` and ``sysid process``: logs of a servo from a bag, or from raw logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def run(args: argparse.Namespace) -> int:
    """Turn a bag into logs, and say what was found and what became of it.

    Raises:
        SysidError: In one sentence, what is wrong with the configuration or the bag.
    """
    from sysid_ros.cli.console import make_console, print_document, say  # noqa: PLC0415 (heavy)
    from sysid_ros.cli.documents import LogsDocument, WrittenLog  # noqa: PLC0415
    from sysid_ros.config import load_servo_bag  # noqa: PLC0415
    from sysid_ros.report.alignment import print_alignment  # noqa: PLC0415
    from sysid_ros.servos.formats.from_bag import convert_servo  # noqa: PLC0415

    config = load_servo_bag(args.config)
    alignment, logs, paths = convert_servo(args.bag, config, args.output)
    if args.json:
        entries = [
            WrittenLog(path, len(log), float(log.times[-1]))
            for log, path in zip(logs, paths, strict=True)
        ]
        print_document(LogsDocument(entries, alignment.health))
        return 0
    print_alignment(make_console(), alignment)
    for log, path in zip(logs, paths, strict=True):
        seconds = float(log.times[-1])
        numbers = ', '.join(f'{name} {value:g}' for name, value in log.constants.items())
        load = f'{log.mass:g} kg at {log.length:g} m'
        say(f'wrote {path}: {len(log)} samples, {seconds:.2f} s, {load}, {numbers}')
    return 0


def process_raw(args: argparse.Namespace) -> int:
    """Interpolate raw logs, and say what became of each.

    Raises:
        SysidError: In one sentence, what is wrong with a log or a folder.
    """
    from sysid_ros.cli.console import print_document, say  # noqa: PLC0415 (heavy)
    from sysid_ros.cli.documents import LogsDocument, WrittenLog  # noqa: PLC0415
    from sysid_ros.servos.formats.logs import process, read_log  # noqa: PLC0415 (heavy)

    written = process(args.raw or args.raw_option, args.output or args.output_option, args.dt)
    # As a fit will read them.
    logs = [(path, read_log(path)) for path in written]
    entries = [WrittenLog(path, len(log), (len(log) - 1) * log.dt) for path, log in logs]
    if args.json:
        print_document(LogsDocument(entries, ()))
        return 0
    for entry in entries:
        say(f'wrote {entry.file}: {entry.samples} samples, {entry.seconds:.2f} s')
    return 0
