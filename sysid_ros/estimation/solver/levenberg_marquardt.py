# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Levenberg and Marquardt's method inside bounds, with several dampings in one batch.

With unit columns, gradient g and Hessian H of the cost, a step d solves the box-constrained problem

    minimise  g·d + d·(H + μ I)·d / 2    inside the bounds.

The series of the dampings μ, the test of a step and the change of μ after it (Fletcher, A modified
Marquardt subroutine for non-linear least squares, AERE-R 6799, 1971) are those of
``mujoco.minimize.least_squares``. That evaluates one candidate after the other while they fail;
here the next few of the series are one batch of simulations, and the best of them is taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.estimation.solver.descent import Descent
from sysid_ros.estimation.solver.differences import column_norms
from sysid_ros.estimation.solver.losses import rho
from sysid_ros.estimation.solver.quadratic import Point

#: The first step is not damped. While steps fail, the damping rises by this factor from the least
#: to the first value that is not below the largest: where so small a part of a step fails as well,
#: its length is not what is wrong.
MU_MIN, MU_FACTOR, MU_MAX = 1e-4, 4.0, 1e5
#: Where the least curvature of unit columns is below the least damping, that would hold what the
#: data hardly tell where it is: it begins at that curvature, if not below this.
_MU_LEAST = 1e-9
#: A step is taken if it lowers the cost by this part of what the gradient promises (Armijo).
_ARMIJO = 1e-2
#: The damping falls after a step that lowered the cost by more than the first part of what was
#: predicted, and rises after one that lowered it by less than the second.
_GOOD_RATIO, _POOR_RATIO = 0.75, 0.25
#: So many candidates are evaluated in one batch where the first is not expected to succeed.
_BATCH = 4
#: The second derivative along a step is that of this part of it; a step is bent by less than the
#: second part of itself.
_PART, _MOST_BENT = 0.1, 0.5
#: A column shorter than this is taken to be so long.
_SHORTEST_COLUMN = float(np.finfo(np.float64).eps ** 0.5)
#: An infinite bound is this far away, in units of the scales: no step is that long.
_FAR = 1e12


class _Step(NamedTuple):
    """A damping, the (p, 1) step that it gives in unit columns, and the (p,) candidate."""

    mu: float
    dx: NDArray[np.float64]
    z: NDArray[np.float64]


class _Damping:
    """The damping between the steps.

    Attributes:
        mu: That of the next step.
        least: That of the first step which is damped at all.
        reductions: How often in a row the damping fell.
    """

    def __init__(self) -> None:
        self.mu = 0.0
        self.least = MU_MIN
        self.reductions = 0

    def series(self, descent: Descent) -> Iterator[_Step]:
        """Yield steps from the current point, each damped more than the one before.

        The last one is that beyond which none promises to lower the cost by enough.
        """
        model = descent.model
        jacobian = descent.current.jacobian
        assert jacobian is not None  # noqa: S101
        x = descent.current.z[:, None]
        unit = 1.0 / np.maximum(column_norms(jacobian), _SHORTEST_COLUMN)[:, None]
        gradient = model.gradient[:, None]
        lower = (np.maximum(descent.lower, -_FAR)[:, None] - x) / unit
        upper = (np.minimum(descent.upper, _FAR)[:, None] - x) / unit
        scratch = np.zeros((len(x), len(x) + 7))
        # It ends by the size of the gradient, which becomes tiny with exact data.
        size = float(np.linalg.norm(gradient)) or 1.0
        problem = gradient / size, lower / size, upper / size
        mu = self.mu
        weakest = float(np.linalg.eigvalsh(model.hessian)[0])
        self.least = min(max(weakest, _MU_LEAST), MU_MIN)
        while True:
            damped = model.hessian + mu * np.eye(len(x))
            # Begun elsewhere, it may end where the quadratic is above zero, if it is narrow.
            dx = np.zeros((len(x), 1))
            if mujoco.mju_boxQP(dx, scratch, None, damped, *problem) >= 0:
                dx *= size
                yield _Step(mu, dx, (x + unit * dx)[:, 0])
                if mu > 0 and model.fall(dx[:, 0]) < descent.least_fall:
                    return
            if mu >= MU_MAX:
                return
            mu = self._raised(mu)

    def follow(self, taken: _Step, ratio: float) -> None:
        """Change the damping after a step.

        Args:
            taken: The step.
            ratio: By how much it lowered the cost, in units of what was predicted.
        """
        if taken.mu > self.mu:
            self.reductions = 0
        self.mu = taken.mu
        if ratio > _GOOD_RATIO:
            lower = self.mu * (1 / MU_FACTOR) ** (2**self.reductions)
            self.mu = 0.0 if lower < self.least else lower
            self.reductions += 1
        elif ratio < _POOR_RATIO:
            self.mu, self.reductions = self._raised(self.mu), 0

    def _raised(self, mu: float) -> float:
        return max(self.least, MU_FACTOR * mu)


def run_levenberg_marquardt(descent: Descent) -> str:
    """Descend until the solve has converged or no step lowers the cost; return the status."""
    damping = _Damping()
    trusted = False
    while descent.status is None:
        found = _search(descent, damping, trusted=trusted)
        trusted = False
        if isinstance(found, _Step):
            expected = descent.model.fall(found.dx[:, 0])
            before = descent.current.cost
            descent.move(found.z, found.mu, expected)
            lowered = before - descent.current.cost
            damping.follow(found, lowered / expected if expected > 0 else 0.0)
            continue
        if descent.hurried:
            return 'time'
        mended = found is _Ended.RENEWED or descent.mend()
        if not mended and (found is _Ended.NO_STEP or descent.at_precision):
            return descent.verdict()
        trusted = not mended  # what cannot be mended serves as it is
        damping = _Damping()
    return descent.status


class _Ended(Enum):
    """Why a search ended without a step."""

    NO_STEP = 'no damping gives a step that lowers the cost'
    DOUBTFUL = 'a short step has failed: what is wrong is rather the Jacobian than its length'
    RENEWED = 'the Jacobian was wrong, and has been made anew'


def _bent(descent: Descent, step: _Step, ahead: Point, part: float) -> _Step | None:
    """Return a step that follows the curve of a narrow valley; None where it bends too much.

    Along a straight step residuals change with its square, too; what the linear model says of that
    is added (geodesic acceleration: M. K. Transtrum and J. P. Sethna, "Improvements to the
    Levenberg-Marquardt algorithm for nonlinear least-squares minimization", arXiv:1201.5885).

    Args:
        descent: Where the step begins.
        step: A straight step.
        ahead: What was found on the way.
        part: How far on the way, as a part of the step.
    """
    current, model = descent.current, descent.model
    assert current.jacobian is not None  # noqa: S101
    along = step.z - current.z
    missed = ahead.residual - current.residual - part * (current.jacobian @ along)
    weight = rho(current.residual, descent.loss)[1]
    pull = model.unit * (current.jacobian.T @ (weight * missed)) / part**2
    free = np.flatnonzero((step.z > descent.lower) & (step.z < descent.upper))
    damped = (model.hessian + step.mu * np.eye(len(along)))[np.ix_(free, free)]
    bend = np.zeros(len(along))
    bend[free] = -np.linalg.lstsq(damped, pull[free], rcond=None)[0]
    if np.linalg.norm(bend) > _MOST_BENT * np.linalg.norm(step.dx):
        return None
    z = np.clip(step.z + model.unit * bend, descent.lower, descent.upper)
    return step._replace(z=z)


def _bent_at_once(descent: Descent, step: _Step) -> _Step:
    """Return a step that is bent as its first part tells, if it can be."""
    points = descent.evaluate([descent.current.z + _PART * (step.z - descent.current.z)])
    return (points and _bent(descent, step, points[0], _PART)) or step


def _bent_after(
    descent: Descent, straight: list[_Step], points: list[Point]
) -> tuple[list[_Step], list[Point] | None]:
    """Return steps, bent as the straight ones tell where that is better, and their points."""
    pairs = zip(straight, points, strict=True)
    bent = [step for each, ahead in pairs if (step := _bent(descent, each, ahead, 1.0))]
    found = descent.evaluate([step.z for step in bent])
    better = found is None or _least(found) < _least(points)
    return (bent, found) if better else (straight, points)


def _least(points: list[Point]) -> float:
    return min((point.cost for point in points), default=np.inf)


def _search(descent: Descent, damping: _Damping, *, trusted: bool) -> _Step | _Ended:
    """Look for a step that lowers the cost, with a trusted Jacobian until none promises to."""
    model, start = descent.model, descent.current.cost
    series = damping.series(descent)
    size = 1 if descent.expects_success else _BATCH
    first, tried, promised = True, 0, 0.0
    while batch := list(itertools.islice(series, size)):
        if not first and descent.doubtful and not trusted:
            return _Ended.DOUBTFUL
        if descent.hurried and tried > len(descent.lower):
            return _Ended.NO_STEP
        if descent.smooth:
            batch = [_bent_at_once(descent, step) for step in batch]
        candidates = [step.z for step in batch]
        points = descent.trial(candidates) if first else descent.evaluate(candidates)
        steps, promised = batch, promised or model.fall(batch[0].dx[:, 0])
        if points and descent.bends and start - _least(points) < _GOOD_RATIO * promised:
            steps, points = _bent_after(descent, batch, points)
        if points is None:
            return _Ended.RENEWED
        costs = [point.cost for point in points]
        best = int(np.argmin(costs))  # those before it are damped less, and go too far
        for step, cost in zip(steps[best:], costs[best:], strict=True):
            if start - cost + _ARMIJO * (model.gradient @ step.dx).item() > 0:
                return step
        size, first = _BATCH, False
        tried += len(batch)
    return _Ended.NO_STEP
