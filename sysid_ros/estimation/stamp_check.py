# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the stamps of what was fitted are right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.estimation.stamps import LIMIT, find_shift

if TYPE_CHECKING:
    from sysid_ros.estimation.arrivals import WithArrivals
    from sysid_ros.estimation.residuals import Residuals
    from sysid_ros.estimation.solver.least_squares import Solution
    from sysid_ros.estimation.stamps import ShiftReport

#: Shifts are searched up to this part of the shortest sequence, where that is less than the limit.
_PART = 0.25


def examine_stamps(residuals: Residuals | WithArrivals, solution: Solution) -> ShiftReport | None:
    """Look for a shift of the measurements in time that explains them better.

    Args:
        residuals: What was fitted.
        solution: Where the fit ended.

    Returns:
        What was found; None where the sequences are too short to tell.
    """
    duration = min(run.sequence.duration for run in residuals.runs)
    timestep = max(run.timestep for run in residuals.runs)
    limit = min(LIMIT, _PART * duration)
    if limit < timestep:
        return None
    low = np.array([unknown.min_value for unknown in residuals.unknowns])
    high = np.array([unknown.max_value for unknown in residuals.unknowns])
    free = (solution.x > low) & (solution.x < high)
    return find_shift(
        residuals.shifted(solution.x, limit),
        solution.jacobian if free.all() else solution.jacobian[:, free],
        residuals.samples.sequence,
        timestep=timestep,
        limit=limit,
        times=residuals.samples.time,
        channels=residuals.samples.sensor,
    )
