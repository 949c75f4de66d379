# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Commands that judge, also in CI: ``check`` and ``history``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sysid_ros.cli.app import Json, Namespace, Quiet, Settings, command, overrides_of, written
from sysid_ros.errors import ConfigError

if TYPE_CHECKING:
    from sysid_ros.config import ThresholdsConfig

_PANEL = 'judge, also in CI'


@command(
    'check',
    _PANEL,
    'check out/current bags/validate_1',
    'check arm.sysid.yaml --no-fit --junit check.xml --github',
    'check calibration.yaml --baseline baseline/result.json',
)
def check(
    context: typer.Context,
    *,
    file: Annotated[
        Path,
        typer.Argument(
            metavar='FILE',
            help='thresholds, as arm.sysid.yaml; or calibration.yaml, which is fitted again; or '
            'before bags a model or a result, which predicts them',
        ),
    ],
    bags: Annotated[
        list[str],
        typer.Argument(
            metavar='BAG',
            default_factory=list,
            show_default=False,
            help='bag folders or patterns to predict',
        ),
    ],
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar='PATH',
            help="folder of what was found before, or its result.json; default the thresholds'",
        ),
    ] = None,
    no_fit: Annotated[
        bool, typer.Option('--no-fit', help='predict only, which takes seconds')
    ] = False,
    update: Annotated[
        bool, typer.Option('--update', help='write the baseline anew, and fail nothing')
    ] = False,
    settings: Settings,
    namespace: Namespace = '',
    output: Annotated[
        Path | None,
        written('DIR', 'for result and report of the fit; default none'),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar='FILE', help='write the cases as JUnit XML')
    ] = None,
    github: Annotated[
        bool,
        typer.Option(
            '--github',
            help="mark the model's lines that are at fault and fill the summary of the step",
        ),
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Predict and fit again; compare with limits and an earlier result.

    Predicts recordings with a model as it is and compares the errors with limits and with what they
    were; fits a calibration again and compares its values with what they were. Exit code 1:
    something is above its limit or has moved.
    """
    from sysid_ros.config import read_yaml

    overrides = overrides_of(settings, namespace)
    is_yaml = file.suffix in ('.yaml', '.yml')
    alone = not bags and not (is_yaml and 'parameters' not in read_yaml(file))
    given = {} if baseline is None else {'baseline': str(baseline)}
    thresholds = _thresholds(file, bags, given, overrides, alone=alone)
    _check_complete(thresholds, str(file), fits=not no_fit, update=update)

    from sysid_ros.cli.console import make_console, print_json, progress_for
    from sysid_ros.cli.outcome import Outcome
    from sysid_ros.files import check_writable, replace_file
    from sysid_ros.pipeline.evaluation import find_parameters, find_predictions
    from sysid_ros.report.tables import junit as as_junit

    for folder in (junit and junit.parent, output, thresholds.baseline if update else None):
        if folder is not None:
            check_writable(folder)
    found = []
    with progress_for(quiet=quiet) as progress:
        if thresholds.model is not None:
            found.append(find_predictions(thresholds, update=update, observer=progress))
        if thresholds.calibration and thresholds.baseline and not no_fit:
            found.append(
                find_parameters(
                    thresholds.calibration,
                    thresholds.baseline,
                    overrides if alone else {},
                    update=update,
                    output=output,
                    command=context.obj,
                    observer=progress,
                )
            )
    outcome = Outcome(
        title=f'Check of {file}',
        passed=all(case.passed for part in found for case in part.cases),
        notes=[note for part in found for note in part.notes],
        cases=[case for part in found for case in part.cases],
        files=[part.write() for part in found] if update else [],
    )
    if junit is not None:
        replace_file(junit, as_junit(outcome.title, outcome.cases))
    if github:
        outcome.tell_github()
    if json:
        print_json(outcome)
    else:
        outcome.show(make_console(), quiet=quiet)
    return 0 if outcome.passed or update else 1


def _thresholds(
    file: Path,
    bags: list[str],
    given: dict[str, str],
    overrides: dict[str, Any],
    *,
    alone: bool,
) -> ThresholdsConfig:
    """Return what is to be checked; alone is a calibration without bags to predict.

    Raises:
        ConfigError: The file is not valid.
    """
    from sysid_ros.config import load_thresholds, make_thresholds

    where = str(file)
    if bags:
        return make_thresholds({'model': where, 'bags': bags, **given}, Path(), overrides, where)
    if alone:
        return make_thresholds({'calibration': where, **given}, Path(), {}, where)
    return load_thresholds(file, {**overrides, **given})


def _check_complete(thresholds: ThresholdsConfig, where: str, *, fits: bool, update: bool) -> None:
    """Refuse what does not say what to check, or with what to compare it.

    Raises:
        ConfigError: It says too little.
    """
    fitted = fits and thresholds.calibration is not None
    if bool(thresholds.model) != bool(thresholds.bags):
        lacking = 'bags, as bags/validate_*,' if thresholds.model else 'a model, as arm.xml,'
        raise ConfigError(f'Expected {lacking} in {where!r}, found none.')
    if thresholds.model is None and not fitted:
        raise ConfigError(
            f'Expected a model and bags to predict, or a calibration to fit, in {where!r}, found '
            'neither.'
        )
    if thresholds.baseline is None and (update or fitted):
        raise ConfigError(
            f'Expected a baseline, the folder of what was found before, in {where!r} or as '
            '--baseline, found none.'
        )


@command('history', _PANEL, 'history', 'history out --use 2026-05-04T10-11-12Z')
def history(
    *,
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar='FOLDER',
            help='folder of results, or calibration.yaml; default calibration.yaml, else out',
        ),
    ] = None,
    use: Annotated[
        str | None,
        typer.Option(
            metavar='NAME', help='let current be this earlier accepted result; nothing is removed'
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Show results over time, or make an earlier one current.

    Says which result is current, and what of the robot changed in between.
    """
    from sysid_ros.config import load_calibration

    if folder is None:
        folder = Path('calibration.yaml')
        folder = folder if folder.is_file() else Path('out')
    output = load_calibration(folder).output if folder.is_file() else folder

    from sysid_ros.cli.console import make_console, print_json
    from sysid_ros.cli.tables import print_history
    from sysid_ros.report.tables import print_parameters
    from sysid_ros.results.comparison import read_history, side_by_side
    from sysid_ros.results.store import use_again

    console = make_console()
    if use is None:
        entries = read_history(output)
        if json:
            print_json(entries)
        else:
            print_history(console, output, entries)
        return 0
    before, now = use_again(output, use)
    found = side_by_side((before.name, now.name), (before.load(), now.load()))
    if json:
        print_json(
            {
                'output': output,
                'current': now.name,
                'before': before.name,
                'results': found.results,
            }
        )
    else:
        print_parameters(console, found)
        console.print(f'{output}/current is {now.name}, after {before.name}')
    return 0
