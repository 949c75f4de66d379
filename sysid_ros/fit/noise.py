# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Noise of sensors and stamps, from the recording alone, and priors of unknowns.

Residuals are in units of the one, and have rows for the other.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sysid_ros.fit.differences import NEGLIGIBLE
from sysid_ros.model.targets import Unknown
from sysid_ros.signals import Trajectory
from sysid_ros.simulation.runs import Run

Array = NDArray[np.float64]

#: MAD of a normal distribution in units of its standard deviation.
MAD_OF_NORMAL = 0.6745
#: Order of the differences: motion that is smooth over four samples hardly passes. White noise does
#: with the root of the sum of the squares of the binomial weights.
_ORDER = 3
_GAIN = math.sqrt(math.comb(2 * _ORDER, _ORDER))
#: Fewer samples say nothing of noise, motion or an unknown.
FEWEST_SAMPLES = 30
#: A channel without any visible noise is trusted to this fraction of its range.
_SMALLEST_RELATIVE_NOISE = 1e-5
#: What is smaller, in SI units, is rest or rounding; stamps are whole nanoseconds.
SMALLEST = 1e-9
#: Arrivals that vary by more than this are not jitter but irregular commands, s.
_LARGEST_JITTER = 5e-4
#: An encoder shows so many levels at least; each is a whole number of steps but for this part, and
#: equal levels differ by the rounding of single precision, in parts of the range.
_FEWEST_LEVELS, _OFF_LEVEL = 8, 0.05
_ROUNDING = float(np.finfo(np.float32).eps)


def arrival_jitter(sequences: Iterable[Trajectory]) -> float:
    """Return how much the stamps of the commands jitter, as a standard deviation in s.

    How much sooner or later than at the recorder a command arrived at the robot cannot be seen in
    a bag, but it is of the size of the jitter of the arrivals, which can: the spread of their
    intervals over √2, an interval having two ends. Evenly stamped commands have none, nor
    have those that are stamped as they came to act.
    """
    series = [
        (series, set(series.names) - sequence.interpolated - sequence.applied)
        for sequence in sequences
        for series in sequence.commands
    ]
    # What is interpolated has the stamps of whoever samples it, not of messages that act.
    intervals = [np.diff(s.times) for s, held in series for _ in held if len(s) > 1]
    if not intervals:
        return 0.0
    quarter, three_quarters = np.percentile(np.concatenate(intervals), [25, 75])
    jitter = float(three_quarters - quarter) / (2 * MAD_OF_NORMAL) / math.sqrt(2.0)
    return min(jitter, _LARGEST_JITTER) if jitter > SMALLEST else 0.0


def estimate_noise(runs: Iterable[Run]) -> dict[str, float]:
    """Estimate each sensor's noise from the roughness of its own samples.

    The third difference of a smooth motion is small, that of white noise is not: its median
    absolute value gives the standard deviation. The quantisation step, the smallest jump between
    different neighbours, bounds it from below by step/sqrt(12).

    Returns:
        Sensor name to standard deviation, in the sensor's unit, always positive.
    """
    series: dict[str, list[Array]] = {}
    for sensor, values in measured(runs):
        series.setdefault(sensor, []).append(values)
    return {sensor: noise_of(parts) for sensor, parts in series.items()}


def noise_of(series: Iterable[Array]) -> float:
    """Estimate the noise of one sensor from (n,) samples of each of its recordings."""
    squares = [max(_roughness(values), _floor(values)) ** 2 for values in series]
    return float(np.sqrt(np.mean(squares)))


def smallest_noise(runs: Iterable[Run]) -> dict[str, float]:
    """Return how far each sensor may be trusted at most, in the sensor's unit."""
    floors: dict[str, float] = {}
    for sensor, values in measured(runs):
        floors[sensor] = max(floors.get(sensor, 0.0), _floor(values))
    return floors


def encoder_steps(runs: Iterable[Run]) -> dict[str, float]:
    """Return the step of each sensor whose readings are whole steps apart, in its unit."""
    levels: dict[str, list[Array]] = {}
    for sensor, values in measured(runs):
        levels.setdefault(sensor, []).append(np.unique(values))
    steps = {sensor: encoder_step(np.concatenate(parts)) for sensor, parts in levels.items()}
    return {sensor: step for sensor, step in steps.items() if step is not None}


def encoder_step(values: Array) -> float | None:
    """Return the step of an encoder's (n,) readings; None where they are not whole steps apart."""
    values = np.unique(values)
    if len(values) < _FEWEST_LEVELS:
        return None
    jumps = np.diff(values)
    # Readings of one level differ by rounding.
    step = float(jumps[jumps > _ROUNDING * np.ptp(values)].min(initial=np.inf))
    for _ in range(2):
        # From level to level, rounding does not add up; over all of them the step is exact.
        counts = np.concatenate([[0.0], np.cumsum(np.round(jumps / step))])
        if not counts[-1]:
            return None
        step = float(np.ptp(values)) / float(counts[-1])
    off = np.abs(values - values[0] - counts * step)
    return step if np.all(off < _OFF_LEVEL * step) else None


def measured(runs: Iterable[Run]) -> Iterator[tuple[str, Array]]:
    """Yield sensor and samples of every channel that was measured at all."""
    for run in runs:
        for readings in run.readings:
            for sensor, values in zip(readings.sensors, readings.measured.T, strict=True):
                finite = np.isfinite(values)
                if finite.any():
                    yield sensor, values[finite]


def _roughness(values: Array) -> float:
    if len(values) <= _ORDER:
        return 0.0
    rough = np.abs(np.diff(values, _ORDER))
    sigma = float(np.median(rough)) / MAD_OF_NORMAL / _GAIN
    jumps = np.abs(np.diff(values))
    jumps = jumps[jumps > 0]
    step = float(jumps.min()) if len(jumps) else 0.0
    return max(sigma, step / float(np.sqrt(12.0)))


def _floor(values: Array) -> float:
    extent = float(np.ptp(values)) if len(values) else 0.0
    return max(extent * _SMALLEST_RELATIVE_NOISE, SMALLEST)


@dataclass(frozen=True)
class JointPrior:
    """A normal distribution of some parameters together."""

    names: tuple[str, ...]  # of the parameters, p of them
    mean: Array  # (p,) most likely values, in the parameters' units
    root: Array  # (p, r) matrix L with the inverse covariance L Lᵀ; the residuals are Lᵀ (mean - x)
    # What is expected of the square of each of these residuals. More than 1 where the data, whose
    # residuals resemble their neighbours, count as more than they say: the prior then counts as
    # more by the same factor, and is not surer for it.
    variance: float = 1.0

    @classmethod
    def of(cls, names: Sequence[str], mean: Array, covariance: Array) -> JointPrior:
        """Return the distribution with a (p,) mean and a (p, p) covariance, positive definite."""
        deviation = np.sqrt(np.diag(covariance))
        values, vectors = np.linalg.eigh(covariance / np.outer(deviation, deviation))
        kept = values > NEGLIGIBLE * values.max(initial=0.0)
        root = (vectors[:, kept] / np.sqrt(values[kept])) / deviation[:, None]
        return cls(tuple(names), np.asarray(mean, dtype=np.float64), root)

    def weighted(self, factor: float, *, variance: float = 1.0) -> JointPrior:
        """Return the prior with another weight.

        Args:
            factor: On its information.
            variance: What is then expected of the square of its residuals.
        """
        return dataclasses.replace(self, root=np.sqrt(factor) * self.root, variance=variance)


@dataclass(frozen=True)
class PriorRows:
    """Residuals of priors, linear in the unknowns: ``offset - matrix @ x``."""

    matrix: Array  # (r, p)
    offset: Array  # (r,)
    variance: Array  # (r,) what is expected of the square of each
    unknown: NDArray[np.int64]  # (r,) an unknown that each is about

    def residual(self, candidates: Array) -> Array:
        """Return the (m, r) residuals of (m, p or more) candidates."""
        found: Array = self.offset - candidates[:, : self.matrix.shape[1]] @ self.matrix.T
        return found


def prior_rows(unknowns: Sequence[Unknown], memory: JointPrior | None = None) -> PriorRows:
    """Return a row for the prior of each unknown that has one, and then those of a joint prior.

    Args:
        unknowns: All of them, p in number.
        memory: Of some of the unknowns, by name.
    """
    own = [(j, unknown.prior) for j, unknown in enumerate(unknowns) if unknown.prior is not None]
    matrix = np.zeros((len(own), len(unknowns)))
    offset = np.zeros(len(own))
    for row, (j, (mean, deviation)) in enumerate(own):
        matrix[row, j] = 1.0 / deviation
        offset[row] = mean / deviation
    variance = np.ones(len(own))
    about = np.array([j for j, _ in own], dtype=np.int64)
    if memory is not None:
        joint = np.zeros((memory.root.shape[1], len(unknowns)))
        places = {unknown.name: j for j, unknown in enumerate(unknowns)}
        columns = np.array([places[name] for name in memory.names], dtype=np.int64)
        joint[:, columns] = memory.root.T
        matrix = np.concatenate([matrix, joint])
        offset = np.concatenate([offset, memory.root.T @ memory.mean])
        variance = np.concatenate([variance, np.full(len(joint), memory.variance)])
        about = np.concatenate([about, np.full(len(joint), columns[0] if len(columns) else 0)])
    return PriorRows(matrix, offset, variance, about)
