# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The servos that are known by name, and those that a file defines."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sysid_ros.errors import ParameterError, nearest
from sysid_ros.servos.laws.coefficients import Coefficient
from sysid_ros.servos.laws.definition import read_definition
from sysid_ros.servos.laws.motors import MOTOR_LAWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sysid_ros.servos.laws.definition import Definition
    from sysid_ros.servos.laws.motors import MotorLaw


@dataclass(frozen=True)
class ActuatorType:
    """A kind of servo.

    Attributes:
        name: As in logs and parameter files.
        law: Its firmware and motor.
        constants: What is set and not fitted: ``kp`` and ``vin`` where a log says nothing else.
        coefficients: What a fit may find of the motor, in the order of a parameter file.
        friction: Starts and bounds of friction coefficients where they differ from the usual.
    """

    name: str
    law: MotorLaw
    constants: Mapping[str, float]
    coefficients: Mapping[str, Coefficient]
    friction: Mapping[str, Coefficient] = field(default_factory=dict)


def _bounded(names: tuple[str, ...], initial: float, high: float) -> dict[str, Coefficient]:
    return dict.fromkeys(names, Coefficient(initial, 0.0, high))


_DRY = ('friction_base', 'friction_stribeck')
_LOAD = ('load_friction_base', 'load_friction_motor', 'load_friction_external')

_MX = {
    'kt': Coefficient(1.6, 1.0, 3.0),
    'R': Coefficient(2.0, 1.0, 5.0),
    'armature': Coefficient(0.005, 0.001, 0.05),
}
_XL330 = {
    'kt': Coefficient(1.6, 0.1, 3.0),
    'R': Coefficient(2.6, 2.0, 5.0),
    'armature': Coefficient(0.005, 0.0001, 0.05),
}
_EROB = {
    'kt': Coefficient(1.6, 1.0, 15.0),
    'R': Coefficient(2.0, 0.1, 3.5),
    'armature': Coefficient(0.005, 0.001, 2.0),
}
#: Gains were found with an oscilloscope by the authors of BAM.
_MX_CONSTANTS = {'vin': 15.0, 'kp': 32.0, 'error_gain': 0.158, 'max_pwm': 0.9625}
#: Counts per radian, the divisor of the gain as observed, and the default limit of the PWM.
_XL330_GAIN = 4096 / (2 * math.pi) / (256 * 885)
#: Goal velocity by default: 3400 counts per s.
_STS_VELOCITY = 3400 * 2 * math.pi / 4096
_EROB_FRICTION = {
    **_bounded(_DRY, 0.05, 10.0),
    **_bounded(_LOAD, 0.05, 1.0),
    'friction_viscous': Coefficient(0.1, 0.0, 30.0),
}


def _erob(name: str, damping: float) -> ActuatorType:
    return ActuatorType(
        name,
        MOTOR_LAWS['damped_current'],
        {'kp': 100.0, 'damping': damping, 'max_amps': 12.0, 'max_volts': 48.0},
        _EROB,
        _EROB_FRICTION,
    )


_TYPES = (
    ActuatorType('mx64', MOTOR_LAWS['voltage'], _MX_CONSTANTS, _MX),
    ActuatorType('mx106', MOTOR_LAWS['voltage'], _MX_CONSTANTS, _MX),
    ActuatorType(
        'xl320',
        MOTOR_LAWS['voltage'],
        {'vin': 7.5, 'kp': 32.0, 'error_gain': 0.05048199, 'max_pwm': 1.0},
        {
            'kt': Coefficient(0.7, 0.25, 1.5),
            'R': Coefficient(5.0, 3.0, 40.0),
            'armature': Coefficient(0.0005, 0.0001, 0.01),
        },
        _bounded(_LOAD, 0.05, 1.0),
    ),
    ActuatorType(
        'xl330',
        MOTOR_LAWS['voltage'],
        {'vin': 7.5, 'kp': 400.0, 'error_gain': _XL330_GAIN, 'max_pwm': 1.0},
        _XL330,
    ),
    ActuatorType(
        'xl330i',
        MOTOR_LAWS['bus_current'],
        {'vin': 7.5, 'kp': 400.0, 'error_gain': 0.01},
        {**_XL330, 'current_limit': Coefficient(1.5, 1.0, 3.0)},
    ),
    _erob('erob80_100', 2.0),
    _erob('erob80_50', 1.0),
    ActuatorType(
        'sts3215',
        MOTOR_LAWS['voltage'],
        {'vin': 7.4, 'kp': 32.0, 'error_gain': 0.166, 'max_pwm': 0.97},
        {
            'kt': Coefficient(0.784532, 0.05, 2.5),
            'error_gain_ratio': Coefficient(1.0, 0.1, 10.0),
            'R': Coefficient(2.0, 0.1, 10.0),
            'armature': Coefficient(0.0001, 0.00001, 0.04),
            # As BAM defines this servo; what it then fits within is the usual ±0.1.
            'q_offset': Coefficient(0.0, -0.2, 0.2),
            'max_velocity': Coefficient(_STS_VELOCITY, 0.1 * _STS_VELOCITY, 10 * _STS_VELOCITY),
        },
    ),
    ActuatorType(
        'unitree_go1',
        MOTOR_LAWS['torque'],
        {'kp': 20.0, 'damping': 0.3},
        {
            'ratio': Coefficient(1.0, 0.5, 2.0),
            'max_torque': Coefficient(23.7, 20.0, 30.0),
            'armature': Coefficient(0.005, 0.00001, 2.0),
        },
        {**_bounded(_DRY, 0.05, 5.0), **_bounded(_LOAD, 0.05, 2.0)},
    ),
)
#: All known servos by name.
ACTUATORS: dict[str, ActuatorType] = {kind.name: kind for kind in _TYPES}


def actuator_type(name: str) -> ActuatorType:
    """Return a servo by name, or the one that a YAML file defines.

    Args:
        name: Name in the catalogue, or the path of a file ``*.yaml``.

    Raises:
        ParameterError: There is none of that name.
        ConfigError: The file is not valid.
    """
    if name in ACTUATORS:
        return ACTUATORS[name]
    if name.endswith(('.yaml', '.yml')):
        return _defined(read_definition(Path(name)))
    hint = nearest(name, ACTUATORS, len(ACTUATORS))
    msg = f'There is no actuator {name!r}; {hint}; or give a YAML file that defines one.'
    raise ParameterError(msg)


def _defined(definition: Definition) -> ActuatorType:
    return ActuatorType(
        definition.name,
        MOTOR_LAWS[definition.law],
        definition.constants,
        {name: Coefficient(*numbers) for name, numbers in definition.coefficients.items()},
        {name: Coefficient(*numbers) for name, numbers in definition.friction.items()},
    )
