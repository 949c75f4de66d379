# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Identified values in the text of a URDF."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ModelError, nearest
from sysid_ros.model.description import Description, convert
from sysid_ros.model.elements import ROUNDING, SAME, SCALAR_JOINTS
from sysid_ros.model.inertia import (
    Inertial,
    full_inertia,
    pi_from_inertial,
    principal_axes,
    pseudoinertia_from_pi,
    rotation_from_quat,
)
from sysid_ros.model.kinds import INERTIAL
from sysid_ros.model.loading import compile_spec
from sysid_ros.model.targets import Target
from sysid_ros.model.xml_text import Document, Element, join, number, numbers_of, set_component

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
#: Frames and axes of a URDF and of a model are the same up to this, m and rad, and numbers that
#: nobody identified up to this part: a text of six digits has angles to 4e-6 rad, which a metre
#: away is less than this.
_SAME_TEXT = 1e-4


class Urdf:
    """The elements of a URDF by name, with the changes that are wanted in its text."""

    def __init__(self, text: str) -> None:
        self.document = Document(text)
        top = self.document.elements[0]
        self.links = {node.get('name') or '': node for node in top.inside('link')}
        self.joints = {node.get('name') or '': node for node in top.inside('joint')}


def write_urdf(text: str, path: Path, nominal: mujoco.MjModel, fitted: mujoco.MjModel) -> str:
    """Put what differs between two models into a URDF; all else stays as it is, byte for byte.

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
        place, quat = fitted.body_pos[body], fitted.body_quat[body]
        if body > 0 and not np.array_equal(nominal.body_pos[body], place):
            for axis in range(3):
                _write_number(_inside(joint, 'origin'), 'xyz', axis, float(place[axis]), place)
        if body > 0 and not np.array_equal(nominal.body_quat[body], quat):
            angles = rpy_from_rotation(rotation_from_quat(quat))
            _inside(joint, 'origin').set('rpy', join(angles))
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


def _bodies(model: mujoco.MjModel) -> dict[str, int]:
    return {model.body(row).name: row for row in range(1, model.nbody)}


def _moving(model: mujoco.MjModel) -> dict[str, int]:
    return {model.joint(r).name: r for r in range(model.njnt) if model.jnt_type[r] in SCALAR_JOINTS}


def carried_over(
    before: mujoco.MjModel, after: mujoco.MjModel, described: Description
) -> tuple[mujoco.MjModel, mujoco.MjModel]:
    """Return what a URDF of the same robot means, and that with the identified numbers.

    Inertias, damping and friction that nobody identified are carried over as well where they
    differ, as what was identified goes with them. A link whose fixed links are no bodies of the
    model is one body with them there: it gets what is left when theirs is taken away.

    Raises:
        ModelError: It is of another robot, or fixed links have more than the body that they are in.
    """
    # What is in the text of the URDF; sensors and actuators are of no interest.
    spec = mujoco.MjSpec.from_string(described.mjcf or '')
    nominal, fitted = (compile_spec(spec, described.path) for _ in range(2))
    path = str(described.path)
    _check_same_robot(before, nominal, path)
    links = _bodies(nominal)
    for name, body in _bodies(after).items():
        if name in links:
            _carry_inertia((before, after), nominal, fitted, name, path)
            # Places are relative to the parent, which may be another one.
            parents = (after.body_parentid[body], nominal.body_parentid[links[name]])
            if after.body(parents[0]).name == nominal.body(parents[1]).name:
                for field in ('body_pos', 'body_quat'):
                    value = getattr(after, field)[body]
                    if not np.array_equal(getattr(before, field)[body], value):
                        getattr(fitted, field)[links[name]] = value
    for name, joint in _moving(after).items():
        ours, theirs = after.jnt_dofadr[joint], nominal.jnt_dofadr[_moving(nominal)[name]]
        for field in ('dof_damping', 'dof_frictionloss'):
            value, told = getattr(after, field)[ours], getattr(nominal, field)[theirs]
            identified = value != getattr(before, field)[ours]
            if identified or not np.isclose(value, told, rtol=_SAME_TEXT, atol=0):
                getattr(fitted, field)[theirs] = value
    return nominal, fitted


def _carry_inertia(
    models: tuple[mujoco.MjModel, mujoco.MjModel],
    nominal: mujoco.MjModel,
    fitted: mujoco.MjModel,
    name: str,
    path: str,
) -> None:
    """Carry the inertia of a body over to the link of its name."""
    link, body = nominal.body(name).id, models[1].body(name).id
    before, after = (Inertial.of_body(model, body) for model in models)
    wanted = pseudoinertia_from_pi(pi_from_inertial(*after))
    merged = dict(_merged(models[1], nominal, link))
    for row, relative in merged.items():
        moments = pseudoinertia_from_pi(pi_from_inertial(*Inertial.of_body(nominal, row)))
        wanted = wanted - relative @ moments @ relative.T
    told = pseudoinertia_from_pi(pi_from_inertial(*Inertial.of_body(nominal, link)))
    same = np.allclose(wanted, told, atol=_SAME_TEXT * np.abs(told).max())
    if same and all(map(np.array_equal, before, after)):
        return
    mass = float(wanted[3, 3])
    place = wanted[:3, 3] / (mass or 1.0)
    second = wanted[:3, :3] - mass * np.outer(place, place)
    if mass <= 0 or np.linalg.eigvalsh(second)[0] < -SAME * np.trace(second):
        others = [nominal.body(row).name for row in merged]
        raise ModelError(
            f'Link {name!r} of {path!r} cannot have what was identified for the body, as the links '
            f'fixed to it ({", ".join(others)}) have more of it; expected a model in which these '
            'are bodies of their own.'
        )
    inertia, iquat = principal_axes(float(np.trace(second)) * np.eye(3) - second)
    fitted.body_mass[link], fitted.body_ipos[link] = mass, place
    fitted.body_iquat[link], fitted.body_inertia[link] = iquat, inertia


def _merged(model: mujoco.MjModel, urdf: mujoco.MjModel, link: int) -> Iterator[tuple[int, Array]]:
    """Yield the links fixed to one that are no bodies of a model, each with its (4, 4) pose."""
    data = mujoco.MjData(urdf)
    mujoco.mj_kinematics(urdf, data)
    inverse = np.linalg.inv(_pose(data, urdf.body(link).name))
    around = {link}
    for row in range(link + 1, urdf.nbody):
        name, fixed = urdf.body(row).name, not urdf.body_jntnum[row]
        if fixed and urdf.body_parentid[row] in around and name not in _bodies(model):
            around.add(row)
            if urdf.body_mass[row] > 0:
                yield row, inverse @ _pose(data, name)


def _pose(data: mujoco.MjData, name: str) -> Array:
    """Return the (4, 4) pose of a body in the world."""
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = data.body(name).xmat.reshape(3, 3), data.body(name).xpos
    return pose


def _check_same_robot(model: mujoco.MjModel, urdf: mujoco.MjModel, path: str) -> None:
    """Check that bodies and joints are those of a URDF and move alike, wherever it stands."""
    heavy = {name: row for name, row in _bodies(model).items() if model.body_mass[row] > 0}
    for what, needed, known in (
        (f'a link of {path!r} for each body of the model', heavy, _bodies(urdf)),
        (f'a joint of {path!r} for each joint of the model', _moving(model), _moving(urdf)),
        (f'a joint of the model for each that moves in {path!r}', _moving(urdf), _moving(model)),
    ):
        for name in needed:
            if name not in known:
                hint = nearest(name, known)
                raise ModelError(f'Expected {what}, found none for {name!r}; {hint}.')
    ours, theirs = mujoco.MjData(model), mujoco.MjData(urdf)
    shared = [name for name in _bodies(model) if name in _bodies(urdf)]
    rng = np.random.default_rng(0)
    base = np.eye(4)
    for turn in (0.0, 0.5):  # as they are drawn, and turned somehow
        for name, row in _moving(model).items():
            position = turn * rng.uniform(-1, 1)
            ours.qpos[model.jnt_qposadr[row]] = position
            theirs.qpos[urdf.jnt_qposadr[_moving(urdf)[name]]] = position
        mujoco.mj_kinematics(model, ours)
        mujoco.mj_kinematics(urdf, theirs)
        if not turn and shared:
            base = _pose(ours, shared[0]) @ np.linalg.inv(_pose(theirs, shared[0]))
        for name in shared:
            off = _pose(ours, name) - base @ _pose(theirs, name)
            if np.abs(off).max() > _SAME_TEXT:
                raise ModelError(
                    f'Expected link {name!r} of {path!r} where the model has its body, found it '
                    f'{1e3 * float(np.linalg.norm(off[:3, 3])):.3g} mm away or turned: inertias '
                    'cannot be put back into another frame.'
                )


def _write_inertial(link: Element, wanted: Inertial) -> None:
    inertial = _inside(link, 'inertial')
    origin = _inside(inertial, 'origin')
    for axis in range(3):
        _write_number(origin, 'xyz', axis, float(wanted.ipos[axis]), wanted.ipos)
    _write_number(_inside(inertial, 'mass'), 'value', 0, float(wanted.mass), (0.0,))
    turned = rotation_from_rpy(np.resize(numbers_of(origin, 'rpy') or [0.0], 3))
    tensor = turned.T @ full_inertia(wanted.iquat, wanted.inertia) @ turned
    largest = np.abs(tensor).max()
    tensor[np.abs(tensor) < ROUNDING * largest] = 0.0
    for name, place in _INERTIA.items():
        value = float(tensor[place])
        told = numbers_of(_inside(inertial, 'inertia'), name)
        if not told or abs(told[0] - value) > ROUNDING * largest:
            _inside(inertial, 'inertia').set(name, number(value))


def _write_number(
    node: Element, name: str, place: int, value: float, vector: Iterable[float]
) -> None:
    """Write a component of an attribute unless the text has it but for rounding."""
    told = numbers_of(node, name)
    if place >= len(told) or abs(told[place] - value) > ROUNDING * abs(value):
        set_component(node, name, place, value, vector, 3 if name == 'xyz' else 1)


def _inside(node: Element, tag: str) -> Element:
    """Return the element of a tag in another, made where there is none."""
    return next(node.inside(tag), None) or node.add(Element(tag))


def _check_meaning(text: str, path: Path, fitted: mujoco.MjModel) -> None:
    """Check that an identified URDF means the identified inertias, places and friction."""
    written = mujoco.MjSpec.from_string(convert(text, path).mjcf or '').compile()
    for field, one, other in zip(
        ('mass', 'ipos', 'pos', 'damping', 'frictionloss', 'orientation', 'inertia'),
        _numbers(written),
        _numbers(fitted),
        strict=True,
    ):
        if not np.allclose(one, other, rtol=SAME, atol=SAME * np.abs(other).max()):
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
