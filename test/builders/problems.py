# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Linear problems whose residuals and Jacobian are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.schema import Loss
from sysid_ros.fit.differences import Samples
from sysid_ros.fit.linear import Linear, linearised
from sysid_ros.fit.solver import Solution
from sysid_ros.model.targets import Unknown


def solution(
    x: NDArray[np.float64], residual: NDArray[np.float64], jacobian: NDArray[np.float64]
) -> Solution:
    """Return where a solver ended."""
    return Solution(x, residual, 0.0, 'cost', '', success=True, trace=(), jacobian=jacobian)


def problem(
    x: NDArray[np.float64],
    residual: NDArray[np.float64],
    jacobian: NDArray[np.float64],
    unknowns: Sequence[Unknown],
    samples: Samples,
    loss: Loss = 'linear',
) -> Linear:
    """Return the problem at (p,) values."""
    return linearised(solution(x, residual, jacobian), unknowns, samples, loss)
