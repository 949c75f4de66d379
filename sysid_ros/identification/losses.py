# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Losses of residuals, named as in scipy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from mujoco import minimize

if TYPE_CHECKING:
    from numpy.typing import NDArray

Loss = Literal['linear', 'huber', 'soft_l1', 'cauchy']


def rho(
    residual: NDArray[np.float64], loss: Loss
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a loss and the weight of each residual.

    The losses are scipy's: with s = r², linear s, huber (2√s - 1 above 1), soft_l1
    2(√(1+s) - 1), cauchy ln(1+s).

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
        return 2 * (root - 1), 1 / root
    return np.log1p(s), 1 / (1 + s)


def cost(residual: NDArray[np.float64], loss: Loss) -> float:
    """Return half the sum of the losses."""
    return 0.5 * float(np.sum(rho(residual, loss)[0]))


class RobustNorm(minimize.Norm):  # type: ignore[misc]
    """A robust loss for ``mujoco.minimize``, with the Gauss-Newton Hessian of reweighting."""

    def __init__(self, loss: Loss) -> None:
        self._loss = loss

    def value(self, r: NDArray[np.float64]) -> float:
        """Return the cost of (n, 1) residuals."""
        return cost(r, self._loss)

    def grad_hess(
        self, r: NDArray[np.float64], proj: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return gradient and Hessian, projected by (n, p) columns."""
        weight = rho(r, self._loss)[1]
        return proj.T @ (weight * r), proj.T @ (weight * proj)
