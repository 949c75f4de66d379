# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Derivatives along directions that hardly change the residuals, where the truth is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from builders.problems import solution
from sysid_ros.fit.linear import sharpened
from sysid_ros.model.targets import Target, Unknown

TIMES = np.arange(400) / 100


class Residuals:
    """Residuals of a formula."""

    def __init__(
        self,
        formula: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        bounds: list[tuple[float, float]],
    ) -> None:
        self.formula = formula
        self.unknowns = tuple(
            Unknown(f'p{i}', (), max(low, 1.0), low, high) for i, (low, high) in enumerate(bounds)
        )
        self.unstable = np.zeros(0, dtype=bool)
        self.exact = np.zeros(len(bounds), dtype=bool)
        self.seen: list[NDArray[np.float64]] = []

    def __call__(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (n, m) residuals of (m, p) candidates."""
        self.seen.extend(candidates)
        self.unstable = np.zeros(len(candidates), dtype=bool)
        return np.stack([self.formula(x) for x in candidates], axis=1)


def ratio(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what sees only the ratio of the first two, strongly nonlinearly, and the third."""
    moved: NDArray[np.float64] = 100 * np.sin(5 * TIMES * x[0] / x[1]) + x[2] * np.cos(TIMES)
    return moved


def nearly(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the same, but a little more of the second alone."""
    moved: NDArray[np.float64] = ratio(x) + 0.3 * x[1] * np.cos(9 * TIMES)
    return moved


def columns(formula: Any, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the derivative, good to about 1e-10."""
    step = 1e-4
    steps = step * np.eye(len(x))
    fine = [
        (8 * (formula(x + s) - formula(x - s)) - formula(x + 2 * s) + formula(x - 2 * s))
        for s in steps
    ]
    return np.stack(fine, axis=1) / (12 * step)


def weakest(jacobian: NDArray[np.float64]) -> float:
    """Return the least singular value of the scaled columns."""
    return float(np.linalg.svd(jacobian / np.linalg.norm(jacobian, axis=0))[1][-1])


def sharpen(
    formula: Any, x: NDArray[np.float64], bounds: list[tuple[float, float]], error: float
) -> tuple[NDArray[np.float64], Residuals]:
    rough = columns(formula, x)
    noise = np.random.default_rng(2).standard_normal(rough.shape)
    rough += error * np.linalg.norm(rough, axis=0) * noise / np.linalg.norm(noise, axis=0)
    residuals = Residuals(formula, bounds)
    end = solution(x, formula(x), rough)
    return sharpened(cast('Any', residuals), end).jacobian, residuals


@pytest.mark.parametrize('error', [1e-6, 1e-4, 3e-3])
def test_errors_of_columns_neither_hide_that_only_a_ratio_is_seen_nor_little_information(
    error: float,
) -> None:
    x, bounds = np.array([3.0, 2.0, 1.0]), [(0.1, 10.0)] * 3
    assert weakest(sharpen(ratio, x, bounds, error)[0]) < 2e-6
    mended, _ = sharpen(nearly, x, bounds, error)
    assert weakest(mended) == pytest.approx(weakest(columns(nearly, x)), rel=0.05)


def test_no_step_leaves_the_bounds() -> None:
    x = np.array([3.0, 2.0, 1.0])
    mended, residuals = sharpen(ratio, x, [(3.0, 10.0), (0.1, 10.0), (0.1, 10.0)], 1e-4)
    assert weakest(mended) < 1e-5
    assert residuals.seen
    assert min(seen[0] for seen in residuals.seen) >= 3.0


def test_columns_that_are_well_apart_cost_nothing() -> None:
    def apart(x: NDArray[np.float64]) -> NDArray[np.float64]:
        moved: NDArray[np.float64] = x[0] * np.sin(TIMES) + x[1] * np.cos(3 * TIMES)
        return moved

    x = np.array([1.0, 2.0])
    mended, residuals = sharpen(apart, x, [(0.1, 10.0)] * 2, 0.0)
    assert not residuals.seen
    assert np.allclose(mended, columns(apart, x))


def test_a_breakaway_is_not_taken_for_what_the_data_say_of_a_parameter() -> None:
    times, x = np.arange(6000) / 100, np.array([1.0, 2.0])

    def sticking(x: NDArray[np.float64]) -> NDArray[np.float64]:
        moved: NDArray[np.float64] = x[0] * np.sin(times) + x[1] * np.cos(3 * times)
        moved[40:43] += 5.0 * (x[0] > 1.0 + 1e-7)
        return moved

    true = np.stack([np.sin(times), np.cos(3 * times)], axis=1)
    rough = true.copy()
    rough[40:43, 0] += 5.0 / 1e-6  # a difference over this met it
    residuals = Residuals(sticking, [(0.1, 10.0)] * 2)
    mended = sharpened(cast('Any', residuals), solution(x, sticking(x), rough)).jacobian
    np.testing.assert_allclose(mended, true, atol=1e-6)
    assert len(residuals.seen) == 2


def test_what_a_start_changes_soon_fades_and_is_no_jump() -> None:
    times, x = np.arange(6000) / 100, np.array([1.0, 2.0])

    def fading(x: NDArray[np.float64]) -> NDArray[np.float64]:
        moved: NDArray[np.float64] = x[0] * np.exp(-20 * times) + x[1] * np.cos(3 * times)
        return moved

    residuals = Residuals(fading, [(0.1, 10.0)] * 2)
    start = Target('sequence', 'run', 'initial_qpos', 0, -1, 'rad')
    residuals.unknowns = (
        dataclasses.replace(residuals.unknowns[0], targets=(start,)),
        residuals.unknowns[1],
    )
    true = columns(fading, x)
    mended = sharpened(cast('Any', residuals), solution(x, fading(x), true)).jacobian
    np.testing.assert_allclose(mended, true)
    assert not residuals.seen


def test_noise_along_what_changes_nothing_asks_for_no_far_steps() -> None:
    rng, x = np.random.default_rng(0), np.array([3.0, 2.0])

    def rough(x: NDArray[np.float64]) -> NDArray[np.float64]:
        moved: NDArray[np.float64] = (x[0] + x[1]) * np.sin(TIMES)
        return moved + 1e-9 * rng.normal(size=len(TIMES))

    mended, residuals = sharpen(rough, x, [(-np.inf, np.inf)] * 2, 1e-4)
    assert weakest(mended) < 1e-6
    assert np.max(np.abs(np.array(residuals.seen) - x)) < 1.0
