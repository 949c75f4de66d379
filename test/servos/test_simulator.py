# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The simulator equals the laws written out one number at a time."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from builders import pendulum_reference as reference
from sysid_ros.errors import FitError
from sysid_ros.servos.logs import ServoLog
from sysid_ros.servos.pendulum import simulate, stack_logs
from sysid_ros.simulation.servo import (
    ACTUATORS,
    FRICTION_LAWS,
    MOTOR_LAWS,
    ActuatorType,
    Coefficient,
    Servo,
)

MX = ACTUATORS['mx106']
LIMITED = Coefficient(2.0, 1.0, 4.0)
EROB = ACTUATORS['erob80_50']
WEAK = EROB.model_copy(update={'constants': {**EROB.constants, 'max_volts': 30.0}})


class Case(NamedTuple):
    """A servo, ranges of loads, and a period short enough for its stiffest candidates."""

    kind: ActuatorType
    mass: tuple[float, float]  # kg
    length: tuple[float, float]  # m
    gains: tuple[float, float]
    dt: float  # s
    swing: float  # rad, of the commanded motion
    limits: tuple[str, ...]  # at which it is in more than a tenth of the samples, and off in others


def _variant(law: str, **constants: float) -> ActuatorType:
    known = (*MOTOR_LAWS[law].needs, *MOTOR_LAWS[law].may_have)
    given = {name: v for name, v in {**MX.constants, **constants}.items() if name in known}
    coefficients = {**MX.coefficients, 'current_limit': LIMITED}
    return ActuatorType(name='variant', law=law, constants=given, coefficients=coefficients)


CASES = {
    'voltage': Case(MX, (0.5, 2.0), (0.15, 0.3), (2, 20), 0.002, 0.6, ('pwm',)),
    'voltage, current limited': Case(
        _variant('voltage', vin=10.0),
        (0.5, 2.0),
        (0.15, 0.3),
        (4, 20),
        0.002,
        0.6,
        ('current', 'pwm'),
    ),
    'voltage, goal velocity limited': Case(
        ACTUATORS['sts3215'], (1.0, 2.0), (0.3, 0.5), (0.5, 4), 0.001, 0.4, ('velocity', 'pwm')
    ),
    'current': Case(
        _variant('current', error_gain=0.2, vin=8.0),
        (0.5, 2.0),
        (0.15, 0.3),
        (4, 32),
        0.002,
        0.6,
        ('voltage', 'current'),
    ),
    'bus current': Case(
        ACTUATORS['xl330i'], (0.1, 0.5), (0.1, 0.2), (100, 900), 0.001, 0.6, ('voltage', 'current')
    ),
    'damped current': Case(WEAK, (8, 15), (0.4, 0.6), (20, 90), 0.001, 0.8, ('current', 'voltage')),
    'torque': Case(ACTUATORS['unitree_go1'], (2, 5), (0.2, 0.4), (10, 60), 0.002, 0.6, ('torque',)),
}
SAMPLES = 300


def _log(case: Case, number: int, random: np.random.Generator) -> ServoLog:
    """Return a log of a fast motion with steps, with the torque off in parts."""
    t = np.arange(SAMPLES + 7 * number) * case.dt
    duration = t[-1]
    goal = case.swing * np.sin(2 * np.pi * random.uniform(1, 4) / duration * t)
    goal += case.swing * np.sign(np.sin(2 * np.pi * random.uniform(1, 3) / duration * t + 1))
    enabled = np.where((t / duration % 0.5) < random.uniform(0.3, 0.45), 1.0, 0.0)
    set_ = {name: own for name, own in case.kind.constants.items() if name in {'vin', 'damping'}}
    return ServoLog(
        *(str(number), case.kind.name, 'random'),
        mass=random.uniform(*case.mass),
        arm_mass=random.uniform(0.0, 0.2) * case.mass[0],
        length=random.uniform(*case.length),
        constants={name: own * random.uniform(0.8, 1.2) for name, own in set_.items()}
        | {'kp': random.uniform(*case.gains)},
        dt=case.dt,
        position=goal * random.uniform(0.5, 1.0) + random.uniform(-0.5, 0.5),
        goal=goal,
        enabled=enabled,
        speed=random.uniform(-8, 8, len(t)),
    )


def drawn(name: str, model: str, seed: int) -> tuple[Servo, list[ServoLog], NDArray[np.float64]]:
    """Return a servo, logs and candidates drawn over the bounds of their coefficients."""
    random = np.random.default_rng(seed)
    case = CASES[name]
    servo = Servo(case.kind, FRICTION_LAWS[model])
    logs = [_log(case, number, random) for number in range(3)]
    bounds = np.array([(low, high) for _, low, high in servo.coefficients.values()])
    return servo, logs, random.uniform(*bounds.T, (3, len(bounds)))


def numbers(servo: Servo, log: ServoLog, candidate: NDArray[np.float64]) -> dict[str, float]:
    constants = {**servo.type.constants, **log.constants}
    return {**constants, **dict(zip(servo.coefficients, candidate.tolist(), strict=True))}


@pytest.mark.slow
@pytest.mark.parametrize('reset_period', [None, 0.05])
@pytest.mark.parametrize('name', CASES)
def test_every_law_equals_its_equations_on_both_sides_of_its_limits(
    name: str, reset_period: float | None
):
    at_limits: Counter[str] = Counter()
    samples = 0
    for model in FRICTION_LAWS:
        servo, logs, candidates = drawn(name, model, 1)
        motion = simulate(
            servo, stack_logs(servo, logs), candidates, reset_period=reset_period, velocities=True
        )
        for column, log in enumerate(logs):
            for row, candidate in enumerate(candidates):
                p = numbers(servo, log, candidate)
                expected = reference.simulate(servo.type.law, model, p, log, reset_period)
                place = (slice(len(log)), row, column)
                found = motion.position[place], motion.velocity[place]
                which = f'{model}, log {column}, candidate {row}'
                np.testing.assert_allclose(found[0], expected.position, 0, 1e-12, err_msg=which)
                np.testing.assert_allclose(found[1], expected.velocity, 0, 1e-11, err_msg=which)
                for limits in itertools.compress(expected.limits, log.enabled):
                    at_limits.update(limits)
                samples += int(log.enabled.sum())
    for limit in CASES[name].limits:
        assert 0.1 < at_limits[limit] / samples < 0.9, dict(at_limits)


def _at_rest(count: int, dt: float, **changes: NDArray[np.float64]) -> ServoLog:
    log = ServoLog('rest', 'xl330', 'none', 0.2, 0.0, 0.1, {}, dt, *np.zeros((4, count)))
    return dataclasses.replace(log, **changes)


def _initial(servo: Servo) -> NDArray[np.float64]:
    return np.array([[coefficient.initial for coefficient in servo.coefficients.values()]])


def test_the_state_is_reset_in_the_first_step_after_the_period():
    servo = Servo.named('xl330', 'm1')
    measured = np.linspace(0.5, 0.7, 15)
    log = _at_rest(15, 0.25, position=measured, speed=measured + 1)
    motion = simulate(
        servo, stack_logs(servo, [log]), _initial(servo), reset_period=1.0, velocities=True
    )
    at_reset = np.flatnonzero(motion.position[:, 0, 0] == measured)
    assert at_reset.tolist() == [0, 4, 9, 14]
    np.testing.assert_array_equal(motion.velocity[at_reset, 0, 0], measured[at_reset] + 1)


def test_no_joint_turns_faster_than_100_rad_per_s():
    servo = Servo.named('xl330', 'm1')
    for sign in (1.0, -1.0):
        log = _at_rest(10, 0.005, speed=np.full(10, sign * 1e4))
        motion = simulate(servo, stack_logs(servo, [log]), _initial(servo), velocities=True)
        p = numbers(servo, log, _initial(servo)[0])
        expected = reference.simulate('voltage', 'm1', p, log)
        np.testing.assert_allclose(motion.position[:, 0, 0], expected.position, atol=1e-12)
        assert motion.velocity[1, 0, 0] == sign * 100.0


def test_a_goal_of_limited_velocity_goes_on_in_the_next_window():
    servo = Servo.named('sts3215', 'm1')
    log = _at_rest(40, 0.01, goal=np.full(40, 0.5), enabled=np.ones(40), position=np.full(40, 0.5))
    whole = stack_logs(servo, [log])
    first, second = simulate(servo, whole.windows(20), _initial(servo)).position[:, 0].T
    # From 0 on the goal needs 0.1 s to be where the servo is; in the second window it is there.
    assert abs(first - 0.5).max() > 0.1
    assert abs(second - 0.5).max() < 0.01


# Logs side by side


SERVO = Servo.named('xl330', 'm1')


def _numbered(count: int, first: float = 0.0, **changes: object) -> ServoLog:
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
    found = stack_logs(SERVO, [_numbered(3), _numbered(3, mass=1.0, arm_mass=0.0, length=0.1)])
    np.testing.assert_allclose(found.inertia, [0.5 * 0.04 + 0.1 * 0.04, 0.01])
    np.testing.assert_allclose(found.weight, [0.65 * 9.80665 * 0.2, 9.80665 * 0.1])


def test_shorter_logs_repeat_their_last_sample_which_does_not_count():
    found = stack_logs(SERVO, [_numbered(4), _numbered(2, 10.0)])
    assert found.lengths.tolist() == [4, 2]
    np.testing.assert_array_equal(found.position.T, [[0, 1, 2, 3], [10, 11, 11, 11]])
    np.testing.assert_array_equal(found.goal.T[1], [10.1, 11.1, 11.1, 11.1])
    np.testing.assert_array_equal(found.enabled.T, [[0, 1, 0, 1], [0, 1, 1, 1]])
    np.testing.assert_array_equal(found.speed.T[1], [10.2, 11.2, 11.2, 11.2])
    np.testing.assert_array_equal(found.readings.counted.T, [[1, 1, 1, 1], [1, 1, 0, 0]])


def test_windows_hold_consecutive_samples_of_one_log_each():
    whole = stack_logs(SERVO, [_numbered(7), _numbered(2, 20.0), _numbered(5, 10.0, mass=1.0)])
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
    whole = stack_logs(SERVO, [_numbered(7), _numbered(5, 10.0)])
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
        ([_numbered(3), _numbered(3, 1.0, dt=0.005)], "0.01 s in 'log0' and 0.005 s in 'log1'"),
        ([_numbered(3), _numbered(3, 1.0, dt=0.010001)], 'one sampling period'),
    ],
)
def test_logs_that_cannot_be_together_are_refused(logs: list[ServoLog], said: str):
    with pytest.raises(FitError, match=said):
        stack_logs(SERVO, logs)


def test_a_velocity_that_was_not_recorded_is_the_slope_of_the_positions_after_rest():
    squares = np.arange(5.0) ** 2
    found = stack_logs(
        SERVO, [_numbered(5, position=squares, speed=None), _numbered(1, speed=None), _numbered(2)]
    )
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
    # Without an encoder every reading counts.
    noise = np.random.default_rng(0).normal(size=30)
    free = _resting(np.concatenate([noise, np.full(30, 0.1)]))
    assert not stack_logs(SERVO, [free]).repeated.any()


def _resting(position: np.ndarray) -> ServoLog:
    zeros = np.zeros(len(position))
    return ServoLog('rest', 'xl330', '', 0.3, 0.0, 0.1, {}, 0.005, position, zeros, zeros)
