# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Writing the values of many candidates into compiled models at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sysid_ros.model.inertia import body_from_theta, theta_from_body
from sysid_ros.model.targets.frames import moved_frames
from sysid_ros.model.targets.kinds import Coupling, Role
from sysid_ros.model.targets.slots import Assignment, read_field, subtree, write_field
from sysid_ros.model.targets.springs import LENGTH, SpringLengths

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from sysid_ros.model.targets.target import Target


#: Fields that hold a body's inertia, in the order of ``inertia.Inertial``, and their widths.
_INERTIAL = {'body_mass': 1, 'body_ipos': 3, 'body_iquat': 4, 'body_inertia': 3}


class _Linear(NamedTuple):
    """Numbers of one field that follow one value each.

    Attributes:
        field: Name of the field.
        places: (k,) places in the assignment of the field.
        columns: (k,) columns of the values.
        factors: (k,) what one unit of the value makes.
    """

    field: str
    places: NDArray[np.int64]
    columns: NDArray[np.int64]
    factors: NDArray[np.float64]


class _Theta(NamedTuple):
    """The inertia of one body that follows log-Cholesky parameters.

    Attributes:
        body: Id of the body.
        nominal: (10,) θ of the model.
        components: (k,) components that values give.
        columns: (k,) columns of these values.
        places: Places in the assignments of ``body_mass``, ``body_ipos``, ``body_iquat`` and
            ``body_inertia``.
    """

    body: int
    nominal: NDArray[np.float64]
    components: list[int]
    columns: list[int]
    places: tuple[NDArray[np.int64], ...]


class _Scale(NamedTuple):
    """A factor on masses and moments.

    Attributes:
        field: ``body_mass`` or ``body_inertia``.
        places: (k,) places in the assignment of the field.
        column: Column of the factor.
    """

    field: str
    places: NDArray[np.int64]
    column: int


class _Places:
    """Which numbers of each field are written, in the order in which they were first needed."""

    def __init__(self) -> None:
        self.fields: dict[str, dict[int, int]] = {}

    def add(self, field: str, indices: Iterable[int]) -> NDArray[np.int64]:
        """Return the places of flat indices in the assignment of a field."""
        inside = self.fields.setdefault(field, {})
        return np.array([inside.setdefault(int(index), len(inside)) for index in indices], np.int64)


class Writer:
    """Turns candidates' values into numbers of compiled models.

    Numbers that follow one value each come first, then those of inertias that follow several; then
    quaternions are normalised, factors applied to masses, and rest lengths of tendons updated.

    Attributes:
        fields: The fields that are written.
        frames: Field of marks to flat indices: frames that move, see ``frames.py``.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        targets: Sequence[tuple[Target, int]],
        *,
        spec: mujoco.MjSpec | None = None,
    ) -> None:
        """Find the numbers that values are written to.

        Args:
            model: The compiled nominal model: what no value names keeps its number.
            targets: Targets, and for each the column of its value; only those that are fields of
                the compiled model are used. Of two that write one number, the later wins.
            spec: What the model was compiled from, which knows which tendons rest at the length
                of the reference pose. Without it, those do that have that length.
        """
        found = [(target, column) for target, column in targets if target.role is Role.FIELD]
        places = _Places()
        self._linear = _linear(model, found, places)
        self._theta = _theta(model, found, places)
        self._unit = _unit(model, found, places)
        self._scale = _scale(model, found, places)
        self._springs = SpringLengths.following(model, places.fields, spec)
        if self._springs:
            places.add(LENGTH, self._springs.indices)
        self._index = {
            field: np.array(list(inside), np.int64) for field, inside in places.fields.items()
        }
        self._nominal = {
            field: read_field(model, field)[index] for field, index in self._index.items()
        }
        self.fields = frozenset(self._index)
        self.frames = moved_frames(model, self._index)

    @property
    def constant(self) -> bool:
        """Whether nothing that ``mj_setConst`` derives depends on what is written.

        It reads no option that targets write.
        """
        return self.fields.isdisjoint(mujoco.MjModel._setconst_inputs)  # noqa: SLF001

    def assignments(self, values: NDArray[np.float64]) -> list[Assignment]:
        """Return what to write for candidates.

        Args:
            values: (m, columns) in the targets' units.
        """
        count = len(values)
        data = {
            field: np.broadcast_to(nominal, (count, len(nominal))).copy()
            for field, nominal in self._nominal.items()
        }
        for field, places, columns, factors in self._linear:
            data[field][:, places] = values[:, columns] * factors
        for group in self._theta:
            theta = np.broadcast_to(group.nominal, (count, len(group.nominal))).copy()
            theta[:, group.components] = values[:, group.columns]
            for field, places, numbers in zip(
                _INERTIAL, group.places, body_from_theta(theta), strict=True
            ):
                data[field][:, places] = numbers.reshape(count, -1)
        for field, places in self._unit:
            quats = data[field][:, places]
            data[field][:, places] = quats / np.linalg.norm(quats, axis=1, keepdims=True)
        for field, places, column in self._scale:
            data[field][:, places] *= values[:, column, None]
        made = [Assignment(field, self._index[field], data[field]) for field in data]
        if self._springs:
            inside = {index: place for place, index in enumerate(self._index[LENGTH].tolist())}
            where = [inside[index] for index in self._springs.indices]
            data[LENGTH][:, where] = self._springs.lengths(made, count)
        return made

    def write(self, model: mujoco.MjModel, values: NDArray[np.float64]) -> None:
        """Write one candidate into a model; the caller runs ``mj_setConst``.

        Args:
            model: What is changed.
            values: (columns,) in the targets' units.
        """
        for field, index, data in self.assignments(np.asarray(values, dtype=np.float64)[None, :]):
            write_field(model, field, index, data[0])


def _linear(
    model: mujoco.MjModel, targets: list[tuple[Target, int]], places: _Places
) -> tuple[_Linear, ...]:
    latest: dict[str, dict[int, tuple[int, float]]] = {}
    for target, column in targets:
        for slot in target.slots(model):
            latest.setdefault(slot.field, {})[slot.place] = (column, slot.factor)
    made = []
    for field, inside in latest.items():
        columns, factors = zip(*inside.values(), strict=True)
        made.append(_Linear(field, places.add(field, inside), np.array(columns), np.array(factors)))
    return tuple(made)


def _theta(
    model: mujoco.MjModel, targets: list[tuple[Target, int]], places: _Places
) -> tuple[_Theta, ...]:
    bodies: dict[int, dict[int, int]] = {}
    for target, column in targets:
        if target.kind.coupling is Coupling.THETA:
            bodies.setdefault(target.row, {})[target.index or 0] = column
    return tuple(
        _Theta(
            body,
            theta_from_body(*(getattr(model, field)[body] for field in _INERTIAL)),
            list(inside),
            list(inside.values()),
            tuple(
                places.add(field, range(width * body, width * (body + 1)))
                for field, width in _INERTIAL.items()
            ),
        )
        for body, inside in bodies.items()
    )


def _unit(
    model: mujoco.MjModel, targets: list[tuple[Target, int]], places: _Places
) -> tuple[tuple[str, NDArray[np.int64]], ...]:
    quats = dict.fromkeys(
        (slot.field, slot.place // 4)
        for target, _ in targets
        if target.kind.coupling is Coupling.UNIT
        for slot in target.slots(model)
    )
    return tuple((field, places.add(field, range(4 * row, 4 * (row + 1)))) for field, row in quats)


def _scale(
    model: mujoco.MjModel, targets: list[tuple[Target, int]], places: _Places
) -> tuple[_Scale, ...]:
    made = []
    for target, column in targets:
        if target.kind.coupling is Coupling.SCALE:
            bodies = subtree(model, target.row)
            moments = [3 * body + axis for body in bodies for axis in range(3)]
            made.append(_Scale('body_mass', places.add('body_mass', bodies), column))
            made.append(_Scale('body_inertia', places.add('body_inertia', moments), column))
    return tuple(made)


def write_value(model: mujoco.MjModel, target: Target, value: float) -> None:
    """Set the value of a target in a model. The caller runs ``mj_setConst`` after all writes.

    What is written relative to the model (``subtree_mass``) is relative to what it has now.
    """
    Writer(model, [(target, 0)]).write(model, np.array([value]))
