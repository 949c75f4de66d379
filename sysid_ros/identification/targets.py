# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a parameter writes: one numeric attribute of one named MJCF element.

A target is written as a path, ``element/name/attribute`` with an optional index:
``joint/elbow/armature``, ``body/tool/mass``, ``actuator/a1/kp``, ``geom/foot/friction[0]``,
``option/gravity[2]``. Each kind of target knows its unit, the bounds that physics sets, and how to
write a compiled model. Writing the MJCF text is the business of ``sysid_ros.results.mjcf``.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from sysid_ros.errors import ParameterError, nearest
from sysid_ros.identification.target_kinds import KINDS, Kind, Role
from sysid_ros.identification.target_slots import Slot, read_field, write_field
from sysid_ros.identification.target_writer import Assignment, Writer

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    'KINDS',
    'Assignment',
    'Kind',
    'Role',
    'Slot',
    'Target',
    'Writer',
    'element_names',
    'object_id',
    'resolve',
]

_PATH = re.compile(
    r'^(?P<element>[a-z]+)/(?:(?P<name>.+)/)?(?P<attribute>[a-z_]+)(?:\[(?P<index>\d+)\])?$'
)


_OBJECTS = {
    'joint': mujoco.mjtObj.mjOBJ_JOINT,
    'body': mujoco.mjtObj.mjOBJ_BODY,
    'geom': mujoco.mjtObj.mjOBJ_GEOM,
    'actuator': mujoco.mjtObj.mjOBJ_ACTUATOR,
}


@dataclass(frozen=True)
class Target:
    """One scalar that a parameter writes.

    Attributes:
        element: Kind of MJCF element: ``joint``, ``body``, ``geom``, ``actuator``, ``option``.
        name: Name of the element; empty for ``option``.
        attribute: The attribute, as in MJCF.
        index: Component of a vector attribute; None for a scalar one.
        row: Id of the element in the compiled model.
        unit: SI unit.
    """

    element: str
    name: str
    attribute: str
    index: int | None
    row: int
    unit: str

    @property
    def kind(self) -> Kind:
        """The kind of target, from the table above."""
        return KINDS[self.element, self.attribute]

    @property
    def path(self) -> str:
        """The target as it is written in a configuration file."""
        name = f'{self.name}/' if self.name else ''
        index = '' if self.index is None else f'[{self.index}]'
        return f'{self.element}/{name}{self.attribute}{index}'

    @property
    def role(self) -> Role:
        """Where the value acts."""
        return self.kind.role

    @property
    def bounds(self) -> tuple[float, float]:
        """What physics allows."""
        return self.kind.component_bounds(self.index or 0)

    @property
    def in_model(self) -> bool:
        """Whether the value is a field of the compiled model (a delay is not)."""
        return self.role is Role.FIELD

    def slots(self, model: mujoco.MjModel) -> list[Slot]:
        """Return the numbers of a compiled model that follow the value linearly."""
        if self.kind.slots is None:
            return []
        return self.kind.slots(model, self.row, self.index or 0)

    def read(self, model: mujoco.MjModel) -> float:
        """Return the value that a model has now."""
        if self.role is not Role.FIELD:
            return float(model.actuator_delay[self.row])
        slot = self.slots(model)[0]
        return float(read_field(model, slot.field)[slot.place]) / slot.factor

    def write(self, model: mujoco.MjModel, value: float) -> None:
        """Set the value in a model. The caller runs ``mj_setConst`` once after all writes."""
        for slot in self.slots(model):
            write_field(model, slot.field, np.array([slot.place]), slot.factor * value)


def element_names(model: mujoco.MjModel, element: str) -> list[str]:
    """Return the names of all elements of one kind, in model order, the unnamed left out."""
    count = {
        'joint': model.njnt,
        'body': model.nbody,
        'geom': model.ngeom,
        'actuator': model.nactuator,  # an actuator may have several controls
    }
    names = (mujoco.mj_id2name(model, _OBJECTS[element], index) for index in range(count[element]))
    return [name for name in names if name and name != 'world']


def object_id(model: mujoco.MjModel, element: str, name: str) -> int:
    """Return the row of a named element in a compiled model; -1 where there is none."""
    return int(mujoco.mj_name2id(model, _OBJECTS[element], name))


def resolve(pattern: str, model: mujoco.MjModel) -> tuple[Target, ...]:
    """Find every target that a path or pattern names, in model order.

    Args:
        pattern: A path; its name may hold shell wildcards: ``joint/*/armature``.
        model: The compiled model.

    Raises:
        ParameterError: The path is malformed, or nothing in the model matches it.
    """
    match = _PATH.match(pattern)
    elements = sorted({element for element, _ in KINDS})
    if match is None or (match['name'] is None) != (match['element'] == 'option'):
        msg = (
            f'Expected a target such as joint/elbow/armature or option/gravity[2], got {pattern!r}.'
        )
        raise ParameterError(msg)
    element, attribute = match['element'], match['attribute']
    if element not in elements:
        msg = f'Unknown element {element!r} in target {pattern!r}; {nearest(element, elements)}.'
        raise ParameterError(msg)
    if (element, attribute) not in KINDS:
        known = [name for kind, name in KINDS if kind == element]
        hint = nearest(attribute, known, 9)
        msg = f'Unknown attribute {attribute!r} in target {pattern!r}; {hint}.'
        raise ParameterError(msg)
    kind = KINDS[element, attribute]
    index = _index(pattern, match['index'], kind)
    if element == 'option':
        return (Target(element, '', attribute, index, 0, kind.component_unit(index or 0)),)
    names = element_names(model, element)
    wanted = match['name']
    exact = [name for name in names if name == wanted]  # a name may hold brackets
    found = exact or [name for name in names if fnmatch.fnmatchcase(name, wanted)]
    if not found:
        msg = f'No {element} matches {wanted!r} in target {pattern!r}; {nearest(wanted, names)}.'
        raise ParameterError(msg)
    return tuple(_targets(pattern, element, attribute, index, kind, found, model))


def _index(pattern: str, text: str | None, kind: Kind) -> int | None:
    if text is None:
        return None if kind.size == 1 else 0
    if int(text) >= kind.size:
        msg = f'Target {pattern!r} has index {text}, expected 0 to {kind.size - 1}.'
        raise ParameterError(msg)
    return None if kind.size == 1 else int(text)


def _targets(
    pattern: str,
    element: str,
    attribute: str,
    index: int | None,
    kind: Kind,
    names: list[str],
    model: mujoco.MjModel,
) -> Iterable[Target]:
    refused: list[str] = []
    some = False
    for name in names:
        row = object_id(model, element, name)
        complaint = kind.needs(model, row, index or 0) if kind.needs else None
        if complaint:
            refused.append(f'{element} {name!r} is not {complaint}')
            continue
        some = True
        slide = element == 'joint' and model.jnt_type[row] == mujoco.mjtJoint.mjJNT_SLIDE
        unit = kind.component_unit(index or 0, slide=slide)
        yield Target(element, name, attribute, index, row, unit)
    if not some:
        msg = f'Target {pattern!r} cannot be used: {refused[0]}.'
        raise ParameterError(msg)
