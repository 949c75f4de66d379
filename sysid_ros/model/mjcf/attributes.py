# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Attributes in the text: numbers and their components, and orientations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysid_ros.model.mjcf.text import Element
from sysid_ros.model.targets.kinds import MJCF_NAMES, spec_name
from sysid_ros.model.targets.spec import ANGLES, TURNING

#: How MJCF spells an orientation.
ORIENTATIONS = ('quat', 'axisangle', 'xyaxes', 'zaxis', 'euler')


def set_orientation(element: Element, quat: ArrayLike) -> None:
    """Write an orientation as a quaternion, in the place of any other spelling."""
    found = [name for name in ORIENTATIONS if element.get(name) is not None]
    if 'quat' in found or not found:
        set_vector(element, 'quat', np.asarray(quat, float))
    else:
        element.rename(found[0], 'quat', join(np.asarray(quat, float)))


_NUMBER = re.compile(r'\S+')


def number(value: float) -> str:
    """Write a number with the fewest digits that read back as the same double."""
    return repr(float(value)).removesuffix('.0')


def join(values: Iterable[float]) -> str:
    """Write several numbers."""
    return ' '.join(number(value) for value in values)


def numbers_of(element: Element, name: str) -> list[float]:
    """Read the numbers of an attribute; none where it is absent or says something else."""
    try:
        return [float(entry) for entry in (element.get(name) or '').split()]
    except ValueError:
        return []


def set_scalar(element: Element, name: str, value: float) -> None:
    """Write a number, unless the text says the same number already."""
    text = element.get(name)
    if text is None or not _same(text, value):
        element.set(name, number(value))


def set_vector(element: Element, name: str, values: Iterable[float]) -> None:
    """Write all components of an attribute, unless the text says the same numbers already."""
    wanted = [float(value) for value in values]
    for index in range(len(wanted)):
        set_component(element, name, index, wanted[index], wanted, len(wanted))


def set_component(
    element: Element,
    name: str,
    index: int,
    value: float,
    nominal: Iterable[float],
    least: int = 1,
) -> None:
    """Write one component of a vector attribute and leave the others' text.

    Args:
        element: The element.
        name: The attribute.
        index: The component.
        value: Its value.
        nominal: The whole vector, for components that the text leaves to defaults.
        least: The attribute needs at least so many components.
    """
    vector = [float(entry) for entry in nominal]
    text = element.get(name)
    if text is None:
        used = [place for place, entry in enumerate(vector) if entry != 0]
        vector[index] = value
        count = max(index + 1, least, *(place + 1 for place in used))
        element.set(name, join(vector[:count]))
        return
    numbers = list(_NUMBER.finditer(text))
    if index < len(numbers):
        match = numbers[index]
        if not _same(match[0], value):
            element.set(name, text[: match.start()] + number(value) + text[match.end() :])
        return
    added = [*vector[len(numbers) : index], value]
    element.set(name, f'{text.rstrip()} {join(added)}'.lstrip())


def _same(text: str, value: float) -> bool:
    try:
        return float(text) == value
    except ValueError:
        return False


#: Vectors of which the text may give the first components only; the others are zero.
_OPEN = frozenset({'damping', 'stiffness', 'gear', 'size', 'gainprm', 'biasprm', 'dynprm'})
#: Where the data of an equality of two bodies has the torque scale of a weld.
_TORQUESCALE = 10
_ANCHOR = 3
_POLYNOMIAL = 5


class AttributePlace(NamedTuple):
    """Where the text of an element has a number.

    Attributes:
        name: The attribute.
        index: Its component; None where it is a single number.
        vector: All components as they are, in the unit of the text, for those that it leaves to
            defaults.
        unit: What one unit of the text is in SI units.
    """

    name: str
    index: int | None  # type: ignore[assignment]  # hides tuple.index
    vector: NDArray[np.float64]
    unit: float = 1.0

    def write(self, element: Element, value: float) -> None:
        """Write the number, given in SI units."""
        written = value / self.unit
        if self.index is None:
            set_scalar(element, self.name, written)
        else:
            least = 1 if self.name in _OPEN else len(self.vector)
            set_component(element, self.name, self.index, written, self.vector, least)


def attribute_place(
    owner: Any, element: str, attribute: str, index: int, *, degrees: bool
) -> AttributePlace:
    """Find where the text has a component of an attribute.

    ``owner`` is the element of the spec, or of a class; ``degrees`` says whether the text has the
    attribute in degrees if it is an angle.
    """
    if element == 'equality' and attribute == 'data':
        if owner.type in (mujoco.mjtEq.mjEQ_JOINT, mujoco.mjtEq.mjEQ_TENDON):
            return AttributePlace('polycoef', index, np.array(owner.data[:_POLYNOMIAL]))
        if index == _TORQUESCALE:
            return AttributePlace('torquescale', None, np.array(owner.data[index : index + 1]))
        return AttributePlace('anchor', index, np.array(owner.data[:_ANCHOR]))
    spelled = spec_name(element, attribute)
    values = getattr(owner, spelled)
    name = MJCF_NAMES.get(spelled, spelled)
    unit = float(np.pi / 180) if degrees and attribute in ANGLES else 1.0
    if isinstance(values, np.ndarray):
        return AttributePlace(name, index, np.array(values, dtype=np.float64), unit)
    return AttributePlace(name, None, np.array([values], dtype=np.float64), unit)


def turns(model: mujoco.MjModel, joint: int) -> bool:
    """Whether a joint's position is an angle."""
    return any(model.jnt_type[joint] == kind for kind in TURNING)
