# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How far values at their bounds may be inside of them, and the others with them.

Noise puts a value at its bound as often as it puts it as far to the other side. Held there, the
others would look as certain as if it were known. Without the bounds the estimates would be normal;
with them, what those at bounds may be is the part of that distribution which is inside, and the
others follow (inequality constraints as a prior: J. Geweke, Journal of Applied Econometrics 1,
1986).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.special

from sysid_ros.inference.spread import LEVEL, QUANTILE, Ends, spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.inference.linear import Linear

    Array = NDArray[np.float64]

#: What cannot be seen has less than this share in a value that is let off its bound.
_SHARE = 0.01
#: Draws of what values at bounds may be, and how often each is drawn anew given the others.
_DRAWS, _ROUNDS = 10_000, 50
#: Intervals that values at bounds move by less than this part of their half-width stay as they are.
_LITTLE = 0.1


@dataclass(frozen=True)
class AtBounds:
    """The k values at bounds that have an effect, and what they leave open.

    Attributes:
        columns: (k,) of the Jacobian.
        inwards: (k,) 1 at a lower bound, -1 at an upper one.
        beyond: (k,) where the data would have each, in its unit, others at bounds staying there;
            NaN where the data do not tell.
        deviation: (k,) standard error of that; infinite where the data do not tell.
        inside: (draws, k) how far inside of their bounds they may be.
        follow: (p, k) what all parameters change by with that.
    """

    columns: NDArray[np.int64]
    inwards: Array
    beyond: Array
    deviation: Array
    inside: Array
    follow: Array

    @property
    def told(self) -> NDArray[np.bool_]:
        """(k,) of which ones the data tell how far inside they may be."""
        return np.isfinite(self.deviation)

    def pushed(self, x: Array) -> NDArray[np.bool_]:
        """(k,) which ones the data, and not noise, push outwards from (p,) values."""
        with np.errstate(invalid='ignore'):
            out = self.inwards * (x[self.columns] - self.beyond)
            return np.asarray(out >= QUANTILE * self.deviation)

    def widened(self, ends: Ends, x: Array) -> Ends:
        """Return the ends of intervals that hold wherever inside of their bounds values are.

        Args:
            ends: Of intervals that hold with those at their bounds.
            x: (p,) values.
        """
        low, high = ends.low.copy(), ends.high.copy()
        shifts = self.inside @ self.follow.T
        normal = np.random.default_rng(1).standard_normal(len(shifts))
        tail = (1.0 - LEVEL) / 2.0
        farthest = np.quantile(np.abs(shifts), LEVEL, axis=0)
        half = np.maximum(high - x, x - low)
        for j in np.flatnonzero(farthest > _LITTLE * np.nan_to_num(half, nan=np.inf)):
            error = np.where(normal < 0, x[j] - low[j], high[j] - x[j]) * normal / QUANTILE
            least, most = np.quantile(shifts[:, j] + error, [tail, 1.0 - tail])
            low[j], high[j] = min(low[j], x[j] + least), max(high[j], x[j] + most)
        free = self.told & ~self.pushed(x)
        for j, inwards, inside in zip(
            self.columns[free], self.inwards[free], self.inside.T[free], strict=True
        ):
            end = x[j] + inwards * float(np.quantile(inside, LEVEL))
            low[j], high[j] = min(x[j], end), max(x[j], end)
        return Ends(low, high)

    def covariance(self, covariance: Array) -> Array:
        """Return the (p, p) covariance of the estimates with that of values at bounds."""
        found = covariance.copy()
        chosen = self.columns[self.told]
        found[chosen] = found[:, chosen] = 0.0
        deviations = (self.inside - self.inside.mean(axis=0)) @ self.follow.T
        found += deviations.T @ deviations / len(deviations)
        return found


def at_bounds(linear: Linear) -> AtBounds:
    """Return what values at their bounds leave open."""
    columns = np.flatnonzero(linear.at_bound & (np.diag(linear.gram) > 0))
    count, size = len(columns), len(linear.x)
    lows = np.array([linear.unknowns[c].min_value for c in columns])
    highs = np.array([linear.unknowns[c].max_value for c in columns])
    x = linear.x[columns]
    inwards = np.where(x - lows <= highs - x, 1.0, -1.0)
    beyond, deviation = np.full(count, np.nan), np.full(count, np.inf)
    inside, follow = np.zeros((_DRAWS if count else 1, count)), np.zeros((size, count))
    freed = linear.freed(columns)
    seen = np.all(np.abs(freed.null[np.isin(freed.free, columns)]) < _SHARE, axis=1)
    if not seen.all():
        freed = linear.freed(columns[seen])
    told = np.flatnonzero(seen)
    if len(told):
        # What the data push beyond the bounds is no noise.
        own, covariance = columns[told], spread(freed, freed.left).covariance
        sizes = np.sqrt(np.diag(covariance)[own])
        precision = np.linalg.inv(covariance[np.ix_(own, own)] / np.outer(sizes, sizes))
        precision /= np.outer(sizes, sizes)
        steps = np.zeros(size)
        steps[freed.free] = -freed.step
        # In units of how far inside of its bound each is.
        mean = inwards[told] * steps[own]
        signed = precision * np.outer(inwards[told], inwards[told])
        deviation[told] = 1.0 / np.sqrt(np.diag(signed))
        # With the others at their bounds, each would be so far inside.
        beyond[told] = x[told] + inwards[told] * (signed @ mean) * deviation[told] ** 2
        inside[:, told] = np.minimum(_inside(mean, signed), (highs - lows)[told])
        # With each somewhere else, the others have another optimum, as certain as this one.
        free, scale = linear.free, linear.scale
        moved = linear.gram[np.ix_(free, own)] * scale[own] * inwards[told]
        follow[np.ix_(free, told)] = -(linear.inverse @ moved) / scale[free, None]
        follow[own, told] = inwards[told]
    return AtBounds(columns, inwards, beyond, deviation, inside, follow)


def _inside(mean: Array, precision: Array) -> Array:
    """Return (draws, k) of a normal distribution, all of whose values are positive.

    Each is drawn in turn, given the others (Gibbs sampling: Geweke, Computing Science and
    Statistics 23, 1991).

    Args:
        mean: (k,) without that.
        precision: (k, k) inverse of the covariance without it.
    """
    rng = np.random.default_rng(0)
    variance = 1.0 / np.diag(precision)
    deviation = np.sqrt(variance)
    found = np.tile(np.maximum(mean, 0.0), (_DRAWS, 1))
    for _ in range(_ROUNDS if len(mean) > 1 else 1):
        for k in range(len(mean)):
            pull = (found - mean) @ precision[k] - (found[:, k] - mean[k]) * precision[k, k]
            centre = mean[k] - variance[k] * pull
            share = np.log(1.0 - rng.random(_DRAWS)) + scipy.special.log_ndtr(centre / deviation[k])
            found[:, k] = np.maximum(centre - deviation[k] * scipy.special.ndtri_exp(share), 0.0)
    return found
