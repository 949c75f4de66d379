# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Targets in a spec, which the compiler has to see again: values, and default classes.

An ``mjSpec`` applies classes when it reads an element, and forgets which attributes the element
had of its own. So a class is changed in the text that the spec writes, the text is read again
(which loads no assets), and the elements that changed are those that follow the class, whatever
the inheritance between classes. An element that repeats its class's value counts as following it.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ParameterError, nearest
from sysid_ros.model.targets.kinds import MJCF_NAMES, spec_name
from sysid_ros.model.targets.target import Target

#: Attributes that MJCF gives in degrees where ``compiler/angle`` says so, of joints that turn.
ANGLES = frozenset({'range', 'ref', 'springref', 'zero'})
TURNING = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_BALL)
#: Elements whose attributes default classes hold.
_OF_CLASSES = ('joint', 'geom', 'site', 'pair', 'tendon', 'equality', 'actuator')
#: The lists of a spec that hold all elements of a kind.
LISTS = {
    **{element: f'{element}s' for element in (*_OF_CLASSES, 'sensor')},
    'body': 'bodies',
    'equality': 'equalities',
}
_MAIN = 'main'
#: What kp, kv and ki are in a spec: array and component.
_GAINS = {'kp': ('gainprm', 0), 'kv': ('biasprm', 2), 'ki': ('gainprm', 0)}


def spec_component(element: str, attribute: str, index: int) -> tuple[str, int]:
    """Return the array of a spec that holds a component of an attribute, and where."""
    if element == 'actuator' and attribute in _GAINS:
        return _GAINS[attribute]
    return spec_name(element, attribute), index


def read_spec(spec: mujoco.MjSpec, target: Target) -> float | None:
    """Return the value of a target in a spec, in its unit; None where the spec leaves it open."""
    element, attribute = target.element_and_attribute
    name, index = spec_component(element, attribute, target.index or 0)
    owner = _elements(spec, target)[0]
    value = float(np.ravel(getattr(owner, name))[index])
    return value * _unit(spec, owner, name) if np.isfinite(value) else None


def write_spec(spec: mujoco.MjSpec, target: Target, value: float) -> None:
    """Set the value of a target, in its unit, in a spec, which has to be compiled again.

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
        raise ParameterError(
            f'Expected {element} {target.name!r} of target {target.path!r} in the spec, found none.'
        )
    return [found]


def _unit(spec: mujoco.MjSpec, owner: Any, name: str) -> float:
    """Return what one unit in the spec is in SI units."""
    turns = isinstance(owner, mujoco.MjsJoint) and owner.type in TURNING and name in ANGLES
    return float(np.pi / 180) if turns and spec.compiler.degree else 1.0


def class_names(spec: mujoco.MjSpec) -> list[str]:
    """Return the names of all default classes of a spec."""
    root = ET.fromstring(spec.to_xml())  # noqa: S314 (written by MuJoCo from a spec in memory)
    written = [entry.get('class', _MAIN) for entry in root.iter('default')]
    return list(dict.fromkeys([_MAIN, *written]))


def followers(
    spec: mujoco.MjSpec, class_name: str, element: str, attribute: str, index: int
) -> tuple[int, ...]:
    """Find the elements that take one component of an attribute from a class.

    Returns:
        Positions in the spec's list of such elements.

    Raises:
        ParameterError: Classes hold no such attribute, or no element takes it from this one.
    """
    if element not in _OF_CLASSES:
        raise ParameterError(
            f'Default classes hold no attributes of a {element}; {nearest(element, _OF_CLASSES)}.'
        )
    name, component = spec_component(element, attribute, index)
    text = _text(spec)
    before = mujoco.MjSpec.from_string(text)
    values = np.ravel(getattr(getattr(before.find_default(class_name), element), name)).copy()
    values[component] = values[component] + 1.0 if np.isfinite(values[component]) else 1.0
    try:
        after = mujoco.MjSpec.from_string(_changed(text, class_name, element, name, values))
    except ValueError as err:
        raise ParameterError(
            f'Default classes hold no attribute {attribute!r} of {element}.'
        ) from err
    pairs = zip(getattr(before, LISTS[element]), getattr(after, LISTS[element]), strict=True)
    found = tuple(
        position
        for position, (old, new) in enumerate(pairs)
        if _component(old, name, component) != _component(new, name, component)
    )
    if not found:
        raise ParameterError(
            f'No {element} takes {attribute} from the default class {class_name!r}.'
        )
    return found


def compiled_ids(spec: mujoco.MjSpec, element: str, positions: tuple[int, ...]) -> tuple[int, ...]:
    """Return the rows that elements of a spec have in the compiled model."""
    copy = spec.copy()
    copy.compile()
    every = getattr(copy, LISTS[element])
    return tuple(int(every[position].id) for position in positions)


def _text(spec: mujoco.MjSpec) -> str:
    """Write a spec as text, in the units in which it holds its angles.

    With degrees, elements would be written in radians but classes would not (MuJoCo 4.0), and
    nothing would follow them.
    """
    copy = spec.copy()
    copy.compiler.degree = False
    return str(copy.to_xml())


def _component(owner: Any, name: str, component: int) -> float | None:
    value = float(np.ravel(getattr(owner, name))[component])
    return value if np.isfinite(value) else None


def _changed(
    text: str, class_name: str, element: str, name: str, values: NDArray[np.float64]
) -> str:
    """Return the text of a model with another value in a class."""
    root = ET.fromstring(text)  # noqa: S314 (written by MuJoCo from a spec in memory)
    holder = next((e for e in root.iter('default') if e.get('class', _MAIN) == class_name), None)
    if holder is None:  # the main class without any attributes is not written
        holder = ET.Element('default')
        root.insert(0, holder)
    kind = 'general' if element == 'actuator' else element
    tag = holder.find(kind)
    if tag is None:
        tag = ET.SubElement(holder, kind)
    tag.set(MJCF_NAMES.get(name, name), ' '.join(repr(float(value)) for value in values))
    return ET.tostring(root, encoding='unicode')
