# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid fleet``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysid_ros.config import load_fleet

if TYPE_CHECKING:
    import argparse

    from sysid_ros.report.tables import LiteralConsole
    from sysid_ros.results.fleet import FleetResult


def run(args: argparse.Namespace) -> int:
    """Calibrate many robots and print what they say together; return 1 when one lacks a result."""
    fleet = load_fleet(args.config, args.output)
    # Imported late, so that a wrong configuration is told at once.
    from sysid_ros.cli.console import (  # noqa: PLC0415
        make_console,
        print_document,
        print_paths,
        progress_for,
    )
    from sysid_ros.pipeline.fleet import FLEET, calibrate_fleet  # noqa: PLC0415

    with progress_for(args) as progress:
        result = calibrate_fleet(
            fleet,
            scheduler=args.scheduler,
            workers=args.workers,
            command=args.command_line,
            observer=progress,
        )
    if args.json:
        print_document(result)
    else:
        console = make_console()
        if not args.quiet:
            print_fleet(console, result)
        print_paths(console, {'fleet': fleet.output / FLEET})
    return 0 if result.complete else 1


def print_fleet(console: LiteralConsole, result: FleetResult) -> None:
    """Print the population, robots that are odd, and those without a result to use."""
    from sysid_ros.report.numbers import interval, rounded, significant  # noqa: PLC0415
    from sysid_ros.report.tables import print_table  # noqa: PLC0415

    rows = [
        (
            p.name,
            rounded(p.mean, (p.high - p.low) / 2),
            interval(p.low, p.high),
            significant(p.tau, 2),
            p.unit,
            significant(p.p_value, 2),
            str(len(p.values)),
            ', '.join(value.robot for value in p.odd) or '-',
        )
        for p in result.parameters
    ]
    columns = ('parameter', '>mean', '>95 % interval', '>between robots', 'unit', '>p if alike')
    print_table(console, 'Population', (*columns, '>robots', 'odd'), rows)
    for p in result.parameters:
        for odd in p.odd:
            side = 'above' if odd.deviation > 0 else 'below'
            console.print(
                f'odd: {odd.robot}: {p.name} is {rounded(odd.value, odd.error)}, '
                f'{significant(abs(odd.deviation), 3)} standard deviations {side} the others'
            )
    for robot in result.robots:
        if not robot.usable:
            console.print(f'{robot.standing}: {robot.name}: {robot.sentence}')
