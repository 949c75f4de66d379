# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The weights of the sensors, found in turns with the parameters."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sysid_ros.estimation.arrivals import WithArrivals, with_arrivals
from sysid_ros.estimation.noise import arrival_jitter, smallest_noise
from sysid_ros.estimation.solver.descent import TOLERANCE
from sysid_ros.estimation.solver.differences import Differences
from sysid_ros.estimation.solver.least_squares import solve
from sysid_ros.estimation.solver.losses import rho
from sysid_ros.estimation.start import ROUGH_TOLERANCE

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

    from sysid_ros.estimation.fit_log import Log
    from sysid_ros.estimation.residuals import Residuals
    from sysid_ros.estimation.solver.least_squares import Solution, SolverSettings
    from sysid_ros.estimation.solver.losses import Loss
    from sysid_ros.estimation.start import Begin

#: The noise of each sensor is estimated anew from the residuals at most so often.
_WEIGHTINGS = 4
#: … and not again once no estimate moved by more than this fraction.
_WEIGHT_TOLERANCE = 0.02
#: Errors of arrival are looked for with so many of the first weights.
_TRIES = 2
#: In chaotic motion the cost has no more digits than this.
_WINDOW_TOLERANCE = 0.01
#: Where errors of arrival are taken out, what they do is known to no more digits than this.
_ARRIVAL_TOLERANCE = 0.05


def solve_weighted(
    begin: Begin,
    known_noise: Mapping[str, float],
    settings: SolverSettings,
    log: Log,
    cancel: threading.Event | None,
) -> tuple[Residuals | WithArrivals, Solution]:
    """Solve and estimate the noise in turns, until the estimates stand still.

    Errors of the commands' arrival are told from the noise before it is estimated. Where the model
    lacks more than them, they may be told with the weights that allow for that.

    Args:
        begin: Where from, and the residuals, whose noise is changed.
        known_noise: Sensor name to the standard deviation that stays as it is.
        settings: Solver, loss and the limit of iterations over all weightings together.
        log: Is told of every iteration.
        cancel: Ends the solve when it is set.

    Returns:
        The residuals, without what errors of arrival do if they could be told, and the solution.
    """
    residuals: Residuals | WithArrivals = begin.residuals
    floors = smallest_noise(residuals.runs)
    # A robust loss takes what a late command does for outliers; as errors, those would spread.
    plain = begin.window is None and settings.loss == 'linear'
    jitter = arrival_jitter([run.sequence for run in residuals.runs]) if plain else 0.0
    last = TOLERANCE if begin.window is None else _WINDOW_TOLERANCE

    def descend(known: Solution, tolerance: float) -> Solution:
        left = max(settings.max_iterations - len(log.trace), 1)
        return solve(
            residuals,
            known.x,
            settings=dataclasses.replace(settings, max_iterations=left),
            tolerance=tolerance,
            known=known,
            cancel=cancel,
            observe=log,
        )

    # Weights that are to change again are not worth the last digits.
    solution = begin.solution
    for weighting in range(1, _WEIGHTINGS + 1):
        if len(log.trace) >= settings.max_iterations:
            break
        if isinstance(residuals, WithArrivals):
            solution = residuals.locate(solution)
        elif jitter and weighting <= _TRIES:
            residuals, solution = with_arrivals(residuals, solution, jitter)
        ratio = residuals.spread(solution.residual, robust=settings.loss != 'linear')
        estimated = [s for s in ratio if s not in known_noise]
        moved = max((abs(ratio[s] - 1.0) for s in estimated), default=0.0)
        noise = dict(residuals.noise)
        noise.update({s: max(noise[s] * ratio[s], floors[s]) for s in estimated})
        settled = weighting == _WEIGHTINGS or moved < _WEIGHT_TOLERANCE
        if isinstance(residuals, WithArrivals):
            last = _ARRIVAL_TOLERANCE
        solution = descend(
            residuals.rescaled(solution, noise), last if settled else ROUGH_TOLERANCE
        )
        if settled:
            break
    return residuals, solution


def with_steady_slopes(
    residuals: Residuals | WithArrivals, solution: Solution, loss: Loss
) -> Solution:
    """Look at slopes over standard errors where a solve did not arrive: it may be for jumps."""
    differences = Differences(residuals)
    if solution.differences is not None:
        differences.take_steps(solution.differences)
    jacobian = solution.jacobian.copy()
    differences.coarsen(solution.x, solution.residual, jacobian)
    weight = rho(solution.residual, loss)[1]
    gradient = jacobian.T @ (weight * solution.residual)
    return dataclasses.replace(solution, jacobian=jacobian, gradient=gradient)
