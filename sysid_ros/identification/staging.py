# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A fit begun on part of the data: far from the optimum, most of them say the same."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.identification.descent import TOLERANCE
from sysid_ros.identification.least_squares import SolverSettings, solve
from sysid_ros.identification.losses import cost
from sysid_ros.signals import TimeSeries

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sysid_ros.identification.least_squares import Solution
    from sysid_ros.identification.problem import Iteration
    from sysid_ros.identification.residuals import Residuals
    from sysid_ros.identification.sequence import Sequence

#: From so many sequences on, a part is some of them; of fewer, the beginning of each.
_FEW = 4
#: A part has this share of the sequences, or of their lengths …
_SHARE_OF_SEQUENCES = 0.2
_SHARE_OF_LENGTH = 0.4
#: … and so many residuals for each unknown at least, or there is no part.
_RESIDUALS_PER_UNKNOWN = 50
#: The fit to the part ends when the next step would be shorter than this, in standard errors.
_ROUGH = 1.0


def solve_in_stages(
    residuals: Residuals,
    start: NDArray[np.float64],
    *,
    settings: SolverSettings | None = None,
    tolerance: float = TOLERANCE,
    cancel: threading.Event | None = None,
    observe: Callable[[Iteration], None] | None = None,
) -> Solution:
    """Find the least cost, first on part of the data, from there on all of them.

    The part only finds a start: should all data then end above the cost of the start given, they
    are fitted from that one, too, and the better solution counts.

    Args:
        residuals: The residual function.
        start: (p,) start values.
        settings: Which solver, loss and limit, of all stages together.
        tolerance: Largest predicted step at the end, in standard errors.
        cancel: Ends the solve when it is set.
        observe: Called after every iteration of every stage.

    Returns:
        The solution for all data; its trace and totals are those of all stages.

    Raises:
        CancelledError: ``cancel`` was set.
        FitError: The solve cannot begin; see `solve`.
    """
    settings = settings or SolverSettings()
    part = part_of(residuals)
    if part is None:
        return solve(
            residuals,
            start,
            settings=settings,
            tolerance=tolerance,
            cancel=cancel,
            observe=observe,
        )
    stages: list[Solution] = []

    def stage(of: Residuals, x: NDArray[np.float64], tolerance: float) -> Solution:
        done = sum(solution.iterations for solution in stages)
        found = solve(
            of,
            x,
            settings=dataclasses.replace(
                settings, max_iterations=max(settings.max_iterations - done, 1)
            ),
            tolerance=tolerance,
            begun=stages[-1] if stages else None,
            rough=of is not residuals,
            cancel=cancel,
            observe=observe,
        )
        stages.append(found)
        return found

    rough = stage(part, start, _ROUGH)
    best = stage(residuals, rough.x, tolerance)
    if best.cost > cost(residuals(start[None])[:, 0], settings.loss):
        best = min((best, stage(residuals, start, tolerance)), key=lambda found: found.cost)
    return dataclasses.replace(
        best,
        trace=tuple(entry for solution in stages for entry in solution.trace),
        iterations=sum(solution.iterations for solution in stages),
        evaluations=sum(solution.evaluations for solution in stages),
    )


def part_of(residuals: Residuals) -> Residuals | None:
    """Return the residuals of part of the data; None where they are too few to leave some out."""
    if residuals.exact.all():
        return None
    needed = _RESIDUALS_PER_UNKNOWN * len(residuals.unknowns)
    total = len(residuals.samples.time)
    if len(residuals.runs) >= _FEW:
        stride = round(1 / _SHARE_OF_SEQUENCES)
        chosen = [
            [run.sequence for run in simulator.runs[:: min(stride, len(simulator.runs))]]
            for simulator in residuals.simulators
        ]
        share = sum(map(len, chosen)) / len(residuals.runs)
    else:
        share = _SHARE_OF_LENGTH
        chosen = [
            [_begun(run.sequence, share) for run in simulator.runs]
            for simulator in residuals.simulators
        ]
    return residuals.of(chosen) if share * total >= needed else None


def _begun(sequence: Sequence, share: float) -> Sequence:
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
