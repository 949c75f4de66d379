# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How far the estimates may be off: standard errors and half-widths of the intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.special

from sysid_ros.identification.layout import PRIOR
from sysid_ros.identification.statistics.long_run import binned, long_run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.identification.layout import Samples
    from sysid_ros.identification.statistics.linear import Linear

#: Level of all intervals.
LEVEL = 0.95


@dataclass(frozen=True)
class Spread:
    """How far estimates may be off.

    Attributes:
        half: (p,) half-widths of the 95 % intervals, in the parameters' units; NaN at bounds and
            without effect. Directions that the data do not see are left out of it.
        covariance: (p, p) of the estimates; rows of parameters without interval are NaN.
        method: How it was found, in words.
        effective: Number of independent samples that say as much as the residuals do.
        notes: What a reader of the intervals has to know, a sentence each.
    """

    half: NDArray[np.float64]
    covariance: NDArray[np.float64]
    method: str
    effective: float
    notes: tuple[str, ...] = ()


def spread(linear: Linear) -> Spread:
    """Return the sandwich estimate of the estimates' spread.

    The influence of each instant on a parameter, ψ_t = H⁻¹ Σ J_r r over the residuals at t, is
    summed over short bins; the long-run variance of that series is estimated after whitening by an
    AR(1) with a Bartlett kernel of automatic bandwidth (Andrews & Monahan, Econometrica 60, 1992),
    bins of different sequences being independent. Student's t has as many degrees of freedom as
    the series has effective samples, and the white-noise interval is a lower limit.
    """
    count = len(linear.unknowns)
    half = np.full(count, np.nan)
    covariance = np.full((count, count), np.nan)
    free, scale = linear.free, linear.scale[linear.free]
    effective = float('nan')
    if len(free):
        width, deviation, effective = _half_widths(
            linear.inverse, linear.scaled, linear.residual, linear.samples
        )
        half[free] = width / scale
        root = np.sqrt(np.maximum(np.diag(linear.inverse), 1e-300))
        correlation = linear.inverse / np.outer(root, root)
        covariance[np.ix_(free, free)] = correlation * np.outer(
            deviation / scale, deviation / scale
        )
    return Spread(half, covariance, 'autocorrelation-consistent within sequences', effective)


def prior_jacobian(jacobian: NDArray[np.float64], samples: Samples) -> NDArray[np.float64]:
    """Return the (r, p) rows of priors, times the deviations that are expected of their residuals.

    Args:
        jacobian: (n, p) derivative of all residuals.
        samples: What each residual is.
    """
    rows = samples.sensor == PRIOR
    variance = 1.0 if samples.variance is None else samples.variance[rows, None]
    weighted: NDArray[np.float64] = jacobian[rows] * np.sqrt(variance)
    return weighted


def _half_widths(
    inverse: NDArray[np.float64],
    jacobian: NDArray[np.float64],
    residual: NDArray[np.float64],
    samples: Samples,
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return (p,) half-widths and standard errors, scaled, and the least effective size."""
    n, p = jacobian.shape
    freedom = max(n - p, 1)
    white = np.sqrt(np.diag(inverse) * float(residual @ residual) / freedom)
    white_half = white * scipy.special.stdtrit(freedom, (1 + LEVEL) / 2)
    measured = samples.sensor != PRIOR
    influence = (jacobian * residual[:, None]) @ inverse
    # Not the residuals of priors themselves but what their squares are expected to be.
    expected = np.sum((prior_jacobian(jacobian, samples) @ inverse) ** 2, axis=0)
    half = np.empty(p)
    deviation = np.empty(p)
    least = float(n)
    for column in range(p):
        series = [
            binned(influence[rows, column], samples.time[rows])
            for rows in (measured & (samples.sequence == s) for s in np.unique(samples.sequence))
            if rows.any()
        ]
        variance, effective = long_run(series)
        quantile = scipy.special.stdtrit(max(effective - 1, 1.0), (1 + LEVEL) / 2)
        deviation[column] = np.sqrt(variance * n / freedom + expected[column])
        half[column] = deviation[column] * quantile
        least = min(least, effective)
    widest: NDArray[np.float64] = np.maximum(half, white_half)
    return widest, np.maximum(deviation, white), least
