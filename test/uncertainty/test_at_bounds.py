# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Intervals where values are at their bounds, on linear problems whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import lsq_linear
from scipy.stats import binom, truncnorm

from builders.problems import problem
from sysid_ros.fit.differences import Samples
from sysid_ros.fit.linear import Linear
from sysid_ros.model.targets import Unknown
from sysid_ros.uncertainty.covariance import at_bounds
from sysid_ros.uncertainty.inference import infer
from sysid_ros.uncertainty.verdicts import Interval

COUNT = 400
FAR = 1e3
ZEROS = np.zeros(COUNT, dtype=np.int64)
SAMPLES = Samples(ZEROS, np.arange(COUNT) / 100.0, ZEROS, ('q',))


def columns(*shares: float) -> NDArray[np.float64]:
    """Return a free column, and one for each share that is as much of it as that, of length 1."""
    basis = np.linalg.qr(np.random.default_rng(5).standard_normal((COUNT, 1 + len(shares))))[0]
    made = [basis[:, 0]]
    for share, own in zip(shares, basis.T[1:], strict=True):
        made.append(share * basis[:, 0] + np.sqrt(1.0 - share**2) * own)
    return np.stack(made, axis=1)


def unknowns(count: int, low: float = 0.0, high: float = FAR) -> list[Unknown]:
    """Return one that is free, and others between bounds."""
    bounded = [Unknown(f'b{k}', (), 1.0, low, high) for k in range(count - 1)]
    return [Unknown('a', (), 1.0, -FAR, FAR), *bounded]


def solved(
    jacobian: NDArray[np.float64], measured: NDArray[np.float64], parameters: list[Unknown]
) -> Linear:
    bounds = np.array([[u.min_value, u.max_value] for u in parameters]).T
    x = np.clip(lsq_linear(jacobian, measured, bounds, method='bvls').x, *bounds)
    return problem(x, jacobian @ x - measured, jacobian, parameters, SAMPLES)


def intervals(
    jacobian: NDArray[np.float64], measured: NDArray[np.float64], parameters: list[Unknown]
) -> tuple[Interval, ...]:
    return infer(solved(jacobian, measured, parameters)).intervals


@pytest.mark.parametrize('shares', [(0.95,), (-0.9, 0.9), (0.7, 0.7)])
@pytest.mark.parametrize('deviations', [0.0, 1.0])
def test_intervals_hold_truths_that_are_near_bounds(
    shares: tuple[float, ...], deviations: float
) -> None:
    """With them held there, intervals of the first held it in as little as a half of the draws."""
    jacobian, rng, draws = columns(*shares), np.random.default_rng(1), 150
    truth = np.full(len(shares) + 1, deviations)
    truth[1:] *= np.sqrt(np.diag(np.linalg.inv(jacobian.T @ jacobian)))[1:]
    parameters = unknowns(len(truth))
    held = np.zeros(len(truth))
    for _ in range(draws):
        rows = intervals(jacobian, jacobian @ truth + rng.standard_normal(COUNT), parameters)
        # Where the data push beyond a bound, a value at it has none.
        held += [
            row.low <= value <= row.high or (np.isnan(row.low) and value == 0.0)
            for row, value in zip(rows, truth, strict=True)
        ]
    least = binom.ppf(0.001, draws, 0.95 if deviations else 0.925)
    assert (held >= least).all()


@pytest.mark.parametrize('push', [-1.5, -0.5, 0.0])
def test_its_interval_is_the_inner_part_of_a_normal_distribution(push: float) -> None:
    jacobian = columns(0.6)
    deviation = np.sqrt(np.linalg.inv(jacobian.T @ jacobian)[1, 1])
    noise = np.random.default_rng(2).standard_normal(COUNT)
    noise -= jacobian @ np.linalg.lstsq(jacobian, noise, rcond=None)[0]
    noise *= np.sqrt(COUNT - 2) / np.linalg.norm(noise)
    measured = jacobian @ [2.0, push * deviation] + noise
    found = infer(solved(jacobian, measured, unknowns(2)))
    other, row = found.intervals
    # The noise is what these residuals say, which is about the textbook's.
    size = np.sqrt(found.covariance[1, 1])
    assert size == pytest.approx(deviation, rel=0.15)
    mean = push * deviation
    assert row.low == 0.0
    assert row.high == pytest.approx(truncnorm(-mean / size, np.inf, mean, size).ppf(0.95))
    # The other is as uncertain as with this one free.
    assert (other.high - other.low) / 2 == pytest.approx(1.96 * deviation, rel=0.15)


@pytest.mark.parametrize('push', [-1.5, -2.5])
def test_only_what_is_beyond_the_noise_pushes_outwards(push: float) -> None:
    jacobian = columns(0.6)
    deviation = np.sqrt(np.linalg.inv(jacobian.T @ jacobian)[1, 1])
    noise = np.random.default_rng(2).standard_normal(COUNT)
    noise -= jacobian @ np.linalg.lstsq(jacobian, noise, rcond=None)[0]
    bounds = at_bounds(solved(jacobian, jacobian @ [2.0, push * deviation] + noise, unknowns(2)))
    assert bounds.beyond == pytest.approx([push * deviation], abs=1e-9)
    assert bounds.pushed == [push < -1.96]


def test_an_upper_bound_is_a_lower_one_the_other_way_round() -> None:
    jacobian = columns(0.9)
    noise = np.random.default_rng(3).standard_normal(COUNT)
    measured = jacobian @ [1.0, -0.5] + noise
    below = intervals(jacobian, measured, unknowns(2))
    above = intervals(jacobian, -measured, unknowns(2, -FAR, 0.0))
    for one, other in zip(below, above, strict=True):
        assert (one.low, one.high) == pytest.approx((-other.high, -other.low), abs=1e-9)


def test_two_that_only_move_together_are_open_together() -> None:
    """Each by itself is held at its bound by the other, below 2."""
    jacobian = columns(0.0, 0.0)
    jacobian[:, 2] = -jacobian[:, 1] + 0.1 * jacobian[:, 2]
    noise = np.random.default_rng(4).standard_normal(COUNT)
    noise -= jacobian @ np.linalg.lstsq(jacobian, noise, rcond=None)[0]
    _, first, second = intervals(jacobian, noise + jacobian @ [1.0, 0.0, 0.0], unknowns(3))
    assert first.high > 5.0
    assert second.high > 5.0


def test_what_cannot_be_seen_off_its_bound_has_no_interval() -> None:
    jacobian = columns(0.0, 0.0)
    jacobian[:, 2] = jacobian[:, 0]
    measured = jacobian @ [2.0, -0.1, 0.0]
    measured += np.random.default_rng(5).standard_normal(COUNT)
    assert np.isnan(intervals(jacobian, measured, unknowns(3))[2].high)
