# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a fit would be able to say, before it is made."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np
import scipy.special

from sysid_ros.config import load_mapping
from sysid_ros.config.calibration import VerdictKind
from sysid_ros.errors import FitError
from sysid_ros.estimation.layout import PRIOR
from sysid_ros.estimation.noise import estimate_noise
from sysid_ros.estimation.nuisances import command_timings, initial_states, torque_delay
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver.differences import Differences
from sysid_ros.estimation.solver.least_squares import Solution
from sysid_ros.inference.dependence import threshold
from sysid_ros.inference.linear import linearised
from sysid_ros.inference.spread import LEVEL, Spread
from sysid_ros.inference.verdicts import verdicts
from sysid_ros.inspection.inspection import inspect
from sysid_ros.pipeline.estimators import estimated
from sysid_ros.pipeline.loading import load, unlike_stamps
from sysid_ros.rollout.prediction import make_simulator, predict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sysid_ros.alignment.health import HealthFinding
    from sysid_ros.bags import BagColumns
    from sysid_ros.config import CalibrationConfig
    from sysid_ros.config.calibration import Role
    from sysid_ros.estimation.layout import Samples
    from sysid_ros.identification.observer import Observer
    from sysid_ros.inference import Combination
    from sysid_ros.inference.linear import Linear
    from sysid_ros.inspection.coverage import Excitation
    from sysid_ros.inspection.lag import Lag
    from sysid_ros.model.unknown import Unknown
    from sysid_ros.pipeline.loading import Problem
    from sysid_ros.signals import TimeSeries
    from sysid_ros.signals.trajectory import Trajectory

#: A nominal value at a bound is moved inside by this part of the bounds' distance: that a value
#: starts at a bound does not say that it ends there.
_INSIDE = 1e-5

#: What widens no interval by more than this factor when it is left out adds nothing.
NOTHING = 1.05
#: A parameter is lost with a source when more than this part of it is in directions unseen then.
_LOST = 1e-6
#: Within this part of a range of its end, a value is at the end.
_NEAR = 1e-3

METHOD = (
    'if the model is right up to these parameters, and noise as rough as measured and independent '
    'from sample to sample; what the model lacks makes intervals wider'
)


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
        nominal: Value where it was judged.
        half: Half-width of the 95 % interval at best, from noise alone; NaN where there would be
            none.
        verdict: As after a fit, by that interval, in words.
        explanation: What is determined instead, and what to record; empty where identified.
        verdict_kind: The verdict without the names of other parameters.
    """

    name: str
    unit: str
    nominal: float
    half: float
    verdict: str
    explanation: str
    verdict_kind: VerdictKind


class JointMotion(NamedTuple):
    """One joint in one bag: its lag behind the command, and what its motion shows."""

    bag: str
    joint: str
    lag: Lag | None
    excitation: Excitation | None


class Divergence(NamedTuple):
    """A sequence on which the nominal model becomes unstable, and when, s after its start."""

    sequence: str
    seconds: float


@dataclass(frozen=True)
class Preflight:
    """What bags and configuration say before a fit.

    Attributes:
        parameters: In the order of the configuration.
        combinations: What is determined of parameters that cannot be told apart.
        sources: What each sensor and bag tells.
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
    mapping = load_mapping(config.mapping) if isinstance(config.mapping, Path) else config.mapping

    def look(bag: BagColumns, role: Role, model: mujoco.MjModel) -> None:
        if role == 'train':
            found = inspect(bag, model, mapping=mapping, stamps=config.stamps)
            joints.extend(
                JointMotion(bag.path.name, joint.name, joint.lag, joint.excitation)
                for joint in found.joints
                if joint.excitation is not None or joint.lag is not None
            )

    problem = load(config, observer, look)
    training = problem.sequences('train')
    seen = estimated(config, problem)
    count = len(seen.problem.parameters)
    observer.stage(f'linearising at the nominal values, {count} parameters')
    found = predicted(seen.problem, seen.problem.sequences('train'), config.solver.threads)
    return dataclasses.replace(
        found,
        joints=tuple(joints),
        saturations=tuple(s for run in training for s in saturations(problem.model, run)),
        health=(
            *(h for r in problem.recordings for h in r.alignment.health),
            *unlike_stamps(problem.recordings),
        ),
        seconds=time.perf_counter() - begun,
        notes=(*problem.notes, *seen.notes),
    )


def predicted(problem: Problem, training: Sequence[Trajectory], threads: int = 0) -> Preflight:
    """Predict intervals, verdicts and sources from one linearisation at the nominal values.

    What is unknown beside the parameters is the same as in the fit.

    Args:
        problem: The model and the parameters.
        training: Sequences; those on which the nominal model is unstable are left out.
        threads: Simulation threads; 0 means one per core.

    Raises:
        FitError: There is nothing to fit, the nominal model is unstable on all sequences, or none
            of the others holds a measured sample that counts.
    """
    begun = time.perf_counter()
    if not training or not problem.parameters:
        msg = (
            f'Nothing to predict: {len(training)} training sequences and '
            f'{len(problem.parameters)} parameters.'
        )
        raise FitError(msg)
    parameters = []
    for unknown in problem.parameters:
        low, high = unknown.min_value, unknown.max_value
        margin = _INSIDE * (high - low) if np.isfinite(high - low) else 0.0
        nominal = float(np.clip(unknown.nominal, low + margin, high - margin))
        parameters.append(dataclasses.replace(unknown, nominal=nominal))
    stable, diverged = _stable(problem, training, parameters, threads)
    timings = command_timings(stable, parameters)
    unknowns = (*parameters, *timings, *torque_delay(stable, parameters))
    drives = problem.servos
    with make_simulator(problem.spec, unknowns, stable, threads, drives=drives) as bare:
        noise = estimate_noise(bare.runs)
        noises = Residuals(bare, noise).noise
        unknowns = (*unknowns, *initial_states(bare.model, bare.runs, noises, unknowns))
    with make_simulator(problem.spec, unknowns, stable, threads, drives=drives) as simulator:
        residuals = Residuals(simulator, noise)
        x = np.array([unknown.nominal for unknown in unknowns])
        jacobian, samples = condensed(Differences(residuals).at(x).jacobian, residuals.samples)
    point = Solution(x, np.zeros(len(jacobian)), 0.0, '', '', success=True, trace=())
    linear = linearised(point, jacobian, unknowns, samples)
    # Widths are compared with the nominal values themselves, also where they are at a bound.
    count = len(parameters)
    exact = np.array([unknown.nominal for unknown in (*problem.parameters, *unknowns[count:])])
    linear = dataclasses.replace(linear, unknowns=(*problem.parameters, *unknowns[count:]), x=exact)
    measured = int(np.count_nonzero(residuals.samples.sensor >= 0))
    expected = from_noise(linear, measured)
    judged = verdicts(linear, expected)
    return Preflight(
        parameters=tuple(
            PredictedParameter(
                name=unknown.name,
                unit=unknown.unit,
                nominal=unknown.nominal,
                half=np.nan if verdict.blind else float(half),
                verdict=verdict.kind.among(verdict.confounded_with),
                verdict_kind=verdict.kind,
                explanation=verdict.explanation,
            )
            for unknown, half, verdict in zip(
                problem.parameters, expected.half, judged.each, strict=False
            )
        ),
        combinations=judged.combinations,
        sources=sources(linear, count),
        noise=residuals.noise,
        joints=(),
        saturations=(),
        health=(),
        diverged=diverged,
        dead=residuals.dead,
        samples=measured,
        rollouts=residuals.evaluations,
        seconds=time.perf_counter() - begun,
    )


def from_noise(linear: Linear, samples: int) -> Spread:
    """Return how far estimates may be off with independent noise of the sizes assumed.

    The covariance is H⁻¹ (Jᵀ J + Pᵀ P) H⁻¹ with J the rows of measurements, P those of priors times
    the deviations that are expected of them, and H the curvature of the cost.

    Args:
        linear: The linearised problem.
        samples: So many measured samples it stands for.
    """
    count, free, scale = len(linear.unknowns), linear.free, linear.scale[linear.free]
    measured = linear.scaled[linear.samples.sensor >= 0]
    prior = linear.unmeasured
    errors = linear.inverse @ (measured.T @ measured + prior.T @ prior) @ linear.inverse
    covariance = np.full((count, count), np.nan)
    covariance[np.ix_(free, free)] = errors / np.outer(scale, scale)
    half = np.full(count, np.nan)
    quantile = float(scipy.special.ndtri((1 + LEVEL) / 2))
    half[free] = quantile * np.sqrt(np.maximum(np.diag(errors), 0.0)) / scale
    return Spread(half, covariance, METHOD, float(samples))


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
        msg = (
            f'The simulation of every training sequence becomes unstable at the nominal values, '
            f'that of {worst.sequence!r} after {worst.seconds:.2f} s; expected values nearer to '
            'the robot, or a smaller timestep.'
        )
        raise FitError(msg)
    return tuple(stable), tuple(diverged)


def condensed(
    jacobian: NDArray[np.float64], samples: Samples
) -> tuple[NDArray[np.float64], Samples]:
    """Replace the rows of each sensor in each sequence by their triangle, at most p of them.

    Rows of independent samples of one deviation may be rotated: an orthogonal matrix times them
    holds the same information, whatever is asked of it later, at a hundredth of the length.

    Args:
        jacobian: (n, p) derivative of the residuals.
        samples: What each residual is.

    Returns:
        The shorter derivative, priors last and as they were, and what its rows are; times are 0.
    """
    prior = samples.sensor == PRIOR
    group = samples.sequence * len(samples.sensors) + samples.sensor
    order = np.argsort(np.where(prior, -1, group), kind='stable')[np.count_nonzero(prior) :]
    borders = np.flatnonzero(np.diff(group[order])) + 1
    parts, sequence, sensor = [], [], []
    for rows in np.split(order, borders):
        triangle = np.linalg.qr(jacobian[rows], mode='r')
        parts.append(triangle)
        sequence.append(np.full(len(triangle), samples.sequence[rows[0]]))
        sensor.append(np.full(len(triangle), samples.sensor[rows[0]]))
    shorter = np.concatenate([*parts, jacobian[prior]])
    count = len(shorter) - np.count_nonzero(prior)
    variance = samples.variance
    if variance is not None:
        variance = np.concatenate([np.ones(count), variance[prior]])
    return shorter, dataclasses.replace(
        samples,
        sequence=np.concatenate([*sequence, samples.sequence[prior]]),
        time=np.zeros(len(shorter)),
        sensor=np.concatenate([*sensor, samples.sensor[prior]]),
        variance=variance,
    )


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
