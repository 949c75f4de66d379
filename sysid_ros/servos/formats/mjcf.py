# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A fitted servo as attributes of MJCF: a joint and the actuator that drives it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple
from xml.sax.saxutils import quoteattr

import mujoco

from sysid_ros.errors import ModelError, ParameterError, nearest
from sysid_ros.files import replace_file
from sysid_ros.model.mjcf.text import join
from sysid_ros.servos.laws.servo import Servo

Element = Literal['dcmotor', 'position']
#: The torque of a motor whose supply current is regulated grows with the root of the position
#: error. The line through 0 that is nearest to a root between 0 and 1 in the least-squares sense
#: has this slope: (1 / 2.5) / (1 / 3).
_ROOT_AS_LINE = 1.2
#: Dry friction of MuJoCo creeps: by default, a joint that it holds moves on at some mrad/s. With
#: this impedance it is 1000 times slower; the time constant is the shortest that a time step of
#: 1 ms allows, and MuJoCo lengthens it for longer ones.
_STIFF = {'solreffriction': '0.002 1', 'solimpfriction': '0.9999 0.9999 0.001'}
#: Digits of a number that is to be read; more say nothing about a servo.
_DIGITS = 9


class DcMotor(NamedTuple):
    """What ``dcmotor`` has and ``position`` has not.

    Attributes:
        constant: Torque constant, N·m/A.
        resistance: Ω.
        voltage: The largest that the controller gives, V.
    """

    constant: float
    resistance: float
    voltage: float


class PositionLoop(NamedTuple):
    """A position loop around a motor, before friction.

    Attributes:
        kp: N·m/rad.
        kv: N·m·s/rad, inside of the limits.
        limit: Of the torque of motor and back-EMF, N·m; infinite without.
        motor: None where the law knows of none.
        braking: Of the back-EMF, N·m·s/rad; 0 where the loop gives the torque that it wants
            whatever the back-EMF, until the voltage is at its limit.
        notes: What is lost.
    """

    kp: float
    kv: float
    limit: float
    motor: DcMotor | None
    braking: float = 0.0
    notes: tuple[str, ...] = ()


def _voltage(p: Mapping[str, float]) -> PositionLoop:
    gain = p['kp'] * p['error_gain'] * p.get('error_gain_ratio', 1.0)
    motor = DcMotor(p['kt'], p['R'], p['vin'] * p['max_pwm'])
    # Of the duty cycle: it is cut off at max_pwm, not multiplied by it.
    kp = gain * p['vin'] * p['kt'] / p['R']
    limit = p['kt'] * p['current_limit'] if 'current_limit' in p else math.inf
    return PositionLoop(kp, 0.0, limit, motor, p['kt'] ** 2 / p['R'])


def _current(p: Mapping[str, float]) -> PositionLoop:
    motor = DcMotor(p['kt'], p['R'], p['vin'])
    kp = p['kt'] * p['kp'] * p['error_gain']
    return PositionLoop(kp, 0.0, p['kt'] * p['current_limit'], motor)


def _bus_current(p: Mapping[str, float]) -> PositionLoop:
    """Return a line in place of the root that torque is of the position error.

    With V = vin duty the law is V² - kt dq V = R vin |I|, so V is near √(R vin |I|) + kt dq / 2,
    and the torque near kt √(vin |I| / R) - kt² dq / (2 R).
    """
    amps = min(p['current_limit'], p['vin'] / p['R'])
    limit = p['kt'] * math.sqrt(amps * p['vin'] / p['R'])
    error = amps / (p['kp'] * p['error_gain'])
    note = (
        'The torque of this law is the root of the position error: a line stands for it, of errors '
        f'up to {error:.3g} rad.'
    )
    motor = DcMotor(p['kt'], p['R'], p['vin'])
    kp, kv = _ROOT_AS_LINE * limit / error, p['kt'] ** 2 / (2 * p['R'])
    return PositionLoop(kp, kv, limit, motor, notes=(note,))


def _damped_current(p: Mapping[str, float]) -> PositionLoop:
    motor = DcMotor(p['kt'], p['R'], p['max_volts'])
    kv = p['kt'] * p['damping'] * math.sqrt(p['kp'])
    return PositionLoop(p['kt'] * p['kp'], kv, p['kt'] * p['max_amps'], motor)


def _torque(p: Mapping[str, float]) -> PositionLoop:
    return PositionLoop(p['kp'] * p['ratio'], p['damping'], p['max_torque'], None)


#: Motor law to its position loop, from coefficients and constants.
_LOOPS: dict[str, Callable[[Mapping[str, float]], PositionLoop]] = {
    'voltage': _voltage,
    'current': _current,
    'bus_current': _bus_current,
    'damped_current': _damped_current,
    'torque': _torque,
}


class PlainActuator(NamedTuple):
    """A joint and its actuator in MJCF's terms, and what is lost.

    Attributes:
        element: Which actuator.
        joint: Attributes of the joint.
        actuator: Attributes of the actuator.
        notes: Sentences on what is lost.
    """

    element: Element
    joint: Mapping[str, str]
    actuator: Mapping[str, str]
    notes: tuple[str, ...] = ()


def plain_actuator(
    servo: Servo,
    values: Mapping[str, float],
    *,
    kp: float | None = None,
    vin: float | None = None,
    element: Element | None = None,
) -> PlainActuator:
    """Return a servo as that actuator of MuJoCo that holds most of it.

    That is ``dcmotor`` for laws with a motor: while it is in its reach, it is exact for all of
    them but that of a regulated supply current. Its controller gives the voltage
    v = R / K (kp e - kv dq) + K dq, within its limit; kv = K² / R takes the compensation of the
    back-EMF back where the firmware has none. For other laws it is ``position``, which all ports of
    MuJoCo know. Its torque kp e - kv dq is limited as a whole, so the back-EMF of a motor that is
    fed with a voltage is damping of the joint: exact as long as the motor is powered.

    Of friction, the parts without load and Stribeck effect are kept.

    Args:
        servo: The laws.
        values: Of ``servo.coefficients``.
        kp: Gain of the firmware, in its own unit; the servo's usual one unless given.
        vin: Supply, V; the same.
        element: The actuator; the better one unless given.

    Raises:
        ParameterError: The law has no supply voltage, a number is not positive, or the law knows of
            no motor and is to be a ``dcmotor``.
    """
    p = {**_constants(servo, kp=kp, vin=vin), **values}
    loop = _LOOPS[servo.type.law](p)
    notes = list(loop.notes)
    element = element or ('position' if loop.motor is None else 'dcmotor')
    if element == 'dcmotor':
        if loop.motor is None:
            raise ParameterError(
                f'{servo.type.name} cannot be a dcmotor: its law {servo.type.law!r} knows of '
                'no motor; available: position.'
            )
        constant, resistance, voltage = loop.motor
        slew = p.get('max_velocity', 0.0)
        actuator = {
            'motorconst': _numbers(constant, constant),
            'resistance': _numbers(resistance),
            'input': 'pos',
            'controller': _numbers(loop.kp, 0.0, loop.kv + loop.braking, slew, 0.0, voltage),
        }
        if math.isfinite(loop.limit):
            actuator['saturation'] = _numbers(loop.limit, 0.0, 0.0)
    else:
        limit = loop.limit
        if loop.motor is not None:
            limit = min(limit, loop.motor.constant * loop.motor.voltage / loop.motor.resistance)
            notes.append(
                'The back-EMF is in the damping: it brakes a motor that is off, too.'
                if loop.braking
                else 'The torque that the supply allows does not fall with speed.'
            )
        if 'max_velocity' in p:
            notes.append('The set point follows the command at once, whatever max_velocity says.')
        actuator = {'kp': _numbers(loop.kp)}
        if loop.kv:
            actuator['kv'] = _numbers(loop.kv)
        if math.isfinite(limit):
            actuator['forcerange'] = _numbers(-limit, limit)
    if servo.friction.stribeck or servo.friction.load:
        notes.append(
            f'Of the friction of {servo.name} only friction_base and friction_viscous are kept.'
        )
    joint = {
        'armature': _numbers(p['armature']),
        'damping': _numbers(
            p['friction_viscous'] + (loop.braking if element == 'position' else 0.0)
        ),
        'frictionloss': _numbers(p['friction_base']),
        **(_STIFF if p['friction_base'] else {}),
    }
    return PlainActuator(element, joint, actuator, tuple(notes))


def _constants(servo: Servo, **given: float | None) -> dict[str, float]:
    """Return the constants of a servo with those that are given in place of its usual ones."""
    found = dict(servo.type.constants)
    for name, value in given.items():
        if value is None:
            continue
        if name not in found:
            hint = nearest(name, found, len(found))
            raise ParameterError(f'{servo.type.name} has no {name!r} to set; {hint}.')
        if not (math.isfinite(value) and value > 0):
            raise ParameterError(f'Expected a positive number for {name!r}, found {value:g}.')
        found[name] = value
    return found


def snippet(actuator: PlainActuator, joint: str = 'servo') -> tuple[str, str]:
    """Return what to paste into an MJCF file: a joint and an actuator of that name.

    The joint's axis and place are those of the model that it goes into.
    """
    name = quoteattr(joint)
    return (
        f'<joint name={name} {_attributes(actuator.joint)}/>',
        f'<{actuator.element} name={name} joint={name} {_attributes(actuator.actuator)}/>',
    )


def write_plain_mjcf(path: Path, actuator: PlainActuator) -> None:
    """Write an MJCF file of a body that turns with the joint, which the actuator drives.

    Raises:
        ModelError: MuJoCo does not take it.
        ResultError: The folder cannot be written.
    """
    joint, drive = snippet(actuator)
    text = f"""<mujoco model="servo">
  <worldbody>
    <body name="servo">
      {joint}
      <geom type="capsule" size=".01" fromto="0 0 0 .1 0 0" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <actuator>
    {drive}
  </actuator>
</mujoco>
"""
    try:
        mujoco.MjModel.from_xml_string(text)
    except ValueError as err:
        why = ' '.join(str(err).split())
        raise ModelError(f'MuJoCo {mujoco.__version__} does not take the servo: {why}.') from err
    replace_file(path, text.encode())


def _attributes(values: Mapping[str, str]) -> str:
    return ' '.join(f'{name}="{value}"' for name, value in values.items())


def _numbers(*values: float) -> str:
    return join(float(f'{value:.{_DIGITS}g}') for value in values)
