# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How two clocks run against each other.

What is known of two clocks is receive time minus header stamp: their difference, and how long the
message took. Nothing arrives before it is sent, and whatever holds a message up makes it later, so
the clocks show in the lower envelope (V. Paxson, On Calibrating Measurements of Packet Transit
Times, SIGMETRICS 1998; S. Moon, P. Skelly and D. Towsley, Estimation and Removal of Clock Skew from
Network Delay Measurements, INFOCOM 1999). What it cannot show is the least transport time, which
counts as a difference of the clocks.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.health import SECOND_NS, FindingKind, HealthFinding, spans_of
from sysid_ros.bags import TopicColumns

#: A drift is reported when it moves stamps by more than this over a recording, s. Stamps that are
#: off by less count as those of one clock.
CLOSE_S = 1e-3
#: A drift is certain when it is more than so many of its standard deviations.
_CERTAIN = 5.0
#: Two clocks of the same time drift by less than this, millionths; a simulation's clock does not.
LARGEST_DRIFT = 1000.0
#: The envelope goes through the least of each of at most so many groups of so many messages.
_GROUPS = 100
_GROUP_MESSAGES = 5
#: This part of the groups may lie below it: stamps from the future, or a message that was quicker.
_BELOW = 0.1
#: A drift is estimated from so many groups and seconds on.
_FEWEST_GROUPS = 8
_SHORTEST_S = 5.0
#: Its deviation comes from leaving out one of so many parts of the recording. The envelope is
#: straight when all but this many of them come down to it.
_PARTS = 8
_PARTS_OFF = 2
#: A step is looked for between so many seconds before and after it, in cells of so many messages.
_AROUND_S = 5.0
CELL_MESSAGES = 10
_MOST_CELLS = 4000
#: The level of some cells is the third smallest of their least values; it takes so many cells.
_RANK = 2
_FEWEST_CELLS = 4
#: A step is more than so many times what levels usually differ by, and this, s.
_STEP_NOISE = 6.0
_LEAST_STEP_S = 1.5e-3
#: Of a step, one message to the next makes this part at least, and so do the levels between this
#: part of the time before and after it; what follows stays as level as this part of the step.
_ABRUPT = 0.5
_SOONER = 5
_REACH_S = 0.25
_LEVEL = 0.2
#: A clock that has more steps than this is not steady.
_MOST_STEPS = 10
#: A header stamp that falls by more than this and does not come back was set back, s.
SET_BACK_S = 0.1
_CONFIRMED_BY = 5
_LEAST_OF = 100
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
        row: Of the first message after it.
    """

    time_ns: int
    seconds: float
    row: int


class ClockFit(NamedTuple):
    """Receive time minus header stamp: the line below, what comes on top of it, and jumps.

    Attributes:
        offset: At the first message, s: difference of the clocks plus the least transport time.
        drift: By how much more the recorder's clock runs, millionths; NaN where the recording is
            too short to tell.
        deviation: Standard deviation of the drift, millionths; NaN likewise.
        jitter: Scatter of the transport time, s: 1.4826 times the median deviation.
        jumps: Where the line has steps.
        duration: From the first message to the last, s.
        bend: By how much messages stay above the line for long, s: a clock that is being corrected.
        simulated: The header stamps are no time of day and the receive times are.
    """

    offset: float
    drift: float
    deviation: float
    jitter: float
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
        early, late = -CLOSE_S, OTHER_CLOCK_S
        return self.simulated or self.drifts or not early <= self.offset < late

    @property
    def unsteady(self) -> bool:
        """Whether there are more steps than anybody sets a clock."""
        return len(self.jumps) > _MOST_STEPS

    @property
    def obstacle(self) -> str:
        """Why no line carries stamps from one clock to the other; empty where one does."""
        if abs(self.drift) > LARGEST_DRIFT:
            return f'the clocks run apart by {self.drift:.0f} millionths'
        if self.unsteady:
            return f'their difference changes {len(self.jumps)} times'
        if self.bend > CLOSE_S:
            return f'their difference leaves a straight line by {1e3 * self.bend:.1f} ms'
        return ''


def compare_clocks(receive_ns: NDArray[np.int64], header_ns: NDArray[np.int64]) -> ClockFit | None:
    """Compare the two clocks of a topic.

    The line is the regression quantile (R. Koenker and G. Bassett, Econometrica 46, 1978) of the
    least of groups of neighbours that a tenth of them lie below, a lower envelope that a few bad
    stamps do not move; what is held up, also most messages, does not either. The standard deviation
    of its slope is the jackknife's, over parts of the recording. Of a recording with steps, the
    longest part without one is taken.

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
    # One simulated time, heard of by two processes, is off by a step of it now and then.
    one_time = no_time_of_day(received) and no_time_of_day(header)
    jumps = _set_back(late, header) if one_time else _steps(times, late, header)
    bounds = [0, *(place for place, _ in jumps), len(late)]
    begin, end = max(itertools.pairwise(bounds), key=lambda part: part[1] - part[0])
    own, above = times[begin:end], late[begin:end]
    at, least = _least(own, above)
    line = _line(at, least)
    drift = deviation = np.nan
    bend = 0.0
    if len(least) >= _FEWEST_GROUPS and own[-1] - own[0] >= _SHORTEST_S:
        drift = line[1]
        parts = np.array_split(np.arange(len(least)), _PARTS)
        without = [_line(np.delete(at, p), np.delete(least, p))[1] for p in parts]
        spread = np.array(without) - np.mean(without)
        deviation = float(np.sqrt((_PARTS - 1) / _PARTS * float(spread @ spread)))
        off = [float(np.min(least[p] - line[0] - line[1] * at[p])) for p in parts]
        bend = max(sorted(off)[-1 - _PARTS_OFF], 0.0)
    else:
        line = (float(np.quantile(least, _BELOW, method='lower')), 0.0)
    rest = above - line[1] * own
    before = sum(seconds for place, seconds in jumps if place <= begin)
    return ClockFit(
        offset=line[0] - before,
        drift=1e6 * drift,
        deviation=1e6 * deviation,
        jitter=1.4826 * float(np.median(np.abs(rest - np.median(rest)))),
        jumps=tuple(
            ClockJump(int(received[place]), seconds, int(rows[place])) for place, seconds in jumps
        ),
        duration=float(times[-1] - times[0]),
        bend=bend,
        simulated=no_time_of_day(header) and not no_time_of_day(received),
    )


def no_time_of_day(stamps: NDArray[np.int64]) -> bool:
    """Tell simulated time, or the time since some start, from a time of day."""
    return bool(len(stamps)) and bool(np.median(stamps) < NO_TIME_OF_DAY_NS)


def _least(
    times: NDArray[np.float64], late: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return time and value of the least of each group of neighbours."""
    count = int(np.clip(len(late) // _GROUP_MESSAGES, 1, _GROUPS))
    groups = np.array_split(np.arange(len(late)), count)
    places = np.array([group[np.argmin(late[group])] for group in groups])
    return times[places], late[places]


def _line(at: NDArray[np.float64], least: NDArray[np.float64]) -> tuple[float, float]:
    """Return value at time zero and slope of the line that a tenth of the points are below."""
    width, below = float(np.ptp(at)), int(_BELOW * (len(least) - 1))
    if width <= 0:
        return float(np.partition(least, below)[below]), 0.0

    def loss(slope: float) -> float:
        rest = least - slope * at
        rest -= np.partition(rest, below)[below]
        return float(np.sum(np.where(rest > 0, _BELOW, _BELOW - 1) * rest))

    from scipy.optimize import minimize_scalar  # noqa: PLC0415 (not at every start)

    # The loss is convex. Few points far from all others make it steep: it is begun near the middle.
    usual = usual_slope(at, least)
    reach = 2 * float(np.ptp(least - usual * at)) / width
    bounds = (usual - reach, usual + reach)
    options = {'xatol': 1e-9, 'maxiter': 200}
    slope = float(minimize_scalar(loss, bounds=bounds, method='bounded', options=options).x)
    return float(np.partition(least - slope * at, below)[below]), slope


def usual_slope(times: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """Return the median slope between points a quarter of all apart; steps hardly move it."""
    apart = max(len(values) // 4, 1)
    rise, run = values[apart:] - values[:-apart], times[apart:] - times[:-apart]
    return float(np.median(rise[run > 0] / run[run > 0])) if (run > 0).any() else 0.0


def _steps(
    times: NDArray[np.float64], late: NDArray[np.float64], header: NDArray[np.int64]
) -> list[tuple[int, float]]:
    """Return first message and size of steps of one clock against the other.

    A step moves the lower envelope at once and for good. One process that stalls and catches up
    does neither, and what comes back to where it was has been held up.
    """
    found = _set_back(late, header)
    level = np.zeros(len(late))
    for place, seconds in found:
        level[place:] += seconds
    cells = min(len(late) // CELL_MESSAGES, _MOST_CELLS)
    if cells < 4 * _FEWEST_CELLS:
        return found
    bounds = np.linspace(0, len(late), cells + 1).astype(int)
    starts = bounds[:-1]
    span = float(times[-1] - times[0]) / cells
    around = int(np.clip(_AROUND_S / span if span > 0 else cells, 2 * _FEWEST_CELLS, cells))
    soon, half = max(2 * _FEWEST_CELLS, around // _SOONER), around // 2
    usual = _levels(np.minimum.reduceat(late - level, starts), around)[0][:-1]
    level += usual_slope(times[starts][half:], usual[half:]) * times
    known: list[tuple[int, float]] = []
    tried = np.zeros(cells, dtype=bool)
    while len(known) <= _MOST_STEPS:
        rest = late - level
        least = np.minimum.reduceat(rest, starts)
        before, after = _levels(least, around)
        # Of the cell of a step, messages are on both sides.
        before, after = before[:-1], after[1:]
        change = np.nan_to_num(after - before)
        noise = float(np.median(np.abs(change)))
        cell = int(np.argmax(np.where(tried, 0.0, np.abs(change))))
        seconds = float(change[cell])
        if tried[cell] or abs(seconds) <= _LEAST_STEP_S + _STEP_NOISE * noise:
            break
        near = slice(max(cell - half, 0), cell + half)
        tried[near] = True
        rows = slice(bounds[near.start], bounds[min(near.stop, cells)])
        half_way = float(before[cell] + after[cell]) / 2
        place = _place(times[rows], rest[rows], seconds, half_way) + rows.start
        if not 0 < place < len(rest) or (rest[place] - rest[place - 1]) / seconds < _ABRUPT:
            continue
        cell = int(np.searchsorted(bounds, place, side='right')) - 1
        sooner = _levels(least, soon)
        at_once = sooner[1][cell + 1] - sooner[0][cell]
        # What is held up comes down to the level, and does not stay at another one.
        high = least[cell + 1 :][:half] if seconds > 0 else least[max(cell - half, 0) : cell]
        off = _levels(high, half)[0][-1] - (after if seconds > 0 else before)[cell]
        if at_once / seconds >= _ABRUPT and abs(off) <= max(_LEVEL * abs(seconds), 3 * noise):
            known.append((place, seconds))
            level[place:] += seconds
    # What is left of a fall that a few messages did not measure well enough is no step of its own.
    falls = np.array([times[place] for place, _ in found])
    alone = [
        step
        for step in _for_good(sorted(known))
        if not (np.abs(falls - times[step[0]]) < _AROUND_S / 2).any()
    ]
    # A process that looks at times of its own hears later and later, and then at once again.
    size = max((abs(seconds) for _, seconds in alone), default=0.0)
    if len(alone) > 1 and not found and abs(level[-1] - level[0]) < size:
        return []
    return sorted([*found, *alone])


def _levels(
    least: NDArray[np.float64], around: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the level of up to so many cells before and from each place, (cells + 1,) both.

    It is NaN where there are not half as many.
    """

    def before(values: NDArray[np.float64]) -> NDArray[np.float64]:
        filled = np.concatenate([np.full(around, np.inf), values])
        windows = np.lib.stride_tricks.sliding_window_view(filled, around)
        found = np.partition(windows, min(_RANK, around - 1), axis=1)[:, min(_RANK, around - 1)]
        found[: max(_FEWEST_CELLS, around // 2)] = np.nan
        return found

    return before(least), before(least[::-1])[::-1]


def _place(
    times: NDArray[np.float64], rest: NDArray[np.float64], seconds: float, half: float
) -> int:
    """Return the first message after a step, of those near where its half is passed for good.

    The (n,) times, s, are those of receipt around the step, the rest is how late each message was.
    """
    low = np.flatnonzero(rest < half)
    if not len(low):
        return 0
    # Before a step up, and after one down, messages may be late by as much.
    passed = int(low[-1]) + 1 if seconds > 0 else int(low[0])
    at = times[min(passed, len(times) - 1)]
    rows = np.flatnonzero((times >= at) & (times <= at + _REACH_S))
    if seconds < 0:
        rows = np.flatnonzero((times >= at - _REACH_S) & (np.arange(len(times)) <= passed))
    rows = rows[rows > 0]
    return int(rows[np.argmin(np.abs(np.diff(rest)[rows - 1] - seconds))]) if len(rows) else 0


def _for_good(steps: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Leave out steps up that are followed by the same step down: what was in between was late."""
    kept: list[tuple[int, float]] = []
    for place, seconds in steps:
        up = kept[-1][1] if kept else 0.0
        if up > 0 and abs(up + seconds) <= max(_LEVEL * up, CLOSE_S):
            kept.pop()
        else:
            kept.append((place, seconds))
    return kept


def _set_back(late: NDArray[np.float64], header: NDArray[np.int64]) -> list[tuple[int, float]]:
    """Return where header stamps fall and do not come back, and by how much latency grows there."""
    limit = round(SET_BACK_S * SECOND_NS)
    found = []
    for place in (np.flatnonzero(np.diff(header) < -limit) + 1).tolist():
        before = header[max(place - _CONFIRMED_BY, 0) : place]
        after = header[place : place + _CONFIRMED_BY]
        enough = min(len(before), len(after)) > _CONFIRMED_BY // 2
        if enough and np.median(before) - np.median(after) > limit:
            least = [late[max(place - _LEAST_OF, 0) : place], late[place : place + _LEAST_OF]]
            found.append((place, float(least[1].min() - least[0].min())))
    return found


def jump_findings(bag: str, topic: TopicColumns, fit: ClockFit) -> list[HealthFinding]:
    """Report header stamps that were set back, and other steps against the recorder's clock."""
    header = topic.header_ns
    if header is None:
        return []
    back, steps = [], []
    for jump in fit.jumps:
        fell = float(header[jump.row - 1] - header[jump.row]) / SECOND_NS
        if fell > SET_BACK_S:
            back.append((jump.time_ns, f'{fell:.3f}'))
        else:
            steps.append((jump.time_ns, f'{jump.seconds:+.3f}'))
    said = (
        (FindingKind.CLOCK_JUMP, back, 'header stamps go back'),
        (FindingKind.CLOCK_JUMP, steps, 'receive time minus header stamp changes for good'),
    )
    findings = []
    for kind, found, what in said:
        if found:
            times = np.array([time for time, _ in found])
            detail = f'{what}, by {", ".join(size for _, size in found[:3])} s'
            when = spans_of(times, times, int(topic.receive_ns[0]))
            findings.append(HealthFinding(bag, topic.topic, kind, len(found), detail, spans=when))
    return findings


def clock_findings(bag: str, topic: TopicColumns, fit: ClockFit | None) -> list[HealthFinding]:
    """Report jumps and drift between the clock of the header stamps and that of the recorder."""
    if fit is None:
        return []
    found = jump_findings(bag, topic, fit)
    if fit.drifts and not fit.simulated:
        detail = (
            f"the recorder's clock gains {fit.drift:.1f} ± {1.96 * fit.deviation:.1f} millionths "
            f'on the header stamps, {1e-3 * fit.drift * fit.duration:.1f} ms over the recording'
        )
        found.append(HealthFinding(bag, topic.topic, FindingKind.CLOCK_OFFSET, 1, detail))
    return found
