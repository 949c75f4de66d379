# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Differences of estimates, and of models on the same data, and how sure those are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.special
from numpy.typing import ArrayLike, NDArray

from sysid_ros.estimation.noise import JointPrior

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
class Known:
    """Earlier estimates of k parameters: their names, values, and how sure those are."""

    names: tuple[str, ...]
    estimate: JointEstimate

    def prior(self, kept: Iterable[int] | None = None) -> JointPrior:
        """Return the distribution of all parameters or, whatever the others are, of some."""
        places = list(range(len(self.names)) if kept is None else kept)
        some = self.estimate.of(places)
        return JointPrior.of([self.names[place] for place in places], some.x, some.covariance)


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
    """Test each parameter for a change, while the others that may have changed are free.

    The change of one parameter, given that the others did not change, over its standard error has
    Student's distribution, with the fewer degrees of freedom of both covariances. The p-value is
    that of the largest, with Bonferroni's correction for their number. While it is below the level,
    that parameter is named as changed and no longer compared, so that one that did not change is
    named by chance with no more than this probability.

    Args:
        before: An estimate of (p,) parameters.
        after: An independent one.
        level: Probability of seeing a change where there is none.
    """
    total = before.covariance + after.covariance
    compared = np.isfinite(np.diag(total)) & (np.diag(total) > 0)
    changed = np.zeros(len(before.x), dtype=bool)
    deviations = np.full(len(before.x), np.nan)
    places = np.flatnonzero(compared)
    if not len(places):
        return Difference(compared, float('nan'), float('nan'), changed, deviations)
    delta = after.x - before.x
    freedom = min(before.freedom, after.freedom)

    def given(places: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return each change in standard errors, given that nothing else here changed."""
        inverse = np.linalg.inv(total[np.ix_(places, places)])
        pulls: NDArray[np.float64] = inverse @ delta[places] / np.sqrt(np.diag(inverse))
        return pulls

    def chance(pulls: NDArray[np.float64]) -> float:
        single = 2 * float(scipy.special.stdtr(freedom, -np.abs(pulls).max()))
        return min(len(pulls) * single, 1.0)

    pulls = given(places)
    p_value = rest = chance(pulls)
    left = places
    while rest < level:
        found = left[np.argmax(np.abs(pulls))]
        changed[found] = True
        left = left[left != found]
        if not len(left):
            break
        pulls = given(left)
        rest = chance(pulls)
    for place in places:
        others = np.flatnonzero(compared & ~changed)
        own = np.union1d(others, [place])
        deviations[place] = given(own)[np.searchsorted(own, place)]
    inverse = np.linalg.inv(total[np.ix_(places, places)])
    statistic = float(delta[places] @ inverse @ delta[places])
    return Difference(compared, statistic, p_value, changed, deviations)


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
