# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a fit does about commands that acted at other times than their stamps say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sysid_ros.estimation.arrivals.residuals import WithArrivals
from sysid_ros.estimation.noise import arrival_jitter

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from sysid_ros.estimation.residuals import Residuals
    from sysid_ros.estimation.solver.least_squares import Solution

#: Errors of arrival are looked for with so many of the first weights.
_TRIES = 2
#: Where they are taken out, what they do is known to no more digits than this.
_TOLERANCE = 0.05


class Arrivals(Protocol):
    """A way to deal with the times at which commands acted."""

    @property
    def residuals(self) -> Residuals | WithArrivals:
        """Return what is fitted."""

    def locate(self, solution: Solution) -> Solution:
        """Find when the commands acted; return the solution with the residuals that follow."""

    def tolerance(self, tolerance: float) -> float:
        """Return how near to the optimum the last solve ends, in standard errors.

        Args:
            tolerance: The same for commands that act when their stamps say.
        """

    def errors(self) -> Mapping[str, tuple[NDArray[np.float64], ...]]:
        """Return sequence name to the (n,) errors of each of its series of commands, s."""


class CommonOffsets:
    """Commands are late by what the unknowns say: delays, and one offset for each sequence."""

    def __init__(self, residuals: Residuals) -> None:
        self.residuals: Residuals | WithArrivals = residuals

    def locate(self, solution: Solution) -> Solution:
        """Return the solution as it is."""
        return solution

    def tolerance(self, tolerance: float) -> float:
        """Return the tolerance as it is."""
        return tolerance

    def errors(self) -> Mapping[str, tuple[NDArray[np.float64], ...]]:
        """Return nothing."""
        return {}


class MessageErrors:
    """Each message has an error of its own beside the offset, if errors can be told."""

    def __init__(self, residuals: Residuals, jitter: float) -> None:
        """Begin with commands that act at their stamps.

        Args:
            residuals: With an arrival offset for each sequence among the unknowns.
            jitter: How much the stamps of the commands jitter, as a standard deviation in s.
        """
        self._bare = residuals
        self._jitter = jitter
        self._tries = _TRIES
        self._found: WithArrivals | None = None

    @property
    def residuals(self) -> Residuals | WithArrivals:
        """The residuals, without what the errors do once they are found."""
        return self._found or self._bare

    def locate(self, solution: Solution) -> Solution:
        """Find the errors, or find them anew; return the solution with them."""
        if self._found is not None:
            return self._found.locate(solution)
        if not self._tries:
            return solution
        self._tries -= 1
        candidate = WithArrivals(self._bare, solution, self._jitter)
        with_errors = candidate.tell(solution)
        if with_errors is None:
            return solution
        self._found = candidate
        return with_errors

    def tolerance(self, tolerance: float) -> float:
        """Return a loose tolerance once errors are found."""
        return tolerance if self._found is None else _TOLERANCE

    def errors(self) -> Mapping[str, tuple[NDArray[np.float64], ...]]:
        """Return the errors, if they were found."""
        return {} if self._found is None else self._found.errors()


def choose_arrivals(residuals: Residuals, *, whole: bool, loss: str) -> Arrivals:
    """Return how arrivals are dealt with.

    Args:
        residuals: What is fitted.
        whole: Whether to whole sequences: windows are too short to tell errors of messages.
        loss: A robust one takes what a late command does for outliers; as errors, those would
            spread.
    """
    if whole and loss == 'linear':
        jitter = arrival_jitter([run.sequence for run in residuals.runs])
        if jitter:
            return MessageErrors(residuals, jitter)
    return CommonOffsets(residuals)
