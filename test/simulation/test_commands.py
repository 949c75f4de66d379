# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Commands as the actuators see them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sysid_ros.signals.setpoints import SetpointPath, SetpointRows
from sysid_ros.simulation.runs import HeldCommand, InterpolatedCommand

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


def test_steps_without_a_change_get_the_held_value_to_the_last_bit() -> None:
    values = np.array([0.1, 1e9, 0.3])
    command = HeldCommand(np.array([0.0, 1.0, 2.0]), values)
    assert command.means(np.array([0.25, 0.75]), 0.0)[0] == values[0]
    assert command.means(np.array([2.25, 2.75]), 0.0)[0] == values[2]


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
    assert interpolated.in_force(np.array([0.05])) == np.interp(0.05, times, values)
    assert not interpolated.changes.any()


def wave(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what a controller asks for."""
    return np.asarray(0.5 * np.sin(2 * np.pi * times) + 0.2 * np.sin(4 * np.pi * times + 1))


@pytest.mark.parametrize('late', [0.0, 0.002, 0.004, 0.006, 0.008])
def test_what_servos_hold_from_update_to_update_is_a_sawtooth_beside_what_is_asked_for(
    late: float,
) -> None:
    period, step, delay = 0.01, 0.002, 0.004
    measured, edges = period * np.arange(-1, 200), step * np.arange(951)
    # Servos have what is asked for in the middle of the period, so late after a measurement.
    held = HeldCommand(measured + late, wave(measured + late + period / 2 - delay))
    exact = held.means(edges, 0.0)
    times = np.arange(-0.1, 2.1, 1e-3)
    command = InterpolatedCommand(times, wave(times))
    ahead = (late - period if late else 0.0) + period / 2 - step / 2
    said = {'update_phase': ahead, 'update_ripple': 1.0, 'update_blur': 1.0}
    inside = slice(25, -25)
    found = (command.updated(edges, delay, measured, said) - exact)[inside]
    without = (command.means(edges, delay) - exact)[inside]
    assert np.abs(found).max() < 0.02 * np.abs(without).max()
    # So is what a robot makes of it that answers within 50 ms.
    answer = np.exp(-step / 0.05 * np.arange(400)) * step / 0.05
    ends = [np.abs(np.convolve(each, answer)[400:-400]).max() for each in (found, without)]
    assert ends[0] < 0.05 * ends[1]


SAID = {'update_phase': 0.004, 'update_ripple': 1.0, 'update_blur': 1.0}


def test_a_command_that_jumps_does_not_run_ahead_of_itself() -> None:
    times = np.array([0.0, 0.5, 0.5 + 1e-9, 1.0])
    command = InterpolatedCommand(times, np.array([0.0, 0.0, 1.0, 1.0]))
    found = command.updated(0.002 * np.arange(500), 0.0, 0.01 * np.arange(-1, 100), SAID)
    assert np.minimum(np.abs(found), np.abs(found - 1.0)).max() < 1e-6


@pytest.mark.parametrize('derivatives', [1, 2])
def test_messages_that_are_late_by_different_times_go_on_from_each_other(derivatives: int) -> None:
    later = np.array([0.001, 0.004, -0.004])

    def path(late: NDArray[np.float64]) -> SetpointRows:
        found = SetpointPath(np.zeros(1))
        for begin, own in zip((0.0, 0.83, 1.7), late, strict=True):
            after = np.arange(0.1, 1.5, 0.1) + (begin == 0.83) * 0.03
            points = np.full((len(after), 3, 1), np.nan)
            for order in range(derivatives):
                turn = 2 * np.pi * (begin + after) + order * np.pi / 2
                points[:, order, 0] = (2 * np.pi) ** order * np.sin(turn)
            found.follow(round(1e9 * (begin + own)), np.round(1e9 * after).astype(int), points)
        return found.rows()

    rows = path(np.zeros(3))
    times = rows.times_ns / 1e9
    last = np.flatnonzero(np.diff(rows.trajectory))
    ends = [np.flatnonzero(rows.leg == rows.leg[n + 1])[-1] for n in last]
    switches = np.stack([times[last], times[ends]], axis=1)
    command = InterpolatedCommand(times, rows.states[:, 0, 0])
    at = np.arange(0.2, 2.5, 0.003)
    true = path(later)
    expected = np.interp(at, true.times_ns / 1e9, true.states[:, 0, 0])
    found = command.replaced(switches, later).in_force(at)
    assert np.abs(found - expected).max() < 1e-3
    assert np.abs(command.in_force(at) - expected).max() > 0.02
