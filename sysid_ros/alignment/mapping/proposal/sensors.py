# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which fields of a bag are the sensors that belong to no joint: IMUs, wrenches, poses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sysid_ros.alignment.mapping.names import EXACT, similarities
from sysid_ros.alignment.pairs import sensor_names

if TYPE_CHECKING:
    from sysid_ros.bags import BagColumns, Field, TopicColumns

_VECTOR = ('x', 'y', 'z')
#: MuJoCo has the scalar part of a quaternion first, ROS last.
_QUATERNION = ('w', 'x', 'y', 'z')
#: Sensor to the ends of paths of fields that carry it, the likeliest first.
_FIELDS: dict[mujoco.mjtSensor, tuple[str, ...]] = {
    mujoco.mjtSensor.mjSENS_GYRO: ('angular_velocity', 'twist.angular', 'angular'),
    mujoco.mjtSensor.mjSENS_ACCELEROMETER: ('linear_acceleration',),
    mujoco.mjtSensor.mjSENS_MAGNETOMETER: ('magnetic_field',),
    mujoco.mjtSensor.mjSENS_FORCE: ('wrench.force', 'force'),
    mujoco.mjtSensor.mjSENS_TORQUE: ('wrench.torque', 'torque'),
    mujoco.mjtSensor.mjSENS_FRAMEPOS: ('pose.position', 'position', 'translation'),
    mujoco.mjtSensor.mjSENS_FRAMEQUAT: ('pose.orientation', 'orientation', 'rotation'),
    mujoco.mjtSensor.mjSENS_FRAMELINVEL: ('twist.linear', 'linear'),
    mujoco.mjtSensor.mjSENS_FRAMEANGVEL: ('twist.angular', 'angular_velocity', 'angular'),
    mujoco.mjtSensor.mjSENS_VELOCIMETER: ('twist.linear', 'linear'),
    mujoco.mjtSensor.mjSENS_BALLQUAT: ('orientation',),
    mujoco.mjtSensor.mjSENS_RANGEFINDER: ('range',),
}
#: Score of the only field that can be a sensor; with names alike; and where there are more.
_ONLY, _ONLY_ALIKE, _ONE_OF_SEVERAL = 0.92, 0.97, 0.5


class SensorMatch(NamedTuple):
    """A sensor and the field that it may be.

    Attributes:
        sensor: Its name in the model.
        topic: Topic in the bag.
        field: Field of the message.
        labels: Its columns, in the sensor's order.
        score: 0 to 1.
        reason: Why.
    """

    sensor: str
    topic: str
    field: str
    labels: tuple[str, ...]
    score: float
    reason: str


def match_sensors(bag: BagColumns, model: mujoco.MjModel) -> list[SensorMatch]:
    """Find the field of each sensor that measures no joint, by its quantity and its name."""
    found = []
    kinds = [mujoco.mjtSensor(kind) for kind in model.sensor_type]
    for sensor, name in enumerate(sensor_names(model)):
        if not name or kinds[sensor] not in _FIELDS:
            continue
        width = int(model.sensor_dim[sensor])
        rivals = sum(
            kind == kinds[sensor] and bool(other)
            for kind, other in zip(kinds, sensor_names(model), strict=True)
        )
        fitting = _fitting(bag, kinds[sensor], width)
        if fitting:
            found.append(_best(name, _place(model, sensor), fitting, rivals))
    return found


def _fitting(
    bag: BagColumns, kind: mujoco.mjtSensor, width: int
) -> list[tuple[TopicColumns, Field, tuple[str, ...]]]:
    """Return the fields that carry a quantity, with their columns in the sensor's order."""
    order = {3: _VECTOR, 4: _QUATERNION}.get(width)
    found = []
    for topic in bag.topics:
        for end in _FIELDS[kind]:
            fields = [
                field
                for field in topic.fields
                if field.name == end or field.name.endswith(f'.{end}')
            ]
            fitting = [
                (topic, field, order or field.labels)
                for field in fields
                if (set(order) == set(field.labels) if order else len(field.labels) == width)
                and np.isfinite(field.values).any()
            ]
            if fitting:
                found += fitting
                break
    return found


def _place(model: mujoco.MjModel, sensor: int) -> str:
    """Return the name of the site or body that a sensor is attached to."""
    kind = mujoco.mjtObj(model.sensor_objtype[sensor])
    return mujoco.mj_id2name(model, kind, int(model.sensor_objid[sensor])) or ''


def _best(
    name: str,
    place: str,
    fitting: list[tuple[TopicColumns, Field, tuple[str, ...]]],
    rivals: int,
) -> SensorMatch:
    words = [_words(f'{name}_{place}') & _words(topic.topic) for topic, _, _ in fitting]
    alike = [
        max(len(shared), float(similarities([topic.topic.strip('/')], [name, place]).max()))
        for shared, (topic, _, _) in zip(words, fitting, strict=True)
    ]
    best = int(np.argmax(alike))
    topic, field, labels = fitting[best]
    only = len(fitting) == 1 or alike[best] > sorted(alike)[-2]
    named = alike[best] > 0
    if not only or (rivals > 1 and not named):
        score = _ONE_OF_SEVERAL / max(len(fitting), rivals)
        reason = f'one of {max(len(fitting), rivals)} that it may be'
    else:
        score = min(_ONLY_ALIKE if named else _ONLY, EXACT)
        reason = f'the {"" if len(fitting) > 1 else "only "}{field.name} in the bag'
        if named:
            reason += ' whose topic has such a name'
    if labels == _QUATERNION:
        reason += '; w first in the model, last in ROS'
    return SensorMatch(name, topic.topic, field.name, labels, score, reason)


def _words(text: str) -> set[str]:
    return {word for word in re.split(r'[^a-z0-9]+', text.lower()) if len(word) > 1}
