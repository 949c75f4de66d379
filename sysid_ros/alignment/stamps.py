# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The time of each row: which stamp counts, and how two clocks run against each other."""

from __future__ import annotations

import bisect
import itertools
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from sysid_ros.alignment.health import SECOND_NS, FindingKind, HealthFinding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.bags import TopicColumns
    from sysid_ros.config import StampChoice

#: A lasting change of receive time minus header stamp by more than this is a jump of a clock, s.
CLOCK_JUMP_S = 0.1
#: A drift is reported when it moves stamps by more than this over a recording, s.
_DRIFTED_S = 1e-3
#: A drift is certain when it is more than so many of its standard deviations.
_CERTAIN = 5.0
#: Two clocks of the same time drift by less than this, millionths; a simulation's clock does not.
LARGEST_DRIFT = 1000.0
#: Messages are taken together in at most so many groups of neighbours.
_GROUPS = 400
#: A drift is estimated from so many messages and seconds on.
_FEWEST = 20
_SHORTEST_S = 5.0
#: A step is the difference between so many messages before and after it.
_NEIGHBOURS = 100
#: What ``stamps`` asks for, or header stamps carried over to the recorder's clock.
Clock = Literal['auto', 'header', 'receive', 'carried']
#: Header stamps this far from the receive times are from another clock (simulated time, a robot
#: that is not synchronised), s. Transport alone never takes as long.
OTHER_CLOCK_S = 1.0


class ClockJump(NamedTuple):
    """A step of one clock against the other.

    Attributes:
        time_ns: Receive time of the first message after it, ns since the epoch.
        seconds: By how much receive time minus header stamp grew, s.
    """

    time_ns: int
    seconds: float


class ClockFit(NamedTuple):
    """Receive time minus header stamp: a straight line, the scatter around it, and jumps.

    Attributes:
        offset: At the first message, s: difference of the clocks plus the usual transport time.
        drift: By how much more the recorder's clock runs, millionths; NaN where the recording is
            too short to tell.
        deviation: Standard deviation of the drift, millionths; NaN likewise.
        jitter: Scatter of the transport time, s: 1.4826 times the median deviation.
        jumps: Where the line has steps.
        duration: From the first message to the last, s.
    """

    offset: float
    drift: float
    deviation: float
    jitter: float
    jumps: tuple[ClockJump, ...]
    duration: float

    @property
    def drifts(self) -> bool:
        """Whether the drift is certain, and moves stamps by more than a millisecond."""
        moved = 1e-6 * abs(self.drift) * self.duration
        return moved > _DRIFTED_S and abs(self.drift) > _CERTAIN * self.deviation


def compare_clocks(receive_ns: NDArray[np.int64], header_ns: NDArray[np.int64]) -> ClockFit | None:
    """Compare the two clocks of a topic.

    The line is that of Theil (1950) and Sen (J. Am. Stat. Assoc. 63, 1968) through medians of
    neighbours: messages that were held up somewhere, up to a third of them, do not move it.
    Of a recording with steps, the longest part without one is taken.

    Args:
        receive_ns: (n,) receive times, ns.
        header_ns: (n,) header stamps, ns; those that are zero are left out.

    Returns:
        The comparison; None where fewer than two messages carry a stamp.
    """
    stamped = header_ns != 0
    received, header = receive_ns[stamped], header_ns[stamped]
    if len(received) < 2:  # noqa: PLR2004 (nothing to compare)
        return None
    late = (received - header) / SECOND_NS
    times = (received - received[0]) / SECOND_NS
    steps = np.diff(late)
    places = np.flatnonzero(np.abs(steps) > CLOCK_JUMP_S) + 1
    jumps = _lasting(late, places)
    level = np.zeros(len(late))
    for place, seconds in jumps:
        level[place:] += seconds
    late = late - level
    drift = deviation = np.nan
    # The size of a step is not known well enough to draw one line through both sides.
    bounds = [0, *(place for place, _ in jumps), len(late)]
    begin, end = max(itertools.pairwise(bounds), key=lambda part: part[1] - part[0])
    if end - begin >= _FEWEST and times[end - 1] - times[begin] >= _SHORTEST_S:
        drift, deviation = _slope(times[begin:end], late[begin:end])
    rest = late - (drift * times if np.isfinite(drift) else 0.0)
    middle = float(np.median(rest))
    return ClockFit(
        offset=middle,
        drift=1e6 * drift,
        deviation=1e6 * deviation,
        jitter=1.4826 * float(np.median(np.abs(rest - middle))),
        jumps=tuple(ClockJump(int(received[place]), seconds) for place, seconds in jumps),
        duration=float(times[-1] - times[0]),
    )


def clock_findings(bag: str, topic: TopicColumns, fit: ClockFit | None) -> list[HealthFinding]:
    """Report jumps and drift between the clock of the header stamps and that of the recorder."""
    if fit is None:
        return []
    found = []
    if fit.jumps:
        sizes = ', '.join(f'{jump.seconds:+.3f}' for jump in fit.jumps[:3])
        detail = f'receive time minus header stamp changes for good, by {sizes} s'
        found.append(
            HealthFinding(bag, topic.topic, FindingKind.CLOCK_JUMP, len(fit.jumps), detail)
        )
    if fit.drifts:
        detail = (
            f"the recorder's clock gains {fit.drift:.1f} ± {1.96 * fit.deviation:.1f} millionths "
            f'on the header stamps, {1e-3 * fit.drift * fit.duration:.1f} ms over the recording'
        )
        found.append(HealthFinding(bag, topic.topic, FindingKind.CLOCK_DRIFT, 1, detail))
    return found


def _lasting(late: NDArray[np.float64], places: NDArray[np.int64]) -> list[tuple[int, float]]:
    """Return place and size of steps that last; a message that comes late is none."""
    found: list[tuple[int, float]] = []
    bounds = [0, *places.tolist(), len(late)]
    for begin, place, end in zip(bounds, bounds[1:], bounds[2:], strict=False):
        before = float(np.median(late[max(begin, place - _NEIGHBOURS) : place]))
        here = float(np.median(late[place : min(end, place + _NEIGHBOURS)]))
        seconds = here - before
        if abs(seconds) <= CLOCK_JUMP_S:
            continue
        # Two opposite steps around one message are none.
        if found and place == found[-1][0] + 1 and abs(found[-1][1] + seconds) < CLOCK_JUMP_S:
            found.pop()
        else:
            found.append((place, seconds))
    return found


def _slope(times: NDArray[np.float64], late: NDArray[np.float64]) -> tuple[float, float]:
    """Return the slope of a line, and its standard deviation."""
    from scipy.stats import theilslopes  # noqa: PLC0415 (half a second)

    count = min(len(late), _GROUPS)
    bounds = np.linspace(0, len(late), count + 1).astype(int)
    middles = [
        (float(np.median(times[a:b])), float(np.median(late[a:b])))
        for a, b in itertools.pairwise(bounds)
    ]
    x, y = np.array(middles).T
    found = theilslopes(y, x, alpha=0.6827)
    return float(found.slope), float(found.high_slope - found.low_slope) / 2


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
    by_topic: dict[str, Clock] = dict(stamps) if isinstance(stamps, dict) else {}
    by_receive = any(
        _receive_only(topic) or by_topic.get(topic.topic) == 'receive' for topic in topics
    )
    if isinstance(stamps, dict):
        rest = [topic for topic in topics if topic.topic not in by_topic]
        choice, findings = _common(bag, rest) if by_receive else ('auto', ())
        return {**{topic.topic: choice for topic in rest}, **by_topic}, findings
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
            FindingKind.CLOCK_OFFSET,
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
            findings.append(HealthFinding(bag, topic.topic, FindingKind.ZERO_STAMP, count, detail))
        findings += clock_findings(bag, topic, fit)
    elif stamps == 'header':
        detail = 'messages of this type have no header; the receive time is used'
        findings.append(HealthFinding(bag, topic.topic, FindingKind.NO_STAMP, len(times), detail))
    usable = longest_increasing(times)
    dropped = times[~usable]
    if len(dropped):
        duplicates = int(np.isin(dropped, times[usable]).sum())
        for kind, count in (
            (FindingKind.DUPLICATE_STAMP, duplicates),
            (FindingKind.REORDERED_STAMP, len(dropped) - duplicates),
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
