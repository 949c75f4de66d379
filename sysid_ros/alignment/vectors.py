# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which field of a bag is which sensor of the model that measures no joint.

Names propose, and where the joints are measured on whose motion they depend, a gyroscope and an
accelerometer are recognised by what they read. Both say the same in each frame but for a rotation:
the lengths of their vectors tell the unit, and the best rotation how the sensor is mounted.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.axes import Axis, AxisColumn, at_instants, make_motion
from sysid_ros.alignment.pairs import (
    EVEN,
    EXACT,
    QUATERNION,
    SAME_CORE,
    SAME_LETTERS,
    SENSOR_FIELDS,
    Fitting,
    Pair,
    PairRole,
    fitting_fields,
    pair_columns,
    sensor_names,
    similarities,
    topic_columns,
)
from sysid_ros.alignment.search import Mechanism
from sysid_ros.bags import BagColumns
from sysid_ros.vocabulary import Quantity

if TYPE_CHECKING:
    from scipy.spatial.transform import Rotation

Array = NDArray[np.float64]

#: Sensors that a motion predicts, to the factors that turn units of theirs into SI units. How much
#: a force sensor carries is not known, so that its unit is not told.
_UNITS: dict[mujoco.mjtSensor, dict[str, float]] = {
    mujoco.mjtSensor.mjSENS_GYRO: {'rad/s': 1.0, 'deg/s': math.pi / 180},
    mujoco.mjtSensor.mjSENS_ACCELEROMETER: {'m/s²': 1.0, 'g': 9.80665, 'mg': 9.80665e-3},
    mujoco.mjtSensor.mjSENS_FORCE: {'N': 1.0},
}
#: A sensor reads a motion that explains more than this part of its squares, and another's where
#: it explains less than that part.
_READS, _ANOTHER = 0.9, 0.5
#: Another sign or orientation is taken where it explains so much more.
_BETTER = 0.02
#: Only vectors longer than this part of the longest are compared, if there are so many.
_LOUD, _FEWEST = 0.2, 20
#: Reference and mounting are found in turn, so many times.
_TURNS = 100
#: Axes that are turned by more are said to be, in degrees.
_TURNED = 10.0


class VectorPair(NamedTuple):
    """A sensor of the model and the columns that it may be, how sure that is, and why."""

    name: str
    topic: str
    field: str
    labels: tuple[str, ...]  # in the order of the sensor's values
    scale: float
    score: float
    reason: str

    def pairs(self) -> list[Pair]:
        """Return a pair for each component."""
        where = self.topic, self.field
        return [
            Pair(PairRole.SENSOR, self.name, *where, label, self.scale, 0.0, component)
            for component, label in enumerate(self.labels)
        ]


class _Likeness(NamedTuple):
    """How what was measured is what a motion predicts: in a unit, turned and perhaps reversed."""

    explained: float  # part of the squares
    unit: str = ''
    scale: float = 1.0
    degrees: float = 0.0
    reference: float = 0.0  # by how much an orientation's reference is turned against the world


def vector_pairs(
    bag: BagColumns, model: mujoco.MjModel, joints: Iterable[Pair] = ()
) -> list[VectorPair]:
    """Find the field of each sensor that measures no joint, by quantity, name and motion.

    The joints' sensors are known; where they tell how all joints moved, it is compared what
    gyroscopes and accelerometers had to read.
    """
    found = []
    kinds = [mujoco.mjtSensor(kind) for kind in model.sensor_type]
    names = sensor_names(model)
    named = [kind for kind, name in zip(kinds, names, strict=True) if name]
    fields = [
        fitting_fields(bag, kind, int(model.sensor_dim[sensor])) if names[sensor] else []
        for sensor, kind in enumerate(kinds)
    ]
    readings = _readings(bag, model, joints) if any(fields) else None
    for sensor, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        fitting = fields[sensor]
        if not fitting:
            continue
        alike = _alike(model, sensor, fitting)
        first, width = int(model.sensor_adr[sensor]), int(model.sensor_dim[sensor])
        likenesses = [
            None
            if readings is None
            else _likeness(readings[0], readings[1][:, first : first + width], kind, each)
            for each in fitting
        ]
        explained = [0.0 if each is None else each.explained for each in likenesses]
        by_motion = max(explained) > _READS
        best = int(np.argmax(np.round(explained, 1) if by_motion else alike))
        topic, field, labels = fitting[best]
        only = len(fitting) == 1 or alike[best] > sorted(alike)[-2]
        several = max(len(fitting), named.count(kind))
        score, reason, scale = EVEN / several, f'one of {several} that it may be', 1.0
        if only and (alike[best] > 0 or named.count(kind) == 1):
            score = SAME_LETTERS if alike[best] > 0 else SAME_CORE
            reason = f'the {"" if len(fitting) > 1 else "only "}{field.name} in the bag'
            reason += ' whose topic has such a name' if alike[best] > 0 else ''
        likeness = likenesses[best]
        if likeness is not None and likeness.explained > _READS:
            rivals = sum(each > likeness.explained - (1 - _READS) / 2 for each in explained) - 1
            score = max(score, EXACT if not rivals else EVEN)
            scale, reason = likeness.scale, f'{reason}; {_read(likeness)}'
        elif likeness is not None and likeness.reference:
            score = min(score, EVEN / 2)
            reason += (
                f', but its reference is turned by {likeness.reference:.0f}° against the world: '
                'give the sensor a reference site whose quat is a parameter'
            )
        elif likeness is not None and likeness.explained < _ANOTHER:
            score = min(score, EVEN / 2)
            reason += f', but the motion explains {100 * max(likeness.explained, 0):.0f}% of it'
        if labels == QUATERNION:
            reason += '; w first in the model, last in ROS'
        where = topic.topic, field.name, labels
        found.append(VectorPair(name, *where, scale, score, reason))
    return [_as_its_force(model, pair, found) for pair in found]


def _as_its_force(
    model: mujoco.MjModel, pair: VectorPair, found: Sequence[VectorPair]
) -> VectorPair:
    """Return a torque with the sign of the force of the same site and wrench, which motion tells.

    Whether a wrench acts on the tool or on the arm holds for all of it.
    """
    kinds = mujoco.mjtSensor.mjSENS_TORQUE, mujoco.mjtSensor.mjSENS_FORCE
    torque = model.sensor(pair.name)
    for each in found if torque.type[0] == kinds[0] else ():
        force = model.sensor(each.name)
        same_site = force.type[0] == kinds[1] and force.objid[0] == torque.objid[0]
        wrenches = [(own.topic, own.field.rpartition('.')[0]) for own in (pair, each)]
        if same_site and wrenches[0] == wrenches[1] and each.scale < 0:
            reason = f'{pair.reason}; with the other sign, as its force {each.name!r}'
            return pair._replace(scale=-pair.scale, reason=reason)
    return pair


def _read(likeness: _Likeness) -> str:
    """Say what a motion told of a sensor."""
    said = f'{100 * likeness.explained:.0f}% of it is what the motion makes it read'
    if likeness.scale not in (1.0, -1.0):
        said += f', in {likeness.unit}'
    if likeness.scale < 0:
        said += ', with the other sign'
    if likeness.degrees > _TURNED:
        said += f', with axes that are turned by {likeness.degrees:.0f}° against the model'
    return said


def _alike(model: mujoco.MjModel, sensor: int, fitting: Sequence[Fitting]) -> list[float]:
    """Return how like the sensor's name, or the place where it sits, each topic is."""
    element = mujoco.mjtObj(model.sensor_objtype[sensor]), int(model.sensor_objid[sensor])
    name, place = model.sensor(sensor).name, mujoco.mj_id2name(model, *element) or ''
    own = _words(f'{name}_{place}')
    return [
        max(
            len(own & _words(topic.topic)),
            float(similarities([topic.topic.strip('/')], [name, place]).max()),
        )
        for topic, _, _ in fitting
    ]


def _words(text: str) -> set[str]:
    return {word for word in re.split(r'[^a-z0-9]+', text.lower()) if len(word) > 1}


def _readings(
    bag: BagColumns, model: mujoco.MjModel, joints: Iterable[Pair]
) -> tuple[Array, Array] | None:
    """Return (n,) times and the (n, nsensordata) readings that the measured motion makes.

    None where it is not measured of all joints, or the base moves.
    """
    mechanism = Mechanism(model)
    axes, scales = {}, {}
    places = {joint.id: place for place, joint in enumerate(mechanism.joints)}
    for pair in joints:
        if pair.role is not PairRole.SENSOR:
            continue
        sensor = model.sensor(pair.name)
        kind = mujoco.mjtSensor(int(sensor.type[0]))
        place = places.get(int(sensor.objid[0]))
        if SENSOR_FIELDS.get(kind) is Quantity.POSITION and place is not None:
            topic = topic_columns(bag, pair.topic)
            column = AxisColumn.of(topic, pair_columns(bag, pair), pair.label)
            axes[place] = Axis(pair.label, commanded=False, columns={Quantity.POSITION: column})
            scales[place] = pair.scale, pair.offset
    known = mechanism.fixed and len(axes) == len(places)
    motion = make_motion(list(axes.values())) if known else None
    if motion is None:
        return None
    signals = {
        place: motion.signals[row, Quantity.POSITION].at(motion.judged).scaled(*scales[place])
        for row, place in enumerate(axes)
        if (row, Quantity.POSITION) in motion.signals
    }
    states = mechanism.states(signals, len(motion.judged))
    data, found = mujoco.MjData(model), np.empty((len(motion.judged), model.nsensordata))
    for row, state in enumerate(zip(*states, strict=True)):
        data.qpos[:], data.qvel[:], data.qacc[:] = state
        mujoco.mj_inverse(model, data)
        found[row] = data.sensordata
    return motion.times[motion.judged], found


def _likeness(
    times: Array, predicted: Array, kind: mujoco.mjtSensor, fitting: Fitting
) -> _Likeness | None:
    """Compare a field with the (n, k) readings a motion makes; None where that cannot be said."""
    from scipy.spatial.transform import Rotation  # noqa: PLC0415 (slow to import)

    topic, field, labels = fitting
    columns = [AxisColumn.of(topic, field, label) for label in labels]
    measured = np.column_stack([at_instants(column, times) for column in columns])
    if kind == mujoco.mjtSensor.mjSENS_FRAMEQUAT:
        return _orientation(measured, predicted)
    lengths = np.linalg.norm(predicted, axis=1)
    known = np.isfinite(measured).all(axis=1) & (lengths > _LOUD * lengths.max(initial=0.0))
    if kind not in _UNITS or np.count_nonzero(known) < _FEWEST:
        return None
    measured, predicted = measured[known], predicted[known]
    ratio = float(np.median(np.linalg.norm(measured, axis=1) / lengths[known]))
    units = _UNITS[kind]
    unit = min(units, key=lambda unit: abs(math.log(max(ratio * units[unit], 1e-12))))
    found = _Likeness(-math.inf, unit, units[unit], 0.0)
    factor = units[unit] if len(units) > 1 else 1 / max(ratio, 1e-12)
    for sign in (1.0, -1.0):
        values = sign * factor * measured
        total = max(float(np.sum(values**2)), 1e-300)
        with warnings.catch_warnings():
            # Vectors of one direction, as of a base at rest, do not tell a turn about it.
            warnings.simplefilter('ignore', UserWarning)
            turn = Rotation.align_vectors(values, predicted)[0]
        straight, turned = (
            1.0 - float(np.sum((values - each) ** 2)) / total
            for each in (predicted, turn.apply(predicted))
        )
        # A motion about one axis does not tell how the sensor is turned about it.
        is_turned = turned > straight + _BETTER
        explained = turned if is_turned else straight
        degrees = float(np.degrees(turn.magnitude())) if is_turned else 0.0
        if explained > found.explained + _BETTER:
            found = _Likeness(explained, unit, sign * units[unit], degrees)
    return found


def _orientation(measured: Array, predicted: Array) -> _Likeness | None:
    """Compare (n, 4) orientations with those that a motion makes: but for the mounting, the same.

    If they are the same only with another reference in the world as well, they have that.
    """
    from scipy.spatial.transform import Rotation  # noqa: PLC0415 (slow to import)

    known = np.isfinite(measured).all(axis=1) & np.any(measured, axis=1)
    if np.count_nonzero(known) < _FEWEST:
        return None
    there = Rotation.from_quat(measured[known], scalar_first=True)
    here = Rotation.from_quat(predicted[known], scalar_first=True)
    moved, reference = max(_spread(here), 1e-12), Rotation.identity()
    mounting = (here.inv() * there).mean()
    explained = 1.0 - (_spread(here.inv() * there) / moved) ** 2
    for _ in range(_TURNS):
        reference = (there * (here * mounting).inv()).mean()
        mounting = ((reference * here).inv() * there).mean()
    free = 1.0 - (_spread((reference * here).inv() * there) / moved) ** 2
    degrees = [float(np.degrees(turn.magnitude())) for turn in (mounting, reference)]
    if free > max(_READS, explained + _BETTER) and degrees[1] > _TURNED:
        return _Likeness(explained, degrees=degrees[0], reference=degrees[1])
    return _Likeness(explained, degrees=float(np.degrees((here.inv() * there).mean().magnitude())))


def _spread(turned: Rotation) -> float:
    """Return how far rotations are from their mean, rad, root mean square."""
    return float(np.sqrt(np.mean((turned.mean().inv() * turned).magnitude() ** 2)))
