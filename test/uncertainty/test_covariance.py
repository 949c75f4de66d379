# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Intervals of linear problems whose noise, encoders, outliers or recordings are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.special import ndtri
from scipy.stats import binom, chi2

from builders.problems import problem
from sysid_ros.config.schema import VerdictKind
from sysid_ros.fit.differences import PRIOR, Samples
from sysid_ros.fit.noise import encoder_steps
from sysid_ros.model.targets import Unknown
from sysid_ros.uncertainty.covariance import sawtooth
from sysid_ros.uncertainty.inference import Inference, all_at_once, infer
from sysid_ros.uncertainty.verdicts import Interval

Array = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int], Array]

COUNT, RATE = 1200, 100.0
TRUTH = np.array([2.0, -1.0])
DRAWS = 60
EACH = 100


def unknowns(count: int = 2, low: float = -1e3, high: float = 1e3) -> list[Unknown]:
    return [Unknown(f'p{index}', (), 0.0, low, high) for index in range(count)]


def layout(count: int = COUNT, sequences: int = 1, bags: tuple[str, ...] = ()) -> Samples:
    """Lay out one sensor at 100 Hz, in sequences of equal length."""
    each = count // sequences
    return Samples(
        np.repeat(np.arange(sequences), each),
        np.tile(np.arange(each) / RATE, sequences),
        np.zeros(count, dtype=np.int64),
        ('q',),
        bags=bags,
    )


def motions() -> Array:
    """Return the (COUNT, 2) derivative of a problem with smooth columns."""
    t = np.arange(COUNT) / RATE
    return np.stack([np.sin(2 * t) + 0.5, np.cos(5.1 * t)], axis=1)


def inferred(jacobian: Array, measured: Array, samples: Samples, **options: Any) -> Inference:
    """Solve a linear problem, and infer."""
    x = np.linalg.lstsq(jacobian, measured, rcond=None)[0].astype(np.float64)
    parameters = options.pop('parameters', unknowns())
    return infer(problem(x, jacobian @ x - measured, jacobian, parameters, samples, **options))


def of_noise(noise: Array, jacobian: Array | None = None, **options: Any) -> tuple[Interval, ...]:
    jacobian = motions() if jacobian is None else jacobian
    samples = options.pop('samples', layout())
    return inferred(jacobian, jacobian @ TRUTH + noise, samples, **options).intervals


def width(interval: Interval) -> float:
    return interval.high - interval.low


def held(intervals: tuple[Interval, ...]) -> list[bool]:
    return [row.low <= truth <= row.high for row, truth in zip(intervals, TRUTH, strict=True)]


def white(rng: np.random.Generator, count: int = COUNT) -> Array:
    return rng.standard_normal(count)


def autoregressive(rng: np.random.Generator, count: int = COUNT, memory: float = 0.9) -> Array:
    drawn = rng.standard_normal(count + 200)
    return np.asarray(lfilter([1.0], [1.0, -memory], drawn))[200:]


@pytest.mark.slow
@pytest.mark.parametrize('jitter', [0.0, 0.004])
@pytest.mark.parametrize('sequences', [1, 4])
@pytest.mark.parametrize('noise', [white, autoregressive])
def test_95_percent_intervals_hold_the_truth_about_as_often(
    noise: Noise, sequences: int, jitter: float
) -> None:
    """Check share and width of intervals over 60 draws; benchmarks/intervals.py takes 200.

    Of 120 intervals at 95 %, so many hold the truth but in one of a thousand cases. Half of the
    mean width is 1.96 standard deviations of the estimates, which 60 draws tell as well as the
    distribution of their variance says.
    """
    rng = np.random.default_rng(7)
    samples = layout(COUNT, sequences)
    uneven = samples.time + np.random.default_rng(5).uniform(-jitter, jitter, COUNT)
    samples = replace(samples, time=uneven)
    rows = [of_noise(noise(rng, COUNT), samples=samples) for _ in range(DRAWS)]
    assert np.sum([held(pair) for pair in rows]) >= binom.ppf(0.001, 2 * DRAWS, 0.95)
    half = np.mean([[width(row) / 2 for row in pair] for pair in rows], axis=0)
    middle = [[(row.high + row.low) / 2 for row in pair] for pair in rows]
    ratio = half / (1.96 * np.std(middle, axis=0, ddof=1))
    low, high = np.sqrt((DRAWS - 1) / chi2.ppf([0.999, 0.001], DRAWS - 1))
    assert np.all((low < ratio) & (ratio < high))


def test_a_higher_rate_of_the_same_noise_does_not_narrow_the_interval() -> None:
    """Samples every millisecond that repeat one of every ten say no more than those ten.

    An autoregression of few coefficients is not exact for held values, but errs to the wide side.
    """
    jacobian, noise, samples = motions(), autoregressive(np.random.default_rng(3)), layout()
    once = of_noise(noise)[0]
    time = (samples.time[:, None] + np.arange(10) / 1000).ravel()
    repeated = replace(layout(10 * COUNT), time=time)
    often = of_noise(np.repeat(noise, 10), np.repeat(jacobian, 10, axis=0), samples=repeated)[0]
    assert width(once) <= width(often) <= 1.1 * width(once)


def test_white_noise_gives_the_textbook_interval() -> None:
    jacobian, noise = motions(), white(np.random.default_rng(3))
    left = noise - jacobian @ np.linalg.lstsq(jacobian, noise, rcond=None)[0]
    inverse = np.linalg.inv(jacobian.T @ jacobian)
    textbook = 1.96 * np.sqrt(left @ left / (COUNT - 2) * np.diag(inverse))
    rows = of_noise(noise)
    assert [row.verdict for row in rows] == ['identified'] * 2
    for row, half in zip(rows, textbook, strict=True):
        assert half * 0.99 <= width(row) / 2 <= half * 1.4


def test_the_unit_of_a_parameter_scales_its_interval_and_nothing_else() -> None:
    jacobian, units = motions(), np.array([1e-6, 1e4])
    measured = jacobian @ TRUTH + autoregressive(np.random.default_rng(3))
    parameters = unknowns(2, -1e9, 1e9)
    ours, theirs = (
        inferred(jacobian * unit, measured, layout(), parameters=parameters).intervals
        for unit in (np.ones(2), units)
    )
    for a, b, unit in zip(ours, theirs, units, strict=True):
        assert (b.low * unit, b.high * unit) == pytest.approx((a.low, a.high), rel=1e-6)


def test_an_interval_ends_at_the_bounds() -> None:
    noise = 30 * white(np.random.default_rng(3))
    x = TRUTH + np.linalg.lstsq(motions(), noise, rcond=None)[0]
    parameters = [Unknown('a', (), 0.0, x[0] - 0.1, x[0] + 100.0), *unknowns(1)]
    row = of_noise(noise, parameters=parameters)[0]
    assert row.low == x[0] - 0.1
    assert x[0] + 0.1 < row.high < x[0] + 100.0


def test_perfect_residuals_give_intervals_without_width() -> None:
    rows = infer(problem(TRUTH, np.zeros(COUNT), motions(), unknowns(), layout())).intervals
    assert [row.verdict for row in rows] == ['identified', 'identified']
    assert [(row.low, row.high) for row in rows] == [(2.0, 2.0), (-1.0, -1.0)]


def test_sensors_at_the_same_instants_are_not_independent() -> None:
    """Two identical channels say as much as one."""
    noise, samples = white(np.random.default_rng(3)), layout()
    both = Samples(
        np.tile(samples.sequence, 2),
        np.tile(samples.time, 2),
        np.repeat([0, 1], COUNT),
        ('q', 'v'),
    )
    twice = of_noise(np.tile(noise, 2), np.tile(motions(), (2, 1)), samples=both)[0]
    assert width(twice) == pytest.approx(width(of_noise(noise)[0]), rel=0.05)


def with_prior(jacobian: Array, deviation: float) -> tuple[Interval, ...]:
    """Return intervals where the first parameter is known to so much beforehand."""
    samples = layout()
    samples = Samples(
        np.append(samples.sequence, 0),
        np.append(samples.time, 0.0),
        np.append(samples.sensor, PRIOR),
        ('q',),
    )
    noise = np.append(white(np.random.default_rng(1)), 0.0)
    parameters = [replace(unknowns(1)[0], prior=(TRUTH[0], deviation)), *unknowns()[1:]]
    whole = np.concatenate([jacobian, [[1 / deviation, 0.0]]])
    return of_noise(noise, whole, samples=samples, parameters=parameters)


@pytest.mark.parametrize(('deviation', 'verdict'), [(1e-3, 'prior-dominated'), (1.0, 'identified')])
def test_a_value_that_the_prior_decides_is_told_from_one_that_data_do(
    deviation: float, verdict: str
) -> None:
    known, free = with_prior(motions(), deviation)
    assert (known.verdict, free.verdict) == (verdict, 'identified')
    assert known.low < TRUTH[0] < known.high


def test_what_only_a_prior_knows_is_as_uncertain_as_the_prior_says() -> None:
    row = with_prior(motions() * [0.0, 1.0], 0.3)[0]
    assert width(row) / 2 == pytest.approx(1.96 * 0.3, rel=1e-3)


@pytest.mark.parametrize('count', [3, 4, 6])
def test_a_record_of_hardly_more_samples_than_parameters_has_intervals(count: int) -> None:
    noise = np.random.default_rng(6).normal(size=count)
    rows = of_noise(noise, recorded(1)[:count], samples=layout(count))
    assert all(np.isfinite(row.low) and row.low < row.high for row in rows)


def recorded(count: int) -> Array:
    """Return the (EACH * count, 2) derivative, the motion of each sequence being another."""
    t = np.arange(EACH) / 20
    rates = np.random.default_rng(1).uniform(1.0, 4.0, (count, 2))
    return np.concatenate([np.stack([np.sin(a * t) + 0.5, np.cos(b * t)], 1) for a, b in rates])


def of_some(
    own: Array, rng: np.random.Generator, seen: float = 1.0, noise: float = 1.0
) -> Inference:
    """Return what is found where recordings are off by (n, 2) numbers, so much of it being seen."""
    count = len(own)
    jacobian = seen * recorded(count)
    samples = layout(EACH * count, count, tuple('abcdefgh'[:count]))
    measured = np.sum(jacobian * (TRUTH + np.repeat(own, EACH, axis=0)), axis=1)
    measured += noise * rng.normal(size=len(jacobian))
    return inferred(jacobian, measured, samples, parameters=unknowns(2, -20.0, 20.0))


def alternating(size: float) -> Array:
    return size * np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])


@pytest.mark.slow
def test_recordings_that_disagree_hold_the_truth_about_as_often() -> None:
    """Each recording has coefficients of its own, as when a model lacks something."""
    rng = np.random.default_rng(2)
    hits = [
        held(of_some(rng.normal(0.0, 0.1, (8, 2)), rng, noise=0.05).intervals) for _ in range(DRAWS)
    ]
    assert np.all((np.mean(hits, axis=0) >= 0.9) & (np.mean(hits, axis=0) <= 0.99))


def test_windows_of_one_bag_are_not_recordings() -> None:
    jacobian = recorded(8)
    measured = jacobian @ TRUTH + np.random.default_rng(3).normal(size=len(jacobian))
    one, many = (
        inferred(jacobian, measured, layout(8 * EACH, 8, tuple(bags)))
        for bags in ('aaaaaaaa', 'abcdefgh')
    )
    assert 'inside of one recording' in one.method
    assert many.method == 'from the disagreement of 8 recordings'


def test_a_run_shorter_than_the_memory_of_the_noise_counts_as_far_as_it_goes() -> None:
    jacobian, whole = recorded(4), layout(4 * EACH, 4, ('a',) * 4)
    noise = np.random.default_rng(4).normal(size=len(jacobian))
    # The last four samples are a run of their own, as a step is that lasted a moment.
    own = np.where(np.arange(len(noise)) < len(noise) - 4, whole.sequence, 4)
    short = replace(whole, sequence=own, bags=('a',) * 5)
    found, expected = (of_noise(noise, jacobian, samples=each) for each in (short, whole))
    for one, other in zip(found, expected, strict=True):
        assert width(one) == pytest.approx(width(other), rel=0.1)


def test_a_few_recordings_that_disagree_are_told_and_those_that_do_not_are_not() -> None:
    apart, alike = (of_some(alternating(size), np.random.default_rng(7)) for size in (0.8, 0.0))
    assert apart.disagreement is not None
    assert apart.disagreement.most == 'p0'
    assert str(apart.disagreement) in apart.notes
    assert apart.intervals[0].verdict_kind is VerdictKind.MODEL_LIMITED
    assert 'record 8 or more' in apart.intervals[0].explanation
    assert alike.disagreement is None
    assert not alike.notes


def test_intervals_of_a_few_recordings_that_disagree_hold_the_truth() -> None:
    rng = np.random.default_rng(8)
    draws = [of_some(rng.normal(scale=0.8, size=(4, 2)), rng) for _ in range(DRAWS)]
    rows = [each.intervals for each in draws]
    off = np.array([[(row.high + row.low) / 2 for row in pair] for pair in rows]) - TRUTH
    half = np.array([[width(row) / 2 for row in pair] for pair in rows])
    growth = np.array(
        [np.ones(2) if each.disagreement is None else each.disagreement.growth for each in draws]
    )
    # It is not seen of all of them that they disagree.
    assert np.mean(np.abs(off) <= half) > 0.88
    assert np.mean(np.abs(off) <= half / growth) < 0.6


def test_recordings_that_agree_seldom_seem_to_disagree() -> None:
    rng = np.random.default_rng(9)
    draws = [of_some(np.zeros((4, 2)), rng) for _ in range(2 * DRAWS)]
    assert np.mean([each.disagreement is not None for each in draws]) <= 0.05


def test_many_recordings_that_disagree_too_much_do_not_lack_motion() -> None:
    own = np.concatenate([alternating(1.0), alternating(1.0)])
    apart = of_some(own, np.random.default_rng(7)).intervals[0]
    assert apart.verdict_kind is VerdictKind.MODEL_LIMITED
    assert 'The 8 recordings disagree about it' in apart.explanation
    # Where noise is as large as what is seen, they lack it.
    unseen = of_some(0.0 * own, np.random.default_rng(7), seen=0.05).intervals[0]
    assert unseen.verdict_kind is VerdictKind.NOT_EXCITED


def test_residuals_that_stay_alike_limit_and_white_ones_lack_motion() -> None:
    jacobian, samples = recorded(8), layout(8 * EACH, 8, ('a',) * 8)
    noise = np.random.default_rng(7).normal(size=len(jacobian))
    slow = 2.0 * np.sqrt(1 - 0.98**2) * lfilter([1.0], [1.0, -0.98], noise)
    options = {'samples': samples, 'parameters': unknowns(2, -20.0, 20.0)}
    limited = of_noise(slow, jacobian, **options)[0]
    assert limited.verdict_kind is VerdictKind.MODEL_LIMITED
    assert 'stay alike' in limited.explanation
    unseen = of_noise(noise, 0.05 * jacobian, **options)[0]
    assert unseen.verdict_kind is VerdictKind.NOT_EXCITED


@pytest.mark.slow
def test_a_robust_loss_with_outliers_hold_the_truth_about_as_often() -> None:
    jacobian, samples = recorded(2), layout(2 * EACH, 2, ('a', 'b'))
    rng, hits = np.random.default_rng(5), []
    for _ in range(100):
        noise = rng.normal(size=len(jacobian))
        noise *= np.where(rng.uniform(size=len(jacobian)) < 0.05, 20.0, 1.0)
        x = TRUTH
        for _ in range(20):
            weighted = jacobian / np.maximum(np.abs(jacobian @ (x - TRUTH) - noise), 1.0)[:, None]
            x = TRUTH + np.linalg.solve(weighted.T @ jacobian, weighted.T @ noise)
        residual = jacobian @ (x - TRUTH) - noise
        found = infer(problem(x, residual, jacobian, unknowns(), samples, 'huber'))
        hits.append(held(found.intervals))
    assert np.all((np.mean(hits, axis=0) >= 0.9) & (np.mean(hits, axis=0) <= 0.99))


@pytest.mark.parametrize('count', [1, 4, 12])
@pytest.mark.parametrize('same', [0.0, 1.0])
def test_all_at_once_is_as_wide_as_the_largest_of_the_errors(count: int, same: float) -> None:
    deviations = np.arange(1.0, count + 1)
    covariance = np.outer(deviations, deviations) * np.maximum(np.eye(count), same)
    # Of independent errors (Šidák, 1967); those that are all the same are one.
    expected = ndtri((1 + (0.95 if same else 0.95 ** (1 / count))) / 2) / ndtri(0.975)
    assert all_at_once(covariance, unknowns(count)) == pytest.approx(expected, rel=0.02)
    # What has no interval does not count.
    wider = np.pad(covariance, (0, 1), constant_values=math.nan)
    assert all_at_once(wider, unknowns(count + 1)) == pytest.approx(expected, rel=0.02)


TIMES = np.arange(600) / 100
#: Swings to and fro over some steps of the encoder: the same positions again and again.
POSITION = 3.3 * np.sin(2 * np.pi * 0.5 * TIMES)
#: Weights as those of dry friction: the sign of the speed, and a part that does not repeat.
WEIGHTS = np.stack([np.sign(np.cos(2 * np.pi * 0.5 * TIMES)), np.cos(7.1 * TIMES)], axis=1)


def encoder_error(rng: np.random.Generator, noise: float) -> Array:
    """Return the error of an encoder with steps of 1, its zero being anywhere."""
    zero = rng.uniform()
    return np.round(POSITION + noise * rng.normal(size=len(TIMES)) + zero) - zero - POSITION


@pytest.mark.slow
@pytest.mark.parametrize('noise', [0.1, 0.2, 0.5])
def test_the_variance_over_zeros_is_that_of_many_draws(noise: float) -> None:
    rng = np.random.default_rng(3)
    errors = np.array([encoder_error(rng, noise) @ WEIGHTS for _ in range(3000)])
    told = [sawtooth(encoder_error(rng, noise), WEIGHTS, 1.0) for _ in range(50)]
    assert np.mean(told, axis=0) == pytest.approx(errors.var(axis=0), rel=0.1)


def test_readings_in_whole_steps_are_an_encoders_and_others_are_not() -> None:
    def steps(values: Array) -> dict[str, float]:
        readings = SimpleNamespace(sensors=('q',), measured=values[:, None])
        return encoder_steps(cast('Any', [SimpleNamespace(readings=(readings,))]))

    step = 2 * np.pi / 4096
    said = step * np.round(0.4 * np.sin(TIMES) / step) + 0.1234
    assert steps(said) == {'q': pytest.approx(step, rel=1e-9)}
    noise = np.random.default_rng(0).normal(size=len(TIMES))
    assert steps(np.sin(TIMES) + 1e-3 * noise) == {}
    assert steps(np.round(np.sin(TIMES))) == {}
