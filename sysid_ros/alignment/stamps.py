# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""When a message belongs: the choice between its header stamp and its receive time."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.alignment.health import SECOND_NS, HealthFinding, clock_findings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sysid_ros.bags import TopicColumns
    from sysid_ros.config import Stamps

#: Header stamps this far from the receive times are from another clock (simulated time, a robot
#: that is not synchronised), s. Transport alone never takes as long.
OTHER_CLOCK_S = 1.0


class Stamped(NamedTuple):
    """The time of each row of a topic.

    Attributes:
        times_ns: (n,) int64, ns.
        usable: (n,) False for rows that were left out because their stamp is not after the
            stamps before.
        findings: What was found on the way.
    """

    times_ns: NDArray[np.int64]
    usable: NDArray[np.bool_]
    findings: tuple[HealthFinding, ...]


def one_clock(
    bag: str, topics: Sequence[TopicColumns], stamps: Stamps
) -> tuple[Stamps, tuple[HealthFinding, ...]]:
    """Decide whether header stamps and receive times can be used side by side.

    Commands without a header have receive times only. If the header stamps of the other topics
    are from another clock, mixing the two would shift commands against measurements, so that
    ``auto`` uses the recorder's clock for all.

    Returns:
        The choice for all topics, and what it was made from.
    """
    if stamps != 'auto' or not any(_receive_only(topic) for topic in topics):
        return stamps, ()
    offsets = {
        topic.topic: float(np.median(topic.receive_ns - topic.header_ns) / SECOND_NS)
        for topic in topics
        if topic.header_ns is not None and not _receive_only(topic)
    }
    worst = max(offsets, key=lambda name: abs(offsets[name]), default='')
    if not worst or abs(offsets[worst]) < OTHER_CLOCK_S:
        return stamps, ()
    detail = (
        f'header stamps are {offsets[worst]:+.3f} s before the receive times and another topic '
        'has no header stamps; receive times are used for all'
    )
    return 'receive', (HealthFinding(bag, worst, 'clock offset', 1, detail),)


def _receive_only(topic: TopicColumns) -> bool:
    return topic.header_ns is None or not topic.header_ns.any()


def stamp(bag: str, topic: TopicColumns, stamps: Stamps) -> Stamped:
    """Give each row of a topic its time.

    Args:
        bag: Name of the bag.
        topic: The topic.
        stamps: ``receive``, or header stamps; where there is none or it is zero, the receive time
            takes its place in either case.
    """
    findings: list[HealthFinding] = []
    times = topic.receive_ns
    if stamps != 'receive' and topic.header_ns is not None:
        zero = topic.header_ns == 0
        times = np.where(zero, topic.receive_ns, topic.header_ns)
        if zero.any():
            detail = f'of {len(zero)} header stamps; the receive time is used'
            count = int(zero.sum())
            findings.append(HealthFinding(bag, topic.topic, 'zero stamp', count, detail))
        findings += clock_findings(bag, topic)
    elif stamps == 'header':
        detail = 'messages of this type have no header; the receive time is used'
        findings.append(HealthFinding(bag, topic.topic, 'no stamp', len(times), detail))
    usable = longest_increasing(times)
    dropped = times[~usable]
    if len(dropped):
        duplicates = int(np.isin(dropped, times[usable]).sum())
        for kind, count in (
            ('duplicate stamp', duplicates),
            ('reordered stamp', len(dropped) - duplicates),
        ):
            if count:
                findings.append(HealthFinding(bag, topic.topic, kind, count, 'rows left out'))
    return Stamped(times, usable, tuple(findings))


def longest_increasing(times: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Choose as many rows as possible whose stamps increase strictly.

    One stamp from the future then costs one row, not all that follow it. Of equal stamps the last
    is kept: the later command is the one in force.

    Args:
        times: (n,) stamps.

    Returns:
        (n,) True for the chosen rows.
    """
    if np.all(np.diff(times) > 0):
        return np.ones(len(times), dtype=bool)
    ends: list[int] = []
    rows: list[int] = []
    before = np.full(len(times), -1)
    for row, time in enumerate(times.tolist()):
        length = bisect.bisect_left(ends, time)
        before[row] = rows[length - 1] if length else -1
        ends[length : length + 1] = [time]
        rows[length : length + 1] = [row]
    chosen = np.zeros(len(times), dtype=bool)
    row = rows[-1]
    while row >= 0:
        chosen[row] = True
        row = int(before[row])
    return chosen
