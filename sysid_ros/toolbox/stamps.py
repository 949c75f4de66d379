# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One shift in time of all measurements that explains them better than their stamps do.

Stamps that are late by one time step bend every parameter a little and leave hardly any trace in
the residuals, because the parameters absorb most of it. What they cannot absorb is visible: the
residuals at moved stamps, projected on what the Jacobian does not span.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.optimize
import scipy.special
from numpy.typing import NDArray

from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver.solver import Solution

Array = NDArray[np.float64]

#: Shifts up to this, s, and this part of the shortest sequence are looked at, in so many steps each
#: way before the best is refined.
LIMIT, _PART_OF_SEQUENCE, _STEPS = 0.05, 0.25, 16
#: Probability of a false alarm. A signal of frequency f turns its residual by 2π·f·(2·LIMIT) rad
#: over the range, half a turn being one direction that is tried; 50 Hz give 10.
_LEVEL, _DIRECTIONS = 1e-3, 10
#: Shifts below this part of a time step are below what any stamp promises.
_SMALLEST_SHIFT = 0.01
#: A shift is taken for one time step that is one within so many standard errors, but at least the
#: first and at most the second part of it.
_ERRORS, _NEAR, _FAR = 2.0, 0.1, 0.4
#: Singular values of the scaled Jacobian below this part of the largest drown in rounding.
_SMALLEST_SINGULAR = 1e-6
_ONE_STEP_LATE = (
    'this is one time step late, as if stamped by the state times of mujoco.rollout: '
    "pass sensor_stamps='rollout'"
)
_ANY_SHIFT = 'check the clock or add a delay target sensor/*/delay'


class StampShift(NamedTuple):
    """How much better moved measurements are explained.

    Attributes:
        seconds: To add to the stamps of the measurements; negative when they are late.
        error: Standard error of that, s.
        gain: Part of the cost that the shift removes, the parameters being readjusted to it.
        significant: Whether the shift is no accident.
    """

    seconds: float
    error: float
    gain: float
    significant: bool

    def sentence(self, timestep: float) -> str:
        """Return the warning: the shift, what it gains, and what to do; empty where there is none.

        Args:
            timestep: The model's, s.
        """
        if not self.significant:
            return ''
        near = np.clip(_ERRORS * self.error, _NEAR * timestep, _FAR * timestep)
        advice = _ONE_STEP_LATE if abs(self.seconds + timestep) <= near else _ANY_SHIFT
        return (
            f'Measurements moved by {1e3 * self.seconds:+.3g} ms are explained significantly '
            f'better, which removes {100 * self.gain:.3g} % of the remaining cost: {advice}.'
        )


def find_shift(residuals: Residuals, solution: Solution) -> StampShift | None:
    """Look for a shift of the measurements in time that explains them better.

    To first order the parameters' answer to a shift s is a least-squares step, so what they leave
    of the residuals r(s) is r - J J⁺ r. The shift that makes the sum of its squares least is tested
    like a regressor of residuals whose noise is autoregressive of order 1.

    Args:
        residuals: What was fitted.
        solution: Where the fit ended.

    Returns:
        What was found; None where the sequences are too short to tell.
    """
    timestep = max(run.timestep for run in residuals.runs)
    duration = min(run.sequence.duration for run in residuals.runs)
    limit = min(LIMIT, _PART_OF_SEQUENCE * duration)
    if limit < timestep:
        return None
    samples, records = residuals.samples, residuals.records(solution.x)
    ends = np.array([(run.steps - 2) * run.timestep for run in residuals.runs])
    order = np.lexsort((samples.time, samples.sensor, samples.sequence))
    # The same samples are compared at every shift.
    inside = (samples.time >= limit) & (samples.time <= ends[samples.sequence] - limit)
    rows = order[(inside & (samples.sensor >= 0))[order]]
    if not len(rows):
        return None
    basis = _basis(residuals, solution, rows)

    def left(shift: float) -> Array:
        moved = [
            {field: _later(values, shift / run.timestep) for field, values in record.items()}
            for run, record in zip(residuals.runs, records, strict=True)
        ]
        found = residuals.of_records(solution.x, moved)[rows]
        return np.asarray(found - basis @ (basis.T @ found))

    def cost(shift: float) -> float:
        return float(np.sum(left(shift) ** 2))

    spacing = timestep * np.ceil(limit / timestep / _STEPS)
    scan = spacing * np.arange(-int(limit / spacing), int(limit / spacing) + 1)
    best = scan[int(np.argmin([cost(shift) for shift in scan]))]
    low, high = max(best - spacing, -limit), min(best + spacing, limit)
    best = scipy.optimize.minimize_scalar(cost, bounds=(low, high), method='bounded').x
    before, rest = cost(0.0), left(best)
    after = float(rest @ rest)
    if not after < before:
        return StampShift(0.0, np.inf, 0.0, significant=False)
    alike = float(np.clip(rest[1:] @ rest[:-1] / max(after, 1e-300), 0.0, 1.0 - 1e-3))
    squares = (before - after) / max(after, 1e-300) * len(rows) * (1 - alike) / (1 + alike)
    certain = squares > scipy.special.ndtri(_LEVEL / _DIRECTIONS / 2) ** 2
    return StampShift(
        float(best),
        float(abs(best) / np.sqrt(squares)),
        1 - after / before,
        significant=bool(certain and abs(best) >= _SMALLEST_SHIFT * timestep),
    )


def _basis(residuals: Residuals, solution: Solution, rows: NDArray[np.int64]) -> Array:
    """Return an orthonormal (n, rank) basis of the free columns of the Jacobian."""
    low = np.array([unknown.min_value for unknown in residuals.unknowns])
    high = np.array([unknown.max_value for unknown in residuals.unknowns])
    columns = solution.jacobian[np.ix_(rows, (solution.x > low) & (solution.x < high))]
    norms = np.linalg.norm(columns, axis=0)
    columns = columns[:, norms > 0] / norms[norms > 0]
    basis, singular, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(basis[:, singular > _SMALLEST_SINGULAR * singular.max(initial=0.0)])


def _later(values: Array, rows: float) -> Array:
    """Return what (n, k) values are so many rows later, the first or last where there are none."""
    place = np.clip(np.arange(len(values)) + rows, 0, len(values) - 1)
    first = np.minimum(place.astype(np.int64), len(values) - 2)
    share = (place - first)[:, None]
    return np.asarray((1 - share) * values[first] + share * values[first + 1])
