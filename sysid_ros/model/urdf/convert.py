# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The MJCF that a URDF means.

MuJoCo reads URDF as well. Its own conversion joins links that are fixed to each other, so that
their inertias cannot be told apart any more and put back; it refuses a robot for one mesh that is
missing and for one inertia that is not physical; and it writes six digits. Here each link is a body
and each number is written in full. Where both read a file, they agree.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysid_ros.errors import ModelError, nearest, some
from sysid_ros.model.mjcf.attributes import join
from sysid_ros.model.mjcf.text import Element
from sysid_ros.model.urdf.packages import find_mesh
from sysid_ros.model.urdf.tree import LinkInertia, Origin, Urdf, UrdfJoint, child, text_of

#: What moves and has no mass gets this one, kg; a body without an inertia, that of a solid ball of
#: this radius, m.
_MASS, _RADIUS = 1e-3, 0.02
#: The second moments of mass of a body are at least this part of their sum; what is below zero by
#: less is rounded.
_THINNEST = 1e-9
#: The joints of a planar joint, as MuJoCo calls them: end of the name, type, axis.
_PLANAR = (('TX', 'slide', (1, 0, 0)), ('TY', 'slide', (0, 1, 0)), ('RZ', 'hinge', (0, 0, 1)))
_WORLD = 'world'


class Converted(NamedTuple):
    """The MJCF that a URDF means, and what a reader has to know, a sentence each."""

    mjcf: str
    notes: tuple[str, ...]


def convert(urdf: Urdf, near: Path, packages: Sequence[Path] = ()) -> Converted:
    """Turn a URDF into MJCF.

    Each link is a body of its name, also where it is fixed to another. The root stands still,
    unless it is called ``world`` and a floating joint moves what is below. A joint that mimics
    another is coupled with it by an equality constraint. Shapes are for the eye: they touch
    nothing, so that a model does not depend on which meshes are found. What moves and has no
    inertia gets a small one; one that no body can have becomes the nearest that one can.

    Raises:
        ModelError: A joint mimics one that is not there, or something is no number.
    """
    return _Converter(urdf, near, packages).convert()


class _Converter:
    def __init__(self, urdf: Urdf, near: Path, packages: Sequence[Path]) -> None:
        self._urdf = urdf
        self._near = near
        self._packages = packages
        self._root = ET.Element('mujoco', model=urdf.name)
        compiler = {'angle': 'radian', 'autolimits': 'true', 'inertiafromgeom': 'false'}
        ET.SubElement(self._root, 'compiler', compiler)
        # The <mujoco> element that MuJoCo's users put into a URDF.
        for extension in urdf.document.elements[0].inside('mujoco'):
            for option in extension.inside('option'):
                ET.SubElement(self._root, 'option', option.attributes)
        default = ET.SubElement(self._root, 'default')
        ET.SubElement(default, 'geom', contype='0', conaffinity='0')
        self._assets = ET.SubElement(self._root, 'asset')
        self._meshes: dict[tuple[str, str], str] = {}
        self._absent: dict[str, str] = {}
        self._massless: list[str] = []
        self._mended: list[str] = []

    def convert(self) -> Converted:
        in_world = self._urdf.root == _WORLD
        world = ET.SubElement(self._root, 'worldbody')
        if in_world:
            self._fill(world, _WORLD)
        else:
            self._body(world, self._urdf.root, None)
        self._mimics(ET.SubElement(self._root, 'equality'))
        for section in ('asset', 'worldbody', 'equality'):
            found = self._root.find(section)
            if found is not None and not len(found):
                self._root.remove(found)
        ET.indent(self._root)
        text = ET.tostring(self._root, encoding='unicode').replace(' />', '/>')
        # As all conversions so far: an empty body has a closing tag, and options no indentation.
        text = text.replace('\n  <option', '\n<option')
        text = re.sub(r'^( *)<body ([^>]*)/>$', r'\1<body \2>\n\1</body>', text, flags=re.MULTILINE)
        return Converted(text + '\n', tuple(self._notes(in_world=in_world)))

    def _body(self, around: ET.Element, link: str, joint: UrdfJoint | None) -> None:
        place = {} if joint is None else _placed(self._urdf.origin(joint.node))
        body = ET.SubElement(around, 'body', {'name': link, **place})
        self._inertial(body, link, moved=joint is not None and joint.type != 'fixed')
        if joint is not None:
            self._joints(body, joint)
        self._fill(body, link)

    def _fill(self, body: ET.Element, link: str) -> None:
        """Put the shapes of a link and the links below it into a body."""
        for collision in self._urdf.links[link].inside('collision'):
            shape = self._shape(child(collision, 'geometry'))
            if shape:
                ET.SubElement(body, 'geom', {**shape, **_placed(self._urdf.origin(collision))})
        for joint in self._urdf.below(link):
            self._body(body, joint.child, joint)

    def _inertial(self, body: ET.Element, link: str, *, moved: bool) -> None:
        found = self._urdf.inertial(link)
        nothing = found is None or found.mass == 0
        if moved and nothing and not any(self._carried(link)):
            self._massless.append(link)
            ball = {'pos': '0 0 0', 'mass': repr(_MASS), 'diaginertia': _ball(_MASS)}
            ET.SubElement(body, 'inertial', ball)
        elif found is not None and found.mass:
            ET.SubElement(body, 'inertial', self._own(link, found, moved=moved))

    def _carried(self, link: str) -> Iterator[float]:
        """Yield the masses of the links that are fixed to one."""
        for joint in self._urdf.below(link):
            if joint.type == 'fixed':
                found = self._urdf.inertial(joint.child)
                yield 0.0 if found is None else found.mass
                yield from self._carried(joint.child)

    def _own(self, link: str, found: LinkInertia, *, moved: bool) -> dict[str, str]:
        """Return the attributes of an ``<inertial>``, mended where no body can have it."""
        origin, tensor = found.origin, found.tensor
        place = {'pos': _numbers(origin.place), 'mass': repr(found.mass)}
        second = 0.5 * np.trace(tensor) * np.eye(3) - tensor
        moments, axes = np.linalg.eigh(second)
        total = float(moments.sum())
        if not tensor.any() and not moved:
            # What is fixed to another link may be a point.
            return {**place, 'diaginertia': '0 0 0'}
        if total <= 0:
            self._mended.append(link)
            return {**place, 'diaginertia': _ball(found.mass)}
        if moments[0] < -_THINNEST * total:
            self._mended.append(link)
        if moments[0] < _THINNEST * total:
            moments = np.maximum(moments, _THINNEST * total)
            second = (axes * moments) @ axes.T
            tensor = np.trace(second) * np.eye(3) - second
        if np.array_equal(tensor, np.diag(np.diag(tensor))):
            turned = _turned(origin.rotation)
            return {**place, **turned, 'diaginertia': _numbers(np.diag(tensor))}
        # MJCF has no orientation beside a full inertia.
        tensor = origin.rotation @ tensor @ origin.rotation.T
        six = tensor[(0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)]
        return {**place, 'fullinertia': _numbers(six)}

    def _joints(self, body: ET.Element, joint: UrdfJoint) -> None:
        """Add the joints of MJCF that are one of URDF."""
        numbers, node = self._urdf.numbers, joint.node
        if joint.type == 'fixed':
            return
        if joint.type == 'floating':
            ET.SubElement(body, 'freejoint', name=joint.name)
            return
        axis = numbers(child(node, 'axis'), 'xyz', (1.0, 0.0, 0.0))
        limit, dynamics = child(node, 'limit'), child(node, 'dynamics')
        given = {}
        for name, tag in (('damping', 'damping'), ('friction', 'frictionloss')):
            value = float(numbers(dynamics, name, (0.0,))[0])
            if value:
                given[tag] = repr(value)
        effort = float(numbers(limit, 'effort', (0.0,))[0])
        if effort > 0:
            given['actuatorfrcrange'] = _numbers((-effort, effort))
        if joint.type == 'planar':
            turned = np.zeros(4)
            mujoco.mju_quatZ2Vec(turned, axis)
            for end, kind, direction in _PLANAR:
                along = np.zeros(3)
                mujoco.mju_rotVecQuat(along, np.array(direction, float), turned)
                one = {'name': f'{joint.name}_{end}', 'type': kind, 'axis': _numbers(along)}
                ET.SubElement(body, 'joint', one)
            return
        kind = 'slide' if joint.type == 'prismatic' else 'hinge'
        low, high = (float(numbers(limit, end, (0.0,))[0]) for end in ('lower', 'upper'))
        if low < high and joint.type != 'continuous':
            given['range'] = _numbers((low, high))
        given = {'name': joint.name, 'type': kind, 'axis': _numbers(axis), **given}
        ET.SubElement(body, 'joint', given)

    def _mimics(self, equality: ET.Element) -> None:
        for joint in self._urdf.joints.values():
            mimic = child(joint.node, 'mimic')
            if mimic is None or joint.type == 'fixed':
                continue
            leader = text_of(mimic, 'joint')
            if leader not in self._urdf.joints:
                hint = nearest(leader, self._urdf.joints)
                raise ModelError(
                    f'Joint {joint.name!r} mimics {leader!r}, which is no joint; {hint}.'
                )
            factor = float(self._urdf.numbers(mimic, 'multiplier', (1.0,))[0])
            offset = float(self._urdf.numbers(mimic, 'offset', (0.0,))[0])
            coupled = {'joint1': joint.name, 'joint2': leader}
            polynomial = _numbers((offset, factor, 0, 0, 0))
            ET.SubElement(equality, 'joint', coupled, polycoef=polynomial)

    def _shape(self, geometry: Element | None) -> dict[str, str]:
        """Return the attributes of a geom; none where there is no such shape."""
        numbers = self._urdf.numbers
        if (box := child(geometry, 'box')) is not None:
            size = numbers(box, 'size', (0.0, 0.0, 0.0)) / 2
            return {'type': 'box', 'size': _numbers(size)} if (size > 0).all() else {}
        for tag in ('cylinder', 'capsule'):
            if (node := child(geometry, tag)) is not None:
                radius, length = (
                    float(numbers(node, name, (0.0,))[0]) for name in ('radius', 'length')
                )
                known = radius > 0 and length > 0
                return {'type': tag, 'size': _numbers((radius, length / 2))} if known else {}
        if (sphere := child(geometry, 'sphere')) is not None:
            size = numbers(sphere, 'radius', (0.0,))
            return {'type': 'sphere', 'size': _numbers(size)} if size[0] > 0 else {}
        mesh = child(geometry, 'mesh')
        uri, scale = text_of(mesh, 'filename'), numbers(mesh, 'scale', (1.0, 1.0, 1.0))
        name = self._mesh(uri, _numbers(scale)) if uri else ''
        return {'type': 'mesh', 'mesh': name} if name else {}

    def _mesh(self, uri: str, scale: str) -> str:
        """Return the name of a mesh, made where it is new; empty where its file is of no use."""
        if (uri, scale) not in self._meshes:
            found = find_mesh(uri, self._near, self._packages)
            name = ''
            if isinstance(found, str):
                self._absent[uri] = found
            else:
                name = f'{found.stem}_{len(self._assets)}'
                mesh = {'name': name, 'file': str(found), 'scale': scale, 'inertia': 'shell'}
                ET.SubElement(self._assets, 'mesh', mesh)
            self._meshes[uri, scale] = name
        return self._meshes[uri, scale]

    def _notes(self, *, in_world: bool) -> Iterator[str]:
        if not in_world:
            yield (
                f'{self._urdf.root!r} stands still; for a robot that moves as a whole, put a link '
                f"'{_WORLD}' and a floating joint above it."
            )
        if any(True for link in self._urdf.links.values() for _ in link.inside('collision')):
            yield (
                'The shapes of the URDF touch nothing here; for contacts, take the converted MJCF '
                'as the model and let its geoms collide.'
            )
        if self._absent:
            files = [f'{uri} ({reason})' for uri, reason in self._absent.items()]
            yield f'Meshes that are left out, which changes the view only: {some(files)}.'
        if self._massless:
            names = some(self._massless)
            yield f'These links move and have no mass, so each got {1e3 * _MASS:g} g: {names}.'
        if self._mended:
            names = some(self._mended)
            yield f'No body has the inertia of these links, so each got the nearest: {names}.'


def _placed(origin: Origin) -> dict[str, str]:
    """Return the attributes of a pose, without those that say nothing."""
    place = {'pos': _numbers(origin.place)} if origin.place.any() else {}
    return {**place, **_turned(origin.rotation)}


def _turned(rotation: NDArray[np.float64]) -> dict[str, str]:
    """Return a rotation as an attribute with a quaternion; none where there is no rotation."""
    if np.array_equal(rotation, np.eye(3)):
        return {}
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, rotation.ravel())
    return {'quat': _numbers(quat)}


def _ball(mass: float) -> str:
    moment = 0.4 * mass * _RADIUS**2
    return _numbers((moment, moment, moment))


def _numbers(values: ArrayLike) -> str:
    return join(np.asarray(values, dtype=np.float64) + 0.0)  # no sign of a zero
