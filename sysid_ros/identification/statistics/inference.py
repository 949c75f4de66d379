# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How sure the fit is of each parameter, and what the data cannot say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.identification.statistics.linear import linearised
from sysid_ros.identification.statistics.spread import spread
from sysid_ros.identification.statistics.verdicts import verdicts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sysid_ros.identification.layout import Samples
    from sysid_ros.identification.solver.least_squares import Solution
    from sysid_ros.identification.solver.losses import Loss
    from sysid_ros.identification.statistics.combinations import Combination
    from sysid_ros.identification.statistics.linear import Linear
    from sysid_ros.identification.statistics.spread import Spread
    from sysid_ros.identification.unknown import Unknown

#: Farther from the optimum than this, in standard errors, a fit has not converged.
_SETTLED = 0.1


@dataclass(frozen=True)
class Interval:
    """95 % interval and verdict of one parameter; the limits are NaN where there is none."""

    low: float
    high: float
    verdict: str
    explanation: str = ''


class SensorNoise(NamedTuple):
    """How alike neighbouring residuals of a sensor are, and how many are independent."""

    sensor: str
    samples: int
    effective: float
    autocorrelation: float


@dataclass(frozen=True)
class Inference:
    """What the data say about all parameters.

    Attributes:
        intervals: Interval and verdict of each parameter.
        covariance: (p, p) of the estimates, in the parameters' units; rows of parameters without
            interval are NaN.
        method: How the intervals were found, in words.
        effective: Number of independent samples that say as much as the residuals do.
        notes: What a reader of the intervals has to know, a sentence each.
        combinations: What is determined of parameters that cannot be told apart.
        noises: Of each sensor's residuals.
    """

    intervals: tuple[Interval, ...]
    covariance: NDArray[np.float64]
    method: str
    effective: float
    notes: tuple[str, ...] = ()
    combinations: tuple[Combination, ...] = ()
    noises: tuple[SensorNoise, ...] = ()


def infer(
    solution: Solution,
    jacobian: NDArray[np.float64],
    parameters: Sequence[Unknown],
    samples: Samples,
    *,
    loss: Loss = 'linear',
) -> Inference:
    """Return intervals and verdicts of all parameters.

    Args:
        solution: Where the solver ended.
        jacobian: (n, p) derivative of the residuals there, per unit of each parameter.
        parameters: The unknowns, p of them.
        samples: What each residual is.
        loss: The loss of the fit; robust losses weight residuals.
    """
    linear = linearised(solution, jacobian, parameters, samples, loss)
    found = spread(linear)
    intervals = []
    judged = verdicts(linear, found)
    blind = np.array([verdict.blind for verdict in judged.each], dtype=bool)
    covariance = np.where(blind | blind[:, None], np.nan, found.covariance)
    for index, verdict in enumerate(judged.each):
        half = np.nan if verdict.blind else found.half[index]
        unknown, value = parameters[index], solution.x[index]
        # np.maximum passes NaN on: no interval stays no interval.
        low = float(np.maximum(value - half, unknown.min_value))
        high = float(np.minimum(value + half, unknown.max_value))
        intervals.append(Interval(low, high, verdict.text, verdict.explanation))
    return Inference(
        tuple(intervals),
        covariance,
        found.method,
        found.effective,
        (*found.notes, *_unsettled(linear, found)),
        judged.combinations,
        tuple(
            SensorNoise(samples.sensors[c], noise.samples, noise.effective, noise.neighbours)
            for c, noise in sorted(found.noises.items())
        ),
    )


def _unsettled(linear: Linear, found: Spread) -> tuple[str, ...]:
    """Say so where the fit ended off the optimum: intervals around another point do not hold."""
    free = linear.free
    step = linear.inverse @ (linear.scaled.T @ linear.residual) / linear.scale[free]
    with np.errstate(invalid='ignore', divide='ignore'):
        share = np.abs(step) / np.sqrt(np.diag(found.covariance)[free])
    largest = float(np.max(share[np.isfinite(share)], initial=0.0))
    if largest <= _SETTLED:
        return ()
    note = (
        f'The fit ended about {largest:.1g} standard errors from the optimum: verdicts and '
        'intervals may not hold; let it run longer, or leave out what makes the motion rough.'
    )
    return (note,)
