# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a check finds, beside its baseline; and a new baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from sysid_ros.config import CalibrationConfig, MemoryConfig, ThresholdsConfig, load_calibration
from sysid_ros.errors import ResultError
from sysid_ros.identification.observer import Observer
from sysid_ros.model.stated import stated
from sysid_ros.pipeline.calibration import identify
from sysid_ros.pipeline.evaluation import HORIZON, evaluate
from sysid_ros.pipeline.writing import Identified, write
from sysid_ros.results.case import Case, Place, parameter_cases
from sysid_ros.results.comparison import ComparedQuantity, causes, check_tolerance, compare
from sysid_ros.results.evaluation import Evaluation, differences, judge_evaluation
from sysid_ros.results.headline import in_one_line
from sysid_ros.results.result import CalibrationResult
from sysid_ros.results.store import RESULT, find

#: Name of a stored evaluation in the folder of a baseline, where a result is ``result.json``.
EVALUATION = 'evaluation.json'


class Found(NamedTuple):
    """What was found, and how it compares.

    Attributes:
        made: An evaluation or a result.
        path: Where its baseline is, or will be; None where there is to be none.
        cases: Each thing that was checked; none of a result without baseline.
        notes: What is to be known beside, a sentence each, first of all what changed.
    """

    made: Evaluation | CalibrationResult
    path: Path | None
    cases: tuple[Case, ...]
    notes: tuple[str, ...]

    def write(self) -> Path:
        """Write it as the new baseline, and return where.

        Raises:
            ResultError: There is to be none, or it cannot be written.
        """
        if self.path is None:
            raise ResultError('Expected a baseline, a folder, to write to, found none.')
        made = self.made
        if not isinstance(made, Evaluation):
            # The curves are most of a result, and no baseline needs them.
            made = made.without_curves()
        made.save(self.path)
        return self.path


def find_predictions(
    thresholds: ThresholdsConfig, *, update: bool = False, observer: Observer | None = None
) -> Found:
    """Evaluate the model of a thresholds file and compare it with limits and baseline.

    Args:
        thresholds: With a model and recordings.
        update: Whether a baseline may be absent, as it is to be written.
        observer: Is told of stages.

    Raises:
        SysidError: In one sentence, what is wrong with the model, a recording or a limit.
    """
    path = None if thresholds.baseline is None else thresholds.baseline / EVALUATION
    known = path is not None and _is_there(path, update=update)
    before = Evaluation.load(path) if path is not None and known else None
    made = evaluate(
        thresholds.model or Path(),
        thresholds.bags,
        thresholds,
        horizon=tuple(thresholds.horizon) or HORIZON,
        observer=observer,
    )
    notes = [f'warning: {warning}' for warning in made.warnings]
    if before is not None:
        notes += differences(made, before)
    return Found(made, path, judge_evaluation(made, thresholds, before), tuple(notes))


def find_parameters(
    calibration: Path,
    baseline: Path,
    overrides: dict[str, Any],
    *,
    update: bool = False,
    output: Path | None = None,
    command: str = '',
    observer: Observer | None = None,
) -> Found:
    """Fit a calibration again and compare it with the baseline.

    Args:
        calibration: calibration.yaml.
        baseline: Folder of what was found before, or its ``result.json``.
        overrides: Dotted keys to values that replace the calibration's.
        update: Whether a baseline may be absent, as it is to be written.
        output: Folder for result and report of the fit.
        command: How the user asked for it, for the provenance.
        observer: Is told of stages and iterations.

    Raises:
        SysidError: In one sentence, what is wrong with the calibration.
    """
    config = load_calibration(calibration, overrides)
    path = baseline if baseline.suffix == '.json' else baseline / RESULT
    if baseline.is_dir():
        path = find(baseline)
    cases: tuple[Case, ...] = ()
    notes: tuple[str, ...] = ()
    if _is_there(path, update=update):
        checked = check(config, path, command=command, observer=observer)
        identified, cases, notes = checked.identified, checked.cases, checked.notes
    else:
        config = config.model_copy(update={'memory': MemoryConfig()})
        identified = identify(config, command=command, observer=observer)
    if output is not None:
        write(identified, output)
    return Found(identified.result, path, cases, (*notes, in_one_line(identified.result)))


def _is_there(path: Path, *, update: bool) -> bool:
    """Whether a baseline is there.

    Raises:
        ResultError: It is not, and it is not to be written either.
    """
    if not path.is_file() and not update:
        raise ResultError(f'There is no baseline {str(path)!r}; `sysid check --update` writes it.')
    return path.is_file()


class Checked(NamedTuple):
    """A fit beside a baseline.

    Attributes:
        identified: What was found.
        rows: Each quantity beside the baseline's.
        cases: The same as cases, with places in the model.
        notes: What is another than when the baseline was made, a sentence each.
    """

    identified: Identified
    rows: tuple[ComparedQuantity, ...]
    cases: tuple[Case, ...]
    notes: tuple[str, ...]


def check(
    config: CalibrationConfig,
    baseline: Path,
    *,
    command: str = '',
    observer: Observer | None = None,
) -> Checked:
    """Convert and fit again, and compare with an earlier result; writes nothing.

    Args:
        config: The validated configuration.
        baseline: ``result.json`` of the calibration that is the reference, or a folder of it.
        command: How the user asked for it, for the provenance.
        observer: Is told of stages and iterations.

    Raises:
        SysidError: In one sentence, what is wrong with the input.
    """
    reference = CalibrationResult.load(find(baseline))
    check_tolerance(config.check.tolerance, reference)
    if config.memory.previous == 'auto':
        # The latest result is, or knows the bags of, the one that is to be reproduced.
        config = config.model_copy(update={'memory': MemoryConfig()})
    found = identify(config, command=command, observer=observer)
    rows = compare(found.result, reference, config.check.tolerance, config.check.held_out_factor)
    places = {'': Place(str(config.model), 0)}
    for entry in stated(found.model.description) if found.model is not None else ():
        place = Place(str(entry.file), entry.line)
        places.setdefault(entry.key.rpartition('/')[0], place)
    cases = parameter_cases(rows, found.result, places)
    return Checked(found, rows, cases, tuple(causes(found.result, reference, rows)))
