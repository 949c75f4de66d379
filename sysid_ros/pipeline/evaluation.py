# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Predict recordings with a model as it is: no fit, seconds."""

from __future__ import annotations

import dataclasses
import fnmatch
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import mujoco
import numpy as np

from sysid_ros.config import BagSelection, CalibrationConfig, DataConfig
from sysid_ros.errors import ConfigError, how_many
from sysid_ros.files import files_in, sha256
from sysid_ros.identification.observer import Nobody, Observer
from sysid_ros.model.stated import stated
from sysid_ros.model.units import sensor_unit
from sysid_ros.pipeline.estimators import driven, with_motors
from sysid_ros.pipeline.forecast import Forecaster, Known, forecaster, known_problem
from sysid_ros.pipeline.problem import CalibrationBag, Problem, bags_of
from sysid_ros.pipeline.validation import DIVERGED, horizon_errors, residuals_of
from sysid_ros.results.evaluation import (
    EvaluatedBag,
    Evaluation,
    ModelValue,
    PredictionError,
)
from sysid_ros.results.result import EstimatorKind, HorizonJoint
from sysid_ros.results.summary import versions_now

#: Seconds after measured states at which errors are given unless told otherwise.
HORIZON = (0.2, 1.0)


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
        model: MJCF, URDF or xacro file; or a ``result.json``, its folder or a calibration.yaml:
            then its model with all that was identified, compared as its calibration did.
        bags: Recordings, folders or patterns.
        data: How recordings are read and compared; what it does not set is as the result or
            calibration.yaml has it.
        horizon: Seconds after measured states at which errors of positions are given as well.
        observer: Is told of stages.

    Raises:
        SysidError: In one sentence, what is wrong with the model or a recording.
    """
    observer = observer or Nobody()
    forecast = forecaster(model)
    forecast = forecast._replace(config=_config(forecast, bags, data or DataConfig()))
    known = known_problem(forecast, observer)
    observer.stage(f'predicting {how_many(known.recorded.recordings, "recording")}')
    whole_runs = known.seen.kind is not EstimatorKind.WINDOWS
    errors, told = [], []
    for place, recording in enumerate(known.seen.problem.recordings):
        whole = list(_whole(known, recording)) if whole_runs else []
        errors += [*whole, *_ahead(known, place, horizon)]
        told.append(
            EvaluatedBag(
                name=recording.alignment.bag,
                sha256=_hash(recording),
                diverged=any(np.isnan(entry.error) for entry in whole),
            )
        )
    if not errors:
        names = ', '.join(bag.name for bag in told)
        raise ConfigError(f'Expected measurements of what the model senses in {names}, found none.')
    values = [
        ModelValue(key=entry.key, value=entry.value, file=str(entry.file), line=entry.line)
        for entry in stated(known.recorded.source.description)
    ]
    if forecast.result is not None:
        values += [
            ModelValue(key=entry.name, value=repr(entry.value), file=str(model), line=0)
            for entry in forecast.result.parameters
        ]
    return Evaluation(
        model=str(model),
        values=tuple(values),
        bags=tuple(told),
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
    """Return how recordings are read: as what predicts has it, but for what was said."""
    said = DataConfig.model_fields.keys() & data.model_fields_set
    given = {key: getattr(data, key) for key in said}
    selected = tuple(BagSelection(path=bag) for bag in bags)
    return _with_segments_of(forecast.config.model_copy(update={**given, 'bags': selected}))


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


def _whole(known: Known, recording: CalibrationBag) -> Iterator[PredictionError]:
    """Yield the errors over whole recordings; NaN where a simulation becomes unstable."""
    model, sequences = known.seen.problem.model, recording.alignment.sequences
    names = {name for s in sequences for series in s.measurements for name in series.names}
    units = {name: sensor_unit(model, name) for name in sorted(names)}
    found = residuals_of(known.predictor, sequences, dict.fromkeys(units, 1.0))
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


def _ahead(known: Known, place: int, horizon: Sequence[float]) -> Iterator[PredictionError]:
    """Yield the errors of positions so many seconds after measured states."""
    recorded = known.recorded
    if known.seen.kind is EstimatorKind.TORQUE:
        recorded = driven(with_motors(recorded))
    one = dataclasses.replace(recorded, recordings=(recorded.recordings[place],))
    positions = {
        recorded.model.sensor(row).name: 1.0
        for row in np.flatnonzero(recorded.model.sensor_type == mujoco.mjtSensor.mjSENS_JOINTPOS)
    }
    predictor = known.predictor._replace(model=recorded.spec)
    for point in horizon_errors(one, predictor, positions, horizon):
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
    for path in files_in(recording.path):
        digest.update(sha256(path).encode())
    return digest.hexdigest()
