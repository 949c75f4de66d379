# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The quadratic model of the cost around a point, and how far away its least value is."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.calibration import Loss
from sysid_ros.estimation.solver.differences import FORWARD
from sysid_ros.estimation.solver.losses import curvature, rho

#: A Jacobian kept from a point before, less than a standard error away.
KEPT = 'kept'
#: A Jacobian that was learnt from the last steps.
UPDATED = 'broyden'

#: Eigenvalues of the scaled Hessian below this fraction of the largest carry no information.
_NO_INFORMATION = 1e-13
#: Newton's curvature of a loss serves below this predicted step in standard errors. There, that of
#: the residuals serves as well, unless it leaves less than this part of the least eigenvalue.
_NEWTON = 1.0
_SMALLEST_CURVATURE = 0.2
#: Nearer to a bound than this fraction of the scale is at it, for solvers that only approach it.
_AT_BOUND = 1e-7
#: Scores are summed over so many stretches of neighbouring residuals at most, each of at least so
#: many, to see how much more they vary than those of independent residuals; fewer stretches than
#: the third do not show that.
_STRETCHES, _IN_STRETCH, _FEWEST = 400, 20, 20


@dataclass
class Point:
    """What is known at one place.

    Attributes:
        z: (p,) scaled variables.
        residual: (n,) residuals.
        cost: Half the sum of the losses.
        unstable: Whether the simulation became unstable.
        jacobian: (n, p) derivative by the scaled variables, once known.
        kind: How the Jacobian was found.
    """

    z: NDArray[np.float64]
    residual: NDArray[np.float64]
    cost: float
    unstable: bool
    jacobian: NDArray[np.float64] | None = None
    kind: str = FORWARD


@dataclass
class Quadratic:
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


class Secant:
    """The part of the Hessian that comes from the residuals' curvature, learnt from steps.

    The Jacobians at both ends of a step give its action along the step for nothing: the secant
    update of NL2SOL (Dennis, Gay and Welsch, ACM TOMS 7(3), 1981), and as there it serves when it
    would have predicted the last reduction better.

    Attributes:
        matrix: (p, p) by the scaled variables.
        trusted: Whether it serves far from the optimum, too.
        loss: The loss of the residuals.
    """

    def __init__(self, count: int, loss: Loss) -> None:
        self.matrix = np.zeros((count, count))
        self.trusted = False
        self.loss = loss

    def forget(self) -> None:
        """Forget everything, after learning from Jacobians that were wrong."""
        self.matrix[:] = 0.0

    def learn(self, before: Point, after: Point, predicted: float) -> None:
        """Learn from a step and the reduction of the cost that was predicted for it."""
        if {KEPT, UPDATED} & {before.kind, after.kind}:
            return
        assert before.jacobian is not None and after.jacobian is not None  # noqa: S101, PT018
        step = after.z - before.z
        first, second = (
            rho(each.residual, self.loss)[1] * each.residual for each in (before, after)
        )
        gradient = after.jacobian.T @ second
        wanted = gradient - before.jacobian.T @ second
        change = gradient - before.jacobian.T @ first
        along = float(step @ change)
        if along <= 0:
            return
        bend = float(step @ self.matrix @ step)
        # What the model would have predicted with this part, or without it where it had it.
        other = predicted + bend / 2 if self.trusted else predicted - bend / 2
        actual = before.cost - after.cost
        if bend != 0 and abs(actual - other) < abs(actual - predicted):
            self.trusted = not self.trusted
        if bend != 0:
            self.matrix *= min(abs(float(step @ wanted)) / abs(bend), 1.0)
        missed = wanted - self.matrix @ step
        self.matrix += (np.outer(missed, change) + np.outer(change, missed)) / along
        self.matrix -= float(missed @ step) / along**2 * np.outer(change, change)


def quadratic(
    point: Point, lower: NDArray[np.float64], upper: NDArray[np.float64], secant: Secant
) -> Quadratic:
    """Model the cost around a point.

    The length of the predicted step in standard errors is the relative offset of Bates and Watts
    (Technometrics 23, 1981): it knows no units, and is large for exact data until the residuals
    are rounding errors. Where neighbouring residuals are alike, as those of a model that lacks
    something, standard errors are larger: by how much, in the mean over all directions, the scatter
    S of the scores' sums over stretches says, the trace of H⁻¹ S over that of independent ones.

    Args:
        point: Where, with its Jacobian.
        lower: (p,) lower bounds of the scaled variables.
        upper: (p,) upper bounds.
        secant: What is known of the residuals' curvature, and the loss.
    """
    jacobian, residual = point.jacobian, point.residual
    assert jacobian is not None  # noqa: S101
    linear = secant.loss == 'linear'
    products = jacobian.T @ jacobian
    norms = np.sqrt(np.diag(products))
    unit = 1.0 / np.maximum(norms, np.finfo(np.float64).eps)
    weight = rho(residual, secant.loss)[1]
    influence = weight * residual
    gradient = unit * (jacobian.T @ influence)
    near = _AT_BOUND * np.maximum(np.abs(point.z), 1.0)
    held = ((point.z <= lower + near) & (gradient > 0)) | (
        (point.z >= upper - near) & (gradient < 0)
    )
    free = ~held & (norms > 0)
    variance = float(influence @ influence) / max(len(residual) - int(free.sum()), 1)
    scatter = _scatter(jacobian, influence)
    if scatter is not None:
        scatter *= np.outer(unit, unit)

    def model(hessian: NDArray[np.float64]) -> Quadratic:
        newton, squared = _newton(gradient, hessian, free)
        if not variance > 0 or not squared > 0:
            return Quadratic(unit, gradient, hessian, newton, 0.0, variance)
        alike = 1.0
        if scatter is not None:
            own = np.ix_(free, free)
            ratio = np.linalg.lstsq(hessian[own], scatter[own], rcond=_NO_INFORMATION)[0]
            alike = max(float(np.trace(ratio)) / (variance * int(free.sum())), 1.0)
        decrement = float(np.sqrt(squared / variance))
        return Quadratic(unit, gradient, hessian, newton, decrement, variance, alike)

    def weighted(weight: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = jacobian.T @ (weight[:, None] * jacobian)
        found *= np.outer(unit, unit)
        return found

    found = model(unit[:, None] * products * unit if linear else weighted(weight))
    if not linear and found.decrement < _NEWTON:
        found = model(weighted(curvature(residual, secant.loss)))
    if free.any() and (secant.trusted or found.decrement < _NEWTON):
        full = found.hessian + unit[:, None] * secant.matrix * unit
        least, least_full = (
            np.linalg.eigvalsh(hessian[np.ix_(free, free)])[0] for hessian in (found.hessian, full)
        )
        if least_full > _SMALLEST_CURVATURE * least:
            found = model(full)
    return found


def updated(
    before: Point, after: Point, unit: NDArray[np.float64], least: float = 0.0
) -> NDArray[np.float64]:
    """Return the (n, p) Jacobian that says what a step changed, and is else that from before.

    Broyden's update (Mathematics of Computation 19, 1965), least in units of standard errors, which
    leaves alone what is zero: what an unknown does not act on, as priors on others, it never does
    (Schubert, Mathematics of Computation 24, 1970).

    Args:
        before: Where the step began, with its Jacobian.
        after: Where it ended.
        unit: (p,) standard errors of the scaled variables, up to a factor.
        least: A step that should change the residuals by less than this norm tells nothing.
    """
    assert before.jacobian is not None  # noqa: S101
    step = after.z - before.z
    across = step / unit**2
    expected = before.jacobian @ step
    if np.linalg.norm(expected) < least:
        return before.jacobian
    missed = after.residual - before.residual - expected
    acts = before.jacobian != 0
    moved = acts @ (step * across)
    share = np.divide(missed, moved, out=np.zeros_like(missed), where=moved > 0)
    changed: NDArray[np.float64] = np.outer(share, across)
    changed *= acts
    changed += before.jacobian
    return changed


def _scatter(
    jacobian: NDArray[np.float64], influence: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """Return the (p, p) scatter of the scores' sums over stretches, None for few residuals."""
    count = min(_STRETCHES, len(influence) // _IN_STRETCH)
    if count < _FEWEST:
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
