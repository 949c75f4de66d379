# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Residual functions and their differences."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from sysid_ros.errors import FitError
from sysid_ros.estimation.solver.differences import Differences, leave_jumps_out
from sysid_ros.estimation.solver.least_squares import SolverSettings, linearise, solve
from sysid_ros.estimation.solver.problem import FitLog, FunctionResiduals, Iteration
from sysid_ros.model.unknown import Unknown

TIMES = np.linspace(0, 2, 50)[:, None]


def waves(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (50, m) residuals of m frequencies and amplitudes."""
    return x[:, 1] * np.sin(x[:, 0] * TIMES)


def derivative(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.hstack([x[1] * TIMES * np.cos(x[0] * TIMES), np.sin(x[0] * TIMES)])


def unknowns(low: float = -100.0, high: float = 100.0) -> list[Unknown]:
    return [Unknown('w', (), 3.0, low, high), Unknown('a', (), 1.0, low, high)]


def test_a_function_is_called_once_for_a_point_and_all_its_steps() -> None:
    shapes = []

    def function(x: NDArray[np.float64]) -> NDArray[np.float64]:
        shapes.append(x.shape)
        return waves(x)

    residuals = FunctionResiduals(function, unknowns())
    x, steps = np.array([3.0, 1.0]), np.array([1e-3, -1e-3])
    around = residuals.step_changes(x, steps)
    assert shapes == [(3, 2)]
    assert residuals.evaluations == 3
    np.testing.assert_allclose(around.residual, waves(x[None, :])[:, 0])
    np.testing.assert_allclose(around.changes / steps, derivative(x), atol=3e-3)
    second = residuals.step_changes(x, steps, np.array([False, True]), around.residual)
    assert shapes[1:] == [(1, 2)]
    np.testing.assert_array_equal(second.changes[:, 1], around.changes[:, 1])
    assert not second.changes[:, 0].any()


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


def test_bounds_closer_than_a_step_are_kept() -> None:
    narrow = [Unknown('w', (), 3.0, 3.0, 3.0 + 1e-9), Unknown('a', (), 1.0, 0.0, 2.0)]
    x = np.array([3.0, 1.0])
    jacobian = linearise(FunctionResiduals(waves, narrow), x)
    assert np.linalg.norm(jacobian - derivative(x)) < 1e-5 * np.linalg.norm(jacobian)


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


def test_noise_of_the_function_asks_for_longer_steps_or_central_differences() -> None:
    x = np.array([3.0, 1.0])
    residuals = FunctionResiduals(noisy, unknowns())
    differences = Differences(residuals, 2e-5)
    linear = differences.at(x)
    expected = derivative(x)
    before = np.linalg.norm(linear.jacobian - expected, axis=0)
    assert differences.check(linear)
    after = np.linalg.norm(linear.jacobian - expected, axis=0)
    norms = np.linalg.norm(expected, axis=0)
    assert before[0] > 1e-4 * norms[0]
    assert np.all(after < 3e-5 * norms)
    assert differences.names == ('w',)
    again = differences.at(x).jacobian
    assert np.all(np.linalg.norm(again - expected, axis=0) < 3e-5 * norms)


def test_the_trace_names_what_is_differenced_centrally() -> None:
    measured = waves(np.array([[3.1, 1.2]]))
    measured = measured + 0.01 * np.random.default_rng(0).normal(size=measured.shape)
    residuals = FunctionResiduals(lambda x: (measured - noisy(x)) / 0.01, unknowns())
    start, sharp = np.array([3.0, 1.0]), SolverSettings(accuracy=2e-5)
    solution = solve(residuals, start, settings=sharp)
    plain = FunctionResiduals(lambda x: (measured - waves(x)) / 0.01, unknowns())
    smooth = solve(plain, start, settings=sharp)
    assert solution.success
    assert smooth.differences is not None
    assert smooth.differences.names == ()
    assert (solution.trace[-1].central, solution.trace[0].central) == (('w',), ())
    assert solution.trace[0].jacobian == 'forward'
    errors = np.sqrt(np.diag(np.linalg.inv(smooth.jacobian.T @ smooth.jacobian)))
    assert np.max(np.abs(solution.x - smooth.x) / errors) < 1e-4


def test_columns_that_are_known_exactly_are_not_doubted() -> None:
    class Exact(FunctionResiduals):
        exact = np.array([True, True])

    residuals = Exact(noisy, unknowns())
    residuals.exact = np.array([True, True])
    differences = Differences(residuals)
    x = np.array([3.0, 1.0])
    linear = differences.at(x)
    assert not differences.check(linear)


def test_only_the_parameter_whose_column_noise_spoils_is_differenced_again() -> None:
    times = np.linspace(0.0, 1.0, 50)[:, None]
    moved: list[set[int]] = []

    def function(x: NDArray[np.float64]) -> NDArray[np.float64]:
        moved.extend(set(np.flatnonzero(row != start).tolist()) for row in x)
        rough = 1e-10 * np.sin(1e9 * x[:, 2] * (1 + times))
        return np.sin(times * x[:, 0]) + x[:, 1] * times + 1e-3 * x[:, 2] * times**2 + rough

    start = np.array([1.0, 2.0, 0.3])
    unknowns = [
        Unknown(name, (), value, -5.0, 5.0) for name, value in zip('abc', start, strict=True)
    ]
    differences = Differences(FunctionResiduals(function, unknowns), 0.01)
    linear = differences.at(start)
    moved.clear()
    differences.check(linear)
    alone = [some for some in moved if len(some) == 1]
    assert alone.count({2}) >= 2
    assert alone.count({0}) == alone.count({1}) == 0
    expected = 1e-3 * times[:, 0] ** 2
    far = np.linalg.norm(linear.jacobian[:, 2] - expected) / np.linalg.norm(expected)
    assert far < 1e-3


def test_steps_are_a_part_of_the_accuracy_in_standard_errors() -> None:
    moved: list[NDArray[np.float64]] = []

    def function(x: NDArray[np.float64]) -> NDArray[np.float64]:
        values = 100.0 * waves(x)
        moved.append(values)
        return values

    differences = Differences(FunctionResiduals(function, unknowns()), 0.01)
    x = np.array([3.0, 1.0])
    differences.at(x)
    differences.at(x)
    base, *others = moved[-1].T
    changes = [float(np.linalg.norm(other - base)) for other in others]
    assert changes == pytest.approx([0.005, 0.005], rel=0.01)


def test_a_jump_beside_the_point_does_not_pass_for_a_slope() -> None:
    x = np.array([3.0, 1.0])
    error = 1 / np.linalg.norm(100.0 * derivative(x), axis=0)[0]

    def function(x: NDArray[np.float64]) -> NDArray[np.float64]:
        late = (x[:, 0] < 3.0 - 1e-3 * error).astype(float)
        return 100.0 * waves(x) + 0.03 * late * np.cos(5.0 * TIMES)

    differences = Differences(FunctionResiduals(function, unknowns()), 0.01)
    differences.at(x)
    linear = differences.at(x)
    expected = 100.0 * derivative(x)
    norms = np.linalg.norm(expected, axis=0)
    assert np.linalg.norm(linear.jacobian - expected, axis=0)[0] > 3 * norms[0]
    assert differences.check(linear)
    assert np.linalg.norm(linear.jacobian - expected, axis=0)[0] < 0.3 * norms[0]
    assert differences.names == ('w',)
    again = differences.at(x).jacobian
    assert np.linalg.norm(again - expected, axis=0)[0] < 0.3 * norms[0]


def test_jumps_are_looked_for_on_the_second_side_only_where_the_first_shows_some() -> None:
    rng = np.random.default_rng(3)
    columns, phases = rng.normal(size=(400, 3)), rng.uniform(size=400)
    asked: list[int] = []

    def function(x: NDArray[np.float64]) -> NDArray[np.float64]:
        asked.append(len(x))
        teeth = np.floor(x[:, 2] / 1e-3 + phases[:, None]) - x[:, 2] / 1e-3
        return columns @ x.T + 5e-4 * teeth * columns[:, 2:]

    several = [Unknown(name, (), 1.0, -10.0, 10.0) for name in 'abc']
    differences = Differences(FunctionResiduals(function, several))
    linear = differences.at(np.ones(3))
    wrong = np.linalg.norm(linear.jacobian - columns, axis=0) / np.linalg.norm(columns, axis=0)
    assert (wrong > 0.3).tolist() == [False, False, True]
    asked.clear()
    assert differences.widen(linear)
    assert differences.names == ('c',)
    np.testing.assert_allclose(linear.jacobian[:, :2], columns[:, :2], rtol=1e-6)
    right = np.linalg.norm(linear.jacobian - columns, axis=0) / np.linalg.norm(columns, axis=0)
    assert right[2] < 0.05
    # All three on one side, the third on the other, and the third over a longer step once more.
    assert asked == [3, 1, 1, 1]


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


def test_a_residual_that_jumps_to_one_side_gets_the_slope_to_the_other() -> None:
    rng = np.random.default_rng(0)
    slopes = rng.normal(size=(1000, 2))
    one, other = slopes + 0.01, slopes - 0.01
    one[17, 0] += 300.0
    other[3, 1] -= 300.0
    expected = slopes.copy()
    expected[17, 0], expected[3, 1] = other[17, 0], one[3, 1]
    leave_jumps_out(one, other)
    np.testing.assert_allclose((one + other) / 2, expected, atol=1e-12)


def test_the_longest_iteration_is_that_within_a_solve() -> None:
    log = FitLog(None)
    for number, seconds in ((0, 2.0), (1, 5.0), (0, 1.0), (1, 3.5)):
        log(Iteration(number, 1.0, 0.0, 0, 0, seconds))
    assert log.longest == 3.0
