# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Starts for a fit of a servo: over short windows first, then over longer ones.

Over a whole log the cost has many minima; over a tenth of a second, from the measured state, it is
nearly that of a linear problem. Each horizon leads the fit into the valley of the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.estimation.solver.starts import Attempt, starts
from sysid_ros.servos.bench.descent import descend
from sysid_ros.servos.bench.residuals import LogResiduals

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sysid_ros.servos.bench.pendulum import Bench
    from sysid_ros.servos.laws.servo import Servo

    Array = NDArray[np.float64]


class _Horizon(NamedTuple):
    """Length of windows, s, how many steps a solve may take, how many starts go on from it."""

    seconds: float
    steps: int
    kept: int


_HORIZONS = (_Horizon(0.1, 15, 3), _Horizon(0.3, 15, 2), _Horizon(1.0, 15, 2))
#: Windows of fewer samples say little of forces.
_FEWEST_SAMPLES = 4
#: Ends that are nearer to each other, in parts of the bounds' distance, are one.
_SAME = 1e-6


class Begun(NamedTuple):
    """A start for the whole logs, the best first in a list.

    Attributes:
        x: (p,) values.
        cost: Mean square residual over the last windows, in units of the noise.
    """

    x: Array
    cost: float


def find_starts(
    servo: Servo,
    bench: Bench,
    noise: float,
    *,
    fixed: Mapping[str, float],
    count: int,
    seed: int,
    first: Array | None = None,
    cancel: threading.Event | None = None,
) -> tuple[list[Begun], tuple[Attempt, ...]]:
    """Return the best values for growing windows, and what became of all starts.

    Args:
        servo: The laws.
        bench: The logs.
        noise: Standard deviation of a measured position, rad.
        fixed: Coefficients that are not to be found.
        count: Number of starts, spread over the bounds.
        seed: Of the starts.
        first: (p,) values to begin with in place of the servo's usual ones.
        cancel: Ends the search when it is set.

    Raises:
        FitError: No log is as long as the shortest windows.
        CancelledError: ``cancel`` was set.
    """
    residuals: list[LogResiduals] = []
    for horizon in _HORIZONS:
        samples = max(round(horizon.seconds / bench.dt), _FEWEST_SAMPLES)
        if residuals and samples > int(bench.lengths.max()):
            break
        windows = bench.windows(samples)
        names = [str(number) for number in range(len(windows.lengths))]
        residuals.append(LogResiduals(servo, windows, names, noise, fixed=fixed))
    spread = starts(residuals[0].unknowns, count, seed=seed)
    if first is not None:
        spread[0] = first
    began = [(_cost(residuals[0], x), x) for x in spread]
    found = [Begun(x, np.inf) for x in spread]
    ends: list[Begun] = []
    for horizon, residual in zip(_HORIZONS, residuals, strict=False):
        solved = [descend(residual, begun.x, limit=horizon.steps, cancel=cancel) for begun in found]
        found = [Begun(end.x, 2 * end.cost / len(end.residual)) for end in solved]
        ends = ends or found
        best = sorted(found, key=lambda begun: begun.cost)[: horizon.kept]
        found = _distinct(best, residual)
    attempts = tuple(
        Attempt(x, before, unstable=False, status='windows', cost=end.cost, x=end.x)
        for (before, x), end in zip(began, ends, strict=True)
    )
    return found, tuple(sorted(attempts, key=lambda attempt: attempt.start_cost))


def _distinct(found: list[Begun], residuals: LogResiduals) -> list[Begun]:
    """Leave out what other starts have led to already."""
    bounds = [(unknown.min_value, unknown.max_value) for unknown in residuals.unknowns]
    span = np.ptp(bounds, axis=1)
    kept: list[Begun] = []
    for begun in found:
        if all(np.any(np.abs(begun.x - other.x) > _SAME * span) for other in kept):
            kept.append(begun)
    return kept


def _cost(residuals: LogResiduals, x: Array) -> float:
    return float(np.mean(residuals(x[None]) ** 2))
