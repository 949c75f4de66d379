# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Bounded nonlinear least squares: a library's solver, our Jacobian and scaling."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.optimize
from mujoco import minimize

from sysid_ros.errors import CancelledError, FitError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sysid_ros.identification.parameter import Parameter
    from sysid_ros.identification.residuals import Residuals

Backend = Literal['mujoco', 'scipy']
Loss = Literal['linear', 'huber', 'soft_l1', 'cauchy']

#: Step of the finite differences in units of a parameter's scale. Rollouts are deterministic with
#: a solver tolerance near 1e-8, so the best two-point step is near its square root.
_DIFFERENCE_STEP = 1e-4
#: Largest change of the residuals by a step, root mean square, in units of the noise; …
_LARGEST_CHANGE = 0.1
#: … for which the step is made shorter, down to this.
_SMALLEST_STEP = 1e-7
#: The scale of a parameter is its magnitude, or this fraction of its bounds where it is near zero.
_SCALE_OF_BOUNDS = 0.02
#: The solver stops when a step is below this, in units of the parameters' scales.
_STEP_TOLERANCE = 1e-7
#: The solver stops when an iteration lowers the cost by less than this fraction.
COST_TOLERANCE = 1e-7


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
class Iteration:
    """One iteration: cost before it, its step in units of the scales, totals so far.

    ``seconds`` is the wall time since the start, ``limit`` the largest number of iterations.
    """

    number: int
    cost: float
    step: float
    rollouts: int
    diverged: int
    seconds: float
    limit: int


@dataclass(frozen=True)
class Solution:
    """Where the solver ended.

    Attributes:
        x: (p,) parameter values.
        residual: (n,) residuals there, in units of the noise.
        cost: Half the sum of the losses.
        initial_cost: The same at the start.
        status: Short fixed word: ``step``, ``cost``, ``gradient``, ``stalled``, ``iterations``.
        message: The same for people.
        success: Whether the solver converged.
        trace: All iterations.
    """

    x: NDArray[np.float64]
    residual: NDArray[np.float64]
    cost: float
    initial_cost: float
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


@dataclass
class _Problem:
    """Residuals and Jacobian in scaled variables, with the bookkeeping of a solve."""

    residuals: Residuals
    parameters: Sequence[Parameter]
    limit: int
    cancel: threading.Event | None
    observe: Callable[[Iteration], None] | None
    lower: NDArray[np.float64] = field(init=False)
    upper: NDArray[np.float64] = field(init=False)
    scale: NDArray[np.float64] = field(init=False)
    steps: NDArray[np.float64] = field(init=False)
    tolerance: float = COST_TOLERANCE
    trace: list[Iteration] = field(default_factory=list)
    known: tuple[bytes, NDArray[np.float64]] | None = None
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.lower = np.array([parameter.min_value for parameter in self.parameters])
        self.upper = np.array([parameter.max_value for parameter in self.parameters])
        nominal = np.array([parameter.nominal for parameter in self.parameters])
        self.steps = np.full(len(nominal), _DIFFERENCE_STEP)
        self.scale = np.maximum(np.abs(nominal), _SCALE_OF_BOUNDS * (self.upper - self.lower))

    def residual(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (n, m) residuals of (p, m) scaled candidates."""
        if self.cancel is not None and self.cancel.is_set():
            msg = 'The calibration was cancelled.'
            raise CancelledError(msg)
        return self.residuals(np.clip(z.T * self.scale, self.lower, self.upper))

    def jacobian(
        self, z: NDArray[np.float64], residual: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return the (n, p) derivative by the scaled variables, all columns in one batch.

        Differences are two-point, pointing away from the nearer bound. A column whose neighbour
        diverged is differenced towards the other side. A step that changes the residuals by a
        visible part of the noise is too coarse for a derivative (its scale came from wide bounds);
        shorter ones replace it from there on.
        """
        z = z.reshape(-1)
        if self.known is not None and self.known[0] == z.tobytes():
            return self.known[1]
        if residual is None:
            residual = self.residual(z[:, None])
        base = residual.reshape(-1, 1)
        columns = self._differences(z, base)
        change = np.sqrt(np.mean(columns**2, axis=0)) * self.steps
        coarse = (change > _LARGEST_CHANGE) & (self.steps > _SMALLEST_STEP)
        if coarse.any():
            shorter = self.steps * _LARGEST_CHANGE / np.maximum(change, _LARGEST_CHANGE)
            self.steps = np.maximum(shorter, _SMALLEST_STEP)
            columns = self._differences(z, base)
        self.known = (z.tobytes(), columns)
        return columns

    def _differences(
        self, z: NDArray[np.float64], base: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the (n, p) columns for the steps as they are; ``base`` is (n, 1) residuals."""
        middle = (self.lower + self.upper) / 2 / self.scale
        # Half of the bounds' distance is there for a step away from the nearer one.
        room = (self.upper - self.lower) / 2 / self.scale
        step = np.where(z > middle, -1.0, 1.0) * np.minimum(self.steps, room)
        moves = _moves(step, len(self.residuals.offsets))
        moved = self.residual(z[:, None] + moves)
        change = moved - base
        wild = self.residuals.unstable
        if wild.any():
            change[:, wild] = base - self.residual((z[:, None] - moves)[:, wild])
        return self._columns(change, step)

    def _columns(
        self, change: NDArray[np.float64], step: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the (n, p) columns from the (n, k) changes of the moved candidates."""
        count = len(self.residuals.offsets)
        if not count:
            columns: NDArray[np.float64] = change / step
            return columns
        # All offsets were moved in one candidate: each acts on its own sequence only.
        own = self.residuals.samples.sequence[:, None] == np.arange(count)
        offsets = np.where(own, change[:, -1:], 0.0) / step[-count:]
        return np.concatenate([change[:, :-1] / step[:-count], offsets], axis=1)

    def note(self, cost: float, step: float) -> None:
        """Record one iteration and tell the observer."""
        iteration = Iteration(
            len(self.trace),
            float(cost),
            float(step),
            self.residuals.simulator.rollouts,
            self.residuals.diverged,
            time.monotonic() - self.started,
            self.limit,
        )
        self.trace.append(iteration)
        if self.observe is not None:
            self.observe(iteration)


def solve(
    residuals: Residuals,
    parameters: Sequence[Parameter],
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
    problem = _Problem(residuals, parameters, settings.max_iterations, cancel, observe, tolerance)
    z0 = start / problem.scale
    loss = settings.loss
    initial_cost = _cost(problem.residual(z0[:, None])[:, 0], loss)
    run = _solve_mujoco if settings.backend == 'mujoco' else _solve_scipy
    z, status, message = run(problem, z0, loss)
    residual = problem.residual(z[:, None])
    return Solution(
        x=np.clip(z * problem.scale, problem.lower, problem.upper),
        residual=residual[:, 0],
        cost=_cost(residual[:, 0], loss),
        initial_cost=initial_cost,
        status=status,
        message=message,
        success=status != 'iterations',
        trace=tuple(problem.trace),
    )


def _moves(step: NDArray[np.float64], offsets: int) -> NDArray[np.float64]:
    """Return (p, k) moves: one parameter in each candidate, all offsets in the last."""
    moves = np.diag(step)
    if not offsets:
        return moves
    together = moves[:, -offsets:].sum(axis=1, keepdims=True)
    return np.concatenate([moves[:, :-offsets], together], axis=1)


def linearise(
    residuals: Residuals, parameters: Sequence[Parameter], x: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the (n, p) derivative of the residuals by the values, per unit of each.

    Args:
        residuals: The residual function.
        parameters: The unknowns.
        x: (p,) where.
    """
    problem = _Problem(residuals, parameters, 0, None, None)
    return problem.jacobian(x / problem.scale) / problem.scale


def check_start(
    residuals: Residuals, parameters: Sequence[Parameter], start: NDArray[np.float64]
) -> None:
    """Check that a fit can begin.

    Args:
        residuals: The residual function.
        parameters: The unknowns.
        start: (p,) start values.

    Raises:
        FitError: Every simulation diverges at the start, or a parameter changes nothing.
    """
    before = residuals.diverged
    residuals(start[None, :])
    if residuals.diverged - before >= len(residuals.simulator.runs):
        msg = 'The simulation is unstable at the start values on every sequence.'
        raise FitError(msg)
    silent = ~np.any(linearise(residuals, parameters, start) != 0, axis=0)
    if silent.any():
        names = ', '.join(
            repr(parameter.name) for parameter, dead in zip(parameters, silent, strict=True) if dead
        )
        msg = (
            f'Nothing that was measured changes with parameter {names}; '
            'remove it or record what it moves.'
        )
        raise FitError(msg)


def rho(
    residual: NDArray[np.float64], loss: Loss
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a loss and the weight of each residual.

    The losses are scipy's: with s = r², linear s, huber (2√s - 1 above 1), soft_l1
    2(√(1+s) - 1), cauchy ln(1+s).

    Args:
        residual: Residuals in units of the noise.
        loss: Name of the loss.

    Returns:
        The loss of s and its derivative by s, shaped as the residuals.
    """
    s = residual**2
    if loss == 'linear':
        return s, np.ones_like(s)
    if loss == 'huber':
        root = np.sqrt(np.maximum(s, 1.0))
        return np.where(s <= 1, s, 2 * root - 1), np.where(s <= 1, 1.0, 1 / root)
    if loss == 'soft_l1':
        root = np.sqrt(1 + s)
        return 2 * (root - 1), 1 / root
    return np.log1p(s), 1 / (1 + s)


def _cost(residual: NDArray[np.float64], loss: Loss) -> float:
    return 0.5 * float(np.sum(rho(residual, loss)[0]))


class _RobustNorm(minimize.Norm):  # type: ignore[misc]
    """A robust loss for ``mujoco.minimize``, with the Gauss-Newton Hessian of reweighting."""

    def __init__(self, loss: Loss) -> None:
        self._loss = loss

    def value(self, r: NDArray[np.float64]) -> float:
        return _cost(r, self._loss)

    def grad_hess(
        self, r: NDArray[np.float64], proj: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        weight = rho(r, self._loss)[1]
        return proj.T @ (weight * r), proj.T @ (weight * proj)


_WORDS = {
    'step': 'Converged: the step is below the tolerance.',
    'cost': 'Converged: the cost no longer falls.',
    'gradient': 'Converged: the gradient is below the tolerance.',
    'stalled': 'Stopped: no step lowers the cost further.',
    'iterations': 'Stopped at the limit of iterations before convergence.',
}


def _solve_mujoco(
    problem: _Problem, z0: NDArray[np.float64], loss: Loss
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
            norm=_RobustNorm(loss) if loss != 'linear' else minimize.Quadratic(),
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
    problem: _Problem, z0: NDArray[np.float64], loss: Loss
) -> tuple[NDArray[np.float64], str, str]:
    best = z0

    def jacobian(z: NDArray[np.float64]) -> NDArray[np.float64]:
        nonlocal best
        residual = problem.residual(z[:, None])
        problem.note(_cost(residual[:, 0], loss), float(np.linalg.norm(z - best)))
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
