# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The motor laws of servos as position loops around a motor, which is how MuJoCo sees them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The torque of a motor whose supply current is regulated grows with the root of the position
#: error. The line through 0 that is nearest to a root between 0 and 1 in the least-squares sense
#: has this slope: (1 / 2.5) / (1 / 3).
_ROOT_AS_LINE = 1.2


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
        compensated: Whether the loop gives the torque that it wants whatever the back-EMF, until
            the voltage is at its limit.
        notes: What is lost.
    """

    kp: float
    kv: float
    limit: float
    motor: DcMotor | None
    compensated: bool
    notes: tuple[str, ...] = ()


def position_loop(law: str, p: Mapping[str, float]) -> PositionLoop:
    """Return the position loop of a motor law by its name.

    Args:
        law: One of the names in ``motors.MOTOR_LAWS``.
        p: Coefficients and constants.
    """
    return _LOOPS[law](p)


def _voltage(p: Mapping[str, float]) -> PositionLoop:
    gain = p['kp'] * p['error_gain'] * p.get('error_gain_ratio', 1.0)
    motor = DcMotor(p['kt'], p['R'], p['vin'] * p['max_pwm'])
    # Of the duty cycle: it is cut off at max_pwm, not multiplied by it.
    kp = gain * p['vin'] * p['kt'] / p['R']
    limit = p['kt'] * p['current_limit'] if 'current_limit' in p else math.inf
    return PositionLoop(kp, 0.0, limit, motor, compensated=False)


def _current(p: Mapping[str, float]) -> PositionLoop:
    motor = DcMotor(p['kt'], p['R'], p['vin'])
    kp = p['kt'] * p['kp'] * p['error_gain']
    return PositionLoop(kp, 0.0, p['kt'] * p['current_limit'], motor, compensated=True)


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
    return PositionLoop(kp, kv, limit, motor, compensated=True, notes=(note,))


def _damped_current(p: Mapping[str, float]) -> PositionLoop:
    motor = DcMotor(p['kt'], p['R'], p['max_volts'])
    kv = p['kt'] * p['damping'] * math.sqrt(p['kp'])
    return PositionLoop(p['kt'] * p['kp'], kv, p['kt'] * p['max_amps'], motor, compensated=True)


def _torque(p: Mapping[str, float]) -> PositionLoop:
    return PositionLoop(p['kp'] * p['ratio'], p['damping'], p['max_torque'], None, compensated=True)


_LOOPS: dict[str, Callable[[Mapping[str, float]], PositionLoop]] = {
    'voltage': _voltage,
    'current': _current,
    'bus_current': _bus_current,
    'damped_current': _damped_current,
    'torque': _torque,
}
