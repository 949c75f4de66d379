# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Commands that judge and use results: compare, check, history, export, predict, fleet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sysid_ros.cli.app import (
    FIT,
    JUDGE,
    USE,
    Bag,
    Json,
    Namespace,
    Packages,
    Quiet,
    Settings,
    command,
    overrides_of,
    several,
    written,
)
from sysid_ros.errors import ConfigError

if TYPE_CHECKING:
    from sysid_ros.config.schema import ThresholdsConfig


@command(
    'compare',
    FIT,
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

    from sysid_ros.config.files import load_calibration

    configs = [load_calibration(path, overrides) for path in paths]

    from sysid_ros.cli.console import make_console, print_json, progress_for
    from sysid_ros.cli.tables import print_models, recommendation
    from sysid_ros.workflows.compare import Candidate, compare_models

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


@command(
    'check',
    JUDGE,
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
        Path | None, written('DIR', 'for result and report of the fit; default none')
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
    from sysid_ros.config.files import read_yaml

    overrides = overrides_of(settings, namespace)
    is_yaml = file.suffix in ('.yaml', '.yml')
    alone = not bags and not (is_yaml and 'parameters' not in read_yaml(file))
    given = {} if baseline is None else {'baseline': str(baseline)}
    thresholds = _thresholds(file, bags, given, overrides, alone=alone)
    _check_complete(thresholds, str(file), fits=not no_fit, update=update)

    from sysid_ros.cli.console import make_console, print_json, progress_for
    from sysid_ros.cli.tables import Outcome
    from sysid_ros.files import check_writable, replace_file
    from sysid_ros.report.tables import junit as as_junit
    from sysid_ros.workflows.evaluation import find_parameters, find_predictions

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
    file: Path, bags: list[str], given: dict[str, str], overrides: dict[str, Any], *, alone: bool
) -> ThresholdsConfig:
    """Return what is to be checked; alone is a calibration without bags to predict."""
    from sysid_ros.config.files import load_thresholds, make_thresholds

    where = str(file)
    if bags:
        return make_thresholds({'model': where, 'bags': bags, **given}, Path(), overrides, where)
    if alone:
        return make_thresholds({'calibration': where, **given}, Path(), {}, where)
    return load_thresholds(file, {**overrides, **given})


def _check_complete(thresholds: ThresholdsConfig, where: str, *, fits: bool, update: bool) -> None:
    """Refuse what does not say what to check, or with what to compare it."""
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


@command('history', JUDGE, 'history', 'history out --use 2026-05-04T10-11-12Z')
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
    from sysid_ros.config.files import load_calibration

    if folder is None:
        folder = Path('calibration.yaml')
        folder = folder if folder.is_file() else Path('out')
    output = load_calibration(folder).output if folder.is_file() else folder

    from sysid_ros.cli.console import make_console, print_json
    from sysid_ros.report.tables import print_parameters, print_table
    from sysid_ros.results.comparison import read_history, side_by_side
    from sysid_ros.results.store import use_again

    console = make_console()
    if use is None:
        entries = read_history(output)
        if json:
            print_json(entries)
            return 0
        columns = ('folder', 'standing', 'error', '>identified', 'changed since', '')
        rows = [
            (
                entry.name,
                entry.standing,
                entry.error,
                f'{entry.identified} of {len(entry.parameters)}',
                entry.sentence,
                'current' if entry.current else '',
            )
            for entry in entries
        ]
        print_table(console, f'Results in {output}', columns, rows)
        return 0
    before, now = use_again(output, use)
    found = side_by_side((before.name, now.name), (before.load(), now.load()))
    if json:
        print_json(
            {'output': output, 'current': now.name, 'before': before.name, 'results': found.results}
        )
    else:
        print_parameters(console, found)
        console.print(f'{output}/current is {now.name}, after {before.name}')
    return 0


@command(
    'export',
    USE,
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
    output: Annotated[Path, written('PATH', 'new file; for mjcf a new folder')],
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
    from sysid_ros.workflows.export import ExportFormat, export

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
    USE,
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
    from sysid_ros.workflows.predicting import forecaster, write_prediction

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
        say(f'the simulation of {name} diverges')
    say(f'wrote {output}: {messages} messages, of them {", ".join(topics)}')
    return 0


@command(
    'fleet',
    USE,
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
    output: Annotated[Path | None, written('DIR', "for results; default the file's")] = None,
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
    from sysid_ros.workflows.fleet import FLEET, calibrate_fleet

    with progress_for(quiet=quiet) as progress:
        result = calibrate_fleet(
            loaded, scheduler=scheduler, workers=workers, command=context.obj, observer=progress
        )
    if json:
        print_json(result)
    else:
        console = make_console()
        if not quiet:
            print_fleet(console, result)
        print_paths(console, {'fleet': loaded.output / FLEET})
    return 0 if result.complete else 1
