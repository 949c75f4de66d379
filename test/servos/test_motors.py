# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the motor laws need; `test_simulator.py` compares their torques with their equations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from sysid_ros.servos.servo import MOTOR_LAWS, limited_goal

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


def test_a_goal_follows_the_command_at_the_velocity_that_is_allowed():
    goal = 0.0
    goals = []
    for command in (0.5, 0.5, 0.5, 0.5, 0.3, -0.5, -0.5):
        goal = float(limited_goal({'max_velocity': 2.0}, np.array(command), goal, 0.1))
        goals.append(goal)
    assert goals == pytest.approx([0.2, 0.4, 0.5, 0.5, 0.3, 0.1, -0.1])
    assert limited_goal({}, np.array(0.5), 0.0, 0.1) == 0.5


@pytest.mark.parametrize('bus', [2.5, 0.3, -0.3, -2.5])
@pytest.mark.parametrize('dq', [0.0, 4.0, -4.0, 8.0])
def test_bus_current_carries_the_power_of_the_winding(bus: float, dq: float):
    amps = _torques('bus_current', CURRENT, bus, dq)[0] / 0.5
    volts = 2.0 * amps + 0.5 * dq
    assert np.sign(volts) == np.sign(bus)
    assert abs(volts) < 10.0
    assert volts * amps == pytest.approx(10.0 * abs(bus))


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
