# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""An identified model in the URDF of the same robot, whose links may be fixed to each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ModelError, nearest, some
from sysid_ros.export.stored import Stored
from sysid_ros.model.description import Description, read_description
from sysid_ros.model.inertia import (
    Inertial,
    pi_from_inertial,
    principal_axes,
    pseudoinertia_from_pi,
)
from sysid_ros.model.joints import SCALAR_JOINTS
from sysid_ros.model.loading import compile_spec
from sysid_ros.model.urdf.write import Urdf, not_held, write_urdf

Array = NDArray[np.float64]

#: Frames and axes of a URDF and of a model are the same up to this, m and rad: a text of six digits
#: has angles to 4e-6 rad, which a metre away is less than this.
_SAME_FRAME = 1e-4
#: Numbers of a URDF and of a model that nobody identified are the same up to this part.
_SAME_NUMBER = 1e-4
#: A second moment of mass that is negative by less than this part of their sum is rounded.
_ROUNDING = 1e-9


def urdf_text(
    stored: Stored, urdf: Path | None, packages: Sequence[Path]
) -> tuple[str, set[str], list[str]]:
    """Return a URDF that means the identified model, as far as a URDF can.

    Args:
        stored: The result.
        urdf: The URDF to write into; the model itself unless given. Its links and joints have the
            names of the model's bodies and joints.
        packages: Folders of packages that it refers to.

    Returns:
        The text, the paths of the identified targets that it does not hold, and what to know of it.

    Raises:
        ModelError: There is no URDF, or it is not one of the same robot, or no link of it can have
            what was identified.
    """
    described = stored.robot.description if urdf is None else read_description(urdf, packages)
    if described.urdf is None:
        path = str(described.path)
        raise ModelError(
            f'The model {path!r} is no URDF; expected --urdf FILE, with one whose links and joints '
            'have the names of its bodies and joints.'
            if urdf is None
            else f'Expected a URDF as --urdf, found {path!r}, which is none.'
        )
    nominal, fitted = stored.nominal, stored.fitted
    if urdf is not None:
        nominal, fitted = _carried_over(stored, described)
    text = write_urdf(described.urdf, described.path, nominal, fitted)
    tree = Urdf(text)
    lost = {*not_held([t for t, _ in stored.values], tree), *_not_moved(stored, fitted)}
    return text, lost, list(_notes(described, tree))


def _notes(described: Description, urdf: Urdf) -> Iterator[str]:
    yield 'A URDF has no place for actuators, armatures, springs and tendons of a model.'
    if described.path.suffix != '.urdf':
        yield f'The URDF is that of {str(described.path)!r}, as it was read.'
    meshes = (node.get('filename') for node in urdf.document.elements if node.tag == 'mesh')
    beside = [name for name in meshes if name and '://' not in name and not name.startswith('/')]
    if beside:
        yield (
            f'Meshes are named by their place beside {described.path.name!r} ({some(beside)}): put '
            'the file there.'
        )


def _not_moved(stored: Stored, written: mujoco.MjModel) -> Iterator[str]:
    """Yield identified places of bodies that the URDF did not take."""
    for target, _ in stored.values:
        if target.element == 'body' and target.attribute in {'pos', 'quat'}:
            row = _bodies(written).get(target.name, -1)
            if row < 0 or not all(
                np.allclose(getattr(written, field)[row], getattr(stored.fitted, field)[target.row])
                for field in ('body_pos', 'body_quat')
            ):
                yield target.path


def _bodies(model: mujoco.MjModel) -> dict[str, int]:
    return {model.body(row).name: row for row in range(1, model.nbody)}


def _moving(model: mujoco.MjModel) -> dict[str, int]:
    return {model.joint(r).name: r for r in range(model.njnt) if model.jnt_type[r] in SCALAR_JOINTS}


def _carried_over(stored: Stored, described: Description) -> tuple[mujoco.MjModel, mujoco.MjModel]:
    """Return what a URDF means, and that with the numbers of the identified model.

    Inertias, damping and friction that nobody identified are carried over as well where they
    differ, as what was identified goes with them. A link whose fixed links are no bodies of the
    model is one body with them there: it gets what is left when theirs is taken away.
    """
    path = described.path
    # What is in the text of the URDF; sensors and actuators are of no interest.
    spec = mujoco.MjSpec.from_string(described.mjcf or '')
    nominal, fitted = compile_spec(spec, path), compile_spec(spec, path)
    _check_same_robot(stored.nominal, nominal, str(path))
    before, after = stored.nominal, stored.fitted
    links = _bodies(nominal)
    for name, body in _bodies(after).items():
        if name in links:
            _carry_inertia(stored, nominal, fitted, name, str(path))
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
            if identified or not np.isclose(value, told, rtol=_SAME_NUMBER, atol=0):
                getattr(fitted, field)[theirs] = value
    return nominal, fitted


def _carry_inertia(
    stored: Stored, nominal: mujoco.MjModel, fitted: mujoco.MjModel, name: str, path: str
) -> None:
    """Carry the inertia of a body over to the link of its name.

    Raises:
        ModelError: The links that are fixed to it have more than the body.
    """
    link, body = nominal.body(name).id, stored.fitted.body(name).id
    before, after = (Inertial.of_body(m, body) for m in (stored.nominal, stored.fitted))
    wanted = pseudoinertia_from_pi(pi_from_inertial(*after))
    merged = dict(_merged(stored.fitted, nominal, link))
    for row, relative in merged.items():
        moments = pseudoinertia_from_pi(pi_from_inertial(*Inertial.of_body(nominal, row)))
        wanted = wanted - relative @ moments @ relative.T
    told = pseudoinertia_from_pi(pi_from_inertial(*Inertial.of_body(nominal, link)))
    same = np.allclose(wanted, told, atol=_SAME_NUMBER * np.abs(told).max())
    if same and all(map(np.array_equal, before, after)):
        return
    mass = float(wanted[3, 3])
    place = wanted[:3, 3] / (mass or 1.0)
    second = wanted[:3, :3] - mass * np.outer(place, place)
    if mass <= 0 or np.linalg.eigvalsh(second)[0] < -_ROUNDING * np.trace(second):
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
    """Check that bodies and joints are links and joints of a URDF, and move alike.

    The robot as a whole may stand somewhere else.

    Raises:
        ModelError: They are and do not.
    """
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
            if np.abs(off).max() > _SAME_FRAME:
                raise ModelError(
                    f'Expected link {name!r} of {path!r} where the model has its body, found it '
                    f'{1e3 * float(np.linalg.norm(off[:3, 3])):.3g} mm away or turned: inertias '
                    'cannot be put back into another frame.'
                )
