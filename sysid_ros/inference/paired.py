# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Models compared on the same data: differences of their errors, part by part."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: A standard error needs so many differences.
FEWEST_PARTS = 2


def paired(
    errors: NDArray[np.float64], best: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean of the differences to the best on each part, and its standard error."""
    models, count = errors.shape
    if not count:
        return np.full(models, np.nan), np.full(models, np.nan)
    differences = errors - errors[best]
    if count < FEWEST_PARTS:
        return differences.mean(axis=1), np.full(models, np.nan)
    return differences.mean(axis=1), differences.std(axis=1, ddof=1) / math.sqrt(count)
