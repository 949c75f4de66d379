# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Losses of residuals, named as in scipy, and the quadratic model of their sum."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.schema import Loss

LOSSES: tuple[Loss, ...] = get_args(Loss)
#: Losses whose pull fades with the residual: far from the optimum they have others beside it.
REDESCENDING: frozenset[Loss] = frozenset({'cauchy', 'arctan'})

#: The curvature of a loss is not below this fraction of the weight of reweighting.
_SMALLEST_CURVATURE = 0.05
#: Eigenvalues of the scaled Hessian below this fraction of the largest carry no information.
_NO_INFORMATION = 1e-13
#: The curvature of a loss serves below this predicted step, in standard errors.
_NEWTON = 1.0
#: A value nearer to a bound than this fraction of the scale is at it.
_AT_BOUND = 1e-7
#: Scores are summed over so many stretches of neighbouring residuals at most, each of at least so
#: many, to see how much more they vary than those of independent residuals; fewer stretches than
#: the third do not show that.
_STRETCHES, _IN_STRETCH, _FEWEST_STRETCHES = 400, 20, 20


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


class Quadratic(NamedTuple):
    """The model of the cost around a point, in variables that make the columns unit vectors.

    Attributes:
        unit: (p,) these variables times it are the scaled variables.
        gradient: (p,) of the cost.
        hessian: (p, p) of the cost.
        newton: (p,) step to the least value, zero for parameters held by a bound.
        decrement: Length of that step in standard errors, as if residuals were independent.
        variance: Of the residuals, as they are here.
        alike: How many of them say as much as one that is independent of others.
    """

    unit: NDArray[np.float64]
    gradient: NDArray[np.float64]
    hessian: NDArray[np.float64]
    newton: NDArray[np.float64]
    decrement: float
    variance: float
    alike: float = 1.0

    def fall(self, step: NDArray[np.float64]) -> float:
        """Return by how much a (p,) step lowers the cost of the model."""
        return -float(self.gradient @ step + 0.5 * step @ self.hessian @ step)


def quadratic(
    z: NDArray[np.float64],
    residual: NDArray[np.float64],
    jacobian: NDArray[np.float64],
    bounds: tuple[NDArray[np.float64], NDArray[np.float64]],
    loss: Loss,
) -> Quadratic:
    """Model the cost around a point.

    The length of the predicted step in standard errors is the relative offset of Bates and Watts
    (Technometrics 23, 1981): it knows no units, and is large for exact data until the residuals
    are rounding errors. Where neighbouring residuals are alike, as those of a model that lacks
    something, standard errors are larger: by how much, in the mean over all directions, the scatter
    S of the scores' sums over stretches says, the trace of H⁻¹ S over that of independent ones.

    Args:
        z: (p,) scaled variables.
        residual: (n,) residuals there.
        jacobian: (n, p) derivative of the residuals by the scaled variables.
        bounds: (p,) lower and upper bounds of the variables.
        loss: Of the residuals.
    """
    norms = np.linalg.norm(jacobian, axis=0)
    unit = 1.0 / np.maximum(norms, float(np.finfo(np.float64).eps))
    weight = rho(residual, loss)[1]
    influence = weight * residual
    gradient = unit * (jacobian.T @ influence)
    near = _AT_BOUND * np.maximum(np.abs(z), 1.0)
    held = ((z <= bounds[0] + near) & (gradient > 0)) | ((z >= bounds[1] - near) & (gradient < 0))
    free = ~held & (norms > 0)
    variance = float(influence @ influence) / max(len(residual) - int(free.sum()), 1)

    def model(weight: NDArray[np.float64]) -> Quadratic:
        weighted = jacobian if loss == 'linear' else weight[:, None] * jacobian
        hessian = (jacobian.T @ weighted) * np.outer(unit, unit)
        newton, squared = _newton(gradient, hessian, free)
        if not variance > 0 or not squared > 0:
            return Quadratic(unit, gradient, hessian, newton, 0.0, variance)
        decrement = math.sqrt(squared / variance)
        scatter = _scatter(jacobian, influence)
        if scatter is None:
            return Quadratic(unit, gradient, hessian, newton, decrement, variance)
        own = np.ix_(free, free)
        scatter *= np.outer(unit, unit)
        ratio = np.linalg.lstsq(hessian[own], scatter[own], rcond=_NO_INFORMATION)[0]
        alike = max(float(np.trace(ratio)) / (variance * int(free.sum())), 1.0)
        return Quadratic(unit, gradient, hessian, newton, decrement, variance, alike)

    found = model(weight)
    if loss != 'linear' and found.decrement < _NEWTON:
        found = model(curvature(residual, loss))
    return found


def _scatter(
    jacobian: NDArray[np.float64], influence: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """Return the (p, p) scatter of the scores' sums over stretches, None for few residuals."""
    count = min(_STRETCHES, len(influence) // _IN_STRETCH)
    if count < _FEWEST_STRETCHES:
        return None
    edges = np.linspace(0, len(influence), count + 1).astype(np.int64)
    sums = np.array([jacobian[a:b].T @ influence[a:b] for a, b in pairwise(edges)])
    sums -= np.mean(sums, axis=0)
    found: NDArray[np.float64] = sums.T @ sums * (count / (count - 1))
    return found


def _newton(
    gradient: NDArray[np.float64], hessian: NDArray[np.float64], free: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], float]:
    """Return the (p,) step to the least value of a quadratic, and its squared length in H."""
    newton = np.zeros(len(gradient))
    if not free.any():
        return newton, 0.0
    values, vectors = np.linalg.eigh(hessian[np.ix_(free, free)])
    along = vectors.T @ gradient[free]
    known = values > _NO_INFORMATION * max(values[-1], 0.0)
    newton[free] = -vectors[:, known] @ (along[known] / values[known])
    return newton, float(np.sum(along[known] ** 2 / values[known]))
