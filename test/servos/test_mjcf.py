# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Servos in MJCF's terms."""

from __future__ import annotations

import math

import pytest

from sysid_ros.errors import ParameterError
from sysid_ros.servos.formats.mjcf import PlainFriction, plain_actuator
from sysid_ros.servos.laws.servo import ACTUATORS, Servo


def _initial(servo: Servo) -> dict[str, float]:
    return {name: usual.initial for name, usual in servo.coefficients.items()}


def test_the_duty_cycle_is_cut_off_at_its_limit_and_not_multiplied_by_it():
    servo = Servo.named('mx106', 'm1')
    p = {**servo.type.constants, **_initial(servo)}
    assert p['max_pwm'] < 1
    found = plain_actuator(servo, _initial(servo), kp=20.0, vin=12.0, element='position')
    assert found.kp == pytest.approx(12.0 * 20.0 * p['error_gain'] * p['kt'] / p['R'])
    assert found.limit == pytest.approx(12.0 * p['max_pwm'] * p['kt'] / p['R'])
    assert found.damping == pytest.approx(p['friction_viscous'] + p['kt'] ** 2 / p['R'])
    assert (found.kv, found.frictionloss) == (0.0, p['friction_base'])


@pytest.mark.parametrize('name', ACTUATORS)
def test_every_servo_has_a_plain_actuator_with_finite_numbers(name: str):
    servo = Servo.named(name, 'm1')
    values = _initial(servo)
    for found in (plain_actuator(servo, values), plain_actuator(servo, values, element='position')):
        assert found.kp > 0
        assert found.armature == values['armature']
        assert all(map(math.isfinite, (found.kp, found.kv, found.damping, found.frictionloss)))
        assert found.element == 'position' or found.motor is not None
    assert plain_actuator(servo, values, element='position').element == 'position'
    assert plain_actuator(servo, values, element='position').limit < math.inf


def test_a_weaker_motor_is_one_of_more_resistance_and_less_gain():
    servo = Servo.named('xl330', 'm3')
    friction = PlainFriction(0.03, 0.002, motor=0.8, note='so and so')
    whole = plain_actuator(servo, _initial(servo))
    found = plain_actuator(servo, _initial(servo), friction=friction)
    assert found.kp == pytest.approx(0.8 * whole.kp)
    assert found.kv == pytest.approx(0.8 * whole.kv)
    assert (whole.motor, found.motor) != (None, None)
    assert found.motor.resistance == pytest.approx(whole.motor.resistance / 0.8)
    assert found.motor.constant == whole.motor.constant
    assert (found.frictionloss, found.damping, found.notes) == (0.03, 0.002, ('so and so',))


@pytest.mark.parametrize(
    ('name', 'given', 'complaint'),
    [
        ('unitree_go1', {'vin': 5.0}, "has no 'vin' to set; "),
        ('xl330', {'kp': 0.0}, "a positive number for 'kp', found 0"),
        ('xl330', {'vin': math.nan}, "a positive number for 'vin', found nan"),
        ('unitree_go1', {'element': 'dcmotor'}, 'cannot be a dcmotor: .* available: position'),
    ],
)
def test_what_a_servo_has_not_cannot_be_set(name: str, given: dict[str, float], complaint: str):
    servo = Servo.named(name, 'm1')
    with pytest.raises(ParameterError, match=complaint):
        plain_actuator(servo, _initial(servo), **given)
