# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The links and joints of a URDF, each with its place in the text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ModelError, nearest
from sysid_ros.model.mjcf.text import Document, Element

Array = NDArray[np.float64]

#: Types of joints.
TYPES = ('fixed', 'revolute', 'continuous', 'prismatic', 'floating', 'planar')
#: Attributes of ``<inertia>`` by row and column.
INERTIA = {'ixx': (0, 0), 'ixy': (0, 1), 'ixz': (0, 2), 'iyy': (1, 1), 'iyz': (1, 2), 'izz': (2, 2)}


class Origin(NamedTuple):
    """An ``<origin>``: (3,) place, m, and (3, 3) rotation."""

    place: Array
    rotation: Array


class LinkInertia(NamedTuple):
    """An ``<inertial>`` as the text has it.

    Attributes:
        mass: kg.
        origin: Of its frame in the link's.
        tensor: (3, 3) about the centre of mass, in its own frame, kg·m².
    """

    mass: float
    origin: Origin
    tensor: Array


@dataclass(frozen=True, eq=False)
class UrdfJoint:
    """A joint."""

    node: Element
    name: str
    type: str
    parent: str
    child: str


class Urdf:
    """A URDF.

    Attributes:
        document: The text, and changes that are wanted in it.
        name: Of the robot.
        links: By name, in the order of the text.
        joints: By name, in the order of the text.
        root: The link that is no joint's child.
    """

    def __init__(self, text: str, where: str) -> None:
        """Read a text.

        Raises:
            ModelError: It is no URDF, or its links are no tree.
        """
        self._where = where
        self.document = Document(text)
        if not self.document.elements or self.document.elements[0].tag != 'robot':
            found = self.document.elements[0].tag if self.document.elements else 'nothing'
            raise ModelError(f'Expected <robot> at the top of {where!r}, found {found}.')
        top = self.document.elements[0]
        self.name = top.get('name') or 'robot'
        self.links = {self._named(node): node for node in top.inside('link')}
        self.joints = {self._named(node): self._joint(node) for node in top.inside('joint')}
        self.root = self._root()

    def _named(self, node: Element) -> str:
        name = node.get('name')
        if not name:
            raise ModelError(
                f'Expected a name for each <{node.tag}> in {self._where!r}, found one without.'
            )
        return name

    def _joint(self, node: Element) -> UrdfJoint:
        name, kind = self._named(node), node.get('type') or ''
        if kind not in TYPES:
            raise ModelError(
                f'Joint {name!r} in {self._where!r} is of type {kind!r}; {nearest(kind, TYPES)}.'
            )
        ends = {}
        for end in ('parent', 'child'):
            link = text_of(child(node, end), 'link')
            if link not in self.links:
                hint = nearest(link, self.links)
                raise ModelError(
                    f'The {end} {link!r} of joint {name!r} in {self._where!r} is no link; {hint}.'
                )
            ends[end] = link
        return UrdfJoint(node, name, kind, **ends)

    def _root(self) -> str:
        owners: dict[str, str] = {}
        for joint in self.joints.values():
            other = owners.setdefault(joint.child, joint.name)
            if other != joint.name:
                raise ModelError(
                    f'Expected one joint above each link of {self._where!r}, found {other!r} and '
                    f'{joint.name!r} above {joint.child!r}.'
                )
        roots = [link for link in self.links if link not in owners]
        if len(roots) != 1:
            found = ', '.join(roots) or 'a circle'
            raise ModelError(
                f'Expected one link of {self._where!r} that no joint moves, found {found}.'
            )
        return roots[0]

    def below(self, link: str) -> Iterator[UrdfJoint]:
        """Yield the joints whose parent a link is, in the order of the text."""
        return (joint for joint in self.joints.values() if joint.parent == link)

    def inertial(self, link: str) -> LinkInertia | None:
        """Return what the text says of a link's inertia; None where it says nothing."""
        node = child(self.links[link], 'inertial')
        if node is None:
            return None
        mass = self.numbers(child(node, 'mass'), 'value', (0.0,))
        tensor, inertia = np.zeros((3, 3)), child(node, 'inertia')
        for name, (row, column) in INERTIA.items():
            tensor[row, column] = tensor[column, row] = self.numbers(inertia, name, (0.0,))[0]
        return LinkInertia(float(mass[0]), self.origin(node), tensor)

    def origin(self, node: Element) -> Origin:
        """Return the ``<origin>`` in an element."""
        origin = child(node, 'origin')
        place = self.numbers(origin, 'xyz', (0.0, 0.0, 0.0))
        return Origin(place, rotation_from_rpy(self.numbers(origin, 'rpy', (0.0, 0.0, 0.0))))

    def numbers(self, node: Element | None, name: str, default: tuple[float, ...]) -> Array:
        """Return the numbers of an attribute, as many as the default has.

        Raises:
            ModelError: They are others.
        """
        text = text_of(node, name)
        if not text:
            return np.array(default)
        try:
            found = [float(part) for part in text.split()]
        except ValueError:
            found = []
        if len(found) != len(default) or not all(map(math.isfinite, found)):
            tag = '' if node is None else node.tag
            count = f'{len(default)} numbers' if len(default) > 1 else 'a number'
            raise ModelError(
                f'Expected {count} for {name} of <{tag}> in {self._where!r}, found {text!r}.'
            )
        return np.array(found)


def child(node: Element | None, tag: str) -> Element | None:
    """Return the first element of a tag directly inside of one."""
    return None if node is None else next(node.inside(tag), None)


def text_of(node: Element | None, name: str) -> str:
    """Return an attribute's text without white space around it; empty where it is absent."""
    return ((node.get(name) if node is not None else None) or '').strip()


def rotation_from_rpy(rpy: Array) -> Array:
    """Turn roll, pitch and yaw, rad, about fixed axes into a (3, 3) rotation."""
    (a, b, c), (d, e, f) = np.cos(rpy), np.sin(rpy)
    return np.array(
        [
            [c * b, c * e * d - f * a, c * e * a + f * d],
            [f * b, f * e * d + c * a, f * e * a - c * d],
            [-e, b * d, b * a],
        ]
    )


def rpy_from_rotation(rotation: Array) -> Array:
    """Turn a (3, 3) rotation into roll, pitch and yaw, rad; a roll of 0 where pitch is ±90°."""
    across = math.hypot(rotation[0, 0], rotation[1, 0])
    pitch = math.atan2(-rotation[2, 0], across)
    if across < 1e-9:  # noqa: PLR2004 (sine of an angle that rounding may have made)
        return np.array([0.0, pitch, math.atan2(-rotation[0, 1], rotation[1, 1])])
    roll = math.atan2(rotation[2, 1], rotation[2, 2])
    return np.array([roll, pitch, math.atan2(rotation[1, 0], rotation[0, 0])])
