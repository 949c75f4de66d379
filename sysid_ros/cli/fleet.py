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
    from sysid_ros.pipeline.fleet import calibrate_fleet  # noqa: PLC0415

    with progress_for(args) as progress:
        done = calibrate_fleet(
            fleet,
            scheduler=args.scheduler,
            workers=args.workers,
            command=args.command_line,
            observer=progress,
        )
    if args.json:
        print_document(done.result)
    else:
        console = make_console()
        if not args.quiet:
            print_fleet(console, done.result)
            console.print()
        print_paths(console, {'fleet': done.result_path})
    return 0 if done.result.complete else 1


def print_fleet(console: LiteralConsole, result: FleetResult) -> None:
    """Print the population, robots that are odd, and those without a result to use."""
    from sysid_ros.report.numbers import interval, rounded, significant  # noqa: PLC0415
    from sysid_ros.report.tables import print_table  # noqa: PLC0415

    rows = [
        (
            p.name,
            rounded(p.mean, p.half_width),
            interval(p.low, p.high),
            p.unit,
            significant(p.tau, 2),
            interval(p.tau_low, p.tau_high),
            p.spread,
            str(p.robots),
            ', '.join(p.odd) or '-',
        )
        for p in result.parameters
    ]
    spread = ('>spread', '>95 % interval', 'robots', '>count', 'odd')
    columns = ('parameter', '>mean', '>95 % interval', 'unit', *spread)
    print_table(console, 'Population', columns, rows)
    for robot in result.robots:
        for value in filter(lambda value: value.odd, robot.values):
            side = 'above' if value.deviation > 0 else 'below'
            console.print(
                f'odd: {robot.name}: {value.parameter} is '
                f'{rounded(value.value, (value.high - value.low) / 2)}, '
                f'{significant(abs(value.deviation), 3)} standard deviations {side} the others '
                f'(p {significant(value.p_value, 2)})'
            )
    for robot in result.robots:
        if not robot.counts:
            console.print(f'{robot.standing}: {robot.name}: {robot.sentence}')
