# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Friction of a geared servo: how large it can be by speed and load.

The laws M1 to M6 are those of Duclusaud and Passault, "Extended friction models for the physics
simulation of servo actuators" (2024). With motor torque τm, external torque τe, velocity v and
s = exp(-|v / vs|^α), friction is at most

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

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ParameterError, nearest
from sysid_ros.model.kinds import SERVO
from sysid_ros.servos.laws.motors import Values

Array = NDArray[np.float64]

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
    """How large dry and viscous friction can be.

    Attributes:
        name: ``m1`` to ``m6``.
        stribeck: Whether dry friction is larger near rest.
        load: Whether it grows with the torque that the gears pass on.
        directional: Whether load from the motor and from outside count differently.
        quadratic: Whether driving and being driven differ by squares of torques as well.
    """

    name: str
    stribeck: bool = False
    load: bool = False
    directional: bool = False
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
    """Return a friction law by name.

    Raises:
        ParameterError: There is none of that name.
    """
    if name not in FRICTION_LAWS:
        hint = nearest(name, FRICTION_LAWS, len(FRICTION_LAWS))
        raise ParameterError(f'There is no friction model {name!r}; {hint}.')
    return FRICTION_LAWS[name]
