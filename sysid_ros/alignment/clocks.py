# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How the clock of header stamps runs against the recorder's clock."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.alignment.health import SECOND_NS, HealthFinding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.bags import TopicColumns

#: A lasting change of receive time minus header stamp by more than this is a jump of a clock, s.
CLOCK_JUMP_S = 0.1
#: A drift that moves stamps by more than this over a recording, s, is worth a word, …
_DRIFTED_S = 1e-3
#: … if it is so many of its standard deviations; …
_CERTAIN = 5.0
#: … with a larger one, millionths, these are no two clocks of the same time: a simulation's, say.
LARGEST_DRIFT = 1000.0
#: Messages are taken together in at most so many groups of neighbours.
_GROUPS = 400
#: A drift is told from so many messages and seconds on.
_FEWEST = 20
_SHORTEST_S = 5.0
#: A step is the difference between so many messages before and after it.
_NEIGHBOURS = 100


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
        found.append(HealthFinding(bag, topic.topic, 'clock jump', len(fit.jumps), detail))
    if fit.drifts:
        detail = (
            f"the recorder's clock gains {fit.drift:.1f} ± {1.96 * fit.deviation:.1f} millionths "
            f'on the header stamps, {1e-3 * fit.drift * fit.duration:.1f} ms over the recording'
        )
        found.append(HealthFinding(bag, topic.topic, 'clock drift', 1, detail))
    return found


def _lasting(late: NDArray[np.float64], places: NDArray[np.int64]) -> list[tuple[int, float]]:
    """Return place and size of steps that last; a message that comes late is none."""
    found = []
    bounds = [0, *places.tolist(), len(late)]
    for begin, place, end in zip(bounds, bounds[1:], bounds[2:], strict=False):
        before = float(np.median(late[max(begin, place - _NEIGHBOURS) : place]))
        here = float(np.median(late[place : min(end, place + _NEIGHBOURS)]))
        if abs(here - before) > CLOCK_JUMP_S:
            found.append((place, here - before))
    return _without_returns(found)


def _without_returns(jumps: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Leave out pairs of opposite steps around one message."""
    kept: list[tuple[int, float]] = []
    for place, seconds in jumps:
        if kept and place == kept[-1][0] + 1 and abs(kept[-1][1] + seconds) < CLOCK_JUMP_S:
            kept.pop()
        else:
            kept.append((place, seconds))
    return kept


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
