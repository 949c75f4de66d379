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
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.optimize
import scipy.special
from mujoco import minimize
from numpy.typing import NDArray

from sysid_ros.config.calibration import ACCURACY, Loss
from sysid_ros.errors import CancelledError, FitError, SysidError, nearest
from sysid_ros.estimation.differences import FunctionResiduals
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver import Iteration, SolverSettings, interrupt, solve
from sysid_ros.estimation.start import solve_from
from sysid_ros.estimation.start import starts as spread
from sysid_ros.estimation.windows import solve_in_stages
from sysid_ros.model.rebuild import CandidateError
from sysid_ros.toolbox.parameter import ParameterDict, unknowns_of
from sysid_ros.toolbox.residual import ResidualFunction

Array = NDArray[np.float64]

#: What `mujoco.sysid` logs is logged here, too.
_LOG = logging.getLogger(__name__)
_OPTIMIZERS = ('mujoco', 'scipy', 'scipy_parallel_fd')
#: Relative step of forward differences, as in SciPy: the root of the rounding of a float.
_STEP = float(np.sqrt(np.finfo(np.float64).eps))
#: A condition number of JᵀJ above this is warned of, as in MuJoCo's toolbox.
_ILL_CONDITIONED = 1e12
#: Stamps are those of a rollout where the logarithm of the likelihood is larger by this.
_EVIDENCE = 2.0
#: Shifts of the stamps up to this, s, are looked for.
_LARGEST_SHIFT = 0.05
_ROLLOUT_TIMES = (
    'The measurements carry the times of the states of mujoco.rollout, one time step after what '
    'they describe, and are taken one step earlier, which explains them better; '
    "sensor_stamps='rollout' says so beforehand, 'measured' keeps the times."
)


class StampWarning(UserWarning):
    """A shift of the measurements in time explains them significantly better."""


class CandidateWarning(UserWarning):
    """The solver tried values that no model can be built with."""


class StampShift(NamedTuple):
    """By how much moved stamps explain the measurements better."""

    seconds: float  # to add to the stamps; negative when they are late
    error: float  # standard error of that, s
    significant: bool  # whether the shift is no accident

    def sentence(self, timestep: float) -> str:
        """Return the warning for a model's time step, s; empty where the shift is an accident."""
        if not self.significant:
            return ''
        near = np.clip(2 * self.error, 0.1 * timestep, 0.4 * timestep)
        advice = 'check the clock or add a delay target sensor/*/delay'
        if abs(self.seconds + timestep) <= near:
            advice = (
                'this is one time step late, as if stamped by the state times of mujoco.rollout: '
                "pass sensor_stamps='rollout'"
            )
        return (
            f'Measurements moved by {1e3 * self.seconds:+.3g} ms are explained significantly '
            f'better: {advice}.'
        )


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
    **settings: Any,
) -> tuple[ParameterDict, scipy.optimize.OptimizeResult]:
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
        starts: Number of starts spread over the bounds; for ``'mujoco'``.
        seed: Of the other starts.
        tolerance: Step that is predicted at the end, in standard errors; for ``'mujoco'``.
        cancel: Ends the fit when it is set.
        observe: Called after every iteration; for ``'mujoco'``.
        **settings: Passed on to SciPy. Those of ``mujoco.minimize`` are not used: scales, steps,
            regularisation and convergence follow the residuals, which are in units of the noise.

    Returns:
        The fitted parameters, and a result with ``x``, ``cost``, ``fun``, ``jac``, ``grad``,
        ``status`` (above 0 when converged), ``message``, ``success``, ``nfev``, ``nit``, ``trace``,
        ``extras``, ``attempts`` of several starts, ``diverged``, ``refused`` (candidates that no
        model could be built for), ``excluded`` samples and ``dead`` sensors, ``sensor_stamps``, and
        ``shift`` of the stamps that explains the measurements better.
    """
    params = initial_params.copy()
    x0 = params.as_vector()
    if not len(x0):
        _LOG.warning('There is nothing to fit: all parameters are frozen.')
        nothing: dict[str, Any] = {'jac': np.zeros((0, 0)), 'success': True}
        return params, scipy.optimize.OptimizeResult(
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
    search: _Search
    if optimizer == 'mujoco':
        solver = SolverSettings(loss=loss, max_iterations=max_iters, accuracy=tolerance)
        watched = _printing(observe) if verbose else observe
        search = _OurSearch(solver, starts, seed, cancel, watched)
    elif starts > 1:
        raise FitError("Expected optimizer='mujoco' for several starts, found SciPy.")
    else:
        settings = {'loss': loss, 'max_nfev': max_iters, 'verbose': 2 * verbose, **settings}
        search = _ScipySearch(settings, cancel)
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
    if result.refused:
        warnings.warn(
            f'No model could be built for {result.refused} of the candidates that the solver '
            'tried, which it stepped back from; narrower bounds may spare them.',
            CandidateWarning,
            stacklevel=2,
        )
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


class _OurSearch(NamedTuple):
    """The solver of `sysid calibrate`: several starts, or growing parts of the data.

    A search is warm where the start is nearly a minimum.
    """

    settings: SolverSettings
    starts: int
    seed: int
    cancel: threading.Event | None
    observe: Callable[[Iteration], None] | None

    def __call__(
        self, residuals: Any, x: Array, *, warm: bool = False
    ) -> scipy.optimize.OptimizeResult:
        common: dict[str, Any] = {
            'settings': self.settings,
            'cancel': self.cancel,
            'observe': self.observe,
        }
        attempts: Sequence[Any] = ()
        if self.starts > 1 and not warm:
            candidates = spread(residuals.unknowns, self.starts, seed=self.seed)
            found = solve_from(residuals, candidates, **common)
            solution, attempts = found.solution, found.attempts
        elif isinstance(residuals, Residuals) and not warm:
            solution = solve_in_stages(residuals, x, noise_known=True, **common)
        else:
            solution = solve(residuals, x, **common)
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
            attempts=attempts,
            extras={
                'objective': [entry.cost for entry in solution.trace],
                'candidate': [np.array(entry.x) for entry in solution.trace],
            },
        )


class _ScipySearch(NamedTuple):
    """``scipy.optimize.least_squares``, all differences of a Jacobian in one batch."""

    settings: dict[str, Any]
    cancel: threading.Event | None

    def __call__(
        self, residuals: Any, x: Array, *, warm: bool = False
    ) -> scipy.optimize.OptimizeResult:
        del warm
        settings = dict(self.settings)
        step = settings.pop('diff_step', None) or _STEP

        def function(x: Array) -> Array:
            interrupt(self.cancel)
            found: Array = residuals(x[None])[:, 0].copy()
            return found

        low, high = _bounds(residuals)
        options = {'jac': lambda x: _jacobian(residuals, x, step), 'x_scale': 'jac', **settings}
        start = np.clip(x, low, high)
        before = residuals.evaluations
        try:
            found = scipy.optimize.least_squares(function, start, bounds=(low, high), **options)
        except SysidError:
            raise
        except ValueError as err:
            raise FitError(f'SciPy cannot fit with these settings: {err}') from err
        found.update(nfev=residuals.evaluations - before, trace=(), attempts=())
        found.extras = {'objective': [found.cost], 'candidate': [found.x]}
        return found


_Search: TypeAlias = _OurSearch | _ScipySearch


def _bounds(residuals: Any) -> tuple[Array, Array]:
    low, high = np.array([(u.min_value, u.max_value) for u in residuals.unknowns]).T
    return low, high


def _jacobian(residuals: Any, x: Array, step: float) -> Array:
    """Return the (n, p) derivatives of residuals by forward differences, inside the bounds."""
    low, high = _bounds(residuals)
    steps = step * np.maximum(np.abs(x), 1.0)
    steps = np.where(x + steps > high, -steps, steps)
    moved = np.clip(x + np.diag(steps), low, high)
    found = residuals(np.vstack([x, moved]))
    taken = np.diag(moved) - x
    jacobian: Array = (found[:, 1:] - found[:, :1]) / np.where(taken != 0, taken, np.inf)
    return jacobian


def _from_either(
    search: _Search, residuals: Any, x: Array, nominal: Array
) -> scipy.optimize.OptimizeResult:
    """Search from the start or, where the simulation is unstable there, from the nominal values."""
    before = getattr(residuals, 'refusals', 0)
    try:
        result = search(residuals, x)
    except FitError as err:
        if isinstance(err, CancelledError) or np.array_equal(x, nominal):
            raise
        residuals(x[None])
        if not residuals.unstable[0]:
            raise
        try:
            result = search(residuals, nominal)
        except CancelledError:
            raise
        except FitError:
            raise err from None
    result.update(refused=getattr(residuals, 'refusals', 0) - before, shift=None)
    return result


def _with_right_times(
    search: _Search,
    residual_fn: ResidualFunction,
    params: ParameterDict,
    residuals: Any,
    result: scipy.optimize.OptimizeResult,
) -> tuple[Any, scipy.optimize.OptimizeResult]:
    """Fit again one step earlier where stamps may be those of a rollout; look for other shifts."""
    earlier = residual_fn.one_step_earlier()
    if earlier is not None:
        moved = _as_residuals(earlier, params)
        again = search(moved, result.x, warm=True)
        count = len(again.fun)
        # Of the first fit, the last sample may lie after the controls.
        ratio = (result.cost / len(result.fun)) / max(again.cost / count, np.finfo(float).tiny)
        if count / 2 * np.log(max(ratio, np.finfo(float).tiny)) > _EVIDENCE:
            warnings.warn(_ROLLOUT_TIMES, StampWarning, stacklevel=3)
            residual_fn.become(earlier)
            residuals, result = moved, _joined(result, again)
            result.refused += moved.refusals
    stamps = residual_fn.options.sensor_stamps
    result.sensor_stamps = 'rollout' if stamps == 'rollout' else 'measured'
    if isinstance(residuals, Residuals):
        result.shift = find_shift(residuals, result.x, result.jac)
        if result.shift is not None and result.shift.significant:
            timestep = max(run.timestep for run in residuals.runs)
            warnings.warn(result.shift.sentence(timestep), StampWarning, stacklevel=3)
    return residuals, result


def _joined(
    first: scipy.optimize.OptimizeResult, second: scipy.optimize.OptimizeResult
) -> scipy.optimize.OptimizeResult:
    """Return the second of two searches that went on from the first, with both their steps."""
    begun = len(first.trace)
    later = [entry._replace(number=begun + k) for k, entry in enumerate(second.trace)]
    joined = scipy.optimize.OptimizeResult({**first, **second})
    joined.update(trace=(*first.trace, *later), nfev=first.nfev + second.nfev)
    joined.extras = {k: [*first.extras[k], *second.extras[k]] for k in first.extras}
    if first.trace:
        joined.nit = len(joined.trace)
    return joined


def find_shift(residuals: Residuals, x: Array, jacobian: Array) -> StampShift | None:
    """Look for a shift of the measurements in time that explains them better.

    To first order the parameters' answer to a shift s is a least-squares step, so what they leave
    of the residuals r(s) is r - J J⁺ r. The shift that makes the sum of its squares least is tested
    like a regressor of residuals whose noise is autoregressive of order 1.

    Returns:
        What was found; None where the sequences are too short to tell.
    """
    timestep = max(run.timestep for run in residuals.runs)
    limit = min(_LARGEST_SHIFT, min(run.sequence.duration for run in residuals.runs) / 4)
    if limit < timestep:
        return None
    samples, records = residuals.samples, residuals.records(x)
    ends = np.array([(run.steps - 2) * run.timestep for run in residuals.runs])
    order = np.lexsort((samples.time, samples.sensor, samples.sequence))
    # The same samples are compared at every shift.
    inside = (samples.time >= limit) & (samples.time <= ends[samples.sequence] - limit)
    rows = order[(inside & (samples.sensor >= 0))[order]]
    if not len(rows):
        return None
    low, high = _bounds(residuals)
    columns = jacobian[np.ix_(rows, (x > low) & (x < high))]
    norms = np.linalg.norm(columns, axis=0)
    basis, singular, _ = np.linalg.svd(
        columns[:, norms > 0] / norms[norms > 0], full_matrices=False
    )
    basis = basis[:, singular > 1e-6 * singular.max(initial=0.0)]  # else it drowns in rounding

    def left(shift: float) -> Array:
        moved = [
            {field: _later(values, shift / run.timestep) for field, values in record.items()}
            for run, record in zip(residuals.runs, records, strict=True)
        ]
        found = residuals.of_records(x, moved)[rows]
        return np.asarray(found - basis @ (basis.T @ found))

    def squares(shift: float) -> float:
        return float(np.sum(left(shift) ** 2))

    scan = np.linspace(-limit, limit, 33)
    best, spacing = scan[int(np.argmin([squares(shift) for shift in scan]))], scan[1] - scan[0]
    near = max(best - spacing, -limit), min(best + spacing, limit)
    best = float(scipy.optimize.minimize_scalar(squares, bounds=near, method='bounded').x)
    before, rest = squares(0.0), left(best)
    after = max(float(rest @ rest), np.finfo(float).tiny)
    if before <= after:
        return StampShift(0.0, np.inf, significant=False)
    alike = float(np.clip(rest[1:] @ rest[:-1] / after, 0.0, 1 - 1e-3))
    deviations = np.sqrt((before / after - 1) * len(rows) * (1 - alike) / (1 + alike))
    certain = deviations > -scipy.special.ndtri(5e-5)  # chance makes one in ten thousand
    significant = bool(certain and abs(best) >= 0.01 * timestep)
    return StampShift(best, float(abs(best) / deviations), significant)


def _later(values: Array, rows: float) -> Array:
    """Return what (n, k) values are so many rows later, the first or last where there are none."""
    place = np.clip(np.arange(len(values)) + rows, 0, len(values) - 1)
    first = np.minimum(place.astype(np.int64), len(values) - 2)
    share = (place - first)[:, None]
    return np.asarray((1 - share) * values[first] + share * values[first + 1])


def _printing(observe: Callable[[Iteration], None] | None) -> Callable[[Iteration], None]:
    """Return what prints iterations and passes them on."""

    def say(iteration: Iteration) -> None:
        sys.stdout.write(
            f'{iteration.number:4d}  cost {iteration.cost:<12.6g} step {iteration.step:<9.3g} '
            f'{iteration.rollouts} rollouts  {iteration.seconds:.2f} s\n'
        )
        if observe is not None:
            observe(iteration)

    return say


class _FunctionResiduals(FunctionResiduals):
    """Any function of the toolbox's form as residuals; NaN where no model can be built.

    With ``single`` it is called with one candidate at a time, ``x`` being (p,). ``refusals`` counts
    candidates that no model could be built for.
    """

    def __init__(
        self, function: Callable[..., Any], params: ParameterDict, *, single: bool
    ) -> None:
        super().__init__(self._evaluate, unknowns_of(params))
        self._given, self._params, self._single = function, params, single
        self._size: int | None = None
        self.refusals = 0

    def _evaluate(self, candidates: Array) -> Array:
        if not self._single and len(candidates) > 1:
            try:
                return self._called(candidates.T, len(candidates))
            except CandidateError:  # of one of them
                pass
        return np.concatenate([self._one(x) for x in candidates], axis=1)

    def _one(self, x: Array) -> Array:
        try:
            return self._called(x, 1)
        except CandidateError:
            if self._size is None:
                raise
            self.refusals += 1
            return np.full((self._size, 1), np.nan)

    def _called(self, x: Array, count: int) -> Array:
        """Return the (n, count) residuals of ``x``, (p,) or (p, count)."""
        parts = [
            np.asarray(part, dtype=np.float64) for part in self._given(x.copy(), self._params)[0]
        ]
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
        condition = float(np.linalg.cond(_jacobian(residuals, x, _STEP))) ** 2
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
    """Return covariance and half-widths of the parameters from the Jacobian at the optimum.

    They hold for residuals that are independent and equally noisy: ``s² (JᵀJ)⁻¹`` with the variance
    ``s² = rᵀr / (n − p)``. Residuals of a robot are not; the intervals of a calibration allow for
    that. A direction that the data do not see has an infinite variance, which reaches only the
    parameters that take part in it.

    Args:
        residuals_star: Residuals at the optimum, one array per sequence, n numbers in all.
        J: (n, p) derivative of the residuals there.
        alpha: One minus the level.
        lambda_zero_thresh: Eigenvalues of JᵀJ below this fraction of the largest count as zero.
        v_zero_thresh: The same for components of an eigenvector.

    Returns:
        The (p, p) covariance and the (p,) half-widths, in the parameters' units.
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
