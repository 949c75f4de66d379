# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Logs side by side: what pads them, what windows hold, what cannot be together."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sysid_ros.errors import FitError
from sysid_ros.servos.logs import ServoLog
from sysid_ros.servos.pendulum import stack_logs
from sysid_ros.simulation.servo import Servo

SERVO = Servo.named('xl330', 'm1')


def _log(count: int, first: float = 0.0, **changes: object) -> ServoLog:
    """Return a log whose samples are all different: whole numbers, and fractions of them."""
    numbers = first + np.arange(count, dtype=float)
    log = ServoLog(
        name=f'log{first:g}',
        motor='xl330',
        trajectory='numbers',
        mass=0.5,
        arm_mass=0.3,
        length=0.2,
        constants={'kp': 100.0 + first, 'vin': 6.0},
        dt=0.01,
        position=numbers,
        goal=numbers + 0.1,
        enabled=numbers % 2,
        speed=numbers + 0.2,
    )
    return dataclasses.replace(log, **changes)


def test_a_pendulum_has_the_inertia_and_weight_of_a_mass_on_a_rod():
    found = stack_logs(SERVO, [_log(3), _log(3, mass=1.0, arm_mass=0.0, length=0.1)])
    np.testing.assert_allclose(found.inertia, [0.5 * 0.04 + 0.1 * 0.04, 0.01])
    np.testing.assert_allclose(found.weight, [0.65 * 9.80665 * 0.2, 9.80665 * 0.1])


def test_shorter_logs_repeat_their_last_sample_which_does_not_count():
    found = stack_logs(SERVO, [_log(4), _log(2, 10.0)])
    assert found.lengths.tolist() == [4, 2]
    np.testing.assert_array_equal(found.position.T, [[0, 1, 2, 3], [10, 11, 11, 11]])
    np.testing.assert_array_equal(found.goal.T[1], [10.1, 11.1, 11.1, 11.1])
    np.testing.assert_array_equal(found.enabled.T, [[0, 1, 0, 1], [0, 1, 1, 1]])
    np.testing.assert_array_equal(found.speed.T[1], [10.2, 11.2, 11.2, 11.2])
    np.testing.assert_array_equal(found.readings.counted.T, [[1, 1, 1, 1], [1, 1, 0, 0]])


def test_windows_hold_consecutive_samples_of_one_log_each():
    whole = stack_logs(SERVO, [_log(7), _log(2, 20.0), _log(5, 10.0, mass=1.0)])
    found = whole.windows(3)
    np.testing.assert_array_equal(found.position.T, [[0, 1, 2], [3, 4, 5], [10, 11, 12]])
    np.testing.assert_array_equal(found.goal, found.position + 0.1)
    np.testing.assert_array_equal(found.speed, found.position + 0.2)
    np.testing.assert_array_equal(found.enabled, found.position % 2)
    np.testing.assert_array_equal(found.constants['kp'], [100, 100, 110])
    np.testing.assert_array_equal(found.inertia, whole.inertia[[0, 0, 2]])
    np.testing.assert_array_equal(found.weight, whole.weight[[0, 0, 2]])
    assert found.lengths.tolist() == [3, 3, 3]
    assert found.readings.counted.all()
    assert found.dt == 0.01
    with pytest.raises(FitError, match='found at most 7'):
        whole.windows(8)


def test_windows_know_the_command_before_them():
    whole = stack_logs(SERVO, [_log(7), _log(5, 10.0)])
    assert whole.last_goal.tolist() == [0.0, 0.0]
    windows = whole.windows(4)
    assert windows.last_goal.tolist() == [0.0, 0.0]
    halves = windows.windows(2)
    assert halves.position[0].tolist() == [0, 2, 10, 12]
    assert halves.last_goal.tolist() == [0.0, 1.1, 0.0, 11.1]
    assert windows.windows(1).last_goal.tolist() == [0.0, 0.1, 1.1, 2.1, 0.0, 10.1, 11.1, 12.1]


@pytest.mark.parametrize(
    ('logs', 'said'),
    [
        ([], 'no logs'),
        ([_log(3), _log(3, 1.0, dt=0.005)], "0.01 s in 'log0' and 0.005 s in 'log1'"),
        ([_log(3), _log(3, 1.0, dt=0.010001)], 'one sampling period'),
    ],
)
def test_logs_that_cannot_be_together_are_refused(logs: list[ServoLog], said: str):
    with pytest.raises(FitError, match=said):
        stack_logs(SERVO, logs)


def test_a_velocity_that_was_not_recorded_is_the_slope_of_the_positions_after_rest():
    squares = np.arange(5.0) ** 2
    found = stack_logs(SERVO, [_log(5, position=squares, speed=None), _log(1, speed=None), _log(2)])
    np.testing.assert_allclose(found.speed[:, 0], [0.0, 200.0, 400.0, 600.0, 700.0])
    np.testing.assert_array_equal(found.speed[:, 1], np.zeros(5))
    np.testing.assert_array_equal(found.speed[:2, 2], [0.2, 1.2])


def test_readings_of_an_encoder_at_rest_count_once() -> None:
    count = 2 * np.pi / 4096
    moving = np.arange(30)
    log = _resting(count * np.concatenate([moving, np.full(21, 30), 30 + moving]))
    found = stack_logs(SERVO, [log])
    assert np.flatnonzero(found.repeated[:, 0]).tolist() == [*range(30, 41), *range(42, 52)]
    # Rounding in a file hides no encoder.
    rounded = dataclasses.replace(log, position=np.round(log.position, 6))
    assert np.array_equal(stack_logs(SERVO, [rounded]).repeated, found.repeated)


def test_without_an_encoder_every_reading_counts() -> None:
    rng = np.random.default_rng(0)
    log = _resting(np.concatenate([rng.normal(size=30), np.full(30, 0.1)]))
    assert not stack_logs(SERVO, [log]).repeated.any()


def _resting(position: np.ndarray) -> ServoLog:
    zeros = np.zeros(len(position))
    return ServoLog('rest', 'xl330', '', 0.3, 0.0, 0.1, {}, 0.005, position, zeros, zeros)
