# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Ends of the worst intervals, from fits with that value held."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.errors import CancelledError, SysidError
from sysid_ros.estimation.solver.least_squares import SolverSettings, solve
from sysid_ros.estimation.solver.losses import cost
from sysid_ros.estimation.solver.problem import DerivedResiduals, StepChanges
from sysid_ros.inference.spread import Ends

if TYPE_CHECKING:
    import threading

    from numpy.typing import NDArray

    from sysid_ros.config.calibration import Loss
    from sysid_ros.estimation.solver.least_squares import Solution
    from sysid_ros.estimation.solver.problem import ResidualLike
    from sysid_ros.inference.linear import Linear
    from sysid_ros.inference.spread import Spread
    from sysid_ros.model.unknown import Unknown

#: So many parameters are worth the fits.
_MOST = 2
#: An end is found when the root of the cost is that near to what is looked for.
_NEAR = 0.03
#: Fits to find one end with, and iterations of each.
_FITS = 10
_ITERATIONS = 20
#: Fits are exact to this, in standard errors for white noise.
_TOLERANCE = 0.05
#: Secants that would cut off less than this part of the bracket give way to bisection.
_STEEP = 0.15
#: An end is looked for at most so many times farther out than the last value.
_FARTHER = 3.0
#: Data that would have a value so many standard errors beyond its bound push it there.
_PUSHED = 2.0
#: By less than this, in units of the quantile's square, another optimum is none.
_LOWER = 0.02


class _Aim(NamedTuple):
    """A parameter whose interval is worth fits.

    Attributes:
        column: Of the Jacobian.
        far: How much worse the fit is at the ends: the rise of twice the cost.
        guess: Distance of the ends for a linear problem.
    """

    column: int
    far: float
    guess: float


def profiled(
    residuals: ResidualLike,
    solution: Solution,
    linear: Linear,
    found: Spread,
    ends: Ends,
    *,
    loss: Loss,
    cancel: threading.Event | None = None,
) -> tuple[Ends, tuple[str, ...]]:
    """Find the ends of the worst intervals by fits in which that parameter is held.

    The worst are those that end at their bound of zero, of values at it too if noise put them
    there, and then those widest against their value. An end is where the profile of twice the cost
    has risen by the square of the quantile (Bates and Watts, Nonlinear Regression Analysis, 1988,
    section 6.1), times the ratio of the parameter's variance to that for white noise: correlated
    noise, or recordings that disagree, count as they do in the other intervals (Rotnitzky and
    Jewell, Biometrika 77, 1990). For a linear problem the ends are those that there were before.

    Raises:
        CancelledError: ``cancel`` was set.
    """
    low, high = ends.low.copy(), ends.high.copy()
    notes: list[str] = []
    names = []
    for aim in _worst(linear, found, ends):
        unknown = linear.unknowns[aim.column]
        search = _EndSearch(residuals, solution, linear, aim, loss, cancel)
        low[aim.column], high[aim.column] = search.end(-1.0), search.end(1.0)
        notes.extend(f'{unknown.name} {note}' for note in search.notes)
        names.append(unknown.name)
    if not names:
        return ends, ()
    said = f'the interval of {" and of ".join(names)} by fits with that value held'
    return Ends(low, high, said), tuple(dict.fromkeys(notes))


def _worst(linear: Linear, found: Spread, ends: Ends) -> list[_Aim]:
    """Return the parameters whose intervals are least like those of a linear problem."""
    with np.errstate(invalid='ignore', divide='ignore'):
        far = found.half**2 / linear.white_variance
    ranked: list[tuple[float, _Aim]] = []
    for index, unknown in enumerate(linear.unknowns):
        if unknown.of_single_runs:
            continue
        if np.isfinite(ends.low[index]) and np.isfinite(far[index]) and found.half[index] > 0:
            aim = _Aim(index, float(far[index]), float(found.half[index]))
            if ends.low[index] < unknown.min_value == 0.0:
                ranked.append((np.inf, aim))
            else:
                value = max(abs(linear.x[index]), np.finfo(float).tiny)
                ranked.append((aim.guess / value, aim))
        elif linear.at_bound[index] and unknown.min_value == 0.0:
            at_zero = _at_zero(linear, index, far)
            if at_zero is not None:
                ranked.append((np.inf, at_zero))
    ranked.sort(key=lambda entry: -entry[0])
    return [aim for _, aim in ranked[:_MOST]]


def _at_zero(linear: Linear, index: int, far: NDArray[np.float64]) -> _Aim | None:
    """Return a value at its bound of zero, unless the data, and not noise, push it beyond.

    Its variance may exceed that for white noise as much as that of any other parameter does.
    """
    if linear.unknowns[index].max_value - linear.x[index] < linear.x[index]:  # at its upper bound
        return None
    known = far[np.isfinite(far)]
    rest = linear.unexplained(index)
    information = float(rest @ rest)
    if not len(known) or information <= np.finfo(float).tiny:
        return None
    guess = float(np.sqrt(known.max() / information))
    noise = float(np.mean(linear.residual**2))
    pushed = float(rest @ linear.residual) / information
    if pushed >= min(guess, _PUSHED * float(np.sqrt(noise / information))):
        return None
    return _Aim(index, float(known.max()), guess)


@dataclass
class _EndSearch:
    """The search of both ends; its notes say what it met, without the parameter's name."""

    residuals: ResidualLike
    solution: Solution
    linear: Linear
    aim: _Aim
    loss: Loss
    cancel: threading.Event | None
    notes: list[str] = field(default_factory=list)

    def end(self, side: float) -> float:
        """Return the lower or upper end, by secants of the root of the rise: straight if linear."""
        unknown = self.linear.unknowns[self.aim.column]
        value = float(self.solution.x[self.aim.column])
        bound = unknown.min_value if side < 0 else unknown.max_value
        room = max(side * (bound - value), 0.0)
        inner, rise_inner = 0.0, 0.0
        outer: float | None = None
        rise_outer = np.inf
        at = min(self.aim.guess, room)
        for number in range(_FITS):
            if at <= 0:
                break
            rise = self._rise(value + side * at)
            if abs(rise - 1.0) <= _NEAR:
                return value + side * at
            if rise > 1.0:
                outer, rise_outer = at, rise
            elif at >= room:
                break
            else:
                inner, rise_inner = at, rise
            if outer is not None:
                share = (1.0 - rise_inner) / (rise_outer - rise_inner)
                # Secants of a strongly bent curve are slow at one of their ends.
                slow = not _STEEP < share < 1.0 - _STEEP
                at = inner + (0.5 if slow else share) * (outer - inner)
            elif number >= _FITS // 2:
                at = room
            else:
                at = min(inner * min(1.02 / max(rise_inner, 0.01), _FARTHER), room)
        # The wider of what brackets it, or all that there is.
        return value + side * (room if outer is None else outer)

    def _rise(self, value: float) -> float:
        """Return the root of the rise of the cost at a value over what is looked for."""
        fixed = _FixedUnknown(self.residuals, self.aim.column, value)
        start = self._start(value)
        settings = SolverSettings('mujoco', self.loss, _ITERATIONS, rough=True)
        try:
            if len(start):
                found = solve(
                    fixed, start, settings=settings, tolerance=_TOLERANCE, cancel=self.cancel
                ).cost
            else:
                found = cost(fixed(start[None])[:, 0], self.loss)
        except CancelledError:
            raise
        except SysidError:
            return np.inf  # No simulation is stable there.
        rise = 2.0 * (found - cost(self.solution.residual, self.loss)) / self.aim.far
        if rise < -_LOWER:
            self.notes.append(
                f'fits better at {value:.4g}: the fit has not found its optimum, and intervals '
                'around it do not hold; use more starts.'
            )
        return float(np.sqrt(max(rise, 0.0)))

    def _start(self, value: float) -> NDArray[np.float64]:
        """Return where the other parameters would be if all were linear."""
        linear, index = self.linear, self.aim.column
        free, x = linear.free, self.solution.x.copy()
        scaled = linear.scaled
        column = linear.jacobian[:, index]
        others = free[free != index]
        chosen = scaled[:, free != index]
        if len(others):
            gram = chosen.T @ chosen
            follow = np.linalg.pinv(gram, rcond=1e-12, hermitian=True) @ (chosen.T @ column)
            x[others] -= follow * (value - self.solution.x[index]) / linear.scale[others]
        low = np.array([unknown.min_value for unknown in linear.unknowns])
        high = np.array([unknown.max_value for unknown in linear.unknowns])
        return np.delete(np.clip(x, low, high), index)


class _FixedUnknown(DerivedResiduals):
    """Residuals of which one unknown is fixed."""

    def __init__(self, residuals: ResidualLike, index: int, value: float) -> None:
        super().__init__(residuals)
        self._index = index
        self._value = value
        unknowns = residuals.unknowns
        self.unknowns: tuple[Unknown, ...] = (*unknowns[:index], *unknowns[index + 1 :])

    @property
    def exact(self) -> NDArray[np.bool_]:
        """(p - 1,) which columns have no noise of a difference."""
        return np.delete(self.bare.exact, self._index)

    def __call__(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (n, m) residuals of (m, p - 1) candidates."""
        return self.bare(np.insert(candidates, self._index, self._value, axis=1))

    def step_changes(
        self,
        x: NDArray[np.float64],
        steps: NDArray[np.float64],
        columns: NDArray[np.bool_] | None = None,
        base: NDArray[np.float64] | None = None,
    ) -> StepChanges:
        """Evaluate a point and one step of each of the others in one batch."""
        wanted = np.ones(len(x), dtype=bool) if columns is None else columns
        found = self.bare.step_changes(
            np.insert(x, self._index, self._value),
            np.insert(steps, self._index, 1.0),
            np.insert(wanted, self._index, False),
            base,
        )
        return StepChanges(
            found.residual,
            np.delete(found.changes, self._index, axis=1),
            np.delete(found.diverged, self._index),
            found.unstable,
        )
