# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is shown and kept of the iterations of a fit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sysid_ros.estimation.solver.problem import Iteration


class Log:
    """Counts and shows iterations, and keeps those that led to the result.

    Attributes:
        trace: What is kept, counted from 0.
    """

    def __init__(self, limit: int, observe: Callable[[Iteration], None] | None) -> None:
        self._limit = limit
        self._observe = observe
        self._count = 0
        self._started = time.monotonic()
        self.trace: list[Iteration] = []

    @property
    def seconds(self) -> float:
        """Wall time so far."""
        return time.monotonic() - self._started

    def __call__(self, iteration: Iteration) -> None:
        """Show and keep an iteration."""
        shown = iteration._replace(number=self._count, seconds=self.seconds, limit=self._limit)
        self._count += 1
        self.trace.append(shown._replace(number=len(self.trace)))
        if self._observe is not None:
            self._observe(shown)

    def replace(self, trace: Sequence[Iteration]) -> None:
        """Keep these instead: those of the best of several starts."""
        self.trace = [
            iteration._replace(number=number, limit=self._limit)
            for number, iteration in enumerate(trace)
        ]
