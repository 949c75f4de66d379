# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Pairing by the joint names that bag and model share.

Names that differ only in case, separators and affixes are the same where no other name is as near,
and the result says so. Sensors: a JointState's position, velocity and effort of a joint are the
model's jointpos, jointvel and jointactuatorfrc sensors on that joint. Actuators: commands by joint
name go to the actuators whose transmission is that joint. What a trajectory controller says that it
did comes before what it was asked to do: its outputs are what the drives got, its reference what
it interpolated. An array of numbers carries no names: it is taken in the order that the recorder
heard from its controller, else in model order, and the latter only where nothing else is possible;
the result says so.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection, Iterable, Iterator

import mujoco
import numpy as np

from sysid_ros.alignment.health import FindingKind, HealthFinding
from sysid_ros.alignment.mapping.names import SAME_CORE, similarities
from sysid_ros.alignment.pairs import (
    SENSOR_FIELDS,
    Mapping,
    Pair,
    PairRole,
    Unmapped,
    UnmappedKind,
    actuator_names,
    drives_joint,
    field_columns,
    scalar_joints,
    sensor_names,
)
from sysid_ros.bags import BagColumns, Field, TopicColumns
from sysid_ros.bags.message_types import (
    CONTROLLER_STATE,
    JOINT_JOG,
    JOINT_STATE,
    JOINT_TRAJECTORY,
    is_applied,
)
from sysid_ros.errors import AlignmentError, some
from sysid_ros.vocabulary import Quantity, is_command, quantity_of, words_of

STATE = JOINT_STATE
TRAJECTORY = JOINT_TRAJECTORY
ARRAY = 'std_msgs/msg/Float64MultiArray'

#: Types of messages that command joints by name, worst first.
_COMMANDS = (JOINT_JOG, STATE, TRAJECTORY, CONTROLLER_STATE)
#: Fields of a trajectory's points, as a controller's state has them.
_OF_POINTS = {
    Quantity.POSITION: 'positions',
    Quantity.VELOCITY: 'velocities',
    Quantity.EFFORT: 'effort',
}
_SHOWN = 6


#: Topics that are used for a purpose, best first, and the others with the reason.
_TopicChoice = tuple[tuple['TopicColumns', ...], list[Unmapped]]


def auto_mapping(bag: BagColumns, model: mujoco.MjModel, leaders: Collection[str] = ()) -> Mapping:
    """Pair a bag with a model by joint names; positions of arms that lead others are commands.

    Raises:
        AlignmentError: There are no joint states, no name is shared, or the model has no sensor.
    """
    joints = scalar_joints(model)
    states, unused = _state_topics(bag, joints, leaders)
    sensors = _sensor_pairs(bag, states, model, joints)
    if not sensors:
        shared = _joined(joint for topic in states for joint in _shared(topic, joints))
        raise AlignmentError(
            'The model has no jointpos, jointvel or jointactuatorfrc sensor for what the bag '
            f'measures at joints {shared}.'
        )
    actuators, refused, health = _actuator_pairs(bag, model, joints, leaders)
    pairs = (*sensors, *actuators)
    renamed = _renamed(bag, pairs, joints)
    return Mapping(pairs, (*unused, *refused), (*renamed, *health))


def _renamed(
    bag: BagColumns, pairs: tuple[Pair, ...], joints: dict[str, int]
) -> tuple[HealthFinding, ...]:
    """Say which labels were taken for joints that are written otherwise."""
    found = {}
    for topic in bag.topics:
        used = {pair.label for pair in pairs if pair.topic == topic.topic}
        for joint, label in _shared(topic, joints).items():
            if label in used and label != joint:
                detail = f'taken for the joint {joint!r}, whose name differs in writing only'
                subject = f'{topic.topic} {label}'
                found[subject] = HealthFinding(
                    bag.path.name, subject, FindingKind.ASSUMED_ORDER, 1, detail
                )
    return tuple(found.values())


def _labels(topic: TopicColumns) -> tuple[str, ...]:
    return tuple(dict.fromkeys(label for field in topic.fields for label in field.labels))


def _shared(topic: TopicColumns, joints: dict[str, int]) -> dict[str, str]:
    """Return joint of the model to its label in a topic, in the order of the labels."""
    labels = _labels(topic)
    found = {label: label for label in labels if label in joints}
    if len(found) in {len(labels), len(joints)}:
        return found
    left = [label for label in labels if label not in found]
    free = [joint for joint in joints if joint not in found]
    alike = similarities([*left, *found], [*free, *found])[: len(left), : len(free)]
    for row, label in enumerate(left):
        near = np.flatnonzero(alike[row] >= SAME_CORE)
        if len(near) and np.count_nonzero(alike[row] == alike[row].max()) == 1:
            column = int(np.argmax(alike[row]))
            if np.count_nonzero(alike[:, column] == alike[row, column]) == 1:
                found.setdefault(free[column], label)
    order = {label: row for row, label in enumerate(labels)}
    return dict(sorted(found.items(), key=lambda item: order[item[1]]))


def _joined(names: Iterable[str]) -> str:
    return some(dict.fromkeys(names), _SHOWN)


def _state_topics(
    bag: BagColumns, joints: dict[str, int], leaders: Collection[str]
) -> _TopicChoice:
    """Choose the topics that carry the measured state."""
    all_states = [topic for topic in bag.topics if topic.msgtype == STATE]
    states = [
        topic for topic in all_states if not is_command(topic.topic) and topic.topic not in leaders
    ]
    # What a controller measured is as good where nobody publishes it otherwise.
    states = states or [topic for topic in bag.topics if topic.msgtype == CONTROLLER_STATE]
    if not states:
        found = (
            _joined([item.topic for item in bag.topics] + [item.topic for item in bag.unread])
            or 'none'
        )
        what = 'only command topics carry joint states' if all_states else 'there is none'
        raise AlignmentError(
            f'Expected a topic of type {STATE} with the measured state, {what}; topics: {found}.'
        )
    matching = [topic for topic in states if _shared(topic, joints)]
    if not matching:
        labels = list(dict.fromkeys(label for topic in states for label in _labels(topic)))
        raise AlignmentError(_nothing_in_common(labels, list(joints)))

    def rank(topic: TopicColumns) -> tuple[int, bool, int]:
        shared = len(_shared(topic, joints))
        return shared, topic.topic.endswith('joint_states'), len(topic.receive_ns)

    matching.sort(key=rank, reverse=True)
    chosen, refused = _choose_topics(matching, joints, 'the measured state')
    refused += [
        Unmapped(UnmappedKind.TOPIC, topic.topic, 'no joint name in common with the model')
        for topic in states
        if topic not in matching
    ]
    return chosen, refused


def _choose_topics(
    topics: list[TopicColumns], joints: dict[str, int], purpose: str
) -> _TopicChoice:
    """Take topics in order as long as each brings joints that none before it has."""
    owner: dict[str, str] = {}
    chosen: list[TopicColumns] = []
    refused: list[Unmapped] = []
    for topic in topics:
        shared = list(_shared(topic, joints))
        taken = next((owner[label] for label in shared if label in owner), None)
        if taken is not None:
            reason = f'{taken} is taken for {purpose} of the same joints'
            refused.append(Unmapped(UnmappedKind.TOPIC, topic.topic, reason))
            continue
        chosen.append(topic)
        owner.update(dict.fromkeys(shared, topic.topic))
    return tuple(chosen), refused


def _nothing_in_common(labels: list[str], joints: list[str]) -> str:
    lowered = {joint.lower(): joint for joint in joints}
    similar = [
        f'{label} and {lowered[close[0]]}'
        for label in labels
        if (close := difflib.get_close_matches(label.lower(), lowered, n=1, cutoff=0.5))
    ]
    hint = f'nearest: {_joined(similar)}' if similar else 'none are similar, a mapping must say'
    unnamed = ' (its messages carry no names)' if all(label.isdigit() for label in labels) else ''
    return (
        f'No joint name in common: the bag has {_joined(labels) or "none"}{unnamed}, '
        f'the model has {_joined(joints) or "none"}; {hint}; '
        '`sysid map BAG MODEL` proposes a mapping.'
    )


def _sensor_pairs(
    bag: BagColumns,
    states: tuple[TopicColumns, ...],
    model: mujoco.MjModel,
    joints: dict[str, int],
) -> list[Pair]:
    pairs = []
    by_id = {joint: name for name, joint in joints.items()}
    controllers = [topic for topic in bag.topics if topic.msgtype == CONTROLLER_STATE]
    # What is the command of a motor cannot be its measurement, too.
    torqued = {
        int(model.actuator_trnid[actuator, 0])
        for actuator in range(model.nactuator)
        if command_quantity(model, actuator) is Quantity.EFFORT
    }
    shared = {topic.topic: _shared(topic, joints) for topic in (*states, *controllers)}
    taken: set[tuple[str, str]] = set()
    for sensor, name in enumerate(sensor_names(model)):
        field = SENSOR_FIELDS.get(mujoco.mjtSensor(model.sensor_type[sensor]))
        joint = by_id.get(int(model.sensor_objid[sensor]))
        if not name or field is None or joint is None or (field, joint) in taken:
            continue
        found = None
        if field is Quantity.EFFORT and joints[joint] not in torqued:
            found = _column_of(joint, field, controllers, shared, _applied)
        found = found or _column_of(joint, field, states, shared, _measured)
        if found is not None:
            pairs.append(Pair(PairRole.SENSOR, name, *found))
            taken.add((field, joint))
    return pairs


def _column_of(
    joint: str,
    quantity: Quantity,
    topics: Iterable[TopicColumns],
    shared: dict[str, dict[str, str]],
    fields: Callable[[TopicColumns, Quantity], Iterator[Field]],
) -> tuple[str, str, str] | None:
    """Return topic, field and label of the first column that has a quantity of a joint."""
    for topic in topics:
        label = shared[topic.topic].get(joint)
        for columns in fields(topic, quantity):
            if label in columns.labels:
                return topic.topic, columns.name, label
    return None


def _present(topic: TopicColumns, *names: str) -> Iterator[Field]:
    """Yield those fields that a topic has, in the order of the names."""
    found = (field_columns(topic, name) for name in names)
    return (field for field in found if field is not None)


def _measured(topic: TopicColumns, quantity: Quantity) -> Iterator[Field]:
    """Yield the fields that hold what was measured."""
    if topic.msgtype == CONTROLLER_STATE:
        points = _OF_POINTS[quantity]
        return _present(topic, f'feedback.{points}', f'actual.{points}')
    return _present(topic, quantity)


def _applied(topic: TopicColumns, quantity: Quantity) -> Iterator[Field]:
    """Yield what a controller sent to the drives, where it moves."""
    for field in _present(topic, f'output.{_OF_POINTS[quantity]}'):
        finite = np.isfinite(field.values).all(axis=1)
        if finite.any() and np.ptp(field.values[finite], axis=0).any():
            yield field


def _commanded(topic: TopicColumns, quantity: Quantity) -> Iterator[Field]:
    """Yield the fields that hold what was commanded, best first."""
    if topic.msgtype == CONTROLLER_STATE:
        points = _OF_POINTS[quantity]
        # Controllers whose state has these publish less often than they send.
        if field_columns(topic, f'desired.{points}') is None:
            yield from _applied(topic, quantity)
        if quantity is not Quantity.EFFORT:
            yield from _present(topic, f'reference.{points}', f'desired.{points}')
    elif topic.msgtype == JOINT_JOG:
        yield from _present(topic, *(['velocities'] if quantity is Quantity.VELOCITY else []))
    else:
        yield from _present(topic, quantity)


def command_quantity(model: mujoco.MjModel, actuator: int) -> Quantity:
    """Return what an actuator is commanded."""
    if model.actuator_biastype[actuator] != mujoco.mjtBias.mjBIAS_AFFINE:
        return Quantity.EFFORT
    _, position, velocity = model.actuator_biasprm[actuator, :3]
    if position:
        return Quantity.POSITION
    return Quantity.VELOCITY if velocity else Quantity.EFFORT


def _actuator_pairs(
    bag: BagColumns, model: mujoco.MjModel, joints: dict[str, int], leaders: Collection[str]
) -> tuple[list[Pair], list[Unmapped], tuple[HealthFinding, ...]]:
    if not model.nactuator:
        return [], [], ()
    named = [
        topic
        for topic in bag.topics
        if topic.msgtype in _COMMANDS and (topic.msgtype != STATE or is_command(topic.topic))
    ]
    named = [topic for topic in named if _shared(topic, joints)]
    unfit = [topic for topic in named if not _commands_by_joint((topic,), model, joints)]
    named = [topic for topic in named if topic not in unfit]
    # What moves a leader is asked of its follower where nothing else is.
    named = named or [topic for topic in bag.topics if topic.topic in leaders]
    named.sort(
        key=lambda topic: (
            is_applied(topic.msgtype, topic.topic),
            _COMMANDS.index(topic.msgtype),
            len(topic.receive_ns),
        ),
        reverse=True,
    )
    chosen, refused = _choose_topics(named, joints, 'the commands')
    refused += [Unmapped(UnmappedKind.TOPIC, topic.topic, _unfit(topic, model)) for topic in unfit]
    pairs = _commands_by_joint(chosen, model, joints)
    arrays = [topic for topic in bag.topics if topic.msgtype == ARRAY]
    kinds = {command_quantity(model, actuator) for actuator in range(model.nactuator)}
    for topic in list(arrays):
        carried = array_quantity(bag, topic.topic)
        if carried is not None and carried not in kinds:
            arrays.remove(topic)
            reason = f'it carries {carried}, {_taking(model)}'
            refused.append(Unmapped(UnmappedKind.TOPIC, topic.topic, reason))
    if pairs:
        by = _joined(pair.topic for pair in pairs)
        reason = f'carries no names; commands are taken by joint name from {by}'
        refused += [Unmapped(UnmappedKind.TOPIC, topic.topic, reason) for topic in arrays]
        return pairs, refused, ()
    by_controller = _commands_by_controller(bag, arrays, model, joints)
    if by_controller:
        used = {pair.topic for pair in by_controller}
        reason = f'the order of {_joined(used)} is known from its controller'
        refused += [
            Unmapped(UnmappedKind.TOPIC, topic.topic, reason)
            for topic in arrays
            if topic.topic not in used
        ]
        return by_controller, refused, ()
    return _commands_by_order(bag.path.name, arrays, model, refused)


def _unfit(topic: TopicColumns, model: mujoco.MjModel) -> str:
    """Say why no actuator takes the commands of a topic."""
    if topic.msgtype == JOINT_JOG:
        has = 'steps or velocities of a joystick'
    else:
        has = ' and '.join(
            quantity for quantity in Quantity if next(_commanded(topic, quantity), None) is not None
        )
    return f'it commands {has or "no joint"}, {_taking(model)}'


def _taking(model: mujoco.MjModel) -> str:
    """Say what the actuators of a model take."""
    kinds = dict.fromkeys(command_quantity(model, n) for n in range(model.nactuator))
    return f'the actuators of the model take {" and ".join(kinds)}'


def _controllers(bag: BagColumns) -> dict[str, dict[str, object]]:
    """Return controller to what the recorder noted about it."""
    try:
        known = json.loads(bag.facts.get('controllers') or '{}')
    except ValueError:
        return {}
    if not isinstance(known, dict):
        return {}
    return {str(name).strip('/'): facts for name, facts in known.items() if isinstance(facts, dict)}


def controller_joints(bag: BagColumns) -> dict[str, list[str]]:
    """Return controller to its joints, from what the recorder noted about the session."""
    return {
        name: [str(joint) for joint in joints]
        for name, facts in _controllers(bag).items()
        if isinstance(joints := facts.get('joints'), list)
    }


def array_quantity(bag: BagColumns, topic: str) -> Quantity | None:
    """Return what an array of commands carries, by its controller or its topic's name, or None."""
    facts = _controllers(bag).get(controller_of(topic), {})
    if (interface := facts.get('interface')) in list(Quantity):
        return Quantity(str(interface))
    # Words for positions are in the topic that people take for any command.
    found = quantity_of(words_of(topic))
    return None if found is Quantity.POSITION else found


def controller_of(topic: str) -> str:
    """Return the controller that a topic such as ``/arm_controller/commands`` belongs to."""
    return topic.strip('/').rpartition('/')[0]


def _commands_by_controller(
    bag: BagColumns, arrays: list[TopicColumns], model: mujoco.MjModel, joints: dict[str, int]
) -> list[Pair]:
    """Pair arrays whose controller says which joint each element is."""
    orders = controller_joints(bag)
    pairs = []
    for actuator, name in enumerate(actuator_names(model)):
        if not name or not drives_joint(model, actuator):
            continue
        for topic in arrays:
            order = orders.get(controller_of(topic.topic), [])
            ids = [joints.get(joint) for joint in order]
            joint = int(model.actuator_trnid[actuator, 0])
            carried = array_quantity(bag, topic.topic) or command_quantity(model, actuator)
            fits = carried is command_quantity(model, actuator)
            if fits and len(order) == _width(topic) and joint in ids:
                label = str(ids.index(joint))
                pairs.append(Pair(PairRole.ACTUATOR, name, topic.topic, 'data', label))
                break
    return pairs


def controller_meaning(topic: TopicColumns) -> dict[str, tuple[Quantity, bool]]:
    """Return field of a controller's state to what it is and whether it was commanded.

    Fields that are neither the state nor the best there is of the commands are left out.
    """
    found = {}
    for quantity in Quantity:
        for fields, commanded in ((_measured, False), (_commanded, True)):
            for field in fields(topic, quantity):
                found[field.name] = quantity, commanded
                break
    return found


def _commands_by_joint(
    topics: tuple[TopicColumns, ...], model: mujoco.MjModel, joints: dict[str, int]
) -> list[Pair]:
    pairs = []
    by_id = {joint: name for name, joint in joints.items()}
    shared = {topic.topic: _shared(topic, joints) for topic in topics}
    for actuator, name in enumerate(actuator_names(model)):
        joint = by_id.get(int(model.actuator_trnid[actuator, 0]))
        if not name or joint is None or not drives_joint(model, actuator):
            continue
        quantity = command_quantity(model, actuator)
        found = _column_of(joint, quantity, topics, shared, _commanded)
        if found is not None:
            pairs.append(Pair(PairRole.ACTUATOR, name, *found))
    return pairs


def _commands_by_order(
    bag: str, arrays: list[TopicColumns], model: mujoco.MjModel, refused: list[Unmapped]
) -> tuple[list[Pair], list[Unmapped], tuple[HealthFinding, ...]]:
    """Pair an array with the actuators in model order, if there is exactly one candidate."""
    candidates = [topic for topic in arrays if is_command(topic.topic)] or arrays
    fitting = [topic for topic in candidates if _width(topic) == model.nactuator]
    names = actuator_names(model)
    if len(fitting) != 1 or not all(names):
        reason = f'{len(fitting)} arrays have as many elements as the model has actuators'
        for topic in candidates:
            if topic not in fitting:
                count = model.nactuator
                why = f'{_width(topic)} elements without names, the model has {count} actuators'
            else:
                why = reason if len(fitting) > 1 else 'an actuator of the model has no name'
            refused.append(Unmapped(UnmappedKind.TOPIC, topic.topic, why))
        return [], refused, ()
    (topic,) = fitting
    pairs = [
        Pair(PairRole.ACTUATOR, name, topic.topic, 'data', str(index))
        for index, name in enumerate(names)
    ]
    detail = f'carries no names; taken in the order of the model: {_joined(names)}'
    finding = HealthFinding(bag, topic.topic, FindingKind.ASSUMED_ORDER, len(names), detail)
    return pairs, refused, (finding,)


def _width(topic: TopicColumns) -> int:
    """Return the number of elements of an array that is always whole, else 0."""
    field = field_columns(topic, 'data')
    if field is None or np.isnan(field.values).all(axis=1).any():
        return 0
    return len(field.labels)
