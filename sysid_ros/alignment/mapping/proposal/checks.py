# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether pairs that were made by names alone can be right as they are.

``mapping: auto`` neither turns signs nor changes units: where the data contradict the names, it
refuses and leaves the choice to a mapping that somebody has looked at.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from sysid_ros.alignment.mapping.by_name import SENSOR_FIELDS
from sysid_ros.alignment.mapping.proposal.axes import Axis, Column
from sysid_ros.alignment.mapping.proposal.model import Mechanism
from sysid_ros.alignment.mapping.proposal.motion import make_motion, respond
from sysid_ros.alignment.pairs import (
    Role,
    actuator_names,
    column_name,
    field_columns,
    raw_values,
    sensor_names,
    topic_columns,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sysid_ros.alignment.mapping.proposal.motion import Motion
    from sysid_ros.alignment.pairs import Pair
    from sysid_ros.bags import BagColumns

#: How a complaint ends.
ADVICE = '`sysid map BAG MODEL` proposes a mapping'
#: Correlations above this are certain, below this there is none.
_CERTAIN, _NONE = 0.9, 0.3
#: Factors between a velocity and the derivative of its position that no noise explains.
_FACTOR = 3.0
#: Positions that are outside of a range by more than its width for half of the time are no radians.
_HALF = 0.5


def contradiction(bag: BagColumns, model: mujoco.MjModel, pairs: tuple[Pair, ...]) -> str | None:
    """Return the first sentence about pairs that cannot be right, or None.

    Args:
        bag: Columns of the bag.
        model: The compiled model.
        pairs: Made by names, without scales and offsets.
    """
    return next(_contradictions(bag, model, pairs), None)


def _contradictions(
    bag: BagColumns, model: mujoco.MjModel, pairs: tuple[Pair, ...]
) -> Iterator[str]:
    axes, joints = _axes(bag, model, pairs)
    yield from _out_of_range(model, axes, joints)
    motion = make_motion(axes)
    if motion is None:
        return
    for row, axis in enumerate(axes):
        if {(row, 'position'), (row, 'velocity')} <= motion.signals.keys():
            yield from _against(axis, row, motion)
    yield from _not_followed(axes, joints, motion)


def _axes(
    bag: BagColumns, model: mujoco.MjModel, pairs: tuple[Pair, ...]
) -> tuple[list[Axis], list[int]]:
    """Return the pairs as axes, and the joint of each."""
    found: dict[tuple[bool, int], Axis] = {}
    laws = {joint.law.actuator: joint for joint in Mechanism(model).joints if joint.law is not None}
    sensors, actuators = sensor_names(model), actuator_names(model)
    for pair in pairs:
        if pair.role is Role.SENSOR:
            sensor = sensors.index(pair.name)
            kind = SENSOR_FIELDS.get(mujoco.mjtSensor(model.sensor_type[sensor]))
            joint = int(model.sensor_objid[sensor])
        else:
            driven = laws.get(actuators.index(pair.name))
            law = None if driven is None else driven.law
            # Gears and units of controls other than positions leave signs and factors open.
            plain = law is not None and law.kind == 'position' and law.known and law.slope > 0
            kind = 'position' if plain else None
            joint = -1 if driven is None else driven.id
        if kind is None:
            continue
        topic = topic_columns(bag, pair.topic)
        if field_columns(topic, pair.field) is None:
            continue
        column = Column(
            pair.topic,
            pair.field,
            pair.label,
            topic.receive_ns,
            topic.header_ns,
            raw_values(bag, pair),
        )
        key = pair.role is Role.ACTUATOR, joint
        axis = found.setdefault(key, Axis(model.joint(joint).name, key[0], {}))
        axis.columns[kind] = column
    return list(found.values()), [joint for _, joint in found]


def _out_of_range(model: mujoco.MjModel, axes: list[Axis], joints: list[int]) -> Iterator[str]:
    for axis, joint in zip(axes, joints, strict=True):
        column = axis.columns.get('position')
        if column is None or axis.commanded or not model.jnt_limited[joint]:
            continue
        low, high = (float(value) for value in model.jnt_range[joint])
        width = high - low
        values = column.values[np.isfinite(column.values)]
        outside = (values < low - width) | (values > high + width)
        if len(values) and float(np.mean(outside)) > _HALF:
            hinge = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE
            found = f'from {values.min():.4g} to {values.max():.4g}'
            allowed = f'{low:.4g} to {high:.4g} {"rad" if hinge else "m"}'
            yield f'{_name(column)} runs {found}, the range of joint {axis.name!r} is {allowed}'


def _against(axis: Axis, row: int, motion: Motion) -> Iterator[str]:
    """Compare a velocity with the derivative of its position."""
    rate = motion.signals[row, 'position'].rate
    found = respond(rate, motion.signals[row, 'velocity'].values, motion, longest=0.0)
    velocity, position = _name(axis.columns['velocity']), _name(axis.columns['position'])
    if found.correlation < -_CERTAIN:
        yield f'{velocity} runs against the derivative of {position}'
    elif found.correlation > _CERTAIN and abs(math.log(found.slope)) > math.log(_FACTOR):
        yield f'{velocity} is {found.slope:.3g} times the derivative of {position}'


def _not_followed(axes: list[Axis], joints: list[int], motion: Motion) -> Iterator[str]:
    """Look for commands that their joint goes against, or that another joint follows."""
    measured = [
        row
        for row, axis in enumerate(axes)
        if not axis.commanded and (row, 'position') in motion.signals
    ]
    for told, axis in enumerate(axes):
        command = motion.signals.get((told, 'position'))
        if not axis.commanded or command is None:
            continue
        found = {
            joints[row]: respond(
                command.rate, motion.signals[row, 'position'].rate, motion
            ).correlation
            for row in measured
        }
        own = found.pop(joints[told], None)
        if own is None:
            continue
        name = _name(axis.columns['position'])
        if own < -_CERTAIN:
            yield f'joint {axis.name!r} moves against its command {name}'
        best = max(found, key=lambda joint: abs(found[joint]), default=None)
        if abs(own) < _NONE and best is not None and abs(found[best]) > _CERTAIN:
            other = next(axes[row].name for row in measured if joints[row] == best)
            yield f'joint {other!r} follows the command {name}, not {axis.name!r}'


def _name(column: Column) -> str:
    return column_name(column.topic, column.field, column.label)
