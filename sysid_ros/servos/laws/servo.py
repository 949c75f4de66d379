# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Kinds of servos: those of the catalogue, those that a YAML file defines, with a friction law."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from sysid_ros.config.files import read_yaml, validate
from sysid_ros.errors import ParameterError, nearest
from sysid_ros.servos.laws.friction import (
    FRICTION_COEFFICIENTS,
    UNITS,
    Coefficient,
    FrictionLaw,
    friction_law,
)
from sysid_ros.servos.laws.motors import MOTOR_LAWS, MotorLaw, Values

Array = NDArray[np.float64]

#: Numbers that the laws divide by.
_DIVISORS = ('R', 'vin', 'dtheta_stribeck')
_OFFSET = Coefficient(0.0, -0.1, 0.1)
#: Recorders may stamp an entry after its goal was written; what is on the way is late, s.
COMMAND_DELAY = Coefficient(0.0, -0.02, 0.05)


class ActuatorType(BaseModel):
    """A kind of servo, as a YAML file defines one.

    Attributes:
        name: As in logs and parameter files.
        law: Name of the law of its firmware and motor.
        constants: What is set and not fitted: ``kp`` and ``vin`` where a log says nothing else.
        coefficients: Start, lower and upper bound of what a fit may find of the motor, in the order
            of a parameter file.
        friction: The same of friction coefficients where they differ from the usual.
    """

    model_config = ConfigDict(extra='forbid', allow_inf_nan=False, frozen=True)

    name: str
    law: str
    constants: dict[str, float] = Field(default_factory=dict)
    coefficients: dict[str, Coefficient]
    friction: dict[str, Coefficient] = Field(default_factory=dict)

    @property
    def motor(self) -> MotorLaw:
        """The law of its firmware and motor."""
        return MOTOR_LAWS[self.law]

    @model_validator(mode='after')
    def _is_complete(self) -> ActuatorType:
        if self.law not in MOTOR_LAWS:
            hint = nearest(self.law, MOTOR_LAWS, len(MOTOR_LAWS))
            raise ValueError(f'There is no motor law {self.law!r}; {hint}')
        for complaint in self._complaints():
            raise ValueError(complaint)
        return self

    def _complaints(self) -> Iterator[str]:
        law = self.motor
        given = {**self.constants, **self.coefficients}
        known = (*law.needs, *law.may_have, 'armature', 'q_offset')
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
        yield from self._about_bounds()

    def _about_bounds(self) -> Iterator[str]:
        bounded = {**self.coefficients, **self.friction}
        for name, (initial, low, high) in bounded.items():
            if not (low <= initial <= high and low < high):
                yield (
                    f'Expected lower bound ≤ start ≤ upper bound for {name!r}, as [start, lower, '
                    f'upper], found [{initial:g}, {low:g}, {high:g}]'
                )
        lowest = {**self.constants, **{name: low for name, (_, low, _) in bounded.items()}}
        for name, value in lowest.items():
            if value <= 0 and name in _DIVISORS:
                yield f'Expected {name!r} to be more than 0 throughout, found {value:g}'
            if value < 0 and name != 'q_offset':
                yield f'Expected {name!r} to be at least 0 throughout, found {value:g}'


_LOAD = ('load_friction_base', 'load_friction_motor', 'load_friction_external')
_MX = {
    'law': 'voltage',
    # Gains were found with an oscilloscope by the authors of BAM.
    'constants': {'vin': 15, 'kp': 32, 'error_gain': 0.158, 'max_pwm': 0.9625},
    'coefficients': {'kt': (1.6, 1, 3), 'R': (2, 1, 5), 'armature': (0.005, 0.001, 0.05)},
}
_XL330 = {'kt': (1.6, 0.1, 3), 'R': (2.6, 2, 5), 'armature': (0.005, 0.0001, 0.05)}
#: Counts per radian, the divisor of the gain as observed.
_XL330_GAIN = 4096 / (2 * math.pi) / (256 * 885)
_EROB = {
    'law': 'damped_current',
    'coefficients': {'kt': (1.6, 1, 15), 'R': (2, 0.1, 3.5), 'armature': (0.005, 0.001, 2)},
    'friction': {
        **dict.fromkeys(('friction_base', 'friction_stribeck'), (0.05, 0, 10)),
        **dict.fromkeys(_LOAD, (0.05, 0, 1)),
        'friction_viscous': (0.1, 0, 30),
    },
}
#: Goal velocity by default, rad/s: 3400 counts per s.
_STS_VELOCITY = 3400 * 2 * math.pi / 4096
#: Kinds of servos by name, with the numbers of BAM.
_CATALOGUE: dict[str, dict[str, Any]] = {
    'mx64': _MX,
    'mx106': _MX,
    'xl320': {
        'law': 'voltage',
        'constants': {'vin': 7.5, 'kp': 32, 'error_gain': 0.05048199, 'max_pwm': 1},
        'coefficients': {
            'kt': (0.7, 0.25, 1.5),
            'R': (5, 3, 40),
            'armature': (0.0005, 0.0001, 0.01),
        },
        'friction': dict.fromkeys(_LOAD, (0.05, 0, 1)),
    },
    'xl330': {
        'law': 'voltage',
        'constants': {'vin': 7.5, 'kp': 400, 'error_gain': _XL330_GAIN, 'max_pwm': 1},
        'coefficients': _XL330,
    },
    'xl330i': {
        'law': 'bus_current',
        'constants': {'vin': 7.5, 'kp': 400, 'error_gain': 0.01},
        'coefficients': {**_XL330, 'current_limit': (1.5, 1, 3)},
    },
    'erob80_100': {
        **_EROB,
        'constants': {'kp': 100, 'damping': 2, 'max_amps': 12, 'max_volts': 48},
    },
    'erob80_50': {
        **_EROB,
        'constants': {'kp': 100, 'damping': 1, 'max_amps': 12, 'max_volts': 48},
    },
    'sts3215': {
        'law': 'voltage',
        'constants': {'vin': 7.4, 'kp': 32, 'error_gain': 0.166, 'max_pwm': 0.97},
        'coefficients': {
            'kt': (0.784532, 0.05, 2.5),
            'error_gain_ratio': (1, 0.1, 10),
            'R': (2, 0.1, 10),
            'armature': (0.0001, 0.00001, 0.04),
            # As BAM defines this servo; what it then fits within is the usual ±0.1.
            'q_offset': (0, -0.2, 0.2),
            'max_velocity': (_STS_VELOCITY, 0.1 * _STS_VELOCITY, 10 * _STS_VELOCITY),
        },
    },
    'unitree_go1': {
        'law': 'torque',
        'constants': {'kp': 20, 'damping': 0.3},
        'coefficients': {
            'ratio': (1, 0.5, 2),
            'max_torque': (23.7, 20, 30),
            'armature': (0.005, 0.00001, 2),
        },
        'friction': {
            **dict.fromkeys(('friction_base', 'friction_stribeck'), (0.05, 0, 5)),
            **dict.fromkeys(_LOAD, (0.05, 0, 2)),
        },
    },
}
#: All known servos by name.
ACTUATORS: dict[str, ActuatorType] = {
    name: ActuatorType(name=name, **numbers) for name, numbers in _CATALOGUE.items()
}


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
        return validate(ActuatorType, read_yaml(Path(name)), name)
    hint = nearest(name, ACTUATORS, len(ACTUATORS))
    raise ParameterError(
        f'There is no actuator {name!r}; {hint}; or give a YAML file that defines one.'
    )


class Scheme(StrEnum):
    """How a pendulum's simulation makes a step; see `bench.pendulum.simulate`.

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

    def forces(
        self,
        p: Values,
        goal: Array,
        enabled: Array | float,
        q: Array,
        dq: Array,
        external: Array,
    ) -> tuple[Array, Array | float]:
        """Return the motor's torque at the joint and the largest dry friction, N·m.

        Numbers of the laws, goals of the position loops and positions in rad, velocities in rad/s
        and torques from outside in N·m broadcast; ``enabled`` is 1 where a motor is powered.
        """
        motor = self.type.motor.torque(p, goal - q, dq, enabled)
        return motor, self.friction.dry(p, motor, external, dq)

    @property
    def name(self) -> str:
        """The kind and the friction law, as ``xl330 m6``."""
        return f'{self.type.name} {self.friction.name}'
