# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The numbers of an actuator that a fit may find: units, starts and bounds."""

from __future__ import annotations

from typing import NamedTuple


class Coefficient(NamedTuple):
    """Where a fit starts and how far it may go, in the coefficient's unit."""

    initial: float
    low: float
    high: float


#: SI unit of every coefficient of the motor and friction laws.
UNITS: dict[str, str] = {
    'kt': 'N·m/A',
    'R': 'Ω',
    'armature': 'kg·m²',
    'error_gain_ratio': '1',
    'ratio': '1',
    'max_velocity': 'rad/s',
    'max_torque': 'N·m',
    'current_limit': 'A',
    'q_offset': 'rad',
    'friction_base': 'N·m',
    'friction_stribeck': 'N·m',
    'load_friction_base': '1',
    'load_friction_stribeck': '1',
    'load_friction_motor': '1',
    'load_friction_external': '1',
    'load_friction_motor_stribeck': '1',
    'load_friction_external_stribeck': '1',
    'load_friction_motor_quad': '1/(N·m)',
    'load_friction_external_quad': '1/(N·m)',
    'dtheta_stribeck': 'rad/s',
    'alpha': '1',
    'friction_viscous': 'N·m·s/rad',
}

#: Numbers of a servo that are set, not fitted, and their units. A log says some of them.
CONSTANT_UNITS: dict[str, str] = {
    'kp': '1',
    'vin': 'V',
    'error_gain': '1/rad',
    'max_pwm': '1',
    'damping': '1',
    'max_amps': 'A',
    'max_volts': 'V',
}
