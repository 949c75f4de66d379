# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The toolbox's fit of parameters to a residual function, and its confidence intervals."""

from __future__ import annotations

import inspect
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
import scipy.special
from mujoco import minimize
from numpy.typing import NDArray
from scipy import ndimage
from scipy.optimize import OptimizeResult

from sysid_ros.config.schema import Loss
from sysid_ros.errors import CancelledError, FitError, SysidError, nearest
from sysid_ros.fit.differences import FunctionResiduals
from sysid_ros.fit.residuals import Residuals
from sysid_ros.fit.solver import Iteration, SolverSettings, interrupt, solve
from sysid_ros.fit.start import solve_from
from sysid_ros.fit.start import starts as spread
from sysid_ros.fit.windows import solve_in_stages
from sysid_ros.model.candidates import CandidateError
from sysid_ros.toolbox.parameter import ParameterDict, unknowns_of
from sysid_ros.toolbox.residual import ResidualFunction
from sysid_ros.toolbox.trajectory import SAME_STEP

Array = NDArray[np.float64]

#: What `mujoco.sysid` logs is logged here, too.
_LOG = logging.getLogger(__name__)
_OPTIMIZERS = ('mujoco', 'scipy', 'scipy_parallel_fd')
#: A condition number of JᵀJ above this is warned of, as in MuJoCo's toolbox.
_ILL_CONDITIONED = 1e12
#: Stamps have other times than supposed where the logarithm of the likelihood is larger by this.
_EVIDENCE = 2.0
_ROLLOUT_TIMES = (
    'The measurements carry the times of the states of mujoco.rollout, one time step after what '
    'they describe, and are taken one step earlier, which explains them no worse; '
    "sensor_stamps='rollout' says so beforehand, 'measured' keeps the times."
)


class StampWarning(UserWarning):
    """A shift of the measurements in time explains them significantly better."""


class StampShift(NamedTuple):
    """By how much moved stamps explain the measurements better."""

    seconds: float  # to add to the stamps; negative when they are late
    error: float  # standard error of that, s

    @property
    def significant(self) -> bool:
        """Whether chance makes such a shift in less than one in ten thousand fits."""
        return bool(abs(self.seconds) > -scipy.special.ndtri(5e-5) * self.error)

    def sentence(self, timestep: float) -> str:
        """Return the warning for a model's time step, s; empty where the shift is an accident."""
        if not self.significant:
            return ''
        return (
            f'Measurements moved by {1e3 * self.seconds:+.3g} ms ({self.seconds / timestep:+.2g} '
            'time steps) are explained significantly better: check the clock, add a delay target '
            "sensor/*/delay or, where they are one time step late, pass sensor_stamps='rollout'."
        )


def optimize(
    initial_params: ParameterDict,
    residual_fn: Callable[..., Any],
    optimizer: str = 'mujoco',
    verbose: bool = True,
    check_conditioning: bool = False,
    *,
    max_iters: int = 200,
    loss: Loss = 'linear',
    starts: int = 1,
    seed: int = 0,
    cancel: threading.Event | None = None,
    observe: Callable[[Iteration], None] | None = None,
    **settings: Any,
) -> tuple[ParameterDict, OptimizeResult]:
    """Fit the parameters that are not frozen by bounded nonlinear least squares.

    Args:
        initial_params: Start values and bounds; not changed. Where the simulation is unstable at
            the values, the nominal values are tried.
        residual_fn: From `build_residual_fn`, or any ``fn(x, params) -> (residuals, …)`` with
            ``x`` of shape (p,) or (p, m) and one array of shape (n,) or (n, m) per sequence;
            ``'scipy'`` uses only the former.
        optimizer: ``'mujoco'``, the solver of `sysid calibrate`, or ``'scipy'`` and
            ``'scipy_parallel_fd'``, ``scipy.optimize.least_squares``.
        verbose: Print iterations and a table; nothing is printed otherwise.
        check_conditioning: Log a warning when JᵀJ at the start is ill-conditioned.
        max_iters: Limit of iterations; of evaluations with SciPy.
        loss: ``linear``, ``soft_l1`` or ``huber``, as in SciPy.
        starts: Number of starts spread over the bounds; as ``seed`` and ``observe`` for
            ``'mujoco'`` only.
        seed: Of the other starts.
        cancel: Ends the fit when it is set.
        observe: Called after every iteration.
        **settings: Passed on to SciPy. Those of ``mujoco.minimize`` are not used: scales, steps,
            regularisation and convergence follow the residuals, which are in units of the noise.

    Returns:
        The fitted parameters, and SciPy's result with ``trace``, ``extras``, ``diverged``,
        ``excluded`` samples and ``dead`` sensors, ``sensor_stamps``, and ``shift`` of the stamps
        that explains the measurements better.
    """
    params = initial_params.copy()
    x0 = params.as_vector()
    if not len(x0):
        _LOG.warning('There is nothing to fit: all parameters are frozen.')
        nothing: dict[str, Any] = {'jac': np.zeros((0, 0)), 'success': True}
        return params, OptimizeResult(
            x=x0, fun=x0, grad=x0, cost=0.0, nfev=0, status=1, message='Nothing to fit.', **nothing
        )
    names = np.array(params.get_non_frozen_parameter_names())[params.on_bounds() != 0]
    if len(names):
        _LOG.warning(
            'The start of %s is on a bound, where a fit may stall; consider '
            'initial_params.move_off_bounds() before optimize().',
            ', '.join(names),
        )
    _check_settings(optimizer, settings)
    search: Callable[..., OptimizeResult]
    if optimizer == 'mujoco':
        solver = SolverSettings(loss=loss, max_iterations=max_iters)
        watched = partial(_print, observe) if verbose else observe
        common = {'settings': solver, 'cancel': cancel, 'observe': watched}
        search = partial(_by_ours, starts=starts, seed=seed, common=common)
    elif starts > 1:
        raise FitError("Expected optimizer='mujoco' for several starts, found SciPy.")
    else:
        settings = {'loss': loss, 'max_nfev': max_iters, 'verbose': 2 * verbose, **settings}
        search = partial(_by_scipy, settings=settings, cancel=cancel)
    residuals = _as_residuals(residual_fn, params, single=optimizer == 'scipy')
    if isinstance(residuals, Residuals):
        residuals.check(x0)
    if check_conditioning:
        _check_conditioning(residuals, x0)
    result = _from_either(search, residuals, x0, params.as_nominal_vector())
    if isinstance(residual_fn, ResidualFunction):
        residuals, result = _with_right_times(search, residual_fn, params, residuals, result)
        result.update(excluded=residual_fn.excluded, dead=getattr(residuals, 'dead', ()))
    result.diverged = residuals.diverged
    params.update_from_vector(result.x)
    if verbose:
        nominal = initial_params.as_nominal_vector()
        table = params.compare_parameters(x0, result.x, measured_params=nominal)
        stamps = result.get('sensor_stamps')
        note = f'\nSensors are taken to be stamped as {stamps!r}.' if stamps else ''
        sys.stdout.write(f'{table}\n{result.message}{note}\n')
    return params, result


def _check_settings(optimizer: str, settings: dict[str, Any]) -> None:
    """Check that settings are SciPy's or, for our solver, also those of ``mujoco.minimize``."""
    if optimizer not in _OPTIMIZERS:
        raise FitError(f'Unknown optimizer {optimizer!r}; {nearest(optimizer, _OPTIMIZERS)}.')
    known = dict(inspect.signature(scipy.optimize.least_squares).parameters)
    if optimizer == 'mujoco':
        known |= inspect.signature(minimize.least_squares).parameters
    for name in settings:
        if name not in known:
            raise FitError(f'Unknown setting {name!r} of optimize; {nearest(name, known)}.')
    if settings and optimizer == 'mujoco':
        warnings.warn(
            f"optimizer='mujoco' does not use {', '.join(settings)}: scales, steps and "
            'convergence follow the residuals, which are in units of the noise.',
            UserWarning,
            stacklevel=3,
        )


def _by_ours(
    residuals: Any, x: Array, *, starts: int, seed: int, common: dict[str, Any], warm: bool = False
) -> OptimizeResult:
    """Search with several starts or growing parts of the data; a warm start is nearly a minimum."""
    if starts > 1 and not warm:
        spots = spread(residuals.unknowns, starts, seed=seed)
        solution = solve_from(residuals, spots, **common).solution
    elif isinstance(residuals, Residuals) and not warm:
        solution = solve_in_stages(residuals, x, noise_known=True, **common)
    else:
        solution = solve(residuals, x, **common)
    return OptimizeResult(
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
    )


def _by_scipy(
    residuals: Any,
    x: Array,
    *,
    settings: dict[str, Any],
    cancel: threading.Event | None,
    warm: bool = False,
) -> OptimizeResult:
    """Search with SciPy, all differences of a Jacobian in one batch."""
    del warm
    step = settings.get('diff_step')
    options = {'x_scale': 'jac', 'jac': lambda x: _jacobian(residuals, x, step), **settings}
    options.pop('diff_step', None)

    def function(x: Array) -> Array:
        interrupt(cancel)
        found: Array = residuals(x[None])[:, 0].copy()
        return found

    low, high = _bounds(residuals)
    before = residuals.evaluations
    try:
        found = scipy.optimize.least_squares(
            function, np.clip(x, low, high), bounds=(low, high), **options
        )
    except SysidError:
        raise
    except ValueError as err:
        raise FitError(f'SciPy cannot fit with these settings: {err}') from err
    found.update(nfev=residuals.evaluations - before, trace=())
    found.extras = {'objective': [found.cost], 'candidate': [found.x]}
    return found


def _bounds(residuals: Any) -> tuple[Array, Array]:
    low, high = np.array([(u.min_value, u.max_value) for u in residuals.unknowns]).T
    return low, high


def _jacobian(residuals: Any, x: Array, step: float | None = None) -> Array:
    """Return the (n, p) derivatives of residuals by forward differences, inside the bounds.

    Steps are relative, by default SciPy's: the root of the rounding of a float.
    """
    steps = (step or np.sqrt(np.finfo(np.float64).eps)) * np.maximum(np.abs(x), 1.0)
    steps = np.where(x + steps > _bounds(residuals)[1], -steps, steps)
    jacobian: Array = residuals.step_changes(x, steps).changes / steps
    return jacobian


def _from_either(
    search: Callable[..., OptimizeResult], residuals: Any, x: Array, nominal: Array
) -> OptimizeResult:
    """Search from the start or, where the simulation is unstable there, from the nominal values."""
    try:
        return search(residuals, x)
    except CancelledError:
        raise
    except FitError:
        residuals(x[None])
        if not residuals.unstable[0] or np.array_equal(x, nominal):
            raise
        return search(residuals, nominal)


def _with_right_times(
    search: Callable[..., OptimizeResult],
    residual_fn: ResidualFunction,
    params: ParameterDict,
    residuals: Any,
    result: OptimizeResult,
) -> tuple[Any, OptimizeResult]:
    """Fit again with the other times where stamps may have two; look for other shifts."""
    if residual_fn.undecided:
        rival = residual_fn.rival()
        moved = _as_residuals(rival, params)
        # Where a delay makes up for the step, both fits are exact but for rounding.
        rounding = 1e-9 * float(np.mean(moved(result.x[None]) ** 2)) + np.finfo(float).tiny
        again = search(moved, result.x, warm=True)
        first, second = (max(2 * each.cost / len(each.fun), rounding) for each in (result, again))
        # A sample that only one of the fits has, after the controls, may count for one.
        doubt = _EVIDENCE + abs(len(again.fun) - len(result.fun))
        if len(again.fun) / 2 * np.log(first / second) > doubt:
            again.nfev += result.nfev
            residuals, result = moved, again
            residual_fn.become(rival)
        residual_fn.undecided = False
        if residual_fn.options.sensor_stamps == 'rollout':
            warnings.warn(_ROLLOUT_TIMES, StampWarning, stacklevel=3)
    result.update(sensor_stamps=residual_fn.options.sensor_stamps, shift=None)
    if isinstance(residuals, Residuals):
        result.shift = find_shift(residuals, result.x, result.jac)
        timestep = max(run.timestep for run in residuals.runs)
        if result.shift is not None and result.shift.significant:
            warnings.warn(result.shift.sentence(timestep), StampWarning, stacklevel=3)
    return residuals, result


def find_shift(residuals: Residuals, x: Array, jacobian: Array) -> StampShift | None:
    """Return the shift of the stamps that explains the measurements best, if the slopes tell it.

    It is found and tested like one more parameter, by Gauss-Newton steps along the slopes of what
    is predicted, with residuals whose noise is autoregressive of order 1.
    """
    records, samples = residuals.records(x), residuals.samples
    timesteps = np.array([run.timestep for run in residuals.runs])
    low, high = _bounds(residuals)
    columns = jacobian[:, (x > low) & (x < high)]
    columns = columns[:, np.any(columns != 0, axis=0)]
    order = np.lexsort((samples.time, samples.sensor, samples.sequence))
    order = order[samples.sensor[order] >= 0]
    shift, steps = 0.0, 3
    for _ in range(steps):
        moved = [
            {
                k: ndimage.shift(v, (-shift / step, 0), order=1, mode='nearest')
                for k, v in own.items()
            }
            for own, step in zip(records, timesteps, strict=True)
        ]
        at = residuals.of_records(x, moved)
        ahead = [{k: v + np.gradient(v, axis=0) for k, v in own.items()} for own in moved]
        slopes = (residuals.of_records(x, ahead) - at) / timesteps[samples.sequence]
        # What the parameters answer to a shift is no sign of it.
        own, rest = (v - columns @ np.linalg.lstsq(columns, v)[0] for v in (slopes, at))
        own, rest = own[order], rest[order]
        information = float(own @ own)
        if not information > 1e-12 * float(slopes @ slopes):  # else it drowns in rounding
            return None
        change = -float(own @ rest) / information
        shift += change
    rest = rest + change * own
    squares = max(float(rest @ rest), np.finfo(float).tiny)
    alike = float(np.clip(rest[1:] @ rest[:-1] / squares, 0.0, 1 - 1e-3))
    variance = squares / len(rest) * (1 + alike) / (1 - alike) / information
    # Nor is what sequences disagree on, as they do where they start from noisy states.
    scores = np.bincount(samples.sequence[order], own * rest)
    variance = max(variance, float(scores @ scores) / information**2)
    # Stamps that differ by less are the same.
    return StampShift(shift, max(float(np.sqrt(variance)), SAME_STEP * float(timesteps.min())))


def _print(observe: Callable[[Iteration], None] | None, iteration: Iteration) -> None:
    """Print an iteration, and pass it on."""
    sys.stdout.write(
        f'{iteration.number:4d}  cost {iteration.cost:<12.6g} step {iteration.step:<9.3g} '
        f'{iteration.rollouts} rollouts  {iteration.seconds:.2f} s\n'
    )
    if observe is not None:
        observe(iteration)


class _FunctionResiduals(FunctionResiduals):
    """Any function of the toolbox's form as residuals; NaN where no model can be built.

    With ``single`` it is called with one candidate at a time, ``x`` being (p,).
    """

    def __init__(
        self, function: Callable[..., Any], params: ParameterDict, *, single: bool
    ) -> None:
        super().__init__(self._evaluate, unknowns_of(params))
        self._given, self._params, self._single = function, params, single
        self._size: int | None = None

    def _evaluate(self, candidates: Array) -> Array:
        count = len(candidates)
        if self._single and count > 1:
            return np.concatenate([self._evaluate(x[None]) for x in candidates], axis=1)
        try:
            return self._called(candidates.T if count > 1 else candidates[0], count)
        except CandidateError:
            if count > 1:  # one of them has no model
                return np.concatenate([self._evaluate(x[None]) for x in candidates], axis=1)
            if self._size is None:
                raise
            return np.full((self._size, 1), np.nan)

    def _called(self, x: Array, count: int) -> Array:
        """Return the (n, count) residuals of ``x``, (p,) or (p, count)."""
        found = self._given(x.copy(), self._params)[0]
        parts = [np.asarray(part, dtype=np.float64) for part in found]
        for part in parts:
            if count > 1 and part.shape[1:] != (count,):
                raise FitError(
                    f'Expected residuals of shape (n, {count}) for x of shape {x.shape}, found '
                    f"{part.shape}; optimizer='scipy' asks for one candidate at a time."
                )
        residuals = np.concatenate([part.reshape(-1, count) for part in parts])
        self._size = len(residuals)
        return residuals


def _as_residuals(
    residual_fn: Callable[..., Any], params: ParameterDict, *, single: bool = False
) -> Residuals | _FunctionResiduals:
    if isinstance(residual_fn, ResidualFunction):
        residuals = residual_fn.residuals(params)
        if isinstance(residuals, Residuals):
            return residuals
        single = False
    return _FunctionResiduals(residual_fn, params, single=single)


def _check_conditioning(residuals: Any, x: Array) -> None:
    with np.errstate(over='ignore'):
        condition = float(np.linalg.cond(_jacobian(residuals, x))) ** 2
    if condition > _ILL_CONDITIONED:
        _LOG.warning(
            'cond(J^T J) is %.1e at the start: the data hardly tell some parameters apart, or '
            'these have very different units.',
            condition,
        )


def calculate_intervals(
    residuals_star: Sequence[Array],
    J: Array | None,  # noqa: N803 (the toolbox's name)
    alpha: float = 0.05,
    lambda_zero_thresh: float = 1e-15,
    v_zero_thresh: float = 1e-8,
) -> tuple[Array, Array]:
    """Return the (p, p) covariance and (p,) half-widths of parameters from the Jacobian's (n, p).

    They hold for residuals that are independent and equally noisy: ``s² (JᵀJ)⁻¹`` with the variance
    ``s² = rᵀr / (n − p)``. Residuals of a robot are not; the intervals of a calibration allow for
    that. A direction that the data do not see has an infinite variance, which reaches only the
    parameters that take part in it. Eigenvalues of JᵀJ and components of its eigenvectors below the
    thresholds, as fractions of the largest, count as zero; the level is one minus ``alpha``.
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
    covariance: Array = variance * inverse
    covariance[blind, blind] = np.inf
    quantile = float(scipy.special.stdtrit(freedom, 1 - alpha / 2))
    return covariance, quantile * np.sqrt(np.diag(covariance))
