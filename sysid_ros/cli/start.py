# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid init`` and ``sysid doctor``: the first steps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sysid_ros.cli.app import Json, Namespace, Packages, Quiet, command, written
from sysid_ros.errors import ConfigError, how_many

_PANEL = 'start'
#: Name of the mapping file beside the configuration.
_MAPPING = 'mapping.yaml'


@command(
    'init',
    _PANEL,
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
    recordings can tell, and writes them. Exit code 1: they tell nothing of the model.
    """
    _check_absent(output, force=force)

    from sysid_ros.alignment.mapping import proposal as mapping
    from sysid_ros.cli.console import print_json, progress_for, say
    from sysid_ros.cli.tables import print_next_commands, print_proposal
    from sysid_ros.files import replace_file
    from sysid_ros.pipeline.init import propose_calibration, sort_arguments, to_yaml

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
    return 0 if found.chosen else 1


def _check_absent(path: Path, *, force: bool) -> None:
    if path.exists() and not force:
        raise ConfigError(
            f'{str(path)!r} exists already and may be edited; choose another name with -o, or '
            'replace it with --force.'
        )


@command('doctor', _PANEL, 'doctor', 'doctor --seconds 10 --json')
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
