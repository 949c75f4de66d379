# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The state of a solve: where it is, what was evaluated, when it has converged."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.calibration import Loss
from sysid_ros.errors import FitError
from sysid_ros.estimation.solver.differences import (
    CENTRAL,
    FORWARD,
    Differences,
    Linearisation,
    scales,
)
from sysid_ros.estimation.solver.losses import cost
from sysid_ros.estimation.solver.problem import Iteration, ResidualLike, interrupt
from sysid_ros.estimation.solver.quadratic import (
    KEPT,
    UPDATED,
    Point,
    Quadratic,
    Secant,
    quadratic,
    updated,
)

#: Where data without noise leave no standard error to measure a step with, this part of the
#: tolerance counts in units of the values: at an accuracy of .01, the seventh digit. Of values near
#: zero it is the second in units of the scales.
_OF_VALUE, _STEP_TOLERANCE = 1e-5, 1e-10
#: So many steps in a row that lower the cost by less than this part of what was predicted say that
#: the slopes do not hold as far as the steps go.
_POOR_STEPS, _POOR_RATIO = 3, 0.1
#: Where what is left is the model's error, one that lowers it by less than this part says so; where
#: slopes hold nevertheless, they are looked at again after so many steps.
_POOR_ALIKE, _LOOKS_AGAIN = 0.25, 4
#: Where no step lowers the cost any more, a predicted step below the first, in standard errors, or
#: below so many tolerances means that the optimum is known as well as the function's own noise
#: permits. A cost below this fraction of the start's means the same: it is a fit of exact data.
_LOOSE, _LOOSE_TOLERANCES = 1e-3, 10.0
_EXACT_COST = 1e-20
#: Costs that differ by less than this fraction are equal up to the function's own noise. There, so
#: many steps more may be taken, each shortening the next to this part.
_EQUAL_COST = 1e-3
_POLISHES, _POLISHED = 3, 0.5
#: So many steps in a row that each lower the cost by no more than a step of one tolerance would end
#: a solve, and shorter ones that promise no more are not tried: dry friction makes steps in the
#: cost that no slope shows. Where another solve begins at the end of one with at least this
#: tolerance, this part of the cost is no more than that, too.
_IDLE_STEPS = 2
ROUGH, _SLIGHT = 0.1, 1e-3
#: A Jacobian of so many columns, or fewer, costs no more than a few bent steps.
_CHEAP = 8
#: A step below this, in standard errors, should succeed.
_SHORT = 1.0
#: Where more residuals than this say as much as one, what is left is the model's error, whose cost
#: is rough: slopes are then looked for over standard errors first.
_ALIKE = 4.0
#: A predicted step below so many tolerances, at least the first and at most the second in standard
#: errors, may be taken with the Jacobian that predicted it, and so may those after it while each is
#: this part of the one before: they cost a simulation each instead of one per parameter.
_NEAR_TOLERANCES, _NEAR, _FARTHEST = 30.0, 0.3, 3.0
_NEAR_RATE = 0.25
#: A kept Jacobian misses what the next one would have said of the gradient: about the predicted
#: step times the rate at which steps became shorter, no better than the first, and the second where
#: there was no step yet. That may be so many tolerances.
_BEST_RATE, _USUAL_RATE, _MISSED = 1e-3, 0.2, 5.0
#: What a step says of how slopes change counts as that of so many directions at least: intervals
#: rest on a Jacobian that is kept, too.
_FEWEST = 3.0
#: A step is expected to succeed when the last one reduced the cost by this part of the predicted.
_SUCCESS_RATIO = 0.5
#: With residuals that jump, a step that lowers the cost by less than such a step in standard errors
#: would is idle, the first number where another solve begins at the end of one. Where no step
#: lowers the cost, a predicted step below the third has arrived as well as can be told.
_ROUGH_JUMPS, _JUMPS, _ARRIVED = 2.0, 0.3, 1.0
#: A Jacobian over wide differences is updated by a step that lowers the cost by this part of what
#: was predicted, and differenced anew after others.
_LEARNS = 0.2
#: Where time is limited, that of so many of the longest iterations is kept: another one, and
#: differences that look for jumps and the rest of the intervals, if there are any.
RESERVED, _RESERVED_ROUGH = 3.0, 1.0
#: Where there is none for another Jacobian, so many steps are taken with the last one.
_LAST_STEPS = 3
#: Residuals that are not finite become this many times the largest at the start, or at least …
_PENALTY = 10.0
_SMALLEST_PENALTY = 1e4


class Descent:
    """Residuals and Jacobian in scaled variables, with the bookkeeping of a solve.

    A linear parameter's variable is its value over its scale, a logarithmic one's its logarithm.
    A method of minimisation evaluates candidates and moves to one of them. Between the two, the
    Jacobian of the current point may turn out to be wrong and be made anew; then the method gets
    no points, and begins again from the current one.

    Attributes:
        status: Why the solve has ended, once it has.
        current: The point that the method has moved to.
        model: The cost around it.
        trace: All iterations.
        expects_success: Whether the last step was so good that the next should succeed.
        unchecked: Whether the differences need not be right, as for a start.
        smooth: Whether residuals have a second derivative along a step.
        near: Steps below this, in standard errors, are taken with the Jacobian that is there.
        longest: Wall time of an iteration, as far as it is known before, s.
        hurried: Whether there is no time for another Jacobian, and the last steps are taken.
        passing: Whether another solve begins at the end of this one: what was learnt of the
            Jacobian from steps then serves as it is.
    """

    def __init__(
        self,
        residuals: ResidualLike,
        *,
        loss: Loss,
        limit: int,
        deadline: float,
        tolerance: float,
        cancel: threading.Event | None,
        observe: Callable[[Iteration], None] | None,
        differences: Differences,
    ) -> None:
        self.residuals = residuals
        self.differences = differences
        self.unchecked = False
        self.smooth = self.passing = False
        self.longest = 0.0
        self.loss = loss
        self.limit = limit
        self._deadline = deadline
        self.tolerance = tolerance
        self.status: str | None = None
        self.trace: list[Iteration] = []
        self._poor = self._idle = self._look_from = self._last_steps = 0
        self._looked = self._renewed = False
        self.hurried = False
        self._cancel = cancel
        self._observe = observe
        self._began = time.monotonic()
        unknowns = residuals.unknowns
        self.log = np.array([unknown.scale == 'log' for unknown in unknowns], dtype=bool)
        self.low = np.array([unknown.min_value for unknown in unknowns])
        self.high = np.array([unknown.max_value for unknown in unknowns])
        self.scale = np.where(self.log, 1.0, scales(unknowns))
        self.lower, self.upper = self.variables(self.low), self.variables(self.high)
        self._points: dict[bytes, Point] = {}
        self.current: Point
        self.model: Quadratic
        self.expects_success = False
        self.near = min(max(_NEAR_TOLERANCES * tolerance, _NEAR), _FARTHEST)
        self._keeping = False
        self.regulariser = np.nan
        self._penalty = np.inf
        self._secant = Secant(len(unknowns), loss)

    @property
    def _jumps(self) -> bool:
        """Whether residuals jump where parameters change by less than a standard error."""
        return bool(self.differences.wide.any())

    @property
    def bends(self) -> bool:
        """Whether what a straight step met may tell how to bend it, for less than a Jacobian."""
        jumps = self._jumps or self.smooth  # smooth ones are bent before they are tried
        return not jumps and len(self.lower) > _CHEAP and self.model.decrement > _SHORT

    @property
    def checked(self) -> bool:
        """Whether the differences were found to be right, or need not be."""
        return self.unchecked or bool(self.differences.checked.all())

    def variables(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (p,) scaled variables of values."""
        with np.errstate(divide='ignore', invalid='ignore'):
            return np.where(self.log, np.log(x), x / self.scale)

    def values(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values, inside the bounds, of scaled variables."""
        with np.errstate(over='ignore'):
            x = np.where(self.log, np.exp(np.where(self.log, z, 0.0)), z * self.scale)
        clipped: NDArray[np.float64] = np.clip(x, self.low, self.high)
        return clipped

    def slope(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (p,) derivative of the values by the scaled variables."""
        return np.where(self.log, self.values(z), self.scale)

    def begin(self, z: NDArray[np.float64], known: Point | None = None) -> None:
        """Evaluate the start and linearise there.

        Raises:
            FitError: A residual is not finite, or every simulation diverges.
        """
        point = known or self._around(z)
        if not np.all(np.isfinite(point.residual)):
            wrong = np.flatnonzero(~np.isfinite(point.residual))
            raise FitError(
                f'Expected finite residuals at the start values, found {len(wrong)} of '
                f'{len(point.residual)} that are {point.residual[wrong[0]]}, the first at '
                f'index {wrong[0]}.'
            )
        self._penalty = max(_PENALTY * float(np.max(np.abs(point.residual))), _SMALLEST_PENALTY)
        if point.unstable:
            residuals = self.residuals
            diverged, evaluations = residuals.diverged, residuals.evaluations
            residuals(self.values(point.z)[None, :])
            if residuals.diverged - diverged >= residuals.evaluations - evaluations:
                raise FitError('The simulation is unstable at the start values on every sequence.')
        if point.jacobian is None:
            self._differentiate(point)
        self._points = {point.z.tobytes(): point}
        self._accept(point, 0.0)
        # What is differenced for the first time beside a solution is to be right at once.
        if known is not None and self.status is None and not (self.checked or self._jumps):
            self._check()
            self.status = self._converged()

    def evaluate(self, candidates: Sequence[NDArray[np.float64]]) -> list[Point] | None:
        """Return residuals of several candidates from one batch.

        The batch before the Jacobian is kept also shows whether the differences are right.

        Returns:
            The points; None where the differences were wrong, and have been made anew.
        """
        unknown = [z for z in candidates if z.tobytes() not in self._points]
        if unknown:
            interrupt(self._cancel)
            values = [self.values(z) for z in unknown]
            probe = None
            if self._keeping and not self.checked:
                probe = self.differences.probe(self._by_values(self.current))
            if probe is not None:
                values.append(self.values(self.current.z) + probe.move)
            batch = self.residuals(np.stack(values))
            unstable = self.residuals.unstable
            for k, z in enumerate(unknown):
                self._remember(z, batch[:, k].copy(), unstable=bool(unstable[k]))
            if probe is not None and self._mended(
                functools.partial(
                    self.differences.judge,
                    probe=probe,
                    moved=batch[:, -1],
                    unstable=bool(unstable[-1]),
                )
            ):
                self.status = self._converged()
                return None
        return [self._points[z.tobytes()] for z in candidates]

    def trial(self, candidates: Sequence[NDArray[np.float64]]) -> list[Point] | None:
        """Do the same for what is tried first, with the Jacobian of one that likely succeeds.

        That is so where both take no longer than the point alone.
        """
        at_once = 1 + int((~self.residuals.exact).sum()) <= self.residuals.at_once
        hopeful = self.expects_success and not (self._keeping or self._jumps or self.hurried)
        if at_once and hopeful:
            return [self._points.get(z.tobytes()) or self._around(z) for z in candidates]
        return self.evaluate(candidates)

    def move(
        self,
        z: NDArray[np.float64],
        regulariser: float = np.nan,
        expected: float | None = None,
    ) -> bool:
        """Go to a candidate, and find the Jacobian there unless that is known.

        Args:
            z: (p,) the candidate.
            regulariser: The damping of the step that led there, for the trace.
            expected: By how much that was to lower the cost; what the linear model says unless
                given, which knows nothing of a step that is bent.

        Returns:
            Whether the method can go on from there: the solve has not ended, and no Jacobian was
            made anew instead.
        """
        if z.tobytes() not in self._points and self.evaluate([z]) is None:
            return False
        point = self._points[z.tobytes()]
        if point is self.current:
            return True
        before, model = self.current, self.model
        predicted = model.fall((point.z - before.z) / model.unit)
        promised = predicted if expected is None else expected
        ratio = (before.cost - point.cost) / promised if promised > 0 else 0.0
        if point.jacobian is None:
            if self._jumps and ratio > _LEARNS:
                least = self.differences.clear(len(point.residual))
                point.jacobian = updated(before, point, model.unit, least)
                point.kind = UPDATED
            elif self.hurried or self._holds(point):
                point.jacobian, point.kind = before.jacobian, KEPT
            else:
                self._differentiate(point)
        self.expects_success = ratio > _SUCCESS_RATIO
        self._points = {point.z.tobytes(): point}
        self._secant.learn(before, point, predicted)
        before.jacobian = None
        self.regulariser = regulariser
        self._accept(point, float(np.linalg.norm(point.z - before.z)))
        if self.status is not None:
            return False
        poor, most = (_POOR_ALIKE, 1) if self.model.alike > _ALIKE else (_POOR_RATIO, _POOR_STEPS)
        self._poor = self._poor + 1 if ratio < poor else 0
        if self._poor >= most and not (self._jumps or self.hurried):
            if self._widen():
                self._poor = 0
            elif self._looked and self._poor >= _POOR_STEPS:
                self.status = self.verdict()
        return self.status is None

    def mend(self) -> bool:
        """Improve the Jacobian where no step lowers the cost; return whether that was possible."""
        if self._jumps:
            return self._renew()
        # Sides of short differences differ by jumps, too, which no central difference mends.
        jumps = self._widen()
        return (not self.checked and self._check()) or jumps

    @property
    def _renewable(self) -> bool:
        return self.current.kind == UPDATED and not (self._renewed or self.passing)

    def _renew(self) -> bool:
        """Difference anew what was learnt from steps; return whether it was.

        That is done once until a step lowers the cost by more than an idle one.
        """
        if not self._renewable:
            return False
        self._renewed = True
        self._differentiate(self.current)
        self._derived_anew(changed=True)
        return True

    def _check(self) -> bool:
        """Mend columns that the differences do not give; return whether there were any."""
        return self._mended(self.differences.check)

    def _widen(self) -> bool:
        """Look for slopes that hold over standard errors; return whether there were others."""
        alike = self.model.alike
        rough = self.tolerance >= _SHORT and alike <= _ALIKE
        known = self._jumps or self.current.jacobian is None
        if rough or known or self.at_precision or len(self.trace) < self._look_from:
            return False
        self._looked = True
        # Far from the optimum there may be nothing that jumps yet.
        self._look_from = len(self.trace) + _LOOKS_AGAIN
        return self._mended(functools.partial(self.differences.widen, alike=alike))

    def _mended(self, look: Callable[[Linearisation], bool]) -> bool:
        """Let the current Jacobian be looked at and mended; return whether it changed.

        Args:
            look: Gets the residuals and the Jacobian by the values.
        """
        point = self.current
        linear = self._by_values(point)
        changed = look(linear)
        if changed:  # what was learnt came from differences that were wrong
            self._secant.forget()
        self._set(point, linear.jacobian)
        self._derived_anew(changed=changed)
        return changed

    def _derived_anew(self, *, changed: bool) -> None:
        """Note how the current Jacobian came about now, and go on from it where it changed."""
        point = self.current
        self.trace[-1] = self.trace[-1]._replace(
            rollouts=self.residuals.evaluations,
            jacobian=point.kind,
            central=self.differences.names,
        )
        if changed:
            self._points = {point.z.tobytes(): point}
            self.expects_success = self._keeping = False
            self.model = quadratic(point, self.lower, self.upper, self._secant)

    def verdict(self) -> str:
        """Return the status of a solve in which no step lowers the cost any more."""
        if self.at_precision:
            self._polish()
            return 'cost'
        near = self.model.decrement < _ARRIVED * np.sqrt(self.model.alike)
        return 'cost' if self._jumps and near else 'stalled'

    def _polish(self) -> None:
        """Take steps that shorten the next one, where the cost cannot tell them apart."""
        for _ in range(_POLISHES):
            before, decrement = self.current, self.model.decrement
            move = self.model.newton * self.model.unit
            points = self.evaluate([np.clip(before.z + move, self.lower, self.upper)])
            if points is None:
                return
            (point,) = points
            if abs(point.cost - before.cost) > _EQUAL_COST * before.cost:
                return
            point.jacobian, point.kind = before.jacobian, KEPT
            model = quadratic(point, self.lower, self.upper, self._secant)
            if model.decrement > _POLISHED * decrement:
                return
            self.current, self.model = point, model
            self._note(float(np.linalg.norm(point.z - before.z)))

    @property
    def least_fall(self) -> float:
        """By how much a step that is worth a simulation lowers the cost."""
        model = self.model
        tolerance = self.tolerance
        if self._jumps and model.alike > _ALIKE:
            tolerance = max(tolerance, _ROUGH_JUMPS if tolerance >= ROUGH else _JUMPS)
        fall = 0.5 * model.variance * model.alike * tolerance**2
        return max(fall, _SLIGHT * self.current.cost) if self.tolerance >= ROUGH else fall

    @property
    def doubtful(self) -> bool:
        """Whether a step that fails here says that the Jacobian is wrong."""
        # Only what can be mended is worth a doubt: see `mend`.
        unsure = not (self.checked or self._jumps) and self.model.decrement < _SHORT
        return self.at_precision or self._renewable or unsure

    @property
    def at_precision(self) -> bool:
        """Whether what is left to gain is of the size of the function's own noise."""
        exact = self.current.cost <= _EXACT_COST * self.trace[0].cost
        return exact or self.model.decrement < max(_LOOSE, _LOOSE_TOLERANCES * self.tolerance)

    def _around(self, z: NDArray[np.float64]) -> Point:
        interrupt(self._cancel)
        linear = self.differences.at(self.values(z))
        point = self._remember(z, linear.residual, unstable=linear.unstable)
        if not linear.unstable and np.all(np.isfinite(linear.residual)):
            self._set(point, linear.jacobian)
        return point

    def _remember(
        self, z: NDArray[np.float64], residual: NDArray[np.float64], *, unstable: bool
    ) -> Point:
        if np.isfinite(self._penalty) and not np.all(np.isfinite(residual)):
            residual, unstable = np.full(len(residual), self._penalty), True
        point = Point(z.copy(), residual, cost(residual, self.loss), unstable)
        self._points[z.tobytes()] = point
        return point

    def _set(self, point: Point, jacobian: NDArray[np.float64]) -> None:
        jacobian[~np.isfinite(jacobian)] = 0.0
        jacobian *= self.slope(point.z)
        point.jacobian = jacobian
        point.kind = CENTRAL if self.differences.central.any() else FORWARD

    def _differentiate(self, point: Point) -> None:
        interrupt(self._cancel)
        self._set(point, self.differences.at(self.values(point.z), point.residual).jacobian)

    def _by_values(self, point: Point) -> Linearisation:
        """Return the residuals of a point and a copy of their Jacobian by the values."""
        assert point.jacobian is not None  # noqa: S101
        jacobian = point.jacobian / self.slope(point.z)
        return Linearisation(self.values(point.z), point.residual, jacobian)

    def _accept(self, point: Point, step: float) -> None:
        before = self.model.decrement if self.trace else np.inf
        if self.trace:
            idle = self.current.cost - point.cost <= self.least_fall
            self._idle = self._idle + 1 if idle else 0
            self._renewed = self._renewed and idle
        self.current = point
        self.model = quadratic(point, self.lower, self.upper, self._secant)
        self._note(step)
        status = self._converged()
        if self.hurried:
            self._last_steps += 1
            self.status = status or ('time' if self._last_steps == _LAST_STEPS else None)
            return
        if (status or self._idle >= _IDLE_STEPS) and self._renew():
            status, self._idle = self._converged(), 0
        self._keeping = self.current.kind != UPDATED and self._may_keep(before)
        if status and not self.checked and self._check():
            status = self._converged()
        if not status and self._idle >= _IDLE_STEPS:
            mended = self.model.decrement > _SHORT and self.mend()
            status = self._converged() if mended else self.verdict()
            self._idle = 0
        if not status and len(self.trace) > self.limit:
            status = 'iterations'
        if not status and self._out_of_time():
            # Steps along a Jacobian that has been found take hardly any of its time.
            self.hurried = self.current.kind not in {KEPT, UPDATED}
            status = None if self.hurried else 'time'
        self.status = status
        if self._jumps and self.current.kind not in {KEPT, UPDATED}:
            self.differences.lengthen(self._by_values(self.current), self.model.alike)

    def _out_of_time(self) -> bool:
        """Return whether there is no time for another iteration and what follows the last one."""
        moments = [0.0, *(iteration.seconds for iteration in self.trace)]
        longest = max(after - before for before, after in itertools.pairwise(moments))
        longest = max(longest, self.longest)
        reserved = _RESERVED_ROUGH if self.unchecked else RESERVED
        return time.monotonic() + reserved * longest > self._deadline

    def _note(self, step: float) -> None:
        iteration = Iteration(
            number=len(self.trace),
            cost=self.current.cost,
            step=step,
            rollouts=self.residuals.evaluations,
            diverged=self.residuals.diverged,
            seconds=time.monotonic() - self._began,
            jacobian=self.current.kind,
            central=self.differences.names,
            regulariser=float(self.regulariser),
            x=tuple(self.values(self.current.z).tolist()),
        )
        self.trace.append(iteration)
        if self._observe is not None:
            self._observe(iteration)

    def _may_keep(self, before: float) -> bool:
        """Return whether the next step may keep the Jacobian, from the predicted step before."""
        now = self.model.decrement
        if self.current.kind == KEPT:
            return True
        rate = max(now / before, _BEST_RATE) if np.isfinite(before) else _USUAL_RATE
        return now < self.near and rate * now < _MISSED * self.tolerance

    def _holds(self, point: Point) -> bool:
        """Return whether the Jacobian that led to a point serves there, too.

        It has to shorten the next step fast enough, and to have told what the last one changed:
        slopes change by twice as much along a step, in each of the columns' directions, and the
        noise of the residuals, of one along each, makes that an error of the next step. On seven
        models it was .2 to 1.2 times half of that, once 2.4 times where joints have dry friction.
        """
        before = self.current
        assert before.jacobian is not None  # noqa: S101
        kept = dataclasses.replace(point, jacobian=before.jacobian)
        after = quadratic(kept, self.lower, self.upper, self._secant).decrement
        tolerance = self.tolerance * np.sqrt(self.model.alike)
        if after > max(_NEAR_RATE * self.model.decrement, tolerance):
            return False
        if self._keeping:
            return True
        expected = before.jacobian @ (point.z - before.z)
        bent = np.linalg.norm(point.residual - before.residual - expected)
        missed = bent / np.linalg.norm(expected) * max(np.sqrt(len(point.z)), _FEWEST)
        # What is left ends the solve where it is below the tolerance.
        if np.hypot(missed, after if after <= tolerance else 0.0) > tolerance:
            return False
        # Differences are checked where they were made, before a Jacobian serves elsewhere.
        return self.checked or not self._check()

    def _converged(self) -> str | None:
        if self.current.cost == 0.0:
            return 'cost'
        if self.model.decrement <= self.tolerance * np.sqrt(self.model.alike):
            return 'gradient'
        step = np.abs(self.model.newton * self.model.unit)
        least = np.maximum(_OF_VALUE * self.tolerance * np.abs(self.current.z), _STEP_TOLERANCE)
        if np.all(step <= least):
            return 'step'
        return None
