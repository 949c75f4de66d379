# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Friction of a geared servo: how large it can be, by speed and load.

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
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.errors import ParameterError, nearest
from sysid_ros.servos.laws.coefficients import Coefficient

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Values = Mapping[str, NDArray[np.float64] | float]

_BASE = Coefficient(0.05, 0.0, 0.2)
_LOAD = Coefficient(0.05, 0.0, 0.5)
_LOAD_AT_REST = Coefficient(0.05, 0.0, 1.0)
_QUADRATIC = Coefficient(0.0, 0.0, 0.01)

#: Starts and bounds by default of all of them.
FRICTION_COEFFICIENTS: dict[str, Coefficient] = {
    'friction_base': _BASE,
    'friction_stribeck': _BASE,
    'load_friction_base': _LOAD,
    'load_friction_motor': _LOAD,
    'load_friction_external': _LOAD,
    'load_friction_stribeck': _LOAD_AT_REST,
    'load_friction_motor_stribeck': _LOAD_AT_REST,
    'load_friction_external_stribeck': _LOAD_AT_REST,
    'load_friction_motor_quad': _QUADRATIC,
    'load_friction_external_quad': _QUADRATIC,
    'dtheta_stribeck': Coefficient(0.2, 0.1, 3.0),
    'alpha': Coefficient(1.35, 1.0, 10.0),
    'friction_viscous': Coefficient(0.1, 0.0, 1.0),
}


@dataclass(frozen=True)
class FrictionLaw:
    """How large dry and viscous friction can be.

    Attributes:
        name: ``m1`` to ``m6``, or a part of them.
        title: For people.
        coulomb: Whether there is dry friction at all.
        viscous: Whether friction grows with speed.
        stribeck: Whether dry friction is larger near rest.
        load: Whether it grows with the torque that the gears pass on.
        directional: Whether load from the motor and from outside count differently.
        quadratic: Whether driving and being driven differ by squares of torques as well.
    """

    name: str
    title: str
    coulomb: bool = True
    viscous: bool = True
    stribeck: bool = False
    load: bool = False
    directional: bool = False
    quadratic: bool = False

    @property
    def coefficients(self) -> dict[str, Coefficient]:
        """Names of the coefficients in the order of a parameter file, with starts and bounds."""
        names = []
        if self.coulomb:
            names += ['friction_base']
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
        if self.viscous:
            names += ['friction_viscous']
        return {name: FRICTION_COEFFICIENTS[name] for name in names}

    def dry(
        self,
        p: Values,
        motor: NDArray[np.float64],
        external: NDArray[np.float64],
        velocity: NDArray[np.float64],
    ) -> NDArray[np.float64] | float:
        """Return the largest dry friction, N·m: MuJoCo's ``frictionloss``.

        Args:
            p: The coefficients, arrays that broadcast with the states.
            motor: Torque of the motor at the joint, N·m.
            external: Torque from outside, N·m.
            velocity: Of the joint, rad/s.
        """
        found: NDArray[np.float64] | float = p['friction_base'] if self.coulomb else 0.0
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
                more = more + _quadratic(p, motor, external)
        elif gears is not None:
            more = more + p['load_friction_stribeck'] * gears
        return found + near_rest * more

    def viscous_slope(self, p: Values) -> NDArray[np.float64] | float:
        """Return the viscous coefficient, N·m·s/rad: MuJoCo's ``damping``."""
        return p['friction_viscous'] if self.viscous else 0.0


def _quadratic(
    p: Values, motor: NDArray[np.float64], external: NDArray[np.float64]
) -> NDArray[np.float64]:
    from_motor, from_outside = np.abs(motor), np.abs(external)
    opposed = (np.sign(external) != np.sign(motor)) & (from_outside != from_motor)
    driven = p['load_friction_external_quad'] * external**2
    driving = p['load_friction_motor_quad'] * motor**2
    found: NDArray[np.float64] = np.where(from_outside < from_motor, driven, driving) * opposed
    return found


_LAWS = (
    FrictionLaw('m1', 'Coulomb (M1)'),
    FrictionLaw('m2', 'Stribeck (M2)', stribeck=True),
    FrictionLaw('m3', 'Load-dependent (M3)', load=True),
    FrictionLaw('m4', 'Stribeck load-dependent (M4)', stribeck=True, load=True),
    FrictionLaw(
        'm5',
        'Stribeck load-dependent directional (M5)',
        stribeck=True,
        load=True,
        directional=True,
    ),
    FrictionLaw(
        'm6',
        'Stribeck load-dependent directional quadratic (M6)',
        stribeck=True,
        load=True,
        directional=True,
        quadratic=True,
    ),
    FrictionLaw('viscous', 'Viscous only', coulomb=False),
    FrictionLaw('coulomb', 'Coulomb without viscous', viscous=False),
    FrictionLaw('stribeck', 'Stribeck without viscous', viscous=False, stribeck=True),
)
#: All laws by name.
FRICTION_LAWS: dict[str, FrictionLaw] = {law.name: law for law in _LAWS}
#: The six that a comparison fits, from the simplest on.
MODELS = ('m1', 'm2', 'm3', 'm4', 'm5', 'm6')


def friction_law(name: str) -> FrictionLaw:
    """Return a friction law by name.

    Raises:
        ParameterError: There is none of that name.
    """
    if name not in FRICTION_LAWS:
        hint = nearest(name, FRICTION_LAWS, len(FRICTION_LAWS))
        msg = f'There is no friction model {name!r}; {hint}.'
        raise ParameterError(msg)
    return FRICTION_LAWS[name]
