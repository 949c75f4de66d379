# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Weighted nonlinear least squares with bounds, by Levenberg and Marquardt's method.

The Jacobian is one batch of simulations, a ladder of damped steps is another, and the best of the
steps is taken.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.schema import ACCURACY, Loss
from sysid_ros.errors import CancelledError, FitError, nearest
from sysid_ros.estimation.solver.differences import (
    CENTRAL,
    FORWARD,
    Differences,
    Linearisation,
    ResidualLike,
    Variables,
)
from sysid_ros.estimation.solver.losses import (
    LOSSES,
    REDESCENDING,
    Quadratic,
    cost,
    quadratic,
    rho,
)
from sysid_ros.estimation.solver.steps import (
    GOOD_RATIO,
    LADDER,
    Point,
    State,
    Step,
    bent,
    converged,
    least_fall,
    next_damping,
    next_ladder,
    raised,
)
from sysid_ros.model.targets import Unknown

#: A Jacobian of a point before, which still holds.
KEPT = 'kept'

#: A step is taken if it lowers the cost by this part of what the gradient promises (Armijo).
_ARMIJO = 1e-2
#: So many steps in a row that lower the cost by less than a step of one tolerance would say that
#: the slopes do not hold as far as the steps go.
_POOR_STEPS = 3
#: A kept Jacobian shortens the next predicted step to this part at least, and has told what the
#: last step changed in each of at least so many directions.
_SHORTENED, _FEWEST_DIRECTIONS = 0.25, 3.0
#: A solve that ends so many standard errors from the optimum is not worth a look for jumps.
_ROUGH = 1.0
#: Where no step lowers the cost any more, a predicted step below so many tolerances, or the second
#: in standard errors, means that the optimum is known as well as the function's own noise permits;
#: so does a cost below the third part of the start's, or of what noise leaves: data are exact.
_LOOSE, _LEAST, _EXACT_COST = 10.0, 1e-3, 1e-20
#: Where time is limited, that of so many of the longest iterations is kept: another one, and
#: differences that look for jumps and the rest of the intervals, if there are any.
RESERVED = 3.0
#: Each residual of a candidate whose residuals are not finite, in units of the largest at the start
#: or of the noise if that is more.
_PENALTY = 1e4
#: An effect of a parameter that has none at the start is looked for at these parts of the way from
#: the lower to the upper bound or, where there is none, one scale from the start. It has none where
#: the cost falls by less than the second: that is one standard error, or rounding.
_PROBES, _EFFECT = (0.0, 1e-3, 0.01, 0.1, 0.5, 1.0), 0.5
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


def interrupt(cancel: threading.Event | None) -> None:
    """End the work where it was cancelled.

    Raises:
        CancelledError: It was.
    """
    if cancel is not None and cancel.is_set():
        raise CancelledError('The calibration was cancelled.')


class Iteration(NamedTuple):
    """One iteration: where it stands, the step that led there, totals so far.

    Attributes:
        number: Counted from 0, the start.
        cost: Half the sum of the losses.
        step: Length of the step, in units of the parameters' scales.
        rollouts: Simulations so far.
        diverged: How many of them became unstable.
        seconds: Wall time since the start of the solve.
        jacobian: ``forward``, ``central`` where a column is, or ``kept`` from a point before.
        central: Names of the unknowns that are differenced centrally.
        regulariser: Damping of the step, relative to the Hessian's diagonal.
        x: (p,) values there.
    """

    number: int
    cost: float
    step: float
    rollouts: int
    diverged: int
    seconds: float
    jacobian: str = 'forward'
    central: tuple[str, ...] = ()
    regulariser: float = 0.0
    x: tuple[float, ...] = ()


class FitLog:
    """Counts and shows iterations, and keeps those that led to the result.

    Attributes:
        trace: What is kept, counted from 0.
        longest: Wall time of the longest iteration so far, s; the first finds a Jacobian.
    """

    def __init__(
        self,
        observe: Callable[[Iteration], None] | None,
        stage: Callable[[str], None] | None = None,
    ) -> None:
        self._observe, self._stage = observe, stage
        self._count = self._earlier = 0
        self._started = time.monotonic()
        self._before = self.longest = 0.0
        self.trace: list[Iteration] = []

    def go_on(self, trace: Sequence[Iteration], seconds: float) -> None:
        """Go on from what led to another solution, which took so long."""
        self.trace = list(trace)
        self._count = self._earlier = len(trace)
        self._started -= seconds

    @property
    def taken(self) -> int:
        """Number of iterations of this solution."""
        return len(self.trace) - self._earlier

    @property
    def seconds(self) -> float:
        """Wall time so far."""
        return time.monotonic() - self._started

    def __call__(self, iteration: Iteration) -> None:
        """Show and keep an iteration."""
        before = self._before if iteration.number else 0.0
        self.longest = max(self.longest, iteration.seconds - before)
        self._before = iteration.seconds
        shown = iteration._replace(number=self._count, seconds=self.seconds)
        self._count += 1
        self.trace.append(shown._replace(number=len(self.trace)))
        if self._observe is not None:
            self._observe(shown)

    def stage(self, text: str) -> None:
        """Say what begins."""
        if self._stage is not None:
            self._stage(text)

    def replace(self, trace: Sequence[Iteration]) -> None:
        """Keep these instead: those of the best of several starts."""
        self.trace = [iteration._replace(number=number) for number, iteration in enumerate(trace)]


@dataclass(frozen=True)
class SolverSettings:
    """Which loss and limits.

    Attributes:
        loss: Loss of a residual in units of its noise, named as in scipy.
        max_iterations: Limit of iterations.
        accuracy: Largest predicted step at the end, in standard errors.
        rough: The values only serve as a start: effects are not looked for, and the differences
            are not checked.
        deadline: When what follows the solve, too, is to be done, in ``time.monotonic()``.
        longest: Wall time of an iteration, as far as it is known before, s.
    """

    loss: Loss = 'linear'
    max_iterations: int = 200
    accuracy: float = ACCURACY
    rough: bool = False
    deadline: float = math.inf
    longest: float = 0.0

    def __post_init__(self) -> None:
        """Check the name of the loss.

        Raises:
            FitError: There is no such loss.
        """
        if self.loss not in LOSSES:
            raise FitError(f'There is no loss {self.loss!r}; {nearest(str(self.loss), LOSSES)}.')


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
        settings: Which loss and limits.
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
    if settings.loss in REDESCENDING and known is None:
        # A start that ignores a part of the data has to be right for the rest.
        careful = replace(settings, rough=False)
        return _solve_gradually(residuals, start, careful, tolerance, cancel, observe)
    before = residuals.evaluations
    run = _Run(residuals, settings, tolerance, cancel, observe)
    origin = known or begun
    if origin is not None and origin.differences is not None:
        run.differences.take_steps(origin.differences)
    if known is None:
        state = run.begun_at(run.variables.start(start))
        state = state if settings.rough else _with_effects(run, state)
    else:
        z = run.variables.of(known.x)
        point = Point(z, known.residual, cost(known.residual, settings.loss))
        state = run.begun_with(point, known.jacobian * run.variables.slope(z))
    if begun is not None:
        state = replace(state, ladder=1)
    while (status := run.status(state)) is None:
        state = run.advanced(state)
    return run.solution(state, status, residuals.evaluations - before)


class _Run:
    """One solve: what evaluates candidates and Jacobians, and notes the iterations.

    Attributes:
        residuals: The residual function.
        variables: The scaled variables.
        differences: What finds Jacobians.
    """

    def __init__(
        self,
        residuals: ResidualLike,
        settings: SolverSettings,
        tolerance: float,
        cancel: threading.Event | None,
        observe: Callable[[Iteration], None] | None,
    ) -> None:
        self.residuals = residuals
        self.variables = Variables(residuals.unknowns)
        self.differences = Differences(residuals, min(tolerance, settings.accuracy))
        self._settings, self._tolerance = settings, tolerance
        self._cancel, self._observe = cancel, observe
        self._began = time.monotonic()
        self._longest = settings.longest
        self._penalty = np.inf
        self._looked = False
        self._trace: list[Iteration] = []

    def begun_at(self, z: NDArray[np.float64]) -> State:
        """Evaluate a start and linearise there.

        Raises:
            FitError: A residual is not finite, or every simulation diverges.
        """
        interrupt(self._cancel)
        residuals = self.residuals
        linear = self.differences.at(self.variables.values(z))
        wrong = np.flatnonzero(~np.isfinite(linear.residual))
        if len(wrong):
            raise FitError(
                f'Expected finite residuals at the start values, found {len(wrong)} of '
                f'{len(linear.residual)} that are {linear.residual[wrong[0]]}, the first at '
                f'index {wrong[0]}.'
            )
        if linear.unstable:
            diverged, evaluations = residuals.diverged, residuals.evaluations
            residuals(linear.x[None, :])
            if residuals.diverged - diverged >= residuals.evaluations - evaluations:
                raise FitError('The simulation is unstable at the start values on every sequence.')
            linear = self.differences.at(linear.x, linear.residual)
        point = Point(z, linear.residual, cost(linear.residual, self._settings.loss))
        return self.begun_with(point, self._scaled(linear))

    def begun_with(self, point: Point, jacobian: NDArray[np.float64]) -> State:
        """Begin at a point with a known (n, p) Jacobian by the scaled variables."""
        self._penalty = _PENALTY * max(float(np.max(np.abs(point.residual), initial=0.0)), 1.0)
        state = self._state(point, jacobian)
        self._note(state, 0.0, math.nan)
        return state

    def evaluate(self, candidates: Sequence[NDArray[np.float64]]) -> list[Point]:
        """Return what is known of candidates' variables, from one batch."""
        interrupt(self._cancel)
        batch = self.residuals(np.stack([self.variables.values(z) for z in candidates]))
        batch = np.where(np.isfinite(batch).all(axis=0), batch, self._penalty)
        loss = self._settings.loss
        return [Point(z, r, cost(r, loss)) for z, r in zip(candidates, batch.T.copy(), strict=True)]

    def status(self, state: State) -> str | None:
        """Return why the solve has ended, if it has."""
        status = converged(state, self._tolerance)
        if status is None and state.stuck:
            # Of residuals that jump, a standard error is all that can be told.
            jumps = self.differences.wide.any()
            told = jumps and state.model.decrement < math.sqrt(state.model.alike)
            status = 'cost' if told or self._is_near(state) else 'stalled'
        if status is None and len(self._trace) > self._settings.max_iterations:
            status = 'iterations'
        if status is None:
            late = time.monotonic() + RESERVED * self._longest > self._settings.deadline
            status = 'time' if late else None
        return status

    def _is_near(self, state: State) -> bool:
        """Return whether what is left to gain is of the size of the function's own noise."""
        size = max(self._trace[0].cost, len(state.point.residual))
        exact = state.point.cost <= _EXACT_COST * size
        return exact or state.model.decrement < max(_LEAST, _LOOSE * self._tolerance)

    def advanced(self, state: State) -> State:
        """Try a ladder of damped steps in one batch, and go on from the best of them."""
        ladder = next_ladder(state, self.variables, self._tolerance)
        if not ladder:
            return self._mended(state) or replace(state, stuck=True)
        points = self.evaluate([step.z for step in ladder])
        fall = state.point.cost - min(point.cost for point in points)
        # A Jacobian of few columns costs no more than bent steps.
        if len(state.point.z) > 2 * LADDER and fall < GOOD_RATIO * state.model.fall(ladder[0].dx):
            pairs = zip(ladder, points, strict=True)
            loss = self._settings.loss
            curved = [bent(state, step, ahead, self.variables, loss) for step, ahead in pairs]
            ladder += [step for step in curved if step is not None]
            if len(ladder) > len(points):
                points += self.evaluate([step.z for step in ladder[len(points) :]])
        step, point = min(zip(ladder, points, strict=True), key=lambda pair: pair[1].cost)
        if state.point.cost - point.cost > -_ARMIJO * float(state.model.gradient @ step.dx):
            return self._moved(state, step, point)
        if state.kind == KEPT or self._is_near(state):
            # What is wrong is rather the Jacobian than the length of a step.
            return self._mended(state) or replace(state, stuck=True)
        most = max(step.damping for step in ladder)
        return replace(state, damping=raised(most), ladder=LADDER)

    def _moved(self, state: State, step: Step, point: Point) -> State:
        """Go to a point, with the Jacobian that led there if it holds."""
        fall, predicted = state.point.cost - point.cost, state.model.fall(step.dx)
        ratio = fall / predicted if predicted > 0 else 0.0
        poor = fall <= least_fall(state, self._tolerance)
        if self._holds(state, point):
            moved = self._state(point, state.jacobian, KEPT)
        else:
            moved = self._state(point, self._differentiated(point))
        moved = replace(
            moved,
            damping=next_damping(step.damping, ratio),
            ladder=1 if ratio > GOOD_RATIO else LADDER,
            poor=state.poor + 1 if poor else 0,
        )
        self._note(moved, float(np.linalg.norm(point.z - state.point.z)), step.damping)
        if converged(moved, self._tolerance):
            return self._checked(moved) or moved
        if moved.poor >= _POOR_STEPS:
            return self._mended(moved) or replace(moved, stuck=True)
        return moved

    def _holds(self, state: State, point: Point) -> bool:
        """Return whether the Jacobian that led to a point serves there, too.

        It has to shorten the next step fast enough, and to have told what the last one changed:
        slopes change by twice as much along a step, in each of the columns' directions, and the
        noise of the residuals, of one along each, makes that an error of the next step. On seven
        models it was .2 to 1.2 times half of that, once 2.4 times where joints have dry friction.
        """
        after = self._model(point, state.jacobian).decrement
        tolerance = self._tolerance * math.sqrt(state.model.alike)
        if after > max(_SHORTENED * state.model.decrement, tolerance):
            return False
        if state.kind == KEPT:
            return True
        expected = state.jacobian @ (point.z - state.point.z)
        bent = np.linalg.norm(point.residual - state.point.residual - expected)
        directions = max(math.sqrt(len(point.z)), _FEWEST_DIRECTIONS)
        missed = float(bent / np.linalg.norm(expected)) * directions
        # What is left ends the solve where it is below the tolerance.
        if math.hypot(missed, after if after <= tolerance else 0.0) > tolerance:
            return False
        # Differences are checked where they were made, before a Jacobian serves elsewhere.
        return self._checked(state) is None

    def _mended(self, state: State) -> State | None:
        """Improve a Jacobian with which no step lowers the cost; None where it cannot be."""
        if state.kind == KEPT:
            return self._renoted(self._state(state.point, self._differentiated(state.point)))
        # Sides of short differences differ by jumps, too, which no central difference mends.
        wider = None
        if not (self._looked or self.differences.wide.any() or self._tolerance >= _ROUGH):
            self._looked = True
            wider = self._looked_at(state, self.differences.widen)
        return self._checked(wider or state) or wider

    def _checked(self, state: State) -> State | None:
        """Check the differences if that is not done; return the state with others, if wrong."""
        if self._settings.rough or self.differences.checked.all():
            return None
        return self._looked_at(state, self.differences.check)

    def _looked_at(self, state: State, look: Callable[[Linearisation], bool]) -> State | None:
        """Let the Jacobian be looked at; return the state with another, if it changed."""
        point = state.point
        jacobian = state.jacobian / self.variables.slope(point.z)
        linear = Linearisation(self.variables.values(point.z), point.residual, jacobian)
        if not look(linear):
            return None
        return self._renoted(self._state(point, self._scaled(linear)))

    def _renoted(self, state: State) -> State:
        """Note another Jacobian at the same point."""
        self._trace[-1] = self._trace[-1]._replace(
            rollouts=self.residuals.evaluations,
            jacobian=state.kind,
            central=self.differences.names,
        )
        return state

    def _state(self, point: Point, jacobian: NDArray[np.float64], kind: str = '') -> State:
        kind = kind or (CENTRAL if self.differences.central.any() else FORWARD)
        return State(point, jacobian, kind, self._model(point, jacobian))

    def _differentiated(self, point: Point) -> NDArray[np.float64]:
        interrupt(self._cancel)
        x = self.variables.values(point.z)
        return self._scaled(self.differences.at(x, point.residual))

    def _scaled(self, linear: Linearisation) -> NDArray[np.float64]:
        """Return a Jacobian by the scaled variables."""
        jacobian = linear.jacobian * self.variables.slope(self.variables.of(linear.x))
        jacobian[~np.isfinite(jacobian)] = 0.0
        return jacobian

    def _model(self, point: Point, jacobian: NDArray[np.float64]) -> Quadratic:
        bounds = self.variables.lower, self.variables.upper
        return quadratic(point.z, point.residual, jacobian, bounds, self._settings.loss)

    def _note(self, state: State, step: float, damping: float) -> None:
        seconds = time.monotonic() - self._began
        before = self._trace[-1].seconds if self._trace else 0.0
        self._longest = max(self._longest, seconds - before)
        iteration = Iteration(
            number=len(self._trace),
            cost=state.point.cost,
            step=step,
            rollouts=self.residuals.evaluations,
            diverged=self.residuals.diverged,
            seconds=seconds,
            jacobian=state.kind,
            central=self.differences.names,
            regulariser=damping,
            x=tuple(self.variables.values(state.point.z).tolist()),
        )
        self._trace.append(iteration)
        if self._observe is not None:
            self._observe(iteration)

    def solution(self, state: State, status: str, evaluations: int) -> Solution:
        """Return the end of the solve."""
        point = state.point
        jacobian = state.jacobian / self.variables.slope(point.z)
        return Solution(
            x=self.variables.values(point.z),
            residual=point.residual,
            cost=point.cost,
            status=status,
            message=_WORDS[status],
            success=status in CONVERGED,
            trace=tuple(self._trace),
            jacobian=jacobian,
            gradient=_gradient(jacobian, point.residual, self._settings.loss),
            iterations=len(self._trace) - 1,
            evaluations=evaluations,
            differences=self.differences,
        )


def _gradient(
    jacobian: NDArray[np.float64], residual: NDArray[np.float64], loss: Loss
) -> NDArray[np.float64]:
    """Return the (p,) gradient of the cost."""
    gradient: NDArray[np.float64] = jacobian.T @ (rho(residual, loss)[1] * residual)
    return gradient


def with_steady_slopes(residuals: ResidualLike, solution: Solution, loss: Loss) -> Solution:
    """Look at slopes over standard errors where a solve did not arrive: it may be for jumps."""
    differences = Differences(residuals)
    if solution.differences is not None:
        differences.take_steps(solution.differences)
    jacobian = solution.jacobian.copy()
    differences.widen(Linearisation(solution.x, solution.residual, jacobian))
    gradient = _gradient(jacobian, solution.residual, loss)
    return replace(solution, jacobian=jacobian, gradient=gradient, differences=differences)


def stopped(solution: Solution) -> Solution:
    """Return a solution that others were to follow, had the limit of time not been reached."""
    return replace(solution, status='time', message=_WORDS['time'], success=False)


def attempt(
    residuals: ResidualLike, start: NDArray[np.float64], **options: Any
) -> Solution | FitError:
    """Do the same as `solve`; return the reason where a solve cannot even begin.

    Raises:
        CancelledError: It was cancelled.
    """
    try:
        return solve(residuals, start, **options)
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
    log = FitLog(observe)
    convex, rough = replace(settings, loss='soft_l1'), max(tolerance, _NEAR)
    near = solve(residuals, start, settings=convex, tolerance=rough, cancel=cancel, observe=log)
    if near.status in LIMITS:
        gradient = _gradient(near.jacobian, near.residual, settings.loss)
        return replace(near, cost=cost(near.residual, settings.loss), gradient=gradient)
    end = solve(
        residuals,
        near.x,
        settings=replace(settings, max_iterations=settings.max_iterations - near.iterations),
        tolerance=tolerance,
        known=near,
        cancel=cancel,
        observe=log,
    )
    return replace(
        end,
        trace=tuple(log.trace),
        iterations=len(log.trace) - 1,
        evaluations=near.evaluations + end.evaluations,
    )


def _with_effects(run: _Run, state: State) -> State:
    """Move parameters that change nothing to where they lower the cost, if there is such a place.

    Friction that locks a joint at the start hides itself and all else of that joint. What changes
    nothing anywhere stays at its start, and so does what raises the cost where it has an effect.

    Raises:
        FitError: No parameter changes anything.
    """
    while len(silent := np.flatnonzero(~np.any(state.jacobian != 0, axis=0))):
        z = state.point.z
        probes = []
        for column in silent:
            low, high = run.variables.lower[column], run.variables.upper[column]
            low = low if np.isfinite(low) else z[column] - 1.0
            high = high if np.isfinite(high) else z[column] + 1.0
            for part in _PROBES:
                probe = z.copy()
                probe[column] = low + part * (high - low)
                probes.append(probe)
        points = run.evaluate(probes)
        moves = any(not np.array_equal(point.residual, state.point.residual) for point in points)
        if len(silent) == len(z) and not moves:
            raise no_effect(run.residuals.unknowns)
        best = min(points, key=lambda point: point.cost)
        if not best.cost < state.point.cost - _EFFECT:
            break
        state = run.begun_at(best.z)
    return state


def no_effect(unknowns: Iterable[Unknown]) -> FitError:
    """Return what is said where no parameter changes anything."""
    names = ', '.join(repr(unknown.name) for unknown in unknowns)
    return FitError(
        f'Nothing that was measured changes with any parameter ({names}); record what they move.'
    )
