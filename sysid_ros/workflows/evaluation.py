# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What ``sysid check`` finds: predictions of a model as it is, and a fit again, with a baseline."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np

from sysid_ros.config.files import load_calibration
from sysid_ros.config.schema import (
    BagSelection,
    CalibrationConfig,
    DataConfig,
    MemoryConfig,
    ThresholdsConfig,
)
from sysid_ros.errors import ConfigError, ResultError, how_many, listed, nearest
from sysid_ros.files import files_in, sha256
from sysid_ros.fit.observer import Nobody, Observer
from sysid_ros.fit.residuals import DIVERGED
from sysid_ros.model.description import Stated, changes, stated
from sysid_ros.model.elements import sensor_unit
from sysid_ros.results.checks import counted, headline
from sysid_ros.results.comparison import (
    Case,
    CaseKind,
    Place,
    agreement,
    causes,
    check_tolerance,
    what_changed,
)
from sysid_ros.results.result import (
    RESULT,
    ROUNDING,
    CalibrationResult,
    Document,
    EstimatorKind,
    Frozen,
    MaybeFloat,
)
from sysid_ros.results.store import find
from sysid_ros.results.summary import versions_now
from sysid_ros.workflows.calibrate import identify
from sysid_ros.workflows.estimators import driven
from sysid_ros.workflows.predicting import Forecaster, Known, forecaster, known_problem
from sysid_ros.workflows.predictions import residuals_of, rms
from sysid_ros.workflows.problem import CalibrationBag, Problem, bags_of
from sysid_ros.workflows.validation import horizon_errors
from sysid_ros.workflows.writing import write

#: Name of a stored evaluation in the folder of a baseline, where a result is ``result.json``.
EVALUATION = 'evaluation.json'
#: Seconds after measured states at which errors are given unless told otherwise.
_HORIZON = (0.2, 1.0)


class PredictionError(Frozen):
    """Root mean square error of one sensor in one recording, in the sensor's unit."""

    bag: str
    sensor: str
    unit: str
    subject: str  # what the sensor measures, as ``joint/elbow``
    error: MaybeFloat  # NaN where the simulation became unstable
    seconds: float | None = None  # after measured states; None for the whole recording

    @property
    def name(self) -> str:
        """Whose error it is, over what."""
        over = 'whole recording' if self.seconds is None else f'{self.seconds:g} s ahead'
        return f'{self.sensor}, {over}'


class ModelValue(Frozen):
    """What the model says of one attribute or parameter, and where."""

    key: str
    value: str
    file: Path
    line: int  # 0 where no line of the file holds it


class Evaluation(Document):
    """How well a model as it is predicts recordings; nothing was fitted."""

    schema_version: int = 2
    model: str
    values: tuple[ModelValue, ...]
    bags: dict[str, str]  # SHA-256 of each recording
    errors: tuple[PredictionError, ...]
    versions: dict[str, str]  # of the software
    warnings: tuple[str, ...] = ()  # on model and recordings, a sentence each


def evaluate(
    model: Path,
    bags: Sequence[str],
    data: DataConfig | None = None,
    *,
    horizon: Sequence[float] = _HORIZON,
    observer: Observer | None = None,
) -> Evaluation:
    """Predict recordings with a model as it is, and return its errors.

    Args:
        model: MJCF, URDF or xacro file; or a ``result.json``, its folder or a calibration.yaml:
            then its model with all that was identified, compared as its calibration did.
        bags: Recordings, folders or patterns.
        data: How recordings are read and compared, where not as that result or calibration has it.
        horizon: Seconds after measured states at which errors of positions are given as well.
        observer: Is told of stages.
    """
    observer = observer or Nobody()
    forecast = forecaster(model)
    forecast = forecast._replace(config=_config(forecast, bags, data or DataConfig()))
    known = known_problem(forecast, observer)
    observer.stage(f'predicting {how_many(known.recorded.recordings, "recording")}')
    whole_runs = known.seen.kind is not EstimatorKind.WINDOWS
    errors: list[PredictionError] = []
    hashes: dict[str, str] = {}
    for place, recording in enumerate(known.seen.problem.recordings):
        if whole_runs:
            errors += _whole(known, recording)
        errors += _ahead(known, place, horizon)
        content = ''.join(map(sha256, files_in(recording.path)))
        hashes[recording.alignment.bag] = hashlib.sha256(content.encode()).hexdigest()
    if not errors:
        names = listed(hashes)
        raise ConfigError(f'Expected measurements of what the model senses in {names}, found none.')
    fitted = () if forecast.result is None else forecast.result.parameters
    return Evaluation(
        model=str(model),
        values=(
            *stated(known.recorded.source.description),
            *(ModelValue(key=p.name, value=repr(p.value), file=model, line=0) for p in fitted),
        ),
        bags=hashes,
        errors=tuple(errors),
        versions=versions_now(),
        warnings=tuple(_warnings(known.recorded)),
    )


def _warnings(problem: Problem) -> Iterator[str]:
    """Yield what bends all errors, a sentence each."""
    yield from problem.notes
    for recording in problem.recordings:
        if not recording.alignment.sequences:
            yield f'Bag {recording.path.name!r} holds no usable sequence.'
        if recording.idle_actuators:
            yield f'Bag {recording.idle_actuators}; `sysid map` proposes what is what.'


def _config(forecast: Forecaster, bags: Sequence[str], data: DataConfig) -> CalibrationConfig:
    """Return how recordings are read: as what predicts has it, but for what was said.

    What is said of segments of other recordings is left aside.
    """
    said = DataConfig.model_fields.keys() & data.model_fields_set
    given = {key: getattr(data, key) for key in said}
    selected = tuple(BagSelection(path=bag) for bag in bags)
    config = forecast.config.model_copy(update={**given, 'bags': selected})
    names = [path.name for path, _ in bags_of(config)]
    kept = {
        key: {
            pattern: ranges
            for pattern, ranges in own.items()
            if any(fnmatch.fnmatchcase(name, pattern) for name in names)
        }
        for key in ('times', 'without')
        if isinstance(own := getattr(config.segments, key), dict)
    }
    return config.model_copy(update={'segments': config.segments.model_copy(update=kept)})


def _whole(known: Known, recording: CalibrationBag) -> Iterator[PredictionError]:
    """Yield the errors over whole recordings; NaN where a simulation becomes unstable."""
    model, sequences = known.seen.problem.model, recording.alignment.sequences
    names = {name for s in sequences for series in s.measurements for name in series.names}
    found = residuals_of(known.predictor, sequences, dict.fromkeys(names, 1.0))
    for sensor in sorted(names):
        parts = [own[sensor] for own in found if len(own.get(sensor, ()))]
        if parts:
            diverged = any(np.all(part == DIVERGED) for part in parts)
            yield PredictionError(
                bag=recording.alignment.bag,
                sensor=sensor,
                unit=sensor_unit(model, sensor),
                subject=_measured(model, sensor),
                error=math.nan if diverged else rms([{sensor: part} for part in parts]),
            )


def _ahead(known: Known, place: int, horizon: Sequence[float]) -> Iterator[PredictionError]:
    """Yield the errors of positions so many seconds after measured states."""
    recorded = known.recorded
    if known.seen.kind is EstimatorKind.TORQUE:
        recorded = driven(recorded)
    one = dataclasses.replace(recorded, recordings=(recorded.recordings[place],))
    positions = {
        recorded.model.sensor(row).name: 1.0
        for row in np.flatnonzero(recorded.model.sensor_type == mujoco.mjtSensor.mjSENS_JOINTPOS)
    }
    predictor = known.predictor._replace(model=recorded.spec)
    for point in horizon_errors(one, predictor, positions, horizon):
        for joint in point.joints:
            yield PredictionError(
                bag=recorded.recordings[place].alignment.bag,
                sensor=joint.sensor,
                unit=joint.unit,
                subject=_measured(recorded.model, joint.sensor),
                error=joint.after,
                seconds=point.seconds,
            )


def _measured(model: mujoco.MjModel, sensor: str) -> str:
    """Return what a sensor is attached to, as ``joint/elbow``; its own name where that is none."""
    found = model.sensor(sensor)
    kind = mujoco.mjtObj(int(found.objtype[0]))
    name = mujoco.mj_id2name(model, kind, int(found.objid[0]))
    element = mujoco.mju_type2Str(kind) or ''
    return f'{element}/{name}' if name and element else f'sensor/{sensor}'


# Errors and their limits


def judge_evaluation(
    found: Evaluation, thresholds: ThresholdsConfig, baseline: Evaluation | None = None
) -> tuple[Case, ...]:
    """Compare the errors of a model with limits, and with what they were.

    An error is right when it is below the least of its limits: those whose pattern its sensor
    matches, and ``growth`` times what it was for the same recording. A model is right when it
    states what it did.
    """
    cases = [] if baseline is None else list(_model_cases(found, baseline))
    changed = [case for case in cases if not case.passed]
    blame = f'; the model has another {listed(c.name for c in changed)}' if changed else ''
    before = {(e.bag, e.name): e.error for e in (baseline.errors if baseline else ())}
    places = _places(Path(found.model), found.values)
    own_limits: dict[float | None, dict[str, float]] = {None: thresholds.limits}
    own_limits.update(thresholds.horizon.items())
    for seconds, limits in own_limits.items():
        sensors = sorted({entry.sensor for entry in found.errors if entry.seconds == seconds})
        for pattern in limits:
            if not fnmatch.filter(sensors, pattern):
                where = 'limits' if seconds is None else f'horizon {seconds:g}'
                raise ConfigError(
                    f'The limit for {pattern!r} in {where} is for no error; '
                    f'{nearest(pattern, sensors)}.'
                )
    whole = [entry for entry in found.errors if entry.seconds is None]
    for bag in dict.fromkeys(entry.bag for entry in whole if math.isnan(entry.error)):
        sentence = f'the simulation becomes unstable{blame}'
        cases.append(Case(CaseKind.ERROR, 'simulation', bag, passed=False, sentence=sentence))
    for entry in found.errors:
        own = own_limits.get(entry.seconds, {})
        most = [own[pattern] for pattern in own if fnmatch.fnmatchcase(entry.sensor, pattern)]
        old = before.get((entry.bag, entry.name), math.nan)
        if not math.isnan(old):
            most.append(thresholds.growth * old * (1 + ROUNDING))
        limit = min(most, default=math.inf)
        passed = entry.error <= limit or limit == math.inf
        cases.append(
            Case(
                CaseKind.ERROR,
                entry.name,
                entry.bag,
                value=entry.error,
                unit=entry.unit,
                baseline=old,
                limit=limit,
                passed=passed,
                sentence='' if passed else f'error above its limit{blame}',
                place=changed[0].place if changed else places.get(entry.subject, places['']),
            )
        )
    return tuple(cases)


def _places(model: Path, values: Iterable[Stated | ModelValue]) -> dict[str, Place]:
    """Return where a model has an element, by the beginning of a key; by an empty one its file."""
    places = {'': Place(str(model), 0)}
    for value in values:
        places.setdefault(value.key.rpartition('/')[0], Place(str(value.file), value.line))
    return places


def _model_cases(found: Evaluation, baseline: Evaluation) -> Iterator[Case]:
    """Yield a failed case for each attribute that a model states otherwise; or one for all."""
    now = {entry.key: entry for entry in found.values}
    changed = list(
        changes(
            {entry.key: entry.value for entry in baseline.values},
            {key: entry.value for key, entry in now.items()},
        )
    )
    for key, old, new in changed:
        at = now.get(key)
        place = Place(found.model, 0) if at is None else Place(str(at.file), at.line)
        sentence = f'is {new}, was not there' if new else f'was {old}, is gone'
        if old and new:
            sentence = f'is {new}, was {old}'
            with contextlib.suppress(ValueError, ZeroDivisionError):
                sentence += f' ({100 * (float(new) / float(old) - 1):+.3g} %)'
        yield Case(CaseKind.MODEL, key, passed=False, sentence=sentence, place=place)
    if not changed:
        yield Case(CaseKind.MODEL, 'all numbers', place=Place(found.model, 0))


def differences(found: Evaluation, baseline: Evaluation, cases: Sequence[Case]) -> Iterator[str]:
    """Say, a sentence each, what is another than when a baseline was made."""
    models = [case for case in cases if case.kind is CaseKind.MODEL and not case.passed]
    return what_changed(
        [f'{case.name} {case.sentence}' for case in models],
        (found.bags, baseline.bags),
        (found.versions, baseline.versions),
        cases,
    )


# With a baseline


class Found(NamedTuple):
    """An evaluation or a result, and how it compares with its baseline."""

    made: Evaluation | CalibrationResult
    path: Path | None  # of the baseline, or where it will be; None where there is to be none
    cases: tuple[Case, ...]
    notes: tuple[str, ...]  # beside the cases, a sentence each, first of all what changed

    def write(self) -> Path:
        """Write it as the new baseline, and return where."""
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

    A baseline may be absent with ``update``, as it is to be written.
    """
    path = None if thresholds.baseline is None else thresholds.baseline / EVALUATION
    before = Evaluation.load(path) if path and _is_there(path, update=update) else None
    model, horizon = thresholds.model or Path(), tuple(thresholds.horizon) or _HORIZON
    made = evaluate(model, thresholds.bags, thresholds, horizon=horizon, observer=observer)
    cases = judge_evaluation(made, thresholds, before)
    notes = [f'warning: {warning}' for warning in made.warnings]
    if before is not None:
        notes += differences(made, before, cases)
    return Found(made, path, cases, tuple(notes))


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
    """Fit a calibration.yaml again and compare it with the baseline, a folder or its result.json.

    A baseline may be absent with ``update``, as it is to be written. Result and report of the fit
    go to ``output``, if anywhere; ``command`` is for the provenance.
    """
    config = load_calibration(calibration, overrides)
    path = baseline if baseline.suffix == '.json' else baseline / RESULT
    if baseline.is_dir():
        path = find(baseline)
    before = CalibrationResult.load(path) if _is_there(path, update=update) else None
    if before is not None:
        check_tolerance(config.check.tolerance, before)
    if before is None or config.memory.previous == 'auto':
        # The latest result is, or knows the bags of, the one that is to be reproduced.
        config = config.model_copy(update={'memory': MemoryConfig()})
    identified = identify(config, command=command, observer=observer)
    result = identified.result
    if output is not None:
        write(identified, output)
    notes = [
        ' '.join((counted(result), f'This fit is {result.standing}.', *headline(result).lines))
    ]
    cases: tuple[Case, ...] = ()
    if before is not None:
        model = identified.model
        places = _places(config.model, stated(model.description) if model else ())
        tolerance, factor = config.check.tolerance, config.check.held_out_factor
        cases = agreement(result, before, tolerance, factor, places)
        notes = [*causes(result, before, cases), *notes]
    return Found(result, path, cases, tuple(notes))


def _is_there(path: Path, *, update: bool) -> bool:
    """Whether a baseline is there; it has to be where it is not to be written."""
    if not path.is_file() and not update:
        raise ResultError(f'There is no baseline {str(path)!r}; `sysid check --update` writes it.')
    return path.is_file()
