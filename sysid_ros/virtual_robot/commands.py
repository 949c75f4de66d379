# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Commands on their way to the servos: each takes effect a delay after it arrived."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class CommandQueue:
    """Commands per actuator, in the order in which they take effect.

    A command holds until the next. Within a time step the mean over the time that each command is
    in force is what the servo gets: the integrator's step sees the same impulse as if it had been
    cut where the command changes.

    Attributes:
        late: Commands so far that arrived when their time to take effect had passed.
    """

    def __init__(self, initial: NDArray[np.float64], delays: NDArray[np.float64]) -> None:
        """Start with commands in force.

        Args:
            initial: (nu,) commands until others take effect.
            delays: (nu,) seconds from arrival to effect.
        """
        self.late = 0
        self._now = 0.0
        self._current = initial.astype(np.float64)
        self._delays = delays
        self._pending: list[list[tuple[float, float]]] = [[] for _ in initial]

    def put(self, time: float, values: NDArray[np.float64]) -> bool:
        """Add a command.

        Args:
            time: When it arrived, seconds.
            values: (nu,) one per actuator; NaN leaves an actuator as it is.

        Returns:
            Whether it came in time; one that did not takes effect at once.
        """
        in_time = True
        for row, value in enumerate(values):
            if np.isnan(value):
                continue
            effect = time + self._delays[row]
            in_time &= effect >= self._now
            pending = self._pending[row]
            key = max(effect, self._now)
            place = bisect.bisect_right(pending, key, key=lambda entry: entry[0])
            pending.insert(place, (key, float(value)))
        self.late += not in_time
        return bool(in_time)

    def mean(self, start: float, end: float) -> NDArray[np.float64]:
        """Return the (nu,) mean commands of a time step, and forget what is past.

        Steps must follow each other without a gap.
        """
        means: NDArray[np.float64] = self._current.copy()
        for row, pending in enumerate(self._pending):
            if not pending or pending[0][0] >= end:
                continue
            total, since = 0.0, start
            while pending and pending[0][0] < end:
                effect, value = pending.pop(0)
                moment = max(effect, start)
                total += self._current[row] * (moment - since)
                since = moment
                self._current[row] = value
            means[row] = (total + self._current[row] * (end - since)) / (end - start)
        self._now = end
        return means
