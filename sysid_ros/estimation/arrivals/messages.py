# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The messages of a sequence that change a command, and by how much each came late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sysid_ros.estimation.residuals import Residuals
from sysid_ros.rollout.runs import Run, in_order

#: No message is taken to be farther off than this, s.
FARTHEST = 0.025
#: A sender is even where half of its intervals are within this part of their median. The earliest
#: of so many neighbours came without delay; what comes later than this was held up, s.
_EVEN, _NEIGHBOURS, _HELD_UP = 0.1, 51, 1e-3


@dataclass
class Messages:
    """Messages in the order of their effect.

    Attributes:
        series: (k,) which series of commands each is in, …
        place: (k,) … and which of its samples it is.
        effect: (k,) when it acts if it has no error, s.
        error: (k,) by how much it is taken to act later, s.
        deviation: (k,) standard deviation of that, s.
        held_up: (k,) by how much its stamp is late among those of an even sender, s.
    """

    series: NDArray[np.int64]
    place: NDArray[np.int64]
    effect: NDArray[np.float64]
    error: NDArray[np.float64]
    deviation: NDArray[np.float64]
    held_up: NDArray[np.float64]

    @property
    def known(self) -> NDArray[np.float64]:
        """(k,) errors in units of their deviations."""
        return self.error / self.deviation

    @property
    def acting(self) -> NDArray[np.float64]:
        """(k,) when they act, s."""
        return self.effect + self.error

    def move(self, run: Run, error: NDArray[np.float64]) -> NDArray[np.float64]:
        """Take other (k,) errors, as far as the order allows; return the sizes of changes, s."""
        before = self.error
        self.error = np.clip(error, -FARTHEST, FARTHEST)
        self.error = self.ordered(run)
        sizes: NDArray[np.float64] = np.abs(self.error - before)
        return sizes

    def times(self, run: Run, more: NDArray[np.float64] | float = 0.0) -> list[NDArray[np.float64]]:
        """Return the stamps of each series of the sequence, moved by the errors and (k,) more."""
        found = []
        moves = self.error + more
        for series, recorded in enumerate(run.sequence.commands):
            chosen = self.series == series
            times = recorded.times.copy()
            times[self.place[chosen]] += moves[chosen]
            found.append(in_order(times))
        return found

    def ordered(self, run: Run, more: NDArray[np.float64] | float = 0.0) -> NDArray[np.float64]:
        """Return the errors and (k,) more, as far as the order allows, s."""
        found = np.empty(len(self.effect))
        times = self.times(run, more)
        for series, recorded in enumerate(run.sequence.commands):
            chosen = self.series == series
            place = self.place[chosen]
            found[chosen] = times[series][place] - recorded.times[place]
        return found

    def apart(
        self, length: float, chosen: NDArray[np.bool_] | None = None
    ) -> list[NDArray[np.int64]]:
        """Group them so that those of a group act farther apart than a length, s.

        Args:
            length: That length, s.
            chosen: (k,) which; all unless given.
        """
        groups: list[list[int]] = []
        acting = self.acting
        order = np.argsort(acting, kind='stable')
        for index in (order if chosen is None else order[chosen[order]]).tolist():
            time = acting[index]
            free = next((g for g in groups if acting[g[-1]] + length <= time), None)
            if free is None:
                groups.append([index])
            else:
                free.append(index)
        return [np.array(group, dtype=np.int64) for group in groups]


def messages_of(run: Run, delays: NDArray[np.float64], deviation: float) -> Messages:
    """Return the messages of a sequence that change a command while it is simulated.

    Args:
        run: The sequence.
        delays: How much later than its stamps each of its commands acts, s.
        deviation: Standard deviation of the errors, s.
    """
    parts = []
    for series, recorded in enumerate(run.sequence.commands):
        own = [c for c, command in enumerate(run.commands) if command.series == series]
        if not own:
            continue
        times = recorded.times
        changes = np.any([run.commands[c].held.changes for c in own], axis=0)
        effect = times + min(delays[c] for c in own)
        # A command acts in the whole of its time step, and on what is measured at its begin. One
        # that does so after the end by its stamp may have acted before.
        reach = run.timestep + FARTHEST
        end = run.sequence.duration + reach
        place = np.flatnonzero(changes & (effect > -reach) & (effect < end))
        late = _held_up(times)
        parts.append(np.stack([np.full(len(place), series), place, effect[place], late[place]]))
    series_of, place, effect, late = np.concatenate([np.zeros((4, 0)), *parts], axis=1)
    order = np.argsort(effect, kind='stable')
    return Messages(
        series_of[order].astype(np.int64),
        place[order].astype(np.int64),
        effect[order],
        np.zeros(len(order)),
        np.full(len(order), deviation),
        late[order],
    )


def retime(
    bare: Residuals,
    messages: Sequence[Messages],
    moves: Sequence[NDArray[np.float64]] | None = None,
) -> None:
    """Let commands be simulated as they are taken to have arrived, or (k,) seconds later."""
    bare.retime(
        [
            own.times(run, 0.0 if moves is None else moves[index])
            for index, (own, run) in enumerate(zip(messages, bare.runs, strict=True))
        ]
    )


def _held_up(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by how much (n,) stamps are late among those of an even sender, s; 0 if it is none.

    A recorder that was held up stamps late what the robot has received in time.
    """
    from scipy.ndimage import minimum_filter1d  # noqa: PLC0415 (slow to import)

    if len(times) < _NEIGHBOURS:
        return np.zeros(len(times))
    quarter, period, three_quarters = np.percentile(np.diff(times), [25, 50, 75])
    if three_quarters - quarter > _EVEN * period:
        return np.zeros(len(times))
    late = times - period * np.arange(len(times))
    late -= minimum_filter1d(late, _NEIGHBOURS)
    late -= np.median(late)
    return np.where(late > _HELD_UP, late, 0.0)
