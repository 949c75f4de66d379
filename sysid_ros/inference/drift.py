# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Differences of estimates, and of models on the same data, and how sure those are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.special
from numpy.typing import ArrayLike, NDArray

#: A standard error needs so many differences.
FEWEST_PARTS = 2


@dataclass(frozen=True)
class JointEstimate:
    """Values of parameters, and how sure those are.

    Attributes:
        x: (p,) values.
        covariance: (p, p) of the values; NaN rows for what is not determined.
        freedom: Degrees of freedom of the covariance.
    """

    x: NDArray[np.float64]
    covariance: NDArray[np.float64]
    freedom: float

    def of(self, places: ArrayLike) -> JointEstimate:
        """Return the estimate of some of the parameters, whatever the others are."""
        chosen = np.asarray(places, dtype=np.int64)
        return JointEstimate(self.x[chosen], self.covariance[np.ix_(chosen, chosen)], self.freedom)


@dataclass(frozen=True)
class Difference:
    """How two estimates differ.

    Attributes:
        compared: (p,) whether both estimates determine a parameter.
        statistic: Squared Mahalanobis distance over those.
        p_value: Of the hypothesis that nothing changed; NaN where nothing is compared.
        changed: (p,) the parameters whose change explains the difference; others did not change
            by more than chance.
        deviations: (p,) change in its standard errors of each parameter, given that of the others
            only those in ``changed`` may have changed; NaN where it is not compared.
    """

    compared: NDArray[np.bool_]
    statistic: float
    p_value: float
    changed: NDArray[np.bool_]
    deviations: NDArray[np.float64]


def difference(before: JointEstimate, after: JointEstimate, level: float) -> Difference:
    """Test whether anything changed, and find the fewest parameters whose change explains it.

    If nothing changed, d² = δᵀ (Σ₁ + Σ₂)⁻¹ δ over p has Fisher's distribution with p and ν degrees
    of freedom, where the covariances are known up to a factor; ν is Nel's and van der Merwe's
    (Communications in Statistics 15, 1986). One parameter among many is lost in that sum, so the
    largest change of a single one is tested, too, with Holm's correction for their number; twice
    the lesser of both probabilities is that of the better of two tests (Bonferroni).

    While the rest differs by more than chance, the parameter whose change explains most of it is
    named as changed, and no longer compared. As this ends with a test of all that is left, a
    parameter that did not change is named by chance with no more than the probability ``level``.

    Args:
        before: An estimate of (p,) parameters.
        after: An independent one.
        level: Probability of seeing a change where there is none.
    """
    count = len(before.x)
    total = before.covariance + after.covariance
    compared = np.isfinite(np.diag(total)) & (np.diag(total) > 0)
    changed = np.zeros(count, dtype=bool)
    deviations = np.full(count, np.nan)
    places = np.flatnonzero(compared)
    if not len(places):
        return Difference(compared, float('nan'), float('nan'), changed, deviations)
    delta = (after.x - before.x)[places]
    pick = np.ix_(places, places)
    total = total[pick]
    freedom = _freedom(total, before.covariance[pick], before.freedom, after.freedom)
    inside = np.zeros(len(places), dtype=bool)
    statistic, p_value = _probability(delta, total, freedom)
    rest = p_value
    while rest < level and not inside.all():
        # Which of those outside explains most of what is left if it changed?
        outside = np.flatnonzero(~inside)
        inverse = np.linalg.inv(total[np.ix_(outside, outside)])
        pull = inverse @ delta[outside]
        inside[outside[np.argmax(pull**2 / np.diag(inverse))]] = True
        rest = _probability(delta[~inside], total[np.ix_(~inside, ~inside)], freedom)[1]
    changed[places] = inside
    deviations[places] = _deviations(delta, total, inside)
    return Difference(compared, statistic, p_value, changed, deviations)


def _freedom(
    total: NDArray[np.float64], first: NDArray[np.float64], nu_first: float, nu_second: float
) -> float:
    """Return the degrees of freedom of a sum of two estimated covariances."""
    size = len(total)
    share = np.linalg.solve(total, first)
    rest = np.eye(size) - share
    loss = 0.0
    for part, nu in ((share, nu_first), (rest, nu_second)):
        loss += (np.trace(part @ part) + np.trace(part) ** 2) / nu
    return float((size + size**2) / loss)


def _probability(
    delta: NDArray[np.float64], total: NDArray[np.float64], freedom: float
) -> tuple[float, float]:
    """Return the squared distance and the probability of such a one, or more, by chance."""
    size = len(delta)
    if not size:
        return 0.0, 1.0
    inverse = np.linalg.inv(total)
    pull = inverse @ delta
    statistic = float(delta @ pull)
    whole = float(scipy.special.fdtrc(size, freedom, statistic / size))
    largest = float(np.max(np.abs(pull) / np.sqrt(np.diag(inverse))))
    single = min(2 * size * float(scipy.special.stdtr(freedom, -largest)), 1.0)
    return statistic, whole if size == 1 else min(2 * min(whole, single), 1.0)


def _deviations(
    delta: NDArray[np.float64], total: NDArray[np.float64], inside: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return each change in standard errors; nothing but it and those inside may have changed."""
    found = np.empty(len(delta))
    for index in range(len(delta)):
        free = inside.copy()
        free[index] = True
        others = ~free
        gain = np.linalg.solve(total[np.ix_(others, others)], total[np.ix_(others, free)]).T
        shift = delta[free] - gain @ delta[others]
        spread = total[np.ix_(free, free)] - gain @ total[np.ix_(others, free)]
        place = int(np.sum(free[:index]))
        found[index] = shift[place] / np.sqrt(spread[place, place])
    return found


def paired(
    errors: NDArray[np.float64], best: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean of the differences to the best on each part, and its standard error."""
    models, count = errors.shape
    if not count:
        return np.full(models, np.nan), np.full(models, np.nan)
    differences = errors - errors[best]
    if count < FEWEST_PARTS:
        return differences.mean(axis=1), np.full(models, np.nan)
    return differences.mean(axis=1), differences.std(axis=1, ddof=1) / math.sqrt(count)
