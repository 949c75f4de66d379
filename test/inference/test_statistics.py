# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How sure a fit is, on linear problems whose answer is known."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.stats import binom, chi2

from sysid_ros.config.calibration import Loss
from sysid_ros.estimation.layout import PRIOR, Samples
from sysid_ros.estimation.solver.solver import Solution
from sysid_ros.inference import Interval, infer
from sysid_ros.model.unknown import Unknown

Noise = Callable[[np.random.Generator, int], NDArray[np.float64]]

COUNT = 1200
RATE = 100.0
WIDE = (-1e3, 1e3)
TRUTH = np.array([2.0, -1.0])


def intervals(*arguments: Any, **options: Any) -> tuple[Interval, ...]:
    """Return the intervals alone."""
    return infer(*arguments, **options).intervals


def samples(count: int = COUNT, sequences: int = 1) -> Samples:
    """Lay out one sensor at 100 Hz, in sequences of equal length."""
    each = count // sequences
    return Samples(
        sequence=np.repeat(np.arange(sequences), each),
        time=np.tile(np.arange(each) / RATE, sequences),
        sensor=np.zeros(count, dtype=np.int64),
        sensors=('q',),
    )


def solution(x: NDArray[np.float64], residual: NDArray[np.float64]) -> Solution:
    cost = 0.5 * float(residual @ residual)
    return Solution(x, residual, cost, 'cost', '', success=True, trace=())


def width(interval: Interval) -> float:
    return interval.high - interval.low


def unknowns(count: int, bounds: tuple[float, float] = WIDE) -> list[Unknown]:
    return [Unknown(f'p{index}', (), 0.0, *bounds) for index in range(count)]


def motions() -> NDArray[np.float64]:
    """Return the (COUNT, 2) derivative of a problem with smooth columns."""
    t = np.arange(COUNT) / RATE
    return np.stack([np.sin(2 * t) + 0.5, np.cos(5.1 * t)], axis=1)


def solve(
    jacobian: NDArray[np.float64], noise: NDArray[np.float64], truth: NDArray[np.float64] = TRUTH
) -> Solution:
    """Solve a linear problem by the normal equations."""
    measured = jacobian @ truth + noise
    x = np.linalg.lstsq(jacobian, measured, rcond=None)[0]
    return solution(x, jacobian @ x - measured)


def white(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    return rng.standard_normal(count)


def autoregressive(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Return AR(1) noise with a correlation of 0.9 between neighbours."""
    drawn = rng.standard_normal(count + 200)
    return np.asarray(lfilter([1.0], [1.0, -0.9], drawn))[200:]


def assert_intervals_hold_the_truth(noise: Noise, layout: Samples) -> None:
    """Check share and width of intervals over 60 draws; benchmarks/intervals.py takes 200.

    Of 120 intervals at 95 %, so many hold the truth but in one of a thousand cases. Half of the
    mean width is 1.96 standard deviations of the estimates, which 60 draws tell as well as the
    distribution of their variance says.
    """
    rng = np.random.default_rng(7)
    jacobian = motions()
    draws = 60
    found = [solve(jacobian, noise(rng, COUNT)) for _ in range(draws)]
    rows = [intervals(solved, jacobian, unknowns(2), layout) for solved in found]
    hits = sum(
        row.low <= truth <= row.high
        for pair in rows
        for row, truth in zip(pair, TRUTH, strict=True)
    )
    assert hits >= binom.ppf(0.001, 2 * draws, 0.95)
    half = np.mean([[width(row) / 2 for row in pair] for pair in rows], axis=0)
    spread = 1.96 * np.std([solved.x for solved in found], axis=0, ddof=1)
    low, high = np.sqrt((draws - 1) / chi2.ppf([0.999, 0.001], draws - 1))
    assert np.all(half / spread > low)
    assert np.all(half / spread < high)


@pytest.mark.slow
@pytest.mark.parametrize('sequences', [1, 4])
@pytest.mark.parametrize('noise', [white, autoregressive])
def test_95_percent_intervals_hold_the_truth_about_as_often(noise: Noise, sequences: int) -> None:
    assert_intervals_hold_the_truth(noise, samples(COUNT, sequences))


@pytest.mark.slow
def test_intervals_of_uneven_stamps_hold_the_truth_as_often() -> None:
    layout = samples()
    jitter = np.random.default_rng(5).uniform(-0.004, 0.004, COUNT)
    uneven = dataclasses.replace(layout, time=layout.time + jitter)
    assert_intervals_hold_the_truth(autoregressive, uneven)


def test_a_higher_rate_of_the_same_noise_does_not_narrow_the_interval() -> None:
    """Samples every millisecond that repeat one of every ten say no more than those ten.

    An autoregression of few coefficients is not exact for held values, but errs to the wide side.
    """
    jacobian = motions()
    found = solve(jacobian, autoregressive(np.random.default_rng(3), COUNT))
    layout = samples()
    once = intervals(found, jacobian, unknowns(2), layout)[0]
    repeated = Samples(
        np.repeat(layout.sequence, 10),
        (layout.time[:, None] + np.arange(10) / 1000).ravel(),
        np.repeat(layout.sensor, 10),
        layout.sensors,
    )
    dense = solution(found.x, np.repeat(found.residual, 10))
    often = intervals(dense, np.repeat(jacobian, 10, axis=0), unknowns(2), repeated)[0]
    assert width(once) <= width(often) <= 1.1 * width(once)


def test_intervals_that_take_noise_for_white_would_hold_it_far_less_often() -> None:
    """The correlation of the test above matters: it is not a problem that anything solves."""
    rng = np.random.default_rng(7)
    jacobian = motions()
    hits = 0.0
    for _ in range(250):
        found = solve(jacobian, autoregressive(rng, COUNT))
        variance = found.residual @ found.residual / (COUNT - 2)
        deviation = np.sqrt(variance * np.diag(np.linalg.inv(jacobian.T @ jacobian)))
        hits += np.mean(np.abs(found.x - TRUTH) <= 1.96 * deviation) / 250
    assert hits < 0.7


def test_white_noise_gives_the_textbook_interval() -> None:
    jacobian = motions()
    found = solve(jacobian, white(np.random.default_rng(3), COUNT))
    variance = found.residual @ found.residual / (COUNT - 2)
    textbook = 1.96 * np.sqrt(variance * np.diag(np.linalg.inv(jacobian.T @ jacobian)))
    for row, half, value in zip(
        intervals(found, jacobian, unknowns(2), samples()), textbook, found.x, strict=True
    ):
        assert (row.low + row.high) / 2 == pytest.approx(value)
        assert half * 0.99 <= (row.high - row.low) / 2 <= half * 1.4
        assert row.verdict == 'identified'


def test_the_unit_of_a_parameter_scales_its_interval_and_nothing_else() -> None:
    jacobian = motions()
    found = solve(jacobian, autoregressive(np.random.default_rng(3), COUNT))
    units = np.array([1e-6, 1e4])
    rescaled = solution(found.x / units, found.residual)
    ours = intervals(found, jacobian, unknowns(2, (-1e9, 1e9)), samples())
    theirs = intervals(rescaled, jacobian * units, unknowns(2, (-1e9, 1e9)), samples())
    for a, b, unit in zip(ours, theirs, units, strict=True):
        assert (b.low * unit, b.high * unit) == pytest.approx((a.low, a.high), rel=1e-6)


def test_an_interval_ends_at_the_bounds() -> None:
    jacobian = motions()
    found = solve(jacobian, 30 * white(np.random.default_rng(3), COUNT))
    bounds = (float(found.x[0]) - 0.1, float(found.x[0]) + 100.0)
    rows = intervals(
        found,
        jacobian,
        [Unknown('a', (), 0.0, *bounds), Unknown('b', (), 0.0, *WIDE)],
        samples(),
    )
    assert rows[0].low == bounds[0]
    assert found.x[0] + 0.1 < rows[0].high < bounds[1]


@pytest.mark.parametrize('bound', ['lower', 'upper'])
def test_at_a_bound_the_interval_has_one_side(bound: str) -> None:
    jacobian = motions()
    found = solve(jacobian, white(np.random.default_rng(3), COUNT))
    limits = (found.x[0], 9.0) if bound == 'lower' else (-9.0, found.x[0])
    parameters = [Unknown('a', (), 0.0, *limits), Unknown('b', (), 0.0, *WIDE)]
    at_bound, free = intervals(found, jacobian, parameters, samples())
    assert at_bound.verdict == 'at bound'
    limit = float(found.x[0])
    both = intervals(found, jacobian, unknowns(2), samples())
    # Half of a normal distribution: 1.96 standard errors hold 95 % of it, too.
    end = both[0].high if bound == 'lower' else both[0].low
    assert (at_bound.low, at_bound.high) == pytest.approx(sorted((limit, end)), rel=2e-3)
    # They have nothing in common: what is at its bound might as well be known.
    assert (free.low, free.high) == pytest.approx((both[1].low, both[1].high), rel=1e-2)
    assert free.verdict == 'identified'


def test_parameters_of_which_only_a_sum_is_seen_name_each_other() -> None:
    t = np.arange(COUNT) / RATE
    jacobian = np.stack([np.sin(t), 3 * np.sin(t), np.cos(t)], axis=1)
    found = solve(jacobian, white(np.random.default_rng(3), COUNT), np.array([1.0, 1.0, 1.0]))
    a, b, c = intervals(found, jacobian, unknowns(3), samples())
    assert (a.verdict, b.verdict) == ('confounded with p1', 'confounded with p0')
    assert math.isnan(a.low)
    assert math.isnan(b.high)
    assert c.verdict == 'identified'
    assert c.low < 1.0 < c.high


def test_parameters_that_are_hardly_told_apart_name_each_other_but_have_intervals() -> None:
    t = np.arange(COUNT) / RATE
    jacobian = np.stack([np.sin(t), np.sin(t + 1e-3), np.cos(3 * t)], axis=1)
    found = solve(jacobian, white(np.random.default_rng(3), COUNT), np.array([1.0, 1.0, 1.0]))
    a, b, c = intervals(found, jacobian, unknowns(3), samples())
    assert (a.verdict, b.verdict) == ('confounded with p1', 'confounded with p0')
    assert a.low < 1.0 < a.high
    assert a.high - a.low > 10
    assert c.verdict == 'identified'


def test_three_parameters_of_which_two_combinations_are_seen_name_each_other() -> None:
    t = np.arange(COUNT) / RATE
    jacobian = np.stack([np.sin(t), np.cos(t), np.sin(t) + np.cos(t)], axis=1)
    found = solve(jacobian, white(np.random.default_rng(3), COUNT), np.ones(3))
    verdicts = [row.verdict for row in intervals(found, jacobian, unknowns(3), samples())]
    assert verdicts == [
        'confounded with p1, p2',
        'confounded with p0, p2',
        'confounded with p0, p1',
    ]


def test_what_moves_nothing_is_not_excited() -> None:
    jacobian = motions()
    jacobian[:, 1] = 0.0
    found = solve(jacobian, white(np.random.default_rng(3), COUNT))
    seen, dead = intervals(found, jacobian, unknowns(2), samples())
    assert seen.verdict == 'identified'
    assert dead.verdict == 'not excited'
    assert math.isnan(dead.low)


def test_what_moves_less_than_the_noise_is_not_excited() -> None:
    jacobian = motions() * [1.0, 1e-3]
    found = solve(jacobian, white(np.random.default_rng(3), COUNT))
    seen, faint = intervals(found, jacobian, unknowns(2, (-100, 100)), samples())
    assert seen.verdict == 'identified'
    assert faint.verdict == 'not excited'
    assert faint.low < -1.0 < faint.high


def test_a_value_near_zero_is_identified_when_its_interval_is_narrow_against_the_bounds() -> None:
    jacobian = motions()
    truth = np.array([1e-4, 1.0])
    found = solve(jacobian, white(np.random.default_rng(3), COUNT), truth)
    row, _ = intervals(found, jacobian, unknowns(2, (-10, 10)), samples())
    assert (row.high - row.low) / 2 > abs(found.x[0])
    assert row.verdict == 'identified'


def test_robust_losses_do_not_let_outliers_widen_the_interval() -> None:
    jacobian = motions()
    noise = white(np.random.default_rng(3), COUNT)
    found = solve(jacobian, noise)
    spoilt = found.residual.copy()
    spoilt[::100] += 300.0
    losses: tuple[Loss, ...] = ('linear', 'huber', 'cauchy')
    linear, huber, cauchy = (
        width(intervals(solution(found.x, spoilt), jacobian, unknowns(2), samples(), loss=loss)[0])
        for loss in losses
    )
    clean = width(intervals(found, jacobian, unknowns(2), samples())[0])
    assert linear > 10 * clean
    assert huber < 3 * clean
    assert cauchy < 3 * clean


def test_perfect_residuals_give_intervals_without_width() -> None:
    jacobian = motions()
    rows = intervals(solution(TRUTH, np.zeros(COUNT)), jacobian, unknowns(2), samples())
    assert [row.verdict for row in rows] == ['identified', 'identified']
    assert [(row.low, row.high) for row in rows] == [(2.0, 2.0), (-1.0, -1.0)]


def test_sensors_at_the_same_instants_are_not_independent() -> None:
    """Two identical channels say as much as one."""
    jacobian = motions()
    found = solve(jacobian, white(np.random.default_rng(3), COUNT))
    once = intervals(found, jacobian, unknowns(2), samples())[0]
    layout = samples()
    twice = intervals(
        solution(found.x, np.tile(found.residual, 2)),
        np.tile(jacobian, (2, 1)),
        unknowns(2),
        Samples(
            np.tile(layout.sequence, 2),
            np.tile(layout.time, 2),
            np.repeat([0, 1], COUNT),
            ('q', 'v'),
        ),
    )[0]
    assert width(twice) == pytest.approx(width(once), rel=0.05)


@pytest.mark.parametrize(('deviation', 'verdict'), [(1e-3, 'prior-dominated'), (1.0, 'identified')])
def test_a_value_that_the_prior_decides_is_told_from_one_that_data_do(
    deviation: float, verdict: str
) -> None:
    jacobian = np.concatenate([motions(), [[1 / deviation, 0.0]]])
    noise = white(np.random.default_rng(1), COUNT)
    measured = np.append(motions() @ TRUTH + noise, TRUTH[0] / deviation)
    x = np.linalg.lstsq(jacobian, measured, rcond=None)[0]
    layout = samples()
    known, free = intervals(
        solution(x, jacobian @ x - measured),
        jacobian,
        [
            dataclasses.replace(unknowns(1)[0], prior=(TRUTH[0], deviation)),
            *unknowns(2)[1:],
        ],
        Samples(
            np.append(layout.sequence, 0),
            np.append(layout.time, 0.0),
            np.append(layout.sensor, PRIOR),
            layout.sensors,
        ),
    )
    assert (known.verdict, free.verdict) == (verdict, 'identified')
    assert known.low < TRUTH[0] < known.high
