# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Several starts of one solve: their values, and the best of what they lead to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import FitError
from sysid_ros.estimation.solver.differences import ResidualLike, Variables
from sysid_ros.estimation.solver.losses import cost
from sysid_ros.estimation.solver.solver import Iteration, Solution, SolverSettings, attempt
from sysid_ros.model.targets import Unknown

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


def starts(unknowns: Sequence[Unknown], count: int, seed: int = 0) -> NDArray[np.float64]:
    """Spread starts over the bounds by a scrambled Sobol sequence; the first is the nominal one.

    Args:
        unknowns: What is sampled; a logarithmic one by its logarithm.
        count: Number of starts.
        seed: Of the sample.

    Returns:
        (count, p) values.

    Raises:
        FitError: The count is not positive, or bounds are not finite or, on a logarithmic scale,
            not positive.
    """
    if count < 1:
        raise FitError(f'Expected at least one start, got {count}.')
    for unknown in unknowns:
        low, high, log = unknown.min_value, unknown.max_value, unknown.scale == 'log'
        if not np.isfinite([low, high]).all() or (log and low <= 0):
            kind = 'positive and finite' if log else 'finite'
            raise FitError(
                f'Starts are spread over the bounds, which are expected to be {kind}; those of '
                f'parameter {unknown.name!r} are [{low:g}, {high:g}].'
            )
    variables, size = Variables(unknowns), len(unknowns)
    nominal = np.array([[unknown.nominal for unknown in unknowns]])
    if count == 1:
        return nominal
    from scipy.stats import qmc  # noqa: PLC0415 (slow to import, and few fits need it)

    # Balance needs a power of two; what is beyond the count is left out.
    power = int(np.ceil(np.log2(count - 1)))
    drawn = qmc.Sobol(size, seed=np.random.default_rng(seed)).random_base2(power)[: count - 1]
    spread = variables.lower + np.asarray(drawn) * (variables.upper - variables.lower)
    return np.concatenate([nominal, [variables.values(z) for z in spread]])


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
        start, there, wild = candidates[k].copy(), float(costs[k]), bool(unstable[k])
        if isinstance(found, Solution):
            attempts.append(Attempt(start, there, wild, found.status, found.cost, found.x))
        else:
            status = FAILED if found else NOT_SOLVED
            attempts.append(Attempt(start, there, wild, status, float('nan'), start))
    best = min(solutions, key=lambda solution: solution.cost)
    return MultiStart(best, tuple(attempts))
