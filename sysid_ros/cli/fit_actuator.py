# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid fit-actuator``, and ``sysid compare-actuators``, which only recommends a friction law."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysid_ros.cli.parser import fixed_of
from sysid_ros.errors import how_many

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from sysid_ros.config import ServoFitConfig
    from sysid_ros.report.tables import LiteralConsole
    from sysid_ros.servos.session.calibration import ServoCalibration
    from sysid_ros.servos.session.choice import ServoComparison

#: Stands for the six friction laws.
_ALL = 'all'
_MILLI = 1e3


def run(args: argparse.Namespace) -> int:
    """Fit a servo to its logs and print what was found; return 1 when it was rejected."""
    if args.eval:
        return _evaluate(args)
    if args.model == _ALL:
        return _choose(args)
    # Imported late: --help must not wait for them.
    from sysid_ros.cli.console import progress_for  # noqa: PLC0415
    from sysid_ros.servos.session.calibration import calibrate_servo  # noqa: PLC0415

    with progress_for(args) as progress:
        done = calibrate_servo(config_of(args), command=args.command_line, observer=progress)
    _print(args, done)
    return 0 if done.result.accepted else 1


def config_of(args: argparse.Namespace) -> ServoFitConfig:
    """Return the validated request of a command line.

    Raises:
        ConfigError: A flag is not valid.
    """
    from sysid_ros.config import ServoFitConfig, validate  # noqa: PLC0415

    given = {name: getattr(args, name, None) for name in ServoFitConfig.model_fields}
    wanted = {name: value for name, value in given.items() if value is not None}
    wanted['fixed'] = fixed_of(args.fix)
    return validate(ServoFitConfig, wanted, 'the command line')


def _choose(args: argparse.Namespace) -> int:
    """Fit all friction laws and print which one to use; return 1 when that was rejected."""
    from sysid_ros.cli.console import (  # noqa: PLC0415
        make_console,
        print_document,
        print_paths,
        progress_for,
    )
    from sysid_ros.cli.documents import ServoChoiceDocument  # noqa: PLC0415
    from sysid_ros.servos.session.choice import choose_servo  # noqa: PLC0415

    with progress_for(args) as progress:
        done = choose_servo(config_of(args), command=args.command_line, observer=progress)
    fits = {own.servo.friction.name: own for own in done.calibrations}
    reports = {name: own.report_path for name, own in fits.items()}
    rejected = {
        name: own.result.acceptance for name, own in fits.items() if not own.result.accepted
    }
    if args.json:
        print_document(
            ServoChoiceDocument(
                done.parameters_path, done.comparison_path, reports, rejected, done.comparison
            )
        )
        return 0 if done.parameters_path is not None else 1
    console = make_console()
    if not args.quiet:
        for name, why in rejected.items():
            console.print(f'{name} is rejected: {why}')
        print_servos(console, done.comparison)
        console.print()
    paths = {f'report of {name}': path for name, path in reports.items()}
    paths['comparison'] = done.comparison_path
    if done.parameters_path is not None:
        paths = {'coefficients': done.parameters_path, **paths}
    print_paths(console, paths)
    return 0 if done.parameters_path is not None else 1


def _evaluate(args: argparse.Namespace) -> int:
    """Print how well a file of coefficients predicts logs."""
    from sysid_ros.cli.console import print_document, say  # noqa: PLC0415
    from sysid_ros.cli.documents import ServoErrorsDocument  # noqa: PLC0415
    from sysid_ros.servos.bench.pendulum import errors_by_log  # noqa: PLC0415
    from sysid_ros.servos.formats.logs import check_motor, read_logs  # noqa: PLC0415
    from sysid_ros.servos.formats.parameter_file import read_parameters  # noqa: PLC0415

    servo, values = read_parameters(args.output, args.actuator)
    logs = read_logs(args.logdir)
    check_motor(logs, args.actuator)
    errors = errors_by_log(servo, values, logs, args.reset_period)
    if args.json:
        print_document(ServoErrorsDocument(errors, _mean(errors)))
        return 0
    if not args.quiet:
        for name, error in errors.items():
            say(f'{name}: {1e3 * error:.4f} mrad')
    say(_mean_error(errors))
    return 0


def _mean_error(errors: Mapping[str, float]) -> str:
    return f'Mean absolute error of {how_many(errors, "log")}: {1e3 * _mean(errors):.4f} mrad.'


def _mean(errors: Mapping[str, float]) -> float:
    return sum(errors.values()) / len(errors)


def _print(args: argparse.Namespace, done: ServoCalibration) -> None:
    from sysid_ros.cli.console import (  # noqa: PLC0415
        make_console,
        print_document,
        print_paths,
        print_result,
    )
    from sysid_ros.cli.documents import ServoDocument  # noqa: PLC0415
    from sysid_ros.results.result import StartKind  # noqa: PLC0415

    if args.json:
        print_document(
            ServoDocument(
                done.result.standing,
                done.parameters_path,
                done.result_path,
                done.report_path,
                done.values,
                done.errors,
                done.result.without_curves(),
            )
        )
        return
    console = make_console()
    if not args.quiet:
        print_result(console, done.result)
        if done.result.solver.start is StartKind.SAMPLED:
            sentence = done.result.solver.start_sentence
            console.print(f'The fit began at {sentence}.')
        console.print(_mean_error(done.errors))
        console.print()
    paths = {'result': done.result_path, 'report': done.report_path}
    if done.parameters_path is not None:
        paths = {'coefficients': done.parameters_path, **paths}
    print_paths(console, paths)


def compare(args: argparse.Namespace) -> int:
    """Fit several friction laws to logs of a servo and recommend one."""
    config = config_of(args)
    # Imported late: --help must not wait for them.
    from sysid_ros.cli.console import (  # noqa: PLC0415
        make_console,
        print_document,
        print_paths,
        progress_for,
    )
    from sysid_ros.servos.session.calibration import check_output  # noqa: PLC0415
    from sysid_ros.servos.session.choice import compare_servos, write_recommended  # noqa: PLC0415

    if args.output is not None:
        check_output(args.output)
    models = [name.strip() for name in args.models.split(',') if name.strip()]
    with progress_for(args) as progress:
        found = compare_servos(config, models, by=args.by, observer=progress)
    path = None if args.output is None else write_recommended(config, found)
    if args.json:
        print_document(found)
        return 0
    console = make_console()
    if args.quiet:
        console.print(_recommended(found))
    else:
        print_servos(console, found)
    if path is not None:
        console.print()
        print_paths(console, {'coefficients': args.output, 'comparison': path})
    return 0


def print_servos(console: LiteralConsole, found: ServoComparison) -> None:
    """Print how well each friction law predicts, and which one is recommended."""
    from sysid_ros.cli.console import print_table  # noqa: PLC0415

    numbers = ('coefficients', 'training', 'held out', 'worse by', 'AIC', 'BIC', 'seconds')
    rows = [
        (
            model.name,
            str(model.fitted),
            _mrad(model.training),
            _mrad(model.held_out),
            f'{_MILLI * model.difference:.2g} ± {_MILLI * model.standard_error:.2g}',
            *(f'{x:.1f}' for x in (model.aic, model.bic, model.seconds)),
        )
        for model in found.models
    ]
    title = 'Friction models (mean absolute error in mrad)'
    headers = ('model', *(f'>{name}' for name in numbers))
    print_table(console, title, headers, rows)
    title = f'Held out by {found.by}, {found.why} (mean absolute error in mrad)'
    headers = (found.by, '>logs', *(f'>{model.name}' for model in found.models))
    parts = [
        (row[0].group, str(row[0].logs), *(_mrad(part.error) for part in row))
        for row in zip(*(model.groups for model in found.models), strict=True)
    ]
    print_table(console, title, headers, parts)
    console.print(
        f'AIC and BIC are above the least, for {found.effective:.3g} effective samples.',
    )
    for warning in found.warnings:
        console.print(f'warning: {warning}')
    console.print(_recommended(found))


def _recommended(found: ServoComparison) -> str:
    return f'recommended: {found.recommended}, as {found.reason}'


def _mrad(error: float) -> str:
    return f'{_MILLI * error:.4g}'
