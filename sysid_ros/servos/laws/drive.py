# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What friction does to a servo under load: when it moves its load, and when its load moves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.servos.laws.friction import FrictionLaw

    Array = NDArray[np.float64]

#: Torques of the motor that are tried lie this far apart, as a part of the largest.
_GRID = 2000
#: Halvings of the interval between two of them: beyond, doubles have no more digits.
_HALVINGS = 50
#: Motor torques are looked for up to this multiple of the largest load.
_REACH = 8.0


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
