# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Intervals of a linear problem whose noise, outliers or recordings are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from sysid_ros.config.calibration import VerdictKind
from sysid_ros.estimation.layout import PRIOR, Samples
from sysid_ros.estimation.solver.solver import Solution
from sysid_ros.inference import Inference, infer
from sysid_ros.model.unknown import Unknown

Array = NDArray[np.float64]

TRUTH = np.array([2.0, -1.0])
EACH = 100
DRAWS = 60


def columns(count: int) -> NDArray[np.float64]:
    """Return the (EACH * count, 2) derivative, the motion of each sequence being another."""
    t = np.arange(EACH) / 20
    rng = np.random.default_rng(1)
    return np.concatenate(
        [
            np.stack([np.sin(a * t) + 0.5, np.cos(b * t)], axis=1)
            for a, b in rng.uniform(1.0, 4.0, (count, 2))
        ]
    )


def layout(count: int, bags: tuple[str, ...]) -> Samples:
    return Samples(
        sequence=np.repeat(np.arange(count), EACH),
        time=np.tile(np.arange(EACH) / 20, count),
        sensor=np.zeros(EACH * count, dtype=np.int64),
        sensors=('q',),
        bags=bags,
    )


def inferred(
    jacobian: NDArray[np.float64], measured: NDArray[np.float64], samples: Samples
) -> Inference:
    x = np.linalg.lstsq(jacobian, measured, rcond=None)[0].astype(np.float64)
    residual = jacobian @ x - measured
    cost = 0.5 * float(residual @ residual)
    found = Solution(x, residual, cost, 'cost', '', success=True, trace=())
    unknowns = [Unknown(name, (), 0.0, -20.0, 20.0) for name in 'ab']
    return infer(found, jacobian, unknowns, samples)


@pytest.mark.slow
def test_recordings_that_disagree_hold_the_truth_about_as_often() -> None:
    """Each recording has coefficients of its own, as when a model lacks something."""
    jacobian, samples = columns(8), layout(8, tuple('abcdefgh'))
    rng = np.random.default_rng(2)
    hits = np.zeros(2)
    for _ in range(DRAWS):
        own = np.repeat(rng.normal(TRUTH, 0.1, (8, 2)), EACH, axis=0)
        measured = np.sum(jacobian * own, axis=1) + 0.05 * rng.normal(size=len(jacobian))
        found = inferred(jacobian, measured, samples).intervals
        hits += [r.low <= truth <= r.high for r, truth in zip(found, TRUTH, strict=True)]
    assert np.all(hits / DRAWS >= 0.9)
    assert np.all(hits / DRAWS <= 0.99)


def test_windows_of_one_bag_are_not_recordings() -> None:
    jacobian = columns(8)
    measured = jacobian @ TRUTH + np.random.default_rng(3).normal(size=len(jacobian))
    windows = inferred(jacobian, measured, layout(8, ('a',) * 8))
    bags = inferred(jacobian, measured, layout(8, tuple('abcdefgh')))
    assert 'inside of one recording' in windows.method
    assert bags.method == 'from the disagreement of 8 recordings'


def test_a_run_shorter_than_the_memory_of_the_noise_counts_as_far_as_it_goes() -> None:
    jacobian = columns(4)
    measured = jacobian @ TRUTH + np.random.default_rng(4).normal(size=len(jacobian))
    whole = layout(4, ('a',) * 4)
    # The last four samples are a run of their own, as a step is that lasted a moment.
    short = replace(
        whole,
        sequence=np.where(np.arange(len(measured)) < len(measured) - 4, whole.sequence, 4),
        bags=('a',) * 5,
    )
    found, expected = (inferred(jacobian, measured, each).intervals for each in (short, whole))
    for one, other in zip(found, expected, strict=True):
        assert one.high - one.low == pytest.approx(other.high - other.low, rel=0.1)


def of_some(own: Array, rng: np.random.Generator, seen: float = 1.0) -> Inference:
    """Return what is found where a few recordings are off by (n, 2) numbers.

    So much of the parameters' effect is seen.
    """
    jacobian, samples = seen * columns(len(own)), layout(len(own), tuple('abcdefgh'[: len(own)]))
    measured = np.sum(jacobian * (TRUTH + np.repeat(own, EACH, axis=0)), axis=1)
    return inferred(jacobian, measured + rng.normal(size=len(jacobian)), samples)


def alternating(size: float) -> Array:
    return size * np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])


def test_a_few_recordings_that_disagree_are_told_and_those_that_do_not_are_not() -> None:
    apart, alike = (of_some(alternating(size), np.random.default_rng(7)) for size in (0.8, 0.0))
    assert any('4 recordings disagree, most of all about a' in note for note in apart.notes)
    assert apart.disagreement is not None
    assert apart.disagreement.most == 'a'
    assert alike.disagreement is None
    assert not alike.notes


def test_intervals_of_a_few_recordings_that_disagree_hold_the_truth() -> None:
    rng = np.random.default_rng(8)
    draws = [of_some(rng.normal(scale=0.8, size=(4, 2)), rng) for _ in range(DRAWS)]
    off = np.array([[(row.high + row.low) / 2 for row in each.intervals] for each in draws]) - TRUTH
    half = np.array([[(row.high - row.low) / 2 for row in each.intervals] for each in draws])
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


def test_what_recordings_disagree_about_too_much_is_not_identified() -> None:
    row = of_some(alternating(0.8), np.random.default_rng(7)).intervals[0]
    assert row.verdict_kind is VerdictKind.MODEL_LIMITED
    assert 'record 8 or more' in row.explanation


def test_many_recordings_that_disagree_too_much_do_not_lack_motion() -> None:
    own = np.concatenate([alternating(1.0), alternating(1.0)])
    apart = of_some(own, np.random.default_rng(7)).intervals[0]
    assert apart.verdict_kind is VerdictKind.MODEL_LIMITED
    assert 'The 8 recordings disagree about it' in apart.explanation
    # Where noise is as large as what is seen, they lack it.
    unseen = of_some(0.0 * own, np.random.default_rng(7), seen=0.05).intervals[0]
    assert unseen.verdict_kind is VerdictKind.NOT_EXCITED


def test_residuals_that_stay_alike_limit_and_white_ones_lack_motion() -> None:
    jacobian, samples = columns(8), layout(8, ('a',) * 8)
    white = np.random.default_rng(7).normal(size=len(jacobian))
    slow = 2.0 * np.sqrt(1 - 0.98**2) * lfilter([1.0], [1.0, -0.98], white)
    limited = inferred(jacobian, jacobian @ TRUTH + slow, samples).intervals[0]
    assert limited.verdict_kind is VerdictKind.MODEL_LIMITED
    assert 'stay alike' in limited.explanation
    unseen = inferred(0.05 * jacobian, 0.05 * jacobian @ TRUTH + white, samples).intervals[0]
    assert unseen.verdict_kind is VerdictKind.NOT_EXCITED


def test_what_only_a_prior_knows_is_as_uncertain_as_the_prior_says() -> None:
    jacobian = np.concatenate([columns(1) * [0.0, 1.0], [[1 / 0.3, 0.0]]])
    noise = np.append(np.random.default_rng(8).normal(size=EACH), 0.0)
    samples = Samples(
        np.zeros(EACH + 1, dtype=np.int64),
        np.append(np.arange(EACH) / 20, 0.0),
        np.append(np.zeros(EACH, dtype=np.int64), PRIOR),
        ('q',),
    )
    row = inferred(jacobian, jacobian @ TRUTH + noise, samples).intervals[0]
    assert (row.high - row.low) / 2 == pytest.approx(1.96 * 0.3, rel=1e-3)


@pytest.mark.slow
def test_intervals_in_white_noise_are_those_of_the_textbook() -> None:
    jacobian, samples = columns(2), layout(2, ('a', 'b'))
    rng = np.random.default_rng(4)
    exact = 1.96 * np.sqrt(np.diag(np.linalg.inv(jacobian.T @ jacobian)))
    ratios = []
    for _ in range(20):
        found = inferred(jacobian, jacobian @ TRUTH + rng.normal(size=len(jacobian)), samples)
        ratios.append([(r.high - r.low) / 2 for r in found.intervals] / exact)
    mean = np.mean(ratios, axis=0)
    assert np.all(mean >= 0.95)
    assert np.all(mean <= 1.3)


@pytest.mark.slow
def test_a_robust_loss_with_outliers_hold_the_truth_about_as_often() -> None:
    jacobian, samples = columns(2), layout(2, ('a', 'b'))
    rng = np.random.default_rng(5)
    unknowns = [Unknown(name, (), 0.0, -20.0, 20.0) for name in 'ab']
    hits, draws = np.zeros(2), 100
    for _ in range(draws):
        noise = rng.normal(size=len(jacobian))
        noise *= np.where(rng.uniform(size=len(jacobian)) < 0.05, 20.0, 1.0)
        measured = jacobian @ TRUTH + noise
        x = TRUTH
        for _ in range(20):
            weights = 1 / np.maximum(np.abs(jacobian @ x - measured), 1.0)
            x = np.linalg.solve(
                jacobian.T @ (weights[:, None] * jacobian), jacobian.T @ (weights * measured)
            )
        solution = Solution(x, jacobian @ x - measured, 0.0, 'cost', '', success=True, trace=())
        found = infer(solution, jacobian, unknowns, samples, loss='huber').intervals
        hits += [r.low <= truth <= r.high for r, truth in zip(found, TRUTH, strict=True)]
    assert np.all(hits / draws >= 0.9)
    assert np.all(hits / draws <= 0.99)


@pytest.mark.parametrize('count', [3, 4, 6])
def test_a_record_of_hardly_more_samples_than_parameters_has_intervals(count: int) -> None:
    jacobian = columns(1)[:count]
    samples = Samples(
        np.zeros(count, dtype=np.int64),
        np.arange(count) / 20,
        np.zeros(count, dtype=np.int64),
        ('q',),
    )
    measured = jacobian @ TRUTH + np.random.default_rng(6).normal(size=count)
    found = inferred(jacobian, measured, samples)
    assert all(np.isfinite(r.low) and r.low < r.high for r in found.intervals)
