# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a simulation still says something about the parameters at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.estimation.noise import measured
from sysid_ros.estimation.solver.differences import scales

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.estimation.residuals import Residuals

#: The parameters are moved by this part of their magnitudes: far above rounding errors, …
_PROBE = 1e-6
#: … and the effect is scaled to this one: parameters are seldom known better at a start.
_SMALL = 1e-3
#: What counts is the last part of each sequence, where errors have grown.
_LATE = 0.75
_SEED = 0
#: Ground is rough where a start that is a tenth off predicts nothing.
ROUGH = 0.01
#: Values that fit parts of the data have smaller errors: they are lost where a thousandth counts.
LOST = 1.0


def neighbour(residuals: Residuals, x: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return (p,) values beside a candidate's, the first ones moved a little in one direction.

    Args:
        residuals: What the values are for.
        x: (p,) candidate.
        count: Number of unknowns that are moved.
    """
    signs = np.random.default_rng(_SEED).choice([-1.0, 1.0], count)
    unknowns = residuals.unknowns[:count]
    size = np.abs(x[:count])
    step = _PROBE * np.where(size > 0, size, scales(unknowns))
    high = np.array([unknown.max_value for unknown in unknowns])
    low = np.array([unknown.min_value for unknown in unknowns])
    signs = np.where(x[:count] + step > high, -1.0, np.where(x[:count] - step < low, 1.0, signs))
    moved: NDArray[np.float64] = x.copy()
    moved[:count] += signs * step
    return moved


def roughness(residuals: Residuals, at: NDArray[np.float64], beside: NDArray[np.float64]) -> float:
    """Return how far a change of the parameters by a thousandth moves the end of the motion.

    The cost is smooth where a small change of the parameters changes the motion a little. In
    chaotic and unstable motion the change grows exponentially with the length of the simulation,
    and so does the number of false minima (A. H. Ribeiro et al., "On the smoothness of nonlinear
    system identification", Automatica 121, 2020): from about 1 on, a start that is a thousandth
    off predicts nothing.

    Args:
        residuals: The residual function.
        at: (n,) residuals of a candidate.
        beside: (n,) those of its neighbour.

    Returns:
        The median over the sensors of the change in the last quarter of the sequences, in the
        sensor's range.
    """
    samples = residuals.samples
    ends = np.zeros(len(residuals.runs))
    np.maximum.at(ends, samples.sequence, samples.time)
    late = samples.time >= _LATE * ends[samples.sequence]
    extents: dict[str, float] = {}
    for sensor, values in measured(residuals.runs):
        extents[sensor] = max(extents.get(sensor, 0.0), float(np.ptp(values)))
    change = beside - at
    found = []
    for index, sensor in enumerate(samples.sensors):
        own = change[late & (samples.sensor == index)]
        if len(own) and extents[sensor] > 0:
            moved = float(np.sqrt(np.mean(own**2))) * residuals.noise[sensor]
            found.append(moved / extents[sensor])
    return float(np.median(found)) * _SMALL / _PROBE if found else 0.0


def roughness_at(residuals: Residuals, x: NDArray[np.float64], count: int) -> float:
    """Return the same for a candidate; infinite where its simulation becomes unstable."""
    values = residuals(np.stack([x, neighbour(residuals, x, count)]))
    if residuals.unstable.any():
        return float('inf')
    return roughness(residuals, values[:, 0], values[:, 1])
