# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fitting windows that grow until they are the whole recording, or until motion is chaotic."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.errors import CancelledError, FitError
from sysid_ros.estimation.solver.least_squares import solve
from sysid_ros.estimation.start.roughness import LOST, ROUGH, roughness_at
from sysid_ros.estimation.start.windows import Cutter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sysid_ros.estimation.context import FitContext
    from sysid_ros.estimation.residuals import Residuals
    from sysid_ros.estimation.solver.least_squares import Solution

#: The first windows are so long, s; each stage doubles that.
_SHORTEST = 0.25
#: A stage ends when the next step would be shorter than this, in standard errors of its own.
_STAGE_TOLERANCE = 1.0


@dataclass(frozen=True)
class GrownWindows:
    """What growing windows led to.

    Attributes:
        residuals: Those of the longest windows whose ends still say something.
        solution: The rough solution for them.
        seconds: Their length.
        taken: Share of the data that is in them.
        leads: Whether whole sequences can be fitted from there.
    """

    residuals: Residuals
    solution: Solution
    seconds: float
    taken: float
    leads: bool = False


def solve_in_windows(
    context: FitContext, residuals: Residuals, start: NDArray[np.float64]
) -> GrownWindows | None:
    """Fit windows that grow until they are the whole sequences, or until motion becomes chaotic.

    Args:
        context: What all stages of the fit share; each length of windows has all iterations.
        residuals: The whole problem.
        start: (p,) values.

    Returns:
        The last stage from whose end motion could still be predicted; None where there is none.

    Raises:
        CancelledError: ``cancel`` was set.
    """
    cutter = Cutter(residuals)
    count = len(start)
    x, best = start, None
    for seconds in _lengths(cutter.longest):
        windows = cutter.cut(seconds)
        if windows is None:
            continue
        with ExitStack() as opened:
            simulator = context.simulator(windows.unknowns, windows.sequences, opened)
            part = context.residuals(simulator, residuals.noise)
            residuals.also(part)
            begin = np.array([unknown.nominal for unknown in windows.unknowns])
            begin[:count] = x
            try:
                solution = solve(
                    part,
                    begin,
                    settings=dataclasses.replace(context.settings, rough=True),
                    tolerance=_STAGE_TOLERANCE,
                    cancel=context.cancel,
                )
            except CancelledError:
                raise
            except FitError:
                break
            if roughness_at(part, solution.x, count) > ROUGH:
                break
            x = solution.x[:count]
            best = GrownWindows(part, solution, seconds, windows.taken)
            context.opened.enter_context(opened.pop_all())
    return best and dataclasses.replace(best, leads=roughness_at(residuals, x, count) <= LOST)


def _lengths(longest: float) -> Iterator[float]:
    """Yield the lengths of windows, s: doubled as long as a sequence has room for two."""
    seconds = _SHORTEST
    while 2 * seconds <= longest:
        yield seconds
        seconds *= 2
