# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Identified values in the text of a URDF: inertias, places of links, damping and friction."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ModelError
from sysid_ros.model.inertia import Inertial, full_inertia, rotation_from_quat
from sysid_ros.model.mjcf.edits import INERTIAL
from sysid_ros.model.mjcf.text import (
    Document,
    Element,
    join,
    number,
    numbers_of,
    set_component,
)
from sysid_ros.model.targets import Target
from sysid_ros.model.urdf.convert import convert

Array = NDArray[np.float64]

#: Attributes of ``<inertia>`` by row and column.
_INERTIA = {
    'ixx': (0, 0),
    'ixy': (0, 1),
    'ixz': (0, 2),
    'iyy': (1, 1),
    'iyz': (1, 2),
    'izz': (2, 2),
}
#: Attributes of ``<dynamics>`` and the fields of the compiled model that hold them.
_DYNAMICS = {'damping': 'dof_damping', 'friction': 'dof_frictionloss'}
#: What URDF has a place for, by element and attribute; the coefficients of damping's higher powers
#: and what is of one axis of a planar joint it has not.
_HELD = {
    'body': frozenset({*INERTIAL, 'pos', 'quat'}),
    'joint': frozenset({'damping', 'frictionloss'}),
}
#: Numbers that agree to this part of the largest are the same.
_SAME = 1e-12
#: What is written must be read as the identified model this closely, relative to the largest.
_TOLERANCE = 1e-9


class Urdf:
    """The elements of a URDF by name, with the changes that are wanted in its text.

    Attributes:
        document: The text.
        links: Elements of links.
        joints: Elements of joints.
    """

    def __init__(self, text: str) -> None:
        """Locate the elements of a text that MuJoCo has read."""
        self.document = Document(text)
        top = self.document.elements[0]
        self.links = {node.get('name') or '': node for node in top.inside('link')}
        self.joints = {node.get('name') or '': node for node in top.inside('joint')}


def write_urdf(text: str, path: Path, nominal: mujoco.MjModel, fitted: mujoco.MjModel) -> str:
    """Put what differs between two models into a URDF; all else stays as it is, byte for byte.

    Args:
        text: The URDF.
        path: Its file, for messages and meshes.
        nominal: The model that it means.
        fitted: The model that the new text is to mean, as far as a URDF holds it.

    Raises:
        ModelError: The new text would mean something else.
    """
    urdf = Urdf(text)
    for name, link in urdf.links.items():
        row = mujoco.mj_name2id(nominal, mujoco.mjtObj.mjOBJ_BODY, name)
        wanted = Inertial.of_body(fitted, row)
        if row > 0 and not all(map(np.array_equal, Inertial.of_body(nominal, row), wanted)):
            _write_inertial(link, wanted)
    for name, joint in urdf.joints.items():
        child = _inside(joint, 'child').get('link') or ''
        body = mujoco.mj_name2id(nominal, mujoco.mjtObj.mjOBJ_BODY, child)
        if body > 0:
            _write_origin(joint, nominal, fitted, body)
        row = mujoco.mj_name2id(nominal, mujoco.mjtObj.mjOBJ_JOINT, name)
        if row < 0 or joint.get('type') == 'floating':
            continue
        dof = int(nominal.jnt_dofadr[row])
        for attribute, field in _DYNAMICS.items():
            value = float(getattr(fitted, field)[dof])
            if value != getattr(nominal, field)[dof]:
                _inside(joint, 'dynamics').set(attribute, number(value))
    made = urdf.document.render()
    _check_meaning(made, path, fitted)
    return made


def not_held(targets: Iterable[Target], urdf: Urdf) -> list[str]:
    """Return the paths of the targets that a URDF has no place for."""
    return [
        target.path
        for target in targets
        if target.attribute not in _HELD.get(target.element, ())
        or target.name not in (urdf.joints if target.element == 'joint' else urdf.links)
        or (target.element == 'joint' and (target.index or 0) > 0)
    ]


def _write_inertial(link: Element, wanted: Inertial) -> None:
    inertial = _inside(link, 'inertial')
    origin = _inside(inertial, 'origin')
    for axis in range(3):
        _write_number(origin, 'xyz', axis, float(wanted.ipos[axis]), wanted.ipos)
    _write_number(_inside(inertial, 'mass'), 'value', 0, float(wanted.mass), (0.0,))
    turned = rotation_from_rpy(np.resize(numbers_of(origin, 'rpy') or [0.0], 3))
    tensor = turned.T @ full_inertia(wanted.iquat, wanted.inertia) @ turned
    largest = np.abs(tensor).max()
    tensor[np.abs(tensor) < _SAME * largest] = 0.0
    for name, place in _INERTIA.items():
        value = float(tensor[place])
        told = numbers_of(_inside(inertial, 'inertia'), name)
        if not told or abs(told[0] - value) > _SAME * largest:
            _inside(inertial, 'inertia').set(name, number(value))


def _write_origin(
    joint: Element, nominal: mujoco.MjModel, fitted: mujoco.MjModel, body: int
) -> None:
    place, quat = fitted.body_pos[body], fitted.body_quat[body]
    if not np.array_equal(nominal.body_pos[body], place):
        for axis in range(3):
            _write_number(_inside(joint, 'origin'), 'xyz', axis, float(place[axis]), place)
    if not np.array_equal(nominal.body_quat[body], quat):
        angles = rpy_from_rotation(rotation_from_quat(quat))
        _inside(joint, 'origin').set('rpy', join(angles))


def _write_number(
    node: Element, name: str, place: int, value: float, vector: Iterable[float]
) -> None:
    """Write a component of an attribute unless the text has it but for rounding."""
    told = numbers_of(node, name)
    if place >= len(told) or abs(told[place] - value) > _SAME * abs(value):
        set_component(node, name, place, value, vector, 3 if name == 'xyz' else 1)


def _inside(node: Element, tag: str) -> Element:
    """Return the element of a tag in another, made where there is none."""
    return next(node.inside(tag), None) or node.add(Element(tag))


def _check_meaning(text: str, path: Path, fitted: mujoco.MjModel) -> None:
    """Check that an identified URDF means the identified inertias, places and friction."""
    written = mujoco.MjSpec.from_string(convert(text, path).mjcf).compile()
    for field, one, other in zip(
        ('mass', 'ipos', 'pos', 'damping', 'frictionloss', 'orientation', 'inertia'),
        _numbers(written),
        _numbers(fitted),
        strict=True,
    ):
        if not np.allclose(one, other, rtol=_TOLERANCE, atol=_TOLERANCE * np.abs(other).max()):
            raise ModelError(
                f'Cannot write {str(path)!r} back: expected the new URDF to mean the identified '
                f'model, found differences in {field}.'
            )


def _numbers(model: mujoco.MjModel) -> tuple[Array, ...]:
    """Return what a URDF holds of a model; of a rotation, which has two quaternions, the matrix."""
    return (
        model.body_mass,
        model.body_ipos,
        model.body_pos,
        model.dof_damping,
        model.dof_frictionloss,
        rotation_from_quat(model.body_quat),
        full_inertia(model.body_iquat, model.body_inertia),
    )


def rotation_from_rpy(rpy: Array) -> Array:
    """Turn roll, pitch and yaw, rad, about fixed axes into a (3, 3) rotation."""
    turned, matrix = np.empty(4), np.empty(9)
    mujoco.mju_euler2Quat(turned, np.asarray(rpy, float), 'XYZ')
    mujoco.mju_quat2Mat(matrix, turned)
    return matrix.reshape(3, 3)


def rpy_from_rotation(rotation: Array) -> Array:
    """Turn a (3, 3) rotation into roll, pitch and yaw, rad; a roll of 0 where pitch is ±90°."""
    across = math.hypot(rotation[0, 0], rotation[1, 0])
    pitch = math.atan2(-rotation[2, 0], across)
    if across < 1e-9:  # noqa: PLR2004 (sine of an angle that rounding may have made)
        return np.array([0.0, pitch, math.atan2(-rotation[0, 1], rotation[1, 1])])
    roll = math.atan2(rotation[2, 1], rotation[2, 2])
    return np.array([roll, pitch, math.atan2(rotation[1, 0], rotation[0, 0])])
