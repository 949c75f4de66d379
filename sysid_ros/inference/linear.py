# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The problem as it is at the optimum: linear in the parameters, weighted and scaled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.estimation.solver.losses import curvature, rho
from sysid_ros.inference.dependence import threshold

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.estimation.layout import Samples
    from sysid_ros.estimation.solver.least_squares import Solution
    from sysid_ros.estimation.solver.losses import Loss
    from sysid_ros.model.unknown import Unknown

#: A value within this fraction of the bounds' distance from one of them is at the bound.
_AT_BOUND = 1e-6


@dataclass(frozen=True)
class Linear:
    """The linearised problem at the optimum.

    Attributes:
        unknowns: The parameters, p of them.
        x: (p,) their values.
        residual: (n,) pull of each residual on the fit: the residual itself in units of the noise,
            with a robust loss half its derivative, over the root of the loss's mean curvature.
        jacobian: (n, p) derivative of the residuals, per unit of each parameter, times that root.
            So ``jacobian.T @ jacobian`` is the curvature of the cost, and ``jacobian.T @ residual``
            its gradient.
        samples: What each residual is.
        at_bound: (p,) whether a value is at one of its bounds.
        scale: (p,) length of the Jacobian's columns; 1 for those that are zero.
        free: (f,) columns that are not at a bound and have an effect.
        inverse: (f, f) pseudo-inverse of the information of the free columns scaled to length 1.
        null: (f, k) unit vectors, in the scaled free parameters, that change no residual.
        steps: Index of the sensor to the step of its encoder, in units of its noise.
    """

    unknowns: tuple[Unknown, ...]
    x: NDArray[np.float64]
    residual: NDArray[np.float64]
    jacobian: NDArray[np.float64]
    samples: Samples
    at_bound: NDArray[np.bool_]
    scale: NDArray[np.float64]
    free: NDArray[np.int64]
    inverse: NDArray[np.float64]
    null: NDArray[np.float64]
    steps: Mapping[int, float] = field(default_factory=dict)

    @property
    def scaled(self) -> NDArray[np.float64]:
        """(n, f) Jacobian of the free columns, scaled to length 1."""
        chosen: NDArray[np.float64] = self.jacobian[:, self.free] / self.scale[self.free]
        return chosen


def linearised(
    solution: Solution,
    jacobian: NDArray[np.float64],
    unknowns: Sequence[Unknown],
    samples: Samples,
    loss: Loss = 'linear',
) -> Linear:
    """Weight and scale the derivative of the residuals at the optimum.

    With a robust loss the curvature of the cost is Σ ψ' J Jᵀ with ψ' the derivative of the pull ψ.
    Its mean over each sensor stands for ψ' (Huber, Annals of Statistics 1, 1973, section 6): that
    of single residuals is noise.

    Args:
        solution: Where the solver ended.
        jacobian: (n, p) derivative of the residuals there, per unit of each parameter.
        unknowns: The parameters, p of them.
        samples: What each residual is.
        loss: The loss of the fit; robust losses weight residuals.
    """
    root = np.sqrt(_mean_curvature(solution.residual, samples, loss))
    weighted = jacobian * root[:, None]
    at_bound = np.array(
        [_is_at_bound(x, p) for x, p in zip(solution.x, unknowns, strict=True)], dtype=bool
    )
    norms = np.linalg.norm(weighted, axis=0)
    scale = np.where(norms > 0, norms, 1.0)
    free = np.flatnonzero(~at_bound & (norms > 0))
    inverse, null = _information(weighted[:, free] / scale[free])
    return Linear(
        unknowns=tuple(unknowns),
        x=solution.x,
        residual=solution.residual * rho(solution.residual, loss)[1] / root,
        jacobian=weighted,
        samples=samples,
        at_bound=at_bound,
        scale=scale,
        free=free,
        inverse=inverse,
        null=null,
    )


def _mean_curvature(
    residual: NDArray[np.float64], samples: Samples, loss: Loss
) -> NDArray[np.float64]:
    """Return the (n,) mean curvature of the loss over the residuals of the same sensor."""
    each = curvature(residual, loss)
    place = samples.sensor - samples.sensor.min(initial=0)
    mean = np.bincount(place, each) / np.maximum(np.bincount(place), 1)
    found: NDArray[np.float64] = mean[place]
    return found


def _is_at_bound(value: float, parameter: Unknown) -> bool:
    margin = _AT_BOUND * (parameter.max_value - parameter.min_value)
    return value - parameter.min_value <= margin or parameter.max_value - value <= margin


def _information(
    scaled: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the pseudo-inverse of the scaled information and a basis of what it cannot see."""
    _, singular, right = np.linalg.svd(scaled.T @ scaled, hermitian=True)
    if not len(singular):
        return np.zeros((0, 0)), np.zeros((0, 0))
    seen = singular > threshold(len(singular)) ** 2
    inverse = (right[seen].T / singular[seen]) @ right[seen]
    return inverse, right[~seen].T
