# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The state of a solve, and the steps that follow from it.

With unit columns, gradient g and Hessian H of the cost, a step d solves the box-constrained problem

    minimise  g·d + d·(H + μ I)·d / 2    inside the bounds.

The damping μ changes as in Fletcher, A modified Marquardt subroutine for non-linear least squares,
AERE-R 6799, 1971.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.schema import Loss
from sysid_ros.estimation.solver.differences import Variables
from sysid_ros.estimation.solver.losses import Quadratic, rho

#: The first step is not damped. While steps fail, the damping rises by this factor from the least
#: to the largest.
_MU_MIN, _MU_FACTOR, _MU_MAX = 1e-4, 4.0, 1e5
#: After a step that lowered the cost by more than the first part of what was predicted, the next
#: one is not damped; after one that lowered it by less than the second, more (Fletcher).
GOOD_RATIO, _POOR_RATIO = 0.75, 0.25
#: So many dampings are one batch, unless the last step was good.
LADDER = 4
#: Steps are bent by less than this part of themselves.
_MOST_BENT = 0.5
#: Where data without noise leave no standard error to measure a step with, this part of the
#: tolerance counts in units of the values: at an accuracy of .01, the seventh digit. Of values near
#: zero it is the second in units of the scales.
_OF_VALUE, _STEP_TOLERANCE = 1e-5, 1e-10
#: An infinite bound is this far away, in units of the scales: no step is that long.
_FAR = 1e12


class Point(NamedTuple):
    """What is known at one place: (p,) scaled variables, (n,) residuals, the cost."""

    z: NDArray[np.float64]
    residual: NDArray[np.float64]
    cost: float


class Step(NamedTuple):
    """A damping, the (p,) step that it gives in unit columns, and the (p,) candidate."""

    damping: float
    dx: NDArray[np.float64]
    z: NDArray[np.float64]


@dataclass(frozen=True)
class State:
    """Where a solve is.

    Attributes:
        point: The best so far.
        jacobian: (n, p) derivative of the residuals by the scaled variables.
        kind: How it was found.
        model: The cost around the point.
        damping: Of the next step.
        ladder: How many dampings are tried at once.
        poor: How many steps in a row lowered the cost by hardly anything.
        stuck: Whether no step lowers the cost any more.
    """

    point: Point
    jacobian: NDArray[np.float64]
    kind: str
    model: Quadratic
    damping: float = 0.0
    ladder: int = LADDER
    poor: int = 0
    stuck: bool = False


def converged(state: State, tolerance: float) -> str | None:
    """Return why a solve is at its optimum, if it is."""
    model, z = state.model, state.point.z
    if state.point.cost == 0.0:
        return 'cost'
    if model.decrement <= tolerance * math.sqrt(model.alike):
        return 'gradient'
    least = np.maximum(_OF_VALUE * tolerance * np.abs(z), _STEP_TOLERANCE)
    return 'step' if np.all(np.abs(model.newton * model.unit) <= least) else None


def least_fall(state: State, tolerance: float) -> float:
    """Return by how much a step of one tolerance lowers the cost."""
    return 0.5 * state.model.variance * state.model.alike * tolerance**2


def next_ladder(state: State, variables: Variables, tolerance: float) -> list[Step]:
    """Return the next few damped steps, none where no damping promises to lower the cost."""
    model, z, count = state.model, state.point.z, len(state.point.z)
    lower = (np.maximum(variables.lower, -_FAR) - z) / model.unit
    upper = (np.minimum(variables.upper, _FAR) - z) / model.unit
    # The box solver ends by the size of the gradient, which becomes tiny with exact data.
    size = float(np.linalg.norm(model.gradient)) or 1.0
    problem = [(column / size)[:, None] for column in (model.gradient, lower, upper)]
    scratch = np.zeros((count, count + 7))
    steps: list[Step] = []
    damping = state.damping
    while len(steps) < state.ladder and damping < _MU_FACTOR * _MU_MAX:
        # Begun elsewhere, it may end where the quadratic is above zero, if it is narrow.
        dx = np.zeros((count, 1))
        damped = model.hessian + damping * np.eye(count)
        if mujoco.mju_boxQP(dx, scratch, None, damped, *problem) >= 0:
            step = size * dx[:, 0]
            if damping > 0 and model.fall(step) < least_fall(state, tolerance):
                break
            steps.append(Step(damping, step, z + model.unit * step))
        damping = raised(damping)
    return steps


def bent(state: State, step: Step, ahead: Point, variables: Variables, loss: Loss) -> Step | None:
    """Return a step that follows the curve of a narrow valley; None where it bends too much.

    Along a straight step residuals change with its square, too; what the linear model says of that
    is added (geodesic acceleration: M. K. Transtrum and J. P. Sethna, "Improvements to the
    Levenberg-Marquardt algorithm for nonlinear least-squares minimization", arXiv:1201.5885).

    Args:
        state: Where the step begins.
        step: A straight step.
        ahead: What was found at its end.
        variables: The scaled variables.
        loss: Of the residuals.
    """
    model, point = state.model, state.point
    missed = ahead.residual - point.residual - state.jacobian @ (step.z - point.z)
    pull = model.unit * (state.jacobian.T @ (rho(point.residual, loss)[1] * missed))
    free = np.flatnonzero((step.z > variables.lower) & (step.z < variables.upper))
    damped = (model.hessian + step.damping * np.eye(len(pull)))[np.ix_(free, free)]
    bend = np.zeros(len(pull))
    bend[free] = -np.linalg.lstsq(damped, pull[free], rcond=None)[0]
    if np.linalg.norm(bend) > _MOST_BENT * np.linalg.norm(step.dx):
        return None
    z = np.clip(step.z + model.unit * bend, variables.lower, variables.upper)
    return step._replace(z=z)


def raised(damping: float) -> float:
    """Return the next damping of the ladder."""
    return max(_MU_MIN, _MU_FACTOR * damping)


def next_damping(damping: float, ratio: float) -> float:
    """Return the damping after a step that lowered the cost by so much of what was predicted."""
    if ratio > GOOD_RATIO:
        return 0.0
    return raised(damping) if ratio < _POOR_RATIO else damping
