# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The result of a calibration, and what is written of it: report, MJCF and servos' files."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.health import FindingKind, HealthFinding, spans_of
from sysid_ros.alignment.search import Mechanism
from sysid_ros.config.schema import CalibrationConfig
from sysid_ros.errors import listed
from sysid_ros.files import files_in, sha256
from sysid_ros.fit.nuisances import FARTHEST
from sysid_ros.model.description import Description, changed
from sysid_ros.model.elements import driven_joint, position_joint, sensor_unit
from sysid_ros.model.loading import RobotModel, compile_spec, implied_actuators, read_model
from sysid_ros.model.mjcf import write_model
from sysid_ros.model.targets import Target
from sysid_ros.model.xml_text import absolute, decode
from sysid_ros.report.rendering import Film
from sysid_ros.results.checks import judge
from sysid_ros.results.links import base_parameters
from sysid_ros.results.result import (
    CURRENT,
    REJECTED,
    RESULT,
    CalibrationResult,
    EstimatorKind,
    FileHash,
    ModelChange,
    Provenance,
    RecordedBag,
    RecordedSequence,
)
from sysid_ros.results.store import Memory, draft
from sysid_ros.results.summary import SignalCurve, Validation, provenance_now, summarise
from sysid_ros.signals import Method, TimeSeries, Trajectory
from sysid_ros.simulation.servo_joints import ServoJoints, write_servos
from sysid_ros.uncertainty.covariance import QUANTILE
from sysid_ros.uncertainty.inference import Identification
from sysid_ros.vocabulary import SECOND_NS
from sysid_ros.workflows.estimators import Estimated, by_windows, motor_biases, with_biases
from sysid_ros.workflows.predictions import Fitted, Predictions, deviations
from sysid_ros.workflows.problem import CalibrationBag, parameters_of, unlike_stamps

Values = NDArray[np.float64]

REPORT = 'report.html'
MODEL = 'mjcf'
#: Folder for the coefficients of servos, a file for each actuator.
SERVOS = 'servos'


def assemble(  # noqa: PLR0913 (what a result is made of)
    config: CalibrationConfig,
    command: str,
    seen: Estimated,
    fitted: Fitted,
    table: Predictions,
    *,
    memory: Memory | None = None,
    change: float = 0.0,
    validation: Validation | None = None,
    warnings: Sequence[str] = (),
) -> CalibrationResult:
    """Build the judged result of a fit, from what it predicts of all recordings.

    It may continue an earlier result. Another time step changed predictions by a part of what was
    unexplained. Warnings are what a reader must know first, a sentence each.
    """
    fit, problem, recordings = fitted.fit, seen.problem, seen.problem.recordings
    threads, validation = config.solver.threads, validation or Validation()
    curves = list(_curves(fitted, table, threads))
    provenance = _provenance(config, command, seen)
    found = summarise(
        str(config.model),
        fit,
        curves,
        {curve.sensor: sensor_unit(problem.model, curve.sensor) for curve in curves},
        memory.provenance(provenance) if memory else provenance,
        backend='mujoco',
        loss=config.solver.loss,
    )
    compared = by_windows(seen, fit)
    stepped = fitted.problem.model is not problem.model
    solver = {
        'estimator': compared.kind,
        'estimator_sentence': compared.sentence,
        'timestep': float(fitted.problem.model.opt.timestep) if stepped else None,
        'timestep_change': change if stepped else 0.0,
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
        'recordings': tuple(map(_recorded, recordings)),
        'drift': fitted.drift,
        'bases': base_parameters(problem.model, found.parameters, found.inference),
        'solver': found.solver.model_copy(update=solver),
        'implied_actuators': tuple(implied_actuators(problem.spec)),
    }
    known = *warnings, *_warnings(seen, fitted, change), *validation.warnings
    return judge(found.model_copy(update=update).with_warnings(known), config.gate)


def _recorded(recording: CalibrationBag) -> RecordedBag:
    alignment = recording.alignment
    kept = {trajectory.name for trajectory in alignment.sequences}
    return RecordedBag(
        bag=alignment.bag,
        role=recording.role,
        seconds=alignment.seconds,
        sequences=tuple(
            RecordedSequence(name=name, begin=begin, end=end)
            for name, (begin, end) in alignment.places
            if name in kept
        ),
    )


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
        band, times = None, signal.series.times
        if signal.place in doubts and signal.sensor in fit.noise:
            doubt = doubts[signal.place][signal.number][:, signal.predicted]
            band = QUANTILE * np.hypot(doubt, fit.noise[signal.sensor])
        joint = _joint_of(problem.model, signal.sensor)
        command, unit = commands[signal.place].get(joint, (None, ''))
        yield SignalCurve(
            sequence=signal.trajectory.name,
            role='validate' if signal.trajectory.name in held_out else 'train',
            sensor=signal.sensor,
            name=signal.name,
            times=times,
            measured=signal.measured,
            before=signal.nominal,
            after=signal.fitted,
            diverged=signal.diverged[1],
            band=band,
            command=command(times) if command else None,
            command_unit=unit,
        )


def _commands(
    model: mujoco.MjModel, trajectory: Trajectory
) -> dict[int, tuple[Callable[[Values], Values], str]]:
    """Return of each joint what it was told at (n,) instants, in its own unit, and that unit."""
    found: dict[int, tuple[Callable[[Values], Values], str]] = {}
    series_of = {name: series for series in trajectory.commands for name in series.names}
    for joint in Mechanism(model).joints:
        drive = joint.drive
        if drive is not None and drive.known and drive.slope and drive.name in series_of:
            series = series_of[drive.name]
            controls = np.ravel(series.get(drive.name))
            told = TimeSeries(series.times, (controls - drive.intercept) / drive.slope)
            method: Method = 'linear' if drive.name in trajectory.interpolated else 'zoh'
            unit = drive.commanded.unit(slide=not joint.hinge)
            found[joint.id] = partial(told.interpolate, method=method), unit
    return found


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


def _offsets(fit: Identification) -> Iterator[HealthFinding]:
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
        yield HealthFinding(sequence, 'commands', FindingKind.ARRIVAL_OFFSET, 1, detail)


def _too_late(fit: Identification, recordings: Sequence[CalibrationBag]) -> Iterator[HealthFinding]:
    """Say which commands are as far from their stamps as a fit lets them be."""
    begins = {
        name: begin for recording in recordings for name, (begin, _) in recording.alignment.places
    }
    for sequence in (s for recording in recordings for s in recording.alignment.sequences):
        found = [
            series.times[np.abs(errors) >= FARTHEST]
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


def _left_out(fit: Identification, recordings: Sequence[CalibrationBag]) -> Iterator[HealthFinding]:
    """Say what was measured and not compared."""
    for recording in recordings:
        series = [m for s in recording.alignment.sequences for m in s.measurements]
        for sensor in fit.dead:
            count = sum(len(entry) for entry in series if sensor in entry.names)
            if recording.role == 'train' and count:
                detail = 'never changes in any training sequence; left out of the fit'
                kind = FindingKind.DEAD_CHANNEL
                yield HealthFinding(recording.alignment.bag, sensor, kind, count, detail)
    for sequence, count in fit.left_out.items():
        detail = (
            'samples so near to the ends that a delay within the bounds would place them outside '
            'of the sequence; left out of the fit'
        )
        yield HealthFinding(sequence, 'measurements', FindingKind.MISSING, count, detail)


def _warnings(seen: Estimated, fitted: Fitted, change: float) -> Iterator[str]:
    """Yield what a reader of the result must know first, a sentence each."""
    fit = fitted.fit
    yield from fitted.warnings
    own, step = (each.model.opt.timestep for each in (seen.problem, fitted.refit))
    if step > own:
        yield (
            f'The fit simulated with a time step of {step:g} s and was corrected for what that of '
            f'the model, {own:g} s, changes: {100 * change:.2g} % of what is left unexplained.'
        )
    # Of a limit of time the reservation says more, or the gate.
    if not fit.solution.success and fit.solution.status != 'time':
        yield fit.solution.message
    if fit.strides:
        most = max(max(own) for own in fit.strides.values())
        yield (
            f'The recordings are so long that of some series only one sample in {most} was '
            'fitted: all of them would take more than 1 GB of memory.'
        )
    for recording in seen.problem.recordings:
        if not recording.alignment.sequences:
            yield f'Bag {recording.path.name!r} holds no usable sequence.'
        if recording.idle_actuators and seen.kind is not EstimatorKind.TORQUE:
            yield f'Bag {recording.idle_actuators}.'
    for item in unlike_stamps(seen.problem.recordings):
        yield f'Times of {item.subject} are of {item.count} kinds: {item.detail}.'


@dataclass(frozen=True)
class Identified:
    """A judged result, and what an accepted one needs for its files; nothing is on disk yet."""

    result: CalibrationResult
    values: Sequence[tuple[Target, float]] = ()  # in SI units
    model: RobotModel | None = None  # as it was; read again unless given
    servos: ServoJoints | None = None
    film: Callable[[], tuple[tuple[Film, ...], str]] | None = None  # drawn, or why there is none


@dataclass(frozen=True)
class Calibration:
    """A result and the dated folder that it was written to, which never changes."""

    result: CalibrationResult
    folder: Path

    @classmethod
    def load(cls, folder: Path) -> Calibration:
        """Read what was written into a dated folder; a ResultError where it cannot be read."""
        return cls(CalibrationResult.load(folder / RESULT), folder)

    @property
    def result_path(self) -> Path:
        """The result as JSON."""
        return self.folder / RESULT

    @property
    def report_path(self) -> Path:
        """The report."""
        return self.folder / REPORT

    @property
    def mjcf_path(self) -> Path | None:
        """Main file of the identified model; None when the result was rejected."""
        return self.folder / self.result.mjcf if self.result.mjcf else None

    @property
    def paths(self) -> dict[str, Path]:
        """What a person opens, by what it is; through the link, which later results move."""
        link = self.folder.parent / (CURRENT if self.result.accepted else REJECTED)
        mjcf = self.result.mjcf
        model = {'identified MJCF': link / mjcf} if mjcf else {}
        return {
            **model,
            'result': link / RESULT,
            'report': link / REPORT,
            'kept in': self.folder,
        }


def write(
    identified: Identified, output: Path, truth: Mapping[str, float] | None = None
) -> Calibration:
    """Write result and report; of an accepted result also the MJCF and servos' files.

    The output gets a new, dated folder, whole or not at all, and a link to it, ``current`` or
    ``rejected``; see `sysid_ros.results.store`. The report shows true values that are known.
    """
    # Drawing takes long to import, and who only asks for a calibration later should not wait.
    from sysid_ros.report import write_report  # noqa: PLC0415

    result = identified.result
    with draft(output) as begun:
        if result.accepted:
            mjcf, notes, changes = _write_model(identified, begun.folder)
            written = {'mjcf': str(mjcf), 'changes': changes}
            result = result.with_warnings(notes).model_copy(update=written)
        result.save(begun.folder / RESULT)
        films, no_film = identified.film() if identified.film is not None else ((), '')
        write_report(result, begun.folder / REPORT, truth=truth, films=films, no_film=no_film)
        return Calibration(result, begun.keep(accepted=result.accepted))


def _write_model(
    identified: Identified, folder: Path
) -> tuple[Path, list[str], tuple[ModelChange, ...]]:
    """Write MJCF and servos' files; return the main file's place, notes, and what changed."""
    result = identified.result
    source = identified.model or read_model(Path(result.model))
    values, biases = with_biases(result, source, identified.values)
    written = write_model(source, values, folder / MODEL, biases)
    if identified.servos is not None:
        named = {target.path: value for target, value in values}
        write_servos(folder / SERVOS, identified.servos, named)
    notes = list(written.notes)
    if biases:
        shown = listed(f'{name} {bias:.4g}' for name, bias in biases.items())
        notes.append(f'Offsets of efforts are constant forces of the motors in the MJCF: {shown}.')
    place = written.path.relative_to(absolute(folder))
    if not written.edited:
        return place, notes, ()
    urdf = None  # of a URDF, what changes is in that beside the MJCF
    if source.description.urdf is not None:
        urdf = decode(written.path.with_suffix('.urdf').read_bytes())
    found = changed(source.description, Description(written.path, urdf=urdf))
    changes = (ModelChange(**{**each._asdict(), 'file': str(each.file)}) for each in found)
    return place, notes, tuple(changes)


def check_written_back(config: CalibrationConfig, model: RobotModel) -> None:
    """Check, before any work, that the MJCF text can take values for all parameters."""
    compiled = compile_spec(model.spec, config.model)
    values: list[tuple[Target, float]] = []
    for parameter in parameters_of(config, compiled, model.spec):
        # A value inside the bounds that is not the one in the text.
        step = math.sqrt(np.finfo(float).eps) * max(abs(parameter.nominal), 1.0)
        nudged = min(parameter.nominal + step, parameter.max_value)
        if nudged == parameter.nominal:
            nudged = max(parameter.nominal - step, parameter.min_value)
        values.extend((target, nudged) for target in parameter.targets)
    biases: dict[str, float] = {}
    if config.estimator != 'simulation':
        values, biases = motor_biases(compiled, values)
    with tempfile.TemporaryDirectory() as folder:
        write_model(model, values, Path(folder) / MODEL, biases)
