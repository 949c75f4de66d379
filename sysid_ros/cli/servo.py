# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The commands about servos: logs, fits, comparisons of friction laws, pictures and MJCF."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sysid_ros.cli.console import (
    make_console,
    print_document,
    print_paths,
    print_result,
    print_table,
    progress_for,
    say,
)
from sysid_ros.cli.documents import (
    LogsDocument,
    PlainServoDocument,
    PlotsDocument,
    ServoDocument,
    ServoErrorsDocument,
    WrittenLog,
)
from sysid_ros.cli.parser import fixed_of
from sysid_ros.config import ServoFitConfig, load_servo_bag, validate
from sysid_ros.errors import ConfigError, how_many
from sysid_ros.report.alignment import print_alignment
from sysid_ros.report.numbers import padded
from sysid_ros.results.result import StartKind
from sysid_ros.servos.bench.calibration import LawComparison, calibrate_servo, compare_laws
from sysid_ros.servos.bench.pendulum import errors_by_log, mean_error
from sysid_ros.servos.formats.from_bag import convert_servo
from sysid_ros.servos.formats.logs import check_motor, read_logs
from sysid_ros.servos.formats.mjcf import plain_actuator, snippet, write_plain_mjcf
from sysid_ros.servos.formats.parameter_file import read_parameters

if TYPE_CHECKING:
    from sysid_ros.servos.pictures import Predictions

_MILLI = 1e3


def logs(args: argparse.Namespace) -> int:
    """Turn a bag into logs, and say what was found and what became of it."""
    config = load_servo_bag(args.config)
    alignment, made, paths = convert_servo(args.bag, config, args.output)
    entries = [
        WrittenLog(path, len(log), float(log.times[-1]))
        for log, path in zip(made, paths, strict=True)
    ]
    if args.json:
        print_document(LogsDocument(entries, alignment.health))
        return 0
    print_alignment(make_console(), alignment)
    for entry in entries:
        say(f'wrote {entry.file}: {entry.samples} samples, {entry.seconds:.2f} s')
    return 0


def fit(args: argparse.Namespace) -> int:
    """Fit a servo to its logs and print what was found; return 1 when it was rejected."""
    if args.eval:
        return _evaluate(args)
    with progress_for(args) as progress:
        done = calibrate_servo(_config_of(args), command=args.command_line, observer=progress)
    code = 0 if done.result.accepted else 1
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
        return code
    console = make_console()
    if not args.quiet:
        print_result(console, done.result)
        if done.result.solver.start is StartKind.SAMPLED:
            console.print(f'The fit began at {done.result.solver.start_sentence}.')
        console.print(_mean_error(done.errors))
        console.print()
    paths = {'coefficients': done.parameters_path, 'result': done.result_path}
    print_paths(console, {**paths, 'report': done.report_path})
    return code


def _config_of(args: argparse.Namespace) -> ServoFitConfig:
    given = {name: getattr(args, name, None) for name in ServoFitConfig.model_fields}
    wanted = {name: value for name, value in given.items() if value is not None}
    wanted['fixed'] = fixed_of(args.fix)
    return validate(ServoFitConfig, wanted, 'the command line')


def _evaluate(args: argparse.Namespace) -> int:
    """Print how well a file of coefficients predicts logs."""
    servo, values = read_parameters(args.output, args.actuator)
    logs = read_logs(args.logdir)
    check_motor(logs, args.actuator)
    errors = errors_by_log(servo, values, logs, args.reset_period)
    if args.json:
        print_document(ServoErrorsDocument(errors, mean_error(errors)))
        return 0
    if not args.quiet:
        for name, error in errors.items():
            say(f'{name}: {_MILLI * error:.4f} mrad')
    say(_mean_error(errors))
    return 0


def _mean_error(errors: Mapping[str, float]) -> str:
    mean = _MILLI * mean_error(errors)
    return f'Mean absolute error of {how_many(errors, "log")}: {mean:.4f} mrad.'


def compare(args: argparse.Namespace) -> int:
    """Fit several friction laws to logs of a servo and print how well each predicts."""
    models = [name.strip() for name in args.models.split(',') if name.strip()]
    config = _config_of(argparse.Namespace(**{**vars(args), 'output': None}))
    with progress_for(args) as progress:
        found = compare_laws(config, models, output=args.output, observer=progress)
    if args.json:
        print_document(found)
    else:
        print_laws(found)
    return 0


def print_laws(found: LawComparison) -> None:
    """Print how well each friction law predicts."""
    console = make_console()
    rows = [
        (
            law.name,
            str(law.fitted),
            f'{_MILLI * law.training:.4g}',
            '-' if math.isnan(law.held_out) else f'{_MILLI * law.held_out:.4g}',
            f'{law.seconds:.1f}',
        )
        for law in found.models
    ]
    headers = ('model', '>coefficients', '>training', '>held out', '>seconds')
    print_table(console, 'Friction models (mean absolute error in mrad)', headers, rows)
    for warning in found.warnings:
        console.print(f'warning: {warning}')


def plot(args: argparse.Namespace) -> int:
    """Draw logs and what parameter files predict for them, and print by how much they miss."""
    # Matplotlib is slow to import.
    from sysid_ros.servos.pictures import (  # noqa: PLC0415
        predict_logs,
        read_candidates,
        write_pictures,
    )

    period = args.reset_period
    if period is not None and not (math.isfinite(period) and period > 0):
        raise ConfigError(f'Expected a positive --reset-period in seconds, found {period:g}.')
    candidates = read_candidates(args.params, args.actuator)
    logs = read_logs(args.logdir)
    found = predict_logs(candidates, logs, period)
    folder = args.output or Path(f'{args.logdir.resolve().name}_plots')
    paths = write_pictures(folder, logs, found)
    if args.json:
        errors = {
            name: dict(zip(found.logs, row.tolist(), strict=True))
            for name, row in zip(found.names, found.errors, strict=True)
        }
        print_document(PlotsDocument(paths, errors))
        return 0
    if candidates:
        print_errors(found)
    for path in paths:
        say(f'wrote {path}')
    return 0


def print_errors(found: Predictions) -> None:
    """Print by how much each parameter file misses each log."""
    milli = _MILLI * found.errors
    rows = [(log, *map(padded, column)) for log, column in zip(found.logs, milli.T, strict=True)]
    rows.append(('mean', *map(padded, milli.mean(axis=1))))
    headers = ('log', *(f'>{name}' for name in found.names))
    print_table(make_console(), 'Mean absolute error (mrad)', headers, rows)


def export(args: argparse.Namespace) -> int:
    """Write a servo as plain MJCF, and say what is lost."""
    servo, values = read_parameters(args.params, args.actuator)
    actuator = plain_actuator(servo, values, kp=args.kp, vin=args.vin, element=args.element)
    write_plain_mjcf(args.output, actuator)
    lines = snippet(actuator)
    if args.json:
        print_document(PlainServoDocument(args.output, '\n'.join(lines), actuator))
        return 0
    for line in lines:
        say(line)
    for note in actuator.notes:
        say(f'note: {note}')
    say(f'wrote {args.output}')
    return 0
