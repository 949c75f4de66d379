# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The numbers of an actuator that a fit may find: units, starts and bounds."""

from __future__ import annotations

from typing import NamedTuple

from sysid_ros.model.targets.table import SERVO


class Coefficient(NamedTuple):
    """Where a fit starts and how far it may go, in the coefficient's unit."""

    initial: float
    low: float
    high: float


#: SI unit of every coefficient of the motor and friction laws: those that are targets of a robot's
#: actuators, and what is of the joint.
UNITS: dict[str, str] = {
    **{name: kind.component_unit(0) for name, kind in SERVO.items()},
    'armature': 'kg·m²',
    'q_offset': 'rad',
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
