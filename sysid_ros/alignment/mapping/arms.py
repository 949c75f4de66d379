# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Several arms in one bag: told apart, one of them chosen, and arms that lead others.

Arms have topics of their own (``/left/joint_states``) or joints with a side in their names
(``left_elbow``). In teleoperation a leader is moved by hand, and a follower is commanded to be
where the leader is: the positions of the leader are the follower's commands.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sysid_ros.alignment.health import LITTLE
from sysid_ros.alignment.mapping.names import name_words
from sysid_ros.alignment.pairs import field_columns, topic_labels
from sysid_ros.bags import BagColumns, TopicColumns, UnreadTopic
from sysid_ros.bags.message_types import JOINT_STATE
from sysid_ros.errors import AlignmentError, nearest
from sysid_ros.vocabulary import Quantity, is_command

_SIDES = frozenset({'left', 'right'})
#: Words for an arm that is moved by hand, and for one that follows it.
_LEADS = frozenset({'lead', 'leader', 'master', 'teacher', 'teleop', 'operator'})
_FOLLOWS = frozenset({'follow', 'follower', 'puppet', 'slave', 'replica'})


class Arm(NamedTuple):
    """One of several arms, named by the side, or by what its topic does not share with the others'.

    The topic is that of its measured state; its joints' names are without the side.
    """

    name: str
    topic: str
    words: frozenset[str]
    joints: frozenset[str]


def find_arms(bag: BagColumns, leaders: dict[str, str]) -> tuple[Arm, ...]:
    """Return the arms that are measured; leaders are none, nor is what copies another topic."""
    states: list[TopicColumns] = []
    for topic in sorted(_states(bag), key=lambda item: -len(item.receive_ns)):
        if topic.topic not in leaders and not any(_is_copy(topic, other) for other in states):
            states.append(topic)
    states.sort(key=lambda topic: topic.topic)
    levels = [topic.topic.strip('/').split('/') for topic in states]
    shared = set.intersection(*(set(level) for level in levels)) if len(levels) > 1 else set()
    found = []
    for topic, level in zip(states, levels, strict=True):
        own = '/'.join(part for part in level if part not in shared) if len(states) > 1 else ''
        joints: dict[frozenset[str], set[str]] = {frozenset(): set(topic_labels(topic))}
        if _SIDES.isdisjoint(name_words(topic.topic)):
            joints = _by_side(topic_labels(topic)) or joints
        for side, names in joints.items():
            name = '/'.join(part for part in (own, *sorted(side)) if part) or topic.topic
            words = frozenset(name_words(own)) | side
            found.append(Arm(name, topic.topic, words, frozenset(names)))
    return tuple(found)


def _rivals(arms: Sequence[Arm]) -> list[Arm]:
    """Return the arms whose joints another arm has, too: all of them, as twins do."""
    joints = [arm.joints for arm in arms]
    return [arm for arm in arms if joints.count(arm.joints) > 1]


def find_leaders(bag: BagColumns) -> dict[str, str]:
    """Return the topic of each leader to that of its follower.

    A leader says so by its name, which else is the follower's, and has most of its joints.
    """
    found = {}
    for leader, follower in itertools.permutations(_states(bag), 2):
        words, others = set(name_words(leader.topic)), set(name_words(follower.topic))
        shared = set(topic_labels(leader)) & set(topic_labels(follower))
        alike = words - _LEADS == others - _FOLLOWS
        if words & _LEADS and alike and 2 * len(shared) >= len(topic_labels(follower)):
            found[leader.topic] = follower.topic
    return found


def in_namespace(bag: BagColumns, namespace: str) -> BagColumns:
    """Return what of a bag belongs to one arm, or to none in particular.

    The namespace is words of a topic's path, such as ``left`` or ``/robot/arm_1``, or of joints;
    empty where all of the bag is one robot's.

    Raises:
        AlignmentError: No topic and no joint has them.
    """
    if not namespace:
        return bag
    named = frozenset(name_words(namespace))
    # A leader comes with the follower that is asked for.
    wanted = named - _FOLLOWS or named
    arms = find_arms(bag, {})
    chosen = [arm for arm in arms if wanted <= arm.words | set(name_words(arm.topic))]
    mine = wanted.union(*(arm.words for arm in chosen))
    others = frozenset().union(*(arm.words for arm in arms if arm not in chosen)) - mine - _LEADS
    kept, unread, found = [], list(bag.unread), False
    for topic in bag.topics:
        path = frozenset(name_words(topic.topic))
        words = {label: path | set(name_words(label)) for label in topic_labels(topic)}
        found = found or any(wanted <= each for each in words.values())
        left = [label for label, each in words.items() if not wanted <= each and others & each]
        fields = []
        for field in topic.fields:
            columns = [index for index, label in enumerate(field.labels) if label not in left]
            labels = tuple(field.labels[index] for index in columns)
            if labels:
                fields.append(replace(field, labels=labels, values=field.values[:, columns]))
        if fields:
            kept.append(replace(topic, fields=tuple(fields)))
        if left:
            reason = f'not of the namespace {namespace}'
            reason += f': {", ".join(left)}' if fields else ''
            count = len(topic.receive_ns)
            unread.append(UnreadTopic(topic.topic, topic.msgtype, count, reason))
    if not wanted or not found:
        names = list(dict.fromkeys(arm.name for arm in arms))
        raise AlignmentError(
            f'No topic and no joint of {bag.path.name!r} has the namespace {namespace!r}; '
            f'{nearest(namespace, names)}.'
        )
    return replace(bag, topics=tuple(kept), unread=tuple(unread))


def prefixes(bag: BagColumns, leaders: dict[str, str]) -> dict[str, str]:
    """Return topic to what tells its arm from others that call their joints the same."""
    several = _rivals(find_arms(bag, leaders))
    common = frozenset.intersection(*(arm.words for arm in several)) if several else frozenset()
    found = {}
    for topic in bag.topics:
        path = set(name_words(leaders.get(topic.topic, topic.topic)))
        for arm in several:
            own = arm.words - common
            if own and own <= path:
                found[topic.topic] = '_'.join(sorted(own))
    return found


def check_one_arm(bag: BagColumns, leaders: dict[str, str], joints: Iterable[str]) -> None:
    """Check that a bag does not hold several arms where the model, of these joints, is one.

    Raises:
        AlignmentError: It does; the sentence names them.
    """
    several = _rivals(find_arms(bag, leaders))
    most = max(_states(bag), key=lambda topic: len(topic.receive_ns), default=None)
    if most is None or most.topic not in {arm.topic for arm in several}:
        return  # what the others have is said, too, by the topic that says most
    told_apart = {word for joint in joints for word in name_words(joint)}
    common = frozenset.intersection(*(arm.words for arm in several))
    if not all((arm.words - common) & told_apart for arm in several):
        names = ', '.join(dict.fromkeys(arm.name for arm in several))
        raise AlignmentError(
            f'The bag {bag.path.name!r} holds several arms with the same joints, {names}, and the '
            f'model is one of them: choose with `--namespace {several[0].name}`, '
            f'or `namespace: {several[0].name}` in calibration.yaml.'
        )


def _states(bag: BagColumns) -> list[TopicColumns]:
    """Return the topics that measure positions of joints."""
    return [
        topic
        for topic in bag.topics
        if topic.msgtype == JOINT_STATE
        and not is_command(topic.topic)
        and field_columns(topic, Quantity.POSITION) is not None
    ]


def _by_side(labels: Sequence[str]) -> dict[frozenset[str], set[str]]:
    """Return side to the joints there, without it; nothing where few have a side, as fingers."""
    found: dict[frozenset[str], set[str]] = {}
    for label in labels:
        words = name_words(label)
        side = frozenset(_SIDES.intersection(words))
        if side:
            joint = '_'.join(word for word in words if word not in _SIDES)
            found.setdefault(side, set()).add(joint)
    return found if 2 * sum(map(len, found.values())) > len(labels) else {}


def _is_copy(topic: TopicColumns, other: TopicColumns) -> bool:
    """Whether a topic says of all joints that it shares with another what that says, too."""
    first, second = (field_columns(item, Quantity.POSITION) for item in (topic, other))
    if first is None or second is None:
        return False
    begin = max(item.receive_ns[0] for item in (topic, other))
    end = min(item.receive_ns[-1] for item in (topic, other))
    rows = (topic.receive_ns >= begin) & (topic.receive_ns <= end)
    shared = [label for label in first.labels if label in second.labels]
    for label in shared:
        there = second.values[:, second.labels.index(label)]
        known = np.isfinite(there)
        values = first.values[rows, first.labels.index(label)]
        if known.any() and np.isfinite(values).any():
            same = np.interp(topic.receive_ns[rows], other.receive_ns[known], there[known])
            apart = float(np.nanmedian(np.abs(values - same)))
            if apart > LITTLE * float(np.nanmax(there) - np.nanmin(there)):
                return False
    return bool(shared)
