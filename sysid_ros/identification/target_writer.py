# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Writing the values of many candidates into compiled models at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sysid_ros.identification.target_kinds import Role
from sysid_ros.identification.target_slots import read_field, write_field

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from sysid_ros.identification.targets import Target


class Assignment(NamedTuple):
    """Numbers that candidates put into one field of a model.

    Attributes:
        field: As in ``mujoco.batch.MODEL_FIELDS``: ``dof_armature``, ``opt.gravity``.
        index: (k,) flat indices into that field of one model.
        data: (m, k) numbers of m candidates.
    """

    field: str
    index: NDArray[np.int64]  # type: ignore[assignment]  # hides tuple.index
    data: NDArray[np.float64]


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


class Writer:
    """Turns candidates' values into numbers of compiled models."""

    def __init__(self, model: mujoco.MjModel, targets: Sequence[tuple[Target, int]]) -> None:
        """Find the numbers that values are written to.

        Args:
            model: The compiled nominal model: what no value names keeps its number.
            targets: Targets, and for each the column of its value; only those that are fields of
                the compiled model are used. Of two that write one number, the later wins.
        """
        found = [(target, column) for target, column in targets if target.role is Role.FIELD]
        places: dict[str, dict[int, int]] = {}
        linear: dict[tuple[str, int], tuple[int, float]] = {}
        for target, column in found:
            for slot in target.slots(model):
                inside = places.setdefault(slot.field, {})
                inside.setdefault(slot.place, len(inside))
                linear[slot.field, slot.place] = (column, slot.factor)
        self._index = {field: np.array(list(inside), int) for field, inside in places.items()}
        self._nominal = {
            field: read_field(model, field)[index] for field, index in self._index.items()
        }
        self._linear = _linear(places, linear)
        self.fields = frozenset(self._index)

    @property
    def constant(self) -> bool:
        """Whether nothing that ``mj_setConst`` derives depends on what is written.

        It reads no option but the flags, which no target writes.
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
        return [Assignment(field, self._index[field], data[field]) for field in data]

    def write(self, model: mujoco.MjModel, values: NDArray[np.float64]) -> None:
        """Write one candidate into a model; the caller runs ``mj_setConst``.

        Args:
            model: What is changed.
            values: (columns,) in the targets' units.
        """
        for field, index, data in self.assignments(np.asarray(values, dtype=np.float64)[None, :]):
            write_field(model, field, index, data[0])


def _linear(
    places: dict[str, dict[int, int]], linear: dict[tuple[str, int], tuple[int, float]]
) -> tuple[_Linear, ...]:
    def rows(field: str) -> Iterable[tuple[int, int, float]]:
        for (other, index), (column, factor) in linear.items():
            if other == field:
                yield places[field][index], column, factor

    made = []
    for field in places:
        where, columns, factors = zip(*rows(field), strict=True)
        made.append(_Linear(field, np.array(where), np.array(columns), np.array(factors)))
    return tuple(made)
