# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A bag as a whole, its topics and their columns: how messages came, and what is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.health import (
    GAP_PERIODS,
    SECOND_NS,
    FindingKind,
    HealthFinding,
    dead_columns,
    timing_findings,
    topic_rate,
)
from sysid_ros.alignment.pairs import column_name
from sysid_ros.alignment.segments import held_up, named_pieces
from sysid_ros.alignment.stamps import Stamped, StampSource
from sysid_ros.bags import BagColumns, TopicColumns
from sysid_ros.bags.storage import MCAP, ROS1, SQLITE, suffix
from sysid_ros.bags.tables import table_files
from sysid_ros.inspection.joints import is_of_joints
from sysid_ros.vocabulary import Quantity, is_command

_STORAGE = {MCAP: 'mcap', SQLITE: 'sqlite3', ROS1: 'ROS 1'}
#: Steps are looked for in so many samples, spread over the recording.
_SAMPLES = 20_000
#: Fewer distinct values do not show a step.
_FEWEST_VALUES = 5
#: A difference of values is a multiple of a step when it is off by less than this part of the step.
_OFF_GRID = 0.05
#: A step shows when this part of the differences are its multiples.
_ON_GRID = 0.98
#: Only differences below so many steps count for that.
_NEAR = 100
#: At least so many differences must count.
_FEWEST_NEAR = 4
#: A step below this part of the span is rounding.
_ROUNDING = 1e-9
#: A plateau is this many times as long as values usually stay the same.
_PLATEAU = 3
#: A plateau is reached by more than so many steps at once.
_ABRUPT = 3.0
#: A limit is a plateau that is reached so often: at rest a signal stays at a value, too.
_VISITS = 3
#: Types, beside those of joints, whose topics have findings; those of others are in the table.
_ROBOT_TYPES = (
    'Float64MultiArray',
    'Imu',
    'Odometry',
    'PoseStamped',
    'TwistStamped',
    'WrenchStamped',
)
#: A topic with so many messages is taken to be periodic.
FEWEST_PERIODIC = 5
#: A silence at the beginning or the end of a bag is reported from this on, s.
SILENCE_S = 1.0
#: A drift is shown when it is known to this, ppm, one standard deviation.
_KNOWN_DRIFT = 5.0


@dataclass(frozen=True)
class BagFacts:
    """The bag as a whole.

    Attributes:
        path: Folder or file.
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


def bag_facts(bag: BagColumns) -> BagFacts:
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


def quantisation_step(values: NDArray[np.float64]) -> float:
    """Find the step of an encoder or converter.

    Args:
        values: (n,) finite values.

    Returns:
        The smallest difference between two values if all differences are its multiples, in the
        unit of the values; NaN if they are not, or if there are too few values.
    """
    stride = max(len(values) // _SAMPLES, 1)
    # The ends are left out: a limit need not be on the grid.
    distinct = np.unique(values[::stride])[1:-1]
    if len(distinct) < _FEWEST_VALUES:
        return math.nan
    differences = np.diff(distinct)
    differences = differences[differences > _ROUNDING * float(np.ptp(distinct))]
    if not len(differences):
        return math.nan
    step = float(differences.min())
    # The mean over the smallest differences is less rounded than the smallest.
    step = float(differences[differences < (1 + _OFF_GRID) * step].mean())
    counts = differences / step
    # Far apart, any number is near a multiple of a step that is a little wrong.
    near = counts < _NEAR
    on_grid = near & (np.abs(counts - np.round(counts)) < _OFF_GRID)
    shown = np.count_nonzero(on_grid) >= max(_ON_GRID * np.count_nonzero(near), _FEWEST_NEAR)
    return step if shown else math.nan


def clipped(values: NDArray[np.float64], step: float) -> int:
    """Count samples at a limit of the sensor or driver.

    A limit is the least or greatest value when the signal arrives there at speed, stays for much
    longer than values usually stay, and does so at least three times. The turning points of a
    motion are approached slowly; a robot at rest arrives once.

    Args:
        values: (n,) finite values.
        step: Their quantisation step; NaN where there is none.
    """
    if len(values) <= _FEWEST_VALUES:
        return 0
    begins = np.concatenate([[0], np.flatnonzero(np.diff(values)) + 1])
    lengths = np.diff(np.append(begins, len(values)))
    levels = values[begins]
    arrival = np.abs(np.diff(levels, prepend=levels[0]))
    least = 0.0 if math.isnan(step) else _ABRUPT * step
    usual = max(float(np.median(lengths)), 1.0)
    plateau = (arrival > least) & (lengths >= _PLATEAU * usual)
    count = 0
    for extreme in (levels.min(), levels.max()):
        there = plateau & (levels == extreme)
        if np.count_nonzero(there) >= _VISITS:
            count += int(lengths[there].sum())
    return count


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
        step: Of the encoder or converter; NaN where none shows.
        clipped: Values at a limit of what measured them.
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


def is_of_a_robot(topic: TopicColumns) -> bool:
    """Tell topics that matter to a fit from battery states, logs and counters."""
    kind = topic.msgtype.rpartition('/')[2]
    return is_of_joints(topic) or kind in _ROBOT_TYPES


def topic_findings(
    whole: BagFacts, topic: TopicColumns, stamped: Stamped, channels: list[ChannelReport]
) -> list[HealthFinding]:
    """Say what is wrong with a topic, given the times of its rows and its columns."""
    bag = whole.path.name
    return [
        *_channel_findings(bag, channels),
        *stamped.findings,
        *_timing(bag, topic, stamped),
        *_held_up(bag, topic),
        *_absent_fields(bag, topic),
        *_silences(bag, topic, whole),
    ]


def _timing(bag: str, topic: TopicColumns, stamped: Stamped) -> list[HealthFinding]:
    times = stamped.times_ns[stamped.usable]
    return timing_findings(bag, topic.topic, times, int(times[0]) if len(times) else 0)


def report_topic(topic: TopicColumns, stamped: Stamped) -> TopicReport:
    """Describe how the messages of a topic came."""
    clock = stamped.clock
    times = stamped.times_ns[stamped.usable]
    rate = topic_rate('', topic.topic, len(topic.receive_ns), times)
    periods = np.diff(times) / SECOND_NS
    median = float(np.median(periods)) if len(periods) else math.nan
    jitter = 1.4826 * float(np.median(np.abs(periods - median))) if len(periods) else math.nan
    timing = _timing('', topic, stamped)
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


def report_channels(topic: TopicColumns) -> list[ChannelReport]:
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
            low, high = extent(finite)
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


def _held_up(bag: str, topic: TopicColumns) -> Iterator[HealthFinding]:
    """Say where the state of joints was sent late: what the robot was told then came late, too."""
    if not is_of_joints(topic) or is_command(topic.topic):
        return
    pieces = held_up([topic])
    if pieces and topic.header_ns is not None:
        first = int(topic.header_ns.min())
        detail = (
            f'{named_pieces(pieces, first)}: sent late; commands acted late, too, and fits leave '
            'that out unless the robot says when they did'
        )
        yield HealthFinding(bag, topic.topic, FindingKind.STALL, len(pieces), detail)


def _silences(bag: str, topic: TopicColumns, whole: BagFacts) -> list[HealthFinding]:
    """Say where a periodic topic begins long after the bag or ends long before."""
    received = topic.receive_ns
    if len(received) < FEWEST_PERIODIC:
        return []
    findings = []
    median = float(np.median(np.diff(received))) / SECOND_NS
    before = (int(received.min()) - whole.start_ns) / SECOND_NS
    after = whole.duration - (int(received.max()) - whole.start_ns) / SECOND_NS
    for seconds, where in ((before, 'first'), (after, 'last')):
        if seconds > max(GAP_PERIODS * median, SILENCE_S):
            detail = f'no message in the {where} {seconds:.1f} s of the bag'
            findings.append(HealthFinding(bag, topic.topic, FindingKind.GAP, 1, detail))
    return findings


def _channel_findings(bag: str, reports: list[ChannelReport]) -> list[HealthFinding]:
    """Say what is wrong with the numbers of a topic."""
    findings = []
    for item in reports:
        if item.dead:
            detail = f'stays {item.low:.4g} while others move'
            findings.append(
                HealthFinding(bag, item.channel, FindingKind.DEAD_CHANNEL, item.values, detail)
            )
        if item.clipped:
            detail = f'of {item.values} values are at {item.low:.4g} or {item.high:.4g}, reached '
            detail += 'at speed and again'
            findings.append(
                HealthFinding(bag, item.channel, FindingKind.CLIPPED, item.clipped, detail)
            )
        if item.missing:
            detail = f'of {item.values + item.missing} values are absent or not finite'
            findings.append(
                HealthFinding(bag, item.channel, FindingKind.MISSING, item.missing, detail)
            )
    return findings


def extent(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the least and the greatest of (n,) values; NaN where there is none."""
    return (float(values.min()), float(values.max())) if len(values) else (math.nan, math.nan)


def _absent_fields(bag: str, topic: TopicColumns) -> Iterator[HealthFinding]:
    """Say which of a joint state's names and numbers its messages do not carry."""
    if not topic.msgtype.endswith('/JointState'):
        return
    count = len(topic.receive_ns)
    labels = [label for field in topic.fields for label in field.labels]
    if labels and all(label.isdigit() for label in labels):
        detail = 'messages carry no joint names; columns are numbered'
        yield HealthFinding(bag, topic.topic, FindingKind.NO_NAMES, count, detail)
    present = {field.name for field in topic.fields}
    absent = [quantity for quantity in Quantity if quantity not in present]
    if absent and not is_command(topic.topic):
        detail = f'messages carry no {" and no ".join(absent)}'
        yield HealthFinding(bag, topic.topic, FindingKind.NOT_MEASURED, count, detail)
