# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Residuals and their derivative as functions of scaled variables."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from sysid_ros.errors import CancelledError, FitError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sysid_ros.identification.residuals import Residuals
    from sysid_ros.identification.unknown import Unknown

#: Step of the finite differences in units of a parameter's scale. Rollouts are deterministic with
#: a solver tolerance near 1e-8, so the best two-point step is near its square root.
_DIFFERENCE_STEP = 1e-4
#: Largest change of the residuals by a step, root mean square, in units of the noise; …
_LARGEST_CHANGE = 0.1
#: … for which the step is made shorter, down to this.
_SMALLEST_STEP = 1e-7
#: The scale of a parameter is its magnitude, or this fraction of its bounds where it is near zero.
_SCALE_OF_BOUNDS = 0.02
#: The solver stops when an iteration lowers the cost by less than this fraction.
COST_TOLERANCE = 1e-7


class Around(NamedTuple):
    """Residuals at a point and their changes by a step of each unknown.

    Attributes:
        residual: (n,) at the point.
        changes: (n, p) r(x + step_j e_j) - r(x); a column known as a formula holds the step times
            the derivative, one that was not asked for zeros.
        wild: (p,) whether the moved candidate's simulation became unstable.
        unstable: Whether that of the point did.
    """

    residual: NDArray[np.float64]
    changes: NDArray[np.float64]
    wild: NDArray[np.bool_]
    unstable: bool


class ResidualLike(Protocol):
    """What a solver needs of a residual function.

    Attributes:
        unknowns: What the values are.
        evaluations: Simulations so far: candidates times sequences.
        diverged: How many of them became unstable.
        unstable: (m,) whether each candidate of the last call became unstable.
        exact: (p,) whether ``around`` gives the column without the noise of a difference.
    """

    unknowns: tuple[Unknown, ...]
    evaluations: int
    diverged: int
    unstable: NDArray[np.bool_]

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Return which of the (p,) columns have no noise of a difference."""

    def __call__(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (n, m) residuals of (m, p) candidates, finite also where they diverge."""

    def around(
        self,
        x: NDArray[np.float64],
        steps: NDArray[np.float64],
        columns: NDArray[np.bool_] | None = None,
        base: NDArray[np.float64] | None = None,
    ) -> Around:
        """Evaluate a point and one step of each unknown in one batch.

        Args:
            x: (p,) values.
            steps: (p,) signed, in the unknowns' units.
            columns: (p,) which steps are wanted; all unless given.
            base: (n,) residuals at ``x`` where they are known.
        """


class FunctionResiduals:
    """A plain vectorised function as residuals.

    Attributes:
        unknowns: What the values are.
        evaluations: Candidates evaluated so far.
        diverged: How many of them had a residual that is not finite.
        unstable: (m,) the same for each candidate of the last call.
        exact: (p,) all False: every column is a difference.
    """

    def __init__(
        self,
        function: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        unknowns: Sequence[Unknown],
    ) -> None:
        """Wrap a function.

        Args:
            function: Maps (m, p) candidates to (n, m) residuals.
            unknowns: What the p values are.
        """
        self._function = function
        self.unknowns = tuple(unknowns)
        self.evaluations = 0
        self.diverged = 0
        self.unstable = np.zeros(0, dtype=bool)
        self.exact = np.zeros(len(self.unknowns), dtype=bool)

    def __call__(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (n, m) residuals of (m, p) candidates.

        Raises:
            FitError: The function returns another number of columns than it got candidates.
        """
        residual = np.asarray(self._function(candidates), dtype=np.float64)
        if residual.ndim != 2 or residual.shape[1] != len(candidates):  # noqa: PLR2004
            msg = (
                f'Expected residuals of shape (n, {len(candidates)}) for {len(candidates)} '
                f'candidates, got {residual.shape}.'
            )
            raise FitError(msg)
        self.unstable = np.asarray(~np.isfinite(residual).all(axis=0))
        self.evaluations += len(candidates)
        self.diverged += int(self.unstable.sum())
        return residual

    def around(
        self,
        x: NDArray[np.float64],
        steps: NDArray[np.float64],
        columns: NDArray[np.bool_] | None = None,
        base: NDArray[np.float64] | None = None,
    ) -> Around:
        """Evaluate a point and one step of each unknown in one call of the function."""
        wanted = np.arange(len(x)) if columns is None else np.flatnonzero(columns)
        moved = np.tile(x, (len(wanted), 1))
        moved[np.arange(len(wanted)), wanted] += steps[wanted]
        first = 1 if base is None else 0
        values = self(np.concatenate([x[None, :], moved]) if first else moved)
        residual = values[:, 0] if base is None else base
        changes = np.zeros((len(residual), len(x)))
        changes[:, wanted] = values[:, first:] - residual[:, None]
        wild = np.zeros(len(x), dtype=bool)
        wild[wanted] = self.unstable[first:]
        return Around(residual, changes, wild, unstable=bool(first and self.unstable[0]))


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


@dataclass
class Problem:
    """Residuals and Jacobian in scaled variables, with the bookkeeping of a solve."""

    residuals: Residuals
    parameters: Sequence[Unknown]
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


def _moves(step: NDArray[np.float64], offsets: int) -> NDArray[np.float64]:
    """Return (p, k) moves: one parameter in each candidate, all offsets in the last."""
    moves = np.diag(step)
    if not offsets:
        return moves
    together = moves[:, -offsets:].sum(axis=1, keepdims=True)
    return np.concatenate([moves[:, :-offsets], together], axis=1)


def linearise(
    residuals: Residuals, parameters: Sequence[Unknown], x: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the (n, p) derivative of the residuals by the values, per unit of each.

    Args:
        residuals: The residual function.
        parameters: The unknowns.
        x: (p,) where.
    """
    problem = Problem(residuals, parameters, 0, None, None)
    return problem.jacobian(x / problem.scale) / problem.scale


def check_start(
    residuals: Residuals, parameters: Sequence[Unknown], start: NDArray[np.float64]
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
