# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a servo's firmware makes of a position error, and the torque that its motor then gives.

Laws work elementwise on arrays that broadcast: logs × candidates, or simulations × joints. Numbers
come as a mapping of names: coefficients (``kt``, ``R``, …) and constants (``kp``, ``vin``, …).
Formulas are those of BAM (Rhoban, https://github.com/Rhoban/bam).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Values = Mapping[str, Array | float]


def within(values: Array | float, low: Array | float, high: Array | float) -> Array:
    """Clip values. On arrays as small as these, ``np.clip`` takes several times as long."""
    found: Array = np.minimum(np.maximum(values, low), high)
    return found


class FirmwareControl(NamedTuple):
    """The control that the firmware decides on, in the law's unit, and what it remembers."""

    control: Array
    memory: Array | None = None


class MotorLaw(Protocol):
    """Firmware and motor of one kind of servo, by the name that a file which defines one has.

    Attributes:
        unit: Of the control.
        needs: Names that the numbers must have.
        may_have: Names of further ones, which switch on what they are about.
    """

    name: str
    unit: str
    needs: tuple[str, ...]
    may_have: tuple[str, ...]

    def drive(
        self, p: Values, goal: Array, q: Array, dq: Array, dt: float, memory: Array | None
    ) -> FirmwareControl:
        """Return the control for commanded and measured position, rad, and velocity, rad/s.

        The last call was ``dt`` s ago and returned ``memory``; at the start that is the last
        command, or None for 0.
        """

    def torque(self, p: Values, control: Array, enabled: Array | float, dq: Array) -> Array:
        """Return the motor's torque at the joint, N·m; ``enabled`` is 1 where it is powered."""


class Voltage:
    """Position loop whose output is a duty cycle of the supply voltage.

    duty = clip(error_gain kp (goal - q)), by ``max_pwm``, and before that by the firmware's
    current limit where there is one: (kt dq ± R current_limit) / vin. τ = kt V / R - kt² dq / R.
    With ``max_velocity`` the goal follows the command at that speed at most.
    """

    name = 'voltage'
    unit = 'V'
    needs: tuple[str, ...] = ('kt', 'R', 'kp', 'vin', 'error_gain', 'max_pwm')
    may_have: tuple[str, ...] = ('current_limit', 'max_velocity', 'error_gain_ratio')

    def drive(
        self, p: Values, goal: Array, q: Array, dq: Array, dt: float, memory: Array | None
    ) -> FirmwareControl:
        """Return the voltage."""
        if 'max_velocity' in p:
            last = 0.0 if memory is None else memory
            reach = p['max_velocity'] * dt
            memory = goal = within(goal, last - reach, last + reach)
        duty = (goal - q) * p['kp'] * p['error_gain']
        if 'error_gain_ratio' in p:
            duty = duty * p['error_gain_ratio']
        if 'current_limit' in p:
            middle = p['kt'] * dq / p['vin']
            span = p['R'] * p['current_limit'] / p['vin']
            duty = within(duty, middle - span, middle + span)
        duty = within(duty, np.negative(p['max_pwm']), p['max_pwm'])
        return FirmwareControl(p['vin'] * duty, memory)

    def torque(self, p: Values, control: Array, enabled: Array | float, dq: Array) -> Array:
        """Return the torque of a DC motor with back-EMF."""
        found: Array = (p['kt'] * control / p['R'] - (p['kt'] ** 2) * dq / p['R']) * enabled
        return found


class Current:
    """Position loop whose output is a phase current.

    I = clip(error_gain kp (goal - q)), by what the voltage can drive, (±vin - kt dq) / R, then by
    ``current_limit``. τ = kt I.
    """

    name = 'current'
    unit = 'A'
    needs: tuple[str, ...] = ('kt', 'R', 'kp', 'vin', 'error_gain', 'current_limit')
    may_have: tuple[str, ...] = ()

    def drive(
        self, p: Values, goal: Array, q: Array, dq: Array, dt: float, memory: Array | None
    ) -> FirmwareControl:
        """Return the current."""
        del dt
        current = (goal - q) * p['kp'] * p['error_gain']
        back = p['kt'] * dq
        current = within(current, (-p['vin'] - back) / p['R'], (p['vin'] - back) / p['R'])
        limit = p['current_limit']
        return FirmwareControl(within(current, np.negative(limit), limit), memory)

    def torque(self, p: Values, control: Array, enabled: Array | float, dq: Array) -> Array:
        """Return the torque of the current."""
        del dq
        found: Array = p['kt'] * control * enabled
        return found


class BusCurrent(Current):
    """The same where the servo regulates the current of its supply, not of the motor.

    The duty cycle that draws the current I from the supply solves
    vin duty² - kt dq duty - R |I| = 0 in the direction of I; it is at most 1.
    """

    name = 'bus_current'

    def torque(self, p: Values, control: Array, enabled: Array | float, dq: Array) -> Array:
        """Return the torque of the phase current that goes with the bus current."""
        back = p['kt'] * dq
        root = np.sqrt(back**2 + 4.0 * p['vin'] * p['R'] * np.abs(control))
        duty = within((back + np.sign(control) * root) / (2.0 * p['vin']), -1.0, 1.0)
        found: Array = p['kt'] * ((duty * p['vin'] - back) / p['R']) * enabled
        return found


class DampedCurrent:
    """PD position loop whose output is a current.

    I = clip(kp (goal - q) - damping √kp dq, ±max_amps); τ = clip(kt I, ±kt max_volts / R - kt² dq
    / R). A motor that is switched off has no current, but is still braked beyond what the voltage
    allows.
    """

    name = 'damped_current'
    unit = 'A'
    needs: tuple[str, ...] = ('kt', 'R', 'kp', 'damping', 'max_amps', 'max_volts')
    may_have: tuple[str, ...] = ()

    def drive(
        self, p: Values, goal: Array, q: Array, dq: Array, dt: float, memory: Array | None
    ) -> FirmwareControl:
        """Return the current."""
        del dt
        amps = (goal - q) * p['kp'] - p['damping'] * np.sqrt(p['kp']) * dq
        limit = p['max_amps']
        return FirmwareControl(within(amps, np.negative(limit), limit), memory)

    def torque(self, p: Values, control: Array, enabled: Array | float, dq: Array) -> Array:
        """Return the torque of the current, within what the voltage allows."""
        most = p['kt'] / p['R'] * p['max_volts']
        back = (p['kt'] ** 2) * dq / p['R']
        found: Array = within(p['kt'] * (control * enabled), -most - back, most - back)
        return found


class Torque:
    """PD position loop whose output is a torque.

    τ = clip(kp ratio (goal - q) - damping dq, ±max_torque).
    """

    name = 'torque'
    unit = 'N·m'
    needs: tuple[str, ...] = ('ratio', 'max_torque', 'kp', 'damping')
    may_have: tuple[str, ...] = ()

    def drive(
        self, p: Values, goal: Array, q: Array, dq: Array, dt: float, memory: Array | None
    ) -> FirmwareControl:
        """Return the torque."""
        del dt
        torque = (goal - q) * p['kp'] * p['ratio'] - p['damping'] * dq
        most = p['max_torque']
        return FirmwareControl(within(torque, np.negative(most), most), memory)

    def torque(self, p: Values, control: Array, enabled: Array | float, dq: Array) -> Array:
        """Return the control where the motor is on."""
        del p, dq
        found: Array = control * enabled
        return found


#: All laws by name.
_LAWS: tuple[MotorLaw, ...] = (Voltage(), Current(), BusCurrent(), DampedCurrent(), Torque())
MOTOR_LAWS: dict[str, MotorLaw] = {law.name: law for law in _LAWS}
