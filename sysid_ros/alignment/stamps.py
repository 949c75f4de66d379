# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The time of each row: which stamp counts, and how two clocks run against each other.

What is known of two clocks is receive time minus header stamp: their difference, and how long the
message took. Nothing arrives before it is sent, and whatever holds a message up makes it later, so
the clocks show in the lower envelope (V. Paxson, On Calibrating Measurements of Packet Transit
Times, SIGMETRICS 1998; S. Moon, P. Skelly and D. Towsley, Estimation and Removal of Clock Skew from
Network Delay Measurements, INFOCOM 1999). What it cannot show is the least transport time, which
counts as a difference of the clocks.
"""

from __future__ import annotations

import bisect
import itertools
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from sysid_ros.alignment.health import SECOND_NS, FindingKind, HealthFinding

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.bags import TopicColumns
    from sysid_ros.config import StampChoice

#: A drift is reported when it moves stamps by more than this over a recording, s. Stamps that are
#: off by less count as those of one clock.
_CLOSE_S = 1e-3
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
_CELL_MESSAGES = 10
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
_LEVEL = 0.2
#: A clock that has more steps than this is not steady.
_MOST_STEPS = 10
#: A header stamp that falls by more than this and does not come back was set back, s.
SET_BACK_S = 0.1
_CONFIRMED_BY = 5
#: Header stamps this far from the receive times are from another clock (simulated time, a robot
#: that is not synchronised), s. Transport alone never takes as long.
OTHER_CLOCK_S = 1.0
#: Header stamps of two topics that differ by more than this are from two clocks, s.
_TWO_CLOCKS_S = 0.1
#: Simulated times are multiples of a step when they are off by less than this part of it.
_OFF_GRID = 0.05
#: How fast a simulation runs may change within this time, s.
_PACE_S = 0.2
#: Stamps before September 2001 are no time of day: simulated time, or the time since some start.
NO_TIME_OF_DAY_NS = 10**18
#: What ``stamps`` asks for, or header stamps carried over to the recorder's clock.
Clock = Literal['auto', 'header', 'receive', 'carried']

#: What times are: header stamps as they are or carried over to the recorder's clock, receive times,
#: or simulated time, read from stamps or from what came at the same moment.
StampSource = Literal['header', 'carried', 'receive', 'simulated']


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
        return moved > _CLOSE_S and abs(self.drift) > _CERTAIN * self.deviation

    @property
    def is_other(self) -> bool:
        """Whether the header stamps are certainly from another clock than the receive times."""
        early, late = -_CLOSE_S, OTHER_CLOCK_S
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
        if self.bend > _CLOSE_S:
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
    one_time = _no_time_of_day(received) and _no_time_of_day(header)
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
        simulated=_no_time_of_day(header) and not _no_time_of_day(received),
    )


def _no_time_of_day(stamps: NDArray[np.int64]) -> bool:
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
    usual = _usual_slope(at, least)
    reach = 2 * float(np.ptp(least - usual * at)) / width
    bounds = (usual - reach, usual + reach)
    options = {'xatol': 1e-9, 'maxiter': 200}
    slope = float(minimize_scalar(loss, bounds=bounds, method='bounded', options=options).x)
    return float(np.partition(least - slope * at, below)[below]), slope


def _usual_slope(times: NDArray[np.float64], values: NDArray[np.float64]) -> float:
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
    cells = min(len(late) // _CELL_MESSAGES, _MOST_CELLS)
    if cells < 4 * _FEWEST_CELLS:
        return found
    bounds = np.linspace(0, len(late), cells + 1).astype(int)
    starts = bounds[:-1]
    span = float(times[-1] - times[0]) / cells
    around = int(np.clip(_AROUND_S / span if span > 0 else cells, 2 * _FEWEST_CELLS, cells))
    soon, half = max(2 * _FEWEST_CELLS, around // _SOONER), around // 2
    usual = _levels(np.minimum.reduceat(late - level, starts), around)[0][:-1]
    level += _usual_slope(times[starts][half:], usual[half:]) * times
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
        place = _place(rest[rows], seconds, before[cell], after[cell]) + rows.start
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
    # What is left of a fall that one message did not measure well enough is no step of its own.
    falls = np.array([place for place, _ in found])
    alone = [
        step
        for step in _for_good(sorted(known))
        if not (np.abs(falls - step[0]) < 2 * _CELL_MESSAGES).any()
    ]
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


def _place(rest: NDArray[np.float64], seconds: float, before: float, after: float) -> int:
    """Return the first message after a step: all that follow are later, or all before were."""
    if seconds > 0:
        return int(np.max(np.flatnonzero(rest < after - seconds / 2), initial=-1)) + 1
    early = np.flatnonzero(rest < before + seconds / 2)
    return int(early[0]) if len(early) else 0


def _for_good(steps: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Leave out steps up that are followed by the same step down: what was in between was late."""
    kept: list[tuple[int, float]] = []
    for place, seconds in steps:
        up = kept[-1][1] if kept else 0.0
        if up > 0 and abs(up + seconds) <= max(_LEVEL * up, _CLOSE_S):
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
            found.append((place, float(late[place] - late[place - 1])))
    return found


def jump_findings(bag: str, topic: TopicColumns, fit: ClockFit) -> list[HealthFinding]:
    """Report header stamps that were set back, and other steps against the recorder's clock."""
    found = []
    header = topic.header_ns
    back = [jump for jump in fit.jumps if header is not None and _falls(header, jump.row)]
    for kind, jumps, what in (
        (FindingKind.TIME_BACKWARDS, back, 'header stamps go back, and'),
        (FindingKind.CLOCK_JUMP, [jump for jump in fit.jumps if jump not in back], ''),
    ):
        if jumps:
            sizes = ', '.join(f'{jump.seconds:+.3f}' for jump in jumps[:3])
            detail = f'{what} receive time minus header stamp changes for good, by {sizes} s'
            found.append(HealthFinding(bag, topic.topic, kind, len(jumps), detail.strip()))
    return found


def _falls(header: NDArray[np.int64], row: int) -> bool:
    return bool(header[row] < header[row - 1] - SET_BACK_S * SECOND_NS)


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
        found.append(HealthFinding(bag, topic.topic, FindingKind.CLOCK_DRIFT, 1, detail))
    return found


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
        """Return simulated times of receive times, ns; beyond the ends it goes on as on average."""
        known, simulated = (values - values[0] for values in self)
        passed = (receive_ns - self.receive_ns[0]).astype(np.float64)
        pace = simulated[-1] / known[-1]
        beyond = passed - np.clip(passed, 0.0, known[-1])
        found = np.interp(passed, known, simulated) + pace * beyond
        simulated_ns: NDArray[np.int64] = self.header_ns[0] + np.round(found).astype(np.int64)
        return simulated_ns


#: How each topic gets its times.
Choice = Clock | dict[str, Clock | SimulatedTime]


def one_clock(
    bag: str,
    topics: Sequence[TopicColumns],
    stamps: StampChoice,
    other: Collection[str] = (),
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
        other: Topics whose header stamps are known to be from another clock than the recorder's.

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
    chosen, findings = _common(bag, rest, other, by_receive=by_receive)
    choice = {**{topic.topic: chosen.get(topic.topic, 'auto') for topic in rest}, **by_topic}
    return (choice if by_topic or chosen else 'auto'), findings


def _common(
    bag: str, topics: Sequence[TopicColumns], other: Collection[str], *, by_receive: bool
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
    if all(_no_time_of_day(topic.receive_ns) for topic in topics if len(topic.receive_ns)):
        fits = {name: fit for name, fit in fits.items() if abs(fit.offset) >= OTHER_CLOCK_S}
        findings = _coarse(bag, topics) if by_receive else []
    offsets = [fit.offset for fit in fits.values()]
    drifts = {fit.drifts for fit in fits.values()}
    mixed = by_receive or len(drifts) > 1 or np.ptp(offsets or [0.0]) > _TWO_CLOCKS_S
    chosen: dict[str, Clock | SimulatedTime] = {}
    for name, fit in fits.items() if mixed else ():
        is_other = fit.is_other or (name in other and fit.offset > _CLOSE_S)
        if not is_other and fit.offset <= _CLOSE_S:
            continue
        beside = 'another topic has no header stamps' if by_receive else 'others have another clock'
        if not is_other:
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
        detail = f'messages come {size} {when} their header stamps at the earliest; {done}'
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
    times, late = (received - received[0]) / SECOND_NS, (received - header) / SECOND_NS
    late = late - _usual_slope(times, late) * times
    count = min(int(times[-1] / _PACE_S), len(rows) // _CELL_MESSAGES)
    cells = np.array_split(np.arange(len(rows)), max(count, 2))
    quickest = np.array([cell[np.argmin(late[cell])] for cell in cells])
    later = np.diff(received[quickest], prepend=received[0] - 1) > 0
    quickest = quickest[later]
    pace = SimulatedTime(received[quickest], np.maximum.accumulate(header[quickest]))
    speed = (pace.header_ns[-1] - pace.header_ns[0]) / (pace.receive_ns[-1] - pace.receive_ns[0])
    others = [topic.topic for topic in topics if topic not in stamped]
    detail = (
        f'header stamps are simulated time from {header[0] / SECOND_NS:.3f} s on, which runs '
        f'{speed:.3g} times as fast as the clock of the recorder'
    )
    if others:
        detail += f'; receive times of {", ".join(others)} are carried over to it'
    finding = HealthFinding(bag, best.topic, FindingKind.SIMULATED_TIME, len(rows), detail)
    return {topic.topic: pace for topic in topics}, (finding,)


def _coarse(bag: str, topics: Sequence[TopicColumns]) -> list[HealthFinding]:
    """Report a recorder whose time is simulated and goes on by large steps."""
    received = np.concatenate([topic.receive_ns for topic in topics])
    apart = np.diff(np.unique(received)) / SECOND_NS
    step = float(apart.min()) if len(apart) else 0.0
    # Messages that are rare are not on a grid.
    if step <= _CLOSE_S or np.any(np.abs(apart / step - np.round(apart / step)) > _OFF_GRID):
        return []
    names = ', '.join(topic.topic for topic in topics if _receive_only(topic))
    detail = (
        f"the recorder's time is simulated and goes on by {1e3 * step:.1f} ms, the times of "
        f'{names} are no better; publish /clock more often'
    )
    return [HealthFinding(bag, bag, FindingKind.SIMULATED_TIME, len(received), detail)]


def _receive_only(topic: TopicColumns) -> bool:
    return topic.header_ns is None or not topic.header_ns.any()


def stamp(bag: str, topic: TopicColumns, choice: Choice) -> Stamped:
    """Give each row of a topic its time.

    Args:
        bag: Name of the bag.
        topic: The topic.
        choice: ``receive``, or header stamps, ``carried`` over to the recorder's clock or as they
            are; where there is none or it is zero, the receive time takes its place, or what it is
            in simulated time. By topic, the default is ``auto``.
    """
    stamps = choice.get(topic.topic, 'auto') if isinstance(choice, dict) else choice
    findings: list[HealthFinding] = []
    times = topic.receive_ns
    if isinstance(stamps, SimulatedTime):
        times = stamps.at(topic.receive_ns)
    fit = None if topic.header_ns is None else compare_clocks(topic.receive_ns, topic.header_ns)
    if stamps != 'receive' and topic.header_ns is not None:
        zero = topic.header_ns == 0
        header = topic.header_ns
        if stamps == 'carried' and fit is not None:
            known = topic.receive_ns[~zero]
            passed = (topic.receive_ns - known[0]) / SECOND_NS
            drift = 0.0 if np.isnan(fit.drift) else 1e-6 * fit.drift
            header = header + np.round((fit.offset + drift * passed) * SECOND_NS).astype(np.int64)
        times = np.where(zero, times, header)
        if zero.any():
            detail = f'of {len(zero)} header stamps; the receive time is used'
            count = int(zero.sum())
            findings.append(HealthFinding(bag, topic.topic, FindingKind.ZERO_STAMP, count, detail))
        findings += clock_findings(bag, topic, fit)
    elif stamps == 'header':
        detail = 'messages of this type have no header; the receive time is used'
        findings.append(HealthFinding(bag, topic.topic, FindingKind.NO_STAMP, len(times), detail))
    usable = longest_increasing(times)
    findings += _left_out(bag, topic, times, usable)
    return Stamped(times, usable, tuple(findings), fit, _source(topic, stamps))


def _source(topic: TopicColumns, stamps: Clock | SimulatedTime) -> StampSource:
    if isinstance(stamps, SimulatedTime):
        return 'simulated'
    if stamps == 'receive' or _receive_only(topic):
        return 'receive'
    return 'carried' if stamps == 'carried' else 'header'


def _left_out(
    bag: str, topic: TopicColumns, times: NDArray[np.int64], usable: NDArray[np.bool_]
) -> list[HealthFinding]:
    """Count rows whose stamp is not after those before."""
    dropped = times[~usable]
    duplicates = int(np.isin(dropped, times[usable]).sum())
    kinds = (
        (FindingKind.DUPLICATE_STAMP, duplicates),
        (FindingKind.REORDERED_STAMP, len(dropped) - duplicates),
    )
    return [
        HealthFinding(bag, topic.topic, kind, count, 'rows left out')
        for kind, count in kinds
        if count
    ]


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
