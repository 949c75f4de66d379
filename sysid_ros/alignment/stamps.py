# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The time of each row: which stamp counts."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.clocks import (
    CLOSE_S,
    OTHER_CLOCK_S,
    ClockFit,
    compare_clocks,
    no_time_of_day,
)
from sysid_ros.alignment.health import SECOND_NS, FindingKind, HealthFinding
from sysid_ros.bags import TopicColumns
from sysid_ros.config import StampChoice

#: Header stamps of two topics that differ by more than this are from two clocks, s.
_TWO_CLOCKS_S = 0.1
#: How fast a simulation runs may change from one such time to the next, s, of so many messages.
_PACE_S, _PACE_MESSAGES = 0.2, 10
#: The pace at the ends is that over so many of them.
_END_CELLS = 2
#: What ``stamps`` asks for, or header stamps carried over to the recorder's clock.
Clock = Literal['auto', 'header', 'receive', 'carried']
#: What times are: header stamps as they are or carried over to the recorder's clock, receive times,
#: what these would be if all messages had taken the usual time since they were sent, or simulated
#: time, read from stamps or from what came at the same moment.
StampSource = Literal['header', 'carried', 'receive', 'sent', 'simulated']


class Stamped(NamedTuple):
    """The time of each row of a topic.

    Attributes:
        times_ns: (n,) int64, ns.
        usable: (n,) False for rows that were left out because their stamp is not after the
            stamps before.
        findings: What was found on the way.
        clock: Header stamps against receive times; None without header stamps.
        source: What the times are.
    """

    times_ns: NDArray[np.int64]
    usable: NDArray[np.bool_]
    findings: tuple[HealthFinding, ...]
    clock: ClockFit | None
    source: StampSource


class SimulatedTime(NamedTuple):
    """How a simulation's time went on, to give messages without stamps a place in it.

    Attributes:
        receive_ns: (k,) strictly increasing receive times, ns since the epoch.
        header_ns: (k,) increasing simulated times, ns.
    """

    receive_ns: NDArray[np.int64]
    header_ns: NDArray[np.int64]

    def at(self, receive_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return simulated times of receive times, ns; beyond the ends it goes on as near them."""
        known, simulated = (values - values[0] for values in self)
        passed = (receive_ns - self.receive_ns[0]).astype(np.float64)
        near = min(_END_CELLS, len(known) - 1)
        first = simulated[near] / known[near]
        last = (simulated[-1] - simulated[-1 - near]) / (known[-1] - known[-1 - near])
        found = np.interp(passed, known, simulated) + first * np.minimum(passed, 0.0)
        found += last * np.maximum(passed - known[-1], 0.0)
        simulated_ns: NDArray[np.int64] = self.header_ns[0] + np.round(found).astype(np.int64)
        return simulated_ns


#: How each topic gets its times.
Choice = Clock | dict[str, Clock | SimulatedTime]


def one_clock(
    bag: str,
    topics: Sequence[TopicColumns],
    stamps: StampChoice,
) -> tuple[Choice, tuple[HealthFinding, ...]]:
    """Decide whether the stamps of some topics can be used side by side.

    Commands without a header have receive times only. If the header stamps of the other topics
    are from another clock, mixing the two would shift commands against measurements. ``auto`` then
    carries header stamps over to the recorder's clock along a straight line, which keeps their
    steadiness, and takes receive times where no line does. Stamps of the recorder's clock stay as
    they are. Simulated time is what a simulation's measurements go by, however fast it runs: there,
    topics without a header are carried over to it.

    Args:
        bag: Name of the bag.
        topics: Those whose stamps are used side by side.
        stamps: What was asked for.

    Returns:
        The choice for all topics, or by topic, and what it was made from.
    """
    by_topic: dict[str, Clock | SimulatedTime] = {}
    if isinstance(stamps, dict):
        by_topic.update(stamps)
    elif stamps != 'auto':
        return stamps, ()
    rest = [topic for topic in topics if topic.topic not in by_topic]
    by_receive = any(
        _receive_only(topic) or by_topic.get(topic.topic) == 'receive'
        for topic in topics
        if len(topic.receive_ns)
    )
    chosen, findings = _common(bag, rest, by_receive=by_receive)
    choice = {**{topic.topic: chosen.get(topic.topic, 'auto') for topic in rest}, **by_topic}
    return (choice if by_topic or chosen else 'auto'), findings


def _common(
    bag: str, topics: Sequence[TopicColumns], *, by_receive: bool
) -> tuple[dict[str, Clock | SimulatedTime], tuple[HealthFinding, ...]]:
    """Choose for topics whose stamps are used beside each other, and beside receive times."""
    fits = {
        topic.topic: fit
        for topic in topics
        # The stamp of a trajectory says when to begin.
        if not _receive_only(topic) and not topic.msgtype.endswith('/JointTrajectory')
        if topic.header_ns is not None
        if (fit := compare_clocks(topic.receive_ns, topic.header_ns)) is not None
    }
    if any(fit.simulated for fit in fits.values()):
        return _simulated(bag, topics, fits)
    findings = []
    if all(no_time_of_day(topic.receive_ns) for topic in topics if len(topic.receive_ns)):
        fits = {name: fit for name, fit in fits.items() if abs(fit.offset) >= OTHER_CLOCK_S}
    offsets = [fit.offset for fit in fits.values()]
    drifts = {fit.drifts for fit in fits.values()}
    mixed = by_receive or len(drifts) > 1 or np.ptp(offsets or [0.0]) > _TWO_CLOCKS_S
    chosen: dict[str, Clock | SimulatedTime] = {}
    for name, fit in fits.items() if mixed else ():
        if not fit.is_other and fit.offset <= CLOSE_S:
            continue
        beside = 'another topic has no header stamps' if by_receive else 'others have another clock'
        if not fit.is_other:
            done = 'a driver that stamps long before it sends, or another clock; used as they are'
        elif fit.obstacle:
            chosen[name] = 'receive'
            done = f'{beside}; {fit.obstacle}, so that receive times are used'
        else:
            chosen[name] = 'carried'
            done = f'{beside}; they are carried over to its clock'
        size = f'{1e3 * abs(fit.offset):.1f} ms'
        if abs(fit.offset) >= OTHER_CLOCK_S:
            size = f'{abs(fit.offset):.3f} s'
        when = 'after' if fit.offset > 0 else 'before'
        drift = f', drifting by {fit.drift:.1f} ppm' if fit.drifts else ''
        detail = f'messages come {size} {when} their header stamps at the earliest{drift}; {done}'
        findings.append(HealthFinding(bag, name, FindingKind.CLOCK_OFFSET, 1, detail))
    return chosen, tuple(findings)


def _simulated(
    bag: str, topics: Sequence[TopicColumns], fits: Mapping[str, ClockFit]
) -> tuple[dict[str, Clock | SimulatedTime], tuple[HealthFinding, ...]]:
    """Choose simulated time for all topics, as the one with most messages shows it."""
    stamped = [topic for topic in topics if topic.topic in fits and fits[topic.topic].simulated]
    best = max(stamped, key=lambda topic: len(topic.receive_ns))
    assert best.header_ns is not None  # noqa: S101 (or it would have no fit)
    rows = np.flatnonzero(best.header_ns)
    received, header = best.receive_ns[rows], best.header_ns[rows]
    seconds = (received[-1] - received[0]) / SECOND_NS
    speed = (header[-1] - header[0]) / max(received[-1] - received[0], 1)
    # The quickest message of each time was held up least; the pace may change from one to the next.
    ahead = header - header[0] - speed * (received - received[0])
    count = min(int(seconds / _PACE_S), len(rows) // _PACE_MESSAGES)
    cells = np.array_split(np.arange(len(rows)), max(count, 2))
    quickest = np.array([cell[np.argmax(ahead[cell])] for cell in cells])
    quickest = quickest[np.diff(received[quickest], prepend=received[0] - 1) > 0]
    pace = SimulatedTime(received[quickest], np.maximum.accumulate(header[quickest]))
    others = [topic.topic for topic in topics if topic not in stamped]
    detail = (
        f'header stamps are simulated time from {header[0] / SECOND_NS:.3f} s on, which runs '
        f'{speed:.3g} times as fast as the clock of the recorder'
    )
    if others:
        detail += f'; receive times of {", ".join(others)} are carried over to it'
    finding = HealthFinding(bag, best.topic, FindingKind.SIMULATED_TIME, len(rows), detail)
    return {topic.topic: pace for topic in topics}, (finding,)


def _receive_only(topic: TopicColumns) -> bool:
    return topic.header_ns is None or not topic.header_ns.any()


def stamp(bag: str, topic: TopicColumns, choice: Choice) -> Stamped:
    """Give each row of a topic its time.

    The choice is ``receive``, or header stamps, ``carried`` over to the recorder's clock or as they
    are; where there is none or it is zero, the receive time takes its place, or what it is in
    simulated time. Where the bag says when messages were sent, theirs is without what held the
    recorder up. By topic, the default is ``auto``.
    """
    stamps = choice.get(topic.topic, 'auto') if isinstance(choice, dict) else choice
    findings: list[HealthFinding] = []
    sent = None if stamps == 'receive' else _as_sent(topic)
    times = topic.receive_ns if sent is None else sent
    if isinstance(stamps, SimulatedTime):
        times = stamps.at(times)
    fit = None if topic.header_ns is None else compare_clocks(topic.receive_ns, topic.header_ns)
    if stamps != 'receive' and topic.header_ns is not None:
        zero = topic.header_ns == 0
        header = topic.header_ns
        if stamps == 'carried' and fit is not None:
            header = _carried(fit, header)
        times = np.where(zero, times, header)
        if zero.any():
            detail = f'of {len(zero)} header stamps; the receive time is used'
            count = int(zero.sum())
            findings.append(HealthFinding(bag, topic.topic, FindingKind.NO_STAMP, count, detail))
    elif stamps == 'header':
        detail = 'messages of this type have no header; the receive time is used'
        findings.append(HealthFinding(bag, topic.topic, FindingKind.NO_STAMP, len(times), detail))
    usable = longest_increasing(times)
    dropped = times[~usable]
    if len(dropped):
        repeated = int(np.isin(dropped, times[usable]).sum())
        detail = f'rows left out: {repeated} repeat a stamp, {len(dropped) - repeated} go back'
        kind = FindingKind.REORDERED_STAMP
        findings.append(HealthFinding(bag, topic.topic, kind, len(dropped), detail))
    source: StampSource = 'carried' if stamps == 'carried' else 'header'
    if isinstance(stamps, SimulatedTime):
        source = 'simulated'
    elif stamps == 'receive' or _receive_only(topic):
        source = 'receive' if sent is None else 'sent'
    return Stamped(times, usable, tuple(findings), fit, source)


def _as_sent(topic: TopicColumns) -> NDArray[np.int64] | None:
    """Return when messages would have been received if all had taken the usual time, ns.

    What holds the recorder up does so after the middleware of the sender has stamped a message, and
    a robot has not waited for the recorder. What was sent before the recording and kept for it is
    the first that came.

    Returns:
        (n,) times by the recorder's clock; None where it is not known when messages were sent, or
        no line carries that over to the recorder's clock.
    """
    sent = topic.sent_ns
    fit = None if sent is None else compare_clocks(topic.receive_ns, sent)
    if sent is None or fit is None or fit.obstacle or fit.jumps:
        return None
    stamped = sent != 0
    times = _carried(fit, sent)
    times += int(np.median((topic.receive_ns - times)[stamped]))
    return np.where(stamped, np.maximum(times, topic.receive_ns[0]), topic.receive_ns)


def _carried(fit: ClockFit, stamps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return (n,) stamps of another clock, 0 where there is none, by the recorder's clock, ns."""
    passed = (stamps - stamps[stamps != 0][0]) / SECOND_NS
    drift = 0.0 if np.isnan(fit.drift) else 1e-6 * fit.drift
    later: NDArray[np.int64] = np.round((fit.offset + drift * passed) * SECOND_NS).astype(np.int64)
    return stamps + later


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
