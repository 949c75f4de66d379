# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid servo``: logs, fits, comparisons of friction laws, and pictures."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sysid_ros.cli.app import COMMANDS, Json, Quiet, command, several, written
from sysid_ros.cli.app import servo as group
from sysid_ros.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sysid_ros.config.servos import ServoFitConfig

_Actuator = Annotated[
    str, typer.Option(metavar='NAME', help='as xl330, or a YAML file that defines it')
]
_Logdir = Annotated[Path, typer.Option(metavar='DIR', help='folder of logs, raw or processed')]
_Kp = Annotated[float | None, typer.Option(metavar='KP', help='hold out the logs with this gain')]
_ResetPeriod = Annotated[
    float | None,
    typer.Option(
        metavar='S', help='let predictions go on from the measured state every so many seconds'
    ),
]
_Fix = Annotated[
    list[str],
    several('--fix', 'NAME=VALUE', 'a coefficient that is known, as kt=0.4; may be repeated'),
]
_Definition = Annotated[
    str | None,
    typer.Option(metavar='FILE', help="YAML file that defines the parameter file's servo"),
]


@command(
    'fit',
    COMMANDS,
    'servo fit --actuator xl330 --logdir logs -o params.json',
    'servo fit --actuator xl330 --logdir logs --validation-kp 200',
    'servo fit --actuator xl330 --logdir logs --eval params.json',
    of=group,
)
def fit(
    context: typer.Context,
    *,
    actuator: _Actuator,
    logdir: _Logdir,
    model: Annotated[str, typer.Option(metavar='NAME', help='friction law: m1 to m6')] = 'm6',
    output: Annotated[Path, written('FILE', 'file for the coefficients')] = Path('params.json'),
    validation_kp: _Kp = None,
    reset_period: _ResetPeriod = None,
    fix: _Fix,
    method: Annotated[
        Literal['least-squares', 'cmaes', 'random', 'nsgaii'],
        typer.Option(
            metavar='METHOD',
            help='least-squares; or cmaes, random, nsgaii, which try values with Optuna before, as '
            'BAM does',
        ),
    ] = 'least-squares',
    trials: Annotated[
        int | None, typer.Option(metavar='N', help='number of values to try in all; default 5000')
    ] = None,
    workers: Annotated[int, typer.Option(metavar='N', help='trials at a time')] = 1,
    load_study: Annotated[
        str | None,
        typer.Option(
            metavar='STUDY',
            help='go on with a study: its name in study.journal beside the output, or a file of '
            'studies, a journal or SQLite',
        ),
    ] = None,
    wandb: Annotated[bool, typer.Option('--wandb', help='log to Weights & Biases')] = False,
    starts: Annotated[int, typer.Option(metavar='N', help='starts spread over the bounds')] = 8,
    seed: Annotated[int, typer.Option(metavar='N', help='of the starts and trials')] = 0,
    evaluated: Annotated[
        Path | None,
        typer.Option(
            '--eval', metavar='FILE', help='only say how well this parameter file predicts the logs'
        ),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Find a servo's motor and friction from its logs.

    Fits the coefficients of a servo to logs of its pendulum, raw or processed; writes them as a
    parameter file, with result and report beside it.
    """
    if evaluated is not None:
        return _evaluate(evaluated, actuator, logdir, reset_period, quiet=quiet, json=json)
    config = _config(
        fix,
        actuator=actuator,
        logdir=logdir,
        model=model,
        output=output,
        validation_kp=validation_kp,
        reset_period=reset_period,
        method=method,
        trials=trials,
        workers=workers,
        load_study=load_study,
        wandb=wandb,
        starts=starts,
        seed=seed,
    )

    from sysid_ros.cli.console import make_console, print_json, print_paths, progress_for
    from sysid_ros.report.tables import print_result
    from sysid_ros.results.checks import verdict_line
    from sysid_ros.results.result import StartKind
    from sysid_ros.servos.calibration import calibrate_servo

    with progress_for(quiet=quiet) as progress:
        done = calibrate_servo(config, command=context.obj, observer=progress)
    result = done.result
    code = 0 if result.accepted else 1
    if json:
        print_json(
            {
                'standing': result.standing,
                'parameters_file': done.parameters_path,
                'result_file': done.result_path,
                'report': done.report_path,
                'values': done.values,
                'errors': done.errors,
                'result': result.without_curves(),
            }
        )
        return code
    console = make_console()
    if not quiet:
        print_result(console, result)
        if result.solver.start is StartKind.SAMPLED:
            console.print(f'The fit began at {result.solver.start_sentence}.')
        console.print(_mean_error(done.errors))
        console.print()
    paths = {'coefficients': done.parameters_path, 'result': done.result_path}
    print_paths(console, {**paths, 'report': done.report_path})
    console.print(verdict_line(result))
    return code


def _config(fix: list[str], **given: object) -> ServoFitConfig:
    """Return what is asked for; what is not given keeps the default of the configuration."""
    from sysid_ros.config.files import validate
    from sysid_ros.config.servos import ServoFitConfig

    fixed = {}
    for pair in fix:
        name, _, text = pair.partition('=')
        try:
            fixed[name] = float(text)
        except ValueError as err:
            raise ConfigError(
                f'Expected NAME=NUMBER for --fix, as kt=0.4, found {pair!r}.'
            ) from err
    told = {name: value for name, value in given.items() if value is not None}
    return validate(ServoFitConfig, {**told, 'fixed': fixed}, 'the command line')


def _evaluate(
    file: Path, actuator: str, logdir: Path, period: float | None, *, quiet: bool, json: bool
) -> int:
    """Print how well a file of coefficients predicts logs."""
    from sysid_ros.cli.console import print_json, say
    from sysid_ros.servos.logs import check_motor, read_logs
    from sysid_ros.servos.pendulum import errors_by_log, mean_error
    from sysid_ros.simulation.servo import read_parameters

    servo, values = read_parameters(file, actuator)
    logs = read_logs(logdir)
    check_motor(logs, actuator)
    errors = errors_by_log(servo, values, logs, period)
    if json:
        print_json({'errors': errors, 'mean': mean_error(errors)})
        return 0
    if not quiet:
        for name, error in errors.items():
            say(f'{name}: {1e3 * error:.4f} mrad')
    say(_mean_error(errors))
    return 0


def _mean_error(errors: Mapping[str, float]) -> str:
    from sysid_ros.errors import how_many
    from sysid_ros.servos.pendulum import mean_error

    mean = 1e3 * mean_error(errors)
    return f'Mean absolute error of {how_many(errors, "log")}: {mean:.4f} mrad.'


@command(
    'compare', COMMANDS, 'servo compare --actuator xl330 --logdir logs --models m1,m4,m6', of=group
)
def compare(
    *,
    actuator: _Actuator,
    logdir: _Logdir,
    models: Annotated[
        str, typer.Option(metavar='NAME,…', help='friction laws')
    ] = 'm1,m2,m3,m4,m5,m6',
    output: Annotated[
        Path | None, written('DIR', 'folder for the coefficients of each model')
    ] = None,
    validation_kp: _Kp = None,
    reset_period: _ResetPeriod = None,
    fix: _Fix,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Fit several friction models; show their errors side by side.

    Fits them to the same logs, and shows their errors on these and on the logs that are held out.
    """
    names = [name.strip() for name in models.split(',') if name.strip()]
    config = _config(
        fix,
        actuator=actuator,
        logdir=logdir,
        validation_kp=validation_kp,
        reset_period=reset_period,
    )

    from sysid_ros.cli.console import make_console, print_json, progress_for
    from sysid_ros.report.tables import print_table
    from sysid_ros.servos.calibration import compare_laws

    with progress_for(quiet=quiet) as progress:
        found = compare_laws(config, names, output=output, observer=progress)
    if json:
        print_json(found)
        return 0
    rows = [
        (
            law.name,
            str(law.fitted),
            f'{1e3 * law.training:.4g}',
            '-' if math.isnan(law.held_out) else f'{1e3 * law.held_out:.4g}',
            f'{law.seconds:.1f}',
        )
        for law in found.models
    ]
    headers = ('model', '>coefficients', '>training', '>held out', '>seconds')
    console = make_console()
    print_table(console, 'Friction models (mean absolute error in mrad)', headers, rows)
    for warning in found.warnings:
        console.print(f'warning: {warning}')
    return 0


@command(
    'plot',
    COMMANDS,
    'servo plot --logdir logs --params m1.json --params m6.json -o pictures',
    of=group,
)
def plot(
    *,
    logdir: _Logdir,
    params: Annotated[
        list[Path],
        several('--params', 'FILE', 'parameter file, or a folder of them; may be repeated'),
    ],
    actuator: _Definition = None,
    reset_period: _ResetPeriod = None,
    output: Annotated[Path | None, written('DIR', 'folder; default LOGDIR_plots')] = None,
    json: Json = False,
) -> int:
    """Draw logs and what parameters predict for them.

    Draws a picture per log, with what parameter files predict and how far that is off.
    """
    if reset_period is not None and not (math.isfinite(reset_period) and reset_period > 0):
        raise ConfigError(f'Expected a positive --reset-period in seconds, found {reset_period:g}.')

    from sysid_ros.cli.console import make_console, print_json, say
    from sysid_ros.report.numbers import padded
    from sysid_ros.report.tables import print_table
    from sysid_ros.servos.logs import read_logs
    from sysid_ros.servos.pictures import predict_logs, read_candidates, write_pictures

    candidates = read_candidates(params, actuator)
    logs = read_logs(logdir)
    found = predict_logs(candidates, logs, reset_period)
    folder = output or Path(f'{logdir.absolute().name}_plots')
    files = write_pictures(folder, logs, found)
    if json:
        errors = {
            name: dict(zip(found.logs, row, strict=True))
            for name, row in zip(found.names, found.errors, strict=True)
        }
        print_json({'files': files, 'errors': errors})
        return 0
    if candidates:
        milli = 1e3 * found.errors
        rows = [
            (log, *map(padded, errors)) for log, errors in zip(found.logs, milli.T, strict=True)
        ]
        rows.append(('mean', *map(padded, milli.mean(axis=1))))
        headers = ('log', *(f'>{name}' for name in found.names))
        print_table(make_console(), 'Mean absolute error (mrad)', headers, rows)
    for path in files:
        say(f'wrote {path}')
    return 0


@command('export', COMMANDS, 'servo export --params params.json -o servo.xml', of=group)
def export(
    *,
    params: Annotated[Path, typer.Option(metavar='FILE', help='parameter file')],
    kp: Annotated[
        float | None, typer.Option(help="gain in the firmware's unit; default the servo's")
    ] = None,
    vin: Annotated[float | None, typer.Option(help="supply, V; default the servo's")] = None,
    actuator: _Definition = None,
    output: Annotated[Path, written('FILE', 'new MJCF file')],
    json: Json = False,
) -> int:
    """Write a servo as plain MJCF, and say what is lost.

    Prints the joint and the actuator that stand for a servo in plain MJCF, and writes them.
    """
    from sysid_ros.cli.console import print_json, say
    from sysid_ros.servos.mjcf import plain_servo, write_servo
    from sysid_ros.simulation.servo import read_parameters

    servo, values = read_parameters(params, actuator)
    plain = plain_servo(servo, values, kp=kp, vin=vin)
    write_servo(output, plain)
    if json:
        print_json({'file': output, **plain._asdict()})
        return 0
    for line in (plain.joint, plain.actuator, *(f'note: {note}' for note in plain.notes)):
        say(line)
    say(f'wrote {output}')
    return 0


@command('logs', COMMANDS, 'servo logs bags/servo servo_bag.yaml -o logs', of=group)
def logs(
    *,
    bag: Annotated[Path, typer.Argument(metavar='BAG', help='bag folder')],
    config: Annotated[
        Path, typer.Argument(metavar='CONFIG', help='servo_bag.yaml: what is where in the bag')
    ],
    output: Annotated[Path, written('DIR', 'folder for the logs')],
    json: Json = False,
) -> int:
    """Turn the bag of a servo on a pendulum into logs.

    Turns a bag of a servo on a pendulum, or of a single joint that is like one, into evenly sampled
    logs, one for each run.
    """
    from sysid_ros.config.servos import load_servo_bag

    loaded = load_servo_bag(config)

    from sysid_ros.cli.console import make_console, print_json, say
    from sysid_ros.report.tables import print_alignment
    from sysid_ros.servos.from_bag import convert_servo

    alignment, made, paths = convert_servo(bag, loaded, output)
    entries = [
        {'file': path, 'samples': len(log), 'seconds': float(log.times[-1])}
        for log, path in zip(made, paths, strict=True)
    ]
    if json:
        print_json({'logs': entries, 'health': alignment.health})
        return 0
    print_alignment(make_console(), alignment)
    for entry in entries:
        say(f'wrote {entry["file"]}: {entry["samples"]} samples, {entry["seconds"]:.2f} s')
    return 0
