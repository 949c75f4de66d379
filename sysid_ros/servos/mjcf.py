# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A fitted servo as plain MJCF: a joint, and the ``dcmotor`` or ``position`` that drives it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import mujoco

from sysid_ros.errors import ModelError, ParameterError, nearest
from sysid_ros.files import replace_file
from sysid_ros.model.xml_text import join
from sysid_ros.simulation.servo import Servo

#: The torque of a motor whose supply current is regulated grows with the root of the position
#: error. The line through 0 that is nearest to a root between 0 and 1 in the least-squares sense
#: has this slope: (1 / 2.5) / (1 / 3).
_ROOT_AS_LINE = 1.2
#: Dry friction of MuJoCo creeps: by default, a joint that it holds moves on at some mrad/s. With
#: this impedance it is 1000 times slower; the time constant is the shortest that a time step of
#: 1 ms allows, and MuJoCo lengthens it for longer ones.
_STIFF = 'solreffriction="0.002 1" solimpfriction="0.9999 0.9999 0.001"'
_FILE = """\
<mujoco model="servo">
  <worldbody>
    <body name="servo">
      {}
      <geom type="capsule" size=".01" fromto="0 0 0 .1 0 0" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <actuator>
    {}
  </actuator>
</mujoco>
"""


class PlainServo(NamedTuple):
    """The two lines of MJCF that stand for a servo, and sentences on what they do not hold."""

    joint: str
    actuator: str
    notes: tuple[str, ...]


class _Loop(NamedTuple):
    """A position loop: torque = clip(kp error - kv velocity, ±limit), in N·m, rad and s."""

    kp: float
    kv: float
    limit: float = math.inf
    volts: float = math.nan
    note: str = ''


def _voltage(p: Mapping[str, float]) -> _Loop:
    kp = p['kp'] * p['error_gain'] * p.get('error_gain_ratio', 1.0) * p['vin'] * p['kt'] / p['R']
    # The duty cycle is cut off at max_pwm, not multiplied by it. The velocity gain takes back the
    # back-EMF, for which a dcmotor makes up and this firmware does not.
    limit = p['kt'] * p.get('current_limit', math.inf)
    return _Loop(kp, p['kt'] ** 2 / p['R'], limit, p['vin'] * p['max_pwm'])


def _current(p: Mapping[str, float]) -> _Loop:
    return _Loop(p['kt'] * p['kp'] * p['error_gain'], 0.0, p['kt'] * p['current_limit'], p['vin'])


def _bus_current(p: Mapping[str, float]) -> _Loop:
    """Return a line in place of the root that torque is of the position error.

    With V = vin duty the law is V² - kt dq V = R vin |I|, so V is near √(R vin |I|) + kt dq / 2,
    and the torque near kt √(vin |I| / R) - kt² dq / (2 R).
    """
    amps = min(p['current_limit'], p['vin'] / p['R'])
    limit = p['kt'] * math.sqrt(amps * p['vin'] / p['R'])
    error = amps / (p['kp'] * p['error_gain'])
    note = f'Torque is a root of the position error: a line stands for it up to {error:.3g} rad.'
    kp, kv = _ROOT_AS_LINE * limit / error, p['kt'] ** 2 / (2 * p['R'])
    return _Loop(kp, kv, limit, p['vin'], note)


def _damped_current(p: Mapping[str, float]) -> _Loop:
    kv = p['kt'] * p['damping'] * math.sqrt(p['kp'])
    return _Loop(p['kt'] * p['kp'], kv, p['kt'] * p['max_amps'], p['max_volts'])


def _torque(p: Mapping[str, float]) -> _Loop:
    return _Loop(p['kp'] * p['ratio'], p['damping'], p['max_torque'])


_LOOPS: dict[str, Callable[[Mapping[str, float]], _Loop]] = {
    'voltage': _voltage,
    'current': _current,
    'bus_current': _bus_current,
    'damped_current': _damped_current,
    'torque': _torque,
}


def plain_servo(servo: Servo, values: Mapping[str, float], **constants: float | None) -> PlainServo:
    """Return a servo as the actuator of MuJoCo that holds most of it.

    A ``dcmotor`` is exact while it is in its reach, but for the law of a regulated supply current.
    Its controller gives the voltage v = R / K (kp e - kv dq) + K dq, within its limit. Laws that
    know of no motor become ``position``. Of friction, the parts without load and Stribeck effect
    are kept.

    Args:
        servo: The laws.
        values: Of ``servo.coefficients``.
        constants: ``kp`` of the firmware in its own unit, ``vin`` in V; the servo's own for None.

    Raises:
        ParameterError: The servo has no such constant, or it is not positive.
    """
    p = dict(servo.type.constants)
    for name, value in constants.items():
        if value is not None and name not in p:
            raise ParameterError(f'{servo.type.name} has no {name!r} to set; {nearest(name, p)}.')
        if value is not None and not (math.isfinite(value) and value > 0):
            raise ParameterError(f'Expected a positive number for {name!r}, found {value:g}.')
        p[name] = p[name] if value is None else value
    p |= values
    loop = _LOOPS[servo.type.law](p)
    if math.isnan(loop.volts):
        limits = _numbers(-loop.limit, loop.limit)
        drive = f'<position {{}} kp={_numbers(loop.kp)} kv={_numbers(loop.kv)} forcerange={limits}'
    else:
        slew = p.get('max_velocity', 0.0)
        controller = _numbers(loop.kp, 0.0, loop.kv, slew, 0.0, loop.volts)
        drive = f'<dcmotor {{}} motorconst={_numbers(p["kt"], p["kt"])} resistance='
        drive += f'{_numbers(p["R"])} input="pos" controller={controller}'
        if math.isfinite(loop.limit):
            drive += f' saturation={_numbers(loop.limit, 0.0, 0.0)}'
    joint = f'<joint name="servo" armature={_numbers(p["armature"])} '
    joint += f'damping={_numbers(p["friction_viscous"])}'
    if p['friction_base']:
        joint += f' frictionloss={_numbers(p["friction_base"])} {_STIFF}'
    notes = [loop.note] if loop.note else []
    if servo.friction.stribeck or servo.friction.load:
        notes.append(
            f'Of the friction of {servo.name} only friction_base and friction_viscous are kept.'
        )
    actuator = drive.format('name="servo" joint="servo"')
    return PlainServo(f'{joint}/>', f'{actuator}/>', tuple(notes))


def write_servo(path: Path, servo: PlainServo) -> None:
    """Write an MJCF file of a body that turns with the joint, or raise a ModelError."""
    text = _FILE.format(servo.joint, servo.actuator)
    try:
        mujoco.MjModel.from_xml_string(text)
    except ValueError as err:
        why = ' '.join(str(err).split())
        raise ModelError(f'MuJoCo {mujoco.__version__} does not take the servo: {why}.') from err
    replace_file(path, text.encode())


def _numbers(*values: float) -> str:
    """Write an attribute of MJCF; more than nine digits say nothing about a servo."""
    return f'"{join(float(f"{value:.9g}") for value in values)}"'
