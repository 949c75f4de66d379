# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Losses of residuals, named as in scipy."""

from __future__ import annotations

from typing import get_args

import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.calibration import Loss

LOSSES: tuple[Loss, ...] = get_args(Loss)
#: Losses whose pull fades with the residual: far from the optimum they have others beside it.
REDESCENDING: frozenset[Loss] = frozenset({'cauchy', 'arctan'})

#: The curvature of a loss is not below this fraction of the weight of reweighting.
_SMALLEST_CURVATURE = 0.05
#: Squared residuals below this have the loss of the linear one, to rounding.
_TINY = 1e-16


def rho(
    residual: NDArray[np.float64], loss: Loss
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a loss and the weight of each residual.

    The losses are scipy's: with s = r², linear s, huber (2√s - 1 above 1), soft_l1
    2(√(1+s) - 1), cauchy ln(1+s), arctan arctan(s).

    Args:
        residual: Residuals in units of the noise.
        loss: Name of the loss.

    Returns:
        The loss of s and its derivative by s, shaped as the residuals.
    """
    s = residual**2
    if loss == 'linear':
        return s, np.ones_like(s)
    if loss == 'huber':
        root = np.sqrt(np.maximum(s, 1.0))
        return np.where(s <= 1, s, 2 * root - 1), np.where(s <= 1, 1.0, 1 / root)
    if loss == 'soft_l1':
        root = np.sqrt(1 + s)
        return 2 * s / (root + 1), 1 / root  # 2 (root - 1), without cancellation
    if loss == 'arctan':
        return np.arctan(s), 1 / (1 + s**2)
    return np.log1p(s), 1 / (1 + s)


def cost(residual: NDArray[np.float64], loss: Loss) -> float:
    """Return half the sum of the losses."""
    return 0.5 * float(np.sum(rho(residual, loss)[0]))


def curvature(residual: NDArray[np.float64], loss: Loss) -> NDArray[np.float64]:
    """Return the weight of each residual in the second derivative of the cost.

    Half the second derivative of the loss by the residual is ρ' + 2 s ρ'', which is less than the
    weight ρ' of reweighting and brings quadratic convergence near the optimum (Triggs et al.,
    Bundle Adjustment - A Modern Synthesis, 2000, section 4.3). It is kept above a small fraction
    of ρ', so that the second derivative stays positive.
    """
    s = residual**2
    weight = rho(residual, loss)[1]
    if loss == 'linear':
        return weight
    if loss == 'huber':
        second = np.where(s <= 1, 1.0, 0.0)
    elif loss == 'soft_l1':
        second = (1 + s) ** -1.5
    elif loss == 'arctan':
        second = (1 - 3 * s**2) / (1 + s**2) ** 2
    else:
        second = (1 - s) / (1 + s) ** 2
    return np.maximum(second, _SMALLEST_CURVATURE * weight)


def root(
    residual: NDArray[np.float64], loss: Loss
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return numbers whose squares are the losses, and their derivatives by the residuals.

    For solvers that know no losses: f = r √(ρ/s) has f² = ρ and df/dr = ρ' / √(ρ/s).
    """
    s = residual**2
    value, weight = rho(residual, loss)
    ratio = np.sqrt(np.where(s > _TINY, value / np.maximum(s, _TINY), 1.0))
    return residual * ratio, weight / ratio
