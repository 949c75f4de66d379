# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Values of targets in a spec, which the compiler has to see again: read, and written to a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from sysid_ros.errors import ParameterError
from sysid_ros.model.targets.spec_attributes import spec_component

if TYPE_CHECKING:
    from sysid_ros.model.targets.target import Target

#: Attributes that MJCF gives in degrees where ``compiler/angle`` says so, of joints that turn.
_ANGLES = frozenset({'range', 'ref', 'springref'})
_TURNING = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_BALL)
#: The lists of a spec that hold all elements of a kind.
LISTS = {
    'joint': 'joints',
    'body': 'bodies',
    'geom': 'geoms',
    'site': 'sites',
    'pair': 'pairs',
    'tendon': 'tendons',
    'equality': 'equalities',
    'actuator': 'actuators',
    'sensor': 'sensors',
}


def read_spec(spec: mujoco.MjSpec, target: Target) -> float | None:
    """Return the value of a target in a spec, in its unit; None where the spec leaves it open."""
    element, attribute = target.element_and_attribute
    name, index = spec_component(element, attribute, target.index or 0)
    owner = _elements(spec, target)[0]
    value = float(np.ravel(getattr(owner, name))[index])
    return value * _unit(spec, owner, name) if np.isfinite(value) else None


def write_spec(spec: mujoco.MjSpec, target: Target, value: float) -> None:
    """Set the value of a target in a spec, which has to be compiled again.

    Args:
        spec: What is changed: a copy of the user's.
        target: Anything but gains, biases and delays that no spec has.
        value: In the target's unit.

    Raises:
        ParameterError: The spec has no such element.
    """
    element, attribute = target.element_and_attribute
    name, index = spec_component(element, attribute, target.index or 0)
    for owner in _elements(spec, target):
        written = value / _unit(spec, owner, name)
        if isinstance(getattr(owner, name), np.ndarray):
            getattr(owner, name)[index] = written
        else:
            setattr(owner, name, written)


def _elements(spec: mujoco.MjSpec, target: Target) -> list[Any]:
    element, _ = target.element_and_attribute
    if element == 'option':
        return [spec.option]
    if target.element == 'default':
        every = getattr(spec, LISTS[element])
        return [every[position] for position in target.rows]
    found = getattr(spec, element)(target.name)
    if found is None:
        msg = (
            f'Expected {element} {target.name!r} of target {target.path!r} in the spec, found none.'
        )
        raise ParameterError(msg)
    return [found]


def _unit(spec: mujoco.MjSpec, owner: Any, name: str) -> float:
    """Return what one unit in the spec is in SI units."""
    turns = isinstance(owner, mujoco.MjsJoint) and owner.type in _TURNING and name in _ANGLES
    return float(np.pi / 180) if turns and spec.compiler.degree else 1.0
