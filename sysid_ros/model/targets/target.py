# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One scalar that a parameter writes."""

from __future__ import annotations

from dataclasses import dataclass, field

import mujoco

from sysid_ros.errors import ParameterError
from sysid_ros.model.inertia import Inertial, theta_from_body
from sysid_ros.model.targets.kinds import Coupling, Kind, Role, spec_kind
from sysid_ros.model.targets.slots import Slot, read_field, subtree
from sysid_ros.model.targets.table import KINDS


def kind_of(element: str, attribute: str) -> Kind | None:
    """Return the kind of an attribute of an element; None where it has none that moves anything."""
    return KINDS.get((element, attribute)) or spec_kind(element, attribute)


@dataclass(frozen=True)
class Target:
    """One scalar that a parameter writes.

    Attributes:
        element: Kind of MJCF element: ``joint``, ``body``, ``geom``, ``actuator``, ``option``, …;
            ``default`` for a class; ``sequence`` for the start of a run.
        name: Name of the element, class or sequence; empty for ``option``.
        attribute: The attribute, as in MJCF; with its element, ``joint/damping``, for a class.
        index: Component of a vector attribute; None for a scalar one, or for all alike.
        row: Id of the element in the compiled model; -1 where it has none.
        unit: SI unit.
        rows: Elements that take the value from a class: their ids in the compiled model, or,
            where the model has to be compiled again, their positions in the spec.
        start: The value of what no compiled model holds, where it is known.
    """

    element: str
    name: str
    attribute: str
    index: int | None
    row: int
    unit: str
    rows: tuple[int, ...] = ()
    start: float | None = field(default=None, compare=False)

    @property
    def element_and_attribute(self) -> tuple[str, str]:
        """The element that has the attribute, and the attribute: those of a class, split."""
        if self.element == 'default':
            element, _, attribute = self.attribute.partition('/')
            return element, attribute
        return self.element, self.attribute

    @property
    def kind(self) -> Kind:
        """The kind of target.

        Raises:
            ParameterError: There is no such kind.
        """
        kind = kind_of(*self.element_and_attribute)
        if kind is None:
            raise ParameterError(f'Target {self.path!r} is of no kind that a parameter can write.')
        return kind

    @property
    def path(self) -> str:
        """The target as it is written in a configuration file."""
        name = f'{self.name}/' if self.name else ''
        index = '' if self.index is None else f'[{self.index}]'
        return f'{self.element}/{name}{self.attribute}{index}'

    @property
    def role(self) -> Role:
        """Where the value acts."""
        return self.kind.role

    @property
    def bounds(self) -> tuple[float, float]:
        """What physics allows."""
        return self.kind.component_bounds(self.index or 0)

    @property
    def in_model(self) -> bool:
        """Whether the value is a field of the compiled model."""
        return self.role is Role.FIELD

    @property
    def in_mjcf(self) -> bool:
        """Whether a model can hold the value: states, gains of signals and laws, it cannot."""
        delay = self.role is Role.COMMAND and self.attribute == 'delay'
        return delay or self.role in (Role.FIELD, Role.SPEC)

    def slots(self, model: mujoco.MjModel) -> list[Slot]:
        """Return the numbers of a compiled model that follow the value linearly."""
        kind = self.kind
        if kind.slots is None:
            return []
        if self.index is None and kind.bare == 'all':
            indices = range(kind.components(model, self.row))
        else:
            indices = range(self.index or 0, (self.index or 0) + 1)
        rows = self.rows if self.element == 'default' else (self.row,)
        return [slot for row in rows for i in indices for slot in kind.slots(model, row, i)]

    def claims(self, model: mujoco.MjModel) -> dict[tuple[str, int], str]:
        """Return which numbers of a model the value decides, and in whose name.

        Two targets may decide one number together in the same name only: components of one
        inertia, or factors of nested subtrees.

        Returns:
            Field and flat index to name.
        """
        kind = self.kind
        if kind.coupling is None or kind.slots is not None:
            return {(slot.field, slot.place): self.path for slot in self.slots(model)}
        theta = kind.coupling is Coupling.THETA
        bodies = (self.row,) if theta else subtree(model, self.row)
        fields = {'body_mass': 1, 'body_inertia': 3} | ({'body_ipos': 3} if theta else {})
        name = f'{self.element}/{self.name}/{self.attribute}' if theta else self.attribute
        return {
            (field, width * body + axis): name
            for body in bodies
            for field, width in fields.items()
            for axis in range(width)
        }

    def read(self, model: mujoco.MjModel) -> float:
        """Return the value that a model has now, or that changes nothing.

        Raises:
            ParameterError: Only the spec could tell the value, and it does not; or it is a number
                of a servo's law.
        """
        kind = self.kind
        if kind.coupling is Coupling.THETA:
            theta = theta_from_body(*Inertial.of_body(model, self.row))
            return float(theta[self.index or 0])
        slots = self.slots(model)
        if slots:
            return float(read_field(model, slots[0].field)[slots[0].place]) / slots[0].factor
        if self.start is not None:
            return self.start
        if self.attribute == 'delay':
            delays = model.actuator_delay if self.element == 'actuator' else model.sensor_delay
            return float(delays[self.row])
        if kind.role in (Role.SPEC, Role.LAW):
            raise ParameterError(
                f'The model gives no value for {self.path!r}: expected an initial value.'
            )
        if self.attribute == 'initial_qpos':
            return float(model.qpos0[self.index or 0])
        return kind.nominal
