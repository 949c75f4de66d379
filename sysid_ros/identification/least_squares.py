# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Bounded nonlinear least squares: a library's solver, our Jacobian and scaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.optimize
from mujoco import minimize

from sysid_ros.identification.losses import RobustNorm, cost
from sysid_ros.identification.problem import COST_TOLERANCE, Problem

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sysid_ros.identification.losses import Loss
    from sysid_ros.identification.problem import Iteration
    from sysid_ros.identification.residuals import Residuals
    from sysid_ros.identification.unknown import Unknown

Backend = Literal['mujoco', 'scipy']

#: The solver stops when a step is below this, in units of the parameters' scales.
_STEP_TOLERANCE = 1e-7


@dataclass(frozen=True)
class SolverSettings:
    """Which solver, loss and limit.

    Attributes:
        backend: ``mujoco`` for ``mujoco.minimize``, ``scipy`` for ``scipy.optimize``'s trust
            region.
        loss: Loss of a residual in units of its noise, named as in scipy.
        max_iterations: Limit of iterations.
    """

    backend: Backend = 'mujoco'
    loss: Loss = 'linear'
    max_iterations: int = 50


@dataclass(frozen=True)
class Solution:
    """Where the solver ended.

    Attributes:
        x: (p,) parameter values.
        residual: (n,) residuals there, in units of the noise.
        cost: Half the sum of the losses.
        status: Short fixed word: ``step``, ``cost``, ``gradient``, ``stalled``, ``iterations``.
        message: The same for people.
        success: Whether the solver converged.
        trace: All iterations.
    """

    x: NDArray[np.float64]
    residual: NDArray[np.float64]
    cost: float
    status: str
    message: str
    success: bool
    trace: tuple[Iteration, ...]


#: Factor by which the solver of mujoco.minimize changes its regulariser. Every increase costs a
#: serial evaluation, and the library's own 1.26 needs sixty of them from its start to order one.
_MU_FACTOR = 3.0
#: Its largest regulariser, the library's own default: beyond it, no step lowers the cost.
_MU_MAX = 1e8


class _Converged(Exception):  # noqa: N818 (a signal out of the library's loop, not an error)
    pass


def solve(
    residuals: Residuals,
    parameters: Sequence[Unknown],
    start: NDArray[np.float64],
    *,
    settings: SolverSettings,
    tolerance: float = COST_TOLERANCE,
    cancel: threading.Event | None = None,
    observe: Callable[[Iteration], None] | None = None,
) -> Solution:
    """Find the parameter values with the least cost inside the bounds.

    Args:
        residuals: The residual function.
        parameters: The unknowns.
        start: (p,) start values.
        settings: Which solver, loss and limit.
        tolerance: Stop when an iteration lowers the cost by less than this fraction.
        cancel: Ends the solve when it is set.
        observe: Called after every iteration.

    Raises:
        CancelledError: ``cancel`` was set.
    """
    problem = Problem(residuals, parameters, settings.max_iterations, cancel, observe, tolerance)
    z0 = start / problem.scale
    loss = settings.loss
    run = _solve_mujoco if settings.backend == 'mujoco' else _solve_scipy
    z, status, message = run(problem, z0, loss)
    residual = problem.residual(z[:, None])
    return Solution(
        x=np.clip(z * problem.scale, problem.lower, problem.upper),
        residual=residual[:, 0],
        cost=cost(residual[:, 0], loss),
        status=status,
        message=message,
        success=status != 'iterations',
        trace=tuple(problem.trace),
    )


_WORDS = {
    'step': 'Converged: the step is below the tolerance.',
    'cost': 'Converged: the cost no longer falls.',
    'gradient': 'Converged: the gradient is below the tolerance.',
    'stalled': 'Stopped: no step lowers the cost further.',
    'iterations': 'Stopped at the limit of iterations before convergence.',
}


def _solve_mujoco(
    problem: Problem, z0: NDArray[np.float64], loss: Loss
) -> tuple[NDArray[np.float64], str, str]:
    best = {'z': z0, 'status': 'iterations'}

    def follow(trace: list[Any]) -> None:
        last = trace[-1]
        candidate = last.candidate.reshape(-1)
        step = float(np.linalg.norm(candidate - best['z'])) if len(trace) > 1 else 0.0
        best['z'] = candidate
        problem.note(last.objective, step)
        if len(trace) > 1:
            gained = trace[-2].reduction
            if 0 <= gained <= problem.tolerance * trace[-2].objective:
                best['status'] = 'cost'
                raise _Converged

    try:
        z, trace = minimize.least_squares(
            z0,
            problem.residual,
            bounds=[problem.lower / problem.scale, problem.upper / problem.scale],
            jacobian=problem.jacobian,
            norm=RobustNorm(loss) if loss != 'linear' else minimize.Quadratic(),
            mu_factor=_MU_FACTOR,
            mu_max=_MU_MAX,
            xtol=_STEP_TOLERANCE,
            gtol=_STEP_TOLERANCE,
            max_iter=problem.limit,
            verbose=minimize.Verbosity.SILENT,
            iter_callback=follow,
            x_scale='jac',
        )
    except _Converged:
        return np.asarray(best['z']), 'cost', _WORDS['cost']
    status = _status(trace, problem.limit)
    return z.reshape(-1), status, _WORDS[status]


def _status(trace: list[Any], limit: int) -> str:
    """Tell from its trace why ``mujoco.minimize`` stopped; it returns no status (MuJoCo 4.0)."""
    if len(trace) > limit:  # one entry per iteration, and one for where it stopped
        return 'iterations'
    if trace[-1].regularizer >= _MU_MAX:
        return 'stalled'
    if len(trace) > 1:
        before, end = trace[-2].candidate, trace[-1].candidate
        size = _STEP_TOLERANCE + float(np.linalg.norm(before))
        if np.linalg.norm(end - before) < _STEP_TOLERANCE * size:
            return 'step'
    return 'gradient'


def _solve_scipy(
    problem: Problem, z0: NDArray[np.float64], loss: Loss
) -> tuple[NDArray[np.float64], str, str]:
    best = z0

    def jacobian(z: NDArray[np.float64]) -> NDArray[np.float64]:
        nonlocal best
        residual = problem.residual(z[:, None])
        problem.note(cost(residual[:, 0], loss), float(np.linalg.norm(z - best)))
        best = z.copy()
        return problem.jacobian(z, residual)

    lower, upper = problem.lower / problem.scale, problem.upper / problem.scale
    outcome = scipy.optimize.least_squares(
        lambda z: problem.residual(z[:, None])[:, 0],
        np.clip(z0, lower, upper),
        jacobian,
        bounds=(lower, upper),
        # The other method, trf, scales a variable by its distance to the bounds and never leaves
        # one that it starts at, as a delay of zero.
        method='dogbox',
        x_scale='jac',
        loss=loss,
        xtol=_STEP_TOLERANCE,
        ftol=problem.tolerance,
        gtol=1e-12,
        max_nfev=problem.limit,
    )
    status = {0: 'iterations', 1: 'gradient', 2: 'cost', 3: 'step', 4: 'cost'}[outcome.status]
    return outcome.x, status, _WORDS[status]
