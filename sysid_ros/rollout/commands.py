# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Commands as the actuators see them: held, delayed, on the grid of the simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class HeldCommand:
    """One actuator's command: each sample holds until the next, the first also before it.

    A simulation takes one control value per step. Where the command changes inside a step, the
    step gets the mean of the command over it, so that the impulse is exact and the controls, and
    with them the residuals, are continuous functions of the delay.
    """

    def __init__(self, times: NDArray[np.float64], values: NDArray[np.float64]) -> None:
        """Prepare the integral of the command.

        Args:
            times: (n,) seconds, strictly increasing.
            values: (n,) commands.
        """
        self.times = times
        self._values = values
        self._integral = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(times))])

    @property
    def changes(self) -> NDArray[np.bool_]:
        """(n,) whether a sample differs from the one before it."""
        return np.asarray(np.diff(self._values, prepend=self._values[0]) != 0)

    def retimed(self, times: NDArray[np.float64]) -> HeldCommand:
        """Return the same values at other (n,) times, s."""
        return HeldCommand(times, self._values)

    def at(self, time: float) -> float:
        """Return the undelayed command at one time, in seconds."""
        index = int(np.searchsorted(self.times, time, side='right')) - 1
        return float(self._values[max(index, 0)])

    def means(self, edges: NDArray[np.float64], delay: float) -> NDArray[np.float64]:
        """Return the mean of the delayed command over each step.

        Args:
            edges: (m + 1,) limits of the steps, seconds.
            delay: Seconds by which the command arrives late.

        Returns:
            (m,) controls.
        """
        at = edges - delay
        index = np.clip(np.searchsorted(self.times, at, side='right') - 1, 0, None)
        held = self._values[index]
        inside = self._integral[index] + held * (at - self.times[index])
        mean = np.diff(inside) / np.diff(edges)
        # Steps without a change take the held value itself: no rounding from the integral.
        return np.where(index[1:] == index[:-1], held[:-1], mean)
