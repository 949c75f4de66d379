# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The part of the table of targets that is about servos: numbers of their laws.

The laws are those of ``sysid_ros.servos``. The armature of a servo is that of its joint:
``joint/NAME/armature``.
"""

from __future__ import annotations

from sysid_ros.model.targets import needs
from sysid_ros.model.targets.kinds import INFINITY, Kind, Role

_NONNEGATIVE = (0.0, INFINITY)
#: What is divided by, and exponents.
_POSITIVE = (1e-6, INFINITY)
_DIVISORS = frozenset({'R', 'dtheta_stribeck', 'alpha'})
_UNITS = {
    'kt': 'N·m/A',
    'R': 'Ω',
    'error_gain_ratio': '1',
    'ratio': '1',
    'max_velocity': 'rad/s',
    'max_torque': 'N·m',
    'current_limit': 'A',
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

#: Attributes that an actuator has where a servo's law drives its joint.
SERVO: dict[str, Kind] = {
    name: Kind(
        unit,
        _POSITIVE if name in _DIVISORS else _NONNEGATIVE,
        role=Role.LAW,
        needs=needs.on_scalar_joint,
    )
    for name, unit in _UNITS.items()
}
