# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Identified values in the text of a URDF: inertias, places of links, damping and friction."""

from __future__ import annotations

from collections.abc import Iterable

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.model.inertia import Inertial, full_inertia, rotation_from_quat
from sysid_ros.model.mjcf.attributes import join, number, set_component
from sysid_ros.model.mjcf.inertials import ATTRIBUTES
from sysid_ros.model.mjcf.text import Element
from sysid_ros.model.targets import Target
from sysid_ros.model.urdf.tree import INERTIA, Urdf, UrdfJoint, child, rpy_from_rotation

#: What URDF has a place for, by element and attribute; the coefficients of damping's higher powers
#: and what is of one axis of a planar joint it has not.
_HELD = {
    'body': frozenset({*ATTRIBUTES, 'pos', 'quat'}),
    'joint': frozenset({'damping', 'frictionloss'}),
}
#: Numbers that agree to this part of the largest are the same.
_SAME = 1e-12
#: Attributes of ``<dynamics>`` and the fields of the compiled model that hold them.
_DYNAMICS = {'damping': 'dof_damping', 'friction': 'dof_frictionloss'}


def identified_text(text: str, where: str, nominal: mujoco.MjModel, fitted: mujoco.MjModel) -> str:
    """Put what differs between two models into a URDF; all else stays as it is, byte for byte."""
    return _UrdfEditor(Urdf(text, where), nominal, fitted).write()


def not_held(targets: Iterable[Target], urdf: Urdf) -> list[str]:
    """Return the paths of the targets that a URDF has no place for."""
    return [
        target.path
        for target in targets
        if target.attribute.partition('[')[0] not in _HELD.get(target.element, ())
        or (
            target.element == 'joint'
            and (target.name not in urdf.joints or (target.index or 0) > 0)
        )
    ]


class _UrdfEditor:
    """A URDF, and two models between which it is to change."""

    def __init__(self, urdf: Urdf, nominal: mujoco.MjModel, fitted: mujoco.MjModel) -> None:
        self._urdf = urdf
        self._nominal = nominal
        self._fitted = fitted

    def write(self) -> str:
        """Return the new text."""
        for link, node in self._urdf.links.items():
            row = mujoco.mj_name2id(self._nominal, mujoco.mjtObj.mjOBJ_BODY, link)
            before = Inertial.of_body(self._nominal, row)
            after = Inertial.of_body(self._fitted, row)
            if row > 0 and not all(map(np.array_equal, before, after)):
                self._write_inertial(link, node, after)
        for joint in self._urdf.joints.values():
            self._write_origin(joint)
            self._write_dynamics(joint)
        return self._urdf.document.render()

    def _write_inertial(self, link: str, node: Element, wanted: Inertial) -> None:
        told, inertial = self._urdf.inertial(link), child(node, 'inertial')
        tensor = full_inertia(wanted.iquat, wanted.inertia)
        if inertial is None or told is None:
            made = node.add(Element('inertial'))
            made.add(Element('origin', xyz=join(wanted.ipos), rpy='0 0 0'))
            made.add(Element('mass', value=number(float(wanted.mass))))
            six = {name: number(float(tensor[place])) for name, place in INERTIA.items()}
            made.add(Element('inertia', **six))
            return
        if _differ(told.mass, float(wanted.mass)):
            _inside(inertial, 'mass').set('value', number(float(wanted.mass)))
        self._write_place(inertial, told.origin.place, wanted.ipos)
        tensor = told.origin.rotation.T @ tensor @ told.origin.rotation
        tensor[np.abs(tensor) < _SAME * np.abs(tensor).max()] = 0.0
        for name, place in INERTIA.items():
            if abs(tensor[place] - told.tensor[place]) > _SAME * np.abs(tensor).max():
                _inside(inertial, 'inertia').set(name, number(float(tensor[place])))

    def _write_origin(self, joint: UrdfJoint) -> None:
        row = mujoco.mj_name2id(self._nominal, mujoco.mjtObj.mjOBJ_BODY, joint.child)
        place, quat = self._fitted.body_pos[row], self._fitted.body_quat[row]
        if not np.array_equal(self._nominal.body_pos[row], place):
            self._write_place(joint.node, self._urdf.origin(joint.node).place, place)
        if not np.array_equal(self._nominal.body_quat[row], quat):
            angles = join(rpy_from_rotation(rotation_from_quat(quat)))
            _inside(joint.node, 'origin').set('rpy', angles)

    def _write_place(
        self, owner: Element, told: NDArray[np.float64], wanted: NDArray[np.float64]
    ) -> None:
        """Write the coordinates of an ``<origin>`` that changed."""
        for axis in range(3):
            if _differ(told[axis], wanted[axis]):
                origin = _inside(owner, 'origin')
                set_component(origin, 'xyz', axis, float(wanted[axis]), wanted, 3)

    def _write_dynamics(self, joint: UrdfJoint) -> None:
        row = mujoco.mj_name2id(self._nominal, mujoco.mjtObj.mjOBJ_JOINT, joint.name)
        if row < 0 or joint.type == 'floating':
            return
        dof = int(self._nominal.jnt_dofadr[row])
        for name, field in _DYNAMICS.items():
            value = float(getattr(self._fitted, field)[dof])
            if value != getattr(self._nominal, field)[dof]:
                _inside(joint.node, 'dynamics').set(name, number(value))


def _inside(node: Element, tag: str) -> Element:
    """Return the element of a tag in another, made where there is none."""
    return child(node, tag) or node.add(Element(tag))


def _differ(one: float, other: float) -> bool:
    return bool(abs(one - other) > _SAME * abs(other))
