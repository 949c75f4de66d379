# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The model of the cost knows how much residuals say that stay alike."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from sysid_ros.estimation.solver.quadratic import (
    Point,
    Secant,
    quadratic,
    updated,
)

COUNT = 20_000


def alike(memory: float, seed: int = 0) -> float:
    """Return how many residuals count as one, for slow columns and residuals with a memory."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(COUNT) * np.sqrt(1 - memory**2)
    residual = lfilter([1.0], [1.0, -memory], noise)
    time = np.arange(COUNT)
    jacobian = np.stack([np.ones(COUNT), np.sin(time / 500), np.cos(time / 900)], axis=1)
    point = Point(
        np.zeros(3), residual, 0.5 * float(residual @ residual), unstable=False, jacobian=jacobian
    )
    far = np.full(3, np.inf)
    return quadratic(point, -far, far, Secant(3, 'linear')).alike


@pytest.mark.parametrize('seed', range(5))
def test_white_residuals_count_each(seed: int) -> None:
    assert alike(0.0, seed) < 1.5


@pytest.mark.parametrize('seed', range(5))
def test_residuals_with_a_memory_count_as_those_of_an_autoregression(seed: int) -> None:
    # Of a first-order autoregression (1 + a) / (1 - a) residuals count as one (Bartlett, 1935).
    memory = 0.9
    assert alike(memory, seed) == pytest.approx((1 + memory) / (1 - memory), rel=0.5)


def test_few_residuals_do_not_tell() -> None:
    point = Point(np.zeros(1), np.ones(50), 25.0, unstable=False, jacobian=np.ones((50, 1)))
    assert quadratic(point, -np.ones(1), np.ones(1), Secant(1, 'linear')).alike == 1.0


def test_an_updated_jacobian_says_what_the_step_changed_and_nothing_across_it() -> None:
    rng = np.random.default_rng(0)
    jacobian, residual, z = rng.normal(size=(50, 3)), rng.normal(size=50), rng.normal(size=3)
    unit = np.array([1.0, 0.1, 10.0])
    step = unit * rng.normal(size=3)
    before = Point(z, residual, 1.0, unstable=False, jacobian=jacobian)
    after = Point(z + step, rng.normal(size=50), 1.0, unstable=False)
    found = updated(before, after, unit)
    np.testing.assert_allclose(found @ step, after.residual - residual, atol=1e-12)
    across = unit * np.cross(step / unit, rng.normal(size=3))
    np.testing.assert_allclose(found @ across, jacobian @ across, atol=1e-12)


def test_an_update_leaves_alone_what_an_unknown_does_not_act_on() -> None:
    rng = np.random.default_rng(1)
    jacobian, residual, z = rng.normal(size=(50, 3)), rng.normal(size=50), rng.normal(size=3)
    jacobian[40:, 0] = jacobian[:10, 2] = jacobian[20, :] = 0.0
    step = rng.normal(size=3)
    before = Point(z, residual, 1.0, unstable=False, jacobian=jacobian)
    after = Point(z + step, rng.normal(size=50), 1.0, unstable=False)
    found = updated(before, after, np.ones(3))
    assert np.all(found[jacobian == 0] == 0.0)
    told = np.any(jacobian != 0, axis=1)
    np.testing.assert_allclose((found @ step)[told], (after.residual - residual)[told], atol=1e-12)
