# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How far predictions of a fitted model may be off for what is not known of its parameters."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.identification.fit import Fit
from sysid_ros.rollout.prediction import predict_each
from sysid_ros.signals.trajectory import Trajectory

#: Directions in which parameters are known better than this part of the worst move nothing.
_LEAST = 1e-6


def deviations(
    fit: Fit, model: mujoco.MjSpec, sequences: Sequence[Trajectory], threads: int = 0
) -> list[tuple[NDArray[np.float64], ...]]:
    """Return standard deviations of what a fit predicts, for the covariance of its parameters.

    Each of the directions in which the estimates are independent is tried by one standard error, as
    far as the bounds allow; what that changes adds up in squares.

    Args:
        fit: What was found.
        model: The nominal model.
        sequences: What is predicted.
        threads: Simulation threads; 0 means one per core.

    Returns:
        For each sequence, (n, width) for each of its series of measurements, in the sensors' units.
    """
    if not sequences:
        return []
    x, count = fit.solution.x, len(fit.parameters)
    covariance = np.nan_to_num(fit.inference.covariance[:count, :count])
    size = np.sqrt(np.diag(covariance))
    unit = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(covariance / np.outer(unit, unit))
    own = values > _LEAST * max(float(values.max(initial=0.0)), np.finfo(float).tiny)
    moves = (vectors[:, own] * np.sqrt(values[own])).T * size
    low = np.array([parameter.min_value for parameter in fit.parameters])
    high = np.array([parameter.max_value for parameter in fit.parameters])
    ways = [np.clip(x + sign * moves, low, high) for sign in (1.0, -1.0)]
    lengths = [np.linalg.norm((way - x) / unit, axis=1) for way in ways]
    candidates = np.where((lengths[0] >= lengths[1])[:, None], *ways)
    found: dict[int, list[NDArray[np.float64]]] = {}
    expected: dict[int, tuple[NDArray[np.float64], ...]] = {}
    for run, candidate, channels, diverged in predict_each(
        model,
        sequences,
        fit.parameters,
        np.concatenate([x[None], candidates]),
        threads,
        drives=fit.drives,
    ):
        if candidate == 0:
            expected[run], found[run] = channels, [np.zeros_like(each) for each in channels]
        elif not diverged:
            found[run] = [
                total + (moved - middle) ** 2
                for total, moved, middle in zip(found[run], channels, expected[run], strict=True)
            ]
    return [tuple(np.sqrt(each) for each in found[run]) for run in range(len(sequences))]
