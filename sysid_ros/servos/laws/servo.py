# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Kinds of servos: those of the catalogue, those that a YAML file defines, with a friction law."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sysid_ros.config import validate
from sysid_ros.config.files import read_yaml
from sysid_ros.errors import ParameterError, nearest
from sysid_ros.servos.laws.friction import (
    FRICTION_COEFFICIENTS,
    UNITS,
    Coefficient,
    FrictionLaw,
    friction_law,
)
from sysid_ros.servos.laws.motors import MOTOR_LAWS, MotorLaw

#: Numbers that every law of a motor may have beside its own.
_OF_EVERY_LAW = ('armature', 'q_offset')
#: Numbers that the laws divide by.
_DIVISORS = ('R', 'vin', 'dtheta_stribeck')
#: The only number that may be negative.
_SIGNED = ('q_offset',)
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
_OFFSET = Coefficient(0.0, -0.1, 0.1)
#: Recorders may stamp an entry after its goal was written; what is on the way is late, s.
COMMAND_DELAY = Coefficient(0.0, -0.02, 0.05)


class ServoDefinition(BaseModel):
    """What a YAML file that defines a servo holds.

    ``coefficients`` are start, lower and upper bound of what a fit may find of the motor;
    ``friction`` is the same of friction coefficients whose bounds differ from the usual.
    """

    model_config = ConfigDict(extra='forbid', allow_inf_nan=False)

    name: str
    law: str
    constants: dict[str, float] = Field(default_factory=dict)
    coefficients: dict[str, tuple[float, float, float]]
    friction: dict[str, tuple[float, float, float]] = Field(default_factory=dict)

    @model_validator(mode='after')
    def _is_complete(self) -> ServoDefinition:
        law = MOTOR_LAWS.get(self.law)
        if law is None:
            raise ValueError(
                f'There is no motor law {self.law!r}; {nearest(self.law, MOTOR_LAWS, 5)}'
            )
        for complaint in chain(self._about_names(law), self._about_bounds(), self._about_signs()):
            raise ValueError(complaint)
        return self

    def _about_names(self, law: MotorLaw) -> Iterator[str]:
        given = {**self.constants, **self.coefficients}
        known = (*law.needs, *law.may_have, *_OF_EVERY_LAW)
        for name in given:
            if name not in known:
                yield f'The motor law {law.name!r} has no {name!r}; {nearest(name, known)}'
        missing = [name for name in (*law.needs, 'armature') if name not in given]
        if missing:
            found = ', '.join(given) or 'none'
            yield f'The motor law {law.name!r} needs {", ".join(missing)}, found {found}'
        for name in self.coefficients:
            if name in self.constants:
                yield f'{name!r} is either set or fitted: found it in constants and coefficients'
            if name not in UNITS:
                yield f'{name!r} is set and not fitted: expected it in constants'
        for name in self.friction:
            if name not in FRICTION_COEFFICIENTS:
                hint = nearest(name, FRICTION_COEFFICIENTS)
                yield f'There is no friction coefficient {name!r}; {hint}'

    def _about_bounds(self) -> Iterator[str]:
        for name, (initial, low, high) in {**self.coefficients, **self.friction}.items():
            if not (low <= initial <= high and low < high):
                yield (
                    f'Expected lower bound ≤ start ≤ upper bound for {name!r}, as [start, lower, '
                    f'upper], found [{initial:g}, {low:g}, {high:g}]'
                )

    def _about_signs(self) -> Iterator[str]:
        bounded = {**self.coefficients, **self.friction}
        lowest = {**self.constants, **{name: low for name, (_, low, _) in bounded.items()}}
        for name, value in lowest.items():
            if value <= 0 and name in _DIVISORS:
                yield f'Expected {name!r} to be more than 0 throughout, found {value:g}'
            if value < 0 and name not in _SIGNED:
                yield f'Expected {name!r} to be at least 0 throughout, found {value:g}'


@dataclass(frozen=True)
class ActuatorType:
    """A kind of servo, by the name that logs and parameter files have.

    Attributes:
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
        found = validate(ServoDefinition, read_yaml(Path(name)), name)
        return ActuatorType(
            found.name,
            MOTOR_LAWS[found.law],
            found.constants,
            {own: Coefficient(*numbers) for own, numbers in found.coefficients.items()},
            {own: Coefficient(*numbers) for own, numbers in found.friction.items()},
        )
    hint = nearest(name, ACTUATORS, len(ACTUATORS))
    raise ParameterError(
        f'There is no actuator {name!r}; {hint}; or give a YAML file that defines one.'
    )


class Scheme(StrEnum):
    """How a pendulum's simulation makes a step; see `PendulumStepper`.

    BAM's explicit steps are as long as the sampling period of processed logs, and coefficients hold
    for that step. Leapfrog steps are for raw logs; their coefficients are the servo's own.
    """

    BAM = 'bam'
    LEAPFROG = 'leapfrog'


@dataclass(frozen=True)
class Servo:
    """A kind of servo with one of the friction laws, and how its pendulum's steps are made."""

    type: ActuatorType
    friction: FrictionLaw
    scheme: Scheme = Scheme.BAM

    @classmethod
    def named(cls, actuator: str, model: str) -> Servo:
        """Return a servo by the names of its kind (or a file that defines it) and friction law.

        Raises:
            ParameterError: There is no such kind or law.
            ConfigError: The file that defines the kind is not valid.
        """
        return cls(actuator_type(actuator), friction_law(model))

    @property
    def coefficients(self) -> dict[str, Coefficient]:
        """All that a fit may find, in the order of a parameter file, with starts and bounds.

        ``q_offset`` is the angle of the pendulum from hanging down when the servo reads 0, rad.
        ``command_delay``, s, is from a command's stamp to the torque; processed logs have lost the
        stamps.
        """
        usual = self.friction.coefficients
        own = {name: self.type.friction.get(name, usual[name]) for name in usual}
        known = 'q_offset' in self.type.coefficients or 'q_offset' in self.type.constants
        offset = {} if known else {'q_offset': _OFFSET}
        delay = {'command_delay': COMMAND_DELAY} if self.scheme is Scheme.LEAPFROG else {}
        return {**self.type.coefficients, **offset, **own, **delay}

    @property
    def name(self) -> str:
        """The kind and the friction law, as ``xl330 m6``."""
        return f'{self.type.name} {self.friction.name}'
