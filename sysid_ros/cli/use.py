# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Commands that use what was found: ``export``, ``predict``, ``fleet``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from sysid_ros.cli.app import Bag, Json, Packages, Quiet, command, written

_PANEL = 'use what was found'


@command(
    'export',
    _PANEL,
    'export out/current -o identified',
    'export out/current --format urdf --urdf arm.urdf -o identified.urdf',
    'export out/current --samples 50 -o drawn',
)
def export_model(
    *,
    result: Annotated[Path, typer.Argument(metavar='RESULT', help='result.json, or its folder')],
    form: Annotated[
        Literal['mjcf', 'urdf', 'csv', 'actuators'], typer.Option('--format', help='what to write')
    ] = 'mjcf',
    output: Annotated[
        Path,
        written('PATH', 'new file; for mjcf a new folder'),
    ],
    samples: Annotated[
        int | None,
        typer.Option(metavar='N', help='of mjcf, also N models drawn from the intervals'),
    ] = None,
    seed: Annotated[int, typer.Option(help='equal seeds give equal samples')] = 0,
    model: Annotated[
        Path | None,
        typer.Option(metavar='FILE', help='the model that was calibrated, if it was moved'),
    ] = None,
    urdf: Annotated[
        Path | None,
        typer.Option(
            metavar='FILE',
            help='URDF to write into, where an MJCF was calibrated: with the same names',
        ),
    ] = None,
    packages: Packages,
    json: Json = False,
) -> int:
    """Write an identified model for other programs.

    Writes what a calibration found as MJCF, URDF, a table of parameters (csv) or the numbers of
    actuators under the keys of mjlab, IsaacLab and ros2_control, and says what a format does not
    hold. With --samples, writes models that vary as much as the data leave open.
    """
    from sysid_ros.cli.console import print_json, say
    from sysid_ros.export.export import ExportFormat, export

    found = export(
        result,
        ExportFormat(form),
        output,
        model=model,
        urdf=urdf,
        packages=packages,
        samples=samples,
        seed=seed,
    )
    drawn = found.drawn
    if json:
        print_json(
            {
                'format': form,
                'files': found.files,
                'lost': found.lost,
                'notes': found.notes,
                'samples': drawn
                and {
                    'files': drawn.files,
                    'out_of_bounds': drawn.beyond_bounds,
                    'no_model': drawn.refused,
                    'by_parameter': drawn.by_parameter,
                },
            }
        )
        return 0
    if found.lost:
        say(f'identified, and not in a file of format {form}:')
    for entry in found.lost:
        say(f'  {entry}')
    for note in found.notes:
        say(note)
    for path in found.files:
        say(f'wrote {path}')
    if drawn is not None:
        say(f'wrote {len(drawn.files)} samples: {drawn.files[0]} to {drawn.files[-1]}')
    return 0


@command(
    'predict',
    _PANEL,
    'predict out/current bags/validate_1 -o beside',
    'predict arm.xml bags/validate_1 -o beside',
)
def predict(
    *,
    source: Annotated[
        Path,
        typer.Argument(
            metavar='RESULT',
            help='result.json or its folder; or a calibration.yaml, with the result in its output '
            'if there is one; or an MJCF, URDF or xacro file as it is',
        ),
    ],
    bag: Bag,
    output: Annotated[Path, written('DIR', 'folder of the new bag')],
    json: Json = False,
) -> int:
    """Write a bag with what a model predicts beside it.

    Predicts what joints do along a bag, nominal and fitted, and writes that beside the messages of
    the bag into a new one.
    """
    from sysid_ros.cli.console import make_console, print_json, say
    from sysid_ros.cli.tables import joint_errors, print_joint_errors
    from sysid_ros.pipeline.predicting import forecaster, write_prediction

    prediction, messages = write_prediction(bag, forecaster(source), output)
    errors = joint_errors(prediction)
    topics = [f'/{name}' for name in prediction.series()]
    if json:
        print_json(
            {
                'bag': output,
                'messages': messages,
                'topics': topics,
                'unstable': prediction.unstable,
                'errors': errors,
            }
        )
        return 0
    print_joint_errors(make_console(), prediction, errors)
    for name in prediction.unstable:
        say(f'the simulation of {name} becomes unstable')
    say(f'wrote {output}: {messages} messages, of them {", ".join(topics)}')
    return 0


@command(
    'fleet',
    _PANEL,
    'fleet fleet.yaml --workers 4',
    'fleet fleet.yaml --scheduler tcp://cell-pc:8786 -o out',
)
def fleet(
    context: typer.Context,
    *,
    config: Annotated[Path, typer.Argument(metavar='CONFIG', help='fleet.yaml')],
    scheduler: Annotated[
        str,
        typer.Option(
            metavar='ADDRESS',
            show_default=False,
            help='of Dask, as tcp://HOST:8786; default processes on this machine',
        ),
    ] = '',
    workers: Annotated[
        int | None,
        typer.Option(metavar='N', help='number of those processes; default one per core'),
    ] = None,
    output: Annotated[
        Path | None,
        written('DIR', "for results; default the file's"),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Fit many robots; say what they share and which is odd.

    Calibrates each robot of a fleet on the workers of Dask, and compares them. What is finished is
    kept: the same command goes on where it was interrupted. Exit code 1: a robot has no result.
    """
    from sysid_ros.config.files import load_fleet

    loaded = load_fleet(config, output)

    from sysid_ros.cli.console import make_console, print_json, print_paths, progress_for
    from sysid_ros.cli.tables import print_fleet
    from sysid_ros.pipeline.fleet import FLEET, calibrate_fleet

    with progress_for(quiet=quiet) as progress:
        result = calibrate_fleet(
            loaded,
            scheduler=scheduler,
            workers=workers,
            command=context.obj,
            observer=progress,
        )
    if json:
        print_json(result)
    else:
        console = make_console()
        if not quiet:
            print_fleet(console, result)
        print_paths(console, {'fleet': loaded.output / FLEET})
    return 0 if result.complete else 1
