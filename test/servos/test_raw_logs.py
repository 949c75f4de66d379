# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Raw logs are simulated on a grid of their own and compared where the encoder was read."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sysid_ros.errors import FitError
from sysid_ros.servos.fit import fit_servo, values_of
from sysid_ros.servos.logs import PERIOD, Commands, ServoLog
from sysid_ros.servos.pendulum import (
    candidate,
    errors_by_log,
    predict,
    servo_for,
    simulate,
    stack_logs,
)
from sysid_ros.simulation.servo import Scheme, Servo
from test.builders.recordings import M1, record, record_raw

SERVO = Servo.named('xl330', 'm1')
OTHER = ((0.22, 0.12, 300.0),)


LEAPING = dataclasses.replace(SERVO, scheme=Scheme.LEAPFROG)


def _moved(log: ServoLog, values: dict[str, float], steps: int) -> np.ndarray:
    """Return the positions that are predicted for the readings of a log."""
    bench = stack_logs(LEAPING, [log], steps)
    return bench.read(simulate(LEAPING, bench, candidate(LEAPING, values)).position)[:, 0, 0]


def _raw(times: np.ndarray, goal: np.ndarray, commands: Commands | None = None) -> ServoLog:
    none, on = np.zeros(len(times)), np.ones(len(times))
    about = {'kp': 400.0, 'vin': 7.5}
    return ServoLog(
        'raw', 'xl330', '', 0.2, 0.0, 0.1, about, PERIOD, none, goal, on, none, stamps=times,
        commands=commands,
    )  # fmt: skip


# The grid


def test_a_processed_log_is_a_raw_one_whose_stamps_lie_on_the_grid():
    even = record(SERVO, M1, dt=PERIOD, seconds=2.0)
    raw = [dataclasses.replace(log, stamps=log.times) for log in even]
    for reset in (None, 0.5):
        for one, other in zip(
            predict(SERVO, M1, even, reset), predict(SERVO, M1, raw, reset), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


def test_commands_within_a_step_act_for_their_part_of_it():
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.uniform(0.001, 0.02, 60))
    told = Commands(times - times[0], rng.normal(size=60), (rng.uniform(size=60) > 0.5) * 1.0)
    log = _raw(told.times, told.goal, told)
    for servo, begin in ((SERVO, 0), (LEAPING, -50)):
        bench = stack_logs(servo, [log], steps=4)
        goals, switches = bench.commands(np.zeros(1))
        fine = (np.arange(100) + begin) / 100 * bench.dt
        for row in (0, 7, 50, len(goals) - 5):
            at = row * bench.dt + fine + bench.dt / 200
            entry = np.maximum(np.searchsorted(told.times, at, side='right') - 1, 0)
            assert goals[row, 0, 0] == pytest.approx(told.goal[entry].mean(), abs=0.05)
            assert switches[row, 0, 0] == pytest.approx(told.enabled[entry].mean(), abs=0.02)


def test_a_delay_moves_commands_as_if_they_had_been_told_later():
    times = np.arange(0, 1.5, 0.008)
    goal, late = np.sin(2 * times), 0.0065
    moved = _raw(times, goal, Commands(times + late, goal, np.ones(len(times))))
    delayed = _moved(_raw(times, goal), {**M1, 'command_delay': late}, 4)
    assert np.ptp(delayed) > 0.3
    np.testing.assert_allclose(delayed, _moved(moved, M1, 4), rtol=0, atol=2e-4)


def test_windows_hold_each_reading_once_where_it_was_made():
    logs, _ = record_raw(SERVO, M1, motions=('sin_time_square',), seconds=2.0)
    bench = stack_logs(LEAPING, logs, steps=2)
    windows = bench.windows(40)
    per_log = len(windows.lengths) // len(logs)
    assert windows.readings.lengths.sum() >= 0.9 * bench.readings.lengths.sum()
    for window in range(len(windows.lengths)):
        log, first = divmod(window, per_log)
        at = (windows.readings.row + windows.readings.part)[:, window] + 40 * first
        count = windows.readings.lengths[window]
        whole = (bench.readings.row + bench.readings.part)[:, log]
        inside = (whole >= 40 * first) & (whole <= 40 * first + 39)
        np.testing.assert_allclose(at[:count], whole[inside])
        np.testing.assert_array_equal(
            windows.readings.position[:count, window], bench.readings.position[inside, log]
        )


def test_the_error_of_short_steps_falls_with_their_square():
    times = np.arange(0, 2.0, 0.008)
    log = _raw(times, np.sin(2 * times) ** 2)
    smooth = {**M1, 'friction_base': 0.0}
    exact = _moved(log, smooth, 64)
    errors = [np.abs(_moved(log, smooth, steps) - exact).max() for steps in (2, 4, 8)]
    assert errors[0] / errors[1] > 3
    assert errors[1] / errors[2] > 3


def test_short_steps_turn_where_friction_changes_its_sign():
    times = np.arange(0, 3.0, 0.008)
    swung = _raw(times, np.zeros(len(times)))
    log = dataclasses.replace(swung, position=swung.position + 1.2, enabled=swung.enabled * 0)
    exact = _moved(log, M1, 64)
    velocity = np.diff(exact[exact != exact[-1]])
    assert (velocity[1:] * velocity[:-1] < 0).sum() > 3
    assert np.abs(_moved(log, M1, 3) - exact).mean() < 1e-4


def test_raw_and_processed_logs_are_mixed_in_short_steps_only():
    even = record(SERVO, M1, dt=PERIOD, seconds=1.0)[:1]
    logs, _ = record_raw(SERVO, M1, seconds=1.0)
    with pytest.raises(FitError, match='either raw or processed logs'):
        stack_logs(SERVO, [*even, *logs])
    both = servo_for(SERVO, [*even, *logs])
    assert len(predict(both, M1, [*even, *logs])) == 1 + len(logs)


# The fit


@pytest.mark.slow
@pytest.mark.parametrize('lead', [0.0, 0.0025])
def test_raw_logs_leave_no_more_than_the_truth_on_other_loads(lead: float):
    logs, _ = record_raw(SERVO, M1, lead=lead)
    other, floors = record_raw(SERVO, M1, runs=OTHER, lead=lead, seed=1)
    servo = servo_for(SERVO, logs)
    assert servo.scheme is Scheme.LEAPFROG
    fit = fit_servo(servo, logs, starts=2)
    values = values_of(servo, fit, {})
    errors = errors_by_log(servo, values, other)
    assert np.mean(list(errors.values())) < 1.2 * np.mean(floors)
    assert values['command_delay'] == pytest.approx(-lead, abs=1e-4)
    for name, value in M1.items():
        assert values[name] == pytest.approx(value, rel=0.03)
