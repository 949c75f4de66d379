# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Torque and friction of the servos of a robot, step by step: simulations × joints at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.servos.laws.servo import Servo

    Array = NDArray[np.float64]
    Places = NDArray[np.int64] | slice

#: Unit of the control of motors that draw from the supply what their duty cycle says.
_VOLTAGE = 'V'


class Group(NamedTuple):
    """Joints whose servos have the same laws, with numbers of their own.

    Attributes:
        servo: The laws.
        places: (k,) places of the joints among all driven ones.
        numbers: What the laws read, (k,) each.
    """

    servo: Servo
    places: NDArray[np.int64]
    numbers: Mapping[str, Array]


class Supply(NamedTuple):
    """A battery with its wires, which all motors that are fed with a voltage draw from.

    The more they draw, the less each is supplied with: vin - resistance I, where I is what all of
    them together drew in the step before, Σ duty τ / kt, and never below 0. A motor that brakes
    feeds the others.

    Attributes:
        resistance: Of battery and wires, Ω.
        lowest: The supply voltage does not fall below this, V.
    """

    resistance: float
    lowest: float = 0.0


class Exerted(NamedTuple):
    """What servos do in one step, (…, joints) each.

    Attributes:
        motor: Torque of the motor at the joint, N·m.
        friction: The largest dry friction, N·m.
    """

    motor: Array
    friction: Array


class Forces:
    """Servos of n simulations, or of one, whose arrays have no first dimension then.

    Attributes:
        damping: (joints,) or (n, joints) viscous friction, N·m·s/rad.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        timestep: float,
        given: Mapping[tuple[int, str], Array] | None = None,
        supply: Supply | None = None,
    ) -> None:
        """Put the numbers of all simulations side by side.

        Args:
            groups: All driven joints.
            timestep: s.
            given: Place of a joint and name of a number to its (n,) values, where simulations
                differ.
            supply: What the motors share.
        """
        self._timestep = timestep
        self._supply = supply
        self._groups = [(g.servo, consecutive(g.places), _numbers(g, given or {})) for g in groups]
        self._memory: list[Array | None] | None = None
        self._drawn: Array | None = None
        count = sum(len(group.places) for group in groups)
        rows = {v.shape[0] for _, _, p in self._groups for v in p.values() if v.ndim > 1}
        self.damping = np.zeros((*rows, count))
        for servo, places, p in self._groups:
            self.damping[..., places] = servo.friction.viscous_slope(p)

    def reset(self) -> None:
        """Forget what firmware and supply remember."""
        self._memory = self._drawn = None

    def __call__(
        self, goal: Array, enabled: Array | float, q: Array, dq: Array, external: Array
    ) -> Exerted:
        """Return what servos do in a state.

        Args:
            goal: (…, joints) commanded positions, rad.
            enabled: 1 where a motor is powered, else 0.
            q: (…, joints) positions, rad.
            dq: (…, joints) velocities, rad/s.
            external: (…, joints) torques from outside, N·m.
        """
        if self._memory is None:
            # A servo that is switched on holds the position that it is in.
            self._memory = [q[..., places].copy() for _, places, _ in self._groups]
        switched = np.broadcast_to(enabled, q.shape) if np.ndim(enabled) else enabled
        motor, friction = np.empty_like(q), np.empty_like(q)
        drawn: Array | float = 0.0
        for index, (servo, places, numbers) in enumerate(self._groups):
            law, own, speed = servo.type.law, q[..., places], dq[..., places]
            on = switched[..., places] if isinstance(switched, np.ndarray) else switched
            p = self._supplied(servo, numbers)
            control, self._memory[index] = law.drive(
                p, goal[..., places], own, speed, self._timestep, self._memory[index]
            )
            torque = law.torque(p, control, on, speed)
            motor[..., places] = torque
            friction[..., places] = servo.friction.dry(p, torque, external[..., places], speed)
            if self._supply is not None and law.unit == _VOLTAGE:
                amperes = control / p['vin'] * torque / p['kt']
                drawn = drawn + amperes.sum(axis=-1, keepdims=True)
        if self._supply is not None:
            self._drawn = np.maximum(drawn, 0.0)
        return Exerted(motor, friction)

    def _supplied(self, servo: Servo, numbers: dict[str, Array]) -> dict[str, Array]:
        """Return the numbers with the voltage that is left of the supply's."""
        if self._supply is None or self._drawn is None or servo.type.law.unit != _VOLTAGE:
            return numbers
        left = numbers['vin'] - self._supply.resistance * self._drawn
        return {**numbers, 'vin': np.maximum(left, self._supply.lowest)}


def _numbers(group: Group, given: Mapping[tuple[int, str], Array]) -> dict[str, Array]:
    """Return the numbers of a group, (k,) each or, where simulations differ, (n, k)."""
    found = {}
    for name, usual in group.numbers.items():
        columns = [given.get((int(place), name)) for place in group.places]
        rows = next((len(column) for column in columns if column is not None), None)
        found[name] = usual
        if rows is not None:
            found[name] = np.tile(usual, (rows, 1))
            for place, column in enumerate(columns):
                if column is not None:
                    found[name][:, place] = column
    return found


def consecutive(places: NDArray[np.int64]) -> Places:
    """Return places as a slice where they follow each other: that is faster."""
    if np.array_equal(places, np.arange(places[0], places[0] + len(places))):
        return slice(int(places[0]), int(places[0]) + len(places))
    return places
