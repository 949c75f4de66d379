# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is in a bag, before anything is done with it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import mujoco
import numpy as np

from sysid_ros.alignment.health import FindingKind, HealthFinding
from sysid_ros.alignment.mapping.pairing import map_columns
from sysid_ros.alignment.pairs import Mapping, Pair, Unmapped, scalar_joints
from sysid_ros.alignment.stamps import Stamped, stamp_topics
from sysid_ros.bags import BagColumns, UnreadTopic
from sysid_ros.config import MappingConfig, StampChoice
from sysid_ros.errors import AlignmentError
from sysid_ros.inspection.joints import (
    Joint,
    Trace,
    is_of_joints,
    joint_findings,
    joints_by_name,
    joints_of_model,
)
from sysid_ros.inspection.lag import Lag, lag
from sysid_ros.inspection.reports import (
    BagFacts,
    ChannelReport,
    TopicReport,
    bag_facts,
    extent,
    is_of_a_robot,
    report_channels,
    report_topic,
    topic_findings,
)
from sysid_ros.vocabulary import Quantity


@dataclass(frozen=True)
class JointReport:
    """One joint.

    Attributes:
        name: In the model, or in the bag where there is no model.
        position: Column that the position comes from; empty where it was not measured.
        velocity: The same for the velocity.
        effort: The same for the effort.
        command: The same for what was commanded.
        low: Least position, in units of the model, or of the bag without one; NaN if unknown.
        high: Greatest position.
        step: Of the encoder, in units of the bag; NaN where none shows.
        lag: Of the position behind its command; None where there is none or it cannot be told.
        of_range: Fraction of the joint's range that its positions cover; NaN without limits.
    """

    name: str
    position: str
    velocity: str
    effort: str
    command: str
    low: float
    high: float
    step: float
    lag: Lag | None
    of_range: float


@dataclass(frozen=True)
class MappingReport:
    """How the bag fits the model.

    Attributes:
        pairs: Column by column.
        unmapped: What has no counterpart, and why.
        problem: Why nothing could be paired; empty otherwise.
    """

    pairs: tuple[Pair, ...]
    unmapped: tuple[Unmapped, ...]
    problem: str


@dataclass(frozen=True)
class Inspection:
    """All that can be said about a bag without a fit.

    Attributes:
        bag: The bag as a whole.
        topics: Topics with numbers, by name.
        unread: Topics without.
        channels: Every column.
        joints: Every joint that is named, or paired with the model.
        mapping: None without a model.
        findings: What is wrong with topics that matter to a fit: of joints, commands, poses, forces
            and inertial units, and those that the mapping uses.
    """

    bag: BagFacts
    topics: tuple[TopicReport, ...]
    unread: tuple[UnreadTopic, ...]
    channels: tuple[ChannelReport, ...]
    joints: tuple[JointReport, ...]
    mapping: MappingReport | None
    findings: tuple[HealthFinding, ...]


class BagJoints(NamedTuple):
    """The joints of a bag, and how they were found.

    Attributes:
        joints: In model order, or in that of the messages without a model.
        mapping: None without a model, or where nothing could be paired.
        problem: Why nothing could be paired; empty otherwise.
        stamped: Topic to the times of its rows.
        findings: What was found about files and clocks.
    """

    joints: tuple[Joint, ...]
    mapping: Mapping | None
    problem: str
    stamped: dict[str, Stamped]
    findings: tuple[HealthFinding, ...]


def bag_joints(
    bag: BagColumns,
    model: mujoco.MjModel | None = None,
    mapping: Literal['auto'] | MappingConfig = 'auto',
    stamps: StampChoice = 'auto',
) -> BagJoints:
    """Find the joints of a bag, by the model where that fits, else by the names in the messages.

    Raises:
        AlignmentError: The mapping names what is not in the bag or the model.
    """
    pairing, problem = None, ''
    if model is not None:
        try:
            pairing = map_columns(bag, model, mapping)
        except AlignmentError as err:
            if mapping != 'auto':
                raise
            problem = str(err)
    if pairing is not None:
        used = {pair.topic for pair in pairing.pairs}
    else:
        used = {topic.topic for topic in bag.topics if is_of_joints(topic)}
    stamped, found = stamp_topics(bag, used, stamps)
    times = {topic: item.times_ns for topic, item in stamped.items()}
    if model is None or pairing is None:
        joints = joints_by_name(bag, times)
    else:
        joints = joints_of_model(bag, model, pairing, times)
    return BagJoints(joints, pairing, problem, stamped, tuple(found))


def inspect(
    bag: BagColumns,
    model: mujoco.MjModel | None = None,
    *,
    mapping: Literal['auto'] | MappingConfig = 'auto',
    stamps: StampChoice = 'auto',
) -> Inspection:
    """Say what is in a bag, what is wrong with it, and what could be identified from it.

    Raises:
        AlignmentError: The mapping names what is not in the bag or the model.
    """
    found = bag_joints(bag, model, mapping, stamps)
    topics = [report_topic(topic, found.stamped[topic.topic]) for topic in bag.topics]
    channels = {topic.topic: report_channels(topic) for topic in bag.topics}
    steps = {item.channel: item.step for each in channels.values() for item in each}
    pairing = found.mapping
    fits = MappingReport(
        pairing.pairs if pairing else (), pairing.unmapped if pairing else (), found.problem
    )
    return Inspection(
        bag=bag_facts(bag),
        topics=tuple(topics),
        unread=bag.unread,
        channels=tuple(item for each in channels.values() for item in each),
        joints=tuple(_joint(joint, _reach(model, joint), steps) for joint in found.joints),
        mapping=None if model is None else fits,
        findings=_findings(bag, found, channels),
    )


def _findings(
    bag: BagColumns, found: BagJoints, channels: dict[str, list[ChannelReport]]
) -> tuple[HealthFinding, ...]:
    """Say what is wrong with clocks, topics that matter to a fit, their columns, and joints."""
    whole = bag_facts(bag)
    pairing = found.mapping
    paired = {pair.topic for pair in pairing.pairs} if pairing else set()
    each = [*found.findings, *(pairing.health if pairing else ())]
    for topic in bag.topics:
        if topic.topic in paired or is_of_a_robot(topic):
            own = channels[topic.topic]
            each += topic_findings(whole, topic, found.stamped[topic.topic], own)
    each += joint_findings(whole.path.name, found.joints)
    # What the mapping says of a column comes first.
    said: dict[tuple[str, FindingKind], list[HealthFinding]] = {}
    for item in each:
        said.setdefault((item.subject, item.kind), []).append(item)
    mapped = set(pairing.health) if pairing else set()
    return tuple(
        item
        for same in said.values()
        for item in same
        if item in mapped or not mapped.intersection(same)
    )


def _reach(model: mujoco.MjModel | None, joint: Joint) -> float:
    """Return the width of a joint's range, rad or m; NaN where it has none."""
    index = scalar_joints(model).get(joint.name) if model is not None else None
    if model is None or index is None or not model.jnt_limited[index]:
        return math.nan
    return float(np.ptp(model.jnt_range[index]))


def _joint(joint: Joint, reach: float, steps: dict[str, float]) -> JointReport:
    def source(trace: Trace | None) -> str:
        return trace.channel if trace is not None else ''

    position = joint.find(Quantity.POSITION)
    low, high = extent(position.values if position is not None else np.empty(0))
    asked = joint.find(Quantity.POSITION, command=True)
    behind = None
    if asked is not None and position is not None:
        behind = lag(
            asked.times,
            asked.values,
            position.times,
            position.values,
            interpolated=asked.interpolated,
        )
    return JointReport(
        name=joint.name,
        position=source(position),
        velocity=source(joint.find(Quantity.VELOCITY)),
        effort=source(joint.find(Quantity.EFFORT)),
        command=source(joint.command()),
        low=low,
        high=high,
        step=steps.get(source(position), math.nan),
        lag=behind,
        of_range=(high - low) / reach,
    )
