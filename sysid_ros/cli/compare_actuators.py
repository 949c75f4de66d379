# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid compare-actuators``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from sysid_ros.cli.overrides import fixed_of

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

    from sysid_ros.config import ServoFitConfig
    from sysid_ros.servos.session.choice import ServoComparison

_MILLI = 1e3


def run(args: argparse.Namespace) -> int:
    """Fit several friction laws to logs of a servo and recommend one."""
    config = _config(args)
    # Imported late: --help must not wait for them.
    from sysid_ros.cli.console import Progress, make_console, print_paths  # noqa: PLC0415
    from sysid_ros.servos.session.calibration import check_output  # noqa: PLC0415
    from sysid_ros.servos.session.choice import compare_servos, write_recommended  # noqa: PLC0415

    if args.output is not None:
        check_output(args.output)
    progress = None if args.json else Progress()
    models = [name.strip() for name in args.models.split(',') if name.strip()]
    found = compare_servos(config, models, by=args.by, observer=progress)
    path = None if args.output is None else write_recommended(config, found)
    if progress is None:
        print(found.to_json())
        return 0
    progress.finish()
    console = make_console()
    print_servos(console, found)
    if path is not None:
        console.print()
        print_paths(console, {'coefficients': args.output, 'comparison': path})
    return 0


def _config(args: argparse.Namespace) -> ServoFitConfig:
    from sysid_ros.config import ServoFitConfig, validate  # noqa: PLC0415

    wanted = {
        'actuator': args.actuator,
        'logdir': args.logdir,
        'validation_kp': args.validation_kp,
        'fixed': fixed_of(args.fix),
        'reset_period': args.reset_period,
        'substeps': args.substeps,
        **({} if args.output is None else {'output': args.output}),
    }
    return validate(ServoFitConfig, wanted, 'the command line')


def print_servos(console: Console, found: ServoComparison) -> None:
    """Print how well each friction law predicts, and which one is recommended."""
    table = _table('Friction models (mean absolute error in mrad)')
    table.add_column('model', no_wrap=True)
    for column in ('coefficients', 'training', 'held out', 'worse by', 'AIC', 'BIC', 'seconds'):
        table.add_column(column, justify='right', no_wrap=True)
    for model in found.models:
        table.add_row(
            escape(model.name),
            str(model.fitted),
            _mrad(model.training),
            _mrad(model.held_out),
            f'{_MILLI * model.difference:.2g} ± {_MILLI * model.standard_error:.2g}',
            *(f'{x:.1f}' for x in (model.aic, model.bic, model.seconds)),
        )
    console.print(table)
    console.print()
    parts = _table(f'Held out by {found.by}, {found.why} (mean absolute error in mrad)')
    parts.add_column(found.by, no_wrap=True)
    parts.add_column('logs', justify='right', no_wrap=True)
    for model in found.models:
        parts.add_column(escape(model.name), justify='right', no_wrap=True)
    for row in zip(*(model.groups for model in found.models), strict=True):
        first = row[0]
        parts.add_row(escape(first.group), str(first.logs), *(_mrad(part.error) for part in row))
    console.print(parts)
    console.print()
    console.print(
        f'AIC and BIC are above the least, for {found.effective:.3g} effective samples.',
        markup=False,
    )
    for warning in found.warnings:
        console.print(f'warning: {warning}', markup=False)
    console.print(f'recommended: {found.recommended}, as {found.reason}', markup=False)


def _table(title: str) -> Table:
    return Table(title=title, title_justify='left', box=None, pad_edge=False)


def _mrad(error: float) -> str:
    return f'{_MILLI * error:.4g}'
