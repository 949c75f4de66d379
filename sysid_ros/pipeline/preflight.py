# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a fit would be able to say, before it is made."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.special

from sysid_ros.alignment.inspection import inspect
from sysid_ros.bags import read_bag
from sysid_ros.config import load_mapping
from sysid_ros.errors import FitError
from sysid_ros.identification.noise import estimate_noise
from sysid_ros.identification.nuisances import arrival_offsets, initial_states
from sysid_ros.identification.prediction import make_simulator, predict
from sysid_ros.identification.residuals import Residuals
from sysid_ros.identification.solver.least_squares import Solution, linearise
from sysid_ros.identification.statistics.linear import linearised
from sysid_ros.identification.statistics.spread import LEVEL, Spread, prior_jacobian, spread
from sysid_ros.identification.statistics.verdicts import IDENTIFIED, verdicts
from sysid_ros.pipeline.information import Source, sources
from sysid_ros.pipeline.saturation import Saturation, saturations

if TYPE_CHECKING:
    from collections.abc import Sequence as Many

    from numpy.typing import NDArray

    from sysid_ros.alignment.coverage import Excitation
    from sysid_ros.alignment.health import HealthFinding
    from sysid_ros.alignment.lag import Lag
    from sysid_ros.config import CalibrationConfig
    from sysid_ros.identification.sequence import Sequence
    from sysid_ros.identification.statistics import Combination
    from sysid_ros.identification.statistics.linear import Linear
    from sysid_ros.identification.unknown import Unknown
    from sysid_ros.pipeline.loading import Observer, Problem

#: A nominal value at a bound is moved inside by this part of the bounds' distance: that a value
#: starts at a bound does not say that it ends there.
_INSIDE = 1e-5

METHOD = (
    'linearised at the nominal values, as if the model were right: noise as the roughness of each '
    'signal shows it, independent from sample to sample'
)
AFTER_STEP = (
    'with what one linear step from the nominal values leaves unexplained, its size and its '
    'correlation in time, as the noise; far from the nominal values that is too wide'
)


class PredictedParameter(NamedTuple):
    """What is to be expected of one parameter.

    Attributes:
        name: Of the parameter.
        unit: Of its value.
        nominal: Value where it was judged.
        half: Half-width of the 95 % interval from noise alone; NaN where there would be none.
        half_after_step: The same with what one linear step leaves unexplained as the noise.
        verdict: As after a fit, from noise alone.
        explanation: What is determined instead, and what to record; empty where identified.
    """

    name: str
    unit: str
    nominal: float
    half: float
    half_after_step: float
    verdict: str
    explanation: str


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
        method_after_step: What the second kind of intervals assumes.
    """

    parameters: tuple[PredictedParameter, ...]
    combinations: tuple[Combination, ...]
    sources: tuple[Source, ...]
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
    method_after_step: str = AFTER_STEP

    @property
    def doubtful(self) -> tuple[str, ...]:
        """Names of parameters that would not be identified."""
        return tuple(p.name for p in self.parameters if p.verdict != IDENTIFIED)


def preflight(config: CalibrationConfig, problem: Problem, observer: Observer) -> Preflight:
    """Predict what a fit would say.

    Args:
        config: The validated configuration.
        problem: What is to be identified, from what.
        observer: Is told of stages.

    Raises:
        FitError: There is nothing to fit, or the nominal model is unstable on all sequences.
        AlignmentError: The mapping does not fit a bag.
    """
    begun = time.perf_counter()
    training = problem.sequences('train')
    if not training or not problem.parameters:
        msg = (
            f'Nothing to predict: {len(training)} training sequences and '
            f'{len(problem.parameters)} parameters.'
        )
        raise FitError(msg)
    observer.stage('linearising at the nominal values')
    stable, diverged = _stable(problem, training, config.solver.threads)
    found = predicted(problem, stable, config.solver.threads)
    observer.stage('looking at lags and motion')
    return dataclasses.replace(
        found,
        joints=_motions(config, problem),
        saturations=tuple(s for run in training for s in saturations(problem.model, run)),
        health=tuple(h for r in problem.recordings for h in r.alignment.health),
        diverged=diverged,
        seconds=time.perf_counter() - begun,
    )


def predicted(problem: Problem, training: Many[Sequence], threads: int = 0) -> Preflight:
    """Predict intervals, verdicts and sources from one linearisation at the nominal values.

    Args:
        problem: The model and the parameters.
        training: Sequences on which the nominal model is stable.
        threads: Simulation threads; 0 means one per core.

    Raises:
        FitError: No sequence holds a measured sample that counts.
    """
    begun = time.perf_counter()
    told = {
        t.name for p in problem.parameters for t in p.targets if t.attribute == 'arrival_offset'
    }
    late = arrival_offsets([sequence for sequence in training if sequence.name not in told])
    unknowns = (*_inside(problem.parameters), *late)
    with make_simulator(problem.spec, unknowns, training, threads) as bare:
        noise = estimate_noise(bare.runs)
        compared = Residuals(bare, noise)
        unknowns = (*unknowns, *initial_states(bare.model, bare.runs, compared.noise, unknowns))
    with make_simulator(problem.spec, unknowns, training, threads) as simulator:
        residuals = Residuals(simulator, noise)
        x = np.array([unknown.nominal for unknown in unknowns])
        jacobian = linearise(residuals, x)
        residual = residuals(x[None, :])[:, 0]
        rollouts = residuals.evaluations
    point = Solution(x, residual, float(residual @ residual) / 2, '', '', success=True, trace=())
    linear = linearised(point, jacobian, unknowns, residuals.samples)
    free = linear.scaled
    left = linear.residual - free @ (linear.inverse @ (free.T @ linear.residual))
    after = spread(dataclasses.replace(linear, residual=left))
    # Widths are compared with the nominal values themselves, also where they are at a bound.
    exact = x.copy()
    exact[: len(problem.parameters)] = [unknown.nominal for unknown in problem.parameters]
    told_as = (*problem.parameters, *unknowns[len(problem.parameters) :])
    clean = dataclasses.replace(linear, unknowns=told_as, x=exact, residual=np.zeros_like(left))
    expected = from_noise(clean)
    judged = verdicts(clean, expected)
    count = len(problem.parameters)
    each = tuple(
        PredictedParameter(
            name=unknown.name,
            unit=unknown.unit,
            nominal=unknown.nominal,
            half=np.nan if verdict.blind else float(expected.half[index]),
            half_after_step=np.nan if verdict.blind else float(after.half[index]),
            verdict=verdict.text,
            explanation=verdict.explanation,
        )
        for index, (unknown, verdict) in enumerate(
            zip(problem.parameters, judged.each[:count], strict=True)
        )
    )
    return Preflight(
        parameters=each,
        combinations=judged.combinations,
        sources=sources(clean, count),
        noise=residuals.noise,
        joints=(),
        saturations=(),
        health=(),
        diverged=(),
        dead=residuals.dead,
        samples=int(np.sum(residuals.samples.sensor >= 0)),
        rollouts=rollouts,
        seconds=time.perf_counter() - begun,
    )


def from_noise(linear: Linear) -> Spread:
    """Return how far estimates may be off with independent noise of the sizes assumed.

    The covariance is H⁻¹ (Jᵀ J + Pᵀ P) H⁻¹ with J the rows of measurements, P those of priors times
    the deviations that are expected of them, and H the curvature of the cost.
    """
    count, free, scale = len(linear.unknowns), linear.free, linear.scale[linear.free]
    measured = linear.scaled[linear.samples.sensor >= 0]
    prior = prior_jacobian(linear.scaled, linear.samples)
    errors = linear.inverse @ (measured.T @ measured + prior.T @ prior) @ linear.inverse
    covariance = np.full((count, count), np.nan)
    covariance[np.ix_(free, free)] = errors / np.outer(scale, scale)
    half = np.full(count, np.nan)
    quantile = float(scipy.special.ndtri((1 + LEVEL) / 2))
    half[free] = quantile * np.sqrt(np.maximum(np.diag(errors), 0.0)) / scale
    return Spread(half, covariance, METHOD, float(len(measured)))


def _inside(parameters: Many[Unknown]) -> tuple[Unknown, ...]:
    """Return parameters whose nominal values are not at a bound."""
    moved = []
    for unknown in parameters:
        span = unknown.max_value - unknown.min_value
        margin = _INSIDE * span if np.isfinite(span) else 0.0
        nominal = float(
            np.clip(unknown.nominal, unknown.min_value + margin, unknown.max_value - margin)
        )
        moved.append(dataclasses.replace(unknown, nominal=nominal))
    return tuple(moved)


def _stable(
    problem: Problem, training: Many[Sequence], threads: int
) -> tuple[tuple[Sequence, ...], tuple[Divergence, ...]]:
    """Tell the sequences on which the nominal model is stable from those where it is not.

    Raises:
        FitError: There is none.
    """
    x = np.array([unknown.nominal for unknown in problem.parameters])
    each = predict(problem.spec, training, problem.parameters, x, threads)
    stable, diverged = [], []
    for sequence, prediction in zip(training, each, strict=True):
        if prediction.diverged[0]:
            ends = [
                _stands_still(series.times, channels[0])
                for series, channels in zip(sequence.measurements, prediction.channels, strict=True)
            ]
            diverged.append(Divergence(sequence.name, max(ends, default=0.0)))
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


def _stands_still(times: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """Return when values change for the last time: an unstable simulation repeats its last."""
    with np.errstate(invalid='ignore', over='ignore'):
        moves = np.flatnonzero(np.any(np.diff(values, axis=0) != 0, axis=1))
    return float(times[moves[-1] + 1]) if len(moves) else 0.0


def _motions(config: CalibrationConfig, problem: Problem) -> tuple[JointMotion, ...]:
    mapping = load_mapping(config.mapping) if isinstance(config.mapping, Path) else config.mapping
    return tuple(
        JointMotion(recording.alignment.bag, joint.name, joint.lag, joint.excitation)
        for recording in problem.recordings
        if recording.role == 'train'
        for joint in inspect(
            read_bag(recording.path), problem.model, mapping=mapping, stamps=config.stamps
        ).joints
        if joint.excitation is not None or joint.lag is not None
    )
