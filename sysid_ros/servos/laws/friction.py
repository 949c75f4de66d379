# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Friction of a geared servo: how large it can be by speed and load, and what loads it holds.

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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.errors import ParameterError, nearest
from sysid_ros.model.targets.table import SERVO

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Values = Mapping[str, NDArray[np.float64] | float]
    Array = NDArray[np.float64]

#: SI unit of every coefficient of the motor and friction laws: those that are targets of a robot's
#: actuators, what is of the joint, and what is of a recording.
UNITS: dict[str, str] = {
    **{name: kind.component_unit(0) for name, kind in SERVO.items()},
    'armature': 'kg·m²',
    'q_offset': 'rad',
    'command_delay': 's',
    'law_step': 's',
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
#: The six that a comparison fits, from the simplest on.
MODELS = ('m1', 'm2', 'm3', 'm4', 'm5', 'm6')
_PARTS = ('coulomb', 'viscous', 'stribeck', 'load', 'directional', 'quadratic')
#: What a law without directions has for both.
_BOTH_DIRECTIONS = {
    'load_friction_motor': 'load_friction_base',
    'load_friction_external': 'load_friction_base',
    'load_friction_motor_stribeck': 'load_friction_stribeck',
    'load_friction_external_stribeck': 'load_friction_stribeck',
}
#: Where friction near rest is not larger, its form does not matter.
_FORM = ('dtheta_stribeck', 'alpha')
#: Torques of the motor that are tried lie this far apart, as a part of the largest.
_GRID = 2000
#: Halvings of the interval between two of them: beyond, doubles have no more digits.
_HALVINGS = 50
#: Motor torques are looked for up to this multiple of the largest load.
_REACH = 8.0


class Coefficient(NamedTuple):
    """Where a fit starts and how far it may go, in the coefficient's unit."""

    initial: float
    low: float
    high: float


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


def contains(larger: FrictionLaw, smaller: FrictionLaw) -> bool:
    """Return whether a law can be another one that is not itself."""
    return larger.name != smaller.name and all(
        getattr(larger, part) or not getattr(smaller, part) for part in _PARTS
    )


def widened(
    values: Mapping[str, float], coefficients: Mapping[str, Coefficient]
) -> dict[str, float]:
    """Return the coefficients with which a servo is one whose law its own contains.

    Args:
        values: Coefficients of the servo with the smaller law.
        coefficients: Those of the same kind with the larger law.
    """
    return {
        name: values.get(
            name,
            usual.initial if name in _FORM else values.get(_BOTH_DIRECTIONS.get(name, ''), 0.0),
        )
        for name, usual in coefficients.items()
    }


class DriveDiagram(NamedTuple):
    """Which torque of the motor moves a load, and below which the load moves the motor.

    Attributes:
        loads: (n,) external torques against the motor, N·m.
        velocities: (s,) at which friction is taken, rad/s.
        drive: (s, n) motor torques, N·m; NaN where none is enough.
        backdrive: (s, n) motor torques, N·m; NaN where friction alone holds the load.
    """

    loads: Array
    velocities: Array
    drive: Array
    backdrive: Array


def drive_diagram(
    law: FrictionLaw,
    values: Mapping[str, float],
    loads: Array,
    velocities: Sequence[float] = (0.0,),
) -> DriveDiagram:
    """Find the torques of the motor between which dry friction holds a load.

    A load L >= 0 pulls against the motor, which pushes with τm >= 0: the external torque is -L.
    With the largest dry friction f(τm, -L, v) of the law, the joint is driven from the least τm
    with τm - f >= L on, and backdriven up to the greatest τm with τm + f <= L. Between the two the
    joint stands still. Friction with coefficients of load near 1 may hold against any torque: those
    up to 8 times the largest load are tried.

    Args:
        law: The friction law.
        values: Its coefficients.
        loads: (n,) N·m, none below 0.
        velocities: (s,) rad/s.
    """
    speeds = np.asarray(velocities, dtype=np.float64)
    load = loads[None, :, None]
    speed = speeds[:, None, None]

    def friction(motor: Array) -> Array:
        found = law.dry(values, motor, -load, speed)
        return np.broadcast_to(found, np.broadcast_shapes(motor.shape, load.shape, speed.shape))

    def stands(motor: Array) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = motor - friction(motor) < load
        return found

    def is_backdriven(motor: Array) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = motor + friction(motor) <= load
        return found

    most = float(friction(np.zeros((1, 1, 1))).max())
    grid = np.linspace(0.0, _REACH * (float(loads.max()) + most), _GRID + 1)
    driven = ~stands(grid[None, None])
    first = np.argmax(driven, axis=-1)
    drive = _edge(grid, first - 1, stands)
    backdriven = is_backdriven(grid[None, None])
    last = _GRID - np.argmax(backdriven[..., ::-1], axis=-1)
    backdrive = _edge(grid, last, is_backdriven)
    return DriveDiagram(
        loads,
        speeds,
        np.where(driven.any(axis=-1), np.where(first == 0, 0.0, drive), np.nan),
        np.where(backdriven.any(axis=-1), backdrive, np.nan),
    )


def _edge(
    grid: Array, left: NDArray[np.int64], below: Callable[[Array], NDArray[np.bool_]]
) -> Array:
    """Return where a condition that holds at ``grid[left]`` ends before the next."""
    left = np.clip(left, 0, len(grid) - 2)
    low, high = grid[left][..., None], grid[left + 1][..., None]
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        holds = below(middle)
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return high[..., 0]


def friction_under_load(
    law: FrictionLaw, values: Mapping[str, float], loads: Array, velocities: Array
) -> Array:
    """Return how large friction is while the motor carries a load at a constant velocity.

    The motor's torque is taken to be the load's, with the opposite sign; viscous friction counts.

    Args:
        law: The friction law.
        values: Its coefficients.
        loads: N·m.
        velocities: rad/s; broadcast with the loads.
    """
    dry = law.dry(values, loads, -loads, velocities)
    shape = np.broadcast_shapes(loads.shape, velocities.shape)
    found: Array = np.broadcast_to(dry + law.viscous_slope(values) * np.abs(velocities), shape)
    return found
