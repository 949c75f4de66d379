# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is said of a population of robots, against published numbers and simulated truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from sysid_ros.inference.fleet import (
    FALSE_ALARMS,
    heterogeneity,
    oddness,
    population,
    shrunken,
)

#: Thirteen trials of a vaccine: ill and well with and without it, `dat.bcg` of R's metafor.
BCG = np.array(
    [
        (4, 119, 11, 128),
        (6, 300, 29, 274),
        (3, 228, 11, 209),
        (62, 13536, 248, 12619),
        (33, 5036, 47, 5761),
        (180, 1361, 372, 1079),
        (8, 2537, 10, 619),
        (505, 87886, 499, 87892),
        (29, 7470, 45, 7232),
        (17, 1699, 65, 1600),
        (186, 50448, 141, 27197),
        (5, 2493, 3, 2338),
        (27, 16886, 29, 17825),
    ],
    dtype=float,
)


def _log_risks() -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithms of the relative risks of the trials, and their variances."""
    a, b, c, d = BCG.T
    values = np.log(a / (a + b)) - np.log(c / (c + d))
    return values, 1 / a - 1 / (a + b) + 1 / c - 1 / (c + d)


def _fleet(
    rng: np.random.Generator, count: int, tau: float, mean: float = 3.0
) -> tuple[np.ndarray, np.ndarray]:
    """Draw robots, and estimates with errors that differ up to fourfold between them."""
    variances = rng.uniform(0.5, 2.0, count) ** 2
    true = mean + tau * rng.standard_normal(count)
    return true + np.sqrt(variances) * rng.standard_normal(count), variances


def _plausible(hits: int, draws: int, chance: float) -> bool:
    """Whether so many hits are no surprise: less than 1 in 1000 on either side."""
    return bool(binom.cdf(hits, draws, chance) > 1e-3 and binom.sf(hits - 1, draws, chance) > 1e-3)


def test_published_trials_have_the_numbers_that_metafor_finds():
    values, variances = _log_risks()

    found = population(values, variances)

    # `rma` with REML and test="knha", and its `confint`
    assert found.mean == pytest.approx(-0.7145, abs=5e-5)
    assert (found.low, found.high) == pytest.approx((-1.1084, -0.3206), abs=5e-5)
    assert found.tau**2 == pytest.approx(0.313243325980895, rel=1e-6)
    assert (found.tau_low**2, found.tau_high**2) == pytest.approx((0.1197, 1.1115), abs=5e-5)
    assert found.q == pytest.approx(152.233008082373)
    assert found.i_squared == pytest.approx(0.9222, abs=5e-5)
    # `influence` of that
    assert oddness(values, variances).deviations[0] == pytest.approx(-0.218142474344442, rel=1e-6)


def test_robots_that_are_known_alike_have_the_plain_mean_and_standard_deviation():
    values, variances = np.array([1.0, 2.0, 4.0, 5.0]), np.full(4, 1e-12)

    found = population(values, variances)

    assert found.mean == pytest.approx(3.0)
    assert found.tau == pytest.approx(np.std(values, ddof=1))
    # Student's t with 3 degrees of freedom
    half = 3.182446 * np.std(values, ddof=1) / 2
    assert (found.low, found.high) == pytest.approx((3 - half, 3 + half), rel=1e-5)
    # (n - 1) s² / χ²
    chi = math.sqrt(10 / 9.348404), math.sqrt(10 / 0.2157953)
    assert (found.tau_low, found.tau_high) == pytest.approx(chi, rel=1e-5)


def test_robots_nearer_to_each_other_than_their_errors_share_one_value():
    found = population(np.array([1.0, 1.01, 0.99]), np.full(3, 0.1))

    assert found.tau == 0
    assert found.tau_low == 0
    # No narrower than errors alone make it.
    assert found.high - found.low > 2 * 1.96 * math.sqrt(0.1 / 3)


def test_one_robot_says_nothing_of_a_spread():
    found = population(np.array([2.0]), np.array([0.1]))

    assert found.mean == 2.0
    assert math.isnan(found.low)
    assert math.isnan(found.tau_low)
    assert math.isnan(found.tau_high)
    assert math.isnan(population(np.zeros(0), np.zeros(0)).mean)


@pytest.mark.slow
@pytest.mark.parametrize('count', [3, 6, 12])
@pytest.mark.parametrize('tau', [0.0, 0.5, 3.0])
def test_intervals_hold_mean_and_spread_of_the_population(count: int, tau: float):
    rng = np.random.default_rng([1, count, round(10 * tau)])
    draws = 300
    found = [population(*_fleet(rng, count, tau)) for _ in range(draws)]

    # The mean's are wider than they need be where robots are more alike than they are known.
    assert binom.cdf(sum(p.low <= 3.0 <= p.high for p in found), draws, 0.95) > 1e-3
    spread = sum(p.tau_low <= tau <= p.tau_high for p in found)
    assert _plausible(spread, draws, 0.95 if tau else 0.975)


@pytest.mark.slow
def test_an_interval_for_another_robot_holds_another_robot():
    rng = np.random.default_rng(2)
    draws = 300
    inside = 0
    for _ in range(draws):
        found = population(*_fleet(rng, 8, 3.0))
        inside += found.next_low <= rng.normal(3.0, 3.0) <= found.next_high

    assert binom.cdf(inside, draws, 0.95) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(('count', 'tau'), [(8, 0.0), (8, 5.0), (12, 1.0)])
def test_in_clean_fleets_nobody_is_odd_in_95_percent(count: int, tau: float):
    rng = np.random.default_rng([3, count, round(10 * tau)])
    draws, parameters = 60, 3
    alarms = sum(
        any(oddness(*_fleet(rng, count, tau), parameters).odd.any() for _ in range(parameters))
        for _ in range(draws)
    )

    assert binom.sf(alarms - 1, draws, FALSE_ALARMS) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize('tau', [0.0, 1.0, 5.0])
def test_a_robot_far_from_the_others_is_named_and_it_alone(tau: float):
    rng = np.random.default_rng([4, round(10 * tau)])
    draws = 100
    named = alone = 0
    for _ in range(draws):
        values, variances = _fleet(rng, 12, tau)
        values[5] = 3.0 + 10 * math.hypot(tau, math.sqrt(variances[5]))
        odd = oddness(values, variances, parameters=6).odd
        named += odd[5]
        alone += list(np.flatnonzero(odd)) == [5]

    assert named >= 0.95 * draws
    assert alone >= 0.9 * draws


def test_two_odd_robots_on_one_side_do_not_hide_each_other():
    values = np.array([1.0, 1.1, 0.9, 1.05, 0.95, 1.02, 0.98, 1.08, 0.92, 1.0, 9.0, 9.5])

    found = oddness(values, np.full(12, 1e-4), parameters=6)

    assert list(np.flatnonzero(found.odd)) == [10, 11]
    # Each beside the ten others, in which the other odd one is none.
    assert found.deviations[10] > 80
    assert max(found.p_values[found.odd]) < 1e-6 < min(found.p_values[~found.odd])


def test_of_three_robots_none_can_be_odd():
    found = oddness(np.array([1.0, 1.0, 1e6]), np.full(3, 1e-6))

    assert not found.odd.any()
    assert np.isnan(found.p_values).all()


def test_more_parameters_that_are_looked_at_need_more_to_be_odd():
    values = np.array([1.0, 1.1, 0.9, 1.05, 0.95, 1.6])

    few, many = (oddness(values, np.full(6, 1e-4), parameters=n) for n in (1, 50))

    assert few.odd[5]
    assert not many.odd[5]


def test_robots_that_differ_along_what_they_know_together_differ():
    # Neither of two parameters is known, but their sum is.
    covariance = np.array([[1.0, -0.999], [-0.999, 1.0]])
    places = np.arange(2)

    sums = heterogeneity(
        [np.array([1.0, 1.0]), np.array([1.4, 1.4])], [covariance] * 2, [places] * 2
    )
    differences = heterogeneity(
        [np.array([1.0, 1.0]), np.array([1.4, 0.6])], [covariance] * 2, [places] * 2
    )

    # (δ₁ + δ₂)² over the variance of the difference of two sums
    assert sums.q == pytest.approx(0.8**2 / (2 * 0.002))
    assert sums.freedom == 2
    assert sums.p_value < 1e-6 < differences.p_value


def test_heterogeneity_of_one_parameter_is_cochrans_q():
    values, variances = _log_risks()

    found = heterogeneity(
        [values[[i]] for i in range(13)],
        [variances[[i], None] for i in range(13)],
        [np.zeros(1, dtype=np.int64)] * 13,
    )

    assert found.q == pytest.approx(152.233008082373)
    assert found.freedom == 12


def test_a_robot_is_drawn_to_the_population_by_what_it_does_not_know():
    values, means = np.array([2.0, 5.0]), np.array([1.0, 5.0])

    apart = shrunken(values, np.diag([1.0, 4.0]), means, np.array([1.0, 2.0]))
    together = shrunken(values, np.array([[1.0, -0.9], [-0.9, 1.0]]), means, np.array([1e-9, 1e9]))

    # Half way where both know as much.
    assert apart == pytest.approx([1.5, 5.0])
    # The first is the population's; so the second was 0.9 too low for each that it was too high.
    assert together == pytest.approx([1.0, 5.9])


def test_what_a_robot_is_odd_in_is_its_own():
    found = shrunken(
        np.array([9.0, 2.0]),
        np.diag([1.0, 1.0]),
        np.array([math.nan, 1.0]),
        np.array([math.nan, 1.0]),
    )

    assert found == pytest.approx([9.0, 1.5])
