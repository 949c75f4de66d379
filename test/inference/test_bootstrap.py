# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Intervals from draws of noise, on linear problems whose answer is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.signal import lfilter

from sysid_ros.estimation.layout import PRIOR, Samples
from sysid_ros.estimation.solver.least_squares import Solution
from sysid_ros.inference import IntervalMethod, infer
from sysid_ros.model.unknown import Unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sysid_ros.inference import Inference

    Noise = Callable[[np.random.Generator, int], NDArray[np.float64]]

TRUTH = np.array([2.0, -1.0])
EACH = 100
UNKNOWNS = [Unknown(name, (), 0.0, -1e3, 1e3) for name in 'ab']


def columns(count: int) -> NDArray[np.float64]:
    """Return the (EACH * count, 2) derivative of sequences of different motions."""
    t = np.arange(EACH) / 20
    rates = np.random.default_rng(1).uniform(1.0, 4.0, (count, 2))
    each = [np.stack([np.sin(a * t) + 0.5, np.cos(b * t)], axis=1) for a, b in rates]
    return np.concatenate(each)


def layout(count: int) -> Samples:
    return Samples(
        sequence=np.repeat(np.arange(count), EACH),
        time=np.tile(np.arange(EACH) / 20, count),
        sensor=np.zeros(EACH * count, dtype=np.int64),
        sensors=('q',),
    )


def inferred(
    jacobian: NDArray[np.float64],
    measured: NDArray[np.float64],
    samples: Samples,
    method: IntervalMethod,
) -> Inference:
    x = np.linalg.lstsq(jacobian, measured, rcond=None)[0].astype(np.float64)
    residual = jacobian @ x - measured
    found = Solution(x, residual, 0.0, 'cost', '', success=True, trace=())
    return infer(found, jacobian, UNKNOWNS, samples, method=method)


def widths(found: Inference) -> NDArray[np.float64]:
    return np.array([row.high - row.low for row in found.intervals])


def hits(found: Inference) -> NDArray[np.bool_]:
    rows = zip(found.intervals, TRUTH, strict=True)
    return np.array([row.low <= truth <= row.high for row, truth in rows])


def white(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    return rng.standard_normal(count)


def slow(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Return noise with a correlation of 0.8 between neighbours."""
    return np.asarray(lfilter([0.6], [1.0, -0.8], rng.standard_normal(count + 100)))[100:]


@pytest.mark.slow
@pytest.mark.parametrize('noise', [white, slow])
def test_intervals_from_blocks_hold_the_truth_about_as_often(noise: Noise) -> None:
    jacobian, samples = columns(4), layout(4)
    rng = np.random.default_rng(2)
    share = np.zeros(2)
    for seed in range(40):
        measured = jacobian @ TRUTH + noise(rng, len(jacobian))
        share += hits(inferred(jacobian, measured, samples, IntervalMethod('bootstrap', 200, seed)))
    assert np.all(share / 40 >= 0.85)


@pytest.mark.slow
@pytest.mark.parametrize('noise', [white, slow])
def test_draws_of_stationary_noise_are_as_wide_as_its_covariance(noise: Noise) -> None:
    jacobian, samples = columns(4), layout(4)
    measured = jacobian @ TRUTH + noise(np.random.default_rng(3), len(jacobian))
    sandwich = inferred(jacobian, measured, samples, IntervalMethod())
    drawn = inferred(jacobian, measured, samples, IntervalMethod('bootstrap', 2000))
    assert widths(drawn) == pytest.approx(widths(sandwich), rel=0.1)
    assert 'in blocks of' in drawn.method


@pytest.mark.slow
def test_blocks_keep_what_sensors_have_in_common() -> None:
    """Two sensors that always read the same say as much as one."""
    jacobian, samples = columns(4), layout(4)
    measured = jacobian @ TRUTH + white(np.random.default_rng(4), len(jacobian))
    method = IntervalMethod('bootstrap', 1000)
    one = inferred(jacobian, measured, samples, method)
    count = len(jacobian)
    both = Samples(
        np.tile(samples.sequence, 2),
        np.tile(samples.time, 2),
        np.repeat([0, 1], count),
        ('q', 'p'),
    )
    two = inferred(np.tile(jacobian, (2, 1)), np.tile(measured, 2), both, method)
    assert widths(two) == pytest.approx(widths(one), rel=0.1)


def test_skewed_noise_gives_skewed_intervals() -> None:
    """A few samples with rare large errors to one side: the estimate strays to that side."""
    rng = np.random.default_rng(5)
    count = 24
    jacobian = np.stack([np.ones(count), np.tile([1.0, -1.0], count // 2)], axis=1)
    samples = Samples(
        np.zeros(count, dtype=np.int64),
        np.arange(count) / 20,
        np.zeros(count, dtype=np.int64),
        ('q',),
    )
    noise = np.where(rng.permutation(count) < 2, 10.0, 0.0) + 0.1 * rng.standard_normal(count)
    measured = jacobian @ TRUTH + noise
    found = inferred(jacobian, measured, samples, IntervalMethod('bootstrap', 2000))
    value = np.linalg.lstsq(jacobian, measured, rcond=None)[0][0]
    row = found.intervals[0]
    # Noise to one side makes estimates stray to that side: the truth may be far on the other.
    assert value - row.low > 1.1 * (row.high - value)


@pytest.mark.slow
def test_recordings_that_disagree_hold_the_truth_about_as_often() -> None:
    jacobian, samples = columns(8), layout(8)
    rng = np.random.default_rng(6)
    share = np.zeros(2)
    for seed in range(40):
        own = np.repeat(rng.normal(TRUTH, 0.1, (8, 2)), EACH, axis=0)
        measured = np.sum(jacobian * own, axis=1) + 0.05 * white(rng, len(jacobian))
        found = inferred(jacobian, measured, samples, IntervalMethod('bootstrap', 200, seed))
        share += hits(found)
    assert np.all(share / 40 >= 0.85)
    assert 'whole recordings' in found.method


@pytest.mark.slow
def test_the_same_seed_gives_the_same_interval_and_another_one_nearly() -> None:
    jacobian, samples = columns(2), layout(2)
    measured = jacobian @ TRUTH + white(np.random.default_rng(7), len(jacobian))
    first, again, other = (
        inferred(jacobian, measured, samples, IntervalMethod('bootstrap', 2000, seed))
        for seed in (0, 0, 1)
    )
    assert first.intervals == again.intervals
    assert not np.array_equal(widths(first), widths(other))
    assert widths(other) == pytest.approx(widths(first), rel=0.1)


def test_a_prior_counts_with_its_deviation() -> None:
    """Nothing else is known of the first parameter."""
    jacobian = np.concatenate([columns(1) * [0.0, 1.0], [[1 / 0.3, 0.0]]])
    noise = np.append(white(np.random.default_rng(8), EACH), 0.0)
    samples = Samples(
        np.zeros(EACH + 1, dtype=np.int64),
        np.append(np.arange(EACH) / 20, 0.0),
        np.append(np.zeros(EACH, dtype=np.int64), PRIOR),
        ('q',),
    )
    found = inferred(jacobian, jacobian @ TRUTH + noise, samples, IntervalMethod('bootstrap', 4000))
    assert widths(found)[0] / 2 == pytest.approx(1.96 * 0.3, rel=0.1)


@pytest.mark.parametrize('count', [3, 6])
def test_a_record_of_hardly_more_samples_than_parameters_has_intervals(count: int) -> None:
    jacobian = columns(1)[:count]
    samples = Samples(
        np.zeros(count, dtype=np.int64),
        np.arange(count) / 20,
        np.zeros(count, dtype=np.int64),
        ('q',),
    )
    measured = jacobian @ TRUTH + white(np.random.default_rng(9), count)
    found = inferred(jacobian, measured, samples, IntervalMethod('bootstrap', 200))
    assert np.all(widths(found) > 0)
    assert np.all(np.isfinite(widths(found)))
