# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the data alone say about the parameters, whatever priors and bounds say."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.estimation.layout import PRIOR, Samples
from sysid_ros.inference.linear import linearised
from sysid_ros.inference.remedies import is_nuisance
from sysid_ros.inference.spread import spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sysid_ros.estimation.solver.least_squares import Solution
    from sysid_ros.estimation.solver.losses import Loss
    from sysid_ros.model.unknown import Unknown

#: A parameter with more than this share in a direction that changes no residual is not determined.
_LARGEST_SHARE = 0.1


@dataclass(frozen=True)
class Alone:
    """What the data say without what was known before.

    Attributes:
        x: (p,) values; those that the data do not determine are where the fit ended.
        covariance: (p, p) of the values; NaN rows for those that the data do not determine.
        freedom: Degrees of freedom of the covariance.
        inflation: How many times wider than for white residuals the variances are, on average.
    """

    x: NDArray[np.float64]
    covariance: NDArray[np.float64]
    freedom: float
    inflation: float


def alone(
    solution: Solution, unknowns: Sequence[Unknown], samples: Samples, loss: Loss = 'linear'
) -> Alone:
    """Take the priors of the parameters and the bounds away from a fit.

    One Gauss-Newton step without them leads from where the fit ended to the data's own optimum.
    It may be outside of the bounds: friction that the data cannot tell from none is as often found
    below zero as above, and stopping there would bend whatever correlates with it. What is known
    of single runs, as that a clock's offset is near zero, stays.

    Args:
        solution: Where the fit ended, with its Jacobian.
        unknowns: All unknowns, p of them.
        samples: What each residual is.
        loss: The loss of the fit.
    """
    lasting = np.array([not is_nuisance(unknown) for unknown in unknowns], dtype=bool)
    priors = (samples.sensor == PRIOR) & np.any(solution.jacobian[:, lasting] != 0, axis=1)
    kept = ~priors
    bare = dataclasses.replace(
        solution, residual=solution.residual[kept], jacobian=solution.jacobian[kept]
    )
    linear = linearised(
        bare,
        bare.jacobian,
        [_unbounded(unknown) for unknown in unknowns],
        dataclasses.replace(
            samples,
            sequence=samples.sequence[kept],
            time=samples.time[kept],
            sensor=samples.sensor[kept],
            variance=None if samples.variance is None else samples.variance[kept],
        ),
        loss,
    )
    x = np.array(solution.x, dtype=np.float64)
    free = linear.free
    x[free] -= (linear.inverse @ (linear.scaled.T @ linear.residual)) / linear.scale[free]
    found = spread(linear)
    covariance = found.covariance.copy()
    unseen = free[np.any(np.abs(linear.null) > _LARGEST_SHARE, axis=1)]
    covariance[unseen] = covariance[:, unseen] = np.nan
    white = np.full(len(x), np.nan)
    white[free] = np.diag(linear.inverse) / linear.scale[free] ** 2
    ratios = np.diag(covariance)[lasting] / white[lasting]
    ratios = ratios[np.isfinite(ratios) & (ratios > 0)]
    inflation = float(np.exp(np.mean(np.log(ratios)))) if len(ratios) else 1.0
    return Alone(x, covariance, max(found.effective - 1.0, 1.0), inflation)


def _unbounded(unknown: Unknown) -> Unknown:
    width = unknown.max_value - unknown.min_value
    return dataclasses.replace(
        unknown, min_value=unknown.min_value - width, max_value=unknown.max_value + width
    )
