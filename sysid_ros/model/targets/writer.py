# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Writing the values of many candidates into compiled models at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Self, TypeAlias

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.model.inertia import INERTIAL_FIELDS, Inertial, body_from_theta, theta_from_body
from sysid_ros.model.targets.kinds import Coupling, Role
from sysid_ros.model.targets.slots import Assignment, read_field, subtree, write_field
from sysid_ros.model.targets.target import Target

Array: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.int64]

#: What marks a frame as one that is computed.
APART = mujoco.mjtSameFrame.mjSAMEFRAME_NONE.value


def _moved_frames(model: mujoco.MjModel, written: Mapping[str, Places]) -> dict[str, Places]:
    """Find the marks of the frames that candidates move.

    ``mj_setConst`` marks an inertial frame, geom or site within about 1e-6 of another frame as
    lying on it, and kinematics then copies that frame (MuJoCo 4.0). So the smallest moves, of which
    derivatives are made, would move nothing; unmarked, each frame is computed from its own numbers.
    Both are flat indices by field. Geoms and sites are found also where the inertial frame moves on
    which they may lie.
    """

    def rows(element: str, pos: str, quat: str) -> Places:
        nothing = np.empty(0, dtype=np.int64)
        moved = written.get(f'{element}_{pos}', nothing) // 3
        return np.union1d(moved, written.get(f'{element}_{quat}', nothing) // 4)

    bodies = rows('body', 'ipos', 'iquat')
    beside = np.flatnonzero(np.isin(model.site_bodyid, bodies))
    found = {
        'body_sameframe': bodies,
        'geom_sameframe': np.flatnonzero(np.isin(model.geom_bodyid, bodies)),
        'site_sameframe': np.union1d(rows('site', 'pos', 'quat'), beside),
    }
    return {field: marks for field, marks in found.items() if len(marks)}


def set_all_apart(model: mujoco.MjModel) -> None:
    """Let all frames of a model be computed: which of them a callback moves is not known."""
    for field in ('body_sameframe', 'geom_sameframe', 'site_sameframe'):
        getattr(model, field)[:] = APART


#: The field that holds rest lengths: shortest and longest, per tendon.
_LENGTH = 'tendon_lengthspring'
#: Fields on which the length of a tendon in the reference pose depends.
_POSE = frozenset(
    {'qpos0', 'qpos_spring', 'body_pos', 'body_quat', 'jnt_pos', 'site_pos', 'site_quat'}
)
#: A rest length within this share of a tendon's length in the reference pose is that length.
_SAME = 1e-12


class _SpringLengths:
    """Rest lengths of tendons, which the compiler takes from the pose in which springs rest.

    ``mj_setConst`` leaves them as they are (MuJoCo 4.0), so they are computed where a candidate
    changes that pose or the geometry.
    """

    def __init__(self, model: mujoco.MjModel, tendons: Sequence[int]) -> None:
        self._model = model.__copy__()
        self._data = mujoco.MjData(self._model)
        self._tendons = list(tendons)
        self.indices = tuple(2 * tendon + side for tendon in tendons for side in range(2))

    @classmethod
    def following(
        cls,
        model: mujoco.MjModel,
        written: Mapping[str, Collection[int]],
        spec: mujoco.MjSpec | None,
    ) -> Self | None:
        """Find the rest lengths that change with what is written; None where there are none."""
        if not model.ntendon or _POSE.isdisjoint(written):
            return None
        every = cls(model, range(model.ntendon))
        rest = np.array(getattr(model, _LENGTH))
        if spec is None:
            lengths = every.lengths((), 1).reshape(rest.shape)
            follows = np.all(np.isclose(lengths, rest, rtol=_SAME, atol=_SAME), axis=1)
        else:
            given = [np.asarray(tendon.springlength) for tendon in spec.tendons]
            follows = np.array([bool(np.all(length == -1)) for length in given])
        for place in written.get(_LENGTH, ()):  # a target sets them
            follows[place // 2] = False
        return cls(model, np.flatnonzero(follows).tolist()) if np.any(follows) else None

    def lengths(self, assignments: Sequence[Assignment], count: int) -> Array:
        """Return the (count, 2 k) rest lengths of candidates, in the order of ``indices``."""
        made = np.empty((count, 2 * len(self._tendons)))
        for candidate in range(count):
            for field, index, data in assignments:
                write_field(self._model, field, index, data[candidate])
            # Frames that coincided in the nominal model need not do so in a candidate.
            mujoco.mj_setConst(self._model, self._data)
            self._data.qpos[:] = self._model.qpos_spring
            mujoco.mj_fwdPosition(self._model, self._data)
            made[candidate] = np.repeat(self._data.ten_length[self._tendons], 2)
        return made


class Linear(NamedTuple):
    """Numbers (k,) of one field that follow one value each: ``factor * value + offset``."""

    field: str
    places: Places  # flat indices in the field; in a `Writer`, places in the assignment of it
    columns: Places  # of the values
    factors: Array
    offsets: Array


class _Places:
    """Which numbers of each field are written, in the order in which they were first needed."""

    def __init__(self) -> None:
        self.fields: dict[str, dict[int, int]] = {}

    def add(self, field: str, indices: Iterable[int]) -> Places:
        """Return the places of flat indices in the assignment of a field."""
        inside = self.fields.setdefault(field, {})
        return np.array([inside.setdefault(int(index), len(inside)) for index in indices], np.int64)


class Writer:
    """Turns candidates' values into numbers of compiled models.

    Numbers that follow one value each come first, then those of inertias that follow several; then
    quaternions are normalised, factors applied to masses, and rest lengths of tendons updated.

    Attributes:
        fields: The fields that are written.
        frames: Field of marks to flat indices: those of frames that move.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        targets: Sequence[tuple[Target, int]],
        *,
        spec: mujoco.MjSpec | None = None,
        learnt: Sequence[Linear] = (),
    ) -> None:
        """Find the numbers that values are written to.

        Args:
            model: The compiled nominal model: what no value names keeps its number.
            targets: Targets, and for each the column of its value; only those that are fields of
                the compiled model are used. Of two that write one number, the later wins.
            spec: What the model was compiled from, which knows which tendons rest at the length
                of the reference pose. Without it, those do that have that length.
            learnt: Further numbers, which no target names.
        """
        found = [(target, column) for target, column in targets if target.role is Role.FIELD]
        places = _Places()
        self._linear = tuple(
            each._replace(places=places.add(each.field, each.places))
            for each in (*learnt, *_linear(model, found))
        )
        self._rules = list(_coupled_rules(model, found, places))
        self._springs = _SpringLengths.following(model, places.fields, spec)
        if self._springs:
            places.add(_LENGTH, self._springs.indices)
        self._index = {
            field: np.array(list(inside), np.int64) for field, inside in places.fields.items()
        }
        self._nominal = {
            field: read_field(model, field)[index] for field, index in self._index.items()
        }
        self.fields = frozenset(self._index)
        self.frames = _moved_frames(model, self._index)

    @property
    def places(self) -> dict[str, set[int]]:
        """The flat indices that are written, by field."""
        return {field: set(index.tolist()) for field, index in self._index.items()}

    @property
    def constant(self) -> bool:
        """Whether nothing that ``mj_setConst`` derives depends on what is written.

        It reads no option that targets write.
        """
        return self.fields.isdisjoint(mujoco.MjModel._setconst_inputs)  # noqa: SLF001

    def assignments(self, values: Array) -> list[Assignment]:
        """Return what to write for (m, columns) values of candidates, in the targets' units."""
        count = len(values)
        data = {
            field: np.broadcast_to(nominal, (count, len(nominal))).copy()
            for field, nominal in self._nominal.items()
        }
        for field, places, columns, factors, offsets in self._linear:
            data[field][:, places] = values[:, columns] * factors + offsets
        for rule in self._rules:
            rule(values, data)
        made = [Assignment(field, self._index[field], data[field]) for field in data]
        if self._springs:
            inside = {index: place for place, index in enumerate(self._index[_LENGTH].tolist())}
            where = [inside[index] for index in self._springs.indices]
            data[_LENGTH][:, where] = self._springs.lengths(made, count)
        return made

    def write(self, model: mujoco.MjModel, values: Array) -> None:
        """Write one candidate's (columns,) values into a model; the caller runs ``mj_setConst``."""
        for field, index, data in self.assignments(np.asarray(values, dtype=np.float64)[None, :]):
            write_field(model, field, index, data[0])


def _linear(model: mujoco.MjModel, targets: list[tuple[Target, int]]) -> Iterator[Linear]:
    latest: dict[str, dict[int, tuple[int, float]]] = {}
    for target, column in targets:
        for slot in target.slots(model):
            latest.setdefault(slot.field, {})[slot.place] = (column, slot.factor)
    for field, inside in latest.items():
        columns, factors = map(np.array, zip(*inside.values(), strict=True))
        yield Linear(
            field, np.array(list(inside), np.int64), columns, factors, np.zeros(len(factors))
        )


def _coupled_rules(
    model: mujoco.MjModel, targets: list[tuple[Target, int]], places: _Places
) -> Iterator[Callable[[Array, dict[str, Array]], None]]:
    """Yield what puts (m, columns) values into (m, k) numbers that follow several of them."""
    bodies: dict[int, dict[int, int]] = {}
    for target, column in targets:
        if target.kind.coupling is Coupling.THETA:
            bodies.setdefault(target.row, {})[target.index or 0] = column
    for body, components in bodies.items():
        where = {
            field: places.add(field, range(width * body, width * (body + 1)))
            for field, width in INERTIAL_FIELDS.items()
        }
        nominal = theta_from_body(*Inertial.of_body(model, body))
        yield partial(_put_inertia, where, nominal, components)
    quats = dict.fromkeys(
        (slot.field, slot.place // 4)
        for target, _ in targets
        if target.kind.coupling is Coupling.UNIT
        for slot in target.slots(model)
    )
    for field, row in quats:
        yield partial(_normalise, field, places.add(field, range(4 * row, 4 * (row + 1))))
    for target, column in targets:
        if target.kind.coupling is Coupling.SCALE:
            for body in subtree(model, target.row):
                yield partial(_scale, 'body_mass', places.add('body_mass', [body]), column)
                moments = places.add('body_inertia', range(3 * body, 3 * body + 3))
                yield partial(_scale, 'body_inertia', moments, column)


def _put_inertia(
    where: dict[str, Places],
    nominal: Array,
    components: dict[int, int],
    values: Array,
    data: dict[str, Array],
) -> None:
    """Put inertias that follow log-Cholesky parameters, of which values give some components."""
    theta = np.broadcast_to(nominal, (len(values), len(nominal))).copy()
    theta[:, list(components)] = values[:, list(components.values())]
    for (field, places), numbers in zip(where.items(), body_from_theta(theta), strict=True):
        data[field][:, places] = numbers.reshape(len(values), -1)


def _normalise(field: str, where: Places, _: Array, data: dict[str, Array]) -> None:
    quats = data[field][:, where]
    data[field][:, where] = quats / np.linalg.norm(quats, axis=1, keepdims=True)


def _scale(field: str, where: Places, column: int, values: Array, data: dict[str, Array]) -> None:
    data[field][:, where] *= values[:, column, None]


def write_value(model: mujoco.MjModel, target: Target, value: float) -> None:
    """Set the value of a target in a model. The caller runs ``mj_setConst`` after all writes.

    What is written relative to the model (``subtree_mass``) is relative to what it has now.
    """
    Writer(model, [(target, 0)]).write(model, np.array([value]))
