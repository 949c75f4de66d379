# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How sure the fit is of each parameter, and what the data cannot say."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
import scipy.special

from sysid_ros.identification.layout import PRIOR
from sysid_ros.identification.solver.losses import rho

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sysid_ros.identification.layout import Samples
    from sysid_ros.identification.solver.least_squares import Solution
    from sysid_ros.identification.solver.losses import Loss
    from sysid_ros.identification.unknown import Unknown

#: Level of all intervals.
LEVEL = 0.95
#: Scores are summed over bins of so many seconds before their correlation in time is estimated.
_BIN = 0.01
#: The autoregression that whitens the scores is kept stationary by this limit.
_LARGEST_AR = 0.97
#: Singular values of the scaled Jacobian below this fraction of the largest carry no information.
_SMALLEST_SINGULAR = 1e-6
#: Parameters whose estimates correlate more than this cannot be told apart.
_LARGEST_CORRELATION = 0.98
#: An interval wider than both fractions, of the value and of the bounds, says that the motion
#: did not excite the parameter.
_WIDE_OF_VALUE = 0.25
_WIDE_OF_BOUNDS = 0.02
#: Where more than half of the information is the prior's, the interval is wider than this multiple
#: of its standard deviation.
_PRIOR_SHARE = float(np.sqrt(0.5)) * NormalDist().inv_cdf((1 + LEVEL) / 2)
#: A value within this fraction of the bounds' distance from one of them is at the bound.
_AT_BOUND = 1e-6
#: A parameter takes part in a direction when its share of the unit vector exceeds this.
_TAKES_PART = 0.1

IDENTIFIED = 'identified'
AT_BOUND = 'at bound'
NOT_EXCITED = 'not excited'
PRIOR_DOMINATED = 'prior-dominated'


@dataclass(frozen=True)
class Interval:
    """95 % interval and verdict of one parameter; the limits are NaN where there is none."""

    low: float
    high: float
    verdict: str


def intervals(
    solution: Solution,
    jacobian: NDArray[np.float64],
    parameters: Sequence[Unknown],
    samples: Samples,
    *,
    loss: Loss = 'linear',
) -> tuple[Interval, ...]:
    """Return interval and verdict of every parameter.

    Residuals of a real robot are correlated in time and differ in size between channels, so the
    intervals are those of the sandwich estimator. The influence of each instant on a parameter,
    ψ_t = H⁻¹ Σ J_r r over the residuals at t, is summed over short bins; the long-run variance of
    that series is estimated after whitening by an AR(1) with a Bartlett kernel of automatic
    bandwidth (Andrews & Monahan, Econometrica 60, 1992), bins of different sequences being
    independent. Student's t has as many degrees of freedom as the series has effective samples,
    and the white-noise interval is a lower limit.

    Args:
        solution: Where the solver ended.
        jacobian: (n, p) derivative of the residuals there, per unit of each parameter.
        parameters: The unknowns, p of them.
        samples: What each residual is.
        loss: The loss of the fit; robust losses weight residuals.
    """
    weight = rho(solution.residual, loss)[1]
    root = np.sqrt(weight)
    jacobian = jacobian * root[:, None]
    residual = solution.residual * root
    at_bound = np.array(
        [_is_at_bound(x, p) for x, p in zip(solution.x, parameters, strict=True)], dtype=bool
    )
    norms = np.linalg.norm(jacobian, axis=0)
    scale = np.where(norms > 0, norms, 1.0)
    scaled = jacobian / scale
    free = ~at_bound & (norms > 0)
    inverse, null = _information(scaled[:, free])
    correlation = _correlation(inverse)
    spread = np.full(len(parameters), np.nan)
    if free.any():
        spread[free] = _half_widths(inverse, scaled[:, free], residual, samples) / scale[free]
    found: list[Interval] = []
    order = np.flatnonzero(free)
    for index, (value, parameter) in enumerate(zip(solution.x, parameters, strict=True)):
        if at_bound[index]:
            found.append(Interval(np.nan, np.nan, AT_BOUND))
            continue
        if not free[index]:
            found.append(Interval(np.nan, np.nan, NOT_EXCITED))
            continue
        place = int(np.flatnonzero(order == index)[0])
        half = float(spread[index])
        blind = bool(null.size) and bool(np.any(np.abs(null[place]) > _TAKES_PART))
        verdict = _verdict(float(value), half, parameter)
        if blind or verdict != IDENTIFIED:
            names = [parameters[order[i]].name for i in _partners(place, null, correlation)]
            verdict = f'confounded with {", ".join(names)}' if names else verdict
        if parameter.prior is not None and half > _PRIOR_SHARE * parameter.prior[1]:
            verdict = PRIOR_DOMINATED
        if blind:
            half = np.nan
        # np.maximum passes NaN on: no interval stays no interval.
        low = float(np.maximum(value - half, parameter.min_value))
        high = float(np.minimum(value + half, parameter.max_value))
        found.append(Interval(low, high, verdict))
    return tuple(found)


def _is_at_bound(value: float, parameter: Unknown) -> bool:
    margin = _AT_BOUND * (parameter.max_value - parameter.min_value)
    return value - parameter.min_value <= margin or parameter.max_value - value <= margin


def _information(
    scaled: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the pseudo-inverse of the scaled information and a basis of what it cannot see."""
    _, singular, right = np.linalg.svd(scaled.T @ scaled, hermitian=True)
    if not len(singular):
        return np.zeros((0, 0)), np.zeros((0, 0))
    seen = singular > _SMALLEST_SINGULAR**2 * singular[0]
    inverse = (right[seen].T / singular[seen]) @ right[seen]
    return inverse, right[~seen].T


def _correlation(inverse: NDArray[np.float64]) -> NDArray[np.float64]:
    deviation = np.sqrt(np.maximum(np.diag(inverse), 1e-300))
    result: NDArray[np.float64] = inverse / np.outer(deviation, deviation)
    return result


def _partners(place: int, null: NDArray[np.float64], correlation: NDArray[np.float64]) -> list[int]:
    """Return the parameters that cannot be told from one, the strongest first."""
    share = np.abs(null)
    strength = np.abs(correlation[place]).copy()
    strength[strength <= _LARGEST_CORRELATION] = 0.0
    for direction in share.T:
        if direction[place] > _TAKES_PART:
            strength = np.maximum(strength, np.where(direction > _TAKES_PART, 1.0, 0.0))
    strength[place] = 0.0
    return [int(i) for i in np.argsort(-strength) if strength[i] > 0]


def _half_widths(
    inverse: NDArray[np.float64],
    jacobian: NDArray[np.float64],
    residual: NDArray[np.float64],
    samples: Samples,
) -> NDArray[np.float64]:
    """Return (p,) half-widths in units of the scaled parameters."""
    n, p = jacobian.shape
    freedom = max(n - p, 1)
    white = np.sqrt(np.diag(inverse) * float(residual @ residual) / freedom)
    white_half = white * scipy.special.stdtrit(freedom, (1 + LEVEL) / 2)
    measured = samples.sensor != PRIOR
    influence = (jacobian * residual[:, None]) @ inverse
    # Not the offsets' residuals themselves but what they are expected to be: one each.
    expected = np.sum((jacobian[~measured] @ inverse) ** 2, axis=0)
    half = np.empty(p)
    for column in range(p):
        series = [
            _binned(influence[rows, column], samples.time[rows])
            for rows in (measured & (samples.sequence == s) for s in np.unique(samples.sequence))
            if rows.any()
        ]
        variance, effective = _long_run(series)
        quantile = scipy.special.stdtrit(max(effective - 1, 1.0), (1 + LEVEL) / 2)
        half[column] = np.sqrt(variance * n / freedom + expected[column]) * quantile
    widest: NDArray[np.float64] = np.maximum(half, white_half)
    return widest


def _binned(values: NDArray[np.float64], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum values over as many instants as make up a bin on average, without empty bins.

    Bins of equal time would hold now two, now no samples of a series with about their rate, which
    hides how similar neighbours are.
    """
    instants, place = np.unique(times, return_inverse=True)
    spacing = float(instants[-1] - instants[0]) / max(len(instants) - 1, 1)
    size = max(round(_BIN / spacing), 1) if spacing > 0 else 1
    return np.bincount(place // size, values).astype(np.float64)


def _long_run(series: list[NDArray[np.float64]]) -> tuple[float, float]:
    """Return the variance of the sum of some independent series, and their effective size."""
    before = np.concatenate([s[:-1] for s in series])
    after = np.concatenate([s[1:] for s in series])
    total = float(sum(s @ s for s in series))
    if total == 0 or not len(before):
        return total, float(len(series))
    rho1 = float(np.clip(before @ after / max(before @ before, 1e-300), -_LARGEST_AR, _LARGEST_AR))
    whitened = [s[1:] - rho1 * s[:-1] for s in series]
    count = sum(len(w) for w in whitened)
    first = sum(float(w[1:] @ w[:-1]) for w in whitened) / max(
        sum(float(w @ w) for w in whitened), 1e-300
    )
    first = float(np.clip(first, -_LARGEST_AR, _LARGEST_AR))
    alpha = 4 * first**2 / ((1 - first) ** 2 * (1 + first) ** 2)
    bandwidth = int(np.ceil(1.1447 * (alpha * count) ** (1 / 3)))
    variance = sum(float(w @ w) for w in whitened)
    for lag in range(1, bandwidth + 1):
        covariance = sum(float(w[lag:] @ w[:-lag]) for w in whitened if len(w) > lag)
        variance += 2 * (1 - lag / (bandwidth + 1)) * covariance
    variance = max(variance, 1e-300) / (1 - rho1) ** 2
    effective = sum(len(s) for s in series) * min(total / variance, 1.0)
    return variance, effective


def _verdict(value: float, half: float, parameter: Unknown) -> str:
    width = parameter.max_value - parameter.min_value
    if half > _WIDE_OF_VALUE * abs(value) and half > _WIDE_OF_BOUNDS * width:
        return NOT_EXCITED
    return IDENTIFIED
