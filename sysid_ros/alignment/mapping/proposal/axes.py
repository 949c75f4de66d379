# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The columns of a bag as axes: what belongs to one joint of the robot, measured or commanded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.alignment.mapping.by_name import (
    ARRAY,
    TRAJECTORY,
    controller_joints,
    controller_of,
    is_command,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.bags import BagColumns, Field, TopicColumns

#: Words in the name of a field or topic, and what they say that its numbers are.
_KINDS = {
    'position': ['position', 'positions', 'pos', 'angle', 'angles', 'q', 'qpos'],
    'velocity': ['velocity', 'velocities', 'vel', 'dq', 'qd', 'qvel', 'speed', 'speeds'],
    'effort': ['effort', 'efforts', 'torque', 'torques', 'tau'],
}
KINDS = tuple(_KINDS)
#: What a column is whose names do not say it.
UNKNOWN = 'unknown'
#: Parts of a path under which a controller's state holds what it was told …
_TOLD = frozenset(['reference', 'desired', 'setpoint', 'command'])
#: … and what is neither measured nor commanded.
_NEITHER = frozenset(['error', 'output', 'acceleration', 'accelerations'])
#: Labels of vectors and quaternions.
_COMPONENTS = frozenset('xyzw')


class Column(NamedTuple):
    """One column of a bag.

    Attributes:
        topic: Its topic.
        field: Its field.
        label: Its label.
        receive_ns: (n,) int64, ns.
        header_ns: (n,) int64, ns, or None.
        values: (n,) in units of the bag.
    """

    topic: str
    field: str
    label: str
    receive_ns: NDArray[np.int64]
    header_ns: NDArray[np.int64] | None
    values: NDArray[np.float64]


class Axis(NamedTuple):
    """Columns that belong to one joint.

    Attributes:
        name: What the bag calls it; an index where it has no name.
        commanded: Whether these are commands.
        columns: Kind (position, velocity, effort, unknown) to the column.
    """

    name: str
    commanded: bool
    columns: dict[str, Column]

    @property
    def topic(self) -> str:
        """The topic of its first column."""
        return next(iter(self.columns.values())).topic

    @property
    def named(self) -> bool:
        """Whether the bag gives it a name."""
        return bool(self.name) and not self.name.isdigit()


def find_axes(bag: BagColumns) -> tuple[Axis, ...]:
    """Collect the axes of a bag; of several with one name the most telling is kept."""
    found: dict[tuple[str, str, str, bool], Axis] = {}
    orders = controller_joints(bag)
    for topic in bag.topics:
        for field in topic.fields:
            kind, commanded = _meaning(topic, field)
            if kind is None:
                continue
            group = _without_kind(topic.topic), _prefix(field.name)
            for index, label in enumerate(field.labels):
                values = field.values[:, index]
                if not np.isfinite(values).any():
                    continue
                name = _name(label, topic.topic, orders)
                key = (*group, label, commanded)
                axis = found.setdefault(key, Axis(name, commanded, {}))
                column = Column(
                    topic.topic, field.name, label, topic.receive_ns, topic.header_ns, values
                )
                axis.columns.setdefault(kind, column)
    return _distinct(list(found.values()))


def _meaning(topic: TopicColumns, field: Field) -> tuple[str | None, bool]:
    """Return the kind of a field's numbers, None for what belongs to no joint; and if commanded."""
    path = re.split(r'[._/]', field.name.lower())
    if set(field.labels) <= _COMPONENTS or _NEITHER & set(path):
        return None, False
    commanded = topic.msgtype == TRAJECTORY or is_command(topic.topic) or bool(_TOLD & set(path))
    if 'feedback' in path or 'actual' in path:
        commanded = False
    for kind, words in _KINDS.items():
        if set(words) & set(path):
            return kind, commanded
    if path[-1] not in {'data', 'values'}:
        return None, False
    for kind, words in _KINDS.items():
        if set(words) & set(re.split(r'[/_]', topic.topic.lower())):
            return kind, commanded
    return UNKNOWN, commanded or topic.msgtype == ARRAY


def _prefix(field: str) -> str:
    return field.rpartition('.')[0]


def _without_kind(topic: str) -> str:
    """Return a topic without the word for its kind: ``/joint_positions`` has a sibling."""
    words = {word for several in _KINDS.values() for word in several}
    return '/'.join(
        '_'.join(part for part in level.split('_') if part.lower() not in words)
        for level in topic.split('/')
    )


def _name(label: str, topic: str, orders: dict[str, list[str]]) -> str:
    """Return what a column's joint is called: its label, or what the bag's facts tell."""
    if label and not label.isdigit():
        return label
    joints = orders.get(controller_of(topic), [])
    if label and int(label) < len(joints):
        return joints[int(label)]
    return label or topic.strip('/').replace('/', '_')


def _distinct(axes: list[Axis]) -> tuple[Axis, ...]:
    """Keep one axis per name and role: that with most kinds, of the plainest topic and path."""
    best: dict[tuple[object, ...], Axis] = {}
    for axis in axes:
        key = (axis.commanded, axis.name if axis.named else (axis.topic, axis.name))
        rival = best.get(key)
        if rival is None or _telling(axis) > _telling(rival):
            best[key] = axis
    return tuple(best.values())


def _telling(axis: Axis) -> tuple[int, bool, bool, int]:
    column = next(iter(axis.columns.values()))
    moving = sum(
        float(np.nanmax(item.values) - np.nanmin(item.values)) > 0 for item in axis.columns.values()
    )
    plain = '.' not in column.field
    return moving, plain, axis.topic.endswith('joint_states'), len(column.values)
