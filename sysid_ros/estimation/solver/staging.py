# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A fit begun on part of the data: far from the optimum, most of them say the same."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.errors import FitError
from sysid_ros.estimation.solver.least_squares import SolverSettings, attempt, solve
from sysid_ros.estimation.solver.losses import cost
from sysid_ros.estimation.solver.problem import FitLog, Iteration, interrupt
from sysid_ros.signals import TimeSeries

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sysid_ros.estimation.residuals import Residuals
    from sysid_ros.estimation.solver.least_squares import Solution
    from sysid_ros.signals.trajectory import Trajectory

#: The stages before the last take so many of the sequences, or every fifth where that is more.
_FEW = 4
_STRIDE = 5
#: The stages before the last take the beginnings of sequences, these shares of their lengths: the
#: cost of short motions has fewer false minima, and their simulations cost less.
_SHARES = (0.1, 0.2, 0.4)
#: A fit whose end is doubtful is made again in more and finer stages, which take longer: it
#: stalled, or its residuals are so many times larger in the mean square than the noise.
_PATIENT_SHARES = (0.1, 0.2, 0.4, 0.6, 0.8)
_PATIENT_ROUGH = 1.0
_DOUBTFUL = 1.15
#: A stage has so many residuals for each unknown at least, or it is left out.
_RESIDUALS_PER_UNKNOWN = 20
#: With a lower limit of iterations, all of them are on all data.
_FEWEST_ITERATIONS = 10
#: Kind of the Jacobian in the trace's first entry: the step from there was found on parts.
PARTS = 'parts'
#: A stage ends when the next step would be shorter than this, in standard errors of its own.
_ROUGH = 4.0


def solve_in_stages(
    residuals: Residuals,
    start: NDArray[np.float64],
    *,
    settings: SolverSettings | None = None,
    tolerance: float | None = None,
    noise_known: bool = False,
    cancel: threading.Event | None = None,
    observe: Callable[[Iteration], None] | None = None,
) -> Solution:
    """Find the least cost, first on parts of the data, from there on all of them.

    The parts only find a start, which serves where it costs less than the one given. Should all
    data then end above the cost of that one, they are fitted from it, too, and the better solution
    counts. An end that is doubtful is compared with that of more stages.

    Args:
        residuals: The residual function.
        start: (p,) start values.
        settings: Which solver, loss and limit, of all stages together.
        tolerance: Largest predicted step at the end, in standard errors; the settings' accuracy
            unless given.
        noise_known: Whether residuals that are larger than the noise cast doubt on the end.
        cancel: Ends the solve when it is set.
        observe: Called after every iteration on all data.

    Returns:
        The solution for all data. The trace's first entry is the start given, with the cost of
        all data; the next is where the parts led to. Totals are those of all stages.

    Raises:
        CancelledError: ``cancel`` was set.
        FitError: The solve cannot begin; see `solve`.
    """
    settings = settings or SolverSettings()
    parts = parts_of(residuals) if settings.max_iterations >= _FEWEST_ITERATIONS else []
    if not parts:
        return solve(
            residuals,
            start,
            settings=settings,
            tolerance=tolerance,
            cancel=cancel,
            observe=observe,
        )
    interrupt(cancel)
    before = residuals.evaluations
    for part in parts:
        residuals.also(part)
    log = FitLog(settings.max_iterations, observe)
    at_start = cost(residuals(start[None])[:, 0], settings.loss)
    log(
        Iteration(
            0,
            at_start,
            0.0,
            residuals.evaluations - before,
            residuals.diverged,
            0.0,
            settings.max_iterations,
            jacobian=PARTS,
            x=tuple(start.tolist()),
        )
    )

    def solve_all(x: NDArray[np.float64], begun: Solution | None) -> Solution:
        left = max(settings.max_iterations - len(log.trace), 1)
        return solve(
            residuals,
            x,
            settings=dataclasses.replace(settings, max_iterations=left),
            tolerance=tolerance,
            begun=begun,
            cancel=cancel,
            observe=log,
        )

    def solve_parts(parts: list[Residuals], rough: float) -> Solution:
        last: Solution | None = None
        for part in parts:
            found = attempt(
                part,
                start if last is None else last.x,
                settings=dataclasses.replace(settings, rough=True),
                tolerance=rough,
                begun=last,
                cancel=cancel,
            )
            last = last if isinstance(found, FitError) else found
        if last is not None and cost(residuals(last.x[None])[:, 0], settings.loss) > at_start:
            last = None  # what parts say is not so of all
        return solve_all(start if last is None else last.x, last)

    best = solve_parts(parts, _ROUGH)
    mean_square = 2 * best.cost / max(len(best.residual), 1)
    doubtful = is_stuck(best) or (noise_known and mean_square > _DOUBTFUL)
    if doubtful and best.status != 'time':
        more = parts_of(residuals, _PATIENT_SHARES)
        for part in more:
            residuals.also(part)
        best = min((best, solve_parts(more, _PATIENT_ROUGH)), key=lambda each: each.cost)
    if best.cost > log.trace[0].cost:
        best = min((best, solve_all(start, None)), key=lambda each: each.cost)
    return dataclasses.replace(
        best,
        trace=tuple(log.trace),
        iterations=len(log.trace) - 1,
        evaluations=residuals.evaluations - before,
    )


def is_stuck(solution: Solution) -> bool:
    """Return whether a solve ended where it should not; a cost that jumps holds any solve up."""
    return solution.status == 'stalled' and not solution.jumps


def parts_of(residuals: Residuals, shares: tuple[float, ...] = _SHARES) -> list[Residuals]:
    """Return the residuals of growing parts of the data, none where all together are few."""
    if residuals.exact.all() or any(simulator.prescribed for simulator in residuals.simulators):
        return []
    stride = min(max(len(residuals.runs) // _FEW, 1), _STRIDE)
    chosen = [
        [run.sequence for run in simulator.runs[::stride]] for simulator in residuals.simulators
    ]
    needed = _RESIDUALS_PER_UNKNOWN * len(residuals.unknowns)
    parts = []
    for share in shares:
        begun = [[_begun(sequence, share) for sequence in own] for own in chosen]
        count = sum(
            np.isfinite(series.data).sum()
            for own in begun
            for sequence in own
            for series in sequence.measurements
        )
        if count >= needed:
            with contextlib.suppress(FitError):  # nothing moves so early
                parts.append(residuals.of(begun))
    return parts


def _begun(sequence: Trajectory, share: float) -> Trajectory:
    """Return the beginning of a sequence."""
    end = share * sequence.duration
    kept = [(series, series.times <= end) for series in sequence.measurements]
    return dataclasses.replace(
        sequence,
        measurements=tuple(
            TimeSeries(series.times[inside], series.data[inside], series.signal_mapping)
            for series, inside in kept
        ),
    )
