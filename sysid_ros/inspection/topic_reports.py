# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One topic of a bag: how its messages came, what each of its columns holds, what is wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.alignment.health import (
    GAP_PERIODS,
    SECOND_NS,
    FindingKind,
    HealthFinding,
    dead_columns,
    timing_findings,
    topic_rate,
)
from sysid_ros.alignment.mapping.by_name import is_command
from sysid_ros.alignment.pairs import column_name
from sysid_ros.inspection.channels import clipped, quantisation_step
from sysid_ros.inspection.joints import is_of_joints

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.alignment.stamps import ClockFit, Stamped
    from sysid_ros.bags import TopicColumns
    from sysid_ros.inspection.bag_facts import BagFacts

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
#: No message for longer than this at the begin or the end of a bag is worth a word, s.
SILENCE_S = 1.0
#: A drift is shown when it is known to this, millionths, one standard deviation.
_KNOWN_DRIFT = 5.0
#: Fields that a message of joints can carry beside the position.
_JOINT_STATE = {
    'position': FindingKind.NO_POSITION,
    'velocity': FindingKind.NO_VELOCITY,
    'effort': FindingKind.NO_EFFORT,
}


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
        clock: Receive time minus header stamp at the first message, s; NaN without header stamps.
        drift: What the recorder's clock gains on the header stamps, millionths; NaN unless it is
            known to 5.
    """

    topic: str
    msgtype: str
    messages: int
    rate: float
    jitter: float
    longest_gap: float
    gaps: int
    stamps: str
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
    """Say what is wrong with a topic.

    Args:
        whole: The bag.
        topic: The topic.
        stamped: The times of its rows.
        channels: Its columns.
    """
    bag = whole.path.name
    return [
        *_channel_findings(bag, channels),
        *_findings(bag, topic, stamped),
        *_silences(bag, topic, whole),
    ]


def report_topic(topic: TopicColumns, stamped: Stamped) -> TopicReport:
    """Describe how the messages of a topic came."""
    times = stamped.times_ns[stamped.usable]
    rate = topic_rate('', topic.topic, len(topic.receive_ns), times)
    periods = np.diff(times) / SECOND_NS
    median = float(np.median(periods)) if len(periods) else math.nan
    jitter = 1.4826 * float(np.median(np.abs(periods - median))) if len(periods) else math.nan
    by_header = topic.header_ns is not None and not np.array_equal(
        stamped.times_ns, topic.receive_ns
    )
    gaps = [
        item.count
        for item in timing_findings('', topic.topic, times)
        if item.kind is FindingKind.GAP
    ]
    return TopicReport(
        topic=topic.topic,
        msgtype=topic.msgtype,
        messages=len(topic.receive_ns),
        rate=rate.rate,
        jitter=jitter,
        longest_gap=rate.longest_gap,
        gaps=sum(gaps),
        stamps='header' if by_header else 'receive',
        clock=math.nan if stamped.clock is None else stamped.clock.offset,
        drift=_drift(stamped.clock),
    )


def _drift(clock: ClockFit | None) -> float:
    return math.nan if clock is None or not clock.deviation < _KNOWN_DRIFT else clock.drift


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
            found.append(
                ChannelReport(
                    channel=column_name(topic.topic, field.name, label),
                    topic=topic.topic,
                    field=field.name,
                    label=label,
                    values=len(finite),
                    missing=len(values) - len(finite),
                    low=least(finite),
                    high=greatest(finite),
                    dead=(field.name, label) in dead,
                    step=step,
                    clipped=clipped(finite, step) if measured else 0,
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
        (before, FindingKind.STARTS_LATE, 'first'),
        (after, FindingKind.ENDS_EARLY, 'last'),
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


def least(values: NDArray[np.float64]) -> float:
    """Return the least of (n,) values; NaN where there is none."""
    return float(values.min()) if len(values) else math.nan


def greatest(values: NDArray[np.float64]) -> float:
    """Return the greatest of (n,) values; NaN where there is none."""
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
            findings.append(HealthFinding(bag, topic.topic, FindingKind.NO_NAMES, count, detail))
        present = {field.name for field in topic.fields}
        for name, kind in () if is_command(topic.topic) else _JOINT_STATE.items():
            if name not in present:
                detail = f'messages carry no {name}'
                count = len(topic.receive_ns)
                findings.append(HealthFinding(bag, topic.topic, kind, count, detail))
    return findings
