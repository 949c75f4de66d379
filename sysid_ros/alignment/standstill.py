# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where nothing changes: rest, and emergency stops."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

from sysid_ros.alignment.health import SECOND_NS

#: A standstill lasts at least this long, s.
STANDSTILL_S = 0.5
#: Joints that stop under brakes are still in motion for at most this long, s.
BRAKING_S = 0.5
#: A channel stands still while it stays within this part of its range.
_STANDSTILL_PART = 2e-3
#: It also stands still within so many standard deviations of its noise.
_NOISE = 6.0
#: It also stands still within so many of its encoder's steps.
_STEPS = 2.0
#: What stops at more than this part of its top speed stops abruptly: nothing slows down first.
_ABRUPT = 0.2
#: The top speed is exceeded by this part of the samples in motion, percent.
_TOP = 95.0
#: Over so many samples before it stops something must move.
_BEFORE = 3
#: Commands that move by more than this part of their range ask joints to move.
_ASKED = 0.05


class StampedSamples(NamedTuple):
    """Channels that are measured or commanded together: (n,) ns, strictly increasing; (n, k)."""

    times_ns: NDArray[np.int64]
    values: NDArray[np.float64]


class Piece(NamedTuple):
    """A piece of time from ``first`` to ``last``, ns, both included."""

    first: int
    last: int


def rest(states: Sequence[StampedSamples]) -> list[Piece]:
    """Find where no joint moves for half a second or longer.

    A channel stands still while it stays within 0.2 % of its range, six standard deviations of its
    noise (from fourth differences, which smooth motion hardly enters), or two encoder steps.

    Args:
        states: Positions, or velocities of joints whose position is not measured.
    """
    if not states:
        return []
    return intersect([_standstill(item) for item in states])


def stops(
    states: Sequence[StampedSamples],
    efforts: Sequence[StampedSamples],
    commands: Sequence[StampedSamples],
) -> dict[str, list[Piece]]:
    """Find where the robot was stopped: what moved stands still at once for half a second.

    Joints that brake slow down for a moment before they stand still; that moment belongs to the
    stop.

    Returns:
        What was seen to where it was seen.
    """
    resting = rest(states)
    last = max((int(item.times_ns[-1]) for item in (*states, *commands)), default=0)
    asked = [piece for piece in resting if any(_asks(item, piece) for item in commands)]
    frozen = [piece for piece in resting if any(_moved(item, piece.first) for item in states)]
    braking = round(BRAKING_S * SECOND_NS)
    powered = []
    for times, values in efforts:
        zero = np.all(values == 0, axis=1)
        if len(times):
            powered.append([] if zero.all() else _runs(times, zero))
    return {
        'commands freeze while they move': _frozen(commands, last),
        'measurements freeze while they move': frozen,
        'joints stand still while commands move': [
            Piece(piece.first - braking, piece.last) for piece in asked
        ],
        'all efforts are zero': intersect(powered) if powered else [],
    }


def within(times_ns: NDArray[np.int64], pieces: Iterable[Piece]) -> NDArray[np.bool_]:
    """Return (n,) True for the times that lie in one of the pieces."""
    inside = np.zeros(len(times_ns), dtype=bool)
    for first, last in pieces:
        inside |= (times_ns >= first) & (times_ns <= last)
    return inside


def intersect(several: Sequence[list[Piece]]) -> list[Piece]:
    """Return what lies in a piece of each list and lasts for ``STANDSTILL_S`` or longer."""
    common = several[0]
    for pieces in several[1:]:
        both = (Piece(max(a.first, b.first), min(a.last, b.last)) for a in common for b in pieces)
        common = [piece for piece in both if _lasts(piece)]
    return common


def _lasts(piece: Piece) -> bool:
    return piece.last - piece.first >= STANDSTILL_S * SECOND_NS


def _runs(times_ns: NDArray[np.int64], mask: NDArray[np.bool_]) -> list[Piece]:
    """Return from the first to the last of neighbouring True samples, where they last."""
    rows = np.flatnonzero(mask)
    if not len(rows):
        return []
    groups = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    pieces = [Piece(int(times_ns[rows[0]]), int(times_ns[rows[-1]])) for rows in groups]
    return [piece for piece in pieces if _lasts(piece)]


def _standstill(samples: StampedSamples) -> list[Piece]:
    times, values = samples
    if len(times) <= _BEFORE:
        return []
    period = float(np.median(np.diff(times)))
    width = 2 * max(round(STANDSTILL_S * SECOND_NS / period) // 2, 1) + 1
    high = scipy.ndimage.maximum_filter1d(values, width, axis=0, mode='nearest')
    low = scipy.ndimage.minimum_filter1d(values, width, axis=0, mode='nearest')
    calm = np.all(high - low <= _tolerance(values), axis=1)
    # A calm window is a standstill of all its samples.
    return _runs(times, scipy.ndimage.binary_dilation(calm, np.ones(width, dtype=bool)))


def _tolerance(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the (k,) spread of each channel that is no motion."""
    tolerance = _STANDSTILL_PART * np.ptp(values, axis=0)
    if len(values) > 5:  # noqa: PLR2004 - fourth differences need five samples
        # Weights 1, -4, 6, -4, 1: the variance is 70 times that of white noise.
        rough = np.abs(np.diff(values, n=4, axis=0))
        tolerance = np.maximum(tolerance, _NOISE * 1.4826 * np.median(rough, axis=0) / 70**0.5)
    changes = np.abs(np.diff(values, axis=0))
    steps = np.min(np.where(changes > 0, changes, np.inf), axis=0)
    steps[~np.isfinite(steps)] = 0.0
    return np.asarray(np.maximum(tolerance, _STEPS * steps), dtype=np.float64)


def _rates(samples: StampedSamples, over: int) -> NDArray[np.float64]:
    """Return the (n - over, k) sizes of the changes over so many samples, per second."""
    seconds = (samples.times_ns[over:] - samples.times_ns[:-over]) / SECOND_NS
    changes = samples.values[over:] - samples.values[:-over]
    rates: NDArray[np.float64] = np.abs(np.divide(changes, seconds[:, None]))
    return rates


def _top(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the (k,) top speeds of channels in motion; infinite for those that never move."""
    return np.array(
        [np.percentile(rate[rate > 0], _TOP) if np.any(rate > 0) else np.inf for rate in rates.T]
    )


def _moved(samples: StampedSamples, since: int) -> bool:
    """Tell whether something moved fast right before an instant."""
    row = int(np.searchsorted(samples.times_ns, since))
    if row < _BEFORE:
        return False
    rates = _rates(samples, _BEFORE)
    return bool(np.any(rates[row - _BEFORE] > _ABRUPT * _top(rates)))


def _frozen(commands: Sequence[StampedSamples], end: int) -> list[Piece]:
    """Find where commands that changed from message to message do not change, or do not come.

    Set points that are kept for a while, and motions that fade out, are no such commands.
    """
    several = [item for item in commands if len(item.times_ns)]
    if not several:
        return []
    unchanged = [_unchanged(item, end) for item in several]
    abrupt = [
        piece
        for item, pieces in zip(several, unchanged, strict=True)
        for piece in pieces
        if _broke_off(item, piece)
    ]
    return [
        piece
        for piece in intersect(unchanged)
        if any(piece.first <= other.last and other.first <= piece.last for other in abrupt)
    ]


def _unchanged(samples: StampedSamples, end: int) -> list[Piece]:
    """Find where the last command is kept for long; the last one of all is kept to the end."""
    times = samples.times_ns
    changed = np.flatnonzero(np.any(np.diff(samples.values, axis=0) != 0, axis=1)) + 1
    starts = times[np.append(0, changed)]
    pieces = zip(starts.tolist(), [*starts[1:].tolist(), max(end, int(times[-1]))], strict=True)
    return [piece for piece in itertools.starmap(Piece, pieces) if _lasts(piece)]


def _broke_off(commands: StampedSamples, piece: Piece) -> bool:
    """Tell whether each of the last messages before a pause moved something fast."""
    row = int(np.searchsorted(commands.times_ns, piece.first))
    if row < _BEFORE:
        return False
    rates = _rates(commands, 1)
    fast = np.all(rates[row - _BEFORE : row] > _ABRUPT * _top(rates), axis=0)
    before = int(commands.times_ns[row] - commands.times_ns[row - _BEFORE])
    return bool(fast.any()) and before < piece.last - piece.first


def _asks(commands: StampedSamples, piece: Piece) -> bool:
    """Tell whether commands move while joints stand still, longer than joints lag behind."""
    rows = within(
        commands.times_ns, [Piece(piece.first, piece.last - round(STANDSTILL_S * SECOND_NS))]
    )
    if not rows.any():
        return False
    moved = np.ptp(commands.values[rows], axis=0)
    return bool(np.any(moved > _ASKED * np.ptp(commands.values, axis=0)))
