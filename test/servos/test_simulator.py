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
    """A servo, loads and a period short enough for its stiffest candidates.

    Attributes:
        kind: The servo.
        mass: Range, kg.
        length: Range, m.
        gains: Range of ``kp``.
        dt: Sampling period, s.
        swing: Size of the commanded motion, rad.
        limits: What the servo must be found at in a tenth of the samples, and not in another.
    """

    kind: ActuatorType
    mass: tuple[float, float]
    length: tuple[float, float]
    gains: tuple[float, float]
    dt: float
    swing: float
    limits: tuple[str, ...]


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
    return ServoLog(
        name=str(number),
        motor=case.kind.name,
        trajectory='random',
        mass=random.uniform(*case.mass),
        arm_mass=random.uniform(0.0, 0.2) * case.mass[0],
        length=random.uniform(*case.length),
        constants={
            name: value * random.uniform(0.8, 1.2)
            for name, value in case.kind.constants.items()
            if name in {'vin', 'damping'}
        }
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
