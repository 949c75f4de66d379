# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The weights of the sensors, found in turns with the parameters."""

from __future__ import annotations

from sysid_ros.estimation.arrivals import Arrivals
from sysid_ros.estimation.context import FitContext
from sysid_ros.estimation.noise import smallest_noise
from sysid_ros.estimation.solver.solver import LIMITS, Solution, stopped
from sysid_ros.estimation.start import ROUGH_TOLERANCE, FirstSolution

#: The noise of each sensor is estimated anew from the residuals at most so often, and not again
#: once no estimate moved by more than this fraction.
_WEIGHTINGS, _WEIGHT_TOLERANCE = 4, 0.02
#: In chaotic motion the cost has no more digits than this.
_WINDOW_TOLERANCE = 0.01


def solve_weighted(
    context: FitContext, first: FirstSolution, arrivals: Arrivals, *, once: bool = False
) -> Solution:
    """Solve and estimate the noise in turns, until the estimates stand still.

    Errors of the commands' arrival are told from the noise before it is estimated. Where the model
    lacks more than them, they may be told with the weights that allow for that.

    Args:
        context: What all stages of the fit share.
        first: Where from.
        arrivals: Finds when commands acted, and says what is fitted; the noise of these residuals
            is changed.
        once: Whether one estimate is enough, as of a fit that another one follows.
    """
    floors = smallest_noise(arrivals.residuals.runs)
    last = context.settings.accuracy
    if first.window is not None:
        last = max(last, _WINDOW_TOLERANCE)
    robust = context.settings.loss != 'linear'
    solution = first.solution
    for weighting in range(1, _WEIGHTINGS + 1):
        if not context.may_go_on:
            at_limit = solution.status in LIMITS or not context.is_limited
            return solution if at_limit else stopped(solution)
        solution = arrivals.locate(solution)
        residuals = arrivals.residuals
        ratio = residuals.spread(solution.residual, robust=robust)
        estimated = [s for s in ratio if s not in context.known_noise]
        moved = max((abs(ratio[s] - 1.0) for s in estimated), default=0.0)
        noise = dict(residuals.noise)
        noise.update({s: max(noise[s] * ratio[s], floors[s]) for s in estimated})
        settled = once or weighting == _WEIGHTINGS or moved < _WEIGHT_TOLERANCE
        known = residuals.rescaled(solution, noise)
        # Weights that are to change again are not worth the last digits.
        tolerance = arrivals.tolerance(last) if settled else ROUGH_TOLERANCE
        solution = context.solve(residuals, known.x, tolerance, known)
        if settled:
            break
    return solution
