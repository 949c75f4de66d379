# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Weighted nonlinear least squares with bounds: the settings, the solve, its solution."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.calibration import ACCURACY, Backend, Loss
from sysid_ros.errors import CancelledError, FitError, nearest
from sysid_ros.estimation.solver.descent import ROUGH, Descent
from sysid_ros.estimation.solver.differences import Differences, Linearisation
from sysid_ros.estimation.solver.levenberg_marquardt import run_levenberg_marquardt
from sysid_ros.estimation.solver.losses import LOSSES, REDESCENDING, cost, rho
from sysid_ros.estimation.solver.problem import Iteration, ResidualLike
from sysid_ros.estimation.solver.quadratic import Point
from sysid_ros.estimation.solver.scipy_methods import off_bounds, run_scipy
from sysid_ros.model.unknown import Unknown

BACKENDS: tuple[Backend, ...] = get_args(Backend)

#: An effect of a parameter that has none at the start is looked for at these parts of the way from
#: the lower to the upper bound or, where there is none, one scale from the start.
_PROBES = (0.0, 1e-3, 0.01, 0.1, 0.5, 1.0)
#: It has none where the cost falls by less: that is one standard error, or rounding.
_EFFECT = 0.5

#: A convex loss gives way to a redescending one when its step is below this, in standard errors.
_NEAR = 0.3

_WORDS = {
    'step': 'Converged: the step is below the tolerance.',
    'cost': 'Converged: the cost no longer falls.',
    'gradient': 'Converged: the gradient is below the tolerance.',
    'stalled': 'Stopped: no step lowers the cost further.',
    'iterations': 'Stopped at the limit of iterations before convergence.',
    'time': 'Stopped at the limit of time before convergence.',
}
#: The words of :class:`Solution` that mean success.
CONVERGED = frozenset({'step', 'cost', 'gradient'})
#: Those of a solve that was not let to its end.
LIMITS = frozenset({'iterations', 'time'})


@dataclass(frozen=True)
class SolverSettings:
    """Which solver, loss and limit.

    Attributes:
        backend: ``mujoco`` for the method of ``mujoco.minimize``; ``scipy-trf``,
            ``scipy-dogbox`` or ``scipy-lm`` for those of ``scipy.optimize``; ``scipy`` is dogbox.
        loss: Loss of a residual in units of its noise, named as in scipy.
        max_iterations: Limit of iterations.
        accuracy: Largest predicted step at the end, in standard errors.
        rough: The values only serve as a start: effects are not looked for, and the differences
            are not checked.
        smooth: The residuals have a second derivative along a step, without noise: curved valleys
            are followed by it.
        deadline: When what follows the solve, too, is to be done, in ``time.monotonic()``.
        longest: Wall time of an iteration, as far as it is known before, s.
    """

    backend: Backend = 'mujoco'
    loss: Loss = 'linear'
    max_iterations: int = 200
    accuracy: float = ACCURACY
    rough: bool = False
    smooth: bool = False
    deadline: float = math.inf
    longest: float = 0.0

    def __post_init__(self) -> None:
        """Check the names.

        Raises:
            FitError: There is no such backend or loss.
        """
        for word, found, choices in (
            ('solver', self.backend, BACKENDS),
            ('loss', self.loss, LOSSES),
        ):
            if found not in choices:
                raise FitError(f'There is no {word} {found!r}; {nearest(str(found), choices)}.')


@dataclass(frozen=True)
class Solution:
    """Where the solver ended.

    Attributes:
        x: (p,) parameter values.
        residual: (n,) residuals there, in units of the noise.
        cost: Half the sum of the losses.
        status: Short fixed word: ``gradient``, ``step``, ``cost``, ``stalled``, ``iterations``,
            ``time``.
        message: The same for people.
        success: Whether the solver converged.
        trace: All iterations.
        jacobian: (n, p) derivative of the residuals by the values, per unit of each.
        gradient: (p,) derivative of the cost by the values.
        iterations: Number of steps.
        evaluations: Simulations of this solve.
        differences: The steps that the Jacobian was found with, for a solve that goes on from
            here; None for a solution that no solver made.
    """

    x: NDArray[np.float64]
    residual: NDArray[np.float64]
    cost: float
    status: str
    message: str
    success: bool
    trace: tuple[Iteration, ...]
    jacobian: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    gradient: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    iterations: int = 0
    evaluations: int = 0
    differences: Differences | None = None

    @property
    def jumps(self) -> bool:
        """Whether the residuals jump, so that slopes are those over standard errors."""
        return self.differences is not None and bool(self.differences.wide.any())


def solve(
    residuals: ResidualLike,
    start: NDArray[np.float64],
    *,
    settings: SolverSettings | None = None,
    tolerance: float | None = None,
    known: Solution | None = None,
    begun: Solution | None = None,
    cancel: threading.Event | None = None,
    observe: Callable[[Iteration], None] | None = None,
) -> Solution:
    """Find the parameter values with the least cost inside the bounds.

    The solve has converged when the step to the least value of the linearised problem is shorter
    than the tolerance in standard errors, the relative offset of Bates and Watts (1981); for data
    without noise, when that step is below 1e-5 tolerances of the parameters' values.

    Args:
        residuals: The residual function.
        start: (p,) start values; they are moved into the bounds.
        settings: Which solver, loss and limit.
        tolerance: Largest predicted step at the end, in standard errors, where this is a stage of a
            fit; the settings' accuracy unless given.
        known: The last solution, where the solve goes on from it with other weights: residual and
            Jacobian in the new units spare the first batch.
        begun: A solution for part of the data, from which this solve starts: its differences have
            found their steps, and its last step succeeded.
        cancel: Ends the solve when it is set.
        observe: Called after every iteration.

    Raises:
        CancelledError: ``cancel`` was set.
        FitError: A residual at the start is not finite, every simulation is unstable there, or no
            parameter changes anything.
    """
    settings = settings or SolverSettings()
    tolerance = settings.accuracy if tolerance is None else tolerance
    before = residuals.evaluations
    if settings.loss in REDESCENDING and known is None:
        # A start that ignores a part of the data has to be right for the rest.
        careful = replace(settings, rough=False)
        return _solve_gradually(residuals, start, careful, tolerance, cancel, observe)
    origin = known or begun
    differences = Differences(residuals, min(tolerance, settings.accuracy))
    if origin is not None and origin.differences is not None:
        differences.take_steps(origin.differences)
    descent = Descent(
        residuals,
        loss=settings.loss,
        limit=settings.max_iterations,
        deadline=settings.deadline,
        tolerance=tolerance,
        cancel=cancel,
        observe=observe,
        differences=differences,
    )
    descent.unchecked = settings.rough
    descent.smooth = settings.smooth
    descent.longest = settings.longest
    descent.expects_success = begun is not None
    descent.passing = tolerance > settings.accuracy and tolerance >= ROUGH
    z = np.clip(
        descent.variables(np.clip(start, descent.low, descent.high)), descent.lower, descent.upper
    )
    method = 'dogbox' if settings.backend == 'scipy' else settings.backend.removeprefix('scipy-')
    if method in {'trf', 'lm'} and known is None:
        z = off_bounds(descent, z)
    point = None
    if known is not None:
        there = descent.variables(known.x)
        point = Point(
            z=there,
            residual=known.residual,
            cost=cost(known.residual, descent.loss),
            unstable=False,
            jacobian=known.jacobian * descent.slope(there),
        )
    descent.begin(z, point)
    if known is None and not settings.rough:
        _find_effects(descent)
    run = run_levenberg_marquardt if method == 'mujoco' else functools.partial(run_scipy, method)
    status = descent.status or run(descent)
    point = descent.current
    assert point.jacobian is not None  # noqa: S101
    jacobian = point.jacobian / descent.slope(point.z)
    weight = rho(point.residual, settings.loss)[1]
    return Solution(
        x=descent.values(point.z),
        residual=point.residual,
        cost=point.cost,
        status=status,
        message=_WORDS[status],
        success=status in CONVERGED,
        trace=tuple(descent.trace),
        jacobian=jacobian,
        gradient=jacobian.T @ (weight * point.residual),
        iterations=len(descent.trace) - 1,
        evaluations=residuals.evaluations - before,
        differences=descent.differences,
    )


def with_steady_slopes(residuals: ResidualLike, solution: Solution, loss: Loss) -> Solution:
    """Look at slopes over standard errors where a solve did not arrive: it may be for jumps."""
    differences = Differences(residuals)
    if solution.differences is not None:
        differences.take_steps(solution.differences)
    jacobian = solution.jacobian.copy()
    differences.widen(Linearisation(solution.x, solution.residual, jacobian))
    weight = rho(solution.residual, loss)[1]
    gradient = jacobian.T @ (weight * solution.residual)
    return replace(solution, jacobian=jacobian, gradient=gradient, differences=differences)


def stopped(solution: Solution) -> Solution:
    """Return a solution that others were to follow, had the limit of time not been reached."""
    return replace(solution, status='time', message=_WORDS['time'], success=False)


def attempt(
    residuals: ResidualLike,
    start: NDArray[np.float64],
    *,
    settings: SolverSettings,
    tolerance: float | None = None,
    begun: Solution | None = None,
    cancel: threading.Event | None = None,
    observe: Callable[[Iteration], None] | None = None,
) -> Solution | FitError:
    """Do the same as `solve`; return the reason where a solve cannot even begin.

    Raises:
        CancelledError: ``cancel`` was set.
    """
    try:
        return solve(
            residuals,
            start,
            settings=settings,
            tolerance=tolerance,
            begun=begun,
            cancel=cancel,
            observe=observe,
        )
    except CancelledError:
        raise
    except FitError as reason:
        return reason


def _solve_gradually(
    residuals: ResidualLike,
    start: NDArray[np.float64],
    settings: SolverSettings,
    tolerance: float,
    cancel: threading.Event | None,
    observe: Callable[[Iteration], None] | None,
) -> Solution:
    """Solve with a convex loss first: redescending ones ignore what is far from being explained.

    Graduated non-convexity (Blake and Zisserman, Visual Reconstruction, 1987), in two stages.
    """
    near = solve(
        residuals,
        start,
        settings=replace(settings, loss='soft_l1'),
        tolerance=max(tolerance, _NEAR),
        cancel=cancel,
        observe=observe,
    )
    if near.status in LIMITS:
        weight = rho(near.residual, settings.loss)[1]
        return replace(
            near,
            cost=cost(near.residual, settings.loss),
            gradient=near.jacobian.T @ (weight * near.residual),
        )

    def shifted(iteration: Iteration) -> Iteration:
        return iteration._replace(
            number=iteration.number + near.iterations,
            seconds=iteration.seconds + near.trace[-1].seconds,
        )

    def tell(iteration: Iteration) -> None:
        if observe is not None and iteration.number:
            observe(shifted(iteration))

    end = solve(
        residuals,
        near.x,
        settings=replace(settings, max_iterations=settings.max_iterations - near.iterations),
        tolerance=tolerance,
        known=near,
        cancel=cancel,
        observe=tell,
    )
    return replace(
        end,
        trace=(*near.trace[:-1], *map(shifted, end.trace)),
        iterations=near.iterations + end.iterations,
        evaluations=near.evaluations + end.evaluations,
    )


def _find_effects(descent: Descent) -> None:
    """Move parameters that change nothing to where they lower the cost, if there is such a place.

    Friction that locks a joint at the start hides itself and all else of that joint. What changes
    nothing anywhere stays at its start, and so does what raises the cost where it has an effect.

    Raises:
        FitError: No parameter changes anything.
    """
    while len(silent := _silent(descent)):
        here = descent.current
        probes = [probe for column in silent for probe in _probes(descent, column)]
        points = descent.evaluate(probes)
        if points is None:  # the Jacobian was wrong, and is another now
            continue
        moves = any(not np.array_equal(point.residual, here.residual) for point in points)
        if len(silent) == len(here.z) and not moves:
            raise no_effect(descent.residuals.unknowns)
        best = min(points, key=lambda point: point.cost)
        if not best.cost < here.cost - _EFFECT:
            return
        descent.status = None
        descent.begin(best.z)


def no_effect(unknowns: Iterable[Unknown]) -> FitError:
    """Return what is said where no parameter changes anything."""
    names = ', '.join(repr(unknown.name) for unknown in unknowns)
    return FitError(
        f'Nothing that was measured changes with any parameter ({names}); record what they move.'
    )


def _silent(descent: Descent) -> NDArray[np.int64]:
    """Return the columns that change no residual at the current point."""
    assert descent.current.jacobian is not None  # noqa: S101
    return np.flatnonzero(~np.any(descent.current.jacobian != 0, axis=0))


def _probes(descent: Descent, column: int) -> list[NDArray[np.float64]]:
    """Return (p,) variables of which one is at other places between its bounds."""
    z = descent.current.z
    low, high = descent.lower[column], descent.upper[column]
    low, high = np.where(np.isfinite([low, high]), [low, high], z[column] + np.array([-1.0, 1.0]))
    probes = np.tile(z, (len(_PROBES), 1))
    probes[:, column] = low + np.array(_PROBES) * (high - low)
    return list(probes)


def linearise(
    residuals: ResidualLike, x: NDArray[np.float64], differences: Differences | None = None
) -> NDArray[np.float64]:
    """Return the (n, p) derivative of the residuals by the values, per unit of each.

    Args:
        residuals: The residual function.
        x: (p,) where.
        differences: The steps of a solve; found for this point unless given.
    """
    if differences is not None:
        return differences.at(x).jacobian
    differences = Differences(residuals)
    linear = differences.at(x)
    differences.check(linear)
    return linear.jacobian
