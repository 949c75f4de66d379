# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is in a bag, what it says about each joint, and what is wrong with it."""

from __future__ import annotations

import dataclasses
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import mujoco
import numpy as np
import scipy
from numpy.typing import NDArray

from sysid_ros.alignment.health import (
    CLEAR,
    ERRORS,
    FACTOR,
    FEW,
    GAP_PERIODS,
    LITTLE,
    MANY,
    MOST,
    RESPONSE_S,
    ROUNDING,
    FindingKind,
    Grade,
    HealthFinding,
    dead_columns,
    gaps,
    source_findings,
    topic_rate,
)
from sysid_ros.alignment.lag import MOST_SAMPLES, Lag, lag, usual, velocity_lag
from sysid_ros.alignment.pairing import map_columns
from sysid_ros.alignment.pairs import (
    QUATERNION,
    SENSOR_FIELDS,
    Pair,
    PairRole,
    Unmapped,
    column_name,
    command_quantity,
    is_of_joints,
    meaning_of,
    model_values,
    names_of,
    pair_columns,
    scalar_joints,
)
from sysid_ros.alignment.pairs import Mapping as Pairing
from sysid_ros.alignment.segments import held_up, named_pieces
from sysid_ros.alignment.stamps import (
    Stamped,
    StampSource,
    longest_increasing,
    stamp_topics,
    topic_timing,
)
from sysid_ros.bags import BagColumns, TopicColumns, UnreadTopic
from sysid_ros.bags.message_types import JOINT_STATE, canonical
from sysid_ros.bags.storage import MCAP, ROS1, SQLITE, suffix
from sysid_ros.bags.tables import table_files
from sysid_ros.config.schema import MappingConfig, StampChoice
from sysid_ros.errors import AlignmentError, one_line
from sysid_ros.model.elements import driven_joint
from sysid_ros.vocabulary import SECOND_NS, Quantity, is_command

#: Times that are not looked up yet.
_NO_TIMES = np.empty(0)
#: What is less than so many times as usual, in a row, or in steps of an encoder, may be chance.
_SEVERAL = 3
#: Velocities that are off by a larger factor are not the slope of the positions.
_SCALE = 1.3
#: A spike is a change of so many times the median change, and of those around it.
_SPIKE = 10
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
#: As in the figures of a result: told apart by people with any colour vision, and in grey.
_MEASURED, _COMMAND, _GAP, _INK = '#0b5cad', '#c2570c', '#f3d9c6', '#22262b'
#: Size of a panel, inches.
_WIDTH, _HEIGHT = 10.0, 2.0


@dataclass(frozen=True)
class Trace:
    """One quantity of one joint, measured or commanded, over time.

    The values, (n,) and finite, are of a channel of a topic, in a unit that is empty where nobody
    says; the times are (n,) strictly increasing, s from the origin. A command that is
    ``interpolated`` changes linearly from sample to sample, others hold.
    """

    quantity: Quantity
    command: bool
    topic: str
    channel: str
    unit: str
    times: NDArray[np.float64]
    values: NDArray[np.float64]
    interpolated: bool = False


@dataclass(frozen=True)
class Joint:
    """A joint, by its name in the model or the bag; a trace per quantity measured or commanded."""

    name: str
    traces: tuple[Trace, ...]

    def find(self, quantity: Quantity, *, command: bool = False) -> Trace | None:
        """Return what was measured, or commanded, of a quantity."""
        key = (quantity, command)
        return next((item for item in self.traces if (item.quantity, item.command) == key), None)

    def command(self) -> Trace | None:
        """Return the first quantity that was commanded."""
        return next((item for item in self.traces if item.command), None)


def joints_by_name(bag: BagColumns, times_ns: Mapping[str, NDArray[np.int64]]) -> tuple[Joint, ...]:
    """Collect the joints that messages name.

    Where several topics measure a joint, the one that measures it most often counts. The (n,) times
    of a topic's rows are in ns.
    """
    sources = []
    for topic in sorted(filter(is_of_joints, bag.topics), key=lambda item: -len(item.receive_ns)):
        for field in topic.fields:
            quantity, command = meaning_of(topic, field) or (None, False)
            for label, values in zip(field.labels, field.values.T, strict=True):
                channel = column_name(topic.topic, field.name, label)
                if quantity is not None:
                    what = quantity, command, topic.topic, channel, ''
                    sources.append((label, Trace(*what, _NO_TIMES, values, field.interpolated)))
    return _collect(sources, times_ns)


def joints_of_model(
    bag: BagColumns,
    model: mujoco.MjModel,
    pairing: Pairing,
    times_ns: Mapping[str, NDArray[np.int64]],
) -> tuple[Joint, ...]:
    """Collect the joints of a model that a bag is paired with, in units of the model.

    The (n,) times of a topic's rows are in ns.
    """
    names = names_of(model, mujoco.mjtObj.mjOBJ_JOINT, model.njnt)
    joints = [name or f'joint[{index}]' for index, name in enumerate(names)]
    sources = []
    for pair in pairing.pairs:
        if pair.role is PairRole.SENSOR:
            sensor = model.sensor(pair.name)
            quantity = SENSOR_FIELDS.get(mujoco.mjtSensor(int(sensor.type[0])))
            joint = int(sensor.objid[0])
        else:
            joint = driven_joint(model, pair.name)
            quantity = command_quantity(model, model.actuator(pair.name).id)
            quantity = quantity if joint >= 0 else None
        if quantity is None:
            continue
        unit = quantity.unit(slide=bool(model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE))
        channel = column_name(pair.topic, pair.field, pair.label)
        what = quantity, pair.role is PairRole.ACTUATOR, pair.topic, channel, unit
        values = model_values(bag, pair)
        interpolated = pair_columns(bag, pair).interpolated
        sources.append((joints[joint], Trace(*what, _NO_TIMES, values, interpolated)))
    found = _collect(sources, times_ns)
    return tuple(sorted(found, key=lambda item: joints.index(item.name)))


def _collect(
    sources: Iterable[tuple[str, Trace]], times_ns: Mapping[str, NDArray[np.int64]]
) -> tuple[Joint, ...]:
    """Give traces with a value for each row of their topics their times, and drop absent values."""
    known = list(sources)
    used = {item.topic for _, item in known}
    origin = min((int(times_ns[own].min()) for own in used if len(times_ns[own])), default=0)
    found: dict[str, dict[tuple[bool, int], Trace]] = {}
    for name, item in known:
        traces = found.setdefault(name, {})
        key = item.command, list(Quantity).index(item.quantity)
        stamps, rows = times_ns[item.topic], np.flatnonzero(np.isfinite(item.values))
        if key in traces or not len(rows):
            continue
        rows = rows[longest_increasing(stamps[rows])]
        times = (stamps[rows] - origin) / SECOND_NS
        traces[key] = dataclasses.replace(item, times=times, values=item.values[rows])
    return tuple(
        Joint(name, tuple(traces[key] for key in sorted(traces)))
        for name, traces in found.items()
        if traces
    )


def joint_findings(bag: str, joints: Iterable[Joint]) -> Iterator[HealthFinding]:
    """Find velocities that are not the slope of the positions, held positions, and spikes.

    The integral of the velocity is compared with the change of the position over half a second,
    which needs no derivative of noise.
    """
    for joint in joints:
        position, velocity = joint.find(Quantity.POSITION), joint.find(Quantity.VELOCITY)
        if position is None or len(position.times) <= MANY:
            continue
        # Damaged values may be as large as numbers get.
        with np.errstate(over='ignore', invalid='ignore'):
            found = [*_held(bag, position), *_spikes(bag, position)]
            if velocity is not None and len(velocity.times) > MANY:
                found += _compared(bag, position, velocity)
        yield from found


def _compared(bag: str, position: Trace, velocity: Trace) -> Iterator[HealthFinding]:
    integral = np.interp(
        position.times,
        velocity.times,
        scipy.integrate.cumulative_trapezoid(velocity.values, velocity.times, initial=0),
    )
    begin, end = _windows(position.times)
    moved = position.values[end] - position.values[begin]
    integrated = integral[end] - integral[begin]
    if len(moved) <= MANY or not _moves(position.values, moved) or not integrated.any():
        return
    product = float(moved @ integrated)
    size = float(np.sqrt((moved @ moved) * (integrated @ integrated)))
    correlation, factor = product / size, product / float(integrated @ integrated)
    if correlation < -MOST:
        detail = f'runs against the positions, correlation {correlation:.2f}'
    elif correlation < MOST:
        detail = f'does not follow from the positions, correlation {correlation:.2f}'
    elif correlation > CLEAR and not 1 / _SCALE < factor < _SCALE:
        detail = f'positions change {factor:.3g} times as much as it says'
    else:
        yield from _late(bag, position, velocity)
        return
    kind = FindingKind.VELOCITY_DIFFERS
    yield HealthFinding(bag, velocity.channel, kind, len(velocity.times), detail)


def _late(bag: str, position: Trace, velocity: Trace) -> Iterator[HealthFinding]:
    """Find velocities that are late against the positions beside them, as after a filter."""
    found = velocity_lag(position.times, position.values, velocity.times, velocity.values)
    interval = float(np.median(np.diff(velocity.times)))
    if found is not None and found.seconds > usual(interval) + ERRORS * found.deviation:
        detail = (
            f'lags the position by {1e3 * found.seconds:.0f} ± {1.96e3 * found.deviation:.0f} ms, '
            'as after a filter'
        )
        late = round(found.seconds / interval)
        yield HealthFinding(bag, velocity.channel, FindingKind.VELOCITY_LAG, late, detail)


def _windows(times: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return first and last sample of windows that have no gap in them."""
    first = np.arange(0, len(times), max(len(times) // MOST_SAMPLES, 1))
    starts = times[first]
    last = np.maximum(np.searchsorted(times, starts + RESPONSE_S), first + MANY)
    inside = last < len(times)
    for begin, end in gaps(times):
        inside &= (starts >= end) | (times[np.minimum(last, len(times) - 1)] <= begin)
    return first[inside], last[inside]


def _moves(values: NDArray[np.float64], moved: NDArray[np.float64]) -> bool:
    """Tell a motion from noise and from an encoder that flickers."""
    steps = np.diff(values)
    sizes = np.abs(steps[steps != 0])
    if not len(sizes) or np.ptp(values) < MANY * sizes.min():
        return False
    return float(np.sqrt(np.mean(moved**2))) > _SEVERAL * float(np.std(steps))


def _held(bag: str, position: Trace) -> Iterator[HealthFinding]:
    steps = np.abs(np.diff(position.values))
    changes = np.flatnonzero(steps)
    if len(changes) < MANY:
        return
    messages = float(np.median(np.diff(changes)))
    jump = float(np.median(steps[changes]))
    if messages < _SEVERAL or jump < _SEVERAL * float(steps[changes].min()):
        return
    rate = 1 / (messages * float(np.median(np.diff(position.times))))
    detail = f'while it moves it changes every {messages:.0f} messages only, at {rate:.3g} Hz'
    yield HealthFinding(bag, position.channel, FindingKind.STALE, len(changes), detail)


def _spikes(bag: str, position: Trace) -> Iterator[HealthFinding]:
    """Find jumps to a value and back, which nothing with a mass makes; decoding errors do."""
    steps = np.diff(position.values)
    changes = steps[np.flatnonzero(steps)]
    if len(changes) <= MANY:
        return
    sizes = np.abs(changes)
    there = sizes[1:-2]
    rest = there / _SPIKE
    spikes = (
        (there > _SPIKE * np.median(sizes))
        & (np.abs(changes[1:-2] + changes[2:-1]) < rest)
        & (sizes[:-3] < rest)
        & (sizes[3:] < rest)
    )
    if spikes.any():
        detail = f'jumps by up to {there[spikes].max():.3g} and back'
        yield HealthFinding(bag, position.channel, FindingKind.SPIKES, int(spikes.sum()), detail)


@dataclass(frozen=True)
class BagFacts:
    """The bag as a whole: size of its files in bytes, first receive time and duration in s.

    Messages are those in topics with numbers, ``facts`` what the recorder wrote about the session.
    By topic, messages were ``dropped`` that the recorder could not write, and ``lost`` that the
    middleware reported.
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
    """One topic; what is unknown is NaN.

    Attributes:
        rate: Hz.
        jitter: Of the intervals about their median, s: 1.4826 times the median deviation.
        gaps: Intervals of more than 5 median periods and 50 ms.
        stamps: Which time is used.
        clock: Receive time minus header stamp at the first message, without what held messages up,
            s.
        drift: What the recorder's clock gains on the header stamps, ppm, if that is known to 5.
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

    Position, velocity, effort and command are the columns that these come from. Least and greatest
    position are in units of the model, or of the bag without one, the step of the encoder in those
    of the bag; of the range they cover a fraction. The lag is that of the position behind its
    command. What is unknown is empty, NaN or None.
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

    The topics are those with numbers, the joints those that are named, or paired with the model.
    Findings are about topics that the mapping uses, or whose types matter to a fit.
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


def column_faults(
    bag: BagColumns, model: mujoco.MjModel, pairing: Pairing, stamps: StampChoice
) -> list[HealthFinding]:
    """Find what bends a fit to measured columns: limits, spikes, velocities that contradict."""
    measured = [pair for pair in pairing.pairs if pair.role is PairRole.SENSOR]
    names = {
        column_name(pair.topic, pair.field, label)
        for pair in measured
        for label in (pair.label, '')
    }
    topics = [topic for topic in bag.topics if topic.topic in {pair.topic for pair in measured}]
    stamped, _ = stamp_topics(bag, {topic.topic for topic in topics}, stamps)
    times = {topic: item.times_ns for topic, item in stamped.items()}
    found = [*joint_findings(bag.path.name, joints_of_model(bag, model, pairing, times))]
    for topic in topics:
        found += _channel_findings(bag.path.name, _report_channels(topic))
        found += _reference_jumps(bag.path.name, topic, times[topic.topic])
    return [item for item in found if item.subject in names and item.kind.grade is Grade.FAULT]


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
            each += _turned(bag.path.name, topic)
            each += _reference_jumps(bag.path.name, topic, found.stamped[topic.topic].times_ns)
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
    if is_of_joints(topic):
        yield from source_findings(name, topic)
    yield from topic_timing(name, topic, stamped, int(stamped.times_ns[0]) if count else 0)
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
        longest = max(GAP_PERIODS * float(np.median(np.diff(received))) / SECOND_NS, _SILENCE_S)
        for silence, where in ((before, 'first'), (after, 'last')):
            if silence / SECOND_NS > longest:
                detail = f'no message in the {where} {silence / SECOND_NS:.1f} s of the bag'
                yield HealthFinding(name, topic.topic, FindingKind.GAP, 1, detail)
    if canonical(topic.msgtype) != JOINT_STATE:
        return
    labels = [label for field in topic.fields for label in field.labels]
    unlike = any(field.unlike_names for field in topic.fields)
    if not unlike and labels and all(label.isdigit() for label in labels):
        detail = 'messages carry no joint names; columns are numbered'
        yield HealthFinding(name, topic.topic, FindingKind.NO_NAMES, count, detail)
    present = {field.name for field in topic.fields}
    absent = [quantity for quantity in Quantity if quantity not in present]
    if absent and is_state:
        detail = f'messages carry no {" and no ".join(absent)}'
        yield HealthFinding(name, topic.topic, FindingKind.NOT_MEASURED, count, detail)


def _turned(bag: str, topic: TopicColumns) -> Iterator[HealthFinding]:
    """Say which columns of a topic begin a turn anew."""
    for field in topic.fields:
        for label, jumps in field.turns.items():
            channel = column_name(topic.topic, field.name, label)
            detail = 'jumps by a turn; read on without'
            yield HealthFinding(bag, channel, FindingKind.WRAPS, jumps, detail)


def _reference_jumps(
    bag: str, topic: TopicColumns, times_ns: NDArray[np.int64]
) -> Iterator[HealthFinding]:
    """Find orientations that go on from elsewhere, by the (n,) times of a topic's rows, ns.

    Such a step is far above those before and after it, and takes less time than anything needs to
    turn and come to rest. A spike turns back; repeated orientations are no steps; what happens in a
    gap is unknown.
    """
    for field in topic.fields:
        if set(field.labels) != set(QUATERNION):
            continue
        there = np.isfinite(field.values).all(axis=1) & field.values.any(axis=1)
        values, times = field.values[there], times_ns[there]
        rows = longest_increasing(times)
        turned = values[rows] / np.linalg.norm(values[rows], axis=1, keepdims=True)
        # A quaternion and its opposite are the same orientation.
        chords = [np.linalg.norm(turned[1:] - sign * turned[:-1], axis=1) for sign in (1, -1)]
        angles = 4 * np.arcsin(np.min(chords, axis=0) / 2)
        steps = np.flatnonzero(angles > ROUNDING)
        if len(steps) <= MANY:
            continue
        seconds = np.diff(times[rows])[steps] / SECOND_NS
        rates = angles[steps] / seconds
        near = np.lib.stride_tricks.sliding_window_view(rates, 2 * _SEVERAL + 1)
        around = np.max(np.delete(near, _SEVERAL, axis=1), axis=1)
        inner = slice(_SEVERAL, -_SEVERAL)
        fast = rates[inner] > np.maximum(FACTOR * around, _SPIKE * np.median(rates))
        jumps = steps[inner][fast & (seconds[inner] < RESPONSE_S / _SPIKE)]
        if len(jumps):
            at = (times[rows][jumps[:_SEVERAL] + 1] - times_ns[0]) / SECOND_NS
            detail = (
                f'turns by {np.degrees(angles[jumps].max()):.0f}° from one message to the next at '
                f'{", ".join(f"{when:.3f}" for when in at)} s, and goes on from there'
            )
            channel = column_name(topic.topic, field.name, '')
            yield HealthFinding(bag, channel, FindingKind.REFERENCE_JUMP, len(jumps), detail)


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
    columns = {
        quantity: trace.channel if (trace := joint.find(quantity)) else '' for quantity in Quantity
    }
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
    command = joint.command()
    return JointReport(
        name=joint.name,
        **columns,
        command=command.channel if command else '',
        low=low,
        high=high,
        step=steps.get(columns[Quantity.POSITION], math.nan),
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
    _, rows = max(topic.parts, key=lambda part: len(part[1]))
    times = stamped.times_ns[rows[stamped.usable[rows]]]
    rate = topic_rate('', topic.topic, len(topic.receive_ns), times)
    periods = np.diff(times) / SECOND_NS
    median = float(np.median(periods)) if len(periods) else math.nan
    jitter = 1.4826 * float(np.median(np.abs(periods - median))) if len(periods) else math.nan
    timing = topic_timing('', topic, stamped, 0)
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
    about = topic.rows_about
    for field in topic.fields:
        for column, label in enumerate(field.labels):
            values = field.values[about[label], column]
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

    It is the smallest difference between two values if all differences are its multiples; NaN if
    they are not, or if there are too few values.
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

    At a limit the signal arrives at speed, at least three times, and stays for much longer than at
    other values. The turning points of a motion are approached slowly; a robot at rest arrives
    once.
    """
    if len(values) <= FEW:
        return 0
    begins = np.concatenate([[0], np.flatnonzero(np.diff(values)) + 1])
    lengths = np.diff(np.append(begins, len(values)))
    levels = values[begins]
    arrival = np.abs(np.diff(levels, prepend=levels[0]))
    least = 0.0 if math.isnan(step) else _SEVERAL * step
    usual = max(float(np.median(lengths)), 1.0)
    plateau = (arrival > least) & (lengths >= _SEVERAL * usual)
    count = 0
    for extreme in (levels.min(), levels.max()):
        there = plateau & (levels == extreme)
        if np.count_nonzero(there) >= _SEVERAL:
            count += int(lengths[there].sum())
    return count


def _extent(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the least and the greatest of (n,) values; NaN where there is none."""
    return (float(values.min()), float(values.max())) if len(values) else (math.nan, math.nan)


def draw_joint(joint: Joint, title: str) -> bytes:
    """Draw position, velocity and effort of a joint, measured and commanded, into a PNG file.

    Commands are drawn as they act: level until the next, or straight to it. Where the measurement
    has a gap, the ground is shaded and the curve is broken. The joint has at least one trace.
    """
    from matplotlib import rc_context  # noqa: PLC0415 (slow to import)
    from matplotlib.figure import Figure  # noqa: PLC0415

    present = {item.quantity for item in joint.traces}
    shown = [quantity for quantity in Quantity if quantity in present]
    figure = Figure(figsize=(_WIDTH, _HEIGHT * len(shown) + 0.8), layout='constrained')
    panels = figure.subplots(len(shown), 1, squeeze=False, sharex=True)[:, 0]
    end = max(float(item.times[-1]) for item in joint.traces)
    for axes, quantity in zip(panels, shown, strict=True):
        measured, command = joint.find(quantity), joint.find(quantity, command=True)
        if measured is not None:
            missing = gaps(measured.times)
            for number, (left, right) in enumerate(missing):
                label = f'gap ({len(missing)})' if number == 0 else None
                axes.axvspan(left, right, color=_GAP, linewidth=1, label=label, zorder=0)
            # At NaN in every gap a curve ends and begins again.
            middle = missing.mean(axis=1)
            places = np.searchsorted(measured.times, middle)
            times = np.insert(measured.times, places, middle)
            values = np.insert(measured.values, places, np.nan)
            axes.plot(times, values, color=_MEASURED, linewidth=1.1, label=f'measured {quantity}')
        if command is not None:
            axes.plot(
                np.append(command.times, max(end, command.times[-1])),
                np.append(command.values, command.values[-1]),
                color=_COMMAND,
                linewidth=1.1,
                alpha=0.9,
                drawstyle='default' if command.interpolated else 'steps-post',
                label=f'commanded {quantity}',
            )
        unit = next((item.unit for item in (measured, command) if item is not None), '')
        axes.set_ylabel(f'{quantity} [{unit}]' if unit else quantity, fontsize=9, color=_INK)
        axes.spines[['top', 'right']].set_visible(False)
        axes.tick_params(labelsize=8, colors=_INK)
        axes.grid(visible=True, color='#e3e5e8', linewidth=0.6)
        axes.set_axisbelow(True)
        axes.margins(x=0.01)
        axes.legend(
            loc='lower right',
            bbox_to_anchor=(1, 1),
            borderaxespad=0.1,
            fontsize=8,
            frameon=False,
            ncols=3,
        )
    panels[-1].set_xlabel('time [s]', fontsize=9, color=_INK)
    heading = figure.suptitle(one_line(title), x=0.01, ha='left', fontsize=10, color=_INK)
    heading.set_parse_math(False)
    buffer = io.BytesIO()
    with rc_context({'agg.path.chunksize': 10_000}):  # else Agg refuses millions of samples
        figure.savefig(buffer, format='png', dpi=120)
    return buffer.getvalue()
