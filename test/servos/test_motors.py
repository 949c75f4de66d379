# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The motor laws at states whose values are worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from sysid_ros.servos.laws.motors import MOTOR_LAWS, limited_goal

VOLTAGE = {'kt': 0.5, 'R': 2.0, 'kp': 10.0, 'vin': 10.0, 'error_gain': 0.1, 'max_pwm': 0.8}
CURRENT = {
    'kt': 0.5,
    'R': 2.0,
    'kp': 10.0,
    'vin': 10.0,
    'error_gain': 0.1,
    'current_limit': 3.0,
}
DAMPED = {'kt': 2.0, 'R': 4.0, 'kp': 25.0, 'damping': 0.1, 'max_amps': 10.0, 'max_volts': 20.0}
TORQUE = {'ratio': 2.0, 'max_torque': 4.0, 'kp': 3.0, 'damping': 0.5}
NUMBERS = {
    'voltage': VOLTAGE,
    'current': CURRENT,
    'bus_current': CURRENT,
    'damped_current': DAMPED,
    'torque': TORQUE,
}


def _torques(
    law: str, p: Mapping[str, float], error: float, dq: float = 0.0
) -> tuple[float, float]:
    """Return the torque of the motor that is on, and of the one that is off."""
    return tuple(
        float(MOTOR_LAWS[law].torque(p, np.array(error), np.array(dq), on)) for on in (1.0, 0.0)
    )


@pytest.mark.parametrize(
    ('limit', 'error', 'dq', 'torque'),
    [
        # The duty is the error, the torque a quarter of the voltage less an eighth of the velocity.
        (None, 0.2, 0.0, 0.5),
        (None, -0.2, 0.0, -0.5),
        (None, 0.2, 1.0, 0.375),
        (None, 2.0, 0.0, 2.0),
        (None, -2.0, 4.0, -2.5),
        # 1 A: duty between dq / 20 - .2 and dq / 20 + .2.
        (1.0, 2.0, 4.0, 0.5),
        (1.0, -2.0, 4.0, -0.5),
        (1.0, 0.3, 4.0, 0.25),
        # What keeps the current would take more than the PWM has.
        (1.0, 2.0, 14.0, 0.25),
        (1.0, 0.0, 30.0, -1.75),
        (1.0, 0.0, -30.0, 1.75),
    ],
)
def test_voltage_is_limited_by_current_first_and_by_pwm_last(
    limit: float | None, error: float, dq: float, torque: float
):
    p = VOLTAGE if limit is None else {**VOLTAGE, 'current_limit': limit}
    assert _torques('voltage', p, error, dq) == pytest.approx((torque, 0.0), abs=1e-14)


def test_a_ratio_scales_the_gain_of_the_voltage():
    assert _torques('voltage', {**VOLTAGE, 'error_gain_ratio': 1.5}, 0.2)[0] == pytest.approx(0.75)


def test_a_goal_follows_the_command_at_the_velocity_that_is_allowed():
    goal = 0.0
    goals = []
    for command in (0.5, 0.5, 0.5, 0.5, 0.3, -0.5, -0.5):
        goal = float(limited_goal({'max_velocity': 2.0}, np.array(command), goal, 0.1))
        goals.append(goal)
    assert goals == pytest.approx([0.2, 0.4, 0.5, 0.5, 0.3, 0.1, -0.1])
    assert limited_goal({}, np.array(0.5), 0.0, 0.1) == 0.5


@pytest.mark.parametrize(
    ('error', 'dq', 'amps'),
    [
        (2.0, 0.0, 2.0),
        (4.0, 0.0, 3.0),
        (-9.0, 0.0, -3.0),
        # The voltage drives between -5 - dq / 4 and 5 - dq / 4.
        (2.0, 16.0, 1.0),
        (-2.0, -16.0, -1.0),
        # It could not but brake with 5 A; the current limit comes last.
        (2.0, 40.0, -3.0),
        (0.0, -40.0, 3.0),
    ],
)
def test_current_is_limited_by_voltage_first_and_by_its_own_limit_last(
    error: float, dq: float, amps: float
):
    assert _torques('current', CURRENT, error, dq) == pytest.approx((amps / 2, 0.0))


@pytest.mark.parametrize('bus', [2.5, 0.3, -0.3, -2.5])
@pytest.mark.parametrize('dq', [0.0, 4.0, -4.0, 8.0])
def test_bus_current_carries_the_power_of_the_winding(bus: float, dq: float):
    amps = _torques('bus_current', CURRENT, bus, dq)[0] / 0.5
    volts = 2.0 * amps + 0.5 * dq
    assert np.sign(volts) == np.sign(bus)
    assert abs(volts) < 10.0
    assert volts * amps == pytest.approx(10.0 * abs(bus))


@pytest.mark.parametrize(
    ('error', 'dq', 'torque'), [(9.0, 0.0, 2.5), (-9.0, 0.0, -2.5), (4.0, 4.0, 2.0)]
)
def test_bus_current_ends_at_the_voltage_of_the_supply(error: float, dq: float, torque: float):
    p = {**CURRENT, 'current_limit': 9.0}
    assert _torques('bus_current', p, error, dq) == pytest.approx((torque, 0.0))


@pytest.mark.parametrize(
    ('error', 'dq', 'on', 'off'),
    [
        (0.1, 0.0, 5.0, 0.0),
        # .1 √25 dq is taken off.
        (0.1, 2.0, 3.0, 0.0),
        # The current limit, then the voltage: between -10 - dq and 10 - dq.
        (1.0, 0.0, 10.0, 0.0),
        (1.0, 3.0, 7.0, 0.0),
        # Beyond the voltage a motor brakes even when it is off.
        (0.0, 15.0, -15.0, -5.0),
        (0.0, -15.0, 15.0, 5.0),
    ],
)
def test_damped_current_is_limited_by_current_then_by_voltage(
    error: float, dq: float, on: float, off: float
):
    assert _torques('damped_current', DAMPED, error, dq) == pytest.approx((on, off))


@pytest.mark.parametrize(
    ('error', 'dq', 'torque'),
    [(0.5, 0.0, 3.0), (0.5, 2.0, 2.0), (1.0, 2.0, 4.0), (-1.0, 0.0, -4.0), (0.0, 20.0, -4.0)],
)
def test_torque_is_limited_with_its_damping(error: float, dq: float, torque: float):
    assert _torques('torque', TORQUE, error, dq) == pytest.approx((torque, 0.0))


@pytest.mark.parametrize('name', MOTOR_LAWS)
def test_a_law_needs_exactly_the_numbers_that_it_names(name: str):
    law = MOTOR_LAWS[name]
    assert law.name == name
    assert set(law.needs) == set(NUMBERS[name])
    _torques(name, NUMBERS[name], 0.1)
    for missing in law.needs:
        fewer = {key: value for key, value in NUMBERS[name].items() if key != missing}
        with pytest.raises(KeyError, match=missing):
            _torques(name, fewer, 0.1)
