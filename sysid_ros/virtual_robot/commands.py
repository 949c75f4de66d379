# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Commands on their way to the servos: each takes effect a delay after it arrived."""

from __future__ import annotations

import bisect
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.signals.setpoints import SetpointPath
from sysid_ros.vocabulary import SECOND_NS

#: What takes effect so little later is in force already, s: times are sums of floats.
_INSTANT = 1e-9


class TrajectoryCommand(NamedTuple):
    """Points to follow as a joint_trajectory_controller does: see `sysid_ros.signals`.

    Attributes:
        after: (p,) seconds from its arrival to each point, increasing.
        points: (p, 3, nu) commands and their first and second derivatives by time; derivatives
            that are not given are NaN, and so are the commands of actuators that hold theirs.
    """

    after: NDArray[np.float64]
    points: NDArray[np.float64]


class _Change(NamedTuple):
    """A command that takes effect; a straight one was approached linearly before."""

    effect: float
    value: float
    straight: bool = False


class CommandQueue:
    """Commands per actuator, in the order in which they take effect.

    A command holds until the next, and a trajectory is followed until its end or the next command.
    Within a time step the mean over the time that each command is in force is what the servo gets:
    the integrator's step sees the same impulse as if it had been cut where the command changes.

    Attributes:
        late: Commands so far that arrived when their time to take effect had passed.
    """

    def __init__(self, initial: NDArray[np.float64], delays: NDArray[np.float64]) -> None:
        """Start with (nu,) commands in force, and (nu,) seconds from arrival to effect."""
        self.late = 0
        self._now = 0.0
        self._current = initial.astype(np.float64)
        self._asked = self._current.copy()
        self._path: SetpointPath | None = None
        self._delays = delays
        self._pending: list[list[_Change]] = [[] for _ in initial]

    def put(self, time: float, values: NDArray[np.float64] | TrajectoryCommand) -> float:
        """Add a command that arrived at a time in s; return by how many seconds it is late.

        It is (nu,) values, of which NaN leaves an actuator as it is, or a trajectory. What is late
        takes effect at once.
        """
        time_ns = round(time * SECOND_NS)
        if self._path is not None:
            self._asked = self._path.at(time_ns)[0]
            if time_ns >= self._path.end_ns:
                self._path = None
        if isinstance(values, TrajectoryCommand):
            return self._follow(time_ns, values)
        if self._path is not None:
            points = np.full((1, 3, len(values)), np.nan)
            points[0, 0] = values
            return self._follow(time_ns, TrajectoryCommand(np.zeros(1), points))
        late = 0.0
        for row, value in enumerate(values):
            if np.isnan(value):
                continue
            self._asked[row] = value
            effect = time + self._delays[row]
            late = max(late, self._now - effect)
            pending = self._pending[row]
            key = max(effect, self._now)
            place = bisect.bisect_right(pending, key, key=lambda entry: entry[0])
            pending.insert(place, _Change(key, float(value)))
        self.late += late > 0
        return late

    def _follow(self, time_ns: int, command: TrajectoryCommand) -> float:
        points = command.points.copy()
        values = points[:, 0]  # a view
        values[:] = np.where(np.isnan(values), self._asked, values)
        if self._path is None:
            self._path = SetpointPath(self._asked)
        self._path.follow(time_ns, np.round(command.after * SECOND_NS).astype(int).tolist(), points)
        rows = self._path.rows(latest=True)
        self._path.forget(time_ns)
        effects = rows.times_ns[:, None] / SECOND_NS + self._delays
        late = max(self._now - float(effects[0].min()), 0.0)
        for row, pending in enumerate(self._pending):
            del pending[bisect.bisect_left(pending, effects[0, row], key=lambda entry: entry[0]) :]
            pending += [
                _Change(effect, value, straight=True)
                for effect, value in zip(
                    effects[:, row].tolist(), rows.states[:, 0, row].tolist(), strict=True
                )
            ]
        self.late += late > 0
        return late

    def in_force(self) -> NDArray[np.float64]:
        """Return the (nu,) commands in force where the next step begins."""
        found: NDArray[np.float64] = self._current.copy()
        for row, pending in enumerate(self._pending):
            for effect, value, straight in pending:
                if straight or effect > self._now + _INSTANT:
                    break
                found[row] = value
        return found

    def mean(self, start: float, end: float) -> NDArray[np.float64]:
        """Return the (nu,) mean commands of a time step, and forget what is past.

        Steps must follow each other without a gap.
        """
        means: NDArray[np.float64] = self._current.copy()
        for row, pending in enumerate(self._pending):
            if not pending or (pending[0].effect >= end and not pending[0].straight):
                continue
            total, since, value = 0.0, start, float(self._current[row])
            while pending and (pending[0].effect < end or pending[0].straight):
                effect, aim, straight = pending[0]
                moment = min(max(effect, start), end)
                reached = value
                if straight:
                    share = (moment - since) / (effect - since) if effect > since else 1.0
                    reached += share * (aim - value)
                total += (value + reached) / 2 * (moment - since)
                since = moment
                if effect >= end:
                    value = reached
                    break
                value = aim
                del pending[0]
            self._current[row] = value
            means[row] = (total + value * (end - since)) / (end - start)
        self._now = end
        return means
