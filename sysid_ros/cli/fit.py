# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Commands that fit: ``excite``, ``preflight``, ``calibrate``, ``compare``."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from sysid_ros.cli.app import (
    Calibration,
    Json,
    Model,
    Namespace,
    Packages,
    Quiet,
    Settings,
    command,
    overrides_of,
    several,
    written,
)
from sysid_ros.errors import ConfigError, listed

_PANEL = 'fit'


@command(
    'excite',
    _PANEL,
    "excite arm.xml --for 'joint/*/armature' -o motion.csv",
    'excite arm.xml --config calibration.yaml --duration 30 -o motion.csv',
)
def excite(
    context: typer.Context,
    *,
    model: Model,
    packages: Packages,
    targets: Annotated[
        list[str],
        several(
            '--for', 'TARGET', 'what is to be identified, as joint/*/armature; may be repeated'
        ),
    ],
    config: Annotated[
        Path | None,
        typer.Option(metavar='FILE', help='calibration.yaml whose parameters those are'),
    ] = None,
    output: Annotated[Path, written('FILE', 'new CSV file')],
    duration: Annotated[
        float, typer.Option(metavar='S', min=1, max=3600, help='how long it takes')
    ] = 20.0,
    rate: Annotated[
        float, typer.Option(metavar='HZ', min=1, max=5000, help='of the commands')
    ] = 100.0,
    sample_rate: Annotated[
        float | None,
        typer.Option(metavar='HZ', min=1, max=100_000, help='of each sensor; default --rate'),
    ] = None,
    margin: Annotated[
        float, typer.Option(metavar='PART', min=0.05, max=1, help='of each limit to use')
    ] = 0.9,
    max_velocity: Annotated[
        float | None,
        typer.Option(
            metavar='V', min=1e-6, help='of all joints; default 2 rad/s, and .5 m/s for slides'
        ),
    ] = None,
    max_frequency: Annotated[
        float, typer.Option(metavar='HZ', min=1e-3, max=100, help='of the commands')
    ] = 2.5,
    seed: Annotated[
        int, typer.Option(metavar='N', min=0, help='equal seeds give equal motions')
    ] = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Design a motion to record, inside all limits.

    Designs the motion from which parameters can be identified best, inside the limits of the model
    also where the parameters are 20 % off; writes it for the exciter node.
    """
    if bool(targets) == (config is not None):
        given = 'both' if targets else 'neither'
        raise ConfigError(f'Expected either --for TARGET or --config FILE, found {given}.')
    if output.suffix.lower() != '.csv':
        raise ConfigError(f'Expected an output file ending in .csv, found {str(output)!r}.')

    from sysid_ros.config import load_calibration

    settings = None if config is None else load_calibration(config)

    from sysid_ros.cli.console import make_console, print_json, progress_for
    from sysid_ros.cli.tables import print_design
    from sysid_ros.excitation import format_waypoints
    from sysid_ros.excitation.design import design, make_plan
    from sysid_ros.excitation.drives import check_ranges, drives, load_driven
    from sysid_ros.excitation.experiment import Experiment, sensor_noise
    from sysid_ros.excitation.limits import Limits
    from sysid_ros.files import replace_file
    from sysid_ros.model.implied import implied_actuators
    from sysid_ros.model.loading import compile_spec
    from sysid_ros.model.unknown import Scope, check_distinct, make_unknowns
    from sysid_ros.pipeline.problem import parameters_of

    spec = load_driven(model, packages)
    compiled = compile_spec(spec, model)
    limits = Limits(compiled, margin=margin, max_speed=max_velocity)
    if settings is None:
        scope = Scope(compiled, spec)
        unknowns = tuple(x for pattern in targets for x in make_unknowns(pattern, scope))
        check_distinct(unknowns, compiled)
    else:
        unknowns = parameters_of(settings, compiled, spec)
        if not unknowns:
            raise ConfigError(f'Expected parameters of the model in {str(config)!r}, found none.')
    sensors = sensor_noise(compiled)
    chosen = drives(compiled)
    check_ranges(chosen)
    plan = make_plan(chosen, duration=duration, rate=rate, max_frequency=max_frequency)
    with (
        progress_for(quiet=quiet) as progress,
        Experiment(spec, model, unknowns, limits, sensors, rate=sample_rate or rate) as experiment,
    ):
        found = design(experiment, plan, seed=seed, observe=progress.share)
        progress.finish()
        collide = experiment.collisions.possible
    comments = [
        f'designed by: {context.obj}',
        f'for: {listed(parameter.name for parameter in found.parameters)}',
        f'play it: ros2 launch sysid_ros excite.launch.xml model:={model} motion:={output}',
    ]
    replace_file(output, format_waypoints(compiled, found.motion, comments).encode())
    implied = len(implied_actuators(spec))
    if json:
        print_json(
            {
                'file': output,
                'parameters': [
                    {'name': x.name, 'unit': x.unit, 'nominal': x.nominal, 'half_width': half}
                    for x, half in zip(found.parameters, found.half, strict=True)
                ],
                'unexcited': [
                    {'name': x.parameter.name, 'reason': x.reason} for x in found.unexcited
                ],
                'limits': found.usage,
                'models': found.models,
                'collisions_checked': collide,
                'distance': found.distance,
                'implied_actuators': implied,
            }
        )
        return 0
    console = make_console()
    if not quiet:
        print_design(console, found, collide=collide)
        if implied:
            console.print(
                f'The model has no actuators: {implied} position servos with guessed gains are '
                'implied, and the columns of the file are theirs.'
            )
    console.print(f'wrote {output}', soft_wrap=True)
    return 0


@command(
    'preflight',
    _PANEL,
    'preflight calibration.yaml',
    'preflight calibration.yaml --json | jq .parameters',
)
def preflight(
    *,
    config: Calibration,
    settings: Settings,
    namespace: Namespace = '',
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Predict intervals and verdicts; say what to record.

    Takes the first steps of a fit and says what the fit to these bags would say. Exit code 1:
    some parameter would not be identified.
    """
    from sysid_ros.config import load_calibration

    loaded = load_calibration(config, overrides_of(settings, namespace))

    from sysid_ros.cli.console import make_console, print_json, progress_for
    from sysid_ros.cli.preflight import last_line, print_preflight
    from sysid_ros.pipeline.preflight import preflight

    with progress_for(quiet=quiet) as progress:
        found = preflight(loaded, progress)
    if json:
        print_json(found)
    elif quiet:
        make_console().print(last_line(found))
    else:
        print_preflight(make_console(), found)
    return 1 if found.doubtful else 0


@command(
    'calibrate',
    _PANEL,
    'calibrate --example > calibration.yaml',
    'calibrate calibration.yaml',
    'calibrate calibration.yaml --set solver.loss=huber -o out/huber',
)
def calibrate(
    context: typer.Context,
    *,
    config: Annotated[
        Path | None, typer.Argument(metavar='CONFIG', help='calibration.yaml')
    ] = None,
    example: Annotated[
        bool, typer.Option('--example', help='print a commented configuration and exit')
    ] = False,
    settings: Settings,
    namespace: Namespace = '',
    time: Annotated[
        str | None,
        typer.Option(
            metavar='SECONDS', help='limit of time of the fit; the best values by then count'
        ),
    ] = None,
    output: Annotated[
        Path | None,
        written('DIR', "for results; default the file's"),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Fit parameters to bags; write result, report and MJCF.

    Exit code 1: the result was rejected.
    """
    if example == (config is not None):
        found = 'both' if example else 'neither'
        raise ConfigError(f'Expected either CONFIG or --example, found {found}.')
    if config is None:
        text = resources.files('sysid_ros.cli').joinpath('example.yaml').read_text('utf-8')
        print(text, end='')  # noqa: T201 (our own)
        return 0
    overrides = overrides_of(settings, namespace)
    if output is not None:
        overrides['output'] = str(output)
    if time is not None:
        overrides['solver.time'] = time

    from sysid_ros.config import load_calibration

    loaded = load_calibration(config, overrides)

    from sysid_ros.cli.console import make_console, print_json, print_paths, progress_for
    from sysid_ros.pipeline import calibrate
    from sysid_ros.report.tables import print_result
    from sysid_ros.results.checks import verdict_line

    with progress_for(loaded.solver.time, quiet=quiet) as progress:
        done = calibrate(loaded, command=context.obj, observer=progress)
    code = 0 if done.result.accepted else 1
    if json:
        print_json(
            {
                'standing': done.result.standing,
                'mjcf': done.paths.get('identified MJCF'),
                'result_file': done.paths['result'],
                'report': done.paths['report'],
                'folder': done.folder,
                'result': done.result.without_curves(),
            }
        )
        return code
    console = make_console()
    if not quiet:
        print_result(console, done.result)
        console.print()
    print_paths(console, done.paths)
    console.print(verdict_line(done.result))
    return code


@command(
    'compare',
    _PANEL,
    'compare out/2026-11-25T23-47-29Z out/current',
    "compare calibration.yaml --drop 'joint/*/frictionloss'",
)
def compare(
    *,
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar='PATH',
            help='results (result.json or a folder that holds one), or calibration.yaml',
        ),
    ],
    drop: Annotated[
        list[str],
        several(
            '--drop',
            'PATTERN,…',
            "also without these parameters, as 'joint/*/frictionloss'; one more model each time",
        ),
    ],
    settings: Settings,
    namespace: Namespace = '',
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Compare results as they are, or fit models and recommend one.

    Puts existing results beside each other; nothing is fitted. Or fits several configurations, or
    one with and without some of its parameters, to the same bags, and recommends the simplest that
    predicts held-out data as well as the best.
    """
    results = [path for path in paths if path.is_dir() or path.suffix == '.json']
    if results and len(results) < len(paths):
        raise ConfigError(
            f'Expected only results or only configurations, found the result {str(results[0])!r} '
            f'among {len(paths)} paths.'
        )
    overrides = overrides_of(settings, namespace)
    if results:
        if drop or overrides:
            raise ConfigError('--drop and --set are for configurations, found results.')
        return _compare_results(paths, quiet=quiet, json=json)

    from sysid_ros.config import load_calibration

    configs = [load_calibration(path, overrides) for path in paths]

    from sysid_ros.cli.console import make_console, print_json, progress_for
    from sysid_ros.cli.tables import print_models, recommendation
    from sysid_ros.pipeline.compare import Candidate, compare_models

    stems = [path.stem for path in paths]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in paths]
    candidates: list[Candidate] = []
    for name, config in zip(names, configs, strict=True):
        candidates.append(Candidate(name, config))
        for patterns in drop:
            left_out = tuple(pattern.strip() for pattern in patterns.split(','))
            candidates.append(Candidate(f'{name} without {", ".join(left_out)}', config, left_out))
    with progress_for(quiet=quiet) as progress:
        found = compare_models(candidates, progress)
    if json:
        print_json(found)
    elif quiet:
        make_console().print(recommendation(found))
    else:
        print_models(make_console(), found)
    return 0


def _compare_results(paths: list[Path], *, quiet: bool, json: bool) -> int:
    if len(paths) == 1:
        raise ConfigError(
            f'Expected two results or more to compare, found {str(paths[0])!r} alone.'
        )

    from sysid_ros.cli.console import make_console, print_json
    from sysid_ros.report.tables import print_side_by_side
    from sysid_ros.results.comparison import read_side_by_side

    found = read_side_by_side(paths)
    if json:
        print_json(found)
    elif quiet:
        for entry in found.results[1:]:
            make_console().print(entry.sentence)
    else:
        print_side_by_side(make_console(), found)
    return 0
