# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Jacobians as a solver finds them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysid_ros.fit.differences import Differences, ResidualLike


def linearise(residuals: ResidualLike, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the (n, p) derivative of residuals at (p,) values, by differences that are checked."""
    differences = Differences(residuals)
    found = differences.at(x)
    differences.check(found)
    return found.jacobian
