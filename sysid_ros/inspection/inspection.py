# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is in a bag, and what is wrong with it, before anything is done with it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.health import (
    FEW,
    GAP_PERIODS,
    LITTLE,
    ROUNDING,
    FindingKind,
    HealthFinding,
    dead_columns,
    timing_findings,
    topic_rate,
)
from sysid_ros.alignment.mapping.pairing import map_columns
from sysid_ros.alignment.pairs import Mapping as Pairing
from sysid_ros.alignment.pairs import Pair, Unmapped, column_name, scalar_joints
from sysid_ros.alignment.segments import held_up, named_pieces
from sysid_ros.alignment.stamps import Stamped, StampSource, stamp_topics
from sysid_ros.bags import BagColumns, TopicColumns, UnreadTopic
from sysid_ros.bags.storage import MCAP, ROS1, SQLITE, suffix
from sysid_ros.bags.tables import table_files
from sysid_ros.config import MappingConfig, StampChoice
from sysid_ros.errors import AlignmentError
from sysid_ros.inspection.joints import (
    SEVERAL,
    Joint,
    Trace,
    is_of_joints,
    joint_findings,
    joints_by_name,
    joints_of_model,
)
from sysid_ros.inspection.lag import MOST_SAMPLES, Lag, lag
from sysid_ros.vocabulary import SECOND_NS, Quantity, is_command

_STORAGE = {MCAP: 'mcap', SQLITE: 'sqlite3', ROS1: 'ROS 1'}
#: Only differences below so many steps tell whether all are multiples of it.
_NEAR = 100
#: Types, beside those of joints, whose topics have findings; those of others are in the table.
_ROBOT_TYPES = (
    'Float64MultiArray',
    'Imu',
    'Odometry',
    'PoseStamped',
    'TwistStamped',
    'WrenchStamped',
)
#: A silence at the beginning or the end of a bag is reported from this on, s.
_SILENCE_S = 1.0
#: A drift is shown when it is known to this, ppm, one standard deviation.
_KNOWN_DRIFT = 5.0


@dataclass(frozen=True)
class BagFacts:
    """The bag as a whole.

    Attributes:
        storage: ``mcap``, ``sqlite3``, ``ROS 1``, ``csv`` or ``parquet``; empty where there are no
            files.
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
        rate: Hz; NaN with fewer than two messages.
        jitter: Of the intervals about their median, s: 1.4826 times the median deviation.
        longest_gap: Longest interval, s.
        gaps: Intervals of more than 5 median periods and 50 ms.
        stamps: Which time is used: of the ``header``, as it is or ``carried`` over to the
            recorder's clock, of ``receive``, when it was ``sent``, moved by what that usually takes
            to receive, or ``simulated``.
        clock: Receive time minus header stamp at the first message, without what held messages up,
            s; NaN without header stamps.
        drift: What the recorder's clock gains on the header stamps, ppm; NaN unless it is
            known to 5.
    """

    topic: str
    msgtype: str
    messages: int
    rate: float
    jitter: float
    longest_gap: float
    gaps: int
    stamps: StampSource
    clock: float
    drift: float


@dataclass(frozen=True)
class ChannelReport:
    """One column of numbers: its name, and how many of its values are finite, or missing.

    Least and greatest value are NaN where there is none, the step of the encoder or converter where
    none shows. It is dead when it never changes while others of its topic do. Values are clipped at
    a limit of what measured them.
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
    step: float
    clipped: int


@dataclass(frozen=True)
class JointReport:
    """One joint, by its name in the model, or in the bag where there is no model.

    Position, velocity, effort and command are the columns that these come from, empty where there
    is none.

    Attributes:
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
    """How the bag fits the model, or the problem for which nothing could be paired."""

    pairs: tuple[Pair, ...]
    unmapped: tuple[Unmapped, ...]
    problem: str


@dataclass(frozen=True)
class Inspection:
    """All that can be said about a bag without a fit.

    The topics are those with numbers, by name; the joints those that are named, or paired with the
    model. Findings are about topics that matter to a fit: of joints, commands, poses, forces and
    inertial units, and those that the mapping uses.
    """

    bag: BagFacts
    topics: tuple[TopicReport, ...]
    unread: tuple[UnreadTopic, ...]
    channels: tuple[ChannelReport, ...]
    joints: tuple[JointReport, ...]
    mapping: MappingReport | None
    findings: tuple[HealthFinding, ...]


class BagJoints(NamedTuple):
    """The joints of a bag, in model order, or in that of the messages without a model.

    The mapping is None without a model, or where the problem is that nothing could be paired. The
    findings are about files and clocks.
    """

    joints: tuple[Joint, ...]
    mapping: Pairing | None
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
    topics = [_report_topic(topic, found.stamped[topic.topic]) for topic in bag.topics]
    channels = {topic.topic: _report_channels(topic) for topic in bag.topics}
    steps = {item.channel: item.step for each in channels.values() for item in each}
    pairing = found.mapping
    fits = MappingReport(
        pairing.pairs if pairing else (), pairing.unmapped if pairing else (), found.problem
    )
    return Inspection(
        bag=_bag_facts(bag),
        topics=tuple(topics),
        unread=bag.unread,
        channels=tuple(item for each in channels.values() for item in each),
        joints=tuple(_joint(joint, model, steps) for joint in found.joints),
        mapping=None if model is None else fits,
        findings=_findings(bag, found, channels),
    )


def _findings(
    bag: BagColumns, found: BagJoints, channels: Mapping[str, list[ChannelReport]]
) -> tuple[HealthFinding, ...]:
    """Say what is wrong with clocks, topics that matter to a fit, their columns, and joints."""
    mapped = found.mapping.health if found.mapping else ()
    paired = {pair.topic for pair in found.mapping.pairs} if found.mapping else set()
    each = list(found.findings)
    for topic in bag.topics:
        of_a_robot = topic.msgtype.rpartition('/')[2] in _ROBOT_TYPES
        if topic.topic in paired or is_of_joints(topic) or of_a_robot:
            each += _topic_findings(bag, topic, found.stamped[topic.topic])
            each += _channel_findings(bag.path.name, channels[topic.topic])
    each += joint_findings(bag.path.name, found.joints)
    # What the mapping says of a column comes first.
    said = {(item.subject, item.kind) for item in mapped}
    return (*mapped, *(item for item in each if (item.subject, item.kind) not in said))


def _topic_findings(
    bag: BagColumns, topic: TopicColumns, stamped: Stamped
) -> Iterator[HealthFinding]:
    """Say what is wrong with a topic: its stamps, gaps, silences, and what messages lack."""
    name, count = bag.path.name, len(topic.receive_ns)
    yield from stamped.findings
    times = stamped.times_ns[stamped.usable]
    yield from timing_findings(name, topic.topic, times, int(times[0]) if len(times) else 0)
    is_state = is_of_joints(topic) and not is_command(topic.topic)
    pieces = held_up([topic]) if is_state else []
    if pieces and topic.header_ns is not None:
        detail = (
            f'{named_pieces(pieces, int(topic.header_ns.min()))}: sent late; commands acted late, '
            'too, and fits leave that out unless the robot says when they did'
        )
        yield HealthFinding(name, topic.topic, FindingKind.STALL, len(pieces), detail)
    if count >= FEW:
        known = [own.receive_ns for own in bag.topics if len(own.receive_ns)]
        received = topic.receive_ns
        before = int(received.min()) - min(int(own.min()) for own in known)
        after = max(int(own.max()) for own in known) - int(received.max())
        usual = GAP_PERIODS * float(np.median(np.diff(received))) / SECOND_NS
        for silence, where in ((before, 'first'), (after, 'last')):
            if silence / SECOND_NS > max(usual, _SILENCE_S):
                detail = f'no message in the {where} {silence / SECOND_NS:.1f} s of the bag'
                yield HealthFinding(name, topic.topic, FindingKind.GAP, 1, detail)
    if not topic.msgtype.endswith('/JointState'):
        return
    labels = [label for field in topic.fields for label in field.labels]
    if labels and all(label.isdigit() for label in labels):
        detail = 'messages carry no joint names; columns are numbered'
        yield HealthFinding(name, topic.topic, FindingKind.NO_NAMES, count, detail)
    present = {field.name for field in topic.fields}
    absent = [quantity for quantity in Quantity if quantity not in present]
    if absent and is_state:
        detail = f'messages carry no {" and no ".join(absent)}'
        yield HealthFinding(name, topic.topic, FindingKind.NOT_MEASURED, count, detail)


def _channel_findings(bag: str, reports: list[ChannelReport]) -> Iterator[HealthFinding]:
    """Say what is wrong with the numbers of a topic."""
    for item in reports:
        limits = f'{item.low:.4g} or {item.high:.4g}'
        stays = f'stays {item.low:.4g} while others move'
        at_limits = f'of {item.values} values are at {limits}, reached at speed and again'
        absent = f'of {item.values + item.missing} values are absent or not finite'
        for kind, count, detail in (
            (FindingKind.DEAD_CHANNEL, item.values if item.dead else 0, stays),
            (FindingKind.CLIPPED, item.clipped, at_limits),
            (FindingKind.MISSING, item.missing, absent),
        ):
            if count:
                yield HealthFinding(bag, item.channel, kind, count, detail)


def _joint(joint: Joint, model: mujoco.MjModel | None, steps: dict[str, float]) -> JointReport:
    def source(trace: Trace | None) -> str:
        return trace.channel if trace is not None else ''

    reach = math.nan
    index = None if model is None else scalar_joints(model).get(joint.name)
    if model is not None and index is not None and model.jnt_limited[index]:
        reach = float(np.ptp(model.jnt_range[index]))
    position = joint.find(Quantity.POSITION)
    low, high = _extent(position.values if position is not None else np.empty(0))
    asked = joint.find(Quantity.POSITION, command=True)
    behind = None
    if asked is not None and position is not None:
        samples = asked.times, asked.values, position.times, position.values
        behind = lag(*samples, interpolated=asked.interpolated)
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


def _bag_facts(bag: BagColumns) -> BagFacts:
    """Say what is known of a bag as a whole; its files are looked up, not read."""
    known = [topic.receive_ns for topic in bag.topics if len(topic.receive_ns)]
    first = min((int(stamps.min()) for stamps in known), default=0)
    last = max((int(stamps.max()) for stamps in known), default=0)
    path = bag.path
    files = sorted(path.iterdir()) if path.is_dir() else [path] if path.is_file() else []
    data = [file for file in files if suffix(file)] or list(table_files(path))
    facts = dict(bag.facts)
    return BagFacts(
        path=path,
        storage=_STORAGE.get(suffix(data[0]), data[0].suffix[1:]) if data else '',
        size=sum(file.stat().st_size for file in data),
        start_ns=first,
        duration=(last - first) / SECOND_NS,
        messages=sum(map(len, known)),
        facts=facts,
        dropped=_counts(facts.get('dropped', '')),
        lost=_counts(facts.get('lost', '')),
    )


def _counts(text: str) -> dict[str, int]:
    """Read topic to count from a fact; what another program wrote there is no count."""
    try:
        found = json.loads(text or '{}')
        return {str(topic): int(count) for topic, count in found.items() if int(count)}
    except (ValueError, TypeError, AttributeError):
        return {}


def _report_topic(topic: TopicColumns, stamped: Stamped) -> TopicReport:
    """Describe how the messages of a topic came."""
    clock = stamped.clock
    times = stamped.times_ns[stamped.usable]
    rate = topic_rate('', topic.topic, len(topic.receive_ns), times)
    periods = np.diff(times) / SECOND_NS
    median = float(np.median(periods)) if len(periods) else math.nan
    jitter = 1.4826 * float(np.median(np.abs(periods - median))) if len(periods) else math.nan
    timing = timing_findings('', topic.topic, times, 0)
    return TopicReport(
        topic=topic.topic,
        msgtype=topic.msgtype,
        messages=len(topic.receive_ns),
        rate=rate.rate,
        jitter=jitter,
        longest_gap=rate.longest_gap,
        gaps=sum(item.count for item in timing if item.kind is FindingKind.GAP),
        stamps=stamped.source,
        clock=math.nan if clock is None else clock.offset,
        drift=clock.drift if clock is not None and clock.deviation < _KNOWN_DRIFT else math.nan,
    )


def _report_channels(topic: TopicColumns) -> list[ChannelReport]:
    """Describe every column of a topic."""
    dead = {(field.name, label) for field, label in dead_columns(topic)}
    # Commands go to a limit and stay there because they were told to.
    measured = is_of_joints(topic) and not is_command(topic.topic)
    found = []
    for field in topic.fields:
        for column, label in enumerate(field.labels):
            values = field.values[:, column]
            known = np.isfinite(values)
            finite = values if known.all() else values[known]
            step = quantisation_step(finite)
            low, high = _extent(finite)
            found.append(
                ChannelReport(
                    channel=column_name(topic.topic, field.name, label),
                    topic=topic.topic,
                    field=field.name,
                    label=label,
                    values=len(finite),
                    missing=len(values) - len(finite),
                    low=low,
                    high=high,
                    dead=(field.name, label) in dead,
                    step=step,
                    clipped=clipped(finite, step) if measured else 0,
                )
            )
    return found


def quantisation_step(values: NDArray[np.float64]) -> float:
    """Find the step of an encoder or converter from (n,) finite values.

    It is the smallest difference between two values if all differences are its multiples, in the
    unit of the values; NaN if they are not, or if there are too few values.
    """
    stride = max(len(values) // MOST_SAMPLES, 1)
    # The ends are left out: a limit need not be on the grid.
    distinct = np.unique(values[::stride])[1:-1]
    if len(distinct) < FEW:
        return math.nan
    differences = np.diff(distinct)
    differences = differences[differences > ROUNDING * float(np.ptp(distinct))]
    if not len(differences):
        return math.nan
    step = float(differences.min())
    # The mean over the smallest differences is less rounded than the smallest.
    step = float(differences[differences < (1 + LITTLE) * step].mean())
    counts = differences / step
    # Far apart, any number is near a multiple of a step that is a little wrong.
    near = counts < _NEAR
    on_grid = near & (np.abs(counts - np.round(counts)) < LITTLE)
    shown = np.count_nonzero(on_grid) >= max((1 - LITTLE) * np.count_nonzero(near), FEW - 1)
    return step if shown else math.nan


def clipped(values: NDArray[np.float64], step: float) -> int:
    """Count samples, of (n,) finite ones with a step or NaN, at a limit of the sensor or driver.

    A limit is the least or greatest value when the signal arrives there at speed, stays for much
    longer than values usually stay, and does so at least three times. The turning points of a
    motion are approached slowly; a robot at rest arrives once.
    """
    if len(values) <= FEW:
        return 0
    begins = np.concatenate([[0], np.flatnonzero(np.diff(values)) + 1])
    lengths = np.diff(np.append(begins, len(values)))
    levels = values[begins]
    arrival = np.abs(np.diff(levels, prepend=levels[0]))
    least = 0.0 if math.isnan(step) else SEVERAL * step
    usual = max(float(np.median(lengths)), 1.0)
    plateau = (arrival > least) & (lengths >= SEVERAL * usual)
    count = 0
    for extreme in (levels.min(), levels.max()):
        there = plateau & (levels == extreme)
        if np.count_nonzero(there) >= SEVERAL:
            count += int(lengths[there].sum())
    return count


def _extent(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the least and the greatest of (n,) values; NaN where there is none."""
    return (float(values.min()), float(values.max())) if len(values) else (math.nan, math.nan)
