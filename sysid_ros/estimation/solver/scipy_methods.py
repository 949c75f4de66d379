# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The methods of ``scipy.optimize.least_squares``, fed from the state of a solve."""

from __future__ import annotations

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

from sysid_ros.errors import FitError
from sysid_ros.estimation.solver.descent import Descent
from sysid_ros.estimation.solver.losses import root

#: A start nearer than this to a bound that a method would never leave moves inwards, by the given
#: part of the bounds' distance, or of the scale if that is less.
_ON_BOUND = 1e-8
_OFF_BOUND, _OFF_BOUND_SCALES = 0.01, 0.1
#: Steps of a trust region are the full ones only very near to the optimum, in standard errors.
_NEAR = 1e-2
#: scipy stops by itself at the limits of rounding; before that, the descent stops it.
_SCIPY_TOLERANCE = 1e-14
#: Evaluations that scipy may use per iteration, on average.
_TRIALS = 20


class _Interrupted(Exception):  # noqa: N818 (the only way out of MINPACK, not an error)
    """The solve has ended, or the Jacobian that scipy works with has been made anew."""


def run_scipy(method: str, descent: Descent) -> str:
    """Solve with ``scipy.optimize.least_squares``; return the status."""
    descent.near = _NEAR
    run = _levenberg if method == 'lm' else _trust_region
    while descent.status is None:
        try:
            z, finished = run(descent, method)
        except _Interrupted:
            continue
        if descent.move(z):
            if descent.hurried:
                return 'time'
            if not finished:
                return 'iterations'
            if not descent.mend():
                return descent.verdict()
    return descent.status


def _trust_region(descent: Descent, method: str) -> tuple[NDArray[np.float64], bool]:
    """Return where the method ended, and whether that was before its limit."""
    outcome = scipy.optimize.least_squares(
        lambda z: _residual(descent, z).copy(),
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
    return outcome.x, bool(outcome.status != 0)


def _levenberg(descent: Descent, _: str) -> tuple[NDArray[np.float64], bool]:
    """Return where MINPACK ended, and whether that was before its limit.

    It knows neither losses nor bounds: it gets roots of the losses, and variables without bounds.
    """
    free = _Unbounded(descent.lower, descent.upper)

    def function(u: NDArray[np.float64]) -> NDArray[np.float64]:
        return root(_residual(descent, free.inside(u)), descent.loss)[0]

    def derivative(u: NDArray[np.float64]) -> NDArray[np.float64]:
        z = free.inside(u)
        columns = _derivative(descent, z)
        factor = root(descent.current.residual, descent.loss)[1]
        return factor[:, None] * columns * free.slope(u)

    if len(descent.current.residual) < len(descent.lower):
        raise FitError(
            f'The scipy-lm solver expects at least as many residuals as parameters, got '
            f'{len(descent.current.residual)} for {len(descent.lower)}; choose mujoco, scipy-trf '
            'or scipy-dogbox.'
        )
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
    return free.inside(outcome.x), bool(outcome.status != 0)


def _residual(descent: Descent, z: NDArray[np.float64]) -> NDArray[np.float64]:
    points = descent.trial([z])
    if points is None:
        raise _Interrupted
    return points[0].residual


def _derivative(descent: Descent, z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a copy of the Jacobian: scipy multiplies its own by the weights of a loss."""
    if not descent.move(z):
        raise _Interrupted
    jacobian = descent.current.jacobian
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
