# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The toolbox's entry point: fit parameters to a residual function."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.optimize

from sysid_ros.errors import FitError, nearest
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver.descent import TOLERANCE
from sysid_ros.estimation.solver.least_squares import SolverSettings, solve
from sysid_ros.estimation.solver.problem import FunctionResiduals
from sysid_ros.estimation.solver.staging import solve_in_stages
from sysid_ros.estimation.solver.starts import solve_from
from sysid_ros.estimation.solver.starts import starts as spread
from sysid_ros.estimation.stamps import examine_stamps
from sysid_ros.model.rebuild import CandidateError
from sysid_ros.toolbox.custom import CustomResiduals
from sysid_ros.toolbox.residual_fn import ResidualFunction
from sysid_ros.toolbox.unknowns_of import unknowns_of

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sysid_ros.estimation.solver.least_squares import Backend, Solution
    from sysid_ros.estimation.solver.losses import Loss
    from sysid_ros.estimation.solver.problem import Iteration, ResidualLike
    from sysid_ros.estimation.solver.starts import Attempt
    from sysid_ros.estimation.stamps import ShiftReport
    from sysid_ros.toolbox.parameter import ParameterDict

#: Names of optimizers of the toolbox, and ours, to names of backends.
_BACKENDS: dict[str, Backend] = {
    'mujoco': 'mujoco',
    'scipy': 'scipy-trf',
    'scipy_parallel_fd': 'scipy-trf',
    'scipy-trf': 'scipy-trf',
    'scipy-dogbox': 'scipy-dogbox',
    'scipy-lm': 'scipy-lm',
}
#: Values of scipy's setting ``method`` to names of backends.
_METHODS: dict[str, Backend] = {
    'trf': 'scipy-trf',
    'dogbox': 'scipy-dogbox',
    'lm': 'scipy-lm',
}
#: A condition number of JᵀJ above this is warned of.
_ILL_CONDITIONED = 1e12


class StampWarning(UserWarning):
    """A shift of the measurements in time would explain them significantly better."""


class CandidateWarning(UserWarning):
    """The solver tried values that no model can be built with."""


class ConditionWarning(UserWarning):
    """The Jacobian at the start is nearly rank deficient."""


def optimize(  # noqa: PLR0913 (the toolbox's signature, and ours)
    initial_params: ParameterDict,
    residual_fn: Callable[..., Any],
    optimizer: str = 'mujoco',
    verbose: bool = True,  # noqa: FBT002 (the toolbox's signature)
    check_conditioning: bool = False,  # noqa: FBT002 (the toolbox's signature)
    *,
    max_iters: int = 200,
    loss: Loss = 'linear',
    starts: int = 1,
    seed: int = 0,
    tolerance: float = TOLERANCE,
    cancel: threading.Event | None = None,
    observe: Callable[[Iteration], None] | None = None,
    **backend: Any,
) -> tuple[ParameterDict, scipy.optimize.OptimizeResult]:
    """Fit the parameters that are not frozen by bounded nonlinear least squares.

    Args:
        initial_params: Start values and bounds; not changed.
        residual_fn: From `build_residual_fn`, or any ``fn(x, params) -> (residuals, …)`` with
            ``x`` of shape (p,) or (p, m) and one array of shape (n,) or (n, m) per sequence;
            ``'scipy'`` only asks for the former.
        optimizer: ``'mujoco'`` (``mujoco.minimize``), ``'scipy'`` (its trust region),
            ``'scipy-dogbox'``, ``'scipy-lm'``; ``'scipy_parallel_fd'`` is ``'scipy'``, all
            differences being made in one batch anyway.
        verbose: Print iterations and a table; nothing is printed otherwise.
        check_conditioning: Warn when JᵀJ at the start is ill-conditioned.
        max_iters: Limit of iterations.
        loss: Loss of a residual, named as in scipy: ``linear``, ``soft_l1``, ``huber``,
            ``cauchy``, ``arctan``.
        starts: Number of starts spread over the bounds, the first being the initial values.
        seed: Of the other starts.
        cancel: Ends the fit when it is set.
        observe: Called after every iteration.
        tolerance: Length of the step that is predicted at the end, in standard errors.
        **backend: ``method`` of the scipy backends; other settings of the toolbox's backends are
            accepted and not used: scales, steps, regularisation and convergence follow the
            residuals, which are in units of the noise.

    Returns:
        The fitted parameters, and a result with ``x``, ``cost``, ``fun``, ``jac``, ``grad``,
        ``optimality``, ``status`` (above 0 when converged), ``reason``, ``message``, ``success``,
        ``nfev``, ``nit``, ``trace``, ``extras`` (``objective`` and ``candidate`` per iteration),
        ``attempts`` of several starts, ``diverged``, ``refused`` (candidates that no model could be
        built for; they count as diverged, and are warned of), ``excluded`` samples and ``dead``
        sensors, and ``shift``: whether a shift of the stamps explains the measurements
        significantly better, which is also warned of.

    Raises:
        FitError: A name is unknown, a function returns the wrong shape, or the fit cannot begin.
        ModelError: No model can be built with the initial values.
        CancelledError: ``cancel`` was set.
    """
    if optimizer not in _BACKENDS:
        msg = f'Unknown optimizer {optimizer!r}; {nearest(optimizer, _BACKENDS, 6)}.'
        raise FitError(msg)
    _check(backend)
    method = _BACKENDS[optimizer]
    if optimizer.startswith('scipy') and 'method' in backend:
        method = _method(backend['method'])
    params = initial_params.copy()
    if params.size == 0:
        warnings.warn('Nothing to fit: all parameters are frozen.', UserWarning, stacklevel=2)
        return params, _nothing()
    x0 = params.as_vector()
    residuals, before = _residuals(residual_fn, params, single=optimizer == 'scipy'), 0
    if isinstance(residuals, (Residuals, CustomResiduals)):
        residuals.check(x0)
        before = residuals.refusals
    if check_conditioning:
        _check_conditioning(residuals, x0)
    settings = SolverSettings(method, loss, max_iters)
    tell = _Teller(observe) if verbose else observe
    attempts: tuple[Attempt, ...] = ()
    if starts > 1:
        candidates = spread(residuals.unknowns, starts, seed=seed)
        found = solve_from(residuals, candidates, settings=settings, cancel=cancel, observe=tell)
        solution, attempts = found.solution, found.attempts
    else:
        common: dict[str, Any] = {
            'settings': settings,
            'tolerance': tolerance,
            'cancel': cancel,
            'observe': tell,
        }
        if isinstance(residuals, Residuals):
            solution = solve_in_stages(residuals, x0, noise_known=True, **common)
        else:
            solution = solve(residuals, x0, **common)
    params.update_from_vector(solution.x)
    result = _result(residual_fn, residuals, solution, before)
    result.attempts = attempts
    if verbose:
        _say(
            params.compare_parameters(
                x0, solution.x, measured_params=initial_params.as_nominal_vector()
            )
        )
        _say(solution.message)
    return params, result


def _say(text: str) -> None:
    sys.stdout.write(text + '\n')


class _Teller:
    """Prints iterations and passes them on."""

    def __init__(self, observe: Callable[[Iteration], None] | None) -> None:
        self._observe = observe

    def __call__(self, iteration: Iteration) -> None:
        _say(
            f'{iteration.number:4d}  cost {iteration.cost:<12.6g} step {iteration.step:<9.3g} '
            f'{iteration.rollouts} rollouts  {iteration.seconds:.2f} s'
        )
        if self._observe is not None:
            self._observe(iteration)


#: Settings of the toolbox's backends that are accepted and not used.
_UNUSED = (
    'check_derivatives',
    'diff_step',
    'eps',
    'f_scale',
    'ftol',
    'gtol',
    'jac',
    'method',
    'mu_factor',
    'mu_max',
    'mu_min',
    'tr_options',
    'tr_solver',
    'x_scale',
    'xtol',
)


def _check(backend: dict[str, Any]) -> None:
    for name in backend:
        if name in ('callback', 'iter_callback'):
            msg = f'Expected observe=, which is called with each Iteration, found {name!r}.'
            raise FitError(msg)
        if name not in _UNUSED:
            known = ('max_iters', 'loss', 'starts', 'seed', 'cancel', 'observe', *_UNUSED)
            msg = f'Unknown setting {name!r} of optimize; {nearest(name, known)}.'
            raise FitError(msg)


def _method(name: str) -> Backend:
    if name not in _METHODS:
        msg = f'Unknown method {name!r}; {nearest(name, _METHODS)}.'
        raise FitError(msg)
    return _METHODS[name]


def _residuals(
    residual_fn: Callable[..., Any], params: ParameterDict, *, single: bool
) -> ResidualLike:
    """Return what the solver evaluates.

    Args:
        residual_fn: The user's function.
        params: What it gets.
        single: Call a function that is not ours with one candidate at a time, ``x`` being (p,).
    """
    if isinstance(residual_fn, ResidualFunction):
        return residual_fn.prepared(params).residuals
    plain = _Plain(residual_fn, params, single=single)
    return FunctionResiduals(plain, unknowns_of(params))


class _Plain:
    """A function of the user's own as one of (m, p) candidates; NaN where no model can be built."""

    def __init__(
        self, function: Callable[..., Any], params: ParameterDict, *, single: bool
    ) -> None:
        self._function = function
        self._params = params
        self._single = single
        self._size: int | None = None

    def __call__(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        if not self._single:
            try:
                return self._batch(candidates)
            except CandidateError:
                if self._size is None and len(candidates) == 1:
                    raise
        return np.stack([self._one(x) for x in candidates], axis=1)

    def _batch(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        count = len(candidates)
        parts = [
            np.asarray(part, dtype=np.float64)
            for part in self._function(candidates.T.copy(), self._params)[0]
        ]
        for part in parts:
            if part.shape[1:] != (count,) and not (count == 1 and part.ndim == 1):
                msg = (
                    f'Expected residuals of shape (n, {count}) for x of shape '
                    f"{candidates.T.shape}, found {part.shape}; optimizer='scipy' asks for one "
                    'candidate at a time.'
                )
                raise FitError(msg)
        found = np.concatenate([part.reshape(-1, count) for part in parts])
        self._size = len(found)
        return found

    def _one(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        try:
            parts = self._function(x.copy(), self._params)[0]
        except CandidateError:
            if self._size is None:
                raise
            return np.full(self._size, np.nan)
        found = np.concatenate([np.ravel(np.asarray(part, dtype=np.float64)) for part in parts])
        self._size = len(found)
        return found


def _refused(residuals: ResidualLike, before: int) -> int:
    """Return for how many candidates no model could be built since then, and warn of them."""
    if not isinstance(residuals, (Residuals, CustomResiduals)):
        return 0
    count = residuals.refusals - before
    if count:
        msg = (
            f'No model could be built for {count} of the candidates that the solver tried, which '
            'it stepped back from; narrower bounds may spare them.'
        )
        warnings.warn(msg, CandidateWarning, stacklevel=4)
    return count


def _check_conditioning(residuals: ResidualLike, x0: NDArray[np.float64]) -> None:
    low = np.array([unknown.min_value for unknown in residuals.unknowns])
    high = np.array([unknown.max_value for unknown in residuals.unknowns])
    steps = 1e-6 * np.maximum(np.abs(x0), 1e-3)
    steps = np.where(x0 + steps > high, -steps, steps)
    changes = residuals.step_changes(np.clip(x0, low, high), steps).changes / steps
    norms = np.linalg.norm(changes, axis=0)
    condition = float(np.linalg.cond(changes / np.where(norms > 0, norms, 1.0))) ** 2
    if condition > _ILL_CONDITIONED:
        msg = (
            f'The condition number of JᵀJ at the start is {condition:.1e}: '
            'the data hardly tell some parameters apart.'
        )
        warnings.warn(msg, ConditionWarning, stacklevel=3)


def _nothing() -> scipy.optimize.OptimizeResult:
    return scipy.optimize.OptimizeResult(
        x=np.empty(0),
        cost=0.0,
        fun=np.empty(0),
        jac=np.zeros((0, 0)),
        grad=np.empty(0),
        optimality=0.0,
        status=1,
        reason='gradient',
        message='There is nothing to fit.',
        success=True,
        nfev=0,
        nit=0,
        trace=(),
        extras={'objective': [], 'candidate': []},
        attempts=(),
        diverged=0,
        refused=0,
        excluded=0,
        dead=(),
        shift=None,
    )


def _result(
    residual_fn: Callable[..., Any], residuals: ResidualLike, solution: Solution, before: int
) -> scipy.optimize.OptimizeResult:
    shift, excluded = None, 0
    dead: tuple[str, ...] = ()
    if isinstance(residuals, Residuals) and isinstance(residual_fn, ResidualFunction):
        excluded, dead = residual_fn.excluded, residuals.dead
        shift = check_stamps(residuals, solution)
    return scipy.optimize.OptimizeResult(
        x=solution.x,
        cost=solution.cost,
        fun=solution.residual,
        jac=solution.jacobian,
        grad=solution.gradient,
        optimality=float(np.max(np.abs(solution.gradient), initial=0.0)),
        status=1 if solution.success else 0,
        reason=solution.status,
        message=solution.message,
        success=solution.success,
        nfev=solution.evaluations,
        nit=len(solution.trace),
        trace=solution.trace,
        extras={
            'objective': [entry.cost for entry in solution.trace],
            'candidate': [np.array(entry.x) for entry in solution.trace],
        },
        diverged=residuals.diverged,
        refused=_refused(residuals, before),
        excluded=excluded,
        dead=dead,
        shift=shift,
    )


def check_stamps(residuals: Residuals, solution: Solution) -> ShiftReport | None:
    """Check whether a shift of the measurements explains them better, and warn if one does.

    Args:
        residuals: What was fitted.
        solution: Where the fit ended.

    Returns:
        What was found; None where the sequences are too short to tell.
    """
    report = examine_stamps(residuals, solution)
    if report is None:
        return None
    timestep = max(run.timestep for run in residuals.runs)
    sentence = report.sentence(timestep, [run.sequence.name for run in residuals.runs])
    if sentence:
        warnings.warn(sentence, StampWarning, stacklevel=4)
    return report
