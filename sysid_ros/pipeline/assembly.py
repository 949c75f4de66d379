# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Put what a calibration found into one result: findings, warnings, curves and provenance."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.health import FindingKind, HealthFinding, spans_of
from sysid_ros.alignment.pairs import command_quantity
from sysid_ros.config import CalibrationConfig
from sysid_ros.errors import listed
from sysid_ros.estimation.nuisances import FARTHEST
from sysid_ros.files import files_in, sha256
from sysid_ros.identification.fit import Fit
from sysid_ros.inference.covariance import QUANTILE
from sysid_ros.model.implied import implied_actuators
from sysid_ros.model.joints import driven_joint, position_joint
from sysid_ros.model.units import sensor_unit
from sysid_ros.pipeline.estimators import Estimated, by_windows
from sysid_ros.pipeline.fitting import Fitted
from sysid_ros.pipeline.memory import Remembered
from sysid_ros.pipeline.predictions import Predictions, deviations
from sysid_ros.pipeline.problem import CalibrationBag, unlike_stamps
from sysid_ros.results.checks import judge
from sysid_ros.results.diagnostics import SignalCurve
from sysid_ros.results.links import base_parameters
from sysid_ros.results.result import (
    CalibrationResult,
    EstimatorKind,
    FileHash,
    Provenance,
    RecordedBag,
    RecordedSequence,
)
from sysid_ros.results.summary import Validation, provenance_now, summarise, tool_errors
from sysid_ros.signals.timeseries import Method, TimeSeries
from sysid_ros.signals.trajectory import Trajectory
from sysid_ros.vocabulary import SECOND_NS, Quantity

Values = NDArray[np.float64]

#: Ends of several starts whose costs differ by more than this part are different optima.
_SAME_COST = 1e-3
#: An error of arrival of more than this part of the largest is at the limit.
_AT_LIMIT = 0.99


def assemble(  # noqa: PLR0913 (what a result is made of)
    config: CalibrationConfig,
    command: str,
    seen: Estimated,
    fitted: Fitted,
    table: Predictions,
    *,
    timestep_change: float = 0.0,
    validation: Validation | None = None,
    remembered: Remembered | None = None,
    warnings: Sequence[str] = (),
) -> CalibrationResult:
    """Build the judged result of a fit.

    Args:
        config: What was asked for.
        command: How it was asked for.
        seen: The model and the data, as the estimator saw them.
        fitted: What was found.
        table: What it predicts, for all recordings.
        timestep_change: By what part of the unexplained the model's own time step changes that.
        validation: What it is worth on data that it did not see.
        remembered: What an earlier result has to do with it.
        warnings: What a reader must know first, a sentence each.
    """
    fit, problem, recordings = fitted.fit, seen.problem, seen.problem.recordings
    remembered, validation = remembered or Remembered(), validation or Validation()
    stepped = fitted.problem.model is not problem.model
    curves = list(_curves(fitted, table, config.solver.threads))
    found = summarise(
        str(config.model),
        fit,
        curves,
        {curve.sensor: sensor_unit(problem.model, curve.sensor) for curve in curves},
        remembered.provenance(_provenance(config, command, seen)),
        backend='mujoco',
        loss=config.solver.loss,
    )
    compared = by_windows(seen, fit)
    warnings = (
        *warnings,
        *_warnings(fit, seen),
        *(
            f'Times of {item.subject} are of {item.count} kinds: {item.detail}.'
            for item in unlike_stamps(recordings)
        ),
        *validation.warnings,
    )
    solver = {
        'estimator': compared.kind,
        'estimator_sentence': compared.sentence,
        'timestep': float(fitted.problem.model.opt.timestep) if stepped else None,
        'timestep_change': timestep_change if stepped else 0.0,
    }
    update = {
        'folds': validation.folds,
        'horizon': validation.horizon,
        'topics': tuple(rate for recording in recordings for rate in recording.alignment.topics),
        'health': (
            *_offsets(fit),
            *_too_late(fit, recordings),
            *_left_out(fit, recordings),
            *(finding for recording in recordings for finding in recording.alignment.health),
            *_stuck(problem.model, recordings),
        ),
        'recordings': tuple(
            RecordedBag(
                bag=recording.alignment.bag,
                role=recording.role,
                seconds=recording.alignment.seconds,
                sequences=tuple(
                    RecordedSequence(name=name, begin=begin, end=end)
                    for name, (begin, end) in recording.alignment.places
                    if name in {trajectory.name for trajectory in recording.alignment.sequences}
                ),
            )
            for recording in recordings
        ),
        'drift': remembered.drift,
        'tool': tool_errors(problem.model, curves),
        'bases': base_parameters(problem.model, found.parameters, found.inference),
        'solver': found.solver.model_copy(update=solver),
        'implied_actuators': tuple(implied_actuators(problem.spec)),
    }
    return judge(found.model_copy(update=update).with_warnings(warnings), config.gate)


def _curves(fitted: Fitted, table: Predictions, threads: int) -> Iterator[SignalCurve]:
    """Yield what was measured and predicted, with bands of what was held out."""
    fit, problem = fitted.fit, fitted.problem
    held_out = {trajectory.name for trajectory in problem.sequences('validate')}
    doubts: Mapping[int, Sequence[Values]] = {}
    if fit.window is None:
        places = [i for i, each in enumerate(table.trajectories) if each.name in held_out]
        found = deviations(
            fit,
            fitted.predictor(threads),
            [table.trajectories[place] for place in places],
            [table.fitted[place] for place in places],
        )
        doubts = dict(zip(places, found, strict=True))
    commands = [_commands(problem.model, trajectory) for trajectory in table.trajectories]
    for signal in table.signals():
        times = signal.series.times
        band = None
        if signal.place in doubts and signal.sensor in fit.noise:
            doubt = doubts[signal.place][signal.number][:, signal.predicted]
            band = QUANTILE * np.hypot(doubt, fit.noise[signal.sensor])
        command, unit = commands[signal.place].get(
            _joint_of(problem.model, signal.sensor), (None, '')
        )
        yield SignalCurve(
            signal.trajectory.name,
            'validate' if signal.trajectory.name in held_out else 'train',
            signal.sensor,
            signal.name,
            times,
            signal.measured,
            signal.nominal,
            signal.fitted,
            signal.diverged[1],
            band,
            command(times) if command else None,
            unit,
        )


def _commands(
    model: mujoco.MjModel, trajectory: Trajectory
) -> dict[int, tuple[Callable[[Values], Values], str]]:
    """Return of each joint what its first actuator was told at (n,) instants, and the unit."""
    found: dict[int, tuple[Callable[[Values], Values], str]] = {}
    for series in trajectory.commands:
        for name, (_, columns) in series.signal_mapping.items():
            joint = driven_joint(model, name)
            if joint >= 0 and joint not in found:
                told = TimeSeries(series.times, series.data[:, columns[0]])
                method: Method = 'linear' if name in trajectory.interpolated else 'zoh'
                told_at = partial(told.interpolate, method=method)
                found[joint] = told_at, _command_unit(model, model.actuator(name).id, joint)
    return found


def _command_unit(model: mujoco.MjModel, actuator: int, joint: int) -> str:
    """Return the unit of the joint that an actuator's commands are in; empty where geared."""
    gain = float(model.actuator_gainprm[actuator, 0])
    gear = float(model.actuator_gear[model.actuator_outadr[actuator], 0])
    _, position, velocity = model.actuator_biasprm[actuator, :3].tolist()
    slide = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE
    if not gain:
        return ''
    # A servo is at rest where gain · command = -bias · gear · motion.
    slope, units = {
        Quantity.POSITION: (-position * gear / gain, ('rad', 'm')),
        Quantity.VELOCITY: (-velocity * gear / gain, ('rad/s', 'm/s')),
        Quantity.EFFORT: (gain * gear, ('N·m', 'N')),
    }[command_quantity(model, actuator)]
    return units[bool(slide)] if math.isclose(slope, 1.0) else ''


def _joint_of(model: mujoco.MjModel, sensor: str) -> int:
    """Return the joint that a sensor measures, itself or through its actuator; -1 where none."""
    row = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, sensor)
    if row < 0:
        return -1
    kind, of = model.sensor_objtype[row], int(model.sensor_objid[row])
    if kind == mujoco.mjtObj.mjOBJ_ACTUATOR:
        return driven_joint(model, of)
    return of if kind == mujoco.mjtObj.mjOBJ_JOINT else -1


def _provenance(config: CalibrationConfig, command: str, seen: Estimated) -> Provenance:
    model = seen.problem.source.description
    files = [FileHash(path=str(config.model), role='model', sha256=model.sha256)]
    for recording in seen.problem.recordings:
        files.extend(
            FileHash(path=str(path), role=recording.role, sha256=sha256(path))
            for path in files_in(recording.path)
        )
    return provenance_now(
        command,
        config.model_dump(mode='json'),
        tuple(files),
        'the measured motion is prescribed, and the forces that it needs are compared'
        if seen.kind is EstimatorKind.TORQUE
        else 'recorded commands, zero-order held, drive the actuators of the model',
    )


def _stuck(model: mujoco.MjModel, recordings: Sequence[CalibrationBag]) -> Iterator[HealthFinding]:
    """Yield positions that were left out as dead although commands to their joint change."""
    for recording in recordings:
        commanded = {
            joint
            for sequence in recording.alignment.sequences
            for series in sequence.commands
            for name, (_, columns) in series.signal_mapping.items()
            if (joint := driven_joint(model, name)) >= 0
            and np.ptp(series.data[:, columns], axis=0).any()
        }
        for item in recording.alignment.health:
            dead = item.kind is FindingKind.DEAD_CHANNEL and item.left_out
            if dead and position_joint(model, item.left_out) in commanded:
                yield dataclasses.replace(
                    item,
                    kind=FindingKind.STUCK,
                    left_out='',
                    detail=f'{item.left_out!r} never changes although its joint is told to move',
                )


def _offsets(fit: Fit) -> Iterator[HealthFinding]:
    """Say by how much the commands of each sequence were shifted against their stamps."""
    for sequence, offset in fit.offsets.items():
        detail = f'taken to act {round(1e6 * offset):+d} µs from their stamps and the delay'
        errors = np.abs(np.concatenate(fit.arrival_errors.get(sequence) or [np.zeros(0)]))
        if errors.any():
            half, largest = np.median(errors), np.max(errors)
            detail += (
                f', half of them within {1e6 * half:.2g} µs of that and all within '
                f'{1e3 * largest:.2g} ms, each as the data say'
            )
        yield HealthFinding(
            bag=sequence,
            subject='commands',
            kind=FindingKind.ARRIVAL_OFFSET,
            count=1,
            detail=detail,
        )


def _too_late(fit: Fit, recordings: Sequence[CalibrationBag]) -> Iterator[HealthFinding]:
    """Say which commands are as far from their stamps as a fit lets them be."""
    begins = {
        name: begin for recording in recordings for name, (begin, _) in recording.alignment.places
    }
    for sequence in (s for recording in recordings for s in recording.alignment.sequences):
        found = [
            series.times[np.abs(errors) >= _AT_LIMIT * FARTHEST]
            for series, errors in zip(
                sequence.commands, fit.arrival_errors.get(sequence.name, ()), strict=False
            )
        ]
        times = np.sort(np.concatenate([np.zeros(0), *found]))
        if len(times):
            at = np.round(SECOND_NS * (times + begins.get(sequence.name, 0.0))).astype(np.int64)
            moments = listed([f'{time:.2f} s' for time in times])
            yield HealthFinding(
                bag=sequence.name,
                subject='commands',
                kind=FindingKind.LATE_COMMANDS,
                count=len(times),
                detail=f'at {moments} from the start: {1e3 * FARTHEST:.0f} ms from their stamps, '
                'which is as far as a fit lets them be; something else may be wrong there',
                spans=spans_of(at, at, 0),
            )


def _left_out(fit: Fit, recordings: Sequence[CalibrationBag]) -> Iterator[HealthFinding]:
    """Say what was measured and not compared."""
    for recording in recordings:
        series = [m for s in recording.alignment.sequences for m in s.measurements]
        for sensor in fit.dead:
            count = sum(len(entry) for entry in series if sensor in entry.names)
            if recording.role == 'train' and count:
                yield HealthFinding(
                    bag=recording.alignment.bag,
                    subject=sensor,
                    kind=FindingKind.DEAD_CHANNEL,
                    count=count,
                    detail='never changes in any training sequence; left out of the fit',
                )
    for sequence, count in fit.left_out.items():
        yield HealthFinding(
            bag=sequence,
            subject='measurements',
            kind=FindingKind.MISSING,
            count=count,
            detail='samples so near to the ends that a delay within the bounds would place them '
            'outside of the sequence; left out of the fit',
        )


def _warnings(fit: Fit, seen: Estimated) -> Iterator[str]:
    """Yield what a reader of the result must know first, a sentence each."""
    # Of a limit of time the reservation says more, or the gate.
    if not fit.solution.success and fit.solution.status != 'time':
        yield fit.solution.message
    if fit.strides:
        most = max(max(own) for own in fit.strides.values())
        yield (
            f'The recordings are so long that of some series only one sample in {most} was '
            'fitted: all of them would take more than 1 GB of memory.'
        )
    ends = [attempt.cost for attempt in fit.attempts if math.isfinite(attempt.cost)]
    worse = sum(end > (1 + _SAME_COST) * min(ends) for end in ends)
    if worse:
        yield (
            f'{worse} of {len(ends)} starts that were solved ended at a higher cost than the best: '
            'there is more than one optimum, and more starts may find a better one.'
        )
    for recording in seen.problem.recordings:
        if not recording.alignment.sequences:
            yield f'Bag {recording.path.name!r} holds no usable sequence.'
        if recording.idle_actuators and seen.kind is not EstimatorKind.TORQUE:
            yield f'Bag {recording.idle_actuators}.'
    for item in unlike_stamps(seen.problem.recordings):
        yield f'Times of {item.subject} are of {item.count} kinds: {item.detail}.'
