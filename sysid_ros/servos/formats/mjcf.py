# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Servos as MuJoCo's own actuators: the numbers of a joint and an actuator in plain MJCF."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sysid_ros.errors import ParameterError, nearest
from sysid_ros.servos.formats.loops import DcMotor, position_loop
from sysid_ros.servos.formats.plain_friction import PlainFriction, plain_friction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sysid_ros.servos.formats.loops import PositionLoop
    from sysid_ros.servos.laws.servo import Servo

Element = Literal['dcmotor', 'position']


@dataclass(frozen=True)
class PlainActuator:
    """A joint and its actuator in MJCF's terms.

    Attributes:
        element: Which actuator.
        kp: Of the position, N·m/rad.
        kv: Of the velocity, N·m·s/rad, inside of the limits.
        limit: The largest torque of the actuator, N·m; infinite where it has none.
        armature: Of the joint, kg·m².
        damping: Of the joint, N·m·s/rad.
        frictionloss: Of the joint, N·m.
        motor: Of a ``dcmotor``.
        max_velocity: At which the set point follows the command, rad/s.
        notes: Sentences on what is lost.
    """

    element: Element
    kp: float
    kv: float
    limit: float
    armature: float
    damping: float
    frictionloss: float
    motor: DcMotor | None = None
    max_velocity: float | None = None
    notes: tuple[str, ...] = ()


def plain_actuator(
    servo: Servo,
    values: Mapping[str, float],
    *,
    kp: float | None = None,
    vin: float | None = None,
    friction: PlainFriction | None = None,
    element: Element | None = None,
) -> PlainActuator:
    """Return a servo as that actuator of MuJoCo that holds most of it.

    That is ``dcmotor`` for laws with a motor: while it is in its reach, it is exact for all of
    them but that of a regulated supply current. For the others it is ``position``.

    Args:
        servo: The laws.
        values: Of ``servo.coefficients``.
        kp: Gain of the firmware, in its own unit; the servo's usual one unless given.
        vin: Supply, V; the same.
        friction: What stands for the friction; without it, what can be said without logs.
        element: The actuator; the better one unless given.

    Raises:
        ParameterError: The law has no supply voltage, a number is not positive, or the law knows of
            no motor and is to be a ``dcmotor``.
    """
    p = {**constants(servo, kp=kp, vin=vin), **values}
    loop = position_loop(servo.type.law.name, p)
    friction = friction or plain_friction(servo, values)
    if element is None:
        element = 'position' if loop.motor is None else 'dcmotor'
    if element == 'dcmotor':
        return _as_dcmotor(servo, p, loop, friction)
    return _as_position(p, loop, friction)


def position_actuator(
    servo: Servo,
    values: Mapping[str, float],
    kp: float | None = None,
    vin: float | None = None,
    friction: PlainFriction | None = None,
) -> PlainActuator:
    """Return a servo as a ``position`` actuator, which all versions and ports of MuJoCo know.

    The torque kp (goal - q) - kv dq is limited as a whole, so the back-EMF of a motor that is fed
    with a voltage is put into the damping of the joint: what its firmware limits is the voltage.
    That is exact as long as the motor is powered.

    Args:
        servo: The laws.
        values: Of ``servo.coefficients``.
        kp: Gain of the firmware, in its own unit; the servo's usual one unless given.
        vin: Supply, V; the same.
        friction: What stands for the friction; without it, what can be said without logs.

    Raises:
        ParameterError: The law has no supply voltage, or a number is not positive.
    """
    return plain_actuator(servo, values, kp=kp, vin=vin, friction=friction, element='position')


def constants(
    servo: Servo, *, kp: float | None = None, vin: float | None = None
) -> dict[str, float]:
    """Return the constants of a servo with those that are given in place of its usual ones.

    Raises:
        ParameterError: The servo has no such constant, or a number is not positive.
    """
    found = dict(servo.type.constants)
    for name, value in (('kp', kp), ('vin', vin)):
        if value is None:
            continue
        if name not in found:
            msg = f'{servo.type.name} has no {name!r} to set; {nearest(name, found, len(found))}.'
            raise ParameterError(msg)
        if not (math.isfinite(value) and value > 0):
            msg = f'Expected a positive number for {name!r}, found {value:g}.'
            raise ParameterError(msg)
        found[name] = value
    return found


def _as_dcmotor(
    servo: Servo, p: Mapping[str, float], loop: PositionLoop, friction: PlainFriction
) -> PlainActuator:
    """Return a ``dcmotor``.

    Its controller gives the voltage v = R / K (kp e - kv dq) + K dq, within its limit. With
    kv = K² / R the back-EMF that it compensates is back, and v is proportional to the error, which
    is what a voltage-controlled servo does. A motor with 1 / part of the resistance and part of the
    gains has that part of the torque at all voltages and speeds.
    """
    if loop.motor is None:
        msg = (
            f'{servo.type.name} cannot be a dcmotor: its law {servo.type.law.name!r} knows of no '
            'motor; available: position.'
        )
        raise ParameterError(msg)
    constant, resistance, voltage = loop.motor
    part = friction.motor
    braking = 0.0 if loop.compensated else constant**2 / resistance
    return PlainActuator(
        'dcmotor',
        kp=part * loop.kp,
        kv=part * (loop.kv + braking),
        limit=part * loop.limit,
        armature=p['armature'],
        damping=friction.damping,
        frictionloss=friction.frictionloss,
        motor=DcMotor(constant, resistance / part, voltage),
        max_velocity=p.get('max_velocity'),
        notes=_notes(*loop.notes, friction.note),
    )


def _as_position(
    p: Mapping[str, float], loop: PositionLoop, friction: PlainFriction
) -> PlainActuator:
    part, damping, limit = friction.motor, friction.damping, loop.limit
    notes = list(loop.notes)
    if loop.motor is not None:
        constant, resistance, voltage = loop.motor
        limit = min(limit, constant * voltage / resistance)
        if loop.compensated:
            notes.append('The torque that the supply allows does not fall with speed.')
        else:
            damping += part * constant**2 / resistance
            notes.append('The back-EMF is in the damping: it brakes a motor that is off, too.')
            if math.isfinite(loop.limit):
                notes.append('The current limit does not count the back-EMF.')
    if 'max_velocity' in p:
        notes.append('The set point follows the command at once, whatever max_velocity says.')
    return PlainActuator(
        'position',
        kp=part * loop.kp,
        kv=part * loop.kv,
        limit=part * limit,
        armature=p['armature'],
        damping=damping,
        frictionloss=friction.frictionloss,
        notes=_notes(*notes, friction.note),
    )


def _notes(*notes: str) -> tuple[str, ...]:
    return tuple(note for note in notes if note)
