# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Pairing the columns of a bag with the sensors and actuators of a model.

By a mapping, or by the joint names that both share, also where these differ only in writing. What
a controller did comes before what it was asked to do. An array without names is taken in the order
of its controller, else of the model where it is the only one. What the motion contradicts is
refused.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import mujoco
import numpy as np

from sysid_ros.alignment.axes import (
    AxesMotion,
    Axis,
    AxisColumn,
    check_one_arm,
    find_axes,
    find_leaders,
    make_motion,
    recorded_joints,
    respond,
    velocity_response,
)
from sysid_ros.alignment.health import (
    CLEAR,
    FACTOR,
    MOST,
    UNSIGNED,
    FindingKind,
    HealthFinding,
    are_magnitudes,
    dead_columns,
)
from sysid_ros.alignment.pairs import (
    ARRAY,
    NO_FORCE,
    SAME_CORE,
    SENSOR_FIELDS,
    FieldsOf,
    Mapping,
    Pair,
    PairRole,
    Unmapped,
    UnmappedKind,
    actuator_names,
    applied_fields,
    are_switched,
    column_name,
    command_quantity,
    commanded_fields,
    controller_facts,
    field_columns,
    measured_fields,
    not_read,
    pair_columns,
    raw_values,
    scalar_joints,
    sensor_names,
    similarities,
    topic_columns,
    topic_labels,
    without_counterpart,
)
from sysid_ros.alignment.possible import possible
from sysid_ros.alignment.search import Mechanism, contradiction, motion_bases
from sysid_ros.alignment.vectors import vector_pairs
from sysid_ros.bags import BagColumns, TopicColumns
from sysid_ros.bags.message_types import (
    CONTROLLER_STATE,
    JOINT_JOG,
    JOINT_STATE,
    JOINT_TRAJECTORY,
    canonical,
    is_applied,
)
from sysid_ros.config.schema import ChannelMapping, MappingConfig
from sysid_ros.errors import AlignmentError, listed, nearest
from sysid_ros.model.elements import driven_joint, sensor_unit
from sysid_ros.model.loading import (
    ActuatorKind,
    add_actuators,
    compile_spec,
    free_joints,
    implied_actuators,
    takes_efforts,
)
from sysid_ros.vocabulary import Quantity, is_command, quantity_of, words_of

#: Types of messages that command joints by name, worst first.
_COMMANDS = (JOINT_JOG, JOINT_STATE, JOINT_TRAJECTORY, CONTROLLER_STATE)
#: How a complaint ends.
_ADVICE = '`sysid map BAG MODEL` proposes a mapping'
#: Why an effort is left out beside one that is no torque: a driver has one unit for all hinges, and
#: one for all slides.
_OTHERS = 'others of its message are no torques'


def map_columns(
    bag: BagColumns, model: mujoco.MjModel, mapping: Literal['auto'] | MappingConfig
) -> Mapping:
    """Pair a bag with a model.

    ``'auto'`` pairs by the joint names in both and by what the model's sensors and actuators refer
    to; a mapping pairs what it names and nothing else.

    Raises:
        AlignmentError: Nothing can be paired, the data contradict the names, or the mapping names
            what is not there.
    """
    if mapping == 'auto':
        leaders = find_leaders(bag)
        check_one_arm(bag, leaders, scalar_joints(model))
        found = _checked(bag, model, _ByName(bag, model, leaders).mapping())
        found = possible(bag, model, found)
        _check_drives(bag, model, found.pairs, {})
        axes = _axes(bag, model, found.pairs)
        motion = make_motion(axes)
        reason = next(_contradictions(model, axes, motion), None)
        if reason is not None:
            raise AlignmentError(f'Mapping by names cannot be right: {reason}; {_ADVICE}.')
        why = {} if motion is None else _no_torques(model, found.pairs, axes, motion)
        return _without(bag, found, why)
    widths = [int(width) for width in model.sensor_dim]
    pairs = [
        *_explicit(bag, PairRole.SENSOR, mapping.sensors, sensor_names(model), widths),
        *_explicit(
            bag, PairRole.ACTUATOR, mapping.actuators, actuator_names(model), [1] * model.nactuator
        ),
    ]
    _check_drives(bag, model, pairs, mapping.actuators)
    if not mapping.sensors:
        raise AlignmentError(
            f'The mapping names no sensor, or none without a #; '
            f'{nearest("", filter(None, sensor_names(model)))}.'
        )
    health, dead = [], _dead(bag)
    for pair in pairs:
        channel = column_name(pair.topic, pair.field, pair.label)
        if not np.isfinite(raw_values(bag, pair)).any():
            raise AlignmentError(
                f'The mapping pairs {pair.role.value} {pair.name!r} with {channel}, '
                'which has no finite value in the bag.'
            )
        if (
            pair.role is PairRole.SENSOR
            and sensor_unit(model, pair.name) == 'N'
            and 'scale' not in mapping.sensors[pair.name].model_fields_set
            and are_switched(raw_values(bag, pair))
        ):
            raise AlignmentError(
                f'The mapping pairs sensor {pair.name!r} with {channel}, which is 0 or 1: '
                f'{NO_FORCE}.'
            )
        if pair.role is PairRole.SENSOR and pair[2:5] in dead:
            detail = f'never changes; kept as {pair.name!r} because the mapping names it'
            health.append(
                HealthFinding(bag.path.name, channel, FindingKind.DEAD_CHANNEL, 1, detail)
            )
    found = _completed(bag, model, Mapping(tuple(pairs), (), tuple(health)), 'not in the mapping')
    return possible(bag, model, found)


def _check_drives(
    bag: BagColumns, model: mujoco.MjModel, pairs: Iterable[Pair], said: dict[str, ChannelMapping]
) -> None:
    """Refuse currents and the like as forces of actuators where nobody says what a unit is."""
    for pair in (pair for pair in pairs if pair.role is PairRole.ACTUATOR):
        quantity = command_quantity(model, model.actuator(pair.name).id)
        column = AxisColumn.of(topic_columns(bag, pair.topic), pair_columns(bag, pair), pair.label)
        channel = said.get(pair.name)
        kind = column.kind if channel is None or channel.kind == 'torque' else channel.kind
        scaled = channel is not None and 'scale' in channel.model_fields_set
        if quantity is Quantity.EFFORT and kind != 'torque' and not scaled:
            raise AlignmentError(
                f'Expected how many N·m (N) a unit of {column.name} is, a {kind} that drives '
                f'actuator {pair.name!r}, found nothing: give it a scale in the mapping, from '
                f'which actuator/{pair.name}/gear[0] may be identified; {_ADVICE}.'
            )


def _dead(bag: BagColumns) -> set[tuple[str, str, str]]:
    """Return topic, field and label of the columns that never change while others move."""
    return {
        (topic.topic, field.name, label)
        for topic in bag.topics
        for field, label in dead_columns(topic)
    }


def _explicit(
    bag: BagColumns,
    role: PairRole,
    channels: dict[str, ChannelMapping],
    names: list[str],
    widths: list[int],
) -> list[Pair]:
    """Return the pairs that a mapping names, in the order of the model."""
    for name in channels:
        if name not in names:
            hint = nearest(name, filter(None, names))
            raise AlignmentError(
                f'The mapping names {role.value} {name!r}, which the model does not have; {hint}.'
            )
    pairs = []
    for name in sorted(channels, key=names.index):
        channel = channels[name]
        labels = channel_labels(bag, f'{role.value} {name!r}', channel, widths[names.index(name)])
        where, how = (channel.topic, channel.field), (channel.scale, channel.offset)
        pairs += [Pair(role, name, *where, label, *how, k) for k, label in enumerate(labels)]
    return pairs


def channel_labels(
    bag: BagColumns, subject: str, channel: ChannelMapping, width: int
) -> tuple[str, ...]:
    """Return the columns that a mapping means for a subject with so many values.

    Raises:
        AlignmentError: The bag has no such topic, field or label, or not so many.
    """
    topics = [item.topic for item in bag.topics]
    start = f'The mapping pairs {subject} with'
    if channel.topic not in topics:
        unread = next((item for item in bag.unread if item.topic == channel.topic), None)
        if unread is not None:
            raise AlignmentError(
                f'{start} topic {channel.topic!r} of type {unread.msgtype}: {unread.reason}.'
            )
        hint = nearest(channel.topic, topics)
        raise AlignmentError(f'{start} topic {channel.topic!r}, which is not in the bag; {hint}.')
    topic = topic_columns(bag, channel.topic)
    field = field_columns(topic, channel.field)
    if field is None:
        hint = nearest(channel.field, [item.name for item in topic.fields])
        raise AlignmentError(
            f'{start} field {channel.field!r} of {channel.topic!r}, which it does not have; {hint}.'
        )
    where = f'{channel.topic} {channel.field}'
    chosen = channel.labels or ((channel.label,) if channel.label is not None else field.labels)
    for label in chosen:
        if label not in field.labels:
            hint = nearest(label, field.labels)
            raise AlignmentError(
                f'{start} label {label!r} of {where}, which it does not have; {hint}.'
            )
    if len(chosen) != width:
        values = 'one value' if width == 1 else f'{width} values'
        found = f'{len(chosen)} of {where} ({listed(chosen)})'
        raise AlignmentError(
            f'Expected {values} for {subject}, found {found}; {nearest("", field.labels)}.'
        )
    return chosen


class _ByName:
    """Pairs a bag with a model by the names of joints.

    ``shared`` is topic to the joints of the model that it has, and their labels there.
    """

    def __init__(self, bag: BagColumns, model: mujoco.MjModel, leaders: Collection[str]) -> None:
        """Compare the names; positions of arms that lead others are commands."""
        self._bag, self._model, self._leaders = bag, model, leaders
        self.joints = scalar_joints(model)
        self._names = {joint: name for name, joint in self.joints.items()}
        self.shared = {topic.topic: _shared(topic, self.joints) for topic in bag.topics}
        self._quantities = [command_quantity(model, item) for item in range(model.nactuator)]
        drives = {name: row for row, name in self._driven_by() if name not in self.joints}
        #: Topic to actuators, by index, that it calls by their name or their tendon's, and that.
        self._drives = {
            topic.topic: {
                drives[label]: label
                for label in topic_labels(topic)
                if label in drives and label not in self.shared[topic.topic].values()
            }
            for topic in bag.topics
        }
        self.unused: list[Unmapped] = []
        self.health: list[HealthFinding] = []

    def _driven_by(self) -> Iterator[tuple[int, str]]:
        """Yield the actuators, with each name that commands may call them."""
        model = self._model
        for row, name in enumerate(actuator_names(model)):
            tendon = self._tendon(row)
            yield from ((row, own) for own in (tendon, name) if own)

    def _tendon(self, actuator: int) -> str:
        """Return the tendon that an actuator pulls; empty where it pulls none."""
        if self._model.actuator_trntype[actuator] != mujoco.mjtTrn.mjTRN_TENDON:
            return ''
        index = int(self._model.actuator_trnid[actuator, 0])
        return mujoco.mj_id2name(self._model, mujoco.mjtObj.mjOBJ_TENDON, index) or ''

    def mapping(self) -> Mapping:
        """Pair sensors with what is measured, and actuators with commands."""
        states = self._state_topics()
        sensors = self._sensors(states)
        if not sensors:
            joints = dict.fromkeys(j for topic in states for j in self.shared[topic.topic])
            raise AlignmentError(
                'The model has no jointpos, jointvel or jointactuatorfrc sensor for what the bag '
                f'measures at joints {listed(joints)}.'
            )
        pairs = (*sensors, *(self._actuators() if self._model.nactuator else ()))
        used = {(pair.topic, pair.label) for pair in pairs}
        for topic, shared in self.shared.items():
            for joint, label in shared.items():
                if label != joint and (topic, label) in used:
                    detail = f'taken for the joint {joint!r}, whose name differs in writing only'
                    self._assume(f'{topic} {label}', 1, detail)
        return Mapping(pairs, tuple(self.unused), tuple(self.health))

    def commands(self) -> Mapping:
        """Pair actuators with commands."""
        pairs = self._actuators() if self._model.nactuator else []
        return Mapping(tuple(pairs), tuple(self.unused), tuple(self.health))

    def _refuse(self, topic: TopicColumns, reason: str) -> None:
        self.unused.append(Unmapped(UnmappedKind.TOPIC, topic.topic, reason))

    def _assume(self, subject: str, count: int, detail: str) -> None:
        kind = FindingKind.ASSUMED_ORDER
        self.health.append(HealthFinding(self._bag.path.name, subject, kind, count, detail))

    def _state_topics(self) -> list[TopicColumns]:
        """Choose the topics that carry the measured state."""
        bag = self._bag
        all_states = [topic for topic in bag.topics if canonical(topic.msgtype) == JOINT_STATE]
        states = [
            topic
            for topic in all_states
            if not is_command(topic.topic) and topic.topic not in self._leaders
        ]
        # What a controller measured is as good where nobody publishes it otherwise.
        states = states or [topic for topic in bag.topics if topic.msgtype == CONTROLLER_STATE]
        if not states:
            what = 'only command topics carry joint states' if all_states else 'there is none'
            topics = listed(item.topic for item in bag.topics) or 'none'
            raise AlignmentError(
                f'Expected a topic of type {JOINT_STATE} with the measured state, {what}; '
                f'{"; ".join([f"topics: {topics}", *not_read(bag.unread)])}.'
            )
        matching = [topic for topic in states if self.shared[topic.topic]]
        if not matching:
            labels = list(dict.fromkeys(label for topic in states for label in topic_labels(topic)))
            raise AlignmentError(_nothing_in_common(labels, list(self.joints)))
        matching.sort(
            key=lambda topic: (
                len(self.shared[topic.topic]),
                topic.topic.endswith('joint_states'),
                len(topic.receive_ns),
            ),
            reverse=True,
        )
        chosen = self._choose(matching, 'the measured state')
        for topic in states:
            if topic not in matching:
                self._refuse(topic, 'no joint name in common with the model')
        return chosen

    def _choose(self, topics: list[TopicColumns], purpose: str) -> list[TopicColumns]:
        """Take topics in order as long as each brings joints that none before it has."""
        owner: dict[str, str] = {}
        chosen = []
        for topic in topics:
            shared = self.shared[topic.topic]
            taken = next((owner[joint] for joint in shared if joint in owner), None)
            if taken is not None:
                self._refuse(topic, f'{taken} is taken for {purpose} of the same joints')
                continue
            chosen.append(topic)
            owner.update(dict.fromkeys(shared, topic.topic))
        return chosen

    def _sensors(self, states: list[TopicColumns]) -> list[Pair]:
        model = self._model
        controllers = [topic for topic in self._bag.topics if topic.msgtype == CONTROLLER_STATE]
        # What is the command of a motor cannot be its measurement, too.
        torqued = {
            int(model.actuator_trnid[actuator, 0])
            for actuator, quantity in enumerate(self._quantities)
            if quantity is Quantity.EFFORT
        }
        pairs = []
        taken: set[tuple[Quantity, int]] = set()
        for sensor, name in enumerate(sensor_names(model)):
            quantity = SENSOR_FIELDS.get(mujoco.mjtSensor(model.sensor_type[sensor]))
            joint = int(model.sensor_objid[sensor])
            if not name or quantity is None or (quantity, joint) in taken:
                continue
            found, labels = None, self._labels(joint)
            if quantity is Quantity.EFFORT and joint not in torqued:
                found = _column(labels, quantity, controllers, applied_fields)
            found = found or _column(labels, quantity, states, measured_fields)
            if found is not None:
                pairs.append(Pair(PairRole.SENSOR, name, *found))
                taken.add((quantity, joint))
        return pairs

    def _labels(self, joint: int, actuator: int = -1) -> dict[str, str]:
        """Return topic to what it calls a joint, or the actuator that drives it."""
        own = {
            topic: drives[actuator] for topic, drives in self._drives.items() if actuator in drives
        }
        name = self._names.get(joint, '')
        return own | {topic: found[name] for topic, found in self.shared.items() if name in found}

    def _driving(self) -> Iterator[tuple[int, str, int, Quantity]]:
        """Yield the actuators with a name: index, name, joint or -1, and what they take."""
        for actuator, name in enumerate(actuator_names(self._model)):
            if name:
                joint = driven_joint(self._model, actuator)
                yield actuator, name, joint, self._quantities[actuator]

    def _actuators(self) -> list[Pair]:
        bag = self._bag
        named = [
            topic
            for topic in bag.topics
            if canonical(topic.msgtype) in _COMMANDS
            and (canonical(topic.msgtype) != JOINT_STATE or is_command(topic.topic))
            and (self.shared[topic.topic] or self._drives[topic.topic])
        ]
        unfit = [topic for topic in named if not self._by_joint([topic])]
        named = [topic for topic in named if topic not in unfit]
        # What moves a leader is asked of its follower where nothing else is.
        named = named or [topic for topic in bag.topics if topic.topic in self._leaders]
        named.sort(
            key=lambda topic: (
                is_applied(topic.msgtype, topic.topic),
                _COMMANDS.index(canonical(topic.msgtype)),
                len(topic.receive_ns),
            ),
            reverse=True,
        )
        pairs = self._by_joint(self._choose(named, 'the commands'))
        taken = ' and '.join(dict.fromkeys(self._quantities))
        for topic in unfit:
            has = ' and '.join(q for q in Quantity if next(commanded_fields(topic, q), None))
            reason = f'it commands {has or "no joint"}, the actuators of the model take {taken}'
            self._refuse(topic, self._not_alone(topic) or reason)
        arrays = []
        for topic in bag.topics:
            if topic.msgtype == ARRAY:
                carried = self._carried(topic)
                if carried is None or carried in self._quantities:
                    arrays.append(topic)
                else:
                    reason = f'it carries {carried}, the actuators of the model take {taken}'
                    self._refuse(topic, reason)
        if not pairs:
            return self._by_controller(arrays) or self._by_order(arrays)
        by = listed(dict.fromkeys(pair.topic for pair in pairs))
        for topic in arrays:
            reason = f'carries no names; commands are taken by joint name from {by}'
            self._refuse(topic, reason)
        return pairs

    def _by_joint(self, topics: list[TopicColumns]) -> list[Pair]:
        return [
            Pair(PairRole.ACTUATOR, name, *found)
            for row, name, joint, quantity in self._driving()
            if (found := _column(self._labels(joint, row), quantity, topics, commanded_fields))
            is not None
        ]

    def _not_alone(self, topic: TopicColumns) -> str:
        """Say which actuator moves a joint that is commanded together with others; else nothing."""
        model = self._model
        for joint, label in self.shared[topic.topic].items():
            for row, name, _, quantity in self._driving():
                tendon = self._tendon(row)
                if not tendon or self.joints[joint] not in _pulled(model, row):
                    continue
                for field in commanded_fields(topic, quantity):
                    line = f'{{topic: {topic.topic}, field: {field.name}, label: {label}}}'
                    return (
                        f'no actuator of the model drives joint {joint!r} alone, {name!r} does so '
                        f'by tendon {tendon!r}; where that is meant, its line in the mapping under '
                        f'actuators is {name}: {line}'
                    )
        return ''

    def _carried(self, topic: TopicColumns) -> Quantity | None:
        """Return what an array of commands carries, by its controller or its topic's name."""
        _, interface = controller_facts(self._bag, topic.topic)
        # Words for positions are in the topic that people take for any command.
        found = interface or quantity_of(words_of(topic.topic))
        return found if interface or found is not Quantity.POSITION else None

    def _by_controller(self, arrays: list[TopicColumns]) -> list[Pair]:
        """Pair arrays whose controller says which joint each element is."""
        pairs = []
        for _, name, joint, quantity in self._driving():
            for topic in arrays:
                order, _ = controller_facts(self._bag, topic.topic)
                ids = [self.joints.get(item) for item in order]
                fits = self._carried(topic) in {None, quantity}
                if fits and len(order) == _width(topic) and joint in ids:
                    label = str(ids.index(joint))
                    pairs.append(Pair(PairRole.ACTUATOR, name, topic.topic, 'data', label))
                    break
        used = dict.fromkeys(pair.topic for pair in pairs)
        for topic in arrays:
            if used and topic.topic not in used:
                reason = f'the order of {listed(used)} is known from its controller'
                self._refuse(topic, reason)
        return pairs

    def _by_order(self, arrays: list[TopicColumns]) -> list[Pair]:
        """Pair an array with the actuators in model order, if there is exactly one candidate."""
        names = actuator_names(self._model)
        candidates = [topic for topic in arrays if is_command(topic.topic)] or arrays
        fitting = [topic for topic in candidates if _width(topic) == len(names)]
        if len(fitting) != 1:
            for topic in candidates:
                reason = f'{_width(topic)} elements without names, the model has {len(names)} '
                self._refuse(topic, f'{reason}actuators, and {len(fitting)} arrays have as many')
            return []
        array = fitting[0].topic
        detail = f'carries no names; taken in the order of the model: {listed(names)}'
        self._assume(array, len(names), detail)
        return [
            Pair(PairRole.ACTUATOR, name, array, 'data', str(index))
            for index, name in enumerate(names)
            if name
        ]


def commands_by_name(bag: BagColumns, model: mujoco.MjModel) -> Mapping:
    """Pair the actuators of a model with commands by names, or by the order of an array."""
    return _ByName(bag, model, find_leaders(bag)).commands()


def _column(
    labels: dict[str, str], quantity: Quantity, topics: Iterable[TopicColumns], fields: FieldsOf
) -> tuple[str, str, str] | None:
    """Return topic, field and label of the first column that has a quantity, by label per topic."""
    for topic in topics:
        label = labels.get(topic.topic, '')
        for columns in fields(topic, quantity):
            if label and label in columns.labels:
                return topic.topic, columns.name, label
    return None


def _pulled(model: mujoco.MjModel, actuator: int) -> set[int]:
    """Return the joints that an actuator pulls by a fixed tendon."""
    tendon = int(model.actuator_trnid[actuator, 0])
    first, count = int(model.tendon_adr[tendon]), int(model.tendon_num[tendon])
    rows = range(first, first + count)
    return {
        int(model.wrap_objid[row])
        for row in rows
        if model.wrap_type[row] == mujoco.mjtWrap.mjWRAP_JOINT
    }


def _shared(topic: TopicColumns, joints: dict[str, int]) -> dict[str, str]:
    """Return joint of the model to its label in a topic, in the order of the labels."""
    labels = topic_labels(topic)
    found = {label: label for label in labels if label in joints}
    if len(found) in {len(labels), len(joints)}:
        return found
    left = [label for label in labels if label not in found]
    free = [joint for joint in joints if joint not in found]
    alike = similarities([*left, *found], [*free, *found])[: len(left), : len(free)]
    for row, label in enumerate(left):
        column = int(np.argmax(alike[row]))
        best = alike[row, column]
        alone = [np.count_nonzero(of == best) == 1 for of in (alike[row], alike[:, column])]
        if best >= SAME_CORE and all(alone):
            found.setdefault(free[column], label)
    return dict(sorted(found.items(), key=lambda item: labels.index(item[1])))


def _nothing_in_common(labels: list[str], joints: list[str]) -> str:
    lowered = {joint.lower(): joint for joint in joints}
    similar = [
        f'{label} and {lowered[close[0]]}'
        for label in labels
        if (close := difflib.get_close_matches(label.lower(), lowered, n=1, cutoff=0.5))
    ]
    hint = 'none are similar, a mapping must say'
    hint = f'nearest: {listed(similar)}' if similar else hint
    unnamed = ' (its messages carry no names)' if all(label.isdigit() for label in labels) else ''
    return (
        f'No joint name in common: the bag has {listed(labels) or "none"}{unnamed}, '
        f'the model has {listed(joints) or "none"}; {hint}; {_ADVICE}.'
    )


def _width(topic: TopicColumns) -> int:
    """Return the number of elements of an array that is always whole, else 0."""
    field = field_columns(topic, 'data')
    if field is None or np.isnan(field.values).all(axis=1).any():
        return 0
    return len(field.labels)


#: Why a pair is left out: kind of the finding, and what was found.
_LeftOut = tuple[FindingKind, str]


def _without(bag: BagColumns, mapping: Mapping, why: dict[Pair, _LeftOut]) -> Mapping:
    """Leave out pairs, and say why in findings."""
    health, unmapped = list(mapping.health), list(mapping.unmapped)
    for pair, (kind, detail) in why.items():
        channel = column_name(pair.topic, pair.field, pair.label)
        count = len(topic_columns(bag, pair.topic).receive_ns)
        text = f'{detail}; {pair.name!r} left out'
        health.append(HealthFinding(bag.path.name, channel, kind, count, text, left_out=pair.name))
        unmapped.append(Unmapped(UnmappedKind(pair.role.value), pair.name, f'{channel}: {detail}'))
    kept = tuple(pair for pair in mapping.pairs if pair not in why)
    return Mapping(kept, tuple(unmapped), tuple(health))


def _checked(bag: BagColumns, model: mujoco.MjModel, found: Mapping) -> Mapping:
    """Leave out columns that hold nothing, then complete the mapping."""
    dead = _dead(bag)
    why: dict[Pair, _LeftOut] = {}
    for pair in found.pairs:
        if not np.isfinite(raw_values(bag, pair)).any():
            why[pair] = FindingKind.MISSING, 'no finite value in the whole bag'
        elif pair.role is PairRole.SENSOR and pair[2:5] in dead:
            why[pair] = FindingKind.DEAD_CHANNEL, 'never changes while others move'
        elif pair.field == Quantity.EFFORT and are_magnitudes(pair_columns(bag, pair)):
            why[pair] = FindingKind.NO_TORQUE, UNSIGNED
    why |= _computed(bag, model, found.pairs)
    mapping = _without(bag, found, why)
    if not any(pair.role is PairRole.SENSOR for pair in mapping.pairs):
        raise AlignmentError(
            f'No column of {bag.path.name!r} is usable as a measurement: '
            f'{mapping.health[-1].detail}.'
        )
    mapping = _with_vectors(bag, model, mapping)
    return _completed(bag, model, mapping, 'no column of the bag refers to it', why)


def _with_vectors(bag: BagColumns, model: mujoco.MjModel, found: Mapping) -> Mapping:
    """Add the sensors of no joint whose fields are certain."""
    certain = [each for each in vector_pairs(bag, model, found.pairs) if each.score >= CLEAR]
    added = [pair for each in certain for pair in each.pairs()]
    kind, name = FindingKind.ASSUMED_UNIT, bag.path.name
    scaled = [
        HealthFinding(name, f'{each.topic} {each.field}', kind, 1, f'{each.name!r}: {each.reason}')
        for each in certain
        if each.scale != 1
    ]
    order = {name: row for row, name in enumerate(sensor_names(model))}
    sensors = [pair for pair in (*found.pairs, *added) if pair.role is PairRole.SENSOR]
    sensors.sort(key=lambda pair: order[pair.name])
    actuators = [pair for pair in found.pairs if pair.role is PairRole.ACTUATOR]
    pairs, health = (*sensors, *actuators), (*found.health, *scaled)
    return dataclasses.replace(found, pairs=pairs, health=health)


def _computed(
    bag: BagColumns, model: mujoco.MjModel, pairs: Iterable[Pair]
) -> dict[Pair, _LeftOut]:
    """Return the sensors of mimic joints whose values were computed from those of their leaders."""
    by_joint = {
        (int(model.sensor(pair.name).objid[0]), SENSOR_FIELDS[kind]): pair
        for pair in pairs
        if pair.role is PairRole.SENSOR
        if (kind := mujoco.mjtSensor(int(model.sensor(pair.name).type[0]))) in SENSOR_FIELDS
    }
    why = {}
    for follower in Mechanism(model).followers:
        for quantity in (Quantity.POSITION, Quantity.VELOCITY):
            own = by_joint.get((follower.joint, quantity))
            leader = by_joint.get((follower.leader, quantity))
            if own is None or leader is None:
                continue
            if follower.is_computed(quantity, raw_values(bag, own), raw_values(bag, leader)):
                name = model.joint(follower.leader).name
                why[own] = FindingKind.MIMIC, f'computed from joint {name!r}'
    return why


def _completed(
    bag: BagColumns,
    model: mujoco.MjModel,
    mapping: Mapping,
    reason: str,
    left_out: Iterable[Pair] = (),
) -> Mapping:
    """Name all without a counterpart; pairs that were left out have a finding already."""
    elements = {(pair.role, pair.name) for pair in mapping.pairs}
    columns = {pair[2:5] for pair in (*mapping.pairs, *left_out)}
    unmapped = without_counterpart(bag, model, elements, columns, mapping.unmapped, reason)
    idle = tuple(
        HealthFinding(
            bag.path.name, item.name, FindingKind.UNMAPPED, 1, f'{item.reason}; its control stays 0'
        )
        for item in unmapped
        if item.kind is UnmappedKind.ACTUATOR
    )
    return Mapping(mapping.pairs, unmapped, (*mapping.health, *idle))


def _axes(bag: BagColumns, model: mujoco.MjModel, pairs: Sequence[Pair]) -> list[Axis]:
    """Return the pairs as axes, which have the names of the model's joints."""
    found: dict[tuple[bool, str], Axis] = {}
    driven = Mechanism(model).driven
    for pair in pairs:
        commanded = pair.role is PairRole.ACTUATOR
        if commanded:
            joint = driven.get(model.actuator(pair.name).id)
            # Gears and units of controls other than positions leave signs and factors open.
            if joint is None or joint.drive is None or not joint.drive.takes_positions:
                continue
            name, quantity = joint.name, Quantity.POSITION
        else:
            sensor = model.sensor(pair.name)
            kind = mujoco.mjtSensor(int(sensor.type[0]))
            if kind not in SENSOR_FIELDS:
                continue
            name, quantity = model.joint(int(sensor.objid[0])).name, SENSOR_FIELDS[kind]
        axis = found.setdefault((commanded, name), Axis(name, commanded, {}))
        topic = topic_columns(bag, pair.topic)
        axis.columns[quantity] = AxisColumn.of(topic, pair_columns(bag, pair), pair.label)
    return list(found.values())


def _no_torques(
    model: mujoco.MjModel, pairs: Sequence[Pair], axes: list[Axis], motion: AxesMotion
) -> dict[Pair, _LeftOut]:
    """Return efforts that are no torques by what the model needs, and their message's alike."""
    mechanism, rows = Mechanism(model), motion.judged
    places = {joint.name: place for place, joint in enumerate(mechanism.joints)}
    measured = {
        row: places[axis.name]
        for row, axis in enumerate(axes)
        if not axis.commanded and axis.name in places
    }
    moved = {
        place: motion.signals[row, Quantity.POSITION].at(rows)
        for row, place in measured.items()
        if (row, Quantity.POSITION) in motion.signals
    }
    if not mechanism.fixed or not moved:
        return {}
    torques = mechanism.needed(moved, len(rows))
    efforts: dict[tuple[str, ...], bool] = {}
    told: dict[tuple[str, ...], str] = {}
    for row, place in measured.items():
        joint, column = mechanism.joints[place], axes[row].columns.get(Quantity.EFFORT)
        if column is None:
            continue
        efforts[column[:3]] = joint.hinge
        effort = motion.signals.get((row, Quantity.EFFORT))
        if effort is None or place not in moved:
            continue
        bases = motion_bases(torques[:, place], moved[place])
        times = contradiction(joint, effort.values[rows], bases)
        if times is not None:
            size = f'{times:.0f}' if times >= 1 else f'{times:.1g}'
            told[column[:3]] = f'it is {size} times the torque that the model needs'
            if times < 0:
                told[column[:3]] = 'it goes against the torque that the model needs'
    wrong = {(*column[:2], efforts[column]) for column in told}
    why = {
        pair: (FindingKind.NO_TORQUE, told.get(pair[2:5], _OTHERS))
        for pair in pairs
        if pair.role is PairRole.SENSOR
        and (pair.topic, pair.field, efforts.get(pair[2:5])) in wrong
    }
    return dict(sorted(why.items(), key=lambda item: item[1][1] == _OTHERS))


def _contradictions(
    model: mujoco.MjModel, axes: list[Axis], motion: AxesMotion | None
) -> Iterator[str]:
    """Yield what cannot be right about pairs by names, which have no scales and offsets."""
    for axis in axes:
        column, joint = axis.columns.get(Quantity.POSITION), model.joint(axis.name)
        if column is not None and column.span is not None:
            yield f'{column.name} is in parts of its range or in degrees'
        if column is None or axis.commanded or not model.jnt_limited[joint.id]:
            continue
        low, high = (float(value) for value in joint.range)
        width = high - low
        values = column.values[np.isfinite(column.values)]
        outside = (values < low - width) | (values > high + width)
        if len(values) and float(np.mean(outside)) > MOST:
            hinge = model.jnt_type[joint.id] == mujoco.mjtJoint.mjJNT_HINGE
            found = f'from {values.min():.4g} to {values.max():.4g}'
            allowed = f'{low:.4g} to {high:.4g} {"rad" if hinge else "m"}'
            yield f'{column.name} runs {found}, the range of joint {axis.name!r} is {allowed}'
    if motion is None:
        return
    for row, axis in enumerate(axes):
        response = velocity_response(motion, row)
        if abs(response.correlation) > CLEAR:
            velocity = axis.columns[Quantity.VELOCITY].name
            position = axis.columns[Quantity.POSITION].name
            if response.correlation < 0:
                yield f'{velocity} runs against the derivative of {position}'
            elif abs(math.log(response.slope)) > math.log(FACTOR):
                yield f'{velocity} is {response.slope:.3g} times the derivative of {position}'
    yield from _not_followed(axes, motion)


def _not_followed(axes: list[Axis], motion: AxesMotion) -> Iterator[str]:
    """Yield the commands that their joint goes against, or that another joint follows."""
    rates = {
        (axis.commanded, axis.name): motion.signals[row, Quantity.POSITION].rate
        for row, axis in enumerate(axes)
        if (row, Quantity.POSITION) in motion.signals
    }
    measured = {name: rate for (commanded, name), rate in rates.items() if not commanded}
    for axis in axes:
        command = rates.get((True, axis.name))
        if not axis.commanded or command is None or axis.name not in measured:
            continue
        follows = {
            name: respond(command, rate, motion).correlation for name, rate in measured.items()
        }
        channel = axis.columns[Quantity.POSITION].name
        if follows[axis.name] < -CLEAR:
            yield f'joint {axis.name!r} moves against its command {channel}'
        best = max(follows, key=lambda name: abs(follows[name]))
        if abs(follows[axis.name]) < MOST and abs(follows[best]) > CLEAR:
            yield f'joint {best!r} follows the command {channel}, not {axis.name!r}'


def lacking_quantity(spec: mujoco.MjSpec, bag: BagColumns) -> Quantity | None:
    """Return what most joints of a bag are commanded and nothing in a model takes; None if nothing.

    Names of fields and topics tell it; where they do not, what follows the command best. A command
    of positions may come with velocities that belong to it. Motors of a model lack nothing where
    efforts were recorded: what was commanded beside them is between the robot and its controller.
    """
    axes = find_axes(bag)
    efforts = any(
        Quantity.EFFORT in axis.columns and not axis.columns[Quantity.EFFORT].unsigned
        for axis in axes
    )
    if not takes_efforts(spec) or (spec.actuators and efforts):
        return None
    votes: Counter[Quantity] = Counter()
    for recorded in recorded_joints(axes, make_motion(axes), frozenset(Quantity)):
        if recorded.command is not None:
            told = [quantity for quantity in Quantity if quantity in recorded.command.columns]
            votes[told[0] if told else recorded.commanded] += 1
    found = votes.most_common(1)[0][0] if votes else None
    return None if spec.actuators and found is Quantity.EFFORT else found


def imply_actuators(
    spec: mujoco.MjSpec,
    path: Path,
    bag: BagColumns,
    mapping: Literal['auto'] | MappingConfig = 'auto',
) -> None:
    """Give a model what takes the commands of a bag, an actuator for each joint that has some.

    The spec that the file was parsed to is changed in place; one with a servo stays, and one with
    motors where the bag has efforts for them. A mapping names the actuators, as ``elbow_servo``;
    ``auto`` goes by the joints' names.

    Raises:
        AlignmentError: The mapping is ``auto`` and the bag has no joint of the model.
        ModelError: The model does not compile.
    """
    if mapping != 'auto':
        add_actuators(spec, mapping.actuators)
        return
    quantity = lacking_quantity(spec, bag)
    if quantity is not None:
        trial = with_all(spec, quantity)
        guessed = implied_actuators(trial)
        pairs = map_columns(bag, compile_spec(trial, path), 'auto').pairs
        add_actuators(spec, [pair.name for pair in pairs if pair.name in guessed])


def with_all(spec: mujoco.MjSpec, quantity: Quantity) -> mujoco.MjSpec:
    """Return a copy with an actuator on each joint that follows no other."""
    trial = spec.copy()
    add_actuators(trial, [f'{joint}_{ActuatorKind[quantity.name]}' for joint in free_joints(spec)])
    return trial
