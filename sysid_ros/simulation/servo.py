# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Servos: the laws of motor and friction, the kinds of servos, and BAM's parameter files.

Laws work elementwise on arrays that broadcast: logs × candidates, or simulations × joints. Numbers
come as a mapping of names: coefficients (``kt``, ``R``, …) and constants (``kp``, ``vin``, …).
Motor laws and numbers are those of BAM (Rhoban, https://github.com/Rhoban/bam). The friction laws
are those of Duclusaud and Passault, "Extended friction models for the physics simulation of servo
actuators" (2024). With motor torque τm, external torque τe, velocity v and s = exp(-|v / vs|^α),
friction is at most

====  ==============================================================================
m1    Kc + Kv |v|
m2    m1 + s Kcs
m3    m1 + Kl |τm - τe|
m4    m1 + Kl |τm - τe| + s (Kcs + Kls |τm - τe|)
m5    m1 + |Ke τe - Km τm| + s (Kcs + |Kes τe - Kms τm|)
m6    m5 + s (Qe τe² where |τe| < |τm|, Qm τm² where |τe| > |τm|), if their signs differ
====  ==============================================================================
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from sysid_ros.config.files import read_yaml, validate
from sysid_ros.errors import ParameterError, nearest
from sysid_ros.files import bad_value, is_number, read_object, replace_file
from sysid_ros.model.kinds import SERVO

Array = NDArray[np.float64]
Values = Mapping[str, Array | float]

# Motors


def within(values: Array | float, low: Array | float, high: Array | float) -> Array:
    """Clip values. On arrays as small as these, ``np.clip`` takes several times as long."""
    found: Array = np.minimum(np.maximum(values, low), high)
    return found


class MotorLaw(NamedTuple):
    """Firmware and motor of one kind of servo.

    Attributes:
        name: As a file that defines a servo says it.
        torque: From the numbers, the position error in rad, the velocity in rad/s and 1 where the
            motor is powered, else 0, to the torque at the joint in N·m.
        needs: Names that the numbers must have.
        may_have: Names of further ones, which switch on what they are about.
    """

    name: str
    torque: Callable[[Values, Array, Array, Array | float], Array]
    needs: tuple[str, ...]
    may_have: tuple[str, ...] = ()


def limited_goal(p: Values, goal: Array, last: Array | float, dt: float) -> Array:
    """Return the goal of the position loop, rad: with ``max_velocity`` it follows the command.

    ``last`` is the goal of ``dt`` seconds ago.
    """
    if 'max_velocity' not in p:
        return goal
    reach = p['max_velocity'] * dt
    return within(goal, last - reach, last + reach)


def _voltage(p: Values, error: Array, dq: Array, enabled: Array | float) -> Array:
    """Return the torque of a DC motor with back-EMF whose duty cycle grows with the error.

    duty = clip(error_gain kp error), by ``max_pwm``, and before that by the firmware's current
    limit where there is one: (kt dq ± R current_limit) / vin. τ = kt V / R - kt² dq / R.
    """
    duty = error * p['kp'] * p['error_gain']
    if 'error_gain_ratio' in p:
        duty = duty * p['error_gain_ratio']
    if 'current_limit' in p:
        middle = p['kt'] * dq / p['vin']
        span = p['R'] * p['current_limit'] / p['vin']
        duty = within(duty, middle - span, middle + span)
    duty = within(duty, np.negative(p['max_pwm']), p['max_pwm'])
    volts = p['vin'] * duty
    found: Array = (p['kt'] * volts / p['R'] - (p['kt'] ** 2) * dq / p['R']) * enabled
    return found


def _amps(p: Values, error: Array, dq: Array) -> Array:
    """Return the current that a position loop wants, within voltage and ``current_limit``.

    I = clip(error_gain kp error), by what the voltage can drive, (±vin - kt dq) / R, then by
    ``current_limit``.
    """
    current = error * p['kp'] * p['error_gain']
    back = p['kt'] * dq
    current = within(current, (-p['vin'] - back) / p['R'], (p['vin'] - back) / p['R'])
    limit = p['current_limit']
    return within(current, np.negative(limit), limit)


def _current(p: Values, error: Array, dq: Array, enabled: Array | float) -> Array:
    """Return kt I: the firmware regulates the current of the motor."""
    found: Array = p['kt'] * _amps(p, error, dq) * enabled
    return found


def _bus_current(p: Values, error: Array, dq: Array, enabled: Array | float) -> Array:
    """Return the torque where the firmware regulates the current of its supply.

    The duty cycle that draws the current I from the supply solves
    vin duty² - kt dq duty - R |I| = 0 in the direction of I; it is at most 1.
    """
    amps = _amps(p, error, dq)
    back = p['kt'] * dq
    root = np.sqrt(back**2 + 4.0 * p['vin'] * p['R'] * np.abs(amps))
    duty = within((back + np.sign(amps) * root) / (2.0 * p['vin']), -1.0, 1.0)
    found: Array = p['kt'] * ((duty * p['vin'] - back) / p['R']) * enabled
    return found


def _damped_current(p: Values, error: Array, dq: Array, enabled: Array | float) -> Array:
    """Return the torque of a PD position loop whose output is a current.

    I = clip(kp error - damping √kp dq, ±max_amps); τ = clip(kt I, ±kt max_volts / R - kt² dq / R).
    A motor that is switched off has no current, but is still braked beyond what the voltage allows.
    """
    amps = error * p['kp'] - p['damping'] * np.sqrt(p['kp']) * dq
    limit = p['max_amps']
    amps = within(amps, np.negative(limit), limit)
    most = p['kt'] / p['R'] * p['max_volts']
    back = (p['kt'] ** 2) * dq / p['R']
    return within(p['kt'] * (amps * enabled), -most - back, most - back)


def _torque(p: Values, error: Array, dq: Array, enabled: Array | float) -> Array:
    """Return clip(kp ratio error - damping dq, ±max_torque)."""
    torque = error * p['kp'] * p['ratio'] - p['damping'] * dq
    most = p['max_torque']
    found: Array = within(torque, np.negative(most), most) * enabled
    return found


_OF_CURRENT = ('kt', 'R', 'kp', 'vin', 'error_gain', 'current_limit')
#: All laws by name.
MOTOR_LAWS: dict[str, MotorLaw] = {
    law.name: law
    for law in (
        MotorLaw(
            'voltage',
            _voltage,
            ('kt', 'R', 'kp', 'vin', 'error_gain', 'max_pwm'),
            ('current_limit', 'max_velocity', 'error_gain_ratio'),
        ),
        MotorLaw('current', _current, _OF_CURRENT),
        MotorLaw('bus_current', _bus_current, _OF_CURRENT),
        MotorLaw(
            'damped_current',
            _damped_current,
            ('kt', 'R', 'kp', 'damping', 'max_amps', 'max_volts'),
        ),
        MotorLaw('torque', _torque, ('ratio', 'max_torque', 'kp', 'damping')),
    )
}


# Friction

#: SI unit of every coefficient of the motor and friction laws: those that are targets of a robot's
#: actuators, what is of the joint, and what is of a recording.
UNITS: dict[str, str] = {
    **{name: kind.component_unit(0) for name, kind in SERVO.items()},
    'armature': 'kg·m²',
    'q_offset': 'rad',
    'command_delay': 's',
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


class Coefficient(NamedTuple):
    """Where a fit starts and how far it may go, in the coefficient's unit."""

    initial: float
    low: float
    high: float


_LOAD = Coefficient(0.05, 0.0, 0.5)
_LOAD_AT_REST = Coefficient(0.05, 0.0, 1.0)
#: Starts and bounds by default of all of them.
FRICTION_COEFFICIENTS: dict[str, Coefficient] = {
    'friction_base': Coefficient(0.05, 0.0, 0.2),
    'friction_stribeck': Coefficient(0.05, 0.0, 0.2),
    'load_friction_base': _LOAD,
    'load_friction_motor': _LOAD,
    'load_friction_external': _LOAD,
    'load_friction_stribeck': _LOAD_AT_REST,
    'load_friction_motor_stribeck': _LOAD_AT_REST,
    'load_friction_external_stribeck': _LOAD_AT_REST,
    'load_friction_motor_quad': Coefficient(0.0, 0.0, 0.01),
    'load_friction_external_quad': Coefficient(0.0, 0.0, 0.01),
    'dtheta_stribeck': Coefficient(0.2, 0.1, 3.0),
    'alpha': Coefficient(1.35, 1.0, 10.0),
    'friction_viscous': Coefficient(0.1, 0.0, 1.0),
}


@dataclass(frozen=True)
class FrictionLaw:
    """How large dry and viscous friction can be."""

    name: str
    #: Whether dry friction is larger near rest.
    stribeck: bool = False
    #: Whether it grows with the torque that the gears pass on.
    load: bool = False
    #: Whether load from the motor and from outside count differently.
    directional: bool = False
    #: Whether driving and being driven differ by squares of torques as well.
    quadratic: bool = False

    @property
    def coefficients(self) -> dict[str, Coefficient]:
        """Names of the coefficients in the order of a parameter file, with starts and bounds."""
        names = ['friction_base']
        if self.stribeck:
            names += ['friction_stribeck']
        if self.directional:
            names += ['load_friction_motor', 'load_friction_external']
            if self.stribeck:
                names += ['load_friction_motor_stribeck', 'load_friction_external_stribeck']
            if self.quadratic:
                names += ['load_friction_motor_quad', 'load_friction_external_quad']
        elif self.load:
            names += ['load_friction_base']
            if self.stribeck:
                names += ['load_friction_stribeck']
        if self.stribeck:
            names += ['dtheta_stribeck', 'alpha']
        names += ['friction_viscous']
        return {name: FRICTION_COEFFICIENTS[name] for name in names}

    def dry(self, p: Values, motor: Array, external: Array, velocity: Array) -> Array | float:
        """Return the largest dry friction, N·m: MuJoCo's ``frictionloss``.

        Coefficients, torques of the motor at the joint and from outside in N·m, and velocities in
        rad/s broadcast with each other.
        """
        found = p['friction_base']
        gears = None
        if self.directional:
            found = found + np.abs(
                external * p['load_friction_external'] - motor * p['load_friction_motor']
            )
        elif self.load:
            gears = np.abs(external - motor)
            found = found + p['load_friction_base'] * gears
        if not self.stribeck:
            return found
        near_rest = np.exp(-(np.abs(velocity / p['dtheta_stribeck']) ** p['alpha']))
        more = p['friction_stribeck']
        if self.directional:
            more = more + np.abs(
                external * p['load_friction_external_stribeck']
                - motor * p['load_friction_motor_stribeck']
            )
            if self.quadratic:
                driving, driven = np.abs(motor), np.abs(external)
                opposed = (np.sign(external) != np.sign(motor)) & (driven != driving)
                quadratic = np.where(
                    driven < driving,
                    p['load_friction_external_quad'] * external**2,
                    p['load_friction_motor_quad'] * motor**2,
                )
                more = more + quadratic * opposed
        elif gears is not None:
            more = more + p['load_friction_stribeck'] * gears
        return found + near_rest * more


#: All laws by name, from the simplest on.
FRICTION_LAWS: dict[str, FrictionLaw] = {
    law.name: law
    for law in (
        FrictionLaw('m1'),
        FrictionLaw('m2', stribeck=True),
        FrictionLaw('m3', load=True),
        FrictionLaw('m4', stribeck=True, load=True),
        FrictionLaw('m5', stribeck=True, load=True, directional=True),
        FrictionLaw('m6', stribeck=True, load=True, directional=True, quadratic=True),
    )
}


def friction_law(name: str) -> FrictionLaw:
    """Return a friction law by name, or raise a ParameterError."""
    if name not in FRICTION_LAWS:
        hint = nearest(name, FRICTION_LAWS, len(FRICTION_LAWS))
        raise ParameterError(f'There is no friction model {name!r}; {hint}.')
    return FRICTION_LAWS[name]


# Kinds of servos

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
        """Its motor law."""
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


_LOADS = ('load_friction_base', 'load_friction_motor', 'load_friction_external')
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
        **dict.fromkeys(_LOADS, (0.05, 0, 1)),
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
        'friction': dict.fromkeys(_LOADS, (0.05, 0, 1)),
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
            **dict.fromkeys(_LOADS, (0.05, 0, 2)),
        },
    },
}
#: All known servos by name.
ACTUATORS: dict[str, ActuatorType] = {
    name: ActuatorType(name=name, **numbers) for name, numbers in _CATALOGUE.items()
}


def actuator_type(name: str) -> ActuatorType:
    """Return a servo by its name in the catalogue, or the one that a file ``*.yaml`` defines."""
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
        """Return a servo by the names of its kind (or a file that defines it) and friction law."""
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


# Parameter files

#: Keys beside the coefficients: names of the friction law and of the servo.
_NAMES = ('model', 'actuator')
#: Written only where it is not BAM's, as in a fit to raw logs.
_SCHEME = 'scheme'


def read_parameters(path: Path, actuator: str | None = None) -> tuple[Servo, dict[str, float]]:
    """Read a servo and the values of its coefficients, in their order.

    Coefficients that the file lacks have their initial values: files that BAM published lack those
    that its laws got later, as ``q_offset``. ``actuator`` is a YAML file that defines the servo,
    where the catalogue has none of its name.

    Raises:
        ParameterError: The file cannot be read, is none of parameters, or is about another servo.
        ConfigError: The YAML file is not valid.
    """
    document = read_object(path, ParameterError)
    servo = _servo(path, document, actuator)
    coefficients = servo.coefficients
    for key, value in document.items():
        if key in (*_NAMES, _SCHEME):
            continue
        if key not in coefficients:
            hint = nearest(key, coefficients)
            raise ParameterError(
                f'{servo.name} has no coefficient {key!r}, found in {str(path)!r}; {hint}.'
            )
        if isinstance(value, bool) or not is_number(value):
            raise ParameterError(bad_value(path, key, value, 'a finite number'))
    return servo, {
        name: float(document.get(name, usual.initial)) for name, usual in coefficients.items()
    }


def write_parameters(path: Path, servo: Servo, values: Mapping[str, float]) -> None:
    """Write values of all of ``servo.coefficients``, or raise a ParameterError."""
    coefficients = servo.coefficients
    if set(coefficients) != set(values):
        raise ParameterError(
            f'Expected {", ".join(coefficients)} for {servo.name}, found '
            f'{", ".join(values) or "nothing"}.'
        )
    document: dict[str, Any] = {name: float(values[name]) for name in coefficients}
    for name, value in document.items():
        if not is_number(value):
            raise ParameterError(
                f'Expected a finite number for {name!r} of {servo.name}, found {value:g}.'
            )
    document['model'] = servo.friction.name
    document['actuator'] = servo.type.name
    if servo.scheme is not Scheme.BAM:
        document[_SCHEME] = servo.scheme.value
    replace_file(path, f'{json.dumps(document, indent=2)}\n'.encode())


def _servo(path: Path, document: dict[str, Any], actuator: str | None) -> Servo:
    missing = [key for key in _NAMES if key not in document]
    if missing:
        hint = nearest(missing[0], document)
        raise ParameterError(
            f'{str(path)!r} holds no parameters of a servo: it has no {", ".join(missing)}; {hint}.'
        )
    for key in _NAMES:
        if not isinstance(document[key], str):
            raise ParameterError(bad_value(path, key, document[key], 'text'))
    scheme = document.get(_SCHEME, Scheme.BAM.value)
    if scheme not in list(Scheme):
        expected = ' or '.join(Scheme)
        raise ParameterError(bad_value(path, _SCHEME, scheme, expected))
    try:
        servo = Servo.named(actuator or document['actuator'], document['model'])
    except ParameterError as err:
        reason = str(err)
        raise ParameterError(f'Cannot use {str(path)!r}: {reason[0].lower()}{reason[1:]}') from err
    if servo.type.name != document['actuator']:
        raise ParameterError(
            f'Expected parameters of {servo.type.name!r} in {str(path)!r}, found those of '
            f'{document["actuator"]!r}.'
        )
    return dataclasses.replace(servo, scheme=Scheme(scheme))
