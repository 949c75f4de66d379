# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Friction laws that are others with some coefficients at nothing, or at one value."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sysid_ros.servos.laws.friction import FrictionLaw
    from sysid_ros.servos.laws.servo import Servo

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


def contains(larger: FrictionLaw, smaller: FrictionLaw) -> bool:
    """Return whether a law can be another one that is not itself."""
    return larger.name != smaller.name and all(
        getattr(larger, part) or not getattr(smaller, part) for part in _PARTS
    )


def widened(values: Mapping[str, float], servo: Servo) -> dict[str, float]:
    """Return the coefficients with which a servo is one whose law its own contains.

    Args:
        values: Coefficients of the servo with the smaller law.
        servo: The same kind with the larger law.
    """
    return {
        name: values.get(
            name,
            usual.initial if name in _FORM else values.get(_BOTH_DIRECTIONS.get(name, ''), 0.0),
        )
        for name, usual in servo.coefficients.items()
    }
