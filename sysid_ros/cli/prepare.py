# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Commands before a fit: ``init``, ``doctor``, ``excite``, ``preflight``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sysid_ros.cli.app import (
    FIT,
    START,
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
from sysid_ros.errors import ConfigError, how_many, listed

#: Name of the mapping file beside the configuration.
_MAPPING = 'mapping.yaml'


@command(
    'init',
    START,
    'init bags arm.xml',
    'init bags/train_1 bags/validate_1 arm.urdf -o calibration.yaml',
)
def init(
    *,
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar='BAG… MODEL',
            help='bags: folders, files, patterns, a folder of them; MJCF, URDF or xacro file, '
            'default the robot_description in the first bag',
        ),
    ],
    output: Annotated[Path, written('FILE', 'new file')] = Path('calibration.yaml'),
    force: Annotated[bool, typer.Option('--force', help='replace files that exist')] = False,
    packages: Packages,
    namespace: Namespace = '',
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Write a commented calibration.yaml for recordings and a model.

    Looks at the recordings and the model, chooses roles, mapping and parameters that these
    recordings can tell, and writes them. Where they tell nothing, nothing is written.
    """
    _check_absent(output, force=force)

    from sysid_ros.alignment import proposal as mapping
    from sysid_ros.cli.console import print_json, progress_for, say
    from sysid_ros.cli.tables import print_next_commands, print_proposal
    from sysid_ros.files import replace_file
    from sysid_ros.workflows.init import propose_calibration, sort_arguments, to_yaml

    bags, model = sort_arguments(paths)
    with progress_for(quiet=quiet) as progress:
        found = propose_calibration(
            bags, model, progress, packages=tuple(packages), namespace=namespace
        )
    written = [output]
    if found.mapping is not None:
        place = output.parent / _MAPPING
        _check_absent(place, force=force)
        replace_file(place, mapping.to_yaml(found.mapping, found.model.name).encode())
        written.append(place)
    replace_file(output, to_yaml(found, output.parent, _MAPPING).encode())
    if json:
        print_json(
            {
                'written': written,
                'model': found.model,
                'model_notes': found.model_notes,
                'bags': found.bags,
                'mapping': found.mapping and mapping.summary(found.mapping),
                'estimator': found.estimator,
                'parameters': found.targets,
                'notes': found.notes,
                'problem': found.problem,
                'questions': found.questions,
            }
        )
    else:
        if not quiet:
            print_proposal(found, _MAPPING)
        for path in written:
            say(f'wrote {path}')
        if not quiet:
            print_next_commands(found, output)
    return 0


def _check_absent(path: Path, *, force: bool) -> None:
    if path.exists() and not force:
        raise ConfigError(
            f'{str(path)!r} exists already and may be edited; choose another name with -o, or '
            'replace it with --force.'
        )


@command('doctor', START, 'doctor', 'doctor --seconds 10 --json')
def doctor(
    *,
    seconds: Annotated[float, typer.Option(help='so long to listen to topics')] = 2.0,
    json: Json = False,
) -> int:
    """Say what is installed, what of ROS is seen, and what is missing.

    Looks at Python, packages, rendering and ROS: a line each with what to do. Exit code 1:
    something that is needed is missing.
    """
    from sysid_ros.cli.console import print_json, say
    from sysid_ros.nodes.doctor import Check, State, check_installation, check_ros

    found: list[Check] = []
    for check in (*check_installation(), *check_ros(seconds)):
        found.append(check)
        if not json:
            remedy = f' → {check.remedy}' if check.remedy else ''
            say(f'{check.state:9}{check.subject}: {check.found}{remedy}')
    missing = [check for check in found if check.state is State.MISSING]
    if json:
        print_json({'checks': found})
    elif missing:
        say(f'{how_many(missing, "thing")} missing: {", ".join(item.subject for item in missing)}.')
    else:
        say('All that is needed is there; what is optional is needed for what its line says.')
    return 1 if missing else 0


@command(
    'excite',
    FIT,
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

    from sysid_ros.config.files import load_calibration

    settings = None if config is None else load_calibration(config)

    from sysid_ros.cli.console import make_console, print_json, progress_for
    from sysid_ros.cli.tables import print_design
    from sysid_ros.files import replace_file
    from sysid_ros.model.loading import compile_spec, implied_actuators
    from sysid_ros.model.targets import Scope, check_distinct, make_unknowns
    from sysid_ros.workflows.excitation import format_waypoints
    from sysid_ros.workflows.excitation.design import Experiment, design, make_plan, sensor_noise
    from sysid_ros.workflows.excitation.drives import Limits, check_ranges, drives, load_driven
    from sysid_ros.workflows.problem import parameters_of

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
    FIT,
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
    from sysid_ros.config.files import load_calibration

    loaded = load_calibration(config, overrides_of(settings, namespace))

    from sysid_ros.cli.console import make_console, print_json, progress_for
    from sysid_ros.cli.tables import preflight_line, print_preflight
    from sysid_ros.workflows.preflight import preflight

    with progress_for(quiet=quiet) as progress:
        found = preflight(loaded, progress)
    if json:
        print_json(found)
    elif quiet:
        make_console().print(preflight_line(found))
    else:
        print_preflight(make_console(), found)
    return 1 if found.doubtful else 0
