# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How two clocks run against each other, and the longest part of a bag in which none was set.

What is known of two clocks is receive time minus header stamp: their difference, and how long the
message took. Nothing arrives before it is sent, and whatever holds a message up makes it later, so
the clocks show in the lower envelope (V. Paxson, On Calibrating Measurements of Packet Transit
Times, SIGMETRICS 1998). What it cannot show is the least transport time, which counts as a
difference of the clocks.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

from sysid_ros.alignment.health import SECOND_NS, FindingKind, HealthFinding
from sysid_ros.bags import BagColumns, TopicColumns
from sysid_ros.bags.message_types import JOINT_TRAJECTORY

#: A drift is reported when it moves stamps by more than this over a recording, s. Stamps that are
#: off by less count as those of one clock.
CLOSE_S = 1e-3
#: A drift is certain when it is more than so many of its standard deviations.
_CERTAIN = 5.0
#: Two clocks of the same time drift by less than this, ppm; a simulation's clock does not.
LARGEST_DRIFT = 1000.0
#: The envelope goes through the least of each of at most so many groups of so many messages; this
#: fraction of the groups may lie below it, as stamps from the future do.
_GROUPS, _GROUP_MESSAGES, _BELOW = 100, 5, 0.1
#: A drift is estimated from so many groups and seconds on.
_FEWEST_GROUPS, _SHORTEST_S = 8, 5.0
#: The envelope is straight when all but two of so many parts of it come down to the line.
_PARTS = 8
#: A jump changes the least difference of so many seconds before and after by more than this, s.
_AROUND_S, _JUMP_S = 5.0, 0.05
#: The least difference is that of so many messages or more.
_FEWEST_AROUND = 20
#: A clock that jumps more often is not steady.
_MOST_JUMPS = 10
#: Header stamps this far from the receive times are from another clock (simulated time, a robot
#: that is not synchronised), s. Transport alone never takes as long.
OTHER_CLOCK_S = 1.0
#: Stamps before September 2001 are no time of day: simulated time, or the time since some start.
NO_TIME_OF_DAY_NS = 10**18


class ClockJump(NamedTuple):
    """A step of one clock against the other.

    Attributes:
        time_ns: Receive time of the first message after it, ns since the epoch.
        seconds: By how much receive time minus header stamp grew, s.
    """

    time_ns: int
    seconds: float


class ClockFit(NamedTuple):
    """Receive time minus header stamp: the line below, what comes on top of it, and jumps.

    Attributes:
        offset: At the first message, s: difference of the clocks plus the least transport time.
        drift: By how much more the recorder's clock runs, ppm; NaN where the recording is too
            short to tell.
        deviation: Standard deviation of the drift, ppm; NaN likewise.
        jumps: Where the line has steps.
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
        return moved > CLOSE_S and abs(self.drift) > _CERTAIN * self.deviation

    @property
    def is_other(self) -> bool:
        """Whether the header stamps are certainly from another clock than the receive times."""
        return self.simulated or self.drifts or not -CLOSE_S <= self.offset < OTHER_CLOCK_S

    @property
    def unsteady(self) -> bool:
        """Whether there are more jumps than anybody sets a clock."""
        return len(self.jumps) > _MOST_JUMPS

    @property
    def obstacle(self) -> str:
        """Why no line carries stamps from one clock to the other; empty where one does."""
        if abs(self.drift) > LARGEST_DRIFT:
            return f'the clocks run apart by {self.drift:.0f} ppm'
        if self.unsteady:
            return f'their difference changes {len(self.jumps)} times'
        if self.bend > CLOSE_S:
            return f'their difference leaves a straight line by {1e3 * self.bend:.1f} ms'
        return ''


def compare_clocks(receive_ns: NDArray[np.int64], header_ns: NDArray[np.int64]) -> ClockFit | None:
    """Compare the two clocks of a topic.

    The line has the median slope between the least of groups of neighbours (P. K. Sen, J. Am. Stat.
    Assoc. 63, 1968), and a tenth of these lie below it, so that a few bad stamps do not move it;
    what is held up, also most messages, does not either. Of a recording with jumps, the longest
    part without one is taken.

    Args:
        receive_ns: (n,) receive times, ns.
        header_ns: (n,) header stamps, ns; those that are zero are left out.

    Returns:
        The comparison; None where fewer than two messages carry a stamp.
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
    own = slice(begin, end)
    count = int(np.clip((end - begin) // _GROUP_MESSAGES, 1, _GROUPS))
    at, least = _least(times[own], late[own], count)
    drift = deviation = np.nan
    slope = bend = 0.0
    if count >= _FEWEST_GROUPS and at[-1] - at[0] >= _SHORTEST_S * (1 - 2 / count):
        slope, _, low, high = scipy.stats.theilslopes(least, at)
        drift, deviation = slope, (high - low) / (2 * 1.96)
        rest = least - slope * at
        lowest = sorted(part.min() for part in np.array_split(rest, _PARTS))
        bend = max(float(lowest[-3] - np.quantile(rest, _BELOW, method='lower')), 0.0)
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


def _least(
    times: NDArray[np.float64], late: NDArray[np.float64], count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return time and value of the least of each of so many groups of neighbours."""
    groups = np.array_split(np.arange(len(late)), count)
    places = np.array([group[np.argmin(late[group])] for group in groups])
    return times[places], late[places]


def _jumps(times: NDArray[np.float64], late: NDArray[np.float64]) -> list[tuple[int, float]]:
    """Return first message and size of jumps of the lower envelope that stay for good."""
    width = int(_AROUND_S * len(late) / max(float(times[-1] - times[0]), 1e-9))
    width = int(np.clip(width, _FEWEST_AROUND, max(len(late) // 2, 1)))
    rest = late.copy()
    found: list[tuple[int, float]] = []
    while len(late) > 2 * _FEWEST_AROUND and len(found) <= _MOST_JUMPS:
        padded = np.pad(rest, width, constant_values=np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(padded, width).min(axis=1)
        # The least of the messages before each place, and of those from it on.
        before, after = windows[: len(rest)], windows[width : width + len(rest)]
        change = np.nan_to_num(after - before, posinf=0.0, neginf=0.0)
        # Near the ends, messages may have been held up, but not for so long.
        to_end = np.minimum(np.arange(len(rest)), len(rest) - np.arange(len(rest)))
        change[(to_end < width // 2) & (np.abs(change) < _AROUND_S)] = 0.0
        change[to_end < _FEWEST_AROUND] = 0.0
        row = int(np.argmax(np.abs(change)))
        seconds = float(change[row])
        if abs(seconds) <= _JUMP_S:
            break
        first = max(row - width, 0)
        low = first + np.flatnonzero(rest[first : row + width] < (before[row] + after[row]) / 2)
        # Before a jump up, and after one down, messages may be late by as much.
        place = int(low[-1]) + 1 if seconds > 0 else int(low[0])
        found.append((place, seconds))
        rest[place:] -= seconds
    return sorted(found)


class LongestPart(NamedTuple):
    """The longest part of a bag in which no clock was set.

    Attributes:
        bag: With the stamps that were recorded.
        findings: What was set, and which part this is.
    """

    bag: BagColumns
    findings: tuple[HealthFinding, ...]


def longest_part(bag: BagColumns, used: Collection[str]) -> LongestPart:
    """Leave out what is on the other side of jumps of clocks.

    Across a jump stamps mean different things, and a simulation has begun anew: nothing can be
    simulated through it. The clock of the recorder counts, and header stamps of used topics.
    """
    jumps = [
        (item.receive_ns, bag.path.name, f"the recorder's clock was set back by {item.seconds:.3f}")
        for item in bag.set_back
    ]
    for topic in bag.topics if not jumps else ():
        # The stamp of a trajectory says when to begin.
        if topic.topic not in used or topic.msgtype == JOINT_TRAJECTORY or topic.header_ns is None:
            continue
        fit = compare_clocks(topic.receive_ns, topic.header_ns)
        if fit is not None and not fit.unsteady:
            what = 'receive time minus header stamp changes for good by'
            jumps += [
                (jump.time_ns, topic.topic, f'{what} {jump.seconds:+.3f}') for jump in fit.jumps
            ]
    stamps = [topic.receive_ns for topic in bag.topics if len(topic.receive_ns)]
    if not jumps:
        return LongestPart(bag, ())
    start, stop = min(int(own[0]) for own in stamps), max(int(own[-1]) for own in stamps)
    edges = sorted([start, stop + 1, *(time for time, _, _ in jumps)])
    begin, end = max(itertools.pairwise(edges), key=lambda pair: pair[1] - pair[0])
    shift = sum(item.added_ns for item in bag.set_back if item.receive_ns <= begin)
    places = [(time - start) / SECOND_NS for time in (begin, end)]
    used_part = f'{places[0]:.1f} to {places[1]:.1f} s are used; cut the bag there to use the rest'
    findings = tuple(
        HealthFinding(
            bag.path.name,
            subject,
            FindingKind.CLOCK_JUMP,
            1,
            f'{what} s at {(time - start) / SECOND_NS:.1f} s; {used_part}',
            spans=(((time - start) / SECOND_NS,) * 2,),
        )
        for time, subject, what in jumps
    )
    part = dataclasses.replace(
        bag,
        topics=tuple(_between(topic, begin, end, shift) for topic in bag.topics),
        text_columns=tuple(
            dataclasses.replace(
                column,
                receive_ns=column.receive_ns[rows] - shift,
                texts=column.texts[rows],
            )
            for column in bag.text_columns
            for rows in [slice(*np.searchsorted(column.receive_ns, [begin, end]))]
        ),
        set_back=(),
    )
    # Of a recorder that was set back, header stamps are looked at once that is left out.
    inner = longest_part(part, used) if bag.set_back else LongestPart(part, ())
    return LongestPart(inner.bag, (*findings, *inner.findings))


def _between(topic: TopicColumns, begin: int, end: int, shift: int) -> TopicColumns:
    """Return the rows of a topic between two receive times, ns, and move these back."""
    rows = slice(*np.searchsorted(topic.receive_ns, [begin, end]))
    header, legs, sent = (
        None if values is None else values[rows]
        for values in (topic.header_ns, topic.legs, topic.sent_ns)
    )
    return dataclasses.replace(
        topic,
        receive_ns=topic.receive_ns[rows] - shift,
        header_ns=header,
        legs=legs,
        sent_ns=sent,
        fields=tuple(
            dataclasses.replace(field, values=field.values[rows]) for field in topic.fields
        ),
    )
