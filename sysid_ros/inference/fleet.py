# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What estimates of many robots say of the population that the robots are drawn from.

Each parameter by itself is a normal random-effects model: the estimate of robot i is
yᵢ = μ + bᵢ + eᵢ with bᵢ ~ N(0, τ²) and eᵢ ~ N(0, vᵢ), whose variance its fit knows. What is said of
one parameter so holds however the parameters of a robot hang together (a working independence, as
Chen, Hong and Riley, Statistics in Medicine 34, 2015). Where whole covariances serve, they are
used: for whether the robots differ at all, and to draw a robot's values to the population.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

#: Probability of intervals.
LEVEL = 0.95
#: Probability of naming any robot of a fleet in which none is odd.
FALSE_ALARMS = 0.05
#: With fewer robots, none can be told to be odd: two others do not say how far apart robots are.
FEWEST = 4
#: At most one in so many robots is odd; with more, who is to say which are the odd ones?
_ODD_SHARE = 4
#: Spreads that are tried at first, from this part of the largest on; then so many τ² between those
#: beside the best one, so many times: it is found to a part of 10⁻⁸.
_TRIED, _SMALLEST = 48, 1e-4
_FINER, _ROUNDS = 17, 9
#: A spread that gains no more in twice the log-likelihood is none.
_NOTHING = 1e-9


@dataclass(frozen=True)
class Population:
    """One parameter over the robots that determine it.

    Attributes:
        count: So many robots.
        mean: Of the population, with a 95 % interval from ``low`` to ``high``.
        low: NaN for one robot alone.
        high: NaN for one robot alone.
        tau: Standard deviation between robots, with a 95 % interval.
        tau_low: 0 where the robots may all be alike.
        tau_high: 0 where they are more alike than their own errors should let them be.
        q: Cochran's Q: squared deviations from the mean in units of the robots' own errors.
        p_value: Of such a Q, or more, if the robots were alike.
        i_squared: Part of the variance of the estimates that is between robots.
        next_low: With 95 %, the value of another robot lies from here ...
        next_high: ... to here; NaN for fewer than three robots.
    """

    count: int
    mean: float
    low: float
    high: float
    tau: float
    tau_low: float
    tau_high: float
    q: float
    p_value: float
    i_squared: float
    next_low: float
    next_high: float


class Oddness(NamedTuple):
    """How far each robot is from the others in one parameter.

    Attributes:
        deviations: (k,) studentised: from the mean of the others that are not odd themselves, in
            standard deviations of where another robot of theirs would be found.
        p_values: (k,) corrected for all choices of robots and parameters that were looked at.
        odd: (k,) whether it is none of theirs.
    """

    deviations: NDArray[np.float64]
    p_values: NDArray[np.float64]
    odd: NDArray[np.bool_]


class Heterogeneity(NamedTuple):
    """Whether robots differ in any parameter: Q over all of them, its freedom and probability."""

    q: float
    freedom: int
    p_value: float


def population(values: NDArray[np.float64], variances: NDArray[np.float64]) -> Population:
    """Summarise one parameter over (k,) robots.

    τ² maximises the restricted likelihood (Viechtbauer, Journal of Educational and Behavioral
    Statistics 30, 2005). The interval of the mean is Hartung's and Knapp's (Statistics in Medicine
    20, 2001) with Student's t of k - 1 degrees of freedom, and is never narrower than with τ² and
    the vᵢ known (Röver, Knapp and Friede, BMC Medical Research Methodology 15, 2015): few robots,
    known to different errors, need that. That of τ is exact: all spreads for which the generalised
    Q is no surprise (Q-profile: Viechtbauer, Statistics in Medicine 26, 2007). I² is τ² against a
    typical vᵢ, and another robot is expected as of Higgins and Thompson (Statistics in Medicine 21,
    2002; with Spiegelhalter, Journal of the Royal Statistical Society A 172, 2009).
    """
    count = len(values)
    nan = float('nan')
    if count < 2:  # noqa: PLR2004 (there is no spread of one)
        return Population(count, float(values[0]) if count else nan, *[nan] * 10)
    tau2 = _restricted(values, variances)
    mean, variance = _mean(values, variances, tau2)
    freedom = count - 1
    scale = max(_generalised_q(values, variances, tau2) / freedom, 1.0)
    error = float(np.sqrt(scale * variance))
    half = error * float(scipy.special.stdtrit(freedom, (1 + LEVEL) / 2))
    q = _generalised_q(values, variances, 0.0)
    weights = 1 / variances
    typical = freedom * weights.sum() / (weights.sum() ** 2 - (weights**2).sum())
    reach = nan
    if count > 2:  # noqa: PLR2004 (degrees of freedom are left)
        student = float(scipy.special.stdtrit(count - 2, (1 + LEVEL) / 2))
        reach = student * math.hypot(math.sqrt(tau2), error)
    return Population(
        count,
        mean,
        mean - half,
        mean + half,
        float(np.sqrt(tau2)),
        *_spread_interval(values, variances),
        q,
        float(scipy.special.chdtrc(freedom, q)),
        float(tau2 / (tau2 + typical)),
        mean - reach,
        mean + reach,
    )


def oddness(
    values: NDArray[np.float64], variances: NDArray[np.float64], parameters: int = 1
) -> Oddness:
    """Say which of (k,) robots do not belong to the others.

    A robot is compared with the others alone, τ² among them, so it cannot hide behind a spread that
    it makes itself (externally studentised: Viechtbauer and Cheung, Research Synthesis Methods 1,
    2010), and by Student's t of k - 2 degrees of freedom, as that spread is estimated. Nor can two
    robots hide each other: the farthest one is put aside, then the farthest of those left, up to a
    quarter of all. The last one that is too far from those left, and all before it, are odd
    (generalised extreme studentised deviates: Rosner, Technometrics 25, 1983). Bonferroni's
    correction is for all choices of robots, in all parameters: Rosner's own limits need 15 robots.

    Args:
        values: (k,) estimates.
        variances: (k,) of the estimates.
        parameters: So many are looked at in the fleet.
    """
    count = len(values)
    deviations, raw = np.full(count, np.nan), np.full(count, np.nan)
    odd = np.zeros(count, dtype=bool)
    if count < FEWEST:
        return Oddness(deviations, raw, odd)
    left = np.arange(count)
    order: list[int] = []
    named = 0
    for turn in range(1, max(count // _ODD_SHARE, 1) + 1):
        _, chances = _studentised(values[left], variances[left])
        place = int(np.argmin(chances))
        order.append(int(left[place]))
        if chances[place] * _choices(count, turn) * parameters < FALSE_ALARMS:
            named = turn
        left = np.delete(left, place)
        if len(left) < FEWEST:
            break
    odd[order[:named]] = True
    typical = np.flatnonzero(~odd)
    deviations[typical], raw[typical] = _studentised(values[typical], variances[typical])
    for place in order[:named]:
        beside = np.append(typical, place)
        found, chances = _studentised(values[beside], variances[beside], only_last=True)
        deviations[place], raw[place] = found[-1], chances[-1]
    choices = np.where(odd, _choices(count, named), _choices(count, named + 1))
    return Oddness(deviations, np.minimum(raw * choices * parameters, 1.0), odd)


def heterogeneity(
    values: Sequence[NDArray[np.float64]],
    covariances: Sequence[NDArray[np.float64]],
    places: Sequence[NDArray[np.int64]],
) -> Heterogeneity:
    """Test whether all robots have the same values, of all parameters together.

    Q = Σ (yᵢ - Xᵢμ)ᵀ Sᵢ⁻¹ (yᵢ - Xᵢμ) with whole covariances, chi-squared if they do (Jackson, White
    and Riley, Statistics in Medicine 31, 2012).

    Args:
        values: (pᵢ,) of each robot, of the parameters that it determines.
        covariances: (pᵢ, pᵢ) of them.
        places: (pᵢ,) which of all parameters those are.
    """
    size = 1 + max((int(own.max()) for own in places if len(own)), default=-1)
    information, pull = np.zeros((size, size)), np.zeros(size)
    inverses = [np.linalg.inv(covariance) for covariance in covariances]
    for own, inverse, value in zip(places, inverses, values, strict=True):
        information[np.ix_(own, own)] += inverse
        pull[own] += inverse @ value
    mean = np.linalg.pinv(information, hermitian=True) @ pull
    q = sum(
        float((value - mean[own]) @ inverse @ (value - mean[own]))
        for own, inverse, value in zip(places, inverses, values, strict=True)
    )
    freedom = sum(map(len, places)) - len(set(np.concatenate([[], *places])))
    return Heterogeneity(q, freedom, float(scipy.special.chdtrc(freedom, q)) if freedom else 1.0)


def shrunken(
    values: NDArray[np.float64],
    covariance: NDArray[np.float64],
    means: NDArray[np.float64],
    taus: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Draw the (p,) estimates of one robot to the population, as far as they are uncertain.

    y - S V⁻¹ (y - μ) with V = S + diag(τ²), the best linear predictor of μ + b (Robinson,
    Statistical Science 6, 1991). Whole covariances let what the population knows of one parameter
    sharpen others that this robot cannot tell from it.

    Args:
        values: The estimates.
        covariance: (p, p) of them.
        means: Of the population; NaN where the robot is none of it.
        taus: Standard deviations between robots.
    """
    drawn = np.isfinite(means)
    pick = np.ix_(drawn, drawn)
    total = covariance[pick] + np.diag(taus[drawn] ** 2)
    pull = np.linalg.solve(total, values[drawn] - means[drawn])
    found: NDArray[np.float64] = values - covariance[:, drawn] @ pull
    return found


def _mean(
    values: NDArray[np.float64], variances: NDArray[np.float64], tau2: float
) -> tuple[float, float]:
    """Return the weighted mean and its variance with a known spread."""
    weights = 1 / (variances + tau2)
    total = weights.sum()
    return float(weights @ values / total), float(1 / total)


def _generalised_q(
    values: NDArray[np.float64], variances: NDArray[np.float64], tau2: float
) -> float:
    mean, _ = _mean(values, variances, tau2)
    return float(np.sum((values - mean) ** 2 / (variances + tau2)))


def _choices(count: int, turn: int) -> int:
    """Return of how many comparisons one in a turn is: of a robot, with others put aside."""
    return turn * math.comb(count, turn)


def _restricted(values: NDArray[np.float64], variances: NDArray[np.float64]) -> float:
    """Return the τ² of the largest restricted likelihood, which may have several maxima."""
    largest = float(np.ptp(values))
    if largest == 0:
        return 0.0
    tried = np.concatenate([[0.0], largest * np.geomspace(_SMALLEST, 1.0, _TRIED)]) ** 2
    alike = float(_cost(0.0, values, variances))
    for _ in range(_ROUNDS):
        costs = _cost(tried[:, None], values, variances)
        best = int(np.argmin(costs))
        found, gain = float(tried[best]), alike - float(costs[best])
        tried = np.linspace(tried[max(best - 1, 0)], tried[min(best + 1, len(tried) - 1)], _FINER)
    return found if gain > _NOTHING else 0.0


def _cost(
    tau2: float | NDArray[np.float64], values: NDArray[np.float64], variances: NDArray[np.float64]
) -> Any:
    """Return minus twice the logarithm of the restricted likelihood, of (n, 1) spreads of each."""
    weights = 1 / (variances + tau2)
    total = weights.sum(axis=-1, keepdims=True)
    means = (weights * values).sum(axis=-1, keepdims=True) / total
    parts = weights * (values - means) ** 2 - np.log(weights)
    return np.sum(parts, axis=-1) + np.log(total[..., 0])


def _spread_interval(
    values: NDArray[np.float64], variances: NDArray[np.float64]
) -> tuple[float, float]:
    """Return both ends of the interval of τ."""
    freedom = len(values) - 1
    surprising = scipy.special.chdtri(freedom, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    ends = []
    for wanted in surprising:
        # Q falls with τ², and is less than the sum of squares over τ².
        above = float(np.sum((values - values.mean()) ** 2) / wanted)
        if _generalised_q(values, variances, 0.0) <= wanted:
            ends.append(0.0)
            continue
        root = scipy.optimize.brentq(
            lambda tau2, wanted=wanted: _generalised_q(values, variances, tau2) - wanted, 0.0, above
        )
        ends.append(float(np.sqrt(root)))
    return ends[0], ends[1]


def _studentised(
    values: NDArray[np.float64], variances: NDArray[np.float64], *, only_last: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (k,) deviations from the others, and their probabilities on both sides."""
    count = len(values)
    found = np.full(count, np.nan)
    for place in range(count - 1 if only_last else 0, count):
        others, errors = np.delete(values, place), np.delete(variances, place)
        tau2 = _restricted(others, errors)
        mean, variance = _mean(others, errors, tau2)
        found[place] = (values[place] - mean) / np.sqrt(variances[place] + tau2 + variance)
    chances: NDArray[np.float64] = 2 * scipy.special.stdtr(count - 2, -np.abs(found))
    return found, chances
