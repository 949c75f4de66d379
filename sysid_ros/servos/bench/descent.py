# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Least squares for motion that sticks and slides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import least_squares

from sysid_ros.errors import CancelledError, FitError
from sysid_ros.estimation.solver.least_squares import Solution
from sysid_ros.estimation.solver.problem import Iteration

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sysid_ros.servos.bench.residuals import LogResiduals

    Array = NDArray[np.float64]

#: First differences are over this part of the bounds' distance.
_FIRST_STEP = 1e-4
#: Later ones change the residuals by this, a standard error if all else is known: motion that
#: sticks and slides makes the cost a staircase, whose steps say nothing of its slope …
_CHANGE = 1.0
#: … within these parts of the bounds' distance.
_SHORTEST, _LONGEST = 1e-7, 1e-2
#: Simulations of so few numbers at a time take as long with the neighbours of a candidate as
#: without: both are found at once then, though a step that is rejected needs no derivative.
_FEW = 2000
#: Solvers that stay inside of bounds begin so far from them, in parts of the bounds' distance.
_OFF_BOUNDS = 1e-6
#: Ends so near to a bound are on it: no residual tells the difference.
_AT_BOUND = 1e-5
_TOLERANCE = 1e-6
_WORDS = {
    0: ('iterations', 'Stopped at the limit of iterations before convergence.'),
    1: ('gradient', 'Converged: the gradient is below the tolerance.'),
    2: ('cost', 'Converged: the cost no longer falls.'),
    3: ('step', 'Converged: the step is below the tolerance.'),
    4: ('cost', 'Converged: the cost no longer falls.'),
}


class _Slopes:
    """The derivative by values in parts of their bounds, over steps that it chooses itself."""

    def __init__(
        self,
        residuals: LogResiduals,
        cancel: threading.Event | None,
        *,
        central: bool,
    ) -> None:
        self._residuals, self._cancel, self._central = residuals, cancel, central
        self.low = np.array([unknown.min_value for unknown in residuals.unknowns])
        self.span = np.array([unknown.max_value for unknown in residuals.unknowns]) - self.low
        self._size = np.full(len(self.low), _FIRST_STEP)
        self._few = len(residuals.names) * (len(self.low) + 1) <= _FEW
        self.trace: list[tuple[float, Array]] = []
        self._known: tuple[bytes, Array, Array | None] = (b'', np.zeros(0), None)

    def residual(self, u: Array) -> Array:
        """Return the (n,) residuals."""
        if self._cancel is not None and self._cancel.is_set():
            msg = 'The fit was cancelled.'
            raise CancelledError(msg)
        x = self.low + self.span * u
        if self._few:
            around = self._residuals.step_changes(x, self._steps(u) * self.span)
            self._known = (u.tobytes(), around.residual, around.changes)
        else:
            self._known = (u.tobytes(), self._residuals(x[None])[:, 0], None)
        return self._known[1]

    def jacobian(self, u: Array) -> Array:
        """Return the (n, p) derivative."""
        if self._known[0] != u.tobytes():
            self.residual(u)
        _, base, changes = self._known
        x, step = self.low + self.span * u, self._steps(u)
        if changes is None:
            changes = self._residuals.step_changes(x, step * self.span, base=base).changes
        found: Array = changes / step
        if self._central:
            free = (u - np.abs(step) >= 0) & (u + np.abs(step) <= 1)
            back = (
                self._residuals.step_changes(x, -step * self.span, free, base=base).changes / -step
            )
            found[:, free] = (found[:, free] + back[:, free]) / 2
        norms = np.maximum(np.linalg.norm(found, axis=0), 1e-300)
        self._size = np.clip(_CHANGE / norms, _SHORTEST, _LONGEST)
        self.trace.append((0.5 * float(base @ base), u))
        return found

    def _steps(self, u: Array) -> Array:
        """Return the (p,) steps of first differences, into the bounds."""
        found: Array = np.where(u > 0.5, -self._size, self._size)  # noqa: PLR2004
        return found


def descend(
    residuals: LogResiduals,
    start: Array,
    *,
    limit: int,
    central: bool = False,
    cancel: threading.Event | None = None,
    observe: Callable[[Iteration], None] | None = None,
) -> Solution:
    """Find the values with the least cost inside the bounds, by scipy's trust-region solver.

    Args:
        residuals: What is minimised.
        start: (p,) values.
        limit: At most so many evaluations.
        central: Whether derivatives are differences to both sides.
        cancel: Ends it when it is set.
        observe: Called after every iteration.

    Raises:
        FitError: The residuals have no unknowns.
        CancelledError: ``cancel`` was set.
    """
    if not residuals.unknowns:
        msg = 'Nothing to fit: every coefficient is fixed.'
        raise FitError(msg)
    slopes = _Slopes(residuals, cancel, central=central)
    before = residuals.evaluations
    trace: list[Iteration] = []

    def jacobian(u: Array) -> Array:
        found = slopes.jacobian(u)
        cost, x = slopes.trace[-1]
        step = float(np.linalg.norm(x - slopes.trace[-2][1])) if len(slopes.trace) > 1 else 0.0
        kind = 'central' if central else 'forward'
        names = tuple(unknown.name for unknown in residuals.unknowns) if central else ()
        trace.append(
            Iteration(
                len(trace),
                cost,
                step,
                residuals.evaluations - before,
                0,
                0.0,
                limit,
                kind,
                names,
                np.nan,
                tuple(slopes.low + slopes.span * u),
            )
        )
        if observe is not None:
            observe(trace[-1])
        return found

    solved = least_squares(
        slopes.residual,
        np.clip((start - slopes.low) / slopes.span, _OFF_BOUNDS, 1 - _OFF_BOUNDS),
        jacobian,
        bounds=(0.0, 1.0),
        max_nfev=limit,
        x_scale='jac',
        ftol=_TOLERANCE,
        xtol=_TOLERANCE,
    )
    status, message = _WORDS[solved.status]
    slope = solved.jac / slopes.span
    # The solver stays inside of bounds that it would cross.
    end = np.where(solved.x <= _AT_BOUND, 0.0, np.where(solved.x >= 1 - _AT_BOUND, 1.0, solved.x))
    return Solution(
        x=slopes.low + slopes.span * end,
        residual=solved.fun,
        cost=float(solved.cost),
        status=status,
        message=message,
        success=status != 'iterations',
        trace=tuple(trace),
        jacobian=slope,
        gradient=slope.T @ solved.fun,
        iterations=len(trace) - 1,
        evaluations=residuals.evaluations - before,
    )
