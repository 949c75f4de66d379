# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a solver needs of a residual function, and what it tells of its iterations."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import CancelledError, FitError
from sysid_ros.model.unknown import Unknown


def interrupt(cancel: threading.Event | None) -> None:
    """End the work where it was cancelled.

    Raises:
        CancelledError: It was.
    """
    if cancel is not None and cancel.is_set():
        raise CancelledError('The calibration was cancelled.')


class StepChanges(NamedTuple):
    """Residuals at a point and their changes by a step of each unknown.

    Attributes:
        residual: (n,) at the point.
        changes: (n, p) r(x + step_j e_j) - r(x); a column known as a formula holds the step times
            the derivative, one that was not asked for zeros.
        diverged: (p,) whether the moved candidate's simulation became unstable.
        unstable: Whether that of the point did.
    """

    residual: NDArray[np.float64]
    changes: NDArray[np.float64]
    diverged: NDArray[np.bool_]
    unstable: bool


class ResidualLike(Protocol):
    """What a solver needs of a residual function.

    Attributes:
        unknowns: What the values are.
    """

    unknowns: tuple[Unknown, ...]

    @property
    def unstable(self) -> NDArray[np.bool_]:
        """Return (m,) whether each candidate of the last call became unstable."""

    @property
    def diverged(self) -> int:
        """Return the number of simulations that became unstable so far."""

    @property
    def evaluations(self) -> int:
        """Return the number of simulations so far: candidates times sequences."""

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Return which of the (p,) columns have no noise of a difference."""

    @property
    def at_once(self) -> int:
        """Return how many candidates are simulated in the time of one."""

    def __call__(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (n, m) residuals of (m, p) candidates, finite also where they diverge."""

    def step_changes(
        self,
        x: NDArray[np.float64],
        steps: NDArray[np.float64],
        columns: NDArray[np.bool_] | None = None,
        base: NDArray[np.float64] | None = None,
    ) -> StepChanges:
        """Evaluate a point and one step of each unknown in one batch.

        Args:
            x: (p,) values.
            steps: (p,) signed, in the unknowns' units.
            columns: (p,) which steps are wanted; all unless given.
            base: (n,) residuals at ``x`` where they are known.
        """


class DerivedResiduals:
    """Residuals made of others, whose simulations count as their own.

    Attributes:
        bare: The others.
    """

    def __init__(self, bare: ResidualLike) -> None:
        self.bare = bare

    @property
    def unstable(self) -> NDArray[np.bool_]:
        """(m,) whether each candidate of the last call became unstable."""
        return self.bare.unstable

    @property
    def diverged(self) -> int:
        """Number of simulations that became unstable so far."""
        return self.bare.diverged

    @property
    def evaluations(self) -> int:
        """Number of simulations so far."""
        return self.bare.evaluations

    @property
    def at_once(self) -> int:
        """How many candidates are simulated in the time of one."""
        return self.bare.at_once


class FunctionResiduals:
    """A plain vectorised function as residuals.

    Attributes:
        unknowns: What the values are.
        evaluations: Candidates evaluated so far.
        diverged: How many of them had a residual that is not finite.
        unstable: (m,) the same for each candidate of the last call.
        exact: (p,) all False: every column is a difference.
        at_once: 1: candidates are taken to be evaluated one after the other.
    """

    at_once = 1

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
            raise FitError(
                f'Expected residuals of shape (n, {len(candidates)}) for {len(candidates)} '
                f'candidates, got {residual.shape}.'
            )
        self.unstable = np.asarray(~np.isfinite(residual).all(axis=0))
        self.evaluations += len(candidates)
        self.diverged += int(self.unstable.sum())
        return residual

    def step_changes(
        self,
        x: NDArray[np.float64],
        steps: NDArray[np.float64],
        columns: NDArray[np.bool_] | None = None,
        base: NDArray[np.float64] | None = None,
    ) -> StepChanges:
        """Evaluate a point and one step of each unknown in one call of the function."""
        wanted = np.arange(len(x)) if columns is None else np.flatnonzero(columns)
        moved = np.tile(x, (len(wanted), 1))
        moved[np.arange(len(wanted)), wanted] += steps[wanted]
        first = 1 if base is None else 0
        values = self(np.concatenate([x[None, :], moved]) if first else moved)
        residual = values[:, 0] if base is None else base
        changes = np.zeros((len(residual), len(x)))
        changes[:, wanted] = values[:, first:] - residual[:, None]
        diverged = np.zeros(len(x), dtype=bool)
        diverged[wanted] = self.unstable[first:]
        return StepChanges(residual, changes, diverged, unstable=bool(first and self.unstable[0]))


class Iteration(NamedTuple):
    """One iteration: where it stands, the step that led there, totals so far.

    Attributes:
        number: Counted from 0, the start.
        cost: Half the sum of the losses.
        step: Length of the step, in units of the parameters' scales.
        rollouts: Simulations so far.
        diverged: How many of them became unstable.
        seconds: Wall time since the start of the solve.
        jacobian: ``forward``, ``central`` where a column is, or ``broyden`` for an update of the
            last one.
        central: Names of the unknowns that are differenced centrally.
        regulariser: The solver's damping of the step, relative to the Hessian's diagonal; NaN
            for solvers that limit the step's length instead.
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
        self._observe = observe
        self._stage = stage
        self._count = self._earlier = 0
        self._started = time.monotonic()
        self._before = 0.0
        self.longest = 0.0
        self.trace: list[Iteration] = []

    def go_on(self, trace: Sequence[Iteration], seconds: float) -> None:
        """Go on from what led to another solution, which took so long."""
        self.trace, self._count = list(trace), len(trace)
        self._earlier = len(trace)
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
