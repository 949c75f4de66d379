# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Weighted nonlinear least squares with bounds, by Levenberg and Marquardt's method.

The Jacobian is one batch of simulations, a ladder of damped steps is another, and the best of the
steps is taken. With unit columns, gradient g and Hessian H of the cost, a step d solves the
box-constrained problem

    minimise  g·d + d·(H + μ I)·d / 2    inside the bounds.

The damping μ changes as in Fletcher, A modified Marquardt subroutine for non-linear least squares,
AERE-R 6799, 1971.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, get_args

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.schema import ACCURACY, Loss
from sysid_ros.errors import CancelledError, FitError, nearest
from sysid_ros.fit.differences import (
    CENTRAL,
    FORWARD,
    NEGLIGIBLE,
    SMALL,
    CurvedResiduals,
    Differences,
    Linearisation,
    ResidualLike,
    Variables,
    column_norms,
)
from sysid_ros.model.targets import Unknown

Array = NDArray[np.float64]
LOSSES: tuple[Loss, ...] = get_args(Loss)
_EPS = float(np.finfo(np.float64).eps)

#: Tolerance of what only serves as a start, in standard errors.
ROUGH_TOLERANCE = 1.0
#: Where data without noise leave no standard error to measure a step with, this part of the
#: tolerance counts in units of the values: at an accuracy of .01, the seventh digit.
_OF_VALUE = 1e-5
#: A slope is summed over so many stretches of neighbouring residuals at most, to see how much more
#: these vary than those of independent ones; fewer stretches, or residuals in each, than the second
#: do not show that.
_STRETCHES, _FEWEST = 400, 20
#: The first step is not damped. While steps fail, the damping rises by this factor from the least:
#: narrow valleys, as of masses and offsets or of gains and friction, curve 1e-6 as much as single
#: columns do. From 1e-4 on some fits crept for more than 200 iterations that now take 30.
_MU_MIN, _MU_FACTOR = 1e-7, 8.0
#: After a step that lowered the cost by more than the first part of what was predicted, the next
#: one is not damped; after one that lowered it by less than the second, more (Fletcher). A Jacobian
#: is kept where the next predicted step is not longer than the second part of the last.
_GOOD_RATIO, _POOR_RATIO = 0.75, 0.25
#: So many dampings are one batch, unless the last step was good.
_LADDER = 4
#: Steps are bent by less than this part of themselves.
_MOST_BENT = 0.5
#: So many steps in a row that lower the cost by less than a step of one tolerance would say that
#: the slopes do not hold as far as the steps go. A solve that another one follows ends after as
#: many that lower it by less than the promised part.
_POOR_STEPS = 2
#: A kept Jacobian has told what the last step changed in each of at least so many directions.
_FEWEST_DIRECTIONS = 3.0
#: Where no step lowers the cost any more, a predicted step below so many tolerances means that the
#: optimum is known as well as the function's own noise permits.
_LOOSE = 10.0
#: Where time is limited, that of so many of the longest iterations is kept: another one, and
#: differences that look for jumps and the rest of the intervals, if there are any.
RESERVED = 3.0
#: A solve has not arrived where its slopes promise this part of its cost. What it would find
#: changes estimates of the noise by half of that.
PROMISED = 0.01
#: An effect of a parameter that has none at the start is looked for at these parts of the way from
#: the lower to the upper bound or, where there is none, one scale from the start.
_PROBES = (0.0, 1e-3, 0.01, 0.1, 0.5, 1.0)

#: A Jacobian of a point before, which still holds.
KEPT = 'kept'
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


def rho(residual: Array, loss: Loss) -> tuple[Array, Array]:
    """Return the loss of s = r² and its derivative by s, the weight of each residual.

    The losses are scipy's: linear s, huber (2√s - 1 above 1), soft_l1 2(√(1+s) - 1). Residuals are
    in units of the noise.
    """
    s = residual**2
    if loss == 'linear':
        return s, np.ones_like(s)
    if loss == 'huber':
        root = np.sqrt(np.maximum(s, 1.0))
        return np.where(s <= 1, s, 2 * root - 1), 1 / root
    root = np.sqrt(1 + s)
    return 2 * s / (root + 1), 1 / root  # 2 (root - 1), without cancellation


def cost(residual: Array, loss: Loss) -> float:
    """Return half the sum of the losses."""
    return 0.5 * float(np.sum(rho(residual, loss)[0]))


def curvature(residual: Array, loss: Loss) -> Array:
    """Return the weight of each residual in the second derivative of the cost.

    Half the second derivative of the loss by the residual is ρ' + 2 s ρ'', which is less than the
    weight ρ' of reweighting and brings quadratic convergence near the optimum (Triggs et al.,
    Bundle Adjustment - A Modern Synthesis, 2000, section 4.3). It is kept above a small fraction
    of ρ', so that the second derivative stays positive.
    """
    weight = rho(residual, loss)[1]
    if loss == 'linear':
        return weight
    second = np.where(weight < 1, 0.0, 1.0) if loss == 'huber' else weight**3
    return np.maximum(second, SMALL * weight)


class Quadratic(NamedTuple):
    """The model of the cost around a point, in variables that make the columns unit vectors."""

    unit: Array  # (p,) these variables times it are the scaled variables
    gradient: Array  # (p,) of the cost
    hessian: Array  # (p, p) of the cost
    newton: Array  # (p,) step to the least value, zero for parameters held by a bound
    decrement: float  # length of that step in standard errors, as if residuals were independent
    variance: float  # of the residuals, as they are here
    # How many of them say as much of that step as one that is independent of others.
    alike: float = 1.0

    def fall(self, step: Array) -> float:
        """Return by how much a (p,) step lowers the cost of the model."""
        return -float(self.gradient @ step + 0.5 * step @ self.hessian @ step)


def quadratic(
    z: Array,
    residual: Array,
    jacobian: Array,
    bounds: tuple[Array, Array],
    loss: Loss,
    more: int = 0,
) -> Quadratic:
    """Model the cost around a point.

    The length of the predicted step in standard errors is the relative offset of Bates and Watts
    (Technometrics 23, 1981): it knows no units, and is large for exact data until the residuals
    are rounding errors. Where neighbouring residuals are alike, as those of a model that lacks
    something, standard errors are larger: by how much, along that step, the scatter of its slope's
    sums over stretches says, over that of independent ones.

    The (n, p) Jacobian and the bounds are those of the (p,) scaled variables z. Residuals that
    stand for more samples than they are have no neighbours.
    """
    norms = column_norms(jacobian)
    unit = 1.0 / np.maximum(norms, _EPS)
    weight = rho(residual, loss)[1]
    influence = weight * residual
    gradient = unit * (jacobian.T @ influence)
    near = math.sqrt(_EPS) * np.maximum(np.abs(z), 1.0)
    held = ((z <= bounds[0] + near) & (gradient > 0)) | ((z >= bounds[1] - near) & (gradient < 0))
    free = np.flatnonzero(~held & (norms > 0))
    variance = float(influence @ influence) / max(len(residual) + more - len(free), 1)

    def model(weight: Array) -> Quadratic:
        weighted = jacobian if loss == 'linear' else weight[:, None] * jacobian
        hessian = (jacobian.T @ weighted) * np.outer(unit, unit)
        # The box solver does without damping only where there is curvature in each direction.
        hessian[np.diag(norms == 0)] = 1.0
        values, vectors = np.linalg.eigh(hessian[np.ix_(free, free)])
        along = vectors.T @ gradient[free]
        known = values > NEGLIGIBLE * values.max(initial=0.0)
        newton = np.zeros(len(z))
        newton[free] = -vectors[:, known] @ (along[known] / values[known])
        squared = float(np.sum(along[known] ** 2 / values[known]))
        if not variance > 0 or not squared > 0:
            return Quadratic(unit, gradient, hessian, newton, 0.0, variance)
        decrement = math.sqrt(squared / variance)
        if more:
            return Quadratic(unit, gradient, hessian, newton, decrement, variance)
        scatter = _scatter(jacobian @ (unit * newton), influence)
        alike = max(scatter / (variance * squared), 1.0)
        return Quadratic(unit, gradient, hessian, newton, decrement, variance, alike)

    found = model(weight)
    # Far from the optimum, where most residuals are outliers, reweighting takes the better steps.
    if loss != 'linear' and found.decrement < ROUGH_TOLERANCE:
        found = model(curvature(residual, loss))
    return found


def _scatter(change: Array, influence: Array) -> float:
    """Return the scatter of a slope's sums over stretches, zero for few residuals."""
    count = min(_STRETCHES, len(influence) // _FEWEST)
    if count < _FEWEST:
        return 0.0
    edges = np.linspace(0, len(influence), count + 1).astype(np.int64)
    return float(np.add.reduceat(change * influence, edges[:-1]).var(ddof=1)) * count


class Point(NamedTuple):
    """What is known at one place: (p,) scaled variables, (n,) residuals, the cost."""

    z: Array
    residual: Array
    cost: float


class Step(NamedTuple):
    """A damping, the (p,) step that it gives in unit columns, and the (p,) candidate."""

    damping: float
    dx: Array
    z: Array


@dataclass(frozen=True)
class State:
    """Where a solve is."""

    point: Point  # the best so far
    jacobian: Array  # (n, p) derivative of the residuals by the scaled variables
    kind: str  # how it was found
    model: Quadratic  # the cost around the point
    damping: float = 0.0  # of the next step
    ladder: int = _LADDER  # how many dampings are tried at once
    poor: int = 0  # how many steps in a row lowered the cost by hardly anything
    stuck: bool = False  # whether no step lowers the cost any more


def converged(state: State, tolerance: float, promised: float = 0.0) -> str | None:
    """Return why a solve is at its optimum, if it is, or is near enough.

    It is near enough where slopes promise no more than a part of the cost.
    """
    model, z = state.model, state.point.z
    if 0.5 * model.variance * model.decrement**2 < promised * state.point.cost:
        return 'gradient'
    if state.point.cost == 0.0:
        return 'cost'
    if model.decrement <= tolerance * math.sqrt(model.alike):
        return 'gradient'
    least = np.maximum(_OF_VALUE * tolerance * np.abs(z), NEGLIGIBLE)
    return 'step' if np.all(np.abs(model.newton * model.unit) <= least) else None


def least_fall(state: State, tolerance: float) -> float:
    """Return by how much a step of one tolerance lowers the cost."""
    return 0.5 * state.model.variance * state.model.alike * tolerance**2


def next_ladder(state: State, variables: Variables, tolerance: float) -> list[Step]:
    """Return the next few damped steps, none where no damping promises to lower the cost."""
    model, z, count = state.model, state.point.z, len(state.point.z)
    lower = (np.maximum(variables.lower, -1 / _EPS) - z) / model.unit
    upper = (np.minimum(variables.upper, 1 / _EPS) - z) / model.unit
    # The box solver ends by the size of the gradient, which becomes tiny with exact data.
    size = float(np.linalg.norm(model.gradient)) or 1.0
    problem = [(column / size)[:, None] for column in (model.gradient, lower, upper)]
    scratch = np.zeros((count, count + 7))
    steps: list[Step] = []
    damping = state.damping
    while len(steps) < state.ladder and damping < 1 / _EPS:
        # Begun elsewhere, it may end where the quadratic is above zero, if it is narrow.
        dx = np.zeros((count, 1))
        damped = model.hessian + damping * np.eye(count)
        if mujoco.mju_boxQP(dx, scratch, None, damped, *problem) >= 0:
            step = size * dx[:, 0]
            if damping > 0 and model.fall(step) < least_fall(state, tolerance):
                break
            steps.append(Step(damping, step, z + model.unit * step))
        damping = raised(damping)
    return steps


def raised(damping: float) -> float:
    """Return the next damping of the ladder."""
    return max(_MU_MIN, _MU_FACTOR * damping)


def bent(state: State, step: Step, ahead: Point, variables: Variables, loss: Loss) -> Step | None:
    """Return a step that follows the curve of a narrow valley; None where it bends too much.

    Along a straight step residuals change with its square, too; what the linear model says of that
    is added (geodesic acceleration: M. K. Transtrum and J. P. Sethna, "Improvements to the
    Levenberg-Marquardt algorithm for nonlinear least-squares minimization", arXiv:1201.5885).
    """
    if not math.isfinite(ahead.cost):
        return None
    model, point = state.model, state.point
    missed = ahead.residual - point.residual - state.jacobian @ (step.z - point.z)
    pull = model.unit * (state.jacobian.T @ (rho(point.residual, loss)[1] * missed))
    free = np.flatnonzero((step.z > variables.lower) & (step.z < variables.upper))
    damped = (model.hessian + step.damping * np.eye(len(pull)))[np.ix_(free, free)]
    bend = np.zeros(len(pull))
    bend[free] = -np.linalg.lstsq(damped, pull[free], rcond=None)[0]
    if np.linalg.norm(bend) > _MOST_BENT * np.linalg.norm(step.dx):
        return None
    z = np.clip(step.z + model.unit * bend, variables.lower, variables.upper)
    return step._replace(z=z)


def interrupt(cancel: threading.Event | None) -> None:
    """End the work where it was cancelled."""
    if cancel is not None and cancel.is_set():
        raise CancelledError('The calibration was cancelled.')


class Iteration(NamedTuple):
    """One iteration: where it stands, the step that led there, totals so far."""

    number: int  # counted from 0, the start
    cost: float  # half the sum of the losses
    step: float  # length of the step, in units of the parameters' scales
    rollouts: int  # simulations so far
    diverged: int  # how many of them became unstable
    seconds: float  # wall time since the start of the solve
    # 'forward', 'central' where a column is, or 'kept' from a point before.
    jacobian: str = 'forward'
    central: tuple[str, ...] = ()  # names of the unknowns that are differenced centrally
    regulariser: float = 0.0  # damping of the step, relative to the Hessian's diagonal
    x: tuple[float, ...] = ()  # (p,) values there
    taken: float = 0.0  # wall time of this iteration alone, s


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
        self.longest = 0.0
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
        self.longest = max(self.longest, iteration.taken)
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
    """Which loss and limits."""

    loss: Loss = 'linear'  # loss of a residual in units of its noise, named as in scipy
    max_iterations: int = 200  # limit of iterations
    accuracy: float = ACCURACY  # largest predicted step at the end, in standard errors
    # The values only serve as a start: effects are not looked for, and the differences are not
    # checked.
    rough: bool = False
    # When what follows the solve, too, is to be done, in 'time.monotonic()'.
    deadline: float = math.inf
    # A solve that another one with other weights follows ends where slopes promise no more than
    # this part of the cost.
    promised: float = 0.0
    longest: float = 0.0  # wall time of an iteration, as far as it is known before, s

    def __post_init__(self) -> None:
        """Check the name of the loss."""
        if self.loss not in LOSSES:
            raise FitError(f'There is no loss {self.loss!r}; {nearest(str(self.loss), LOSSES)}.')


@dataclass(frozen=True)
class Solution:
    """Where the solver ended."""

    x: Array  # (p,) parameter values
    residual: Array  # (n,) residuals there, in units of the noise
    cost: float  # half the sum of the losses
    # Short fixed word: 'gradient', 'step', 'cost', 'stalled', 'iterations', 'time'.
    status: str
    message: str  # the same for people
    success: bool  # whether the solver converged
    trace: tuple[Iteration, ...]  # all iterations
    # (n, p) derivative of the residuals by the values, per unit of each.
    jacobian: Array = field(default_factory=lambda: np.zeros((0, 0)))
    # (p,) derivative of the cost by the values.
    gradient: Array = field(default_factory=lambda: np.zeros(0))
    iterations: int = 0  # number of steps
    evaluations: int = 0  # simulations of this solve
    # The steps that the Jacobian was found with, for a solve that goes on from here; None for a
    # solution that no solver made.
    differences: Differences | None = None

    @property
    def jumps(self) -> bool:
        """Whether the residuals jump, so that slopes are those over standard errors."""
        return self.differences is not None and bool(self.differences.wide.any())


def solve(
    residuals: ResidualLike,
    start: Array,
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
    before = residuals.evaluations
    run = _Run(residuals, settings, tolerance, cancel, observe)
    state = run.begun(start, known, begun)
    if begun is not None:
        state = replace(state, ladder=1)
    while (status := run.status(state)) is None or run.may_be_exact(status):
        state = run.advanced(state) if status is None else run.exact(state)
    return run.solution(state, status, residuals.evaluations - before)


def one_step(
    residuals: ResidualLike,
    start: Array,
    loss: Loss,
    *,
    known: Solution | None = None,
    settled: Array | None = None,
    cancel: threading.Event | None = None,
) -> Solution:
    """Return where one step leads, the best of a ladder, even where none lowers the cost.

    Where residuals jump, the end of a fit happens to be better than all points around it, and
    slopes promise what no step keeps: where a fit to more data ``settled`` in spite of a (p,)
    derivative of its cost by the values, the step follows what the gradient is without it. See
    `solve` for the other arguments.
    """
    before = residuals.evaluations
    run = _Run(residuals, SolverSettings(loss, rough=True), ROUGH_TOLERANCE, cancel, None)
    state = run.begun(start, known)
    z, model = state.point.z, state.model
    promised = np.zeros(len(z)) if settled is None else settled * run.variables.slope(z)
    model = model._replace(gradient=model.gradient - model.unit * promised)
    ladder = next_ladder(replace(state, model=model, ladder=4 * _LADDER), run.variables, 0.0)
    if ladder:
        points = run.evaluate([step.z for step in ladder])
        point = min(points, key=lambda point: point.cost - float(promised @ (point.z - z)))
        if math.isfinite(point.cost):
            state = replace(state, point=point)
    return run.solution(state, 'iterations', residuals.evaluations - before)


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
        self._settings, self._tolerance = settings, tolerance
        self._accuracy = min(tolerance, settings.accuracy)
        self._rough = settings.rough or tolerance >= ROUGH_TOLERANCE
        # Steps of a rough solve are long: noise of the residuals, and jumps, count less.
        longest = max(min(tolerance, ROUGH_TOLERANCE), settings.accuracy)
        steps = longest if self._rough else self._accuracy
        self.differences = Differences(residuals, steps, sharing=self._rough)
        self._cancel, self._observe = cancel, observe
        self._began = time.monotonic()
        self._longest = settings.longest
        self._looked = False
        self._trace: list[Iteration] = []

    def begun(self, start: Array, known: Solution | None, begun: Solution | None = None) -> State:
        """Begin at (p,) values, or at a solution with other weights."""
        origin = known or begun
        if origin is not None and origin.differences is not None:
            self.differences.take_steps(origin.differences)
        if known is None:
            state = self.begun_at(self.variables.start(start))
            return state if self._settings.rough else _with_effects(self, state)
        z = self.variables.of(known.x)
        self.differences.expect(known.jacobian)
        point = Point(z, known.residual, cost(known.residual, self._settings.loss))
        return self.begun_with(point, known.jacobian * self.variables.slope(z))

    def begun_at(self, z: Array) -> State:
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

    def begun_with(self, point: Point, jacobian: Array) -> State:
        """Begin at a point with a known (n, p) Jacobian by the scaled variables."""
        state = self._state(point, jacobian)
        self._note(state, 0.0, math.nan)
        return state

    def evaluate(self, candidates: Sequence[Array]) -> list[Point]:
        """Return what is known of candidates' variables, from one batch."""
        interrupt(self._cancel)
        batch = self.residuals(np.stack([self.variables.values(z) for z in candidates]))
        batch = np.where(np.isfinite(batch).all(axis=0), batch, np.inf)
        loss = self._settings.loss
        return [Point(z, r, cost(r, loss)) for z, r in zip(candidates, batch.T.copy(), strict=True)]

    def status(self, state: State) -> str | None:
        """Return why the solve has ended, if it has."""
        status = converged(state, self._tolerance, self._settings.promised)
        if status is None and state.stuck:
            status = 'cost' if self._is_near(state) else 'stalled'
        if status is None and len(self._trace) > self._settings.max_iterations:
            status = 'iterations'
        if status is None:
            late = time.monotonic() + RESERVED * self._longest > self._settings.deadline
            status = 'time' if late else None
        return status

    def may_be_exact(self, status: str) -> bool:
        """Return whether an end has to be looked at with columns as exact as it asks for."""
        found = self.differences
        return (found.shared or found.rough) and not self._rough and status not in LIMITS

    def exact(self, state: State) -> State:
        """Return the state with columns that share no simulations, which are then checked."""
        found = self._linear(state)
        self.differences.apart(found)
        own = self._renoted(self._state(state.point, self._scaled(found)))
        return self._checked(own) or own

    def _is_near(self, state: State) -> bool:
        """Return whether what is left to gain is of the size of the function's own noise."""
        size = max(self._trace[0].cost, len(state.point.residual))
        exact = state.point.cost <= _EPS * size
        # Of residuals that jump, a standard error is all that can be told.
        jumps = state.stuck and self.differences.wide.any()
        told = ROUGH_TOLERANCE * math.sqrt(state.model.alike) if jumps else 0.0
        near = max(_LOOSE * self._accuracy, told)
        return exact or state.model.decrement < near

    def advanced(self, state: State) -> State:
        """Try a ladder of damped steps in one batch, and go on from the best of them."""
        ladder = next_ladder(state, self.variables, self._accuracy)
        if not ladder:
            return self._mended(state) or replace(state, stuck=True)
        points = self.evaluate([step.z for step in ladder])
        fall = state.point.cost - min(point.cost for point in points)
        # A Jacobian of few columns costs no more than bent steps.
        if len(state.point.z) > 2 * _LADDER and fall < _GOOD_RATIO * state.model.fall(ladder[0].dx):
            curved = [self._bent(state, *pair) for pair in zip(ladder, points, strict=True)]
            ladder += [step for step in curved if step is not None]
            if len(ladder) > len(points):
                points += self.evaluate([step.z for step in ladder[len(points) :]])
        step, point = min(zip(ladder, points, strict=True), key=lambda pair: pair[1].cost)
        # Armijo's rule: a small part of what the gradient promises has to come.
        if state.point.cost - point.cost > -SMALL * float(state.model.gradient @ step.dx):
            return self._moved(state, step, point)
        if state.kind == KEPT or self._is_near(state):
            # What is wrong is rather the Jacobian than the length of a step.
            return self._mended(state) or replace(state, stuck=True)
        most = max(step.damping for step in ladder)
        return replace(state, damping=raised(most), ladder=_LADDER)

    def _bent(self, state: State, step: Step, ahead: Point) -> Step | None:
        """Return a step that follows the curve of a narrow valley, if that can be had."""
        variables = self.variables
        if not isinstance(self.residuals, CurvedResiduals):
            return bent(state, step, ahead, variables, self._settings.loss)
        x = variables.values(state.point.z)
        free = (step.z > variables.lower) & (step.z < variables.upper)
        there = self.residuals.followed(x, variables.values(step.z) - x, free)
        return step._replace(z=variables.start(there))

    def _moved(self, state: State, step: Step, point: Point) -> State:
        """Go to a point, with the Jacobian that led there if it holds."""
        fall, predicted = state.point.cost - point.cost, state.model.fall(step.dx)
        good, poor = fall > _GOOD_RATIO * predicted, fall < _POOR_RATIO * predicted
        # Where no step is left, slopes from just before the end serve a rough solution.
        last = self._settings.rough and len(self._trace) >= self._settings.max_iterations
        if last or self._holds(state, point):
            moved = self._state(point, state.jacobian, KEPT)
        else:
            moved = self._state(point, self._differentiated(point))
        damping = raised(step.damping) if poor else step.damping
        # Of residuals that jump, a standard error is all that can be told.
        told = max(self._tolerance, ROUGH_TOLERANCE if self.differences.wide.any() else 0.0)
        hardly = fall <= max(least_fall(state, told), self._settings.promised * state.point.cost)
        moved = replace(
            moved,
            damping=0.0 if good else damping,
            ladder=1 if good else _LADDER,
            poor=state.poor + 1 if hardly else 0,
        )
        self._note(moved, float(np.linalg.norm(point.z - state.point.z)), step.damping)
        if converged(moved, self._tolerance, self._settings.promised):
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
        if after > max(_POOR_RATIO * state.model.decrement, tolerance):
            return False
        if state.kind == KEPT:
            return True
        expected = state.jacobian @ (point.z - state.point.z)
        missed = np.linalg.norm(point.residual - state.point.residual - expected)
        missed *= max(math.sqrt(len(point.z)), _FEWEST_DIRECTIONS) / np.linalg.norm(expected)
        # What is left ends the solve where it is below the tolerance.
        left = after if after <= tolerance else 0.0
        if math.hypot(float(missed), left) > tolerance:
            return False
        # Differences are checked where they were made, before a Jacobian serves elsewhere.
        return self._checked(state) is None

    def _mended(self, state: State) -> State | None:
        """Improve a Jacobian with which no step lowers the cost; None where it cannot be."""
        if state.kind == KEPT:
            return self._renoted(self._state(state.point, self._differentiated(state.point)))
        # Sides of short differences differ by jumps, too, which no central difference mends.
        wider = None
        if not (self._looked or self.differences.wide.any() or self._rough):
            self._looked = True
            wider = self._looked_at(state, self.differences.widen)
        return self._checked(wider or state) or wider

    def _checked(self, state: State) -> State | None:
        """Check the differences if that is not done; return the state with others, if wrong."""
        if self._settings.rough or self.differences.shared or self.differences.checked.all():
            return None
        return self._looked_at(state, self.differences.check)

    def _looked_at(self, state: State, look: Callable[[Linearisation], bool]) -> State | None:
        """Let the Jacobian be looked at; return the state with another, if it changed."""
        linear = self._linear(state)
        if not look(linear):
            return None
        return self._renoted(self._state(state.point, self._scaled(linear)))

    def _linear(self, state: State) -> Linearisation:
        """Return what is known at a state, by the values."""
        jacobian = state.jacobian / self.variables.slope(state.point.z)
        return Linearisation(self.variables.values(state.point.z), state.point.residual, jacobian)

    def _renoted(self, state: State) -> State:
        """Note another Jacobian at the same point."""
        self._trace[-1] = self._trace[-1]._replace(
            rollouts=self.residuals.evaluations, jacobian=state.kind, central=self.differences.names
        )
        return state

    def _state(self, point: Point, jacobian: Array, kind: str = '') -> State:
        kind = kind or (CENTRAL if self.differences.central.any() else FORWARD)
        return State(point, jacobian, kind, self._model(point, jacobian))

    def _differentiated(self, point: Point) -> Array:
        interrupt(self._cancel)
        x = self.variables.values(point.z)
        return self._scaled(self.differences.at(x, point.residual))

    def _scaled(self, linear: Linearisation) -> Array:
        """Return a Jacobian by the scaled variables."""
        jacobian = linear.jacobian * self.variables.slope(self.variables.of(linear.x))
        jacobian[~np.isfinite(jacobian)] = 0.0
        return jacobian

    def _model(self, point: Point, jacobian: Array) -> Quadratic:
        variables, residuals, loss = self.variables, self.residuals, self._settings.loss
        bounds = variables.lower, variables.upper
        if not isinstance(residuals, CurvedResiduals):
            found = quadratic(point.z, point.residual, jacobian, bounds, loss)
            self.differences.alike = found.alike
            return found
        found = quadratic(point.z, point.residual, jacobian, bounds, loss, residuals.more)
        # Steps follow the curve of what they change: the curvature of what they leave remains.
        left = point.residual + jacobian @ (found.unit * found.newton)
        bending = residuals.bending(variables.values(point.z), left)
        bending = variables.bending(point.z, bending, jacobian.T @ left)
        hessian = found.hessian + bending * np.outer(found.unit, found.unit)
        free = np.flatnonzero(found.newton)
        # Where that has no least value, as far from the optimum, Gauss and Newton's steps lead on.
        convex = np.linalg.eigvalsh(hessian[np.ix_(free, free)]).min(initial=1.0) > 0
        return found._replace(hessian=hessian) if convex else found

    def _note(self, state: State, step: float, damping: float) -> None:
        seconds = time.monotonic() - self._began
        before = self._trace[-1].seconds if self._trace else 0.0
        taken = seconds - before
        self._longest = max(self._longest, taken)
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
            taken=taken,
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
            gradient=gradient_of(jacobian, point.residual, self._settings.loss),
            iterations=len(self._trace) - 1,
            evaluations=evaluations,
            differences=self.differences,
        )


def gradient_of(jacobian: Array, residual: Array, loss: Loss) -> Array:
    """Return the (p,) gradient of the cost."""
    gradient: Array = jacobian.T @ (rho(residual, loss)[1] * residual)
    return gradient


def with_own_columns(residuals: ResidualLike, solution: Solution, loss: Loss) -> Solution:
    """Return a solution whose columns share no simulations."""
    if solution.differences is None or not solution.differences.shared:
        return solution
    differences = Differences(residuals)
    differences.take_steps(solution.differences)
    jacobian = solution.jacobian.copy()
    differences.apart(Linearisation(solution.x, solution.residual, jacobian))
    gradient = gradient_of(jacobian, solution.residual, loss)
    return replace(solution, jacobian=jacobian, gradient=gradient, differences=differences)


def stopped(solution: Solution) -> Solution:
    """Return a solution that others were to follow, had the limit of time not been reached."""
    return replace(solution, status='time', message=_WORDS['time'], success=False)


def attempt(residuals: ResidualLike, start: Array, **options: Any) -> Solution | FitError:
    """Do the same as `solve`; return the reason where a solve cannot even begin."""
    try:
        return solve(residuals, start, **options)
    except CancelledError:
        raise
    except FitError as reason:
        return reason


def _with_effects(run: _Run, state: State) -> State:
    """Move parameters that change nothing to where they lower the cost, if there is such a place.

    Friction that locks a joint at the start hides itself and all else of that joint. What changes
    nothing anywhere stays at its start, and so does what raises the cost where it has an effect.
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
        # Less than one standard error is worth may be rounding.
        if state.point.cost - best.cost <= 0.5 * ROUGH_TOLERANCE**2:
            break
        state = run.begun_at(best.z)
    return state


def no_effect(unknowns: Iterable[Unknown]) -> FitError:
    """Return what is said where no parameter changes anything."""
    names = ', '.join(repr(unknown.name) for unknown in unknowns)
    return FitError(
        f'Nothing that was measured changes with any parameter ({names}); record what they move.'
    )
