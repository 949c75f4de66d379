# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which column of a bag is which sensor or actuator of the model, and what their names say."""

from __future__ import annotations

import enum
import itertools
import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Indel

from sysid_ros.alignment.health import UNSIGNED, HealthFinding, are_magnitudes
from sysid_ros.bags import BagColumns, Field, TopicColumns, UnreadTopic
from sysid_ros.bags.message_types import CONTROLLER_STATE, JOINT_JOG, JOINT_TRAJECTORY
from sysid_ros.errors import listed
from sysid_ros.model.elements import SCALAR_JOINTS
from sysid_ros.vocabulary import (
    COMMANDED,
    COMPONENTS,
    MEASURED,
    NEITHER,
    QUANTITIES,
    Quantity,
    is_command,
    quantity_of,
    words_of,
)

#: Sensors of the model that measure a joint, to what they measure.
SENSOR_FIELDS = {
    mujoco.mjtSensor.mjSENS_JOINTPOS: Quantity.POSITION,
    mujoco.mjtSensor.mjSENS_JOINTVEL: Quantity.VELOCITY,
    mujoco.mjtSensor.mjSENS_JOINTACTFRC: Quantity.EFFORT,
}
ARRAY = 'std_msgs/msg/Float64MultiArray'
#: Fields of a trajectory's points, as a controller's state has them.
_OF_POINTS = dict(zip(Quantity, ('positions', 'velocities', 'effort'), strict=True))
_VECTOR = ('x', 'y', 'z')
#: MuJoCo has the scalar part of a quaternion first, ROS last.
QUATERNION = ('w', 'x', 'y', 'z')
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
#: How sure names are, as probabilities: equal ones, nothing being certain; those that differ in
#: case and separators; those that differ in what all names share and in words that say nothing; the
#: most that likeness or meaning alone gives; and even odds, as of names that share some words.
EXACT, SAME_LETTERS, SAME_CORE, ALIKE, EVEN = 0.99, 0.97, 0.93, 0.92, 0.5
#: What a joint does or is, in the words that hobby arms, manipulators and legs use for it.
_MEANINGS = {
    'yaw': ('rotation', 'rotate', 'pan', 'yaw', 'base', 'waist', 'swivel'),
    'pitch': ('lift', 'pitch', 'flex', 'bend', 'tilt'),
    'roll': ('roll', 'twist'),
    'grip': ('gripper', 'grip', 'jaw', 'claw', 'finger'),
    'knee': ('knee', 'calf'),
    'left': ('left', 'l'),
    'right': ('right', 'r'),
}
_MEANING = {word: meaning for meaning, words in _MEANINGS.items() for word in words}
#: Words that say that something is a joint, a drive or a reading of one, not which.
_NOISE = frozenset(
    ['act', 'actuator', 'axis', 'drive', 'j', 'jnt', 'joint', 'link', 'mot', 'motor', 'sensor']
).union(['servo'], COMMANDED, MEASURED, *QUANTITIES.values())
#: The fields of a topic that hold a quantity, best first.
FieldsOf = Callable[[TopicColumns, Quantity], Iterator[Field]]
#: A field that carries a sensor's values, and its columns in the order of these.
Fitting = tuple[TopicColumns, Field, tuple[str, ...]]


#: What is said of booleans where a sensor is one of contact.
NO_FORCE = (
    'the sensor reads a force in N, a boolean only tells that something is touched, which '
    'segments.contacts may leave out'
)
#: Limits within which all is.
ANY = (-math.inf, math.inf)


class PairRole(enum.Enum):
    """What a column is for the model."""

    SENSOR = 'sensor'
    ACTUATOR = 'actuator'


class Pair(NamedTuple):
    """A column of a bag and the sensor or actuator that it is.

    The value for the model is ``scale * bag value + offset``. A sensor with several values has one
    pair for each component. Values of the bag beyond the limits are none.
    """

    role: PairRole
    name: str
    topic: str
    field: str
    label: str
    scale: float = 1.0
    offset: float = 0.0
    component: int = 0
    limits: tuple[float, float] = ANY


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
    """Return the (n,) values of a pair's column, in units of the bag; NaN is none."""
    field = pair_columns(bag, pair)
    values = field.values[:, field.labels.index(pair.label)]
    if pair.limits == ANY:
        return values
    low, high = pair.limits
    return np.where((values >= low) & (values <= high), values, np.nan)


def model_values(bag: BagColumns, pair: Pair) -> NDArray[np.float64]:
    """Return the (n,) values of a pair's column for the model; NaN is none."""
    return pair.scale * raw_values(bag, pair) + pair.offset


def whole_rows(bag: BagColumns, mapping: Mapping, pair: Pair) -> NDArray[np.bool_]:
    """Return the (n,) rows in which all values of a pair's sensor or actuator are there.

    Drivers that know no orientation send a quaternion of zeros.
    """
    own = [raw_values(bag, item) for item in mapping.pairs if item[:2] == pair[:2]]
    whole = np.isfinite(own).all(axis=0)
    return np.asarray(whole & np.any(own, axis=0) if len(own) == len(QUATERNION) else whole)


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
            Unmapped(
                kind,
                item or '(unnamed)',
                (role is PairRole.SENSOR and _no_force(bag, model, item)) or reason,
            )
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


def not_read(unread: Iterable[UnreadTopic]) -> list[str]:
    """Say which topics with messages are not read and why, those of one reason together."""
    reasons: dict[str, list[str]] = {}
    for item in unread:
        if item.count:
            reasons.setdefault(item.reason, []).append(item.topic)
    return [f'{listed(topics)} not read: {reason}' for reason, topics in reasons.items()]


def similarities(bag: Sequence[str], model: Sequence[str]) -> NDArray[np.float64]:
    """Return how alike m names of a bag and n of a model are, (m, n) from 0 to EXACT.

    A name that is empty or an index is like nothing.
    """
    found = np.zeros((len(bag), len(model)))
    shared = np.zeros(found.shape, dtype=np.int64)
    cores = _cores(bag), _cores(model)
    for row, column in itertools.product(range(len(bag)), range(len(model))):
        names = bag[row], model[column]
        if all(names) and not names[0].isdigit():
            found[row, column] = _similarity(names, (cores[0][row], cores[1][column]))
            shared[row, column] = _words_inside(*names)
    # A name with something around it is the same name where no other fits as well.
    for row, column in np.argwhere(shared):
        rivals = np.concatenate([shared[row], shared[:, column]])
        if np.count_nonzero(rivals >= shared[row, column]) == 2:  # noqa: PLR2004 (itself, twice)
            found[row, column] = max(found[row, column], SAME_CORE)
    return found


def are_switched(values: NDArray[np.float64]) -> bool:
    """Whether (n,) values are those of a boolean that changes: 0 and 1, and no other."""
    return set(np.unique(values[np.isfinite(values)]).tolist()) == {0.0, 1.0}


def _no_force(bag: BagColumns, model: mujoco.MjModel, sensor: str) -> str:
    """Say why the booleans of a bag are not the force of a touch sensor; empty without any."""
    row = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, sensor)
    if row < 0 or model.sensor_type[row] != mujoco.mjtSensor.mjSENS_TOUCH:
        return ''
    switched = [
        column_name(topic.topic, field.name, label)
        for topic in bag.topics
        for field in topic.fields
        for label, values in zip(field.labels, field.values.T, strict=True)
        if are_switched(values)
    ]
    return f'{NO_FORCE}: {listed(switched)}' if switched else ''


def in_words(score: float) -> str:
    """Say what a similarity means."""
    if score >= EXACT:
        return 'same name'
    if score >= SAME_LETTERS:
        return 'same name but for case and separators'
    if score >= SAME_CORE:
        return 'same name but for affixes'
    return 'similar name' if score > 0 else 'no name in common'


def _similarity(names: tuple[str, str], cores: tuple[list[str], list[str]]) -> float:
    if names[0] == names[1]:
        return EXACT
    if ''.join(words_of(names[0])) == ''.join(words_of(names[1])):
        return SAME_LETTERS
    if cores[0] == cores[1]:
        return SAME_CORE
    numbers = [[word for word in core if word.isdigit()] for core in cores]
    if numbers[0] != numbers[1]:
        # joint_1 and joint_2 are alike in all letters and still two joints.
        return 0.0
    ratio = Indel.normalized_similarity(*('_'.join(core) for core in cores))
    meanings = [{_MEANING.get(word, word) for word in core} for core in cores]
    common = meanings[0] & meanings[1]
    # A number alone is no name: Hand_2 is not the second joint.
    told = any(not word.isdigit() for word in common)
    shared = told * len(common) / len(meanings[0] | meanings[1])
    means = EVEN + (ALIKE - EVEN) * shared if shared else 0.0
    return max(ALIKE * ratio if ratio >= EVEN else 0.0, means)


def _words_inside(name: str, other: str) -> int:
    """Return how many words a name has that is part of the other; 0 where it is not.

    What stands behind it may be no number: wrist is not wrist_2.
    """
    if other.isdigit():
        return 0
    few, many = sorted((words_of(name), words_of(other)), key=len)
    says = any(word.isdigit() or word not in _NOISE for word in few)
    alike = any(
        many[place : place + len(few)] == few
        and not any(map(str.isdigit, many[place + len(few) :]))
        for place in range(len(many) - len(few) + 1)
    )
    return len(few) if says and alike else 0


def name_words(name: str) -> list[str]:
    """Return the words of a name, with sides written out."""
    sides = {'l': 'left', 'r': 'right'}
    return [sides.get(word, word) for word in words_of(name)]


def _cores(names: Sequence[str]) -> list[list[str]]:
    """Return the words that tell each name from the others."""
    lists = [words_of(name) for name in names]
    named = [words for words in lists if words and not words[0].isdigit()]
    several = len({tuple(words) for words in named}) > 1
    prefix = _shared(named) if several else 0
    suffix = _shared([words[::-1] for words in named]) if several else 0
    cores = []
    for words in lists:
        own = words[prefix : len(words) - suffix] if words in named else words
        cores.append([word for word in own if word not in _NOISE] or own or words)
    return cores


def _shared(lists: list[list[str]]) -> int:
    """Return with how many equal words all lists begin."""
    same = (len(set(words)) == 1 for words in zip(*lists, strict=False))
    return sum(itertools.takewhile(bool, same))


def is_of_joints(topic: TopicColumns) -> bool:
    """Tell whether the labels of a topic's fields are names of joints."""
    return 'Joint' in topic.msgtype.rpartition('/')[2]


def meaning_of(topic: TopicColumns, field: Field) -> tuple[Quantity | None, bool] | None:
    """Return what a field's numbers are, None where names do not say it, and if they are commanded.

    What belongs to no joint has no meaning.
    """
    if topic.msgtype == CONTROLLER_STATE:
        return _controller_meaning(topic).get(field.name)
    words = set(words_of(field.name))
    if set(field.labels) <= COMPONENTS or NEITHER & words:
        return None
    commanded = topic.msgtype == JOINT_TRAJECTORY or is_command(topic.topic)
    commanded = (commanded or bool(COMMANDED & words)) and not {'actual', 'feedback'} & words
    quantity = quantity_of(words)
    if quantity is None and not {'data', 'values'} & words:
        return None
    quantity = quantity or quantity_of(words_of(topic.topic))
    return quantity, commanded or (quantity is None and topic.msgtype == ARRAY)


def _controller_meaning(topic: TopicColumns) -> dict[str, tuple[Quantity, bool]]:
    """Return field of a controller's state to its quantity and whether it was commanded.

    Fields that are neither the state nor the best there is of the commands are left out.
    """
    return {
        field.name: (quantity, bool(commanded))
        for quantity in Quantity
        for commanded, fields in enumerate((measured_fields, commanded_fields))
        if (field := next(fields(topic, quantity), None)) is not None
    }


def _present(topic: TopicColumns, *names: str) -> Iterator[Field]:
    """Yield those fields that a topic has, in the order of the names."""
    found = (field_columns(topic, name) for name in names)
    return (field for field in found if field is not None)


def measured_fields(topic: TopicColumns, quantity: Quantity) -> Iterator[Field]:
    """Yield the fields that hold what was measured."""
    if topic.msgtype == CONTROLLER_STATE:
        points = _OF_POINTS[quantity]
        return _present(topic, f'feedback.{points}', f'actual.{points}')
    return _present(topic, quantity)


def applied_fields(topic: TopicColumns, quantity: Quantity) -> Iterator[Field]:
    """Yield what a controller sent to the drives, where it moves."""
    for field in _present(topic, f'output.{_OF_POINTS[quantity]}'):
        finite = np.isfinite(field.values).all(axis=1)
        if finite.any() and np.ptp(field.values[finite], axis=0).any():
            yield field


def commanded_fields(topic: TopicColumns, quantity: Quantity) -> Iterator[Field]:
    """Yield the fields that hold what was commanded, best first."""
    if topic.msgtype == CONTROLLER_STATE:
        points = _OF_POINTS[quantity]
        # Controllers whose state has these publish less often than they send.
        if field_columns(topic, f'desired.{points}') is None:
            yield from applied_fields(topic, quantity)
        if quantity is not Quantity.EFFORT:
            yield from _present(topic, f'reference.{points}', f'desired.{points}')
    elif topic.msgtype == JOINT_JOG:
        yield from _present(topic, *(['velocities'] if quantity is Quantity.VELOCITY else []))
    else:
        yield from _present(topic, quantity)


def controller_facts(bag: BagColumns, topic: str) -> tuple[list[str], Quantity | None]:
    """Return the joints and the quantity of ``/arm_controller/commands``, as its controller has it.

    The recorder notes them about the session; without notes there are no joints and None.
    """
    try:
        known = json.loads(bag.facts.get('controllers') or '{}')
    except ValueError:
        return [], None
    notes = known if isinstance(known, dict) else {}
    controller = topic.strip('/').rpartition('/')[0]
    facts = next((notes[name] for name in notes if name.strip('/') == controller), None)
    facts = facts if isinstance(facts, dict) else {}
    joints, interface = facts.get('joints'), facts.get('interface')
    return (
        [str(joint) for joint in joints] if isinstance(joints, list) else [],
        Quantity(interface) if interface in list(Quantity) else None,
    )


def fitting_fields(bag: BagColumns, kind: mujoco.mjtSensor, width: int) -> list[Fitting]:
    """Return the fields that carry a quantity, with their columns in the sensor's order."""
    order = {3: _VECTOR, 4: QUATERNION}.get(width)
    found: list[Fitting] = []
    for topic in bag.topics:
        for end in _FIELDS.get(kind, ()):
            fitting = [
                (topic, field, order or field.labels)
                for field in topic.fields
                if f'.{field.name}'.endswith(f'.{end}')
                and (set(order) == set(field.labels) if order else len(field.labels) == width)
                and np.isfinite(field.values).any()
            ]
            found += fitting
            if fitting:
                break
    return found
