# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Setpoints between the points of trajectories, compared with another implementation's splines."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.interpolate import BPoly

from sysid_ros.signals.setpoints import STEP_NS, SetpointPath

S = 10**9
TIMES = [0.5, 0.9, 2.0, 2.3]


def _points(given: int, seed: int = 0) -> NDArray[np.float64]:
    """Return (4, 3, 2) points with as many derivatives as are given."""
    points = np.random.default_rng(seed).normal(size=(len(TIMES), 3, 2))
    points[:, 1 + given :] = np.nan
    return points


def _nanoseconds(times: list[float]) -> list[int]:
    return [round(time * S) for time in times]


@pytest.mark.parametrize('given', [0, 1, 2])
def test_between_points_the_lowest_polynomial_through_what_is_given_is_asked_for(
    given: int,
) -> None:
    points, start = _points(given), np.array([0.3, -0.2])
    path = SetpointPath(start)
    path.follow(7 * S, _nanoseconds(TIMES), points)
    rows = path.rows()
    rest = np.zeros((1, 3, 2))
    rest[0, 0] = start
    ends = np.concatenate([rest, points])[:, : 1 + given]
    for joint in range(2):
        spline = BPoly.from_derivatives([0, *TIMES], ends[:, :, joint])
        at = (rows.times_ns - 7 * S) / S
        np.testing.assert_allclose(rows.states[:, 0, joint], spline(at), atol=1e-12)
        for order in range(1, 1 + given):
            slopes = spline.derivative(order)(at)
            np.testing.assert_allclose(rows.states[:, order, joint], slopes, atol=1e-9)
        between = np.linspace(0, TIMES[-1], 9999)
        straight = np.interp(between, at, rows.states[:, 0, joint])
        bend = np.abs(spline.derivative(2)(between)).max() if given else 0.0
        error = np.abs(straight - spline(between)).max()
        assert error <= 1.01 * bend * (STEP_NS / S) ** 2 / 8 + 1e-12
    assert given or len(rows.times_ns) == 1 + len(TIMES)


@pytest.mark.parametrize(('given', 'jerk'), [(0, False), (1, False), (2, True)])
def test_a_later_trajectory_goes_on_from_what_is_asked_for_when_it_begins(
    given: int, *, jerk: bool
) -> None:
    path = SetpointPath(np.zeros(2))
    path.follow(0, _nanoseconds(TIMES), _points(given))
    before = path.at(round(1.2 * S))
    path.follow(round(1.2 * S), _nanoseconds(TIMES), _points(given, seed=1))
    rows = path.rows()
    assert rows.times_ns[-1] == round(3.5 * S)
    at = int(np.searchsorted(rows.times_ns, round(1.2 * S)))
    np.testing.assert_allclose(rows.states[at, 0], before[0], atol=1e-12)
    kinks = np.abs(np.diff(np.diff(rows.states[:, 0, 0]) / np.diff(rows.times_ns / S)))
    if given:
        # Its speed changes by no more than an acceleration over one step, also there.
        largest = np.abs(rows.states[:, 2]).max() * 2.1e-3
        assert kinks.max() < largest
    assert (np.abs(path.at(round(1.2 * S))[2] - before[2]).max() < 1e-9) == jerk or not given


def test_a_point_without_time_is_a_jump() -> None:
    path = SetpointPath(np.zeros(1))
    for begin, value in ((1 * S, 1.0), (2 * S, 5.0)):
        path.follow(begin, [0], np.array([[[value], [np.nan], [np.nan]]]))
    assert path.only_jumps
    assert path.rows(held=True).times_ns.tolist() == [1 * S, 2 * S]
    rows = path.rows()
    assert rows.times_ns.tolist() == [S - 1, S, 2 * S - 1, 2 * S]
    assert rows.states[:, 0, 0].tolist() == [0, 1, 1, 5]


def test_nothing_is_said_while_the_unknown_state_before_counts() -> None:
    unknown, known = SetpointPath(), SetpointPath(np.array([7.0]))
    for k in range(40):
        for path in (unknown, known):
            path.follow(k * S, [2 * S], np.array([[[np.sin(k)], [np.nan], [np.nan]]]))
    found, truth = unknown.rows(), known.rows()
    assert found.times_ns.tolist() == truth.times_ns[-len(found.times_ns) :].tolist()
    assert len(truth.times_ns) > len(found.times_ns) > len(truth.times_ns) - 18
    there = truth.states[-len(found.times_ns) :, 0]
    np.testing.assert_allclose(found.states[:, 0], there, atol=7e-4)


def test_the_future_of_a_path_is_all_that_is_needed_of_it() -> None:
    long, short = SetpointPath(np.zeros(2)), SetpointPath(np.zeros(2))
    for k, seed in itertools.product(range(3), range(2)):
        for path in (long, short):
            path.follow((2 * k + seed) * S, _nanoseconds(TIMES), _points(1, seed))
        short.forget((2 * k + seed) * S)
    for one, other in zip(long.rows(latest=True), short.rows(latest=True), strict=True):
        np.testing.assert_array_equal(one, other)
