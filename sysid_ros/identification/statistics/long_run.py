# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Variance of the sum of a series whose neighbours are alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Scores are summed over bins of so many seconds before their correlation in time is estimated.
_BIN = 0.01
#: The autoregression that whitens the scores is kept stationary by this limit.
_LARGEST_AR = 0.97


def binned(values: NDArray[np.float64], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum values over as many instants as make up a bin on average, without empty bins.

    Bins of equal time would hold now two, now no samples of a series with about their rate, which
    hides how similar neighbours are.
    """
    instants, place = np.unique(times, return_inverse=True)
    spacing = float(instants[-1] - instants[0]) / max(len(instants) - 1, 1)
    size = max(round(_BIN / spacing), 1) if spacing > 0 else 1
    return np.bincount(place // size, values).astype(np.float64)


def long_run(series: list[NDArray[np.float64]]) -> tuple[float, float]:
    """Return the variance of the sum of some independent series, and their effective size."""
    before = np.concatenate([s[:-1] for s in series])
    after = np.concatenate([s[1:] for s in series])
    total = float(sum(s @ s for s in series))
    if total == 0 or not len(before):
        return total, float(len(series))
    rho1 = float(np.clip(before @ after / max(before @ before, 1e-300), -_LARGEST_AR, _LARGEST_AR))
    whitened = [s[1:] - rho1 * s[:-1] for s in series]
    count = sum(len(w) for w in whitened)
    first = sum(float(w[1:] @ w[:-1]) for w in whitened) / max(
        sum(float(w @ w) for w in whitened), 1e-300
    )
    first = float(np.clip(first, -_LARGEST_AR, _LARGEST_AR))
    alpha = 4 * first**2 / ((1 - first) ** 2 * (1 + first) ** 2)
    bandwidth = int(np.ceil(1.1447 * (alpha * count) ** (1 / 3)))
    variance = sum(float(w @ w) for w in whitened)
    for lag in range(1, bandwidth + 1):
        covariance = sum(float(w[lag:] @ w[:-lag]) for w in whitened if len(w) > lag)
        variance += 2 * (1 - lag / (bandwidth + 1)) * covariance
    variance = max(variance, 1e-300) / (1 - rho1) ** 2
    effective = sum(len(s) for s in series) * min(total / variance, 1.0)
    return variance, effective
