# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Residual functions, their differences, and how much residuals say that stay alike."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from builders.jacobians import linearise
from sysid_ros.errors import FitError
from sysid_ros.fit.differences import Differences, FunctionResiduals, Variables
from sysid_ros.fit.solver import quadratic
from sysid_ros.model.targets import Unknown

TIMES = np.linspace(0, 2, 50)[:, None]


def waves(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (50, m) residuals of m frequencies and amplitudes."""
    return x[:, 1] * np.sin(x[:, 0] * TIMES)


def derivative(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.hstack([x[1] * TIMES * np.cos(x[0] * TIMES), np.sin(x[0] * TIMES)])


def unknowns(low: float = -100.0, high: float = 100.0) -> list[Unknown]:
    return [Unknown('w', (), 3.0, low, high), Unknown('a', (), 1.0, low, high)]


def test_a_log_scale_that_reaches_zero_is_linear_there() -> None:
    variables = Variables([Unknown('friction', (), 0.05, 0.0, 0.7, scale='log')])
    values = np.array([0.0, 1e-6, 0.05, 0.7])
    found = np.array([variables.of(np.array([x])) for x in values])
    np.testing.assert_allclose([variables.values(z)[0] for z in found], values, atol=1e-15)
    assert (found[0], found[-1]) == (variables.lower, variables.upper)
    for z in found[1:3]:
        ahead, behind = (variables.values(z + side * 1e-4) for side in (1, -1))
        np.testing.assert_allclose(variables.slope(z), (ahead - behind) / 2e-4, rtol=1e-5)
    near, far = variables.slope(found[1]), variables.slope(found[3])
    assert near[0] == pytest.approx(0.005, rel=1e-3)  # a tenth of the start
    assert far[0] == pytest.approx(0.7, rel=0.01)


def test_a_function_of_another_shape_is_an_error() -> None:
    residuals = FunctionResiduals(lambda x: waves(x)[:, :1], unknowns())
    with pytest.raises(FitError, match=r'shape \(n, 2\) for 2 candidates, got \(50, 1\)'):
        residuals(np.ones((2, 2)))


def test_residuals_that_are_not_finite_count_as_diverged() -> None:
    residuals = FunctionResiduals(lambda x: np.log(x.T), [Unknown('x', (), 1.0, -1.0, 2.0)])
    with np.errstate(invalid='ignore'):
        residuals(np.array([[1.0], [-1.0], [2.0]]))
    assert residuals.unstable.tolist() == [False, True, False]
    assert (residuals.diverged, residuals.evaluations) == (1, 3)


@pytest.mark.parametrize('bound', [4.0, 1e4, np.inf])
def test_a_smooth_function_has_accurate_forward_differences(bound: float) -> None:
    x = np.array([3.0, 1.0])
    residuals = FunctionResiduals(waves, unknowns(-bound, bound))
    jacobian = linearise(residuals, x)
    assert np.linalg.norm(jacobian - derivative(x)) < 3e-5 * np.linalg.norm(jacobian)
    differences = Differences(residuals)
    differences.at(x)
    assert differences.names == ()


@pytest.mark.parametrize('x', [(3.0, 1.0), (5.0, 2.0)])
def test_differences_at_a_bound_look_inwards(x: tuple[float, float]) -> None:
    seen = []

    def function(candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        seen.append(candidates)
        return waves(candidates)

    free = [Unknown('w', (), 4.0, 3.0, 5.0), Unknown('a', (), 1.5, 1.0, 2.0)]
    jacobian = linearise(FunctionResiduals(function, free), np.array(x))
    tried = np.concatenate(seen)
    assert np.all((tried >= [3.0, 1.0]) & (tried <= [5.0, 2.0]))
    expected = derivative(np.array(x))
    assert np.linalg.norm(jacobian - expected) < 3e-5 * np.linalg.norm(expected)


def test_a_step_off_a_cliff_is_taken_to_the_other_side() -> None:
    def cliff(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(x[:, 0] > 3.0, np.nan, waves(x))

    x = np.array([3.0, 1.0])
    jacobian = linearise(FunctionResiduals(cliff, unknowns()), x)
    assert np.linalg.norm(jacobian - derivative(x)) < 1e-4 * np.linalg.norm(jacobian)


def noisy(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return residuals with rough noise of 1e-8 by the frequency, as a solver's tolerance has."""
    phase = 1e9 * x[:, 0] * (1 + TIMES)
    return waves(x) + 1e-8 * np.sin(phase)


def test_noise_of_the_function_asks_for_central_differences() -> None:
    x = np.array([3.0, 1.0])
    differences = Differences(FunctionResiduals(noisy, unknowns()), 1e-4)
    linear = differences.at(x)
    before = np.linalg.norm(linear.jacobian - derivative(x), axis=0)
    assert differences.check(linear)
    after = np.linalg.norm(linear.jacobian - derivative(x), axis=0)
    assert after[0] < 0.75 * before[0]
    assert differences.names == ('w',)


@pytest.mark.parametrize('beside', [0.1, 0.0])
def test_slopes_over_jumps_are_found_beside_a_bound_too(beside: float) -> None:
    rng = np.random.default_rng(3)
    columns, phases = rng.normal(size=(400, 2)), rng.uniform(size=400)

    def function(x: NDArray[np.float64]) -> NDArray[np.float64]:
        teeth = np.floor(x[:, 1] / 1e-3 + phases[:, None]) - x[:, 1] / 1e-3
        return columns @ x.T + 5e-4 * teeth * columns[:, 1:]

    several = [Unknown(name, (), 1.0, 0.0, 10.0) for name in 'ab']
    differences = Differences(FunctionResiduals(function, several))
    linear = differences.at(np.array([1.0, beside]))
    assert differences.widen(linear)
    np.testing.assert_allclose(linear.jacobian[:, 0], columns[:, 0], rtol=1e-6)
    right = np.linalg.norm(linear.jacobian - columns, axis=0) / np.linalg.norm(columns, axis=0)
    assert right[1] < 0.1


SAMPLES = 20_000


def alike(memory: float, seed: int = 0) -> float:
    """Return how many residuals count as one, for slow columns and residuals with a memory."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(SAMPLES) * np.sqrt(1 - memory**2)
    residual = lfilter([1.0], [1.0, -memory], noise)
    time = np.arange(SAMPLES)
    jacobian = np.stack([np.ones(SAMPLES), np.sin(time / 500), np.cos(time / 900)], axis=1)
    far = np.full(3, np.inf)
    return quadratic(np.zeros(3), residual, jacobian, (-far, far), 'linear').alike


@pytest.mark.parametrize('seed', range(5))
def test_white_residuals_count_each(seed: int) -> None:
    assert alike(0.0, seed) < 1.5


@pytest.mark.parametrize('seed', range(5))
def test_residuals_with_a_memory_count_as_those_of_an_autoregression(seed: int) -> None:
    # Of a first-order autoregression (1 + a) / (1 - a) residuals count as one (Bartlett, 1935).
    memory = 0.9
    assert alike(memory, seed) == pytest.approx((1 + memory) / (1 - memory), rel=0.5)


@pytest.mark.parametrize(('direction', 'expected'), [(0, 19.0), (1, 1.0)])
def test_residuals_are_as_alike_as_a_step_sees_them(direction: int, expected: float) -> None:
    # A fast column tells little of slow noise, a slow one little else.
    rng = np.random.default_rng(0)
    slow = lfilter([1.0], [1.0, -0.9], rng.standard_normal(SAMPLES) * np.sqrt(1 - 0.9**2))
    time = np.arange(SAMPLES)
    jacobian = np.stack([np.sin(time / 500), np.where(time % 2, 1.0, -1.0)], axis=1)
    residual = slow + rng.standard_normal(SAMPLES) * 0.01
    residual = residual - jacobian @ np.linalg.lstsq(jacobian, residual)[0]
    residual = residual + 0.1 * jacobian[:, direction]
    far = np.full(2, np.inf)
    found = quadratic(np.zeros(2), residual, jacobian, (-far, far), 'linear')
    assert found.alike == pytest.approx(expected, rel=0.5)
