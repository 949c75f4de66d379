# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid calibrate``."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from sysid_ros.cli.app import FIT, Json, Namespace, Quiet, Settings, command, overrides_of, written
from sysid_ros.errors import ConfigError


@command(
    'calibrate',
    FIT,
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
    output: Annotated[Path | None, written('DIR', "for results; default the file's")] = None,
    resume: Annotated[
        bool,
        typer.Option('--resume', help='go on where a fit that was interrupted, or limited, was'),
    ] = False,
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

    from sysid_ros.config.files import load_calibration

    loaded = load_calibration(config, overrides)

    from sysid_ros.cli.console import make_console, print_json, print_paths, progress_for
    from sysid_ros.report.tables import print_result
    from sysid_ros.results.checks import verdict_line
    from sysid_ros.workflows.calibrate import calibrate

    with progress_for(loaded.solver.time, quiet=quiet) as progress:
        done = calibrate(loaded, command=context.obj, observer=progress, resume=resume)
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
