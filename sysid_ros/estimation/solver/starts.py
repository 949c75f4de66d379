# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Several starts of one solve: their values, and the best of what they lead to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import FitError, nearest
from sysid_ros.estimation.solver.least_squares import Solution, SolverSettings, attempt
from sysid_ros.estimation.solver.losses import cost
from sysid_ros.estimation.solver.problem import Iteration, ResidualLike
from sysid_ros.model.unknown import Unknown

Method = Literal['sobol', 'lhs']
METHODS: tuple[Method, ...] = get_args(Method)

#: So many of the starts are solved, those with the least cost.
_KEPT = 3
#: Status of a start that was evaluated and not solved, and of one whose solve could not begin.
NOT_SOLVED = 'not solved'
FAILED = 'failed'


@dataclass(frozen=True)
class Attempt:
    """One start and what became of it.

    Attributes:
        start: (p,) values.
        start_cost: Cost there.
        unstable: Whether the simulation was unstable there.
        status: The solution's word, ``not solved``, or ``failed`` where the solve could not begin.
        cost: Cost at the end; NaN unless it was solved.
        x: (p,) values at the end; the start unless it was solved.
    """

    start: NDArray[np.float64]
    start_cost: float
    unstable: bool
    status: str
    cost: float
    x: NDArray[np.float64]


@dataclass(frozen=True)
class MultiStart:
    """The best solution, and all starts in the order of their costs at the start."""

    solution: Solution
    attempts: tuple[Attempt, ...]


def starts(
    unknowns: Sequence[Unknown], count: int, method: Method = 'sobol', seed: int = 0
) -> NDArray[np.float64]:
    """Spread starts over the bounds; the first is the nominal one.

    Args:
        unknowns: What is sampled; a logarithmic one by its logarithm.
        count: Number of starts.
        method: ``sobol`` for a scrambled Sobol sequence, ``lhs`` for a Latin hypercube.
        seed: Of the sample: the same seed gives the same starts.

    Returns:
        (count, p) values.

    Raises:
        FitError: There is no such method, the count is not positive, or bounds are not finite or,
            on a logarithmic scale, not positive.
    """
    if method not in METHODS:
        raise FitError(
            f'There is no method {method!r} of spreading starts; {nearest(str(method), METHODS)}.'
        )
    if count < 1:
        raise FitError(f'Expected at least one start, got {count}.')
    low = np.array([unknown.min_value for unknown in unknowns])
    high = np.array([unknown.max_value for unknown in unknowns])
    log = np.array([unknown.scale == 'log' for unknown in unknowns], dtype=bool)
    for unknown in unknowns:
        limits = (unknown.min_value, unknown.max_value)
        if not np.all(np.isfinite(limits)) or (unknown.scale == 'log' and limits[0] <= 0):
            kind = 'positive and finite' if unknown.scale == 'log' else 'finite'
            raise FitError(
                f'Starts are spread over the bounds, which are expected to be {kind}; those of '
                f'parameter {unknown.name!r} are [{limits[0]:g}, {limits[1]:g}].'
            )
    nominal = np.array([unknown.nominal for unknown in unknowns])
    unit = _sample(len(unknowns), count - 1, method, seed)
    below, above = (np.where(log, np.log(np.where(log, b, 1.0)), b) for b in (low, high))
    spread = below + unit * (above - below)
    values = np.where(log, np.exp(np.where(log, spread, 0.0)), spread)
    return np.concatenate([nominal[None, :], np.clip(values, low, high)])


def _sample(size: int, count: int, method: Method, seed: int) -> NDArray[np.float64]:
    """Return (count, size) points of the unit cube."""
    if not count:
        return np.zeros((0, size))
    from scipy.stats import qmc  # noqa: PLC0415 (slow to import, and few fits need it)

    random = np.random.default_rng(seed)
    if method == 'sobol':
        # Balance needs a power of two; what is beyond the count is left out.
        power = int(np.ceil(np.log2(count))) if count > 1 else 0
        drawn = qmc.Sobol(size, seed=random).random_base2(power)[:count]
    else:
        drawn = qmc.LatinHypercube(size, seed=random).random(count)
    points: NDArray[np.float64] = np.asarray(drawn, dtype=np.float64)
    return points


def solve_from(
    residuals: ResidualLike,
    candidates: NDArray[np.float64],
    *,
    settings: SolverSettings | None = None,
    keep: int = _KEPT,
    cancel: threading.Event | None = None,
    observe: Callable[[Iteration], None] | None = None,
) -> MultiStart:
    """Evaluate all starts in one batch and solve from the best of them.

    Args:
        residuals: The residual function.
        candidates: (count, p) start values.
        settings: Which solver, loss and limit of each solve.
        keep: How many starts are solved, those of the least cost first.
        cancel: Ends the solve when it is set.
        observe: Called after every iteration of every solve.

    Raises:
        CancelledError: ``cancel`` was set.
        FitError: No start can be solved; the first one's reason.
    """
    settings = settings or SolverSettings()
    values = residuals(candidates)
    unstable = np.array(residuals.unstable)
    finite = np.all(np.isfinite(values), axis=0)
    costs = np.array(
        [cost(values[:, k], settings.loss) if finite[k] else np.inf for k in range(len(candidates))]
    )
    order = np.lexsort((costs, unstable | ~finite))
    outcomes: dict[int, Solution | FitError] = {}
    for k in map(int, order[: max(keep, 1)]):
        if outcomes and time.monotonic() > settings.deadline:
            break
        outcomes[k] = attempt(
            residuals, candidates[k], settings=settings, cancel=cancel, observe=observe
        )
    solutions = [each for each in outcomes.values() if not isinstance(each, FitError)]
    if not solutions:
        raise next(each for each in outcomes.values() if isinstance(each, FitError))
    attempts = []
    for k in map(int, order):
        found = outcomes.get(k)
        solved = None if isinstance(found, FitError) else found
        attempts.append(
            Attempt(
                start=candidates[k].copy(),
                start_cost=float(costs[k]),
                unstable=bool(unstable[k]),
                status=solved.status if solved else FAILED if found else NOT_SOLVED,
                cost=solved.cost if solved else float('nan'),
                x=solved.x if solved else candidates[k].copy(),
            )
        )
    best = min(solutions, key=lambda solution: solution.cost)
    return MultiStart(best, tuple(attempts))
