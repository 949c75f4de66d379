# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which column of a bag is which sensor or actuator of the model."""

from __future__ import annotations

import enum
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.health import UNSIGNED, HealthFinding, are_magnitudes
from sysid_ros.bags import BagColumns, Field, TopicColumns
from sysid_ros.model.elements import SCALAR_JOINTS, TO_JOINT
from sysid_ros.vocabulary import Quantity


class PairRole(enum.Enum):
    """What a column is for the model."""

    SENSOR = 'sensor'
    ACTUATOR = 'actuator'


#: Sensors of the model that measure a joint, to what they measure.
SENSOR_FIELDS = {
    mujoco.mjtSensor.mjSENS_JOINTPOS: Quantity.POSITION,
    mujoco.mjtSensor.mjSENS_JOINTVEL: Quantity.VELOCITY,
    mujoco.mjtSensor.mjSENS_JOINTACTFRC: Quantity.EFFORT,
}


class Pair(NamedTuple):
    """A column of a bag and the sensor or actuator that it is.

    The value for the model is ``scale * bag value + offset``. A sensor with several values has one
    pair for each component.
    """

    role: PairRole
    name: str
    topic: str
    field: str
    label: str
    scale: float = 1.0
    offset: float = 0.0
    component: int = 0


class UnmappedKind(enum.Enum):
    """What has no counterpart."""

    TOPIC = 'topic'
    COLUMN = 'column'
    SENSOR = 'sensor'
    ACTUATOR = 'actuator'


class Unmapped(NamedTuple):
    """Something in the bag or in the model that has no counterpart, and why.

    A column's name is written as ``/js.position[elbow]``.
    """

    kind: UnmappedKind
    name: str
    reason: str


@dataclass(frozen=True)
class Mapping:
    """The pairing of a bag with a model: sensors first, both in model order.

    Findings of its health are what was left out or assumed on the way.
    """

    pairs: tuple[Pair, ...]
    unmapped: tuple[Unmapped, ...]
    health: tuple[HealthFinding, ...]


def topic_columns(bag: BagColumns, topic: str) -> TopicColumns:
    """Return the topic that a pair names."""
    return next(item for item in bag.topics if item.topic == topic)


def field_columns(topic: TopicColumns, name: str) -> Field | None:
    """Return a field of a topic, or None where its messages do not carry it."""
    return next((field for field in topic.fields if field.name == name), None)


def pair_columns(bag: BagColumns, pair: Pair) -> Field:
    """Return the field that a pair names."""
    field = field_columns(topic_columns(bag, pair.topic), pair.field)
    if field is None:
        raise KeyError(pair.field)
    return field


def raw_values(bag: BagColumns, pair: Pair) -> NDArray[np.float64]:
    """Return the (n,) values of a pair's column, in units of the bag."""
    field = pair_columns(bag, pair)
    return field.values[:, field.labels.index(pair.label)]


def whole_rows(bag: BagColumns, mapping: Mapping, pair: Pair) -> NDArray[np.bool_]:
    """Return the (n,) rows in which all values of a pair's sensor or actuator are finite."""
    whole = np.isfinite(raw_values(bag, pair))
    for item in mapping.pairs:
        if item[:2] == pair[:2]:
            whole &= np.isfinite(raw_values(bag, item))
    return whole


def topic_labels(topic: TopicColumns) -> tuple[str, ...]:
    """Return the labels of all fields of a topic."""
    return tuple(dict.fromkeys(label for field in topic.fields for label in field.labels))


def column_name(topic: str, field: str, label: str) -> str:
    """Return how a column is called: ``/topic.field[label]``, without brackets where unlabelled."""
    return f'{topic}.{field}' + (f'[{label}]' if label else '')


def names_of(model: mujoco.MjModel, kind: mujoco.mjtObj, count: int) -> list[str]:
    """Return the names of all elements of one kind, in model order, empty where unnamed."""
    return [mujoco.mj_id2name(model, kind, index) or '' for index in range(count)]


def sensor_names(model: mujoco.MjModel) -> list[str]:
    """Return the sensors of a model."""
    return names_of(model, mujoco.mjtObj.mjOBJ_SENSOR, model.nsensor)


def actuator_names(model: mujoco.MjModel) -> list[str]:
    """Return the actuators of a model."""
    return names_of(model, mujoco.mjtObj.mjOBJ_ACTUATOR, model.nactuator)


def drives_joint(model: mujoco.MjModel, actuator: int) -> bool:
    """Whether the transmission of an actuator is a joint."""
    return bool(model.actuator_trntype[actuator] in TO_JOINT)


def command_quantity(model: mujoco.MjModel, actuator: int) -> Quantity:
    """Return what an actuator is commanded."""
    if model.actuator_biastype[actuator] != mujoco.mjtBias.mjBIAS_AFFINE:
        return Quantity.EFFORT
    _, position, velocity = model.actuator_biasprm[actuator, :3]
    if position:
        return Quantity.POSITION
    return Quantity.VELOCITY if velocity else Quantity.EFFORT


def scalar_joints(model: mujoco.MjModel) -> dict[str, int]:
    """Return name and id of the hinge and slide joints of a model."""
    names = names_of(model, mujoco.mjtObj.mjOBJ_JOINT, model.njnt)
    return {
        name: joint
        for joint, name in enumerate(names)
        if name and model.jnt_type[joint] in SCALAR_JOINTS
    }


def without_counterpart(
    bag: BagColumns,
    model: mujoco.MjModel,
    elements: Collection[tuple[PairRole, str]],
    columns: Collection[tuple[str, str, str]],
    known: Sequence[Unmapped],
    reason: str,
) -> tuple[Unmapped, ...]:
    """Return all of a bag and of a model that has no counterpart.

    Sensors and actuators, and columns by topic, field and label, have one. What is known to have
    none stands first; the reason is that of other sensors and actuators.
    """
    found = list(known)
    explained = {(item.kind, item.name) for item in known}
    for role, names in (
        (PairRole.SENSOR, sensor_names(model)),
        (PairRole.ACTUATOR, actuator_names(model)),
    ):
        kind = UnmappedKind(role.value)
        left = (item for item in names if (role, item) not in elements)
        found += [
            Unmapped(kind, item or '(unnamed)', reason)
            for item in left
            if (kind, item) not in explained
        ]
    why = 'no sensor or actuator of the model refers to it'
    topics = {topic for topic, _, _ in columns}
    for topic in bag.topics:
        if (UnmappedKind.TOPIC, topic.topic) in explained:
            continue
        if topic.topic not in topics and topic.fields:
            found.append(Unmapped(UnmappedKind.TOPIC, topic.topic, why))
            continue
        for field in topic.fields:
            unsigned = field.name == Quantity.EFFORT and are_magnitudes(field)
            found += [
                Unmapped(
                    UnmappedKind.COLUMN,
                    column_name(topic.topic, field.name, label),
                    UNSIGNED if unsigned else why,
                )
                for label in field.labels
                if (topic.topic, field.name, label) not in columns
            ]
    return (*found, *(Unmapped(UnmappedKind.TOPIC, item.topic, item.reason) for item in bag.unread))
