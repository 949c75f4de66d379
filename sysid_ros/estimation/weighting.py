# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The weights of the sensors, found in turns with the parameters."""

from __future__ import annotations

from sysid_ros.estimation.arrivals import Arrivals, locate, settle
from sysid_ros.estimation.context import FitContext
from sysid_ros.estimation.noise import smallest_noise
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver.least_squares import LIMITS, Solution, stopped
from sysid_ros.estimation.start import ROUGH_TOLERANCE, FirstSolution

#: The noise of each sensor is estimated anew from the residuals at most so often, and not again
#: once no estimate moved by more than this fraction.
_WEIGHTINGS, _WEIGHT_TOLERANCE = 4, 0.02
#: In chaotic motion the cost has no more digits than this.
_WINDOW_TOLERANCE = 0.01


def solve_weighted(
    context: FitContext, first: FirstSolution, jitter: float = 0.0, *, once: bool = False
) -> tuple[Solution, Residuals, Arrivals | None]:
    """Solve and estimate the noise in turns, until the estimates stand still.

    Errors of the commands' arrival are told from the noise before it is estimated.

    Args:
        context: What all stages of the fit share.
        first: Where from.
        jitter: Of the stamps of commands, s; 0 where messages have no errors of their own.
        once: Whether one estimate is enough, as of a fit that another one follows.
    """
    residuals, solution, arrivals = first.residuals, first.solution, None
    floors = smallest_noise(residuals.runs)
    last = context.settings.accuracy
    if first.window is not None:
        last = max(last, _WINDOW_TOLERANCE)
    robust = context.settings.loss != 'linear'
    for weighting in range(1, _WEIGHTINGS + 1):
        if not context.may_go_on:
            at_limit = solution.status in LIMITS or not context.is_limited
            return solution if at_limit else stopped(solution), residuals, arrivals
        if jitter:
            located = locate(residuals, solution, jitter, arrivals)
            if located is not None:
                arrivals, residuals, solution = located
                last = ROUGH_TOLERANCE  # the errors are settled together with the values
        white = solution.residual
        if arrivals is not None:
            white = arrivals.whitened(residuals, white)
        ratio = residuals.spread(white, robust=robust)
        estimated = [s for s in ratio if s not in context.known_noise]
        moved = max((abs(ratio[s] - 1.0) for s in estimated), default=0.0)
        noise = dict(residuals.noise)
        noise.update({s: max(noise[s] * ratio[s], floors[s]) for s in estimated})
        settled = once or weighting == _WEIGHTINGS or moved < _WEIGHT_TOLERANCE
        known = residuals.rescaled(solution, noise)
        # Weights that are to change again are not worth the last digits.
        solution = context.solve(residuals, known.x, last if settled else ROUGH_TOLERANCE, known)
        if settled:
            break
    if arrivals is not None:
        # The last solve left the errors where they were: both together are at their optimum after.
        arrivals, residuals, solution = settle(arrivals, residuals, solution)
    return solution, residuals, arrivals
