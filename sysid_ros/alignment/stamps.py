# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""When a message belongs: the choice between its header stamp and its receive time."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from sysid_ros.alignment.clocks import LARGEST_DRIFT, clock_findings, compare_clocks
from sysid_ros.alignment.health import SECOND_NS, HealthFinding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.alignment.clocks import ClockFit
    from sysid_ros.bags import TopicColumns
    from sysid_ros.config import StampChoice

#: What ``stamps`` asks for, or header stamps carried over to the recorder's clock.
Clock = Literal['auto', 'header', 'receive', 'carried']
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
        clock: Header stamps against receive times; None without header stamps.
    """

    times_ns: NDArray[np.int64]
    usable: NDArray[np.bool_]
    findings: tuple[HealthFinding, ...]
    clock: ClockFit | None


def one_clock(
    bag: str, topics: Sequence[TopicColumns], stamps: StampChoice
) -> tuple[Clock | dict[str, Clock], tuple[HealthFinding, ...]]:
    """Decide whether header stamps and receive times can be used side by side.

    Commands without a header have receive times only. If the header stamps of the other topics
    are from another clock, mixing the two would shift commands against measurements. ``auto`` then
    carries header stamps over to the recorder's clock along a straight line, which keeps their
    steadiness, and takes receive times where no line does.

    Returns:
        The choice for all topics, or by topic, and what it was made from.
    """
    told: dict[str, Clock] = dict(stamps) if isinstance(stamps, dict) else {}
    by_receive = any(_receive_only(topic) or told.get(topic.topic) == 'receive' for topic in topics)
    if isinstance(stamps, dict):
        rest = [topic for topic in topics if topic.topic not in told]
        choice, findings = _common(bag, rest) if by_receive else ('auto', ())
        return {**{topic.topic: choice for topic in rest}, **told}, findings
    return _common(bag, topics) if stamps == 'auto' and by_receive else (stamps, ())


def _common(bag: str, topics: Sequence[TopicColumns]) -> tuple[Clock, tuple[HealthFinding, ...]]:
    """Choose for topics of which the times are used beside receive times."""
    fits = {
        topic.topic: compare_clocks(topic.receive_ns, topic.header_ns)
        for topic in topics
        if topic.header_ns is not None and not _receive_only(topic)
    }
    others = {
        name: fit
        for name, fit in fits.items()
        if fit is not None and (abs(fit.offset) >= OTHER_CLOCK_S or fit.drifts)
    }
    if not others:
        return 'auto', ()
    straight = all(not fit.jumps and not abs(fit.drift) > LARGEST_DRIFT for fit in others.values())
    done = 'they are carried over to its clock' if straight else 'receive times are used for all'
    findings = tuple(
        HealthFinding(
            bag,
            name,
            'clock offset',
            1,
            f'header stamps are {fit.offset:+.3f} s before the receive times and another topic has '
            f'no header stamps; {done}',
        )
        for name, fit in others.items()
    )
    return 'carried' if straight else 'receive', findings


def _receive_only(topic: TopicColumns) -> bool:
    return topic.header_ns is None or not topic.header_ns.any()


def stamp(bag: str, topic: TopicColumns, choice: Clock | Mapping[str, Clock]) -> Stamped:
    """Give each row of a topic its time.

    Args:
        bag: Name of the bag.
        topic: The topic.
        choice: ``receive``, or header stamps, ``carried`` over to the recorder's clock or as they
            are; where there is none or it is zero, the receive time takes its place. By topic, the
            default is ``auto``.
    """
    stamps = choice if isinstance(choice, str) else choice.get(topic.topic, 'auto')
    findings: list[HealthFinding] = []
    times = topic.receive_ns
    fit = None if topic.header_ns is None else compare_clocks(topic.receive_ns, topic.header_ns)
    if stamps != 'receive' and topic.header_ns is not None:
        zero = topic.header_ns == 0
        header = topic.header_ns
        if stamps == 'carried' and fit is not None:
            known = topic.receive_ns[~zero]
            passed = (topic.receive_ns - known[0]) / SECOND_NS
            drift = 0.0 if np.isnan(fit.drift) else 1e-6 * fit.drift
            header = header + np.round((fit.offset + drift * passed) * SECOND_NS).astype(np.int64)
        times = np.where(zero, topic.receive_ns, header)
        if zero.any():
            detail = f'of {len(zero)} header stamps; the receive time is used'
            count = int(zero.sum())
            findings.append(HealthFinding(bag, topic.topic, 'zero stamp', count, detail))
        findings += clock_findings(bag, topic, fit)
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
    return Stamped(times, usable, tuple(findings), fit)


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
