# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The toolbox's fit of parameters to a residual function, and its confidence intervals."""

from __future__ import annotations

import dataclasses
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.optimize
import scipy.special
from numpy.typing import NDArray

from sysid_ros.config.calibration import ACCURACY, Loss
from sysid_ros.errors import CancelledError, FitError, nearest
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver.differences import FunctionResiduals, ResidualLike
from sysid_ros.estimation.solver.solver import Iteration, Solution, SolverSettings, solve
from sysid_ros.estimation.solver.staging import parts_of, solve_in_stages
from sysid_ros.estimation.solver.starts import Attempt, solve_from
from sysid_ros.estimation.solver.starts import starts as spread
from sysid_ros.model.rebuild import CandidateError
from sysid_ros.toolbox.callbacks import CustomResiduals
from sysid_ros.toolbox.residual_fn import ResidualFunction
from sysid_ros.toolbox.stamps import find_shift
from sysid_ros.toolbox.unknowns import unknowns_of

if TYPE_CHECKING:
    from sysid_ros.toolbox.parameter import ParameterDict
    from sysid_ros.toolbox.stamps import StampShift


#: Names of the toolbox's optimizers, all of which mean the one solver here …
_OPTIMIZERS = ('mujoco', 'scipy', 'scipy_parallel_fd')
#: … and values of scipy's setting ``method``.
_METHODS = ('trf', 'dogbox', 'lm')
#: Stamps are those of a rollout where one step earlier leaves at most this part of the cost.
_UNEXPLAINED = 0.1
_ROLLOUT_TIMES = (
    'The measurements carry the times of the states of mujoco.rollout, one time step after what '
    'they describe, and are taken one step earlier, which explains nearly all that was left; '
    "sensor_stamps='rollout' says so beforehand, 'measured' keeps the times."
)
#: Parts of the sequences from which a start is looked for where all of them are unstable.
_BEGINNINGS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
#: A condition number of JᵀJ above this is warned of.
_ILL_CONDITIONED = 1e12
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


class StampWarning(UserWarning):
    """A shift of the measurements in time explains them significantly better."""


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
    tolerance: float = ACCURACY,
    cancel: threading.Event | None = None,
    observe: Callable[[Iteration], None] | None = None,
    **backend: Any,
) -> tuple[ParameterDict, scipy.optimize.OptimizeResult]:
    """Fit the parameters that are not frozen by bounded nonlinear least squares.

    Args:
        initial_params: Start values and bounds; not changed. Where the simulation is unstable at
            the values on every sequence, they are tried on beginnings of the sequences, and then
            the nominal values are.
        residual_fn: From `build_residual_fn`, or any ``fn(x, params) -> (residuals, …)`` with
            ``x`` of shape (p,) or (p, m) and one array of shape (n,) or (n, m) per sequence;
            ``'scipy'`` only asks for the former.
        optimizer: ``'mujoco'``, ``'scipy'`` or ``'scipy_parallel_fd'``: one solver, all
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
    _check_optimizer(optimizer, backend)
    params = initial_params.copy()
    if params.size == 0:
        warnings.warn('Nothing to fit: all parameters are frozen.', UserWarning, stacklevel=2)
        nothing, text = np.empty(0), 'There is nothing to fit.'
        end = Solution(nothing, nothing, 0.0, 'gradient', text, success=True, trace=())
        return params, _result(end, diverged=0, attempts=())
    x0 = params.as_vector()
    residuals: ResidualLike
    if isinstance(residual_fn, ResidualFunction):
        residuals = residual_fn.prepared(params).residuals
    else:
        function = _OwnFunction(residual_fn, params, single=optimizer == 'scipy')
        residuals = FunctionResiduals(function, unknowns_of(params))
    compiling = residuals if isinstance(residuals, (Residuals, CustomResiduals)) else None
    if compiling is not None:
        compiling.check(x0)
    before = 0 if compiling is None else compiling.refusals
    if check_conditioning:
        _check_conditioning(residuals, x0)
    search = _MinimumSearch(
        SolverSettings(loss, max_iters, tolerance),
        cancel,
        _printing(observe) if verbose else observe,
    )
    attempts: tuple[Attempt, ...] = ()
    if starts > 1:
        candidates = spread(residuals.unknowns, starts, seed=seed)
        found = solve_from(residuals, candidates, **search._asdict())
        solution, attempts = found.solution, found.attempts
    else:
        solution = search.from_any(residuals, (x0, params.as_nominal_vector()))
    refused = 0 if compiling is None else compiling.refusals - before
    shift, excluded = None, 0
    dead: tuple[str, ...] = ()
    if isinstance(residuals, Residuals) and isinstance(residual_fn, ResidualFunction):
        fit = _with_right_times(_Fit(residuals, solution), residual_fn, search, params)
        residuals, solution, shift = fit.residuals, fit.solution, fit.shift
        refused += fit.refused
        excluded, dead = residual_fn.excluded, fit.residuals.dead
    if refused:
        msg = (
            f'No model could be built for {refused} of the candidates that the solver tried, which '
            'it stepped back from; narrower bounds may spare them.'
        )
        warnings.warn(msg, CandidateWarning, stacklevel=2)
    params.update_from_vector(solution.x)
    result = _result(solution, diverged=residuals.diverged, attempts=attempts)
    result.update(refused=refused, shift=shift, excluded=excluded, dead=dead)
    if verbose:
        _say(
            params.compare_parameters(
                x0, solution.x, measured_params=initial_params.as_nominal_vector()
            )
        )
        _say(solution.message)
    return params, result


class _MinimumSearch(NamedTuple):
    """How minima are looked for; see `optimize`."""

    settings: SolverSettings
    cancel: threading.Event | None
    observe: Callable[[Iteration], None] | None

    def all_data(self, residuals: ResidualLike, x: NDArray[np.float64]) -> Solution:
        """Solve on all data at once."""
        return solve(residuals, x, **self._asdict())

    def staged(self, residuals: ResidualLike, x: NDArray[np.float64]) -> Solution:
        """Solve on growing parts of the data where they can be parted."""
        if not isinstance(residuals, Residuals):
            return self.all_data(residuals, x)
        return solve_in_stages(residuals, x, noise_known=True, **self._asdict())

    def from_any(self, residuals: ResidualLike, starts: Sequence[NDArray[np.float64]]) -> Solution:
        """Solve from the first start, or from another where all sequences are unstable there.

        Each start is moved to where short beginnings of the sequences, then longer ones, have
        their least cost; the first that is stable somewhere on all data then counts.
        """
        try:
            return self.staged(residuals, starts[0])
        except CancelledError:
            raise
        except FitError:
            if not _unstable_everywhere(residuals, starts[0]):
                raise
            for start in starts:
                x = self._stabilized(residuals, start)
                if x is not None:
                    return self.staged(residuals, x)
            raise

    def _stabilized(
        self, residuals: ResidualLike, x: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        """Return a start that is stable on some sequence; None where none is found from this."""
        if not _unstable_everywhere(residuals, x):
            return x
        if not isinstance(residuals, Residuals):
            return None
        moved, rough = x, dataclasses.replace(self.settings, rough=True)
        for part in parts_of(residuals, _BEGINNINGS):
            if _unstable_everywhere(part, moved):
                continue
            try:
                found = solve(part, moved, settings=rough, cancel=self.cancel)
            except CancelledError:
                raise
            except FitError:  # nothing moves so early
                continue
            moved = found.x
        return None if moved is x or _unstable_everywhere(residuals, moved) else moved


def _unstable_everywhere(residuals: ResidualLike, x: NDArray[np.float64]) -> bool:
    """Whether every simulation of a candidate becomes unstable."""
    diverged, evaluations = residuals.diverged, residuals.evaluations
    residuals(x[None])
    # A candidate that the residuals remember is not simulated again.
    stable = residuals.evaluations - evaluations > residuals.diverged - diverged
    return bool(residuals.unstable[0]) and not stable


class _Fit(NamedTuple):
    """Where a fit ended; ``refused`` candidates and ``shift`` of its stamps are known later."""

    residuals: Residuals
    solution: Solution
    refused: int = 0
    shift: StampShift | None = None


def _with_right_times(
    fit: _Fit, residual_fn: ResidualFunction, search: _MinimumSearch, params: ParameterDict
) -> _Fit:
    """Check the stamps of what was fitted, and fit again where they are those of a rollout."""
    shift = find_shift(fit.residuals, fit.solution)
    earlier = residual_fn.one_step_earlier() if shift and shift.significant else None
    if earlier is not None:
        moved = earlier.prepared(params).residuals
        assert isinstance(moved, Residuals)  # noqa: S101 (it has the other's callbacks)
        again = search.all_data(moved, fit.solution.x)
        fit = fit._replace(refused=moved.refusals)
        if again.cost <= _UNEXPLAINED * fit.solution.cost:
            residual_fn.become(earlier)
            warnings.warn(_ROLLOUT_TIMES, StampWarning, stacklevel=3)
            fit = fit._replace(residuals=moved, solution=_joined(fit.solution, again))
            shift = find_shift(moved, again)
    if shift is not None and shift.significant:
        timestep = max(run.timestep for run in fit.residuals.runs)
        warnings.warn(shift.sentence(timestep), StampWarning, stacklevel=3)
    return fit._replace(shift=shift)


def _joined(first: Solution, second: Solution) -> Solution:
    """Return the second of two solves that went on from the first, with both their steps."""
    begun = len(first.trace)
    later = [entry._replace(number=begun + k) for k, entry in enumerate(second.trace)]
    return dataclasses.replace(
        second,
        trace=(*first.trace, *later),
        iterations=first.iterations + second.iterations,
        evaluations=first.evaluations + second.evaluations,
    )


def _say(text: str) -> None:
    sys.stdout.write(text + '\n')


def _printing(observe: Callable[[Iteration], None] | None) -> Callable[[Iteration], None]:
    """Return what prints iterations and passes them on."""

    def say(iteration: Iteration) -> None:
        _say(
            f'{iteration.number:4d}  cost {iteration.cost:<12.6g} step {iteration.step:<9.3g} '
            f'{iteration.rollouts} rollouts  {iteration.seconds:.2f} s'
        )
        if observe is not None:
            observe(iteration)

    return say


def _check_optimizer(optimizer: str, backend: dict[str, Any]) -> None:
    """Check that the names of an optimizer and of its settings are known."""
    if optimizer not in _OPTIMIZERS:
        raise FitError(f'Unknown optimizer {optimizer!r}; {nearest(optimizer, _OPTIMIZERS)}.')
    for name in backend:
        if name in ('callback', 'iter_callback'):
            raise FitError(
                f'Expected observe=, which is called with each Iteration, found {name!r}.'
            )
        if name not in _UNUSED:
            known = ('max_iters', 'loss', 'starts', 'seed', 'cancel', 'observe', *_UNUSED)
            raise FitError(f'Unknown setting {name!r} of optimize; {nearest(name, known)}.')
    method = backend.get('method', _METHODS[0])
    if method not in _METHODS:
        raise FitError(f'Unknown method {method!r}; {nearest(method, _METHODS)}.')


class _OwnFunction:
    """A function of the user's own as one of (m, p) candidates; NaN where no model can be built.

    With ``single`` it is called with one candidate at a time, ``x`` being (p,).
    """

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
                return self._evaluated(candidates.T, len(candidates))
            except CandidateError:
                if self._size is None and len(candidates) == 1:
                    raise
        return np.concatenate([self._one(x) for x in candidates], axis=1)

    def _evaluated(self, x: NDArray[np.float64], count: int) -> NDArray[np.float64]:
        """Return the (n, count) residuals of ``x``, (p,) or (p, count)."""
        found = self._function(x.copy(), self._params)[0]
        parts = [np.asarray(part, dtype=np.float64) for part in found]
        for part in parts if x.ndim > 1 else ():
            if part.shape[1:] != (count,) and not (count == 1 and part.ndim == 1):
                raise FitError(
                    f'Expected residuals of shape (n, {count}) for x of shape {x.shape}, found '
                    f"{part.shape}; optimizer='scipy' asks for one candidate at a time."
                )
        residuals = np.concatenate([part.reshape(-1, count) for part in parts])
        self._size = len(residuals)
        return residuals

    def _one(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        try:
            return self._evaluated(x, 1)
        except CandidateError:
            if self._size is None:
                raise
            return np.full((self._size, 1), np.nan)


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


def _result(
    solution: Solution, *, diverged: int, attempts: tuple[Attempt, ...]
) -> scipy.optimize.OptimizeResult:
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
        diverged=diverged,
        attempts=attempts,
        refused=0,
        shift=None,
        excluded=0,
        dead=(),
    )


def calculate_intervals(
    residuals_star: Sequence[NDArray[np.float64]],
    J: NDArray[np.float64] | None,  # noqa: N803 (the toolbox's name)
    alpha: float = 0.05,
    lambda_zero_thresh: float = 1e-15,
    v_zero_thresh: float = 1e-8,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return covariance and half-widths of the parameters from the Jacobian at the optimum.

    They hold for residuals that are independent and equally noisy: ``s² (JᵀJ)⁻¹`` with the variance
    ``s² = rᵀr / (n − p)``. Residuals of a robot are not; the intervals of a calibration allow for
    that.

    A direction that the data do not see has an infinite variance, which reaches only the parameters
    that take part in it.

    Args:
        residuals_star: Residuals at the optimum, one array per sequence, n numbers in all.
        J: (n, p) derivative of the residuals there.
        alpha: One minus the level.
        lambda_zero_thresh: Eigenvalues of JᵀJ below this fraction of the largest count as zero.
        v_zero_thresh: Components of an eigenvector below this fraction of a parameter's largest
            count as zero.

    Returns:
        The (p, p) covariance and the (p,) half-widths, in the parameters' units.

    Raises:
        FitError: There are not more residuals than parameters.
    """
    if J is None or J.size == 0:
        return np.empty((0, 0)), np.empty(0)
    residual = np.concatenate([np.ravel(part) for part in residuals_star])
    freedom = len(residual) - J.shape[1]
    if freedom <= 0:
        raise FitError(
            f'Expected more residuals than {J.shape[1]} parameters, got {len(residual)}.'
        )
    variance = float(residual @ residual) / freedom
    # Columns of unlike size are scaled to one first: eigenvalues of the bare JᵀJ say more about
    # the units than about the data.
    norms = np.linalg.norm(J, axis=0)
    scale = np.where(norms > 0, norms, 1.0)
    values, vectors = np.linalg.eigh((J / scale).T @ (J / scale))
    seen = values > lambda_zero_thresh * values[-1]
    inverse = (vectors[:, seen] / values[seen]) @ vectors[:, seen].T / np.outer(scale, scale)
    share = np.abs(vectors[:, ~seen])
    share[share < v_zero_thresh * np.abs(vectors).max(axis=1, keepdims=True)] = 0.0
    blind = share.any(axis=1)
    covariance: NDArray[np.float64] = variance * inverse
    covariance[blind, blind] = np.inf
    quantile = float(scipy.special.stdtrit(freedom, 1 - alpha / 2))
    return covariance, quantile * np.sqrt(np.diag(covariance))
