# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Commands as the actuators see them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysid_ros.rollout.runs import HeldCommand, InterpolatedCommand

if TYPE_CHECKING:
    from numpy.typing import NDArray

TIMESTEP = 0.01


def mean_by_pieces(
    times: NDArray[np.float64], values: NDArray[np.float64], start: float, end: float
) -> float:
    """Average a held command over an interval, cut wherever it changes."""
    inside = [t for t in times if start < t < end]
    cuts = [start, *inside, end]
    total = 0.0
    for left, right in itertools.pairwise(cuts):
        middle = (left + right) / 2
        past = [v for t, v in zip(times, values, strict=True) if t <= middle]
        total += (past[-1] if past else values[0]) * (right - left)
    return total / (end - start)


@st.composite
def held(draw: st.DrawFn) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw irregular stamps around the simulated interval, and values."""
    gaps = draw(st.lists(st.floats(1e-4, 0.05), min_size=1, max_size=12))
    times = draw(st.floats(-0.1, 0.1)) + np.cumsum(gaps)
    values = draw(
        st.lists(st.floats(-10, 10), min_size=len(gaps), max_size=len(gaps)).map(np.array)
    )
    return times, values


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True)
@given(held(), st.floats(0.0, 0.05))
def test_each_step_gets_the_mean_of_the_command_over_it(
    command: tuple[NDArray[np.float64], NDArray[np.float64]], delay: float
) -> None:
    times, values = command
    edges = np.arange(16) * TIMESTEP
    expected = [
        mean_by_pieces(times, values, start - delay, end - delay)
        for start, end in itertools.pairwise(edges)
    ]
    np.testing.assert_allclose(
        HeldCommand(times, values).means(edges, delay), expected, rtol=0, atol=1e-11
    )


@settings(max_examples=40, deadline=None, derandomize=True)
@given(held(), st.floats(0.0, 0.05), st.floats(1e-12, 1e-3))
def test_controls_change_no_faster_with_the_delay_than_the_command_jumps(
    command: tuple[NDArray[np.float64], NDArray[np.float64]], delay: float, change: float
) -> None:
    times, values = command
    edges = np.arange(16) * TIMESTEP
    held_command = HeldCommand(times, values)
    difference = held_command.means(edges, delay + change) - held_command.means(edges, delay)
    steepest = np.sum(np.abs(np.diff(values))) / TIMESTEP
    assert np.all(np.abs(difference) <= steepest * change + 1e-10)


def test_the_first_command_holds_before_it() -> None:
    command = HeldCommand(np.array([1.0, 2.0]), np.array([5.0, 7.0]))
    assert command.means(np.array([0.0, 0.1, 0.2]), 0.0).tolist() == [5.0, 5.0]


def test_the_last_command_holds_after_it() -> None:
    command = HeldCommand(np.array([0.0, 1.0]), np.array([5.0, 0.1]))
    assert command.means(np.array([9.0, 9.1, 9.2]), 0.0).tolist() == [0.1, 0.1]


def test_a_command_of_one_sample_is_constant() -> None:
    command = HeldCommand(np.array([0.5]), np.array([3.0]))
    assert command.means(np.array([0.0, 0.4, 0.6, 2.0]), 0.2).tolist() == [3.0, 3.0, 3.0]


def test_a_change_in_the_middle_of_a_step_is_shared() -> None:
    command = HeldCommand(np.array([0.0, 0.25]), np.array([0.0, 8.0]))
    means = command.means(np.array([0.0, 1.0, 2.0]), 0.0)
    np.testing.assert_allclose(means, [6.0, 8.0], rtol=1e-15)


def test_steps_without_a_change_get_the_held_value_to_the_last_bit() -> None:
    values = np.array([0.1, 1e9, 0.3])
    command = HeldCommand(np.array([0.0, 1.0, 2.0]), values)
    assert command.means(np.array([0.25, 0.75]), 0.0)[0] == values[0]
    assert command.means(np.array([2.25, 2.75]), 0.0)[0] == values[2]


@pytest.mark.parametrize('delay', [0.0, 0.004, 0.01, 0.0137])
def test_a_delay_equals_later_stamps(delay: float) -> None:
    times = np.arange(9) * 0.013
    values = np.sin(40 * times)
    edges = np.arange(20) * TIMESTEP
    np.testing.assert_allclose(
        HeldCommand(times, values).means(edges, delay),
        HeldCommand(times + delay, values).means(edges, 0.0),
        rtol=0,
        atol=1e-13,
    )


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True)
@given(held(), st.floats(0.0, 0.05))
def test_each_step_gets_the_mean_of_an_interpolated_command(
    command: tuple[NDArray[np.float64], NDArray[np.float64]], delay: float
) -> None:
    times, values = command
    edges = np.arange(16) * TIMESTEP
    expected = []
    for start, end in itertools.pairwise(edges - delay):
        corners = np.unique([start, *times[(times > start) & (times < end)], end])
        expected.append(np.trapezoid(np.interp(corners, times, values), corners) / (end - start))
    interpolated = InterpolatedCommand(times, values)
    np.testing.assert_allclose(interpolated.means(edges, delay), expected, rtol=0, atol=1e-10)
    assert interpolated.at(0.05) == np.interp(0.05, times, values)
    assert not interpolated.changes.any()


def test_many_samples_of_an_interpolated_command_are_held_alike() -> None:
    times = np.arange(0, 2, 1e-4)
    edges = np.arange(101) * TIMESTEP
    coarse = InterpolatedCommand(np.array([0.1, 0.5, 0.5 + 1e-9, 1.3]), np.array([1, 3, -2, 0.5]))
    fine = HeldCommand(times, np.array([coarse.at(float(time) + 5e-5) for time in times]))
    np.testing.assert_allclose(coarse.means(edges, 0.02), fine.means(edges, 0.02), atol=2e-3)
