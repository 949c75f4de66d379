# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The motions of the bench are those that BAM's logs name."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sysid_ros.errors import ParameterError
from sysid_ros.servos.bench.motions import KPS, STANDARD, TRAJECTORIES, trajectory
from sysid_ros.servos.laws.servo import ACTUATORS

#: Name, time in s, goal in rad: from BAM's formulas, cubics from rest to rest by their symmetry.
GOALS = [
    ('sin_sin', 1.3, math.sin(1.3) * math.pi / 2 + 0.5 * math.sin(6.5) * math.sin(2.6)),
    ('sin_time_square', 2.5, math.sin(6.25)),
    ('half_sine', 6.0, math.sin(3.0) * math.pi / 2),
    ('lift_and_drop', 0.5, -math.pi / 2 * (3 / 16 - 2 / 64)),
    ('lift_and_drop', 1.0, -math.pi / 4),
    ('lift_and_drop', 5.0, -math.pi / 2),
    ('up_and_down', 1.5, math.pi / 4),
    ('up_and_down', 3.0, math.pi / 2),
    ('up_and_down', 4.5, 0.9 * math.pi / 2),
    ('up_and_down', 6.0, 0.8 * math.pi / 2),
    ('steps', 1.0, 0.0),
    ('steps', 1.001, 0.75),
    ('steps', 3.0, 1.55),
    ('steps', 5.5, 0.0),
    ('nothing', 3.0, 0.0),
]


@pytest.mark.parametrize(('name', 'time', 'expected'), GOALS)
def test_goals_are_those_of_bam(name: str, time: float, expected: float):
    assert trajectory(name).goal(time) == pytest.approx(expected, abs=1e-14)


def test_many_times_give_what_each_gives():
    times = np.linspace(0.0, 6.0, 241)
    for item in TRAJECTORIES.values():
        singly = [float(item.goal(time)) for time in times]
        np.testing.assert_array_equal(item.goal(times), singly)


def test_only_the_drop_and_nothing_switch_the_motor_off():
    times = np.array([0.0, 1.999, 2.0, 6.0])
    enabled = {name: item.enabled(times).tolist() for name, item in TRAJECTORIES.items()}

    assert enabled.pop('lift_and_drop') == [True, True, False, False]
    assert enabled.pop('nothing') == [False] * 4
    assert all(all(states) for states in enabled.values())
    assert [name for name, item in TRAJECTORIES.items() if item.switches] == [
        'lift_and_drop',
        'nothing',
    ]


def test_they_last_six_seconds_and_start_hanging():
    assert {item.duration for item in TRAJECTORIES.values()} == {6.0}
    assert all(item.goal(0.0) == 0.0 for item in TRAJECTORIES.values())


def test_names_are_known():
    assert set(STANDARD) <= set(TRAJECTORIES)
    assert set(KPS) <= set(ACTUATORS)
    with pytest.raises(ParameterError, match=r"no trajectory 'sinsin'; nearest: sin_sin"):
        trajectory('sinsin')
