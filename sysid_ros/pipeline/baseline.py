# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a thresholds file asks for, beside its baseline; and a new baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sysid_ros.config import MemoryConfig, load_calibration
from sysid_ros.errors import ResultError
from sysid_ros.pipeline.calibration import check, identify
from sysid_ros.pipeline.evaluation import evaluate_model
from sysid_ros.results.evaluation import Evaluation, differences, judge_evaluation
from sysid_ros.results.store import RESULT

if TYPE_CHECKING:
    from pathlib import Path

    from sysid_ros.config import ThresholdsConfig
    from sysid_ros.identification.observer import Observer
    from sysid_ros.results.case import Case
    from sysid_ros.results.result import CalibrationResult

#: Name of a stored evaluation in the folder of a baseline, where a result is ``result.json``.
EVALUATION = 'evaluation.json'


class Found(NamedTuple):
    """What was found, and how it compares.

    Attributes:
        made: An evaluation or a result.
        path: Where its baseline is, or will be; None where there is to be none.
        cases: Each thing that was checked; none of a result without baseline.
        notes: What is another than when the baseline was made, a sentence each.
        known: Whether there is a baseline.
    """

    made: Evaluation | CalibrationResult
    path: Path | None
    cases: tuple[Case, ...]
    notes: tuple[str, ...]
    known: bool

    def write(self) -> Path:
        """Write it as the new baseline, and return where.

        Raises:
            ResultError: The thresholds name no baseline, or it cannot be written.
        """
        if self.path is None:
            msg = 'Expected the key baseline, a folder, in the thresholds file, found none.'
            raise ResultError(msg)
        made = self.made
        if not isinstance(made, Evaluation):
            # The curves are most of a result, and no baseline needs them.
            made = made.without_curves()
        made.save(self.path)
        return self.path


def find_predictions(thresholds: ThresholdsConfig, *, observer: Observer | None = None) -> Found:
    """Evaluate the model of a thresholds file and compare it with limits and baseline.

    Args:
        thresholds: With a model and recordings.
        observer: Is told of stages.

    Raises:
        SysidError: In one sentence, what is wrong with the model, a recording or a limit.
    """
    path = None if thresholds.baseline is None else thresholds.baseline / EVALUATION
    before = Evaluation.load(path) if path is not None and path.is_file() else None
    made = evaluate_model(thresholds, observer=observer)
    notes: tuple[str, ...] = ()
    if before is not None:
        notes = tuple(differences(made, before))
    elif path is not None:
        notes = (f'There is no baseline {str(path)!r} yet; `sysid baseline update` writes it.',)
    cases = judge_evaluation(made, thresholds, before)
    return Found(made, path, cases, notes, before is not None)


def find_parameters(
    thresholds: ThresholdsConfig,
    calibration: Path,
    *,
    command: str = '',
    observer: Observer | None = None,
) -> Found:
    """Fit the calibration of a thresholds file again and compare it with the baseline.

    Args:
        thresholds: What is asked for.
        calibration: Its calibration.yaml.
        command: How the user asked for it, for the provenance.
        observer: Is told of stages and iterations.

    Raises:
        SysidError: In one sentence, what is wrong with the calibration.
    """
    config = load_calibration(calibration)
    path = None if thresholds.baseline is None else thresholds.baseline / RESULT
    if path is not None and path.is_file():
        checked = check(config, path, command=command, observer=observer)
        return Found(checked.identified.result, path, checked.cases, checked.notes, known=True)
    config = config.model_copy(update={'memory': MemoryConfig()})
    made = identify(config, command=command, observer=observer).result
    note = f'There is no baseline {str(path or RESULT)!r} yet; `sysid baseline update` writes it.'
    return Found(made, path, (), (note,), known=False)
