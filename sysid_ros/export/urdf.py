# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The identified model as a URDF: the user's text, in which only numbers change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ModelError, nearest, some
from sysid_ros.export.lost import Lost, identified_lost, lost_lines
from sysid_ros.export.rendered import Rendered
from sysid_ros.export.stored import Stored
from sysid_ros.model.description import Description, read_description
from sysid_ros.model.inertia import Inertial, full_inertia, principal_axes
from sysid_ros.model.joints import SCALAR_JOINTS
from sysid_ros.model.loading import compile_spec
from sysid_ros.model.mjcf.write import identified_urdf
from sysid_ros.model.urdf.tree import Urdf, text_of
from sysid_ros.model.urdf.write import not_held

Array = NDArray[np.float64]

#: Frames and axes of a URDF and of a model are the same up to this, m and rad: a text of six digits
#: has angles to 4e-6 rad, which a metre away is less than this.
_SAME_FRAME = 1e-4
#: Numbers of a URDF and of a model that nobody identified are the same up to this part.
_SAME_NUMBER = 1e-4
#: A second moment of mass that is negative by less than this part of their sum is rounded.
_ROUNDING = 1e-9


def render(stored: Stored, source: str, urdf: Path | None, packages: Sequence[Path]) -> Rendered:
    """Return a URDF that means the identified model, as far as a URDF can.

    Args:
        stored: The result.
        source: Where it comes from, for the head.
        urdf: The URDF to write into; the model itself unless given. Its links and joints have the
            names of the model's bodies and joints.
        packages: Folders of packages that it refers to.

    Raises:
        ModelError: There is no URDF, or it is not one of the same robot, or no link of it can have
            what was identified.
    """
    if urdf is None:
        described, nominal, fitted = stored.robot.description, stored.nominal, stored.fitted
        replaced: tuple[str, ...] = ()
        if described.urdf is None:
            raise ModelError(
                f'The model {str(described.path)!r} is no URDF; expected --urdf FILE, with one '
                'whose links and joints have the names of its bodies and joints.'
            )
    else:
        described = read_description(urdf, packages)
        if described.urdf is None:
            raise ModelError(f'Expected a URDF as --urdf, found {str(urdf)!r}, which is none.')
        nominal, fitted, replaced = _carried_over(stored, described)
    text = identified_urdf(described, nominal, fitted)
    tree = Urdf(text, str(described.path))
    lost = tuple(_lost(stored, tree, fitted))
    head = '\n'.join((f'Identified by sysid_ros: {source}.', *lost_lines(lost)))
    notes = tuple(_notes(described, tree, replaced))
    return Rendered(tree.document.headed(head), lost, notes)


def _notes(described: Description, urdf: Urdf, replaced: Sequence[str]) -> Iterator[str]:
    """Say what there is to know of a URDF beside what it lacks."""
    if replaced:
        yield (
            f'Not identified, and other in the model than in the URDF: {", ".join(replaced)}; the '
            'file has those of the model.'
        )
    if described.path.suffix != '.urdf':
        yield f'The URDF is that of {str(described.path)!r}, as it was read.'
    meshes = (text_of(node, 'filename') for node in urdf.document.elements if node.tag == 'mesh')
    beside = [name for name in meshes if name and '://' not in name and not name.startswith('/')]
    if beside:
        yield (
            f'Meshes are named by their place beside {described.path.name!r} ({some(beside)}): put '
            'the file there.'
        )


def _lost(stored: Stored, urdf: Urdf, written: mujoco.MjModel) -> Iterator[Lost]:
    """Yield what was identified, and what is in the model, and not in a URDF."""
    model = stored.fitted
    absent = set(not_held([target for target, _ in stored.values], urdf))
    moved = set(_not_moved(stored, written))
    identified = list(
        identified_lost(stored, lambda t: t.path not in absent and t.path not in moved)
    )
    yield from identified
    told = {entry.name for entry in identified}
    for entry in _beyond(model):
        if entry.name not in told:
            yield entry


def _not_moved(stored: Stored, written: mujoco.MjModel) -> Iterator[str]:
    """Yield identified places of bodies that the URDF did not take."""
    for target, _ in stored.values:
        if target.element == 'body' and target.attribute in {'pos', 'quat'}:
            row = mujoco.mj_name2id(written, mujoco.mjtObj.mjOBJ_BODY, target.name)
            same = row >= 0 and all(
                np.allclose(getattr(written, field)[row], getattr(stored.fitted, field)[target.row])
                for field in ('body_pos', 'body_quat')
            )
            if not same:
                yield target.path


def _beyond(model: mujoco.MjModel) -> Iterator[Lost]:
    """Yield what a model says that moves it and that URDF has no place for."""
    for row in range(model.njnt):
        joint, dof = model.joint(row).name, int(model.jnt_dofadr[row])
        slide = model.jnt_type[row] == mujoco.mjtJoint.mjJNT_SLIDE
        for name, value, units in (
            ('armature', model.dof_armature[dof], ('kg·m²', 'kg')),
            ('stiffness', model.jnt_stiffness[row], ('N·m/rad', 'N/m')),
            ('ref', model.qpos0[model.jnt_qposadr[row]], ('rad', 'm')),
        ):
            if value and model.jnt_type[row] in SCALAR_JOINTS:
                yield Lost(f'joint/{joint}/{name}', float(value), units[int(slide)])
        if model.dof_dampingpoly[dof].any():
            yield Lost(f'joint/{joint}/damping', why='its higher powers of the velocity')
    for row in range(model.nactuator):
        yield Lost(f'actuator/{model.actuator(row).name}', why='all of it')
    others = int((model.eq_type != mujoco.mjtEq.mjEQ_JOINT).sum())
    for name, count in (
        ('tendons', model.ntendon),
        ('contact pairs', model.npair),
        ('equalities that are no mimic joints', others),
    ):
        if count:
            yield Lost(f'{count} {name}')


class _Carried(NamedTuple):
    """What a URDF means, what it is to mean, and what of it nobody identified."""

    nominal: mujoco.MjModel
    fitted: mujoco.MjModel
    replaced: tuple[str, ...]


def _carried_over(stored: Stored, described: Description) -> _Carried:
    """Carry the numbers of an identified model over to the bodies of a URDF.

    A link whose fixed links are no bodies of the model is one body with them there: it gets what is
    left when theirs is taken away, and they stay as they are.
    """
    path = described.path
    # What is in the text of the URDF; sensors and actuators are of no interest.
    spec = mujoco.MjSpec.from_string(described.mjcf or '')
    nominal = compile_spec(spec, path)
    _check_names(stored, nominal, str(path))
    _check_frames(stored, nominal, str(path))
    fitted = compile_spec(spec, path)
    return _Carrier(stored, nominal, fitted, str(path)).carry()


def _bodies(model: mujoco.MjModel) -> dict[str, int]:
    return {model.body(row).name: row for row in range(1, model.nbody)}


def _moving(model: mujoco.MjModel) -> dict[str, int]:
    return {model.joint(r).name: r for r in range(model.njnt) if model.jnt_type[r] in SCALAR_JOINTS}


def _check_names(stored: Stored, urdf: mujoco.MjModel, path: str) -> None:
    """Check that bodies with mass and joints of the model are links and joints of a URDF.

    Raises:
        ModelError: One is not, or the URDF has joints that the model has not.
    """
    model = stored.nominal
    bodies, links = _bodies(model), _bodies(urdf)
    heavy = {name: row for name, row in bodies.items() if model.body_mass[row] > 0}
    for what, ours, theirs in (
        ('body', heavy, links),
        ('joint', _moving(model), _moving(urdf)),
    ):
        for name in ours:
            if name not in theirs:
                part = 'link' if what == 'body' else what
                raise ModelError(
                    f'Expected a {part} of {path!r} for each {what} of the model, found none for '
                    f'{name!r}; {nearest(name, theirs)}.'
                )
    for name in _moving(urdf):
        if name not in _moving(model):
            raise ModelError(
                f'Expected a joint of the model for each that moves in {path!r}, found none for '
                f'{name!r}; {nearest(name, _moving(model))}.'
            )


def _check_frames(stored: Stored, urdf: mujoco.MjModel, path: str) -> None:
    """Check that bodies and links of a name are in the same places, wherever joints are.

    The robot as a whole may stand somewhere else.

    Raises:
        ModelError: They are not.
    """
    ours, theirs = mujoco.MjData(stored.nominal), mujoco.MjData(urdf)
    shared = [name for name in _bodies(stored.nominal) if name in _bodies(urdf)]
    rng = np.random.default_rng(0)
    base = np.eye(4)
    for turn in (0.0, 0.5):
        for name, row in _moving(stored.nominal).items():
            position = turn * rng.uniform(-1, 1)
            ours.qpos[stored.nominal.jnt_qposadr[row]] = position
            theirs.qpos[urdf.jnt_qposadr[_moving(urdf)[name]]] = position
        mujoco.mj_kinematics(stored.nominal, ours)
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


def _pose(data: mujoco.MjData, name: str) -> Array:
    """Return the (4, 4) pose of a body in the world."""
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = data.body(name).xmat.reshape(3, 3), data.body(name).xpos
    return pose


class _Carrier:
    """An identified model, and two models of a URDF, of which one gets its numbers."""

    def __init__(
        self, stored: Stored, nominal: mujoco.MjModel, fitted: mujoco.MjModel, path: str
    ) -> None:
        self._stored = stored
        self._nominal = nominal
        self._fitted = fitted
        self._path = path
        self._data = mujoco.MjData(nominal)
        mujoco.mj_kinematics(nominal, self._data)
        self._replaced: list[str] = []

    def carry(self) -> _Carried:
        """Carry everything over."""
        before, after = self._stored.nominal, self._stored.fitted
        links = _bodies(self._nominal)
        for name, row in _bodies(after).items():
            if name in links:
                identified = not all(
                    map(np.array_equal, Inertial.of_body(before, row), Inertial.of_body(after, row))
                )
                self._inertia(name, links[name], row, identified=identified)
                self._place(links[name], row)
        for name, joint in _moving(after).items():
            self._friction(name, joint)
        return _Carried(self._nominal, self._fitted, tuple(self._replaced))

    def _inertia(self, name: str, link: int, body: int, *, identified: bool) -> None:
        wanted = _moments(Inertial.of_body(self._stored.fitted, body))
        for row, relative in self._merged(link):
            moments = _moments(Inertial.of_body(self._nominal, row))
            wanted = wanted - relative @ moments @ relative.T
        told = _moments(Inertial.of_body(self._nominal, link))
        if not identified and np.allclose(wanted, told, atol=_SAME_NUMBER * np.abs(told).max()):
            return
        own = _inertial(wanted)
        if own is None:
            others = [self._nominal.body(row).name for row, _ in self._merged(link)]
            raise ModelError(
                f'Link {name!r} of {self._path!r} cannot have what was identified for the body, '
                f'as the links fixed to it ({", ".join(others)}) have more of it; expected a model '
                'in which these are bodies of their own.'
            )
        for field, value in own._asdict().items():
            getattr(self._fitted, f'body_{field}')[link] = value
        if not identified:
            self._replaced.append(f'inertia of {name}')

    def _merged(self, link: int) -> Iterator[tuple[int, Array]]:
        """Yield the links fixed to one that are no bodies of the model, each with its (4, 4) pose.

        The pose is in the frame of the one.
        """
        known = _bodies(self._stored.fitted)
        inverse = np.linalg.inv(_pose(self._data, self._nominal.body(link).name))
        around = {link}
        for row in range(link + 1, self._nominal.nbody):
            fixed = (
                self._nominal.body_parentid[row] in around and not self._nominal.body_jntnum[row]
            )
            if fixed and self._nominal.body(row).name not in known:
                around.add(row)
                if self._nominal.body_mass[row] > 0:
                    yield row, inverse @ _pose(self._data, self._nominal.body(row).name)

    def _place(self, link: int, body: int) -> None:
        """Carry over where a body is in its parent, where that is the link's parent, too."""
        before, after = self._stored.nominal, self._stored.fitted
        parents = (
            after.body(after.body_parentid[body]).name,
            self._nominal.body(self._nominal.body_parentid[link]).name,
        )
        for field in ('body_pos', 'body_quat'):
            value = getattr(after, field)[body]
            if parents[0] == parents[1] and not np.array_equal(getattr(before, field)[body], value):
                getattr(self._fitted, field)[link] = value

    def _friction(self, name: str, joint: int) -> None:
        before, after = self._stored.nominal, self._stored.fitted
        ours = int(after.jnt_dofadr[joint])
        theirs = int(self._nominal.jnt_dofadr[_moving(self._nominal)[name]])
        for field, told in (('dof_damping', 'damping'), ('dof_frictionloss', 'frictionloss')):
            value = float(getattr(after, field)[ours])
            old = float(getattr(self._nominal, field)[theirs])
            identified = value != getattr(before, field)[ours]
            if identified or not np.isclose(value, old, rtol=_SAME_NUMBER, atol=0):
                getattr(self._fitted, field)[theirs] = value
                if not identified:
                    self._replaced.append(f'joint/{name}/{told}')


def _moments(inertial: Inertial) -> Array:
    """Return the (4, 4) pseudo-inertia about the body frame's origin, also of a flat body."""
    rotational = full_inertia(inertial.iquat, inertial.inertia)
    second = 0.5 * np.trace(rotational) * np.eye(3) - rotational
    found = np.zeros((4, 4))
    mass, place = float(inertial.mass), inertial.ipos
    found[:3, :3] = second + mass * np.outer(place, place)
    found[:3, 3] = found[3, :3] = mass * place
    found[3, 3] = mass
    return found


def _inertial(moments: Array) -> Inertial | None:
    """Return the inertia of a (4, 4) pseudo-inertia; None where no body has it."""
    mass = float(moments[3, 3])
    if mass <= 0:
        return None
    place = moments[:3, 3] / mass
    second = moments[:3, :3] - mass * np.outer(place, place)
    if np.linalg.eigvalsh(second)[0] < -_ROUNDING * max(float(np.trace(second)), 0.0):
        return None
    inertia, iquat = principal_axes(float(np.trace(second)) * np.eye(3) - second)
    return Inertial(np.array(mass), place, iquat, inertia)
