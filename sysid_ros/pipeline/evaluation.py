# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Predict recordings with a model as it is: no fit, seconds."""

from __future__ import annotations

import dataclasses
import fnmatch
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sysid_ros.config import BagSelection, CalibrationConfig, DataConfig, validate
from sysid_ros.errors import ConfigError
from sysid_ros.files import sha256
from sysid_ros.identification.observer import Nobody
from sysid_ros.model.stated import stated
from sysid_ros.model.targets import of_sequence
from sysid_ros.model.units import sensor_unit
from sysid_ros.pipeline.estimators import driven, estimated, with_motors
from sysid_ros.pipeline.loading import bags_of, load
from sysid_ros.pipeline.validation import DIVERGED, Predictor, horizon_errors, residuals_of
from sysid_ros.results.evaluation import (
    EvaluatedBag,
    Evaluation,
    ModelValue,
    PredictionError,
)
from sysid_ros.results.result import CalibrationResult, EstimatorKind
from sysid_ros.results.store import find
from sysid_ros.results.summary import versions_now

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sysid_ros.config import ThresholdsConfig
    from sysid_ros.identification.observer import Observer
    from sysid_ros.pipeline.estimators import Estimated
    from sysid_ros.pipeline.loading import CalibrationBag, Problem
    from sysid_ros.results.result import HorizonJoint

#: Seconds ahead at which errors are given unless told otherwise.
HORIZON = (0.2, 1.0)


class _Subject(NamedTuple):
    """What is evaluated: how to read it and its recordings, and values of what is in no file."""

    config: CalibrationConfig
    values: dict[str, float]
    file: str


def evaluate(
    model: Path,
    bags: Sequence[str],
    data: DataConfig | None = None,
    *,
    horizon: Sequence[float] = HORIZON,
    observer: Observer | None = None,
) -> Evaluation:
    """Predict recordings with a model as it is, and return its errors.

    Args:
        model: MJCF, URDF or xacro file, or a ``result.json`` or the folder of one: then its model
            with all that was identified, read and compared as its calibration did.
        bags: Recordings, folders or patterns.
        data: How recordings are read and compared; what it does not set is as for the result.
        horizon: Seconds after measured states at which errors of positions are given as well.
        observer: Is told of stages.

    Raises:
        SysidError: In one sentence, what is wrong with the model or a recording.
    """
    observer = observer or Nobody()
    subject = _subject(model, bags, data or DataConfig())
    config = _with_segments_of(subject.config)
    problem = load(config, observer)
    seen = estimated(config, problem)
    x = np.array([subject.values[parameter.name] for parameter in problem.parameters])
    fitted = Predictor(
        seen.problem.spec, seen.problem.parameters, x, config.solver.threads, problem.servos
    )
    if not problem.parameters:
        fitted = fitted._replace(model=seen.problem.model, values=None)
    observer.stage(f'predicting {len(problem.recordings)} recordings')
    errors, told = [], []
    for place, recording in enumerate(seen.problem.recordings):
        name = recording.alignment.bag
        whole = list(_whole(seen, fitted, recording)) if config.estimator != 'windows' else []
        diverged = any(np.isnan(entry.error) for entry in whole)
        errors += [*whole, *_ahead(seen, problem, fitted, place, horizon)]
        told.append(EvaluatedBag(name=name, sha256=_hash(recording), diverged=diverged))
    if not errors:
        names = ', '.join(bag.name for bag in told)
        msg = f'Expected measurements of what the model senses in {names}, found none.'
        raise ConfigError(msg)
    values = [
        ModelValue(key=entry.key, value=entry.value, file=str(entry.file), line=entry.line)
        for entry in stated(problem.source.description)
    ]
    values += [
        ModelValue(key=name, value=repr(value), file=subject.file, line=0)
        for name, value in subject.values.items()
    ]
    return Evaluation(
        model=subject.file,
        values=tuple(values),
        bags=tuple(told),
        errors=tuple(errors),
        versions=versions_now(),
    )


def evaluate_model(thresholds: ThresholdsConfig, *, observer: Observer | None = None) -> Evaluation:
    """Evaluate the model of a thresholds file; see `evaluate`."""
    return evaluate(
        thresholds.model or Path(),
        thresholds.bags,
        thresholds,
        horizon=tuple(thresholds.horizon) or HORIZON,
        observer=observer,
    )


def _subject(model: Path, bags: Sequence[str], data: DataConfig) -> _Subject:
    """Return what a path stands for, with the recordings in the place of those it was fitted to."""
    selected = tuple(BagSelection(path=bag) for bag in bags)
    asked = {key: getattr(data, key) for key in DataConfig.model_fields}
    stored = find(model)
    if stored.suffix != '.json' or not (stored.is_file() or stored == model):
        config = CalibrationConfig.model_construct(
            None, **{**asked, 'model': model, 'bags': selected}
        )
        return _Subject(config, {}, str(model))
    result = CalibrationResult.load(stored)
    config = validate(CalibrationConfig, dict(result.provenance.config), str(stored))
    parameters = tuple(entry for entry in config.parameters if not of_sequence(entry.target))
    given = {key: value for key, value in asked.items() if key in data.model_fields_set}
    config = config.model_copy(update={**given, 'bags': selected, 'parameters': parameters})
    values = {
        entry.name: entry.value
        for entry in result.parameters
        if not all(of_sequence(target) for target in entry.targets)
    }
    if result.solver.window is not None:
        config = config.model_copy(update={'estimator': 'windows'})
    return _Subject(config, values, str(stored))


def _with_segments_of(config: CalibrationConfig) -> CalibrationConfig:
    """Leave aside what is said of segments of other recordings than those of a configuration."""
    names = [path.name for path, _ in bags_of(config)]
    kept = {
        key: {
            pattern: ranges
            for pattern, ranges in said.items()
            if any(fnmatch.fnmatchcase(name, pattern) for name in names)
        }
        for key in ('times', 'without')
        if isinstance(said := getattr(config.segments, key), dict)
    }
    return config.model_copy(update={'segments': config.segments.model_copy(update=kept)})


def _whole(
    seen: Estimated, predictor: Predictor, recording: CalibrationBag
) -> Iterator[PredictionError]:
    """Yield the errors over whole recordings; NaN where a simulation becomes unstable."""
    model, sequences = seen.problem.model, recording.alignment.sequences
    names = {name for s in sequences for series in s.measurements for name in series.names}
    units = {name: sensor_unit(model, name) for name in sorted(names)}
    found = residuals_of(predictor, sequences, dict.fromkeys(units, 1.0))
    for sensor, unit in units.items():
        parts = [own[sensor] for own in found if sensor in own]
        residuals = np.concatenate(parts) if parts else np.zeros(0)
        if len(residuals):
            diverged = any(len(part) and np.all(part == DIVERGED) for part in parts)
            yield PredictionError(
                bag=recording.alignment.bag,
                sensor=sensor,
                unit=unit,
                subject=_measured(model, sensor),
                error=float('nan') if diverged else float(np.sqrt(np.mean(residuals**2))),
            )


def _ahead(
    seen: Estimated, problem: Problem, predictor: Predictor, place: int, horizon: Sequence[float]
) -> Iterator[PredictionError]:
    """Yield the errors of positions so many seconds after measured states."""
    recorded = driven(with_motors(problem)) if seen.kind is EstimatorKind.TORQUE else problem
    one = dataclasses.replace(recorded, recordings=(recorded.recordings[place],))
    positions = {
        recorded.model.sensor(row).name: 1.0
        for row in np.flatnonzero(recorded.model.sensor_type == mujoco.mjtSensor.mjSENS_JOINTPOS)
    }
    made_of = recorded.spec if predictor.parameters else recorded.model
    fitted = predictor._replace(model=made_of)
    for point in horizon_errors(one, fitted, positions, horizon):
        for joint in point.joints:
            yield _of_joint(one, joint, point.seconds)


def _of_joint(problem: Problem, joint: HorizonJoint, seconds: float) -> PredictionError:
    (recording,) = problem.recordings
    return PredictionError(
        bag=recording.alignment.bag,
        sensor=joint.sensor,
        unit=joint.unit,
        subject=_measured(problem.model, joint.sensor),
        error=joint.after,
        seconds=seconds,
        coasting=joint.coasting,
    )


def _measured(model: mujoco.MjModel, sensor: str) -> str:
    """Return what a sensor is attached to, as ``joint/elbow``; its own name where that is none."""
    found = model.sensor(sensor)
    kind = mujoco.mjtObj(int(found.objtype[0]))
    name = mujoco.mj_id2name(model, kind, int(found.objid[0]))
    element = mujoco.mju_type2Str(kind) or ''
    return f'{element}/{name}' if name and element else f'sensor/{sensor}'


def _hash(recording: CalibrationBag) -> str:
    """Return a SHA-256 of the files of a recording."""
    digest = hashlib.sha256()
    for path in recording.files:
        digest.update(sha256(path).encode())
    return digest.hexdigest()
