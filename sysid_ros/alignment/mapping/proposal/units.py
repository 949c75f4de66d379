# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Units that drivers write, and how surprising each is."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Encoders have 2^n counts per turn, for these n.
_BITS = range(8, 25)


class Unit(NamedTuple):
    """A unit: its name, SI units per unit, and its cost: minus the logarithm of its odds."""

    name: str
    factor: float
    cost: float


_TICKS = tuple(Unit(f'counts of 2^{bits} per turn', 2 * math.pi / 2**bits, 3.5) for bits in _BITS)
_ANGLE = (
    Unit('rad', 1.0, 0.0),
    Unit('degrees', math.pi / 180, 3.0),
    Unit('revolutions', 2 * math.pi, 4.0),
)
_RATE = (
    Unit('rad/s', 1.0, 0.0),
    Unit('degrees/s', math.pi / 180, 3.0),
    Unit('revolutions/s', 2 * math.pi, 4.0),
    Unit('rpm', 2 * math.pi / 60, 3.5),
)
_LENGTH = (Unit('m', 1.0, 0.0), Unit('mm', 1e-3, 3.0), Unit('cm', 1e-2, 4.0))
_SPEED = tuple(Unit(f'{unit.name}/s', unit.factor, unit.cost) for unit in _LENGTH)
#: Of torques and forces alike.
_EFFORT = (Unit('N·m', 1.0, 0.0), Unit('mN·m', 1e-3, 4.0))
#: What a gear adds to a unit's cost.
GEAR_COST = 5.0
#: Gear ratios within this of a whole number are taken to be that.
_WHOLE = 0.02
_SMALLEST_GEAR = 1.5


@functools.cache
def units(kind: str, *, hinge: bool, whole: bool) -> tuple[Unit, ...]:
    """Return the units of position, velocity or effort.

    Args:
        kind: Which.
        hinge: Of a hinge, not of a slide.
        whole: Whether all values are whole numbers, as counts of an encoder are.
    """
    if kind == 'effort':
        return _EFFORT
    if not hinge:
        return _LENGTH if kind == 'position' else _SPEED
    if kind == 'position':
        return _ANGLE + (_TICKS if whole else ())
    counts = tuple(Unit(f'{unit.name} and second', unit.factor, unit.cost) for unit in _TICKS)
    return _RATE + (counts if whole else ())


def nearest_unit(factor: float, choices: Sequence[Unit], tolerance: float) -> Unit | None:
    """Return the least surprising unit whose factor agrees within a relative tolerance."""
    if not factor > 0:
        return None
    fitting = [unit for unit in choices if abs(math.log(unit.factor / factor)) < tolerance]
    return min(
        fitting,
        key=lambda unit: unit.cost + (math.log(unit.factor / factor) / tolerance) ** 2,
        default=None,
    )


def geared(unit: Unit, factor: float) -> Unit | None:
    """Express a factor as a unit behind a gear, or None where there is no gear to speak of."""
    if not factor > 0:
        return None
    ratio = unit.factor / factor
    up = ratio if ratio >= 1 else 1 / ratio
    if up < _SMALLEST_GEAR:
        return None
    if abs(up / round(up) - 1) < _WHOLE:
        up = float(round(up))
    ratio = up if ratio >= 1 else 1 / up
    return Unit(
        f'{unit.name} at a gear ratio of {ratio:.4g}', unit.factor / ratio, unit.cost + GEAR_COST
    )
