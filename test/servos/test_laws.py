# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The laws at states whose values are worked out by hand.

`test_simulator.py` compares the torques of motors with their equations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from sysid_ros.simulation.servo import FRICTION_LAWS, MOTOR_LAWS, friction_law, limited_goal

P = {
    'friction_base': 0.1,
    'friction_stribeck': 0.2,
    'load_friction_base': 0.3,
    'load_friction_stribeck': 0.4,
    'load_friction_motor': 0.3,
    'load_friction_external': 0.2,
    'load_friction_motor_stribeck': 0.5,
    'load_friction_external_stribeck': 0.4,
    'load_friction_motor_quad': 0.01,
    'load_friction_external_quad': 0.02,
    'dtheta_stribeck': 0.5,
    'alpha': 2.0,
    'friction_viscous': 0.05,
}
#: s at the Stribeck velocity, whatever alpha is.
S = math.exp(-1)


def _arrays(*values: float) -> list[NDArray[np.float64]]:
    return [np.array(value) for value in values]


@pytest.mark.parametrize(
    ('model', 'motor', 'external', 'velocity', 'expected'),
    [
        ('m1', 2, -1, 0.0, 0.1),
        ('m1', 2, -1, 9.0, 0.1),
        ('m2', 2, -1, 0.0, 0.1 + 0.2),
        ('m2', 2, -1, -0.5, 0.1 + 0.2 * S),
        ('m2', 2, -1, 1.0, 0.1 + 0.2 * S**4),
        ('m3', 2, -1, 0.0, 0.1 + 0.3 * 3),
        ('m3', 2, 3, 5.0, 0.1 + 0.3),
        ('m4', 2, -1, 0.0, 0.1 + 0.9 + 0.2 + 1.2),
        ('m4', -2, 1, 0.5, 0.1 + 0.9 + (0.2 + 1.2) * S),
        # |Ke τe - Km τm| and the same with the factors near rest.
        ('m5', 2, -1, 0.0, 0.1 + 0.8 + 0.2 + 1.4),
        ('m5', 2, -1, -0.5, 0.1 + 0.8 + (0.2 + 1.4) * S),
        ('m5', -1, 3, 0.0, 0.1 + 0.9 + 0.2 + 1.7),
        ('m5', 2, 1, 0.0, 0.1 + 0.4 + 0.2 + 0.6),
        # The motor drives: Qe τe².
        ('m6', 2, -1, 0.0, 0.1 + 0.8 + 0.2 + 1.4 + 0.02),
        ('m6', -2, 1, 0.5, 0.1 + 0.8 + (0.2 + 1.4 + 0.02) * S),
        ('m6', 3, -2, 0.0, 0.1 + 1.3 + 0.2 + 2.3 + 0.08),
        # The load drives: Qm τm².
        ('m6', -1, 3, 0.0, 0.1 + 0.9 + 0.2 + 1.7 + 0.01),
        ('m6', 2, -3, 0.5, 0.1 + 1.2 + (0.2 + 2.2 + 0.04) * S),
        # Neither, as torques are equal, point the same way, or there is but one.
        ('m6', 2, -2, 0.0, 0.1 + 1.0 + 0.2 + 1.8),
        ('m6', 2, 1, 0.0, 0.1 + 0.4 + 0.2 + 0.6),
        ('m6', -2, -1, 0.0, 0.1 + 0.4 + 0.2 + 0.6),
        ('m6', 0, 3, 0.0, 0.1 + 0.6 + 0.2 + 1.2),
        ('m6', 2, 0, 0.0, 0.1 + 0.6 + 0.2 + 1.0),
        ('m6', 0, 0, 0.0, 0.1 + 0.2),
    ],
)
def test_dry_friction_has_the_value_of_its_formula(
    model: str, motor: float, external: float, velocity: float, expected: float
):
    law = friction_law(model)
    own = {name: P[name] for name in law.coefficients}
    assert law.dry(own, *_arrays(motor, external, velocity)) == pytest.approx(expected, rel=1e-14)
    # Nothing in it knows left from right.
    mirrored = law.dry(own, *_arrays(-motor, -external, -velocity))
    assert mirrored == pytest.approx(expected, rel=1e-14)


def test_a_law_needs_its_own_coefficients_and_no_other():
    # Once the motor drives, once the load.
    state = np.array([1.0, 2.0]), np.array([-2.0, -1.0]), np.array([0.1, 0.1])
    for law in FRICTION_LAWS.values():
        own = {name: P[name] for name in law.coefficients}
        for name in own.keys() - {'friction_viscous'}:
            assert np.any(law.dry({**own, name: 2 * own[name]}, *state) != law.dry(own, *state))


VOLTAGE = {'kt': 0.5, 'R': 2.0, 'kp': 10.0, 'vin': 10.0, 'error_gain': 0.1, 'max_pwm': 0.8}
CURRENT = {**{name: VOLTAGE[name] for name in VOLTAGE if name != 'max_pwm'}, 'current_limit': 3.0}
DAMPED = {'kt': 2.0, 'R': 4.0, 'kp': 25.0, 'damping': 0.1, 'max_amps': 10.0, 'max_volts': 20.0}
TORQUE = {'ratio': 2.0, 'max_torque': 4.0, 'kp': 3.0, 'damping': 0.5}
NUMBERS: dict[str, dict[str, float]] = {
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
