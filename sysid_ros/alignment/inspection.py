# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is in a bag, before anything is done with it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from sysid_ros.alignment.auto import is_command
from sysid_ros.alignment.consistency import joint_findings
from sysid_ros.alignment.health import (
    GAP_PERIODS,
    SECOND_NS,
    HealthFinding,
    dead_columns,
    timing_findings,
    topic_rate,
)
from sysid_ros.alignment.joints import is_of_joints, joints_by_name, joints_of_model
from sysid_ros.alignment.mapping import map_columns
from sysid_ros.alignment.pairs import column_name
from sysid_ros.alignment.stamps import one_clock, stamp
from sysid_ros.errors import AlignmentError

if TYPE_CHECKING:
    import mujoco
    from numpy.typing import NDArray

    from sysid_ros.alignment.coverage import Excitation
    from sysid_ros.alignment.joints import Joint, Trace
    from sysid_ros.alignment.pairs import Mapping, Pair, Unmapped
    from sysid_ros.alignment.stamps import Stamped
    from sysid_ros.bags import BagColumns, TopicColumns, UnreadTopic
    from sysid_ros.config import MappingConfig, Stamps

_STORAGE = {'.mcap': 'mcap', '.db3': 'sqlite3', '.bag': 'ROS 1'}
#: Suffix of a data file that was compressed as a whole.
_COMPRESSED = '.zstd'
#: A topic with so many messages is taken to be periodic.
FEWEST_PERIODIC = 5
#: No message for longer than this at the begin or the end of a bag is worth a word, s.
SILENCE_S = 1.0
#: Fields that a message of joints can carry beside the position.
_JOINT_STATE = ('position', 'velocity', 'effort')


@dataclass(frozen=True)
class BagFacts:
    """The bag as a whole.

    Attributes:
        path: Folder or file.
        storage: ``mcap``, ``sqlite3`` or ``ROS 1``; empty where there are no files.
        size: Of its data files, bytes.
        start_ns: First receive time, ns since the epoch; 0 when nothing was read.
        duration: From there to the last receive time, s.
        messages: In topics with numbers.
        facts: What the recorder wrote about the session; empty for other recorders' bags.
        dropped: Topic to messages that the recorder received and could not write.
        lost: Topic to messages that the middleware reported lost.
    """

    path: Path
    storage: str
    size: int
    start_ns: int
    duration: float
    messages: int
    facts: dict[str, str]
    dropped: dict[str, int]
    lost: dict[str, int]


@dataclass(frozen=True)
class TopicReport:
    """One topic.

    Attributes:
        topic: Its name.
        msgtype: Its type.
        messages: How many.
        rate: Hz; NaN with fewer than two.
        jitter: Of the intervals about their median, s: 1.4826 times the median deviation.
        longest_gap: Longest interval, s.
        gaps: Intervals of more than 5 median periods and 50 ms.
        stamps: Which time is used: ``header`` or ``receive``.
    """

    topic: str
    msgtype: str
    messages: int
    rate: float
    jitter: float
    longest_gap: float
    gaps: int
    stamps: str


@dataclass(frozen=True)
class ChannelReport:
    """One column of numbers.

    Attributes:
        channel: How it is called in mappings and messages.
        topic: Its topic.
        field: Field of the message.
        label: Column of the field.
        values: Finite values.
        missing: Messages without a finite value.
        low: Least value; NaN when there is none.
        high: Greatest value.
        dead: It never changes while others of its topic do.
    """

    channel: str
    topic: str
    field: str
    label: str
    values: int
    missing: int
    low: float
    high: float
    dead: bool


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
        excitation: What the motion shows; None without a model.
    """

    name: str
    position: str
    velocity: str
    effort: str
    command: str
    low: float
    high: float
    excitation: Excitation | None


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
        findings: What is wrong.
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
        findings: What was found about clocks.
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
    stamps: Stamps = 'auto',
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
    name = bag.path.name
    choice, found = one_clock(name, [item for item in bag.topics if item.topic in used], stamps)
    stamped = {topic.topic: stamp(name, topic, choice) for topic in bag.topics}
    times = {topic: item.times_ns for topic, item in stamped.items()}
    if model is None or pairing is None:
        joints = joints_by_name(bag, times)
    else:
        joints = joints_of_model(bag, model, pairing, times)
    return BagJoints(joints, pairing, problem, stamped, found)


def inspect(
    bag: BagColumns,
    model: mujoco.MjModel | None = None,
    *,
    mapping: Literal['auto'] | MappingConfig = 'auto',
    stamps: Stamps = 'auto',
) -> Inspection:
    """Say what is in a bag, what is wrong with it, and what could be identified from it.

    Args:
        bag: Columns of the bag.
        model: The compiled nominal model, where there is one.
        mapping: How bag and model are paired.
        stamps: Which time of a message counts.

    Raises:
        AlignmentError: The mapping names what is not in the bag or the model.
    """
    found = bag_joints(bag, model, mapping, stamps)
    facts = _facts(bag)
    findings = list(found.findings)
    topics = []
    channels = []
    for topic in bag.topics:
        topics.append(_topic(topic, found.stamped[topic.topic]))
        reports = _channels(topic)
        channels += reports
        findings += _channel_findings(bag.path.name, reports)
        findings += _findings(bag.path.name, topic, found.stamped[topic.topic])
        findings += _silences(bag.path.name, topic, facts)
    findings += joint_findings(bag.path.name, found.joints)
    judged = {item.joint: item for item in _excitation(model, found.joints)}
    report = None
    if model is not None:
        pairing = found.mapping
        report = MappingReport(
            pairing.pairs if pairing else (), pairing.unmapped if pairing else (), found.problem
        )
        said = {(item.subject, item.kind) for item in pairing.health} if pairing else set()
        findings = [item for item in findings if (item.subject, item.kind) not in said]
        findings += pairing.health if pairing else ()
    return Inspection(
        bag=facts,
        topics=tuple(topics),
        unread=bag.unread,
        channels=tuple(channels),
        joints=tuple(_joint(joint, judged.get(joint.name)) for joint in found.joints),
        mapping=report,
        findings=tuple(findings),
    )


def _excitation(model: mujoco.MjModel | None, joints: tuple[Joint, ...]) -> tuple[Excitation, ...]:
    if model is None:
        return ()
    from sysid_ros.alignment.coverage import excitation  # noqa: PLC0415 (half a second)

    return excitation(model, joints)


def _facts(bag: BagColumns) -> BagFacts:
    known = [topic.receive_ns for topic in bag.topics if len(topic.receive_ns)]
    first = min((int(stamps.min()) for stamps in known), default=0)
    last = max((int(stamps.max()) for stamps in known), default=0)
    storage, size = _files(bag.path)
    facts = dict(bag.facts)
    return BagFacts(
        path=bag.path,
        storage=storage,
        size=size,
        start_ns=first,
        duration=(last - first) / SECOND_NS,
        messages=sum(map(len, known)),
        facts=facts,
        dropped=_counts(facts.get('dropped', '')),
        lost=_counts(facts.get('lost', '')),
    )


def _files(path: Path) -> tuple[str, int]:
    """Return the storage of a bag and the size of its data files."""
    files = sorted(path.iterdir()) if path.is_dir() else [path] if path.is_file() else []
    known = [(_STORAGE.get(_suffix(file), ''), file) for file in files]
    data = [(storage, file) for storage, file in known if storage]
    return next((storage for storage, _ in data), ''), sum(file.stat().st_size for _, file in data)


def _suffix(file: Path) -> str:
    return Path(file.name.removesuffix(_COMPRESSED)).suffix


def _counts(text: str) -> dict[str, int]:
    """Read topic to count from a fact; what another program wrote there is no count."""
    try:
        found = json.loads(text or '{}')
        return {str(topic): int(count) for topic, count in found.items() if int(count)}
    except (ValueError, TypeError, AttributeError):
        return {}


def _topic(topic: TopicColumns, stamped: Stamped) -> TopicReport:
    times = stamped.times_ns[stamped.usable]
    rate = topic_rate('', topic.topic, len(topic.receive_ns), times)
    periods = np.diff(times) / SECOND_NS
    median = float(np.median(periods)) if len(periods) else math.nan
    jitter = 1.4826 * float(np.median(np.abs(periods - median))) if len(periods) else math.nan
    by_header = topic.header_ns is not None and not np.array_equal(
        stamped.times_ns, topic.receive_ns
    )
    gaps = [item.count for item in timing_findings('', topic.topic, times) if item.kind == 'gap']
    return TopicReport(
        topic=topic.topic,
        msgtype=topic.msgtype,
        messages=len(topic.receive_ns),
        rate=rate.rate,
        jitter=jitter,
        longest_gap=rate.longest_gap,
        gaps=sum(gaps),
        stamps='header' if by_header else 'receive',
    )


def _channels(topic: TopicColumns) -> list[ChannelReport]:
    dead = {(field.name, label) for field, label in dead_columns(topic)}
    found = []
    for field in topic.fields:
        for column, label in enumerate(field.labels):
            values = field.values[:, column]
            known = np.isfinite(values)
            finite = values if known.all() else values[known]
            found.append(
                ChannelReport(
                    channel=column_name(topic.topic, field.name, label),
                    topic=topic.topic,
                    field=field.name,
                    label=label,
                    values=len(finite),
                    missing=len(values) - len(finite),
                    low=_least(finite),
                    high=_greatest(finite),
                    dead=(field.name, label) in dead,
                )
            )
    return found


def _silences(bag: str, topic: TopicColumns, whole: BagFacts) -> list[HealthFinding]:
    """Say where a periodic topic begins long after the bag or ends long before."""
    received = topic.receive_ns
    if len(received) < FEWEST_PERIODIC:
        return []
    findings = []
    median = float(np.median(np.diff(received))) / SECOND_NS
    before = (int(received.min()) - whole.start_ns) / SECOND_NS
    after = whole.duration - (int(received.max()) - whole.start_ns) / SECOND_NS
    for seconds, kind, where in (
        (before, 'starts late', 'first'),
        (after, 'ends early', 'last'),
    ):
        if seconds > max(GAP_PERIODS * median, SILENCE_S):
            detail = f'no message in the {where} {seconds:.1f} s of the bag'
            findings.append(HealthFinding(bag, topic.topic, kind, 1, detail))
    return findings


def _channel_findings(bag: str, reports: list[ChannelReport]) -> list[HealthFinding]:
    """Say what is wrong with the numbers of a topic."""
    findings = []
    for item in reports:
        if item.dead:
            detail = f'stays {item.low:.4g} while others move'
            findings.append(HealthFinding(bag, item.channel, 'dead channel', item.values, detail))
        if item.missing:
            detail = f'of {item.values + item.missing} values are absent or not finite'
            findings.append(HealthFinding(bag, item.channel, 'missing', item.missing, detail))
    return findings


def _least(values: NDArray[np.float64]) -> float:
    return float(values.min()) if len(values) else math.nan


def _greatest(values: NDArray[np.float64]) -> float:
    return float(values.max()) if len(values) else math.nan


def _findings(bag: str, topic: TopicColumns, stamped: Stamped) -> list[HealthFinding]:
    """Say what is wrong with a topic, apart from its numbers."""
    findings = list(stamped.findings)
    times = stamped.times_ns[stamped.usable]
    findings += timing_findings(bag, topic.topic, times)
    if topic.msgtype.endswith('/JointState'):
        labels = [label for field in topic.fields for label in field.labels]
        if labels and all(label.isdigit() for label in labels):
            detail = 'messages carry no joint names; columns are numbered'
            count = len(topic.receive_ns)
            findings.append(HealthFinding(bag, topic.topic, 'no names', count, detail))
        present = {field.name for field in topic.fields}
        for name in () if is_command(topic.topic) else _JOINT_STATE:
            if name not in present:
                detail = f'messages carry no {name}'
                count = len(topic.receive_ns)
                findings.append(HealthFinding(bag, topic.topic, f'no {name}', count, detail))
    return findings


def _joint(joint: Joint, judged: Excitation | None) -> JointReport:
    def source(trace: Trace | None) -> str:
        return trace.channel if trace is not None else ''

    position = joint.find('position')
    values = position.values if position is not None else np.empty(0)
    return JointReport(
        name=joint.name,
        position=source(position),
        velocity=source(joint.find('velocity')),
        effort=source(joint.find('effort')),
        command=source(joint.command()),
        low=_least(values),
        high=_greatest(values),
        excitation=judged,
    )
