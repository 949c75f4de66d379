# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Weights that allow for noise which is alike from sample to sample.

Where the noise of a sensor has a memory, a sum of squares of what is new at each sample has a
smaller variance than that of the residuals themselves (Aitken, Proc. R. Soc. Edinburgh 55, 1935).
But what a model lacks has a memory as well, and other weights then give other values: both
estimates have to agree as far as noise lets them (Hausman, Econometrica 46, 1978).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.linalg
import scipy.special

from sysid_ros.inference.linear import linearised, with_encoders
from sysid_ros.inference.spread import spread
from sysid_ros.inference.stationary import channel_noises, channels_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.estimation.layout import Samples
    from sysid_ros.estimation.solver.least_squares import Solution
    from sysid_ros.estimation.solver.problem import ResidualLike
    from sysid_ros.inference.linear import Linear
    from sysid_ros.inference.stationary import ChannelNoise

#: Noise whose effective samples are below this share of all is worth other weights.
_SLOW = 0.5
#: An encoder's steps are errors of the motion and not of time where they are this part of the
#: residuals' variance.
_STEPS = 0.25
#: Samples are evenly spaced where no interval is farther than this from the median, in parts of it.
_UNEVEN = 0.25
#: Weights are used where they make standard errors smaller than this, in the median.
_NARROWER = 0.95
#: Both estimates agree unless noise sets them so far apart with less than this probability. They
#: are compared along directions in which their variances differ by this part at least.
_CHANCE, _DIFFER = 0.01, 0.02
#: Steps to the new optimum; one is there that is shorter than this, in standard errors. The sum of
#: squares does not rise on the way, but for rounding, in variances of the noise.
_STEPS_TO_OPTIMUM, _SETTLED, _NOTHING = 5, 0.01, 0.01


class Whitening:
    """Leaves of residuals, or of changes of them, what is new at each sample, in units of it.

    Attributes:
        sensors: Whose residuals change; there are none where no noise has a memory.
    """

    def __init__(self, linear: Linear) -> None:
        """Describe the noise of each sensor that has a memory and is sampled evenly."""
        samples = linear.samples
        channels, noises = channels_of(linear), channel_noises(linear)
        self.sensors: set[str] = set()
        self._parts: list[tuple[NDArray[np.int64], ChannelNoise]] = []
        for sensor, parts in channels.items():
            noise = noises[sensor]
            step = linear.steps.get(sensor, 0.0)
            squares = float(np.mean(linear.residual[np.concatenate(parts)] ** 2))
            if (
                noise.effective < _SLOW * noise.samples
                and len(noise.coefficients)
                and step**2 / 12.0 < _STEPS * squares
                and all(_even(samples.time[rows]) for rows in parts)
            ):
                self.sensors.add(samples.sensors[sensor])
                self._parts += [(rows, noise) for rows in parts]

    def __call__(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (n,) residuals or (n, k) changes of them with all sensors' noise white.

        The first samples of a recording have none before them: they are whitened by the Cholesky
        factor of their own covariance.
        """
        found: NDArray[np.float64] = values.copy()
        for rows, noise in self._parts:
            own, order = values[rows], len(noise.coefficients)
            first = min(order, len(rows))
            factor = np.linalg.cholesky(scipy.linalg.toeplitz(noise.covariance[:first]))
            new = own.copy()
            for lag, coefficient in enumerate(noise.coefficients, 1):
                new[lag:] -= coefficient * own[:-lag]
            new /= np.sqrt(noise.innovation)
            new[:first] = scipy.linalg.solve_triangular(factor, own[:first], lower=True)
            found[rows] = new
        return found


class Reweighted(NamedTuple):
    """Where the sum of the squares of what is new at each sample is least.

    Attributes:
        whitening: What makes the noise white.
        x: (p,) the values there.
        residual: (n,) the residuals there, as they are.
    """

    whitening: Whitening
    x: NDArray[np.float64]
    residual: NDArray[np.float64]


def reweighted(
    residuals: ResidualLike,
    solution: Solution,
    jacobian: NDArray[np.float64],
    samples: Samples,
    covariance: NDArray[np.float64],
) -> Reweighted | str | None:
    """Fit with weights that allow for the memory of the noise, beginning at a solution.

    Args:
        residuals: What was fitted.
        solution: Where the solver ended.
        jacobian: (n, p) derivative of the residuals there, per unit of each parameter.
        samples: What each residual is.
        covariance: (p, p) of the estimates, in the parameters' units; NaN without an interval.

    Returns:
        What was found; a sentence where the estimates contradict each other; None where noise has
        no memory worth it, or no optimum is nearby.
    """
    linear = with_encoders(linearised(solution, jacobian, residuals.unknowns, samples))
    whitening = Whitening(linear)
    if not whitening.sensors:
        return None
    there = _descended(residuals, solution, jacobian, samples, whitening)
    if there is None:
        return None
    problem, residual = there
    found = spread(problem).covariance
    both = np.flatnonzero(np.isfinite(np.diag(found)) & np.isfinite(np.diag(covariance)))
    if not len(both):
        return None
    before, after = covariance[np.ix_(both, both)], found[np.ix_(both, both)]
    if not np.median(np.sqrt(np.diag(after) / np.diag(before))) < _NARROWER:
        return None
    chance = _agree((problem.x - solution.x)[both], before, after)
    if chance < _CHANCE:
        return (
            'Weights that allow for noise which is alike from sample to sample would move the '
            f'values by more than it explains (a chance of {chance:.1g}): the model lacks '
            'something, and they were not used.'
        )
    return Reweighted(whitening, problem.x, residual)


def _descended(
    residuals: ResidualLike,
    solution: Solution,
    jacobian: NDArray[np.float64],
    samples: Samples,
    whitening: Whitening,
) -> tuple[Linear, NDArray[np.float64]] | None:
    """Return the whitened problem at its optimum and the (n,) residuals there; None without one."""
    low = np.array([unknown.min_value for unknown in residuals.unknowns])
    high = np.array([unknown.max_value for unknown in residuals.unknowns])
    x, residual = solution.x.copy(), solution.residual
    white = whitening(jacobian)
    for _ in range(_STEPS_TO_OPTIMUM):
        at = dataclasses.replace(solution, x=x, residual=whitening(residual))
        problem = linearised(at, white, residuals.unknowns, samples)
        errors = np.sqrt(np.diag(problem.inverse)) / problem.scale[problem.free]
        if np.max(np.abs(problem.step) / errors, initial=0.0) < _SETTLED:
            return problem, residual
        beside = x.copy()
        beside[problem.free] -= problem.step
        beside = np.clip(beside, low, high)
        there = residuals(beside[None])[:, 0]
        if not np.sum(whitening(there) ** 2) < np.sum(at.residual**2) + _NOTHING:
            return None
        x, residual = beside, there
    return None


def _agree(
    apart: NDArray[np.float64], before: NDArray[np.float64], after: NDArray[np.float64]
) -> float:
    """Return how likely noise sets two estimates, of which one is efficient, so far apart.

    The covariance of their difference is the difference of their covariances (Hausman, 1978).
    """
    size = np.sqrt(np.diag(before))
    values, vectors = np.linalg.eigh((before - after) / np.outer(size, size))
    told = values > _DIFFER
    squares = float(np.sum((vectors[:, told].T @ (apart / size)) ** 2 / values[told]))
    return float(scipy.special.chdtrc(int(told.sum()), squares)) if told.any() else 1.0


def _even(times: NDArray[np.float64]) -> bool:
    apart = np.diff(times)
    if not len(apart):
        return False
    usual = float(np.median(apart))
    return bool(np.all(np.abs(apart - usual) <= _UNEVEN * usual))
