# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a joint_trajectory_controller asks of its joints between the points of its trajectories.

From one point to the next it interpolates linearly where positions alone are given, by a cubic
where both ends have velocities, by a quintic where they have accelerations as well. A trajectory
begins at its stamp, or when it arrives, from what is asked for at that moment, and replaces what is
left of the one before; a point is reached its ``time_from_start`` after the beginning, one with
none acts at once, and the last is held.
https://control.ros.org/jazzy/doc/ros2_controllers/joint_trajectory_controller/doc/trajectory.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.vocabulary import SECOND_NS

#: Distance of the samples of what is no straight line, ns: between them it is straight to 1e-5 rad
#: as long as a joint accelerates by less than 20 rad/s².
STEP_NS = 2_000_000
#: A jump is a straight line of this length, ns.
JUMP_NS = 1
#: A leg is cut into at most so many: between them a quintic from rest to rest is straight to 3e-8
#: of its length.
_MOST_PIECES = 5000
#: The state before the first trajectory, which nobody knows, is forgotten below this share.
_FORGOTTEN = 1e-4


class SetpointRows(NamedTuple):
    """Where a path is sampled: between rows it is a straight line.

    The (n,) times increase; each row has the number of its trajectory and of the leg that ends
    there or later. The (n, 3, k) states are values and their derivatives.
    """

    times_ns: NDArray[np.int64]
    trajectory: NDArray[np.int64]
    leg: NDArray[np.int64]
    states: NDArray[np.float64]


class _Leg(NamedTuple):
    """From one (3, k) state to the next, left early where a later trajectory says so."""

    start_ns: int
    end_ns: int
    until_ns: int
    first: NDArray[np.float64]
    last: NDArray[np.float64]
    trajectory: int


class SetpointPath:
    """The setpoints of k joints while trajectories come in."""

    def __init__(self, state: NDArray[np.float64] | None = None) -> None:
        """Begin at (k,) what is asked for before the first trajectory; by default nobody knows."""
        self._known = state is not None
        self._initial = _begin(state, 0.0) if state is not None else np.empty((3, 1))
        self._legs: list[_Leg] = []
        self._count = 0

    @property
    def only_jumps(self) -> bool:
        """Whether all points act at once, so that each holds until the next."""
        return all(leg.end_ns - leg.start_ns <= JUMP_NS for leg in self._legs)

    @property
    def end_ns(self) -> int:
        """When the last point is reached, of a path that has begun."""
        return self._legs[-1].until_ns

    def follow(self, begin_ns: int, after_ns: Sequence[int], points: NDArray[np.float64]) -> None:
        """Take a trajectory.

        Args:
            begin_ns: When it begins.
            after_ns: p times of its points from then, increasing, p ≥ 1.
            points: (p, 3, k) values and their first and second derivatives by time, 1/s and 1/s²;
                derivatives are NaN where they are not given.
        """
        if not (self._known or self._count):
            self._initial = _begin(points[0, 0], 1.0)
        start = begin_ns - JUMP_NS if after_ns[0] <= 0 else begin_ns
        while self._legs and self._legs[-1].start_ns >= start:
            self._legs.pop()
        state = self._at(start)
        if self._legs:
            last = self._legs[-1]
            self._legs[-1] = last._replace(until_ns=min(last.until_ns, start))
        aims = np.full((*points.shape[:2], points.shape[2] + 1), np.nan)
        aims[:, :, :-1], aims[:, 0, -1] = points, 0.0
        for after, aim in zip(after_ns, aims, strict=True):
            end = max(begin_ns + after, start + JUMP_NS)
            self._legs.append(_Leg(start, end, end, state, aim, self._count))
            start, state = end, aim
        self._count += 1

    def at(self, time_ns: int) -> NDArray[np.float64]:
        """Return the (3, k) state at a time, in a path that has begun."""
        return self._at(time_ns)[:, :-1]

    def rows(
        self,
        *,
        latest: bool = False,
        held: bool = False,
        take: Callable[[int], object] = lambda _: None,
    ) -> SetpointRows:
        """Sample the path, as far as it does not depend on what nobody knows.

        Args:
            take: Told how many bytes of states there will be; may raise.
            latest: Only what the last trajectory asks for.
            held: Leave out the row just before each jump, as each row holds until the next.
        """
        legs = [leg for leg in self._legs if not latest or leg.trajectory == self._count - 1]
        if not legs:
            empty = np.empty(0, dtype=np.int64)
            return SetpointRows(empty, empty, empty, np.empty((0, *self._initial[:, :-1].shape)))
        start, end, until, trajectory = np.array(
            [(leg.start_ns, leg.end_ns, leg.until_ns, leg.trajectory) for leg in legs]
        ).T
        first, last = np.array([leg.first for leg in legs]), np.array([leg.last for leg in legs])
        bends = np.isfinite(first[:, 1]) & np.isfinite(last[:, 1])
        # A leg may last for years; relative to what it moves, so many pieces are exact enough.
        pieces = np.minimum(-(-(until - start) // STEP_NS), _MOST_PIECES)
        pieces = np.where(bends.any(axis=1), pieces, 1)
        # A leg that begins where the one before ends has its first row from that one.
        own = np.append(True, start[1:] != until[:-1]) & np.logical_not(held)
        counts = pieces + own
        take(int(counts.sum()) * first[0].nbytes)
        leg = np.repeat(np.arange(len(legs)), counts)
        place = np.arange(len(leg)) - np.repeat(np.cumsum(counts) - counts, counts) + ~own[leg]
        inside = (until - start)[leg] * place // pieces[leg]
        states = _evaluate(inside, (end - start)[leg], first[leg], last[leg])
        known = states[:, 0, -1] <= _FORGOTTEN
        return SetpointRows(
            (start[leg] + inside)[known], trajectory[leg][known], leg[known], states[known, :, :-1]
        )

    def forget(self, before_ns: int) -> None:
        """Drop what was left before a time, except for the last of it."""
        while len(self._legs) > 1 and self._legs[1].start_ns <= before_ns:
            del self._legs[0]

    def _at(self, time_ns: int) -> NDArray[np.float64]:
        leg = next((leg for leg in reversed(self._legs) if leg.start_ns <= time_ns), None)
        if leg is None:
            return self._initial
        if time_ns >= leg.end_ns == leg.until_ns:
            return np.nan_to_num(leg.last)
        if not np.isfinite(leg.last[1]).any():
            rise, whole = leg.last[0] - leg.first[0], leg.end_ns - leg.start_ns
            share = (min(time_ns, leg.until_ns) - leg.start_ns) / whole
            slope = rise / whole * SECOND_NS
            return np.stack([leg.first[0] + share * rise, slope, np.zeros_like(rise)])
        inside = np.array([min(time_ns, leg.until_ns) - leg.start_ns])
        length = np.array([leg.end_ns - leg.start_ns])
        (state,) = _evaluate(inside, length, leg.first[None], leg.last[None])
        return np.asarray(state)


def _begin(values: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Return the (3, k + 1) state of rest at k values.

    The last column is how much of that state is left: it falls to zero on the way to a point.
    """
    state = np.zeros((3, len(values) + 1))
    state[0] = np.append(values, share)
    return state


def _evaluate(
    inside_ns: NDArray[np.int64],
    length_ns: NDArray[np.int64],
    first: NDArray[np.float64],
    last: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return (n, 3, k) states of legs, each of its length, so long after its beginning.

    The lowest polynomial that has the values and those derivatives that both ends have; at its end
    and after a jump the derivatives are those that were asked for.
    """
    length = (length_ns / SECOND_NS)[:, None]
    share = (inside_ns / length_ns)[:, None]
    (q0, v0, a0), (q1, v1, a1) = np.moveaxis(first, 1, 0), np.moveaxis(last, 1, 0)
    rise = q1 - q0
    jump = length_ns[:, None] <= JUMP_NS
    cubic = np.isfinite(v0) & np.isfinite(v1) & ~jump
    quintic = cubic & np.isfinite(a0) & np.isfinite(a1)
    # In units of the leg's length: u = v T, w = a T².
    u0, u1 = np.where(cubic, v0 * length, 0.0), np.where(cubic, v1 * length, 0.0)
    w0, w1 = np.where(quintic, a0 * length**2, 0.0), np.where(quintic, a1 * length**2, 0.0)
    powers = np.zeros((6, *rise.shape))
    powers[0] = q0
    powers[1] = np.where(cubic, u0, rise)
    powers[2] = np.where(quintic, w0 / 2, np.where(cubic, 3 * rise - 2 * u0 - u1, 0.0))
    powers[3] = np.where(
        quintic,
        10 * rise - 6 * u0 - 4 * u1 - 1.5 * w0 + 0.5 * w1,
        np.where(cubic, u0 + u1 - 2 * rise, 0.0),
    )
    powers[4] = np.where(quintic, -15 * rise + 8 * u0 + 7 * u1 + 1.5 * w0 - w1, 0.0)
    powers[5] = np.where(quintic, 6 * rise - 3 * (u0 + u1) - 0.5 * (w0 - w1), 0.0)
    value, slope, bend = powers[5], np.zeros_like(rise), np.zeros_like(rise)
    for power in powers[4::-1]:
        bend = bend * share + 2 * slope
        slope = slope * share + value
        value = value * share + power
    done = share >= 1
    states = np.empty((len(share), 3, rise.shape[1]))
    states[:, 0] = np.where(done, q1, value)
    states[:, 1] = np.where(done, np.nan_to_num(v1), np.where(jump, v0, slope / length))
    states[:, 2] = np.where(done, np.nan_to_num(a1), np.where(jump, a0, bend / length**2))
    return states
