# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid excite``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sysid_ros.errors import ConfigError, listed

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    import mujoco

    from sysid_ros.cli.documents import ExcitationDocument
    from sysid_ros.excitation.design import Design
    from sysid_ros.excitation.drives import Drive
    from sysid_ros.model.unknown import Unknown
    from sysid_ros.report.tables import LiteralConsole

#: Parts of limits are shown from here on; the others are far away.
_SHOWN_LIMITS = 12


def run(args: argparse.Namespace) -> int:
    """Design a motion and write it.

    Raises:
        SysidError: In one sentence, what is wrong with model, parameters, limits or output.
    """
    _check(args)
    from sysid_ros.cli.console import (  # noqa: PLC0415 (bad input is told at once)
        make_console,
        print_document,
        progress_for,
    )
    from sysid_ros.excitation import format_waypoints  # noqa: PLC0415
    from sysid_ros.excitation.design import design, make_plan  # noqa: PLC0415
    from sysid_ros.excitation.drives import drives, load_driven  # noqa: PLC0415
    from sysid_ros.excitation.experiment import Experiment, sensor_noise  # noqa: PLC0415
    from sysid_ros.excitation.limits import find_limits  # noqa: PLC0415
    from sysid_ros.files import replace_file  # noqa: PLC0415
    from sysid_ros.model.implied import implied_actuators  # noqa: PLC0415
    from sysid_ros.model.loading import compile_spec  # noqa: PLC0415

    spec = load_driven(args.model, args.package_path)
    model = compile_spec(spec, args.model)
    limits = find_limits(model, margin=args.margin, max_speed=args.max_velocity)
    unknowns = _parameters(args, model, spec)
    sensors = sensor_noise(model)
    chosen = drives(model)
    _check_ranges(chosen)
    plan = make_plan(
        chosen, duration=args.duration, rate=args.rate, max_frequency=args.max_frequency
    )
    rate = args.sample_rate or args.rate
    with (
        progress_for(args) as progress,
        Experiment(spec, args.model, unknowns, limits, sensors, rate=rate) as experiment,
    ):
        found = design(experiment, plan, seed=args.seed, observe=progress.share)
        progress.finish()
        collide = experiment.collisions.possible
    files = f'model:={args.model} motion:={args.output}'
    comments = [
        f'designed by: {args.command_line}',
        f'for: {listed(parameter.name for parameter in found.parameters)}',
        f'play it: ros2 launch sysid_ros excite.launch.xml {files}',
    ]
    text = format_waypoints(model, found.motion, comments)
    replace_file(args.output, text.encode())
    implied = len(implied_actuators(spec))
    if args.json:
        print_document(_document(args.output, found, collide=collide, implied=implied))
        return 0
    console = make_console()
    if not args.quiet:
        _print(console, found, collide=collide)
        if implied:
            console.print(
                f'The model has no actuators: {implied} position servos with guessed gains are '
                'implied, and the columns of the file are theirs.'
            )
    console.print(f'wrote {args.output}', soft_wrap=True)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Refuse options that no motion can meet.

    Raises:
        ConfigError: One of them is out of its range.
    """
    ranges = {
        'duration': (1.0, 3600.0),
        'rate': (1.0, 5000.0),
        'margin': (0.05, 1.0),
        'max_velocity': (1e-6, 1e6),
        'max_frequency': (1e-3, 100.0),
        'sample_rate': (1.0, 1e5),
    }
    for name, (low, high) in ranges.items():
        value = getattr(args, name)
        if value is not None and not low <= value <= high:
            option = name.replace('_', '-')
            msg = f'Expected --{option} between {low:g} and {high:g}, found {value:g}.'
            raise ConfigError(msg)
    if args.output.suffix.lower() != '.csv':
        msg = f'Expected an output file ending in .csv, found {str(args.output)!r}.'
        raise ConfigError(msg)


def _parameters(
    args: argparse.Namespace, model: mujoco.MjModel, spec: mujoco.MjSpec
) -> tuple[Unknown, ...]:
    from sysid_ros.config import load_calibration  # noqa: PLC0415 (see above)
    from sysid_ros.model.unknown import (  # noqa: PLC0415
        Scope,
        check_distinct,
        make_unknowns,
    )
    from sysid_ros.pipeline.loading import parameters_of  # noqa: PLC0415

    if args.config is not None:
        found = parameters_of(load_calibration(args.config), model, spec)
        if not found:
            msg = f'Expected parameters of the model in {str(args.config)!r}, found none.'
            raise ConfigError(msg)
        return found
    made = [
        unknown
        for pattern in args.parameters
        for unknown in make_unknowns(pattern, Scope(model, spec))
    ]
    check_distinct(made, model)
    return tuple(made)


def _check_ranges(chosen: Sequence[Drive]) -> None:
    for drive in chosen:
        if not math.isfinite(drive.upper - drive.lower):
            msg = (
                f'Expected a ctrlrange for actuator {drive.actuator!r}, found none: it says how '
                'large its commands may be.'
            )
            raise ConfigError(msg)


def _document(
    path: Path,
    found: Design,
    *,
    collide: bool,
    implied: int,
) -> ExcitationDocument:
    from sysid_ros.cli.documents import (  # noqa: PLC0415
        ExcitationDocument,
        ExcitedParameter,
        UnexcitedParameter,
    )

    return ExcitationDocument(
        file=path,
        parameters=[
            ExcitedParameter(unknown.name, unknown.unit, unknown.nominal, float(half))
            for unknown, half in zip(found.parameters, found.half, strict=True)
        ],
        unexcited=[UnexcitedParameter(x.parameter.name, x.reason) for x in found.unexcited],
        limits=found.usage,
        models=found.models,
        collisions_checked=collide,
        distance=found.distance,
        implied_actuators=implied,
    )


def _print(console: LiteralConsole, found: Design, *, collide: bool) -> None:
    from sysid_ros.report.numbers import significant  # noqa: PLC0415 (see above)
    from sysid_ros.report.tables import print_table  # noqa: PLC0415

    rows = [
        (
            parameter.name,
            significant(parameter.nominal),
            f'± {significant(float(half))}',
            parameter.unit,
        )
        for parameter, half in zip(found.parameters, found.half, strict=True)
    ]
    columns = ('parameter', '>nominal', '>95 % interval', 'unit')
    print_table(console, 'Predicted intervals', columns, rows)
    for item in found.unexcited:
        console.print(f'cannot be told by any motion: {item.parameter.name} ({item.reason})')
    order = sorted(found.usage, key=lambda use: -use.part)
    limits = [
        (
            f'{use.what} of {use.name}',
            *(significant(end) for end in (use.low, use.high)),
            *(f'{100 * part:.0f} %' for part in (use.part, use.allowed)),
        )
        for use in order[:_SHOWN_LIMITS]
    ]
    title = f'Limits, the worst of {found.models} models with parameters 20 % off'
    print_table(console, title, ('limit', '>from', '>to', '>used', '>allowed'), limits)
    if len(order) > _SHOWN_LIMITS:
        rest = 100 * order[_SHOWN_LIMITS].part
        console.print(f'… and {len(order) - _SHOWN_LIMITS} limits used to at most {rest:.0f} %')
    if not collide:
        console.print('collisions: not checked, the geoms of the moving bodies cannot collide')
    elif found.distance < float('inf'):
        console.print(f'collisions: bodies come as near as {1e3 * found.distance:.0f} mm')
    else:
        console.print('collisions: none, nothing comes near')
