# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The derivative along directions that hardly change the residuals, measured instead of summed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.estimation.solver.differences import scales
from sysid_ros.inference.dependence import threshold

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.estimation.solver.least_squares import Solution
    from sysid_ros.estimation.solver.problem import ResidualLike

#: Directions with singular values above this, of columns of length 1, are left as they are: errors
#: of the columns are far below it.
_WEAK = 0.02
#: Largest step along a direction, in units of the parameters' scales, and smallest.
_LONGEST, _SHORTEST = 1e-3, 1e-5
#: What is left of the error falls quadratically from one round to the next.
_ROUNDS = 3


def sharpened(residuals: ResidualLike, solution: Solution) -> NDArray[np.float64]:
    """Return the (n, p) Jacobian of a solution, made right along its weakest directions.

    Where parameters nearly cancel, the sum of their columns is mostly the columns' errors: those
    would pass for information. So along each weak right singular vector v of the scaled Jacobian
    the derivative is differenced directly, over about one standard error, and the Jacobian changed
    by the rank-one update that gives J v that value (Broyden, Math. Comp. 19, 1965). A vector that
    the errors had tilted is nearly right the second time.

    Args:
        residuals: The residual function.
        solution: Where the solver ended; its weights are the residuals'.
    """
    jacobian: NDArray[np.float64] = solution.jacobian.copy()
    norms = np.linalg.norm(jacobian, axis=0)
    live = np.flatnonzero(norms > 0)
    if len(live) < 2:  # noqa: PLR2004 (nothing cancels)
        return jacobian
    scaled = jacobian[:, live] / norms[live]
    # What an unknown does not act on, as other sequences and priors, it never does.
    untouched = scaled == 0
    for _ in range(_ROUNDS):
        triangle = np.linalg.qr(scaled, mode='r')
        _, singular, right = np.linalg.svd(triangle)
        weak = singular < _WEAK
        if not weak.any():
            break
        moves = np.zeros((int(weak.sum()), len(norms)))
        moves[:, live] = right[weak] / norms[live]
        measured, found = _along(residuals, solution, moves, singular[weak])
        directions = right[weak][found]
        change = measured - scaled @ directions.T
        scaled += change @ directions
        scaled[untouched] = 0.0
        if not len(directions) or np.linalg.norm(change, axis=0).max() <= threshold(len(live)):
            break
    jacobian[:, live] = scaled * norms[live]
    return jacobian


def _along(
    residuals: ResidualLike,
    solution: Solution,
    moves: NDArray[np.float64],
    singular: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return (n, f) derivatives along (k, p) moves, and (k,) which of them could be had.

    Second-order differences, to one side where there is a bound on the other.
    """
    unknowns = residuals.unknowns
    low = np.array([unknown.min_value for unknown in unknowns])
    high = np.array([unknown.max_value for unknown in unknowns])
    unit = 1 / np.max(np.abs(moves) / scales(unknowns), axis=1)
    # A standard error changes the residuals by 1: so far differences mean what intervals do.
    steps = np.clip(1 / np.maximum(singular, threshold(1)), _SHORTEST * unit, _LONGEST * unit)
    candidates, places = [], []
    for place, (move, step) in enumerate(zip(moves, steps, strict=True)):
        for near, far in ((1.0, -1.0), (1.0, 2.0), (-1.0, -2.0)):
            pair = solution.x + step * np.outer((near, far), move)
            if np.all((pair >= low) & (pair <= high)):
                candidates.extend(pair)
                places.append((place, near * step, far))
                break
    found = np.zeros(len(moves), dtype=bool)
    if not candidates:
        return np.zeros((len(solution.residual), 0)), found
    values = residuals(np.stack(candidates)) - solution.residual[:, None]
    unstable = np.asarray(residuals.unstable, dtype=bool)
    columns = []
    for number, (place, step, far) in enumerate(places):
        near_change, far_change = values[:, 2 * number], values[:, 2 * number + 1]
        central = far == -1.0
        difference = near_change - far_change if central else 4 * near_change - far_change
        if not unstable[2 * number : 2 * number + 2].any() and np.all(np.isfinite(difference)):
            found[place] = True
            columns.append(difference / (2 * step))
    measured = np.stack(columns, axis=1) if columns else np.zeros((len(solution.residual), 0))
    return measured, found
