# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a joint goes where it is told to, or is moved by something else meanwhile.

Whatever moves slowly is like any other slow motion at some lag. So a joint follows where its motion
is very much like its command's, or where it is a little and, beyond that, what it was told helps to
say what it does next to somebody who knows what it did before (Granger, Econometrica 37(3), 1969).
A hand that moves a limp arm knows nothing of the commands.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.health import SECOND_NS
from sysid_ros.alignment.mapping.axes import AxesMotion, respond
from sysid_ros.alignment.pairs import Pair, raw_values, topic_columns
from sysid_ros.bags import BagColumns

#: A joint does not follow whose speed and whose position correlate with those of its command by
#: less than these at every lag: 66 motions of a real servo reach .45 in speed or more.
_ALIKE_SPEED, _ALIKE_POSITION = 0.25, 0.7
#: From this correlation on nothing else is asked.
_SURELY = 0.9
#: Distance of the instants that are compared, and the longest lag of a joint behind its command, s.
_STEP_S, _LONGEST_LAG_S = 0.02, 1.0
#: Instants so long, s, and so many periods after the last measurement are left out.
_HOLE_S, _HOLE_PERIODS = 0.1, 4.0
#: Speeds are over so many of these steps.
_STEPS = 5
#: What a joint does in a step of this length, s, is said from so many steps of its own before and
#: of its command; with fewer instants than the last nothing can be told.
_SAID_S, _OWN, _TOLD, _FEWEST = 0.1, 4, 10, 60
#: Commands that say nothing seem to help that much with this probability.
_CHANCE = 1e-5


class _Held(NamedTuple):
    """A command and a position at common instants, and where the position is not known."""

    told: NDArray[np.float64]
    went: NDArray[np.float64]
    away: NDArray[np.bool_]


def values_of(bag: BagColumns, pair: Pair) -> NDArray[np.float64]:
    """Return the (n,) values of a column in units of the model."""
    values: NDArray[np.float64] = pair.scale * raw_values(bag, pair) + pair.offset
    return values


def follows(bag: BagColumns, command: Pair, position: Pair) -> bool:
    """Whether a joint goes where it is told to; so it does in a recording too short to tell."""
    speed, place = likeness(bag, command, position)
    if max(speed, place) > _SURELY:
        return True
    alike = speed > _ALIKE_SPEED or place > _ALIKE_POSITION
    return alike and _chance(_held(bag, command, position, _SAID_S)) < _CHANCE


def likeness(bag: BagColumns, command: Pair, position: Pair) -> tuple[float, float]:
    """Return how a joint's speed and position correlate with its command's, at the best lags."""
    held = _held(bag, command, position, _STEP_S)
    if len(held.told) <= _STEPS:
        return 1.0, 1.0  # too short to tell
    speeds = (
        held.told[_STEPS:] - held.told[:-_STEPS],
        held.went[_STEPS:] - held.went[:-_STEPS],
        np.convolve(held.away, np.ones(_STEPS + 1))[_STEPS : len(held.away)] > 0,
    )
    speed, place = (
        abs(respond(told, went, AxesMotion(_STEP_S, ~away, {}), longest=_LONGEST_LAG_S).correlation)
        for told, went, away in (speeds, held)
    )
    return speed, place


def _held(bag: BagColumns, command: Pair, position: Pair, step: float) -> _Held:
    """Bring a command and a position to instants so many seconds apart."""
    sides = []
    for pair in (command, position):
        values = values_of(bag, pair)
        known = np.isfinite(values)
        times = topic_columns(bag, pair.topic).receive_ns[known]
        sides.append((times, values[known]))
    first = max(times[0] for times, _ in sides)
    last = min(times[-1] for times, _ in sides)
    grid = np.arange(first, last, int(step * SECOND_NS))
    stamps = sides[1][0]
    # Between runs of one recording a joint may be anywhere: nothing is known of it.
    age = grid - stamps[np.maximum(np.searchsorted(stamps, grid, side='right') - 1, 0)]
    away = age > max(_HOLE_S * SECOND_NS, _HOLE_PERIODS * float(np.median(np.diff(stamps))))
    told, went = (
        values[np.maximum(np.searchsorted(times, grid, side='right') - 1, 0)]
        for times, values in sides
    )
    return _Held(told, went, away)


def _chance(held: _Held) -> float:
    """Return how probable it is that a command which says nothing helps as much as this one.

    The F-test of the command's part in a linear prediction of what the joint does next; 0 where
    nothing can be told.
    """
    from scipy.special import fdtrc  # noqa: PLC0415 (not at every start)

    reach = max(_OWN + 1, _TOLD)
    rows = np.arange(reach, len(held.told))
    rows = rows[[not held.away[row - reach : row + 1].any() for row in rows]]
    if len(rows) < _FEWEST or not np.ptp(held.told) or not np.ptp(held.went):
        return 0.0
    told, went = ((side - side.mean()) / side.std() for side in (held.told, held.went))
    moved = np.diff(went, prepend=went[0])
    own = [np.ones(len(rows)), went[rows - 1], *(moved[rows - k] for k in range(1, _OWN + 1))]
    asked = [told[rows - k] for k in range(_TOLD)]
    left = []
    for columns in (own, own + asked):
        table = np.column_stack(columns)
        rest = moved[rows] - table @ np.linalg.lstsq(table, moved[rows])[0]
        left.append(float(rest @ rest))
    freedom = len(rows) - len(own) - len(asked)
    if not left[1] > 0:
        return 0.0
    return float(fdtrc(len(asked), freedom, (left[0] / left[1] - 1) * freedom / len(asked)))
