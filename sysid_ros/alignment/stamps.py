# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The time of each row: which stamp counts, and how two clocks run against each other.

What is known of two clocks is receive time minus header stamp: their difference, and how long the
message took. Nothing arrives before it is sent, and whatever holds a message up makes it later, so
the clocks show in the lower envelope (V. Paxson, On Calibrating Measurements of Packet Transit
Times, SIGMETRICS 1998). What it cannot show is the least transport time, which counts as a
difference of the clocks.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from sysid_ros.alignment.health import (
    ERRORS,
    FEW,
    LITTLE,
    MANY,
    FindingKind,
    HealthFinding,
    timing_findings,
)
from sysid_ros.bags import BagColumns, TopicColumns
from sysid_ros.bags.message_types import JOINT_TRAJECTORY
from sysid_ros.config.schema import StampChoice
from sysid_ros.vocabulary import SECOND_NS

#: A drift is reported when it moves stamps by more than this over a recording, s. Stamps that are
#: off by less count as those of one clock.
CLOSE_S = 1e-3
#: Two clocks of the same time drift by less than this, ppm; a simulation's clock does not.
LARGEST_DRIFT = 1000.0
#: The envelope goes through the least of each of at most so many groups of messages; this fraction
#: of the groups may lie below it, as stamps from the future do.
_GROUPS, _BELOW = 100, 0.1
#: A drift is estimated from so many groups on. The envelope is straight when all but two of so many
#: parts of it come down to the line.
_PARTS = 8
#: Transport is as usual, and clocks run as they did, for so long, s.
STEADY_S = 5.0
#: Clocks, or one before and after it was set, are two when they differ by more than this, s.
_TWO_CLOCKS_S = 0.05
#: Unit of a counter of 32 bits to the seconds after which it wraps.
_COUNTERS = {'ns': 2**32 / 1e9, 'µs': 2**32 / 1e6, 'ms': 2**32 / 1e3}
#: A clock that jumps more often is not steady.
_MOST_JUMPS = 10
#: Header stamps this far from the receive times are from another clock (simulated time, a robot
#: that is not synchronised), s. Transport alone never takes as long.
OTHER_CLOCK_S = 1.0
#: Stamps before September 2001 are no time of day: simulated time, or the time since some start.
NO_TIME_OF_DAY_NS = 10**18
#: How fast a simulation runs may change from one such time to the next, s.
_PACE_S = 0.2
#: What ``stamps`` asks for, or header stamps carried over to the recorder's clock.
Clock = Literal['auto', 'header', 'receive', 'carried']
#: What times are: header stamps as they are or carried over to the recorder's clock, receive times,
#: what these would be if all messages had taken the usual time since they were sent, or simulated
#: time, read from stamps or from what came at the same moment.
StampSource = Literal['header', 'carried', 'receive', 'sent', 'simulated']


class ClockJump(NamedTuple):
    """By how much receive time minus header stamp grew, s, from the message received at a time."""

    time_ns: int
    seconds: float


class ClockFit(NamedTuple):
    """Receive time minus header stamp, by its lower envelope.

    Attributes:
        offset: At the first message, s: difference of the clocks plus the least transport time.
        drift: By how much more the recorder's clock runs, ppm; NaN in too short a recording.
        deviation: Standard deviation of the drift, ppm.
        duration: From the first message to the last, s.
        bend: By how much messages stay above the line for long, s: a clock that is being corrected.
        simulated: The header stamps are no time of day and the receive times are.
    """

    offset: float
    drift: float
    deviation: float
    jumps: tuple[ClockJump, ...]
    duration: float
    bend: float
    simulated: bool

    @property
    def drifts(self) -> bool:
        """Whether the drift is certain, and moves stamps by more than a millisecond."""
        moved = 1e-6 * abs(self.drift) * self.duration
        return moved > CLOSE_S and abs(self.drift) > ERRORS * self.deviation

    @property
    def is_other(self) -> bool:
        """Whether the header stamps are certainly from another clock than the receive times."""
        return self.simulated or self.drifts or not -CLOSE_S <= self.offset < OTHER_CLOCK_S

    @property
    def obstacle(self) -> str:
        """Why no line carries stamps from one clock to the other; empty where one does."""
        if abs(self.drift) > LARGEST_DRIFT:
            return f'the clocks run apart by {self.drift:.0f} ppm'
        if self.jumps:
            return f'their difference changes {len(self.jumps)} times'
        if self.bend > CLOSE_S:
            return f'their difference leaves a straight line by {1e3 * self.bend:.1f} ms'
        return ''


def compare_clocks(receive_ns: NDArray[np.int64], header_ns: NDArray[np.int64]) -> ClockFit | None:
    """Compare the two clocks of a topic.

    The line has the median slope between the least of groups of neighbours (P. K. Sen, J. Am. Stat.
    Assoc. 63, 1968), and a tenth of these lie below it, so that a few bad stamps do not move it;
    what is held up, also most messages, does not either. Of a recording with jumps, the longest
    part without one is taken. Both arrays are (n,) ns; header stamps of zero are left out, and the
    result is None where fewer than two are left.
    """
    rows = np.flatnonzero(header_ns)
    received, header = receive_ns[rows], header_ns[rows]
    if len(received) < 2:  # noqa: PLR2004 (nothing to compare)
        return None
    late = (received - header) / SECOND_NS
    times = (received - received[0]) / SECOND_NS
    jumps = _jumps(times, late)
    bounds = [0, *(place for place, _ in jumps), len(late)]
    begin, end = max(itertools.pairwise(bounds), key=lambda part: part[1] - part[0])
    count = int(np.clip((end - begin) // FEW, 1, _GROUPS))
    groups = np.array_split(np.arange(begin, end), count)
    lowest = np.array([group[np.argmin(late[group])] for group in groups])
    at, least = times[lowest], late[lowest]
    drift = deviation = np.nan
    slope = bend = 0.0
    if count >= _PARTS and at[-1] - at[0] >= STEADY_S * (1 - 2 / count):
        slope, _, low, high = scipy.stats.theilslopes(least, at)
        drift, deviation = slope, (high - low) / (2 * 1.96)
        rest = least - slope * at
        parts = sorted(part.min() for part in np.array_split(rest, _PARTS))
        bend = max(float(parts[-3] - np.quantile(rest, _BELOW, method='lower')), 0.0)
    return ClockFit(
        offset=float(np.quantile(least - slope * at, _BELOW, method='lower')),
        drift=1e6 * drift,
        deviation=1e6 * deviation,
        jumps=tuple(ClockJump(int(received[place]), seconds) for place, seconds in jumps),
        duration=float(times[-1] - times[0]),
        bend=bend,
        simulated=no_time_of_day(header) and not no_time_of_day(received),
    )


def no_time_of_day(stamps: NDArray[np.int64]) -> bool:
    """Tell simulated time, or the time since some start, from a time of day."""
    return bool(len(stamps)) and bool(np.median(stamps) < NO_TIME_OF_DAY_NS)


def _jumps(times: NDArray[np.float64], late: NDArray[np.float64]) -> list[tuple[int, float]]:
    """Return first message and size of jumps of the lower envelope that stay for good."""
    width = int(STEADY_S * len(late) / max(float(times[-1] - times[0]), 1e-9))
    width = int(np.clip(width, MANY, max(len(late) // 2, 1)))
    rest = late.copy()
    found: list[tuple[int, float]] = []
    while len(late) > 2 * MANY and len(found) <= _MOST_JUMPS:
        padded = np.pad(rest, (width, 0), constant_values=np.inf)
        least = scipy.ndimage.minimum_filter1d(
            padded, width, mode='constant', cval=np.inf, origin=-(width // 2)
        )
        # The least of the messages before each place, and of those from it on.
        before, after = least[: len(rest)], least[width:]
        change = np.nan_to_num(after - before, posinf=0.0, neginf=0.0)
        # Near the ends, messages may have been held up, but not for so long.
        to_end = np.minimum(np.arange(len(rest)), len(rest) - np.arange(len(rest)))
        change[(to_end < width // 2) & (np.abs(change) < STEADY_S)] = 0.0
        change[to_end < MANY] = 0.0
        row = int(np.argmax(np.abs(change)))
        seconds = float(change[row])
        if abs(seconds) <= _TWO_CLOCKS_S:
            break
        first = max(row - width, 0)
        low = first + np.flatnonzero(rest[first : row + width] < (before[row] + after[row]) / 2)
        # Before a jump up, and after one down, messages may be late by as much.
        place = int(low[-1]) + 1 if seconds > 0 else int(low[0])
        found.append((place, seconds))
        rest[place:] -= seconds
    return sorted(found)


class Stamped(NamedTuple):
    """The (n,) times of the rows of a topic, and what they are from.

    Rows whose stamp is not after the stamps before are not usable. ``clock`` compares header stamps
    with receive times.
    """

    times_ns: NDArray[np.int64]
    usable: NDArray[np.bool_]
    findings: tuple[HealthFinding, ...]
    clock: ClockFit | None
    source: StampSource


class SimulatedTime(NamedTuple):
    """How a simulation's time went on: (k,) increasing receive times and simulated times, ns."""

    receive_ns: NDArray[np.int64]
    header_ns: NDArray[np.int64]

    def at(self, receive_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return simulated times of receive times, ns; beyond the ends it goes on as near them."""
        known, simulated = (values - values[0] for values in self)
        passed = (receive_ns - self.receive_ns[0]).astype(np.float64)
        first = simulated[1] / known[1]
        last = (simulated[-1] - simulated[-2]) / (known[-1] - known[-2])
        found = np.interp(passed, known, simulated) + first * np.minimum(passed, 0.0)
        found += last * np.maximum(passed - known[-1], 0.0)
        simulated_ns: NDArray[np.int64] = self.header_ns[0] + np.round(found).astype(np.int64)
        return simulated_ns


#: How each topic gets its times.
Choice = Clock | dict[str, Clock | SimulatedTime]


def stamp_topics(
    bag: BagColumns,
    used: Collection[str],
    stamps: StampChoice,
    texts: Sequence[TopicColumns] = (),
) -> tuple[dict[str, Stamped], list[HealthFinding]]:
    """Give the rows of all topics of a bag, and of those with texts, their times.

    Across a jump of a clock, stamps mean different times: receive times are used then, and a
    finding says where to cut the bag. The stamps of the topics that are used are compared with each
    other. The result is topic to its times, and what was found about files and clocks.
    """
    name = bag.path.name
    start = min((int(own.receive_ns[0]) for own in bag.topics if len(own.receive_ns)), default=0)
    detail = 'it was not finished, and is read as far as it goes'
    findings = [
        HealthFinding(name, file, FindingKind.UNFINISHED, 1, detail) for file in bag.unfinished
    ]
    detail = 'it is in the folder of the bag, and not in its metadata'
    findings += [
        HealthFinding(name, file, FindingKind.UNLISTED, 1, detail) for file in bag.unlisted
    ]
    for item in bag.set_back:
        what = f"the recorder's clock was set back by {item.seconds:.3f} s"
        findings.append(_jump(name, name, what, item.receive_ns - start))
    choice: Choice
    if bag.set_back and stamps == 'auto':
        choice = 'receive'
    else:
        choice, found = one_clock(name, [own for own in bag.topics if own.topic in used], stamps)
        findings += found
    return {own.topic: stamp(name, own, choice) for own in (*bag.topics, *texts)}, findings


def _jump(bag: str, subject: str, what: str, after_ns: int) -> HealthFinding:
    seconds = after_ns / SECOND_NS
    detail = f'{what} at {seconds:.1f} s; receive times are used: cut the bag there'
    spans = ((seconds, seconds),)
    return HealthFinding(bag, subject, FindingKind.CLOCK_JUMP, 1, detail, spans=spans)


def _named_jump(topic: TopicColumns, jump: ClockJump) -> str:
    """Say which clock did what: the recorder's, whose times have a gap then, or that of stamps."""
    assert topic.header_ns is not None  # noqa: S101 (or it would have no jump)
    row = max(int(np.searchsorted(topic.receive_ns, jump.time_ns)), 1)
    waited = (topic.receive_ns[row] - topic.receive_ns[row - 1]) / SECOND_NS
    if abs(waited - jump.seconds) < _TWO_CLOCKS_S + LITTLE * abs(jump.seconds):
        return f"the recorder's clock jumps by {jump.seconds:+.3f} s"
    clock = 'the clock of its header stamps'
    for unit, seconds in _COUNTERS.items():
        if abs(jump.seconds - seconds) < _TWO_CLOCKS_S:
            return f'{clock} wraps after {seconds:.3f} s, as 32 bits of {unit} do'
    stamp = topic.header_ns[row]
    if no_time_of_day(topic.header_ns[row : row + 1]) and stamp < topic.header_ns[row - 1]:
        return f'{clock} starts anew at {stamp / SECOND_NS:.3f} s, {jump.seconds:.3f} s back'
    return f'{clock} jumps by {-jump.seconds:+.3f} s'


def one_clock(
    bag: str, topics: Sequence[TopicColumns], stamps: StampChoice
) -> tuple[Choice, tuple[HealthFinding, ...]]:
    """Decide whether the stamps of some topics can be used side by side.

    Commands without a header have receive times only: mixed with stamps of another clock they would
    shift against measurements. ``auto`` then carries header stamps over to the recorder's clock
    along a straight line, which keeps their steadiness, and takes receive times where no line does:
    where a clock jumps, for all topics. Measurements of a simulation go by its time, however fast
    that runs, and topics without a header are carried over to it. The result is the choice for all
    topics, or by topic, and what it was made from.
    """
    if not isinstance(stamps, dict) and stamps != 'auto':
        return stamps, ()
    by_topic = dict(stamps) if isinstance(stamps, dict) else {}
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
        if not _receive_only(topic) and topic.msgtype != JOINT_TRAJECTORY
        if topic.header_ns is not None
        if (fit := compare_clocks(topic.receive_ns, topic.header_ns)) is not None
    }
    if all(no_time_of_day(topic.receive_ns) for topic in topics if len(topic.receive_ns)):
        # A recorder in simulated time is as late as the simulation is fast: that is no other clock.
        fits = {name: fit for name, fit in fits.items() if abs(fit.offset) >= OTHER_CLOCK_S}
    jumps = [
        (name, jump)
        for name, fit in fits.items()
        if len(fit.jumps) <= _MOST_JUMPS
        for jump in fit.jumps
    ]
    if jumps:
        start = min(int(topic.receive_ns[0]) for topic in topics if len(topic.receive_ns))
        own = {topic.topic: topic for topic in topics}
        return {topic.topic: 'receive' for topic in topics}, tuple(
            _jump(bag, name, _named_jump(own[name], jump), jump.time_ns - start)
            for name, jump in jumps
        )
    if any(fit.simulated for fit in fits.values()):
        return _simulated(bag, topics, {name for name, fit in fits.items() if fit.simulated})
    findings = []
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
        error = 1.96 * fit.deviation
        drift = f', drifting by {fit.drift:.1f} ± {error:.1g} ppm' if fit.drifts else ''
        detail = f'messages come {size} {when} their header stamps at the earliest{drift}; {done}'
        findings.append(HealthFinding(bag, name, FindingKind.CLOCK_OFFSET, 1, detail))
    return chosen, tuple(findings)


def _simulated(
    bag: str, topics: Sequence[TopicColumns], simulated: Collection[str]
) -> tuple[dict[str, Clock | SimulatedTime], tuple[HealthFinding, ...]]:
    """Choose simulated time for all topics, as the one with most messages shows it."""
    stamped = [topic for topic in topics if topic.topic in simulated]
    best = max(stamped, key=lambda topic: len(topic.receive_ns))
    assert best.header_ns is not None  # noqa: S101 (or it would have no fit)
    rows = np.flatnonzero(best.header_ns)
    received, header = best.receive_ns[rows], best.header_ns[rows]
    seconds = (received[-1] - received[0]) / SECOND_NS
    speed = (header[-1] - header[0]) / max(received[-1] - received[0], 1)
    # The quickest message of each time was held up least; the pace may change from one to the next.
    ahead = header - header[0] - speed * (received - received[0])
    count = min(int(seconds / _PACE_S), len(rows) // FEW)
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
        zero, header = topic.header_ns == 0, topic.header_ns
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
    usable, dropped = _usable(bag, topic, times)
    findings += dropped
    source: StampSource = 'carried' if stamps == 'carried' else 'header'
    if isinstance(stamps, SimulatedTime):
        source = 'simulated'
    elif stamps == 'receive' or _receive_only(topic):
        source = 'receive' if sent is None else 'sent'
    return Stamped(times, usable, tuple(findings), fit, source)


def _usable(
    bag: str, topic: TopicColumns, times: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], list[HealthFinding]]:
    """Return (n,) True for rows whose stamps increase, and what is wrong with the others."""
    findings = []
    usable = np.zeros(len(times), dtype=bool)
    for _, rows in topic.parts:
        usable[rows] = longest_increasing(times[rows])
    copies = ~usable & _copies(topic, times)
    if copies.any():
        detail = f'of {len(times)} messages repeat the one before, with its stamp'
        count = int(copies.sum())
        findings.append(HealthFinding(bag, topic.topic, FindingKind.REPEATED, count, detail))
    dropped = times[~usable & ~copies]
    if len(dropped):
        repeated = int(np.isin(dropped, times[usable]).sum())
        detail = f'rows left out: {repeated} repeat a stamp, {len(dropped) - repeated} go back'
        kind = FindingKind.REORDERED_STAMP
        findings.append(HealthFinding(bag, topic.topic, kind, len(dropped), detail))
    return usable, findings


def _copies(topic: TopicColumns, times: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which of (n,) rows the next one repeats, with its stamp: leaving it out loses nothing.

    A driver says again what it has said where it has nothing new, as in simulated time that waits.
    """
    same = np.append(times[:-1] == times[1:], False)
    rows = np.flatnonzero(same)
    for field in topic.fields:
        both = field.values[rows], field.values[rows + 1]
        same[rows] &= np.all((both[0] == both[1]) | np.isnan(both).all(axis=0), axis=1)
    return same


def topic_timing(
    bag: str, topic: TopicColumns, stamped: Stamped, start: int
) -> list[HealthFinding]:
    """Count gaps and jitter of a topic, of each node that publishes some of its joints by itself.

    The start is the first measurement of the bag, ns.
    """
    return [
        finding
        for _, rows in topic.parts
        for finding in timing_findings(
            bag, topic.topic, stamped.times_ns[rows[stamped.usable[rows]]], start
        )
    ]


def _as_sent(topic: TopicColumns) -> NDArray[np.int64] | None:
    """Return when messages would have been received if all had taken the usual time, ns.

    What holds the recorder up does so after the middleware of the sender has stamped a message, and
    a robot has not waited for the recorder. What was sent before the recording and kept for it is
    the first that came. The result is None where it is not known when messages were sent, or no
    line carries that over to the recorder's clock.
    """
    sent = topic.sent_ns
    fit = None if sent is None else compare_clocks(topic.receive_ns, sent)
    if sent is None or fit is None or fit.obstacle:
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
    is kept: the later command is the one in force. The result is (n,) True for the chosen rows.
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
