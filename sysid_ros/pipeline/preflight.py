# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a fit would be able to say, before it is made."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.health import HealthFinding
from sysid_ros.bags import BagColumns
from sysid_ros.config import CalibrationConfig, load_mapping
from sysid_ros.config.calibration import Loss, Role, VerdictKind
from sysid_ros.errors import FitError
from sysid_ros.estimation.layout import Samples
from sysid_ros.estimation.noise import estimate_noise, measured
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver.solver import SolverSettings
from sysid_ros.estimation.start.windows import LOST, ROUGH, roughness_at
from sysid_ros.identification.fit import Fit, fit
from sysid_ros.identification.observer import Observer
from sysid_ros.inference import Combination, Interval
from sysid_ros.inference.dependence import threshold
from sysid_ros.inference.linear import Linear, linearised
from sysid_ros.inspection.inspection import inspect
from sysid_ros.inspection.lag import Lag
from sysid_ros.model.unknown import Unknown
from sysid_ros.pipeline.estimators import estimated, forces_tell
from sysid_ros.pipeline.fitting import deadline_of, known_noise
from sysid_ros.pipeline.loading import Problem, load, unlike_stamps
from sysid_ros.pipeline.timestep import with_timestep
from sysid_ros.rollout.prediction import make_simulator, predict
from sysid_ros.signals import TimeSeries
from sysid_ros.signals.trajectory import Trajectory

#: Simulations that leave more of the variance of the motion than this do not follow it.
_UNEXPLAINED = 0.5
#: A sensor moves when what it reads spreads by so many times its noise.
_MOVES = 10.0
#: So many steps of a fit are made, or until they are shorter than this, in standard errors.
STEPS, _TOLERANCE = 20, 0.3

#: What widens no interval by more than this factor when it is left out adds nothing.
NOTHING = 1.05
#: A parameter is lost with a source when more than this part of it is in directions unseen then.
_LOST = 1e-6
#: Within this part of a range of its end, a value is at the end.
_NEAR = 1e-3

METHOD = f'as at most {STEPS} steps of a fit leave it'


class SourceKind(StrEnum):
    """What may be left out."""

    SENSOR = 'sensor'
    BAG = 'bag'


class InformationSource(NamedTuple):
    """A sensor or a bag, and what would be lost without it.

    Attributes:
        kind: What it is.
        name: Of the sensor or bag.
        growth: (p,) factor by which the interval of each parameter would be wider without it;
            infinite where it alone tells, NaN for parameters without an interval.
    """

    kind: SourceKind
    name: str
    growth: tuple[float, ...]

    @property
    def adds_nothing(self) -> bool:
        """Whether no interval would be visibly wider without it."""
        known = np.array([g for g in self.growth if not np.isnan(g)])
        return len(known) > 0 and bool(np.all(known < NOTHING))


class Saturation(NamedTuple):
    """A signal at its limit.

    Attributes:
        sequence: Where.
        signal: Name of the actuator or sensor.
        limit: ``ctrlrange``, ``forcerange``, ``actuatorfrcrange`` or ``joint range``.
        share: Part of the time.
    """

    sequence: str
    signal: str
    limit: str
    share: float


class PredictedParameter(NamedTuple):
    """What is to be expected of one parameter.

    Attributes:
        name: Of the parameter.
        unit: Of its value.
        nominal: Where the fit starts.
        half: Half-width of the 95 % interval; NaN where there would be none.
        verdict: As after a fit, by that interval, in words.
        explanation: What is determined instead, and what to record; empty where identified.
        verdict_kind: The verdict without the names of other parameters; None where simulations
            diverge and nothing can be said.
        value: Where it was judged; NaN where it was not.
    """

    name: str
    unit: str
    nominal: float
    half: float
    verdict: str
    explanation: str
    verdict_kind: VerdictKind | None
    value: float = np.nan


class JointMotion(NamedTuple):
    """One joint in one bag: its lag behind the command, and the fraction of its range covered."""

    bag: str
    joint: str
    lag: Lag | None
    of_range: float


class Divergence(NamedTuple):
    """A sequence on which the nominal model becomes unstable, and when, s after its start."""

    sequence: str
    seconds: float


class Sensitivity(NamedTuple):
    """How simulations diverge: from each other, or from what was measured.

    Attributes:
        moved: How far a thousandth of the parameters moves the end of the motion, in the ranges of
            the sensors.
        unexplained: Part of the variance of the measured motion that steps of a fit leave.
        forces_tell: Whether forces along the measured motion can be compared instead.
    """

    moved: float
    unexplained: float
    forces_tell: bool


@dataclass(frozen=True)
class Preflight:
    """What bags and configuration say before a fit.

    Attributes:
        parameters: In the order of the configuration.
        combinations: What is determined of parameters that cannot be told apart.
        sources: What each sensor and bag tells; none where the values rest on windows.
        noise: Sensor name to the standard deviation that was assumed, in the sensor's unit.
        joints: Lags and motion.
        saturations: Signals at their limits.
        health: What was found when the bags were read.
        diverged: Training sequences that were left out, as the nominal model is unstable on them.
        dead: Sensors that never move.
        samples: Number of measured values that would be compared.
        rollouts: Number of simulations that were run.
        seconds: Wall time.
        method: What the intervals assume.
        notes: What is to be known of the model beside its file.
        sensitivity: How simulations diverge, where that leaves nothing to say; else None.
    """

    parameters: tuple[PredictedParameter, ...]
    combinations: tuple[Combination, ...]
    sources: tuple[InformationSource, ...]
    noise: dict[str, float]
    joints: tuple[JointMotion, ...]
    saturations: tuple[Saturation, ...]
    health: tuple[HealthFinding, ...]
    diverged: tuple[Divergence, ...]
    dead: tuple[str, ...]
    samples: int
    rollouts: int
    seconds: float
    method: str = METHOD
    notes: tuple[str, ...] = ()
    sensitivity: Sensitivity | None = None

    @property
    def sensors(self) -> tuple[InformationSource, ...]:
        """What each sensor tells."""
        return tuple(source for source in self.sources if source.kind is SourceKind.SENSOR)

    @property
    def bags(self) -> tuple[InformationSource, ...]:
        """What each bag tells."""
        return tuple(source for source in self.sources if source.kind is SourceKind.BAG)

    @property
    def doubtful(self) -> tuple[str, ...]:
        """Names of parameters that would not be identified."""
        return tuple(
            p.name for p in self.parameters if p.verdict_kind is not VerdictKind.IDENTIFIED
        )


def preflight(config: CalibrationConfig, observer: Observer) -> Preflight:
    """Read the bags of a configuration and predict what a fit would say.

    Args:
        config: The validated configuration.
        observer: Is told of stages.

    Raises:
        FitError: There is nothing to fit, or the nominal model is unstable on all sequences.
        SysidError: In one sentence, what is wrong with model, parameters, mapping or a bag.
    """
    begun = time.perf_counter()
    joints: list[JointMotion] = []
    inspected: list[HealthFinding] = []
    mapping = load_mapping(config.mapping) if isinstance(config.mapping, Path) else config.mapping

    def look(bag: BagColumns, role: Role, model: mujoco.MjModel) -> None:
        if role == 'train':
            found = inspect(bag, model, mapping=mapping, stamps=config.stamps)
            inspected.extend(found.findings)
            joints.extend(
                JointMotion(bag.path.name, joint.name, joint.lag, joint.of_range)
                for joint in found.joints
                if joint.position
            )

    problem = load(config, observer, look)
    training = problem.sequences('train')
    seen = estimated(config, problem)
    count = len(seen.problem.parameters)
    observer.stage(f'taking the first steps of a fit, {count} parameters')
    found, _ = predicted(config, with_timestep(seen.problem, config.solver), observer)
    health = [h for r in problem.recordings for h in r.alignment.health]
    known = {(item.bag, item.subject, item.kind) for item in health}
    health += [h for h in inspected if (h.bag, h.subject, h.kind) not in known]
    return dataclasses.replace(
        found,
        joints=tuple(joints),
        saturations=tuple(s for run in training for s in saturations(problem.model, run)),
        health=(*health, *unlike_stamps(problem.recordings)),
        seconds=time.perf_counter() - begun,
        notes=(*problem.notes, *seen.notes),
    )


def predicted(
    config: CalibrationConfig,
    problem: Problem,
    observer: Observer | None = None,
    begun: Fit | None = None,
) -> tuple[Preflight, Fit | None]:
    """Predict intervals, verdicts and sources from the first steps of a fit.

    What the model lacks and how far nominal values are off is in what was measured: a few steps
    leave of the residuals about what the fit will leave, in size and in time. So all that is said
    here is what the fit would say if it ended there.

    Args:
        config: The solver, its loss and threads; what is known of the noise.
        problem: What is to be identified; sequences on which the nominal model is unstable are left
            out.
        observer: Is told of iterations.
        begun: First steps with the same recordings, of these parameters or others.

    Returns:
        What is expected, and the first steps; None where simulations diverge.

    Raises:
        ConfigError: ``statistics.noise`` names no sensor that is compared.
        FitError: There is nothing to fit, the nominal model is unstable on all sequences, or none
            of the others holds a measured sample that counts.
    """
    started = time.perf_counter()
    training = problem.sequences('train')
    if not training or not problem.parameters:
        raise FitError(
            f'Nothing to predict: {len(training)} training sequences and '
            f'{len(problem.parameters)} parameters.'
        )
    threads = config.solver.threads
    stable, diverged = _stable(problem, training, problem.parameters, threads)
    # Windows that grow begin where motion can be predicted still.
    start, windowed = config.solver.start, config.estimator == 'windows'
    moved = 0.0 if windowed or start == 'windows' else _moved(problem, stable, threads)
    if moved > ROUGH:
        return _untold(problem, diverged, started, moved), None
    found = fit(
        problem.spec,
        problem.parameters,
        stable,
        settings=SolverSettings(
            config.solver.loss,
            min(STEPS, config.solver.max_iterations),
            _TOLERANCE,
            rough=True,
            deadline=deadline_of(config),
        ),
        start=start,
        windowed=windowed,
        threads=threads,
        noise=known_noise(config.statistics.noise, problem),
        drives=problem.servos,
        begun=begun,
        observe=observer.iteration if observer else None,
    )
    told: tuple[InformationSource, ...] = ()
    if found.window is None:
        with make_simulator(
            problem.spec, found.unknowns, found.as_arrived(stable), threads, drives=problem.servos
        ) as simulator:
            residuals = Residuals(simulator, found.noise)
            if not simulator.prescribed:
                moved = roughness_at(residuals, found.values, len(found.values))
                unexplained = _unexplained(residuals, found.values)
                if moved > LOST or unexplained > _UNEXPLAINED:
                    return _untold(problem, diverged, started, moved, unexplained), None
        told = sources(_linear(found, config.solver.loss), len(problem.parameters))
    said = Preflight(
        parameters=tuple(
            _expected(unknown, float(value), interval)
            for unknown, value, interval in zip(
                problem.parameters, found.values, found.intervals, strict=False
            )
        ),
        combinations=found.inference.combinations,
        sources=told,
        noise=found.noise,
        joints=(),
        saturations=(),
        health=(),
        diverged=diverged,
        dead=found.dead,
        samples=int(np.count_nonzero(_layout(found).sensor >= 0)),
        rollouts=found.rollouts,
        seconds=time.perf_counter() - started,
        method=f'{found.inference.method}; {METHOD}',
    )
    return said, found


def _expected(unknown: Unknown, value: float, interval: Interval) -> PredictedParameter:
    """Return what is to be expected of a parameter by an interval that was found early."""
    half = max(interval.high - value, value - interval.low)
    kind, verdict, explanation = interval.verdict_kind, interval.verdict, interval.explanation
    bound = next(
        (b for b in (unknown.min_value, unknown.max_value) if b in (interval.low, interval.high)),
        None,
    )
    if kind is VerdictKind.IDENTIFIED and bound is not None:
        kind = VerdictKind.AT_BOUND
        verdict = str(kind)
        explanation = f'Its interval reaches its bound {bound:g}: a fit may end there.'
    return PredictedParameter(
        unknown.name,
        unknown.unit,
        unknown.nominal,
        half,
        verdict,
        explanation,
        kind,
        value,
    )


def _layout(found: Fit) -> Samples:
    assert found.samples is not None  # noqa: S101 (a fit that was just made)
    return found.samples


def _linear(found: Fit, loss: Loss) -> Linear:
    """Return the problem as it is where a fit ended."""
    point = dataclasses.replace(found.solution, x=found.values)
    return linearised(point, point.jacobian, found.unknowns, _layout(found), loss)


def _moved(problem: Problem, sequences: Sequence[Trajectory], threads: int) -> float:
    """Return how far a thousandth of the nominal values moves the end of simulations."""
    nominal = np.array([unknown.nominal for unknown in problem.parameters])
    with make_simulator(
        problem.spec, problem.parameters, sequences, threads, drives=problem.servos
    ) as simulator:
        if simulator.prescribed:
            return 0.0
        residuals = Residuals(simulator, estimate_noise(simulator.runs))
        return roughness_at(residuals, nominal, len(nominal))


def _unexplained(residuals: Residuals, x: NDArray[np.float64]) -> float:
    """Return the part of the variance of what was measured that a candidate leaves, a median.

    Errors are counted up to some ranges of each sensor, whatever a simulation does beyond. Sensors
    that stand still but for their noise do not count.
    """
    rough = estimate_noise(residuals.runs)
    squares = residuals(x[None])[:, 0] ** 2
    variance: dict[str, float] = {}
    for sensor, values in measured(residuals.runs):
        variance[sensor] = max(variance.get(sensor, 0.0), float(np.var(values)))
    found = []
    for place, sensor in enumerate(residuals.samples.sensors):
        own = squares[residuals.samples.sensor == place]
        if len(own) and variance.get(sensor, 0.0) > (_MOVES * rough.get(sensor, np.inf)) ** 2:
            found.append(float(np.mean(own)) * residuals.noise[sensor] ** 2 / variance[sensor])
    return float(np.median(found)) if found else 0.0


def _untold(
    problem: Problem,
    diverged: tuple[Divergence, ...],
    begun: float,
    moved: float,
    unexplained: float = 0.0,
) -> Preflight:
    """Return what is left to say where simulations diverge: nothing of any parameter."""
    return Preflight(
        parameters=tuple(
            PredictedParameter(
                unknown.name, unknown.unit, unknown.nominal, np.nan, 'diverging', '', None
            )
            for unknown in problem.parameters
        ),
        combinations=(),
        sources=(),
        noise={},
        joints=(),
        saturations=(),
        health=(),
        diverged=diverged,
        dead=(),
        samples=0,
        rollouts=0,
        seconds=time.perf_counter() - begun,
        method='',
        sensitivity=Sensitivity(moved, unexplained, forces_tell(problem)),
    )


def _stable(
    problem: Problem, training: Sequence[Trajectory], parameters: Sequence[Unknown], threads: int
) -> tuple[tuple[Trajectory, ...], tuple[Divergence, ...]]:
    """Tell the sequences on which the nominal model is stable from those where it is not.

    Raises:
        FitError: There is none.
    """
    x = np.array([unknown.nominal for unknown in parameters])
    each = predict(problem.spec, training, parameters, x, threads, drives=problem.servos)
    stable, diverged = [], []
    for sequence, prediction in zip(training, each, strict=True):
        if prediction.diverged[0]:
            # An unstable simulation repeats its last values: it ends where they last change.
            end = 0.0
            for series, channels in zip(sequence.measurements, prediction.channels, strict=True):
                with np.errstate(invalid='ignore', over='ignore'):
                    moves = np.flatnonzero(np.any(np.diff(channels[0], axis=0) != 0, axis=1))
                end = max(end, float(series.times[moves[-1] + 1]) if len(moves) else 0.0)
            diverged.append(Divergence(sequence.name, end))
        else:
            stable.append(sequence)
    if not stable:
        worst = min(diverged, key=lambda item: item.seconds)
        instead = 'estimator: torque' if forces_tell(problem) else 'shorter segments'
        raise FitError(
            f'The simulation of every training sequence becomes unstable at the nominal values, '
            f'that of {worst.sequence!r} after {worst.seconds:.2f} s; expected values nearer to '
            f'the robot, a smaller timestep, or {instead}.'
        )
    return tuple(stable), tuple(diverged)


def sources(linear: Linear, count: int) -> tuple[InformationSource, ...]:
    """Return what each sensor and each bag tells, by leaving it out.

    The information of independent samples adds up, so leaving a source out takes its own share
    away; what is known of starts and clocks beforehand stays.

    Args:
        linear: The linearised problem, whose samples have names of sensors and bags.
        count: So many of its first unknowns are parameters.
    """
    samples, scaled = linear.samples, linear.scaled
    measured = samples.sensor >= 0
    groups: dict[tuple[SourceKind, str], NDArray[np.bool_]] = {}
    for number, sensor in enumerate(samples.sensors):
        groups[SourceKind.SENSOR, sensor] = measured & (samples.sensor == number)
    if samples.bags:
        bag = np.array(samples.bags)[samples.sequence]
        for name in dict.fromkeys(samples.bags):
            groups[SourceKind.BAG, name] = measured & (bag == name)
    whole = scaled.T @ scaled
    full = _variances(whole)
    # Variances are compared where there is one.
    full[~np.isfinite(full)] = np.nan
    found = []
    for (kind, name), rows in groups.items():
        growth = np.full(len(linear.unknowns), np.nan)
        part = scaled[rows]
        growth[linear.free] = np.sqrt(_variances(whole - part.T @ part) / full)
        found.append(InformationSource(kind, name, tuple(np.maximum(growth[:count], 1.0).tolist())))
    return tuple(found)


def _variances(information: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the (f,) variances that go with an information, infinite where it sees nothing."""
    values, vectors = np.linalg.eigh(information)
    seen = values > threshold(len(values)) ** 2
    variance: NDArray[np.float64] = np.sum(vectors[:, seen] ** 2 / values[seen], axis=1)
    variance[np.sum(vectors[:, ~seen] ** 2, axis=1) > _LOST] = np.inf
    return variance


def saturations(model: mujoco.MjModel, sequence: Trajectory) -> tuple[Saturation, ...]:
    """Return the signals of a sequence that are at or beyond a limit for some of the time.

    Args:
        model: The compiled nominal model, whose limits count.
        sequence: What was recorded, in units of the model.
    """
    found = []
    for series in sequence.commands:
        for name in series.names:
            actuator = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_ACTUATOR, name)
            if actuator >= 0 and model.actuator_ctrllimited[actuator]:
                low, high = model.actuator_ctrlrange[actuator].tolist()
                share = _share(series, name, low, high)
                found.append(Saturation(sequence.name, name, 'ctrlrange', share))
    for series in sequence.measurements:
        for name in series.names:
            limit = _sensor_limit(model, name)
            if limit is not None:
                what, low, high = limit
                found.append(Saturation(sequence.name, name, what, _share(series, name, low, high)))
    return tuple(item for item in found if item.share > 0)


def _sensor_limit(model: mujoco.MjModel, name: str) -> tuple[str, float, float] | None:
    """Return which limit a sensor reads, and its two ends; None for those without."""
    sensor = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, name)
    if sensor < 0:
        return None
    kind, owner = int(model.sensor_type[sensor]), int(model.sensor_objid[sensor])
    for of, what, limited, ranges in (
        (mujoco.mjtSensor.mjSENS_JOINTPOS, 'joint range', model.jnt_limited, model.jnt_range),
        (
            mujoco.mjtSensor.mjSENS_ACTUATORFRC,
            'forcerange',
            model.actuator_forcelimited,
            model.actuator_forcerange,
        ),
        (
            mujoco.mjtSensor.mjSENS_JOINTACTFRC,
            'actuatorfrcrange',
            model.jnt_actfrclimited,
            model.jnt_actfrcrange,
        ),
    ):
        if kind == int(of) and limited[owner]:
            return what, float(ranges[owner, 0]), float(ranges[owner, 1])
    return None


def _share(series: TimeSeries, name: str, low: float, high: float) -> float:
    """Return the part of the time at a limit; each sample stands for the time to the next."""
    values: NDArray[np.float64] = series.data[:, np.atleast_1d(series.signal_mapping[name][1])]
    margin = _NEAR * (high - low)
    at = np.any((values <= low + margin) | (values >= high - margin), axis=1)
    if len(at) < 2:  # noqa: PLR2004 (no duration)
        return float(at.any())
    lasting = np.diff(series.times)
    return float(lasting[at[:-1]].sum() / lasting.sum())
