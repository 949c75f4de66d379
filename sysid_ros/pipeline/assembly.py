# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Put what a calibration found into one result: findings, warnings, curves and provenance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sysid_ros.alignment.health import SECOND_NS, FindingKind, HealthFinding, spans_of
from sysid_ros.alignment.pairs import command_quantity
from sysid_ros.errors import some
from sysid_ros.estimation.arrivals.messages import FARTHEST
from sysid_ros.files import files_in, sha256
from sysid_ros.identification.bands import deviations
from sysid_ros.inference.spread import QUANTILE
from sysid_ros.model.implied import implied_actuators
from sysid_ros.model.joints import TO_JOINT
from sysid_ros.model.units import component_label, sensor_unit
from sysid_ros.pipeline.estimators import by_windows
from sysid_ros.pipeline.loading import unlike_stamps
from sysid_ros.pipeline.memory import Remembered
from sysid_ros.pipeline.validation import Predictor
from sysid_ros.pipeline.windowed import predict_in_windows
from sysid_ros.results.bases import base_parameters
from sysid_ros.results.diagnostics import SignalCurve
from sysid_ros.results.gate import judge
from sysid_ros.results.result import (
    EstimatorKind,
    FileHash,
    RecordedBag,
    RecordedSequence,
)
from sysid_ros.results.summary import Validation, provenance_now, summarise
from sysid_ros.results.tool import tool_errors
from sysid_ros.vocabulary import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from sysid_ros.config import CalibrationConfig
    from sysid_ros.identification.fit import Fit
    from sysid_ros.pipeline.estimators import Estimated
    from sysid_ros.pipeline.loading import CalibrationBag, Problem
    from sysid_ros.results.result import CalibrationResult, Provenance
    from sysid_ros.signals.timeseries import Method, TimeSeries
    from sysid_ros.signals.trajectory import Trajectory

    Values = NDArray[np.float64]

#: Ends of several starts whose costs differ by more than this part are different optima.
_SAME_COST = 1e-3
#: An error of arrival of more than this part of the largest is at the limit.
_AT_LIMIT = 0.99


def assemble(
    config: CalibrationConfig,
    command: str,
    seen: Estimated,
    fit: Fit,
    *,
    exact: tuple[Problem, float] | None = None,
    validation: Validation | None = None,
    remembered: Remembered | None = None,
) -> CalibrationResult:
    """Build the judged result of a fit.

    Args:
        config: What was asked for.
        command: How it was asked for.
        seen: The model and the data, as the estimator saw them.
        fit: What was found.
        exact: The same with the time step of predictions, if that is another, and by what part of
            the unexplained the model's own changes them.
        validation: What it is worth on data that it did not see.
        remembered: What an earlier result has to do with it.
    """
    problem, recordings = seen.problem, seen.problem.recordings
    remembered, validation = remembered or Remembered(), validation or Validation()
    predicting, change = exact or (problem, 0.0)
    curves = list(_curves(predicting, fit, config.solver.threads, problem.spec))
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
        *remembered.warnings,
        *_warnings(fit, seen),
        *(
            f'Times of {item.subject} are of {item.count} kinds: {item.detail}.'
            for item in unlike_stamps(recordings)
        ),
        *validation.warnings,
    )
    context = {
        **validation._asdict(),
        'warnings': warnings,
        'topics': tuple(rate for recording in recordings for rate in recording.alignment.topics),
        'health': (
            *_offsets(fit),
            *_too_late(fit, recordings),
            *_left_out(fit, recordings),
            *(finding for recording in recordings for finding in recording.alignment.health),
            *_stuck(problem.model, recordings),
        ),
        'recordings': tuple(_recorded(recording) for recording in recordings),
        'drift': remembered.drift,
        'tool': tool_errors(problem.model, curves),
        'bases': base_parameters(problem.model, found.parameters, found.inference),
        'solver': found.solver.model_copy(
            update={
                'estimator': compared.kind,
                'estimator_sentence': compared.sentence,
                'timestep': float(predicting.model.opt.timestep) if exact else None,
                'timestep_change': change,
            }
        ),
        'implied_actuators': tuple(implied_actuators(problem.spec)),
    }
    return judge(found.model_copy(update=context), config.gate)


def _curves(
    problem: Problem, fit: Fit, threads: int, banded: mujoco.MjSpec
) -> Iterator[SignalCurve]:
    sequences = [(s, r.role) for r in problem.recordings for s in r.alignment.sequences]
    # Commands act when they were found to.
    bare = fit.as_arrived([sequence for sequence, _ in sequences], offsets=True)
    fitted = Predictor(problem.spec, *fit.predicting(bare), threads, problem.servos)
    nominal = fitted._replace(model=problem.model, parameters=(), values=None)
    if fit.window is None:
        before, after = nominal.predict(bare), fitted.predict(bare)
    else:
        before, after = (
            predict_in_windows(each, bare, fit.window, fit.noise) for each in (nominal, fitted)
        )
    off: list[Sequence[Values | None]] = [[None] * len(each.measurements) for each in bare]
    if fit.window is None:
        unseen = [place for place, (_, role) in enumerate(sequences) if role == 'validate']
        found = deviations(fit, banded, [bare[place] for place in unseen], threads)
        for place, each in zip(unseen, found, strict=True):
            off[place] = each
    for (_, role), sequence, old, new, doubt in zip(
        sequences, bare, before, after, off, strict=True
    ):
        commands = _commands(problem.model, sequence)
        for series, old_values, new_values, doubts in zip(
            sequence.measurements, old.channels, new.channels, doubt, strict=True
        ):
            columns = [
                (sensor, component_label(sensor, place, len(own)), int(column))
                for sensor, (_, own) in series.signal_mapping.items()
                for place, column in enumerate(own)
            ]
            for predicted, (sensor, name, column) in enumerate(columns):
                command = commands.get(_joint_of(problem.model, sensor))
                yield SignalCurve(
                    sequence.name,
                    role,
                    sensor,
                    name,
                    series.times,
                    series.data[:, column],
                    old_values[0, :, predicted],
                    new_values[0, :, predicted],
                    bool(new.diverged[0]),
                    None
                    if doubts is None or sensor not in fit.noise
                    else QUANTILE * np.hypot(doubts[:, predicted], fit.noise[sensor]),
                    *(() if command is None else command.at(series.times)),
                )


class _Command(NamedTuple):
    """What one joint was told: the column of a series, its unit, and whether samples hold."""

    series: TimeSeries
    column: int
    unit: str
    method: Method

    def at(self, times: Values) -> tuple[Values, str]:
        """Return (n,) commands at (n,) instants, and their unit."""
        return self.series.interpolate(times, self.method)[:, self.column], self.unit


def _commands(model: mujoco.MjModel, sequence: Trajectory) -> dict[int, _Command]:
    """Return what each joint was told, by its first actuator where it has several."""
    found: dict[int, _Command] = {}
    for series in sequence.commands:
        for name, (_, columns) in series.signal_mapping.items():
            actuator = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_ACTUATOR, name)
            if actuator >= 0 and model.actuator_trntype[actuator] in TO_JOINT:
                command = _Command(
                    series,
                    int(columns[0]),
                    _command_unit(model, actuator),
                    'linear' if name in sequence.interpolated else 'zoh',
                )
                found.setdefault(int(model.actuator_trnid[actuator, 0]), command)
    return found


def _command_unit(model: mujoco.MjModel, actuator: int) -> str:
    """Return the unit of the joint that an actuator's commands are in; empty where geared."""
    gain = float(model.actuator_gainprm[actuator, 0])
    gear = float(model.actuator_gear[model.actuator_outadr[actuator], 0])
    _, position, velocity = model.actuator_biasprm[actuator, :3].tolist()
    joint = int(model.actuator_trnid[actuator, 0])
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
    if kind == mujoco.mjtObj.mjOBJ_ACTUATOR and model.actuator_trntype[of] in TO_JOINT:
        return int(model.actuator_trnid[of, 0])
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


def _recorded(recording: CalibrationBag) -> RecordedBag:
    """Say how long a bag is and where its sequences are in it."""
    alignment = recording.alignment
    used = {sequence.name for sequence in alignment.sequences}
    return RecordedBag(
        bag=alignment.bag,
        role=recording.role,
        seconds=alignment.seconds,
        sequences=tuple(
            RecordedSequence(name=name, begin=begin, end=end)
            for name, (begin, end) in alignment.places
            if name in used
        ),
    )


def _stuck(model: mujoco.MjModel, recordings: Sequence[CalibrationBag]) -> Iterator[HealthFinding]:
    """Yield positions that were left out as dead although commands to their joint change."""
    for recording in recordings:
        commanded = {
            int(model.actuator_trnid[actuator, 0])
            for sequence in recording.alignment.sequences
            for series in sequence.commands
            for name, (_, columns) in series.signal_mapping.items()
            if (actuator := mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_ACTUATOR, name)) >= 0
            and model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_JOINT
            and np.ptp(series.data[:, columns], axis=0).any()
        }
        for sensor in np.flatnonzero(model.sensor_type == mujoco.mjtSensor.mjSENS_JOINTPOS):
            name = model.sensor(sensor).name
            for item in recording.alignment.health:
                dead = item.kind is FindingKind.DEAD_CHANNEL and item.left_out == name
                if dead and int(model.sensor_objid[sensor]) in commanded:
                    yield HealthFinding(
                        bag=item.bag,
                        subject=item.subject,
                        kind=FindingKind.STUCK,
                        count=item.count,
                        detail=f'{name!r} never changes although its joint is told to move',
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
            moments = some([f'{time:.2f} s' for time in times])
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
