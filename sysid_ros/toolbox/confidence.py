# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The toolbox's confidence intervals: equal white noise on all residuals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.special

from sysid_ros.errors import FitError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def calculate_intervals(
    residuals_star: Sequence[NDArray[np.float64]],
    J: NDArray[np.float64] | None,  # noqa: N803 (the toolbox's name)
    alpha: float = 0.05,
    lambda_zero_thresh: float = 1e-15,
    v_zero_thresh: float = 1e-8,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return covariance and half-widths of the parameters from the Jacobian at the optimum.

    They hold for residuals that are independent and equally noisy: ``s² (JᵀJ)⁻¹`` with the
    variance ``s² = rᵀr / (n − p)``. Residuals of a robot are not; the intervals of a calibration
    allow for that.

    A direction that the data do not see has an infinite variance, which reaches only the
    parameters that take part in it.

    Args:
        residuals_star: Residuals at the optimum, one array per sequence, n numbers in all.
        J: (n, p) derivative of the residuals there.
        alpha: One minus the level.
        lambda_zero_thresh: Eigenvalues of JᵀJ below this fraction of the largest count as zero.
        v_zero_thresh: Components of an eigenvector below this fraction of a parameter's largest
            count as zero.

    Returns:
        The (p, p) covariance, infinite in the directions that the data do not see, and the (p,)
        half-widths, in the parameters' units.

    Raises:
        FitError: There are not more residuals than parameters.
    """
    if J is None or J.size == 0:
        return np.empty((0, 0)), np.empty(0)
    residual = np.concatenate([np.ravel(part) for part in residuals_star])
    freedom = len(residual) - J.shape[1]
    if freedom <= 0:
        msg = f'Expected more residuals than {J.shape[1]} parameters, got {len(residual)}.'
        raise FitError(msg)
    variance = float(residual @ residual) / freedom
    # Columns of unlike size are scaled to one first: eigenvalues of the bare JᵀJ say more about
    # the units than about the data.
    norms = np.linalg.norm(J, axis=0)
    scale = np.where(norms > 0, norms, 1.0)
    values, vectors = np.linalg.eigh((J / scale).T @ (J / scale))
    seen = values > lambda_zero_thresh * values[-1]
    inverse = (vectors[:, seen] / values[seen]) @ vectors[:, seen].T / np.outer(scale, scale)
    share = np.abs(vectors[:, ~seen])
    share[share < v_zero_thresh * np.abs(vectors).max(axis=1, keepdims=True)] = 0.0
    blind = share.any(axis=1)
    covariance: NDArray[np.float64] = variance * inverse
    covariance[blind, blind] = np.inf
    quantile = float(scipy.special.stdtrit(freedom, 1 - alpha / 2))
    return covariance, quantile * np.sqrt(np.diag(covariance))
