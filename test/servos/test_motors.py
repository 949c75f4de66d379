# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The motor laws at states whose values are worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pytest

from sysid_ros.servos.laws.motors import MOTOR_LAWS

DT = 0.1
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


class Found(NamedTuple):
    """Control, torque of the motor that is on, and of the one that is off."""

    control: float
    on: float
    off: float


def _found(law: str, p: Mapping[str, float], error: float, dq: float = 0.0) -> Found:
    q = 0.3
    control = (
        MOTOR_LAWS[law].drive(p, np.array(q + error), np.array(q), np.array(dq), DT, None).control
    )
    on, off = (MOTOR_LAWS[law].torque(p, control, on, np.array(dq)) for on in (1.0, 0.0))
    return Found(float(control), float(on), float(off))


@pytest.mark.parametrize(
    ('limit', 'error', 'dq', 'volts', 'torque'),
    [
        # The duty is the error, the torque a quarter of the voltage less an eighth of the velocity.
        (None, 0.2, 0.0, 2.0, 0.5),
        (None, -0.2, 0.0, -2.0, -0.5),
        (None, 0.2, 1.0, 2.0, 0.375),
        (None, 0.2, -1.0, 2.0, 0.625),
        (None, 2.0, 0.0, 8.0, 2.0),
        (None, -2.0, 4.0, -8.0, -2.5),
        # 1 A: duty between dq / 20 - .2 and dq / 20 + .2.
        (1.0, 2.0, 0.0, 2.0, 0.5),
        (1.0, -2.0, 0.0, -2.0, -0.5),
        (1.0, 2.0, 4.0, 4.0, 0.5),
        (1.0, -2.0, 4.0, 0.0, -0.5),
        (1.0, 0.3, 4.0, 3.0, 0.25),
        # What keeps the current would take more than the PWM has.
        (1.0, 2.0, 14.0, 8.0, 0.25),
        (1.0, 0.0, 30.0, 8.0, -1.75),
        (1.0, 0.0, -30.0, -8.0, 1.75),
    ],
)
def test_voltage_is_limited_by_current_first_and_by_pwm_last(
    limit: float | None, error: float, dq: float, volts: float, torque: float
):
    p = VOLTAGE if limit is None else {**VOLTAGE, 'current_limit': limit}
    assert _found('voltage', p, error, dq) == pytest.approx((volts, torque, 0.0), abs=1e-14)


def test_a_ratio_scales_the_gain_of_the_voltage():
    assert _found('voltage', {**VOLTAGE, 'error_gain_ratio': 1.5}, 0.2).control == pytest.approx(3)


def test_a_goal_follows_the_command_at_the_velocity_that_is_allowed():
    law, p = MOTOR_LAWS['voltage'], {**VOLTAGE, 'max_velocity': 2.0}
    memory = None
    goals = []
    for command in (0.5, 0.5, 0.5, 0.5, 0.3, -0.5, -0.5):
        volts, memory = law.drive(p, np.array(command), np.array(0.0), np.array(0.0), DT, memory)
        goals.append(float(volts) / 10)
        assert float(memory) == pytest.approx(goals[-1])
    assert goals == pytest.approx([0.2, 0.4, 0.5, 0.5, 0.3, 0.1, -0.1])
    # From where it was commanded to be, not from 0.
    assert law.drive(p, np.array(0.5), np.array(0.0), np.array(0.0), DT, np.array(0.45))[
        0
    ] == pytest.approx(5.0)


@pytest.mark.parametrize(
    ('error', 'dq', 'amps'),
    [
        (2.0, 0.0, 2.0),
        (-2.0, 0.0, -2.0),
        (4.0, 0.0, 3.0),
        (-9.0, 0.0, -3.0),
        # The voltage drives between -5 - dq / 4 and 5 - dq / 4.
        (2.0, 16.0, 1.0),
        (-9.0, 16.0, -3.0),
        (-2.0, -16.0, -1.0),
        # It could not but brake with 5 A; the current limit comes last.
        (2.0, 40.0, -3.0),
        (0.0, 40.0, -3.0),
        (0.0, -40.0, 3.0),
    ],
)
def test_current_is_limited_by_voltage_first_and_by_its_own_limit_last(
    error: float, dq: float, amps: float
):
    assert _found('current', CURRENT, error, dq) == pytest.approx((amps, amps / 2, 0.0))
    assert _found('bus_current', CURRENT, error, dq).control == pytest.approx(amps)


@pytest.mark.parametrize('bus', [2.5, 0.3, -0.3, -2.5])
@pytest.mark.parametrize('dq', [0.0, 4.0, -4.0, 8.0])
def test_bus_current_carries_the_power_of_the_winding(bus: float, dq: float):
    law = MOTOR_LAWS['bus_current']
    amps = float(law.torque(CURRENT, np.array(bus), 1.0, np.array(dq))) / 0.5
    volts = 2.0 * amps + 0.5 * dq
    assert np.sign(volts) == np.sign(bus)
    assert abs(volts) < 10.0
    assert volts * amps == pytest.approx(10.0 * abs(bus))


def test_bus_current_ends_at_the_voltage_of_the_supply():
    law = MOTOR_LAWS['bus_current']
    for bus, dq, torque in ((5.5, 0.0, 2.5), (-5.5, 0.0, -2.5), (9.0, 4.0, 2.0), (-9.0, 4.0, -3.0)):
        for enabled in (1.0, 0.0):
            found = law.torque(CURRENT, np.array(bus), enabled, np.array(dq))
            assert found == pytest.approx(torque * enabled)


@pytest.mark.parametrize(
    ('error', 'dq', 'amps', 'on', 'off'),
    [
        (0.1, 0.0, 2.5, 5.0, 0.0),
        (-0.1, 0.0, -2.5, -5.0, 0.0),
        # .1 √25 dq is taken off.
        (0.1, 2.0, 1.5, 3.0, 0.0),
        # The current limit, then the voltage: between -10 - dq and 10 - dq.
        (1.0, 0.0, 10.0, 10.0, 0.0),
        (-1.0, 0.0, -10.0, -10.0, 0.0),
        (1.0, 3.0, 10.0, 7.0, 0.0),
        # Beyond the voltage a motor brakes even when it is off.
        (0.0, 15.0, -7.5, -15.0, -5.0),
        (0.0, -15.0, 7.5, 15.0, 5.0),
        (0.0, 10.0, -5.0, -10.0, 0.0),
    ],
)
def test_damped_current_is_limited_by_current_then_by_voltage(
    error: float, dq: float, amps: float, on: float, off: float
):
    assert _found('damped_current', DAMPED, error, dq) == pytest.approx((amps, on, off))


@pytest.mark.parametrize(
    ('error', 'dq', 'torque'),
    [(0.5, 0.0, 3.0), (0.5, 2.0, 2.0), (1.0, 2.0, 4.0), (-1.0, 0.0, -4.0), (0.0, 20.0, -4.0)],
)
def test_torque_is_limited_with_its_damping(error: float, dq: float, torque: float):
    assert _found('torque', TORQUE, error, dq) == pytest.approx((torque, torque, 0.0))


@pytest.mark.parametrize('name', MOTOR_LAWS)
def test_a_law_needs_exactly_the_numbers_that_it_names(name: str):
    law = MOTOR_LAWS[name]
    assert law.name == name
    assert set(law.needs) == set(NUMBERS[name])
    _found(name, NUMBERS[name], 0.1)
    for missing in law.needs:
        fewer = {key: value for key, value in NUMBERS[name].items() if key != missing}
        with pytest.raises(KeyError, match=missing):
            _found(name, fewer, 0.1)
