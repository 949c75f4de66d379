# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Variance of the sum of series whose neighbours are alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.fft

if TYPE_CHECKING:
    from numpy.typing import NDArray


def bartlett(series: NDArray[np.float64], alike: float) -> NDArray[np.float64]:
    """Return the (k,) variances of the sums of series with Bartlett's kernel.

    Args:
        series: (n, k) series.
        alike: Number of neighbours that are alike; the kernel reaches so far.
    """
    count = len(series)
    reach = int(min(alike, count - 1))
    variance: NDArray[np.float64] = np.sum(series**2, axis=0)
    if reach < 1:
        return variance
    size = scipy.fft.next_fast_len(count + reach, real=True)
    power = np.abs(scipy.fft.rfft(series, size, axis=0)) ** 2
    products = scipy.fft.irfft(power, size, axis=0)[1 : reach + 1]
    weights = 1.0 - np.arange(1, reach + 1) / (reach + 1)
    total: NDArray[np.float64] = variance + 2.0 * weights @ products
    return total
