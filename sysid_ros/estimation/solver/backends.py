# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The libraries' solvers, fed from one state of the solve."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np
import scipy.optimize
from mujoco import minimize

from sysid_ros.errors import FitError
from sysid_ros.estimation.solver.descent import Mended
from sysid_ros.estimation.solver.losses import root

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.estimation.solver.descent import Descent
    from sysid_ros.estimation.solver.quadratic import Point

#: The solver of mujoco.minimize begins without a regulariser, raises it from the least to the
#: largest by this factor while steps fail, …
MU_MIN, MU_FACTOR, MU_MAX = 1e-4, 4.0, 1e8
#: … lowers it after a step that reduced the cost by this part of the predicted, raises it below …
_GOOD_RATIO, _POOR_RATIO = 0.75, 0.25
#: … and so many candidates with regularisers of that series are evaluated in one batch.
_BATCH = 4
#: In place of an infinite bound, in units of the scales: no step is that long.
_FAR = 1e12
#: A start nearer than this to a bound that a method would never leave moves inwards …
_ON_BOUND = 1e-8
#: … by this part of the bounds' distance, or of the scale if that is less.
_OFF_BOUND, _OFF_BOUND_SCALES = 0.01, 0.1
#: Steps of a trust region are the full ones only very near to the optimum, in standard errors.
_LAST_STEP = 1e-2
#: scipy stops by itself at the limits of rounding; before that, the descent stops it.
_SCIPY_TOLERANCE = 1e-14
#: Evaluations that scipy may use per iteration, on average.
_TRIALS = 20


def run_mujoco(descent: Descent) -> str:
    """Solve with ``mujoco.minimize``; return the status."""
    while True:
        try:
            ended = _Damped(descent).run()
        except Mended:
            continue
        if not descent.mend() and (ended or descent.at_precision):
            return descent.verdict()


class _Exhausted(Exception):  # noqa: N818 (a signal out of the library's loop, not an error)
    """A short step has failed: what is wrong is rather the Jacobian than the step's length."""


class _Try(NamedTuple):
    """A regulariser, the (p, 1) step that it gives in unit columns, and the (p,) candidate."""

    mu: float
    dx: NDArray[np.float64]
    z: NDArray[np.float64]


class _Damped(minimize.Norm):  # type: ignore[misc]
    """One run of ``mujoco.minimize.least_squares``, with its candidates foreseen.

    The library asks for one candidate after the other while they fail. The series of its
    regularisers is known, so the next candidates are computed with the same call, evaluated in one
    batch, and the library is led to the best by answering infinity for those before it. Should a
    version of it ask for something else, it gets just that.
    """

    def __init__(self, descent: Descent) -> None:
        count = len(descent.lower)
        self._descent = descent
        self._bounds = [
            np.maximum(descent.lower, -_FAR)[:, None],
            np.minimum(descent.upper, _FAR)[:, None],
        ]
        self._mu = 0.0
        self._reductions = 0
        self._dx = np.zeros((count, 1))
        self._scratch = np.zeros((count, count + 7))
        self._tries: list[_Try] = []
        self._asked = 0
        self._passed_by: range = range(0)
        self._point = descent.current

    def run(self) -> bool:
        """Descend until no step lowers the cost; return whether all regularisers were tried.

        Raises:
            Stopped: The solve has converged or reached the limit.
        """
        try:
            minimize.least_squares(
                self._descent.current.z,
                self._residual,
                bounds=self._bounds,
                jacobian=self._jacobian,
                norm=self,
                mu_min=MU_MIN,
                mu_max=MU_MAX,
                mu_factor=MU_FACTOR,
                xtol=0.0,
                gtol=0.0,
                max_iter=self._descent.limit + 1,
                verbose=minimize.Verbosity.SILENT,
                x_scale='jac',
            )
        except _Exhausted:
            return False
        return True

    def value(self, _: NDArray[np.float64]) -> float:
        """Return the cost of the residuals that were asked for last, infinity to pass them by."""
        return np.inf if self._asked - 1 in self._passed_by else self._point.cost

    def grad_hess(
        self, _: NDArray[np.float64], __: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return gradient and Hessian by the variables of unit columns."""
        model = self._descent.model
        return model.gradient[:, None], model.hessian

    def _residual(self, candidate: NDArray[np.float64]) -> NDArray[np.float64]:
        z = candidate[:, 0]
        at_start = not self._asked and z.tobytes() == self._descent.current.z.tobytes()
        self._point = self._descent.current if at_start else self._trial(z)
        return self._point.residual[:, None]

    def _trial(self, z: NDArray[np.float64]) -> Point:
        descent = self._descent
        self._asked += 1
        if self._asked > len(self._tries):
            if self._asked > 1 and descent.doubtful:
                raise _Exhausted
            self._foresee(1 if self._asked == 1 and descent.expects_success else _BATCH)
            batch = [each.z for each in self._tries[self._asked - 1 :]]
            if len(batch) > 1 and batch[0].tobytes() == z.tobytes():
                costs = [point.cost for point in descent.evaluate(batch)]
                best = int(np.argmin(costs))
                if costs[best] < descent.current.cost:
                    self._passed_by = range(self._asked - 1, self._asked - 1 + best)
        return descent.trial(z) if self._asked == 1 else descent.evaluate([z])[0]

    def _foresee(self, count: int) -> None:
        """Compute the next candidates as the library will."""
        descent, model = self._descent, self._descent.model
        x, unit = descent.current.z[:, None], model.unit[:, None]
        gradient = model.gradient[:, None]
        lower, upper = ((bound - x) / unit for bound in self._bounds)
        mu, dx = self._mu, self._dx
        if self._tries:
            mu, dx = _raised(self._tries[-1].mu), self._tries[-1].dx
        for _ in range(count):
            dx = dx.copy()
            while mu <= MU_MAX:
                damped = model.hessian + mu * np.eye(len(x))
                if mujoco.mju_boxQP(dx, self._scratch, None, damped, gradient, lower, upper) >= 0:
                    break
                mu = _raised(mu)
            else:
                return
            self._tries.append(_Try(mu, dx, (x + unit * dx)[:, 0]))
            mu = _raised(mu)

    def _jacobian(
        self, candidate: NDArray[np.float64], _: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        descent = self._descent
        if self._tries and self._asked <= len(self._tries):
            self._move(self._tries[self._asked - 1])
        self._tries, self._asked, self._passed_by = [], 0, range(0)
        jacobian = descent.jacobian(candidate[:, 0]).jacobian
        assert jacobian is not None  # noqa: S101
        return jacobian

    def _move(self, taken: _Try) -> None:
        """Follow the library's regulariser after a step (Fletcher 1971, as it is there)."""
        descent = self._descent
        gradient, hessian = descent.model.gradient[:, None], descent.model.hessian
        dx, mu = taken.dx, taken.mu
        expected = -(gradient.T @ dx + 0.5 * dx.T @ hessian @ dx).item()
        ratio = (descent.current.cost - self._point.cost) / expected if expected > 0 else 0.0
        if self._asked > 1:
            self._reductions = 0
        descent.regulariser = mu
        if ratio > _GOOD_RATIO:
            factor = (1 / MU_FACTOR) ** (2**self._reductions)
            mu = 0.0 if mu * factor < MU_MIN else mu * factor
            self._reductions += 1
        elif ratio < _POOR_RATIO:
            mu, self._reductions = _raised(mu), 0
        self._mu, self._dx = mu, dx


def _raised(mu: float) -> float:
    return max(MU_MIN, MU_FACTOR * mu)


def run_scipy(descent: Descent, method: str) -> str:
    """Solve with ``scipy.optimize.least_squares``; return the status."""
    descent.last_step, descent.last_tolerances = _LAST_STEP, 1.0
    run = _levenberg if method == 'lm' else _trust_region
    while True:
        try:
            finished = run(descent, method)
        except Mended:
            continue
        if not finished:
            return 'iterations'
        if not descent.mend():
            return descent.verdict()


def _trust_region(descent: Descent, method: str) -> bool:
    """Return whether the method came to an end before its limit."""
    outcome = scipy.optimize.least_squares(
        lambda z: descent.trial(z).residual.copy(),
        descent.current.z,
        lambda z: _derivative(descent, z),
        bounds=(descent.lower, descent.upper),
        method=method,
        x_scale='jac',
        loss=descent.loss,
        xtol=_SCIPY_TOLERANCE,
        ftol=None,
        gtol=None,
        max_nfev=_TRIALS * (descent.limit + 1),
    )
    descent.jacobian(outcome.x)
    return bool(outcome.status != 0)


def _levenberg(descent: Descent, _: str) -> bool:
    """Return whether MINPACK came to an end before its limit.

    It knows neither losses nor bounds: it gets roots of the losses, and variables without bounds.
    """
    free = _Unbounded(descent.lower, descent.upper)

    def function(u: NDArray[np.float64]) -> NDArray[np.float64]:
        return root(descent.trial(free.inside(u)).residual, descent.loss)[0]

    def derivative(u: NDArray[np.float64]) -> NDArray[np.float64]:
        z = free.inside(u)
        columns = _derivative(descent, z)
        factor = root(descent.current.residual, descent.loss)[1]
        return factor[:, None] * columns * free.slope(u)

    if len(descent.current.residual) < len(descent.lower):
        msg = (
            f'The scipy-lm solver expects at least as many residuals as parameters, got '
            f'{len(descent.current.residual)} for {len(descent.lower)}; choose mujoco, scipy-trf '
            'or scipy-dogbox.'
        )
        raise FitError(msg)
    outcome = scipy.optimize.least_squares(
        function,
        free.outside(descent.current.z),
        derivative,
        method='lm',
        x_scale='jac',
        xtol=_SCIPY_TOLERANCE,
        ftol=_SCIPY_TOLERANCE,
        gtol=_SCIPY_TOLERANCE,
        max_nfev=_TRIALS * (descent.limit + 1),
    )
    descent.jacobian(free.inside(outcome.x))
    return bool(outcome.status != 0)


def _derivative(descent: Descent, z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a copy of the Jacobian: scipy multiplies its own by the weights of a loss."""
    jacobian = descent.jacobian(z).jacobian
    assert jacobian is not None  # noqa: S101
    return np.array(jacobian)


def off_bounds(descent: Descent, z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a start that is not on a bound, for methods that never leave one."""
    size = np.maximum(np.abs(z), 1.0)
    margin = np.minimum(_OFF_BOUND * (descent.upper - descent.lower), _OFF_BOUND_SCALES * size)
    off = np.where(z - descent.lower < _ON_BOUND * size, descent.lower + margin, z)
    inside: NDArray[np.float64] = np.where(
        descent.upper - z < _ON_BOUND * size, descent.upper - margin, off
    )
    return inside


class _Unbounded:
    """Variables without bounds for ones with bounds (F. James, MINUIT manual, section 1.3.1)."""

    def __init__(self, lower: NDArray[np.float64], upper: NDArray[np.float64]) -> None:
        self._below = np.isfinite(lower)
        self._above = np.isfinite(upper)
        self._both = self._below & self._above
        self._lower = np.where(self._below, lower, 0.0)
        self._upper = np.where(self._above, upper, 0.0)

    def _pick(
        self,
        both: NDArray[np.float64],
        below: NDArray[np.float64],
        above: NDArray[np.float64],
        free: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        one = np.where(self._below, below, np.where(self._above, above, free))
        picked: NDArray[np.float64] = np.where(self._both, both, one)
        return picked

    def inside(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the bounded variables."""
        middle, half = (self._lower + self._upper) / 2, (self._upper - self._lower) / 2
        hill = np.sqrt(u**2 + 1) - 1
        return self._pick(middle + half * np.sin(u), self._lower + hill, self._upper - hill, u)

    def outside(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the free variables, of ones inside the bounds."""
        middle, half = (self._lower + self._upper) / 2, (self._upper - self._lower) / 2
        part = np.clip((z - middle) / np.where(self._both, half, 1.0), -1, 1)
        above = np.sqrt(np.maximum(z - self._lower + 1, 1) ** 2 - 1)
        below = np.sqrt(np.maximum(self._upper - z + 1, 1) ** 2 - 1)
        return self._pick(np.arcsin(part), above, below, z)

    def slope(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the derivative of the bounded variables."""
        half = (self._upper - self._lower) / 2
        steep = u / np.sqrt(u**2 + 1)
        return self._pick(half * np.cos(u), steep, -steep, np.ones_like(u))
