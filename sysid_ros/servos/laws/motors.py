# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Torque of a servo's motor under the position loop of its firmware.

Laws work elementwise on arrays that broadcast: logs × candidates, or simulations × joints. Numbers
come as a mapping of names: coefficients (``kt``, ``R``, …) and constants (``kp``, ``vin``, …).
Formulas are those of BAM (Rhoban, https://github.com/Rhoban/bam).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Values = Mapping[str, Array | float]


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
