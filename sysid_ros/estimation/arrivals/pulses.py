# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What residuals would be if commands acted at other moments, simulated or put together.

A message that comes later changes the controls of the time steps on the way, and nothing else. What
a change of one step's control does hardly depends on which of the near steps it is in: it comes so
many steps later. So it is simulated once for each message, for many that are far apart in one
simulation, and what moved messages do is the sum of that (superposition).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from sysid_ros.estimation.arrivals.messages import retime
from sysid_ros.estimation.residuals import Record, Residuals

if TYPE_CHECKING:
    from sysid_ros.estimation.arrivals.messages import Messages

#: A message's control is changed by this part of its jump, back to what it was before.
_PART = 0.1
#: Simulations with pulses are made at once as far as commands and records have so many numbers.
_MOST_AT_ONCE = 2e7
#: What pulses do is kept up to so many numbers; of longer recordings, everything is simulated.
_MOST_NUMBERS = 6e7
#: Delays that differ by less than this are the same, s.
_SAME = 1e-9


class Trial(Protocol):
    """Tells residuals with messages at other moments.

    Attributes:
        exact: Whether it simulates whatever is asked for.
    """

    exact: bool

    def begin(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Simulate a (p,) candidate with messages where they are; return the (n,) residuals."""

    def at(self, moves: Sequence[NDArray[np.float64]] | None = None) -> NDArray[np.float64]:
        """Return the (n,) residuals with messages where they are now, or (k,) seconds later."""


class Simulated:
    """Simulates whatever is asked for."""

    exact = True

    def __init__(
        self, bare: Residuals, messages: Sequence[Messages], x: NDArray[np.float64]
    ) -> None:
        """Keep what is simulated; the commands of ``bare`` will be moved."""
        self._bare, self._messages, self._x = bare, messages, x

    def begin(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Simulate a (p,) candidate with messages where they are; return the (n,) residuals."""
        self._x = x
        return self.at()

    def at(self, moves: Sequence[NDArray[np.float64]] | None = None) -> NDArray[np.float64]:
        """Return the (n,) residuals with messages where they are now, or (k,) seconds later."""
        retime(self._bare, self._messages, moves)
        found: NDArray[np.float64] = self._bare(self._x[None])[:, 0]
        if moves is not None:
            retime(self._bare, self._messages)
        return found


class Pulses:
    """Puts together what moved messages do from what a pulse of each does.

    Attributes:
        finite: Whether no simulation of a pulse became unstable.
    """

    exact = False

    def __init__(
        self, bare: Residuals, messages: Sequence[Messages], x: NDArray[np.float64], length: float
    ) -> None:
        """Simulate the pulses.

        Args:
            bare: The residuals, whose commands will be moved.
            messages: Of each sequence.
            x: (p,) candidate.
            length: How long a pulse is felt, s.
        """
        self._bare, self._messages = bare, messages
        self.begin(x)
        self._answers: list[NDArray[np.float32]] = []
        self._measure(length)
        self.finite = all(np.isfinite(answers).all() for answers in self._answers)

    def begin(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Simulate a (p,) candidate with messages where they are; return the (n,) residuals."""
        self._x = x
        retime(self._bare, self._messages)
        self._begun = self._bare.records(x)
        self._now = [_joined(record) for record in self._begun]
        self._acting = [own.acting.copy() for own in self._messages]
        return self._bare.of_records(x, self._begun)

    def at(self, moves: Sequence[NDArray[np.float64]] | None = None) -> NDArray[np.float64]:
        """Return the (n,) residuals with messages where they are now, or (k,) seconds later."""
        for index, (run, own) in enumerate(zip(self._bare.runs, self._messages, strict=True)):
            acting = own.acting if moves is None else own.effect + own.ordered(run, moves[index])
            self._move(index, acting)
        records = [
            _parted(rows, record) for rows, record in zip(self._now, self._begun, strict=True)
        ]
        return self._bare.of_records(self._x, records)

    def _move(self, index: int, acting: NDArray[np.float64]) -> None:
        """Add to the rows of a sequence what its messages do at other (k,) moments."""
        timestep, rows = self._bare.runs[index].timestep, self._now[index]
        before, after = self._acting[index] / timestep, acting / timestep
        moved = np.flatnonzero(before != after)
        first = np.floor(np.minimum(before[moved], after[moved])).astype(np.int64)
        last = np.floor(np.maximum(before[moved], after[moved])).astype(np.int64)
        for message, begin, end in zip(moved.tolist(), first.tolist(), last.tolist(), strict=True):
            answer = self._answers[index][message]
            for step in range(max(begin, 0), min(end + 1, len(rows))):
                # The part of the step in which the message is in force.
                share = min(max(step + 1 - after[message], 0.0), 1.0)
                share -= min(max(step + 1 - before[message], 0.0), 1.0)
                into = rows[step : step + len(answer)]
                into += share * answer[: len(into)]
        self._acting[index] = acting.copy()

    def _measure(self, length: float) -> None:
        """Simulate what a pulse of each message does, those far apart at once."""
        bare = self._bare
        widths = [int(np.ceil(length / run.timestep)) + 1 for run in bare.runs]
        # The next pulse begins after the last row of one.
        groups = [
            own.apart((width + 1) * run.timestep)
            for own, run, width in zip(self._messages, bare.runs, widths, strict=True)
        ]
        jumps, steps = [], []
        for run, own, rows, width in zip(bare.runs, self._messages, self._now, widths, strict=True):
            jump = np.zeros((len(own.effect), bare.commands))
            for command in run.commands:
                of_series = own.series == command.series
                jump[of_series, command.column] = command.held.jumps[own.place[of_series]]
            jumps.append(jump)
            step = np.floor(own.acting / run.timestep).astype(np.int64)
            # One that acts after the end may have acted before.
            steps.append(np.clip(step, 0, run.steps - 1))
            self._answers.append(np.zeros((len(own.effect), width, rows.shape[1]), np.float32))
        numbers = sum(run.steps * (bare.commands + bare.width) for run in bare.runs)
        most = max(int(_MOST_AT_ONCE / numbers), 1)
        for first in range(0, max(map(len, groups)), most):
            some = [each[first : first + most] for each in groups]
            pushes = []
            for run, chosen_ones, jump, step in zip(bare.runs, some, jumps, steps, strict=True):
                push = np.zeros((max(map(len, some)), run.steps, bare.commands))
                for row, chosen in zip(push, chosen_ones, strict=False):
                    row[step[chosen]] -= _PART * jump[chosen]
                pushes.append(push)
            for index, record in enumerate(bare.pushed(self._x, pushes)):
                for place, chosen in enumerate(some[index]):
                    one = {field: values[place] for field, values in record.items()}
                    change = (self._now[index] - _joined(one)) / _PART
                    for message in chosen.tolist():
                        answer = self._answers[index][message]
                        begin = int(steps[index][message])
                        found = change[begin : begin + len(answer)]
                        answer[: len(found)] = found


def trial_of(
    bare: Residuals, messages: Sequence[Messages], x: NDArray[np.float64], length: float
) -> Trial:
    """Return what tells residuals fastest: pulses that last so many seconds, where they suit."""
    if _suit(bare, messages, x, length):
        pulses = Pulses(bare, messages, x, length)
        if pulses.finite:
            return pulses
    return Simulated(bare, messages, x)


def _suit(
    bare: Residuals, messages: Sequence[Messages], x: NDArray[np.float64], length: float
) -> bool:
    """Tell whether pulses can take the place of simulations.

    All commands of a message have to act at once, in a time step that is known, and what they do
    has to fit into the memory.
    """
    numbers = 0.0
    for index, (run, own) in enumerate(zip(bare.runs, messages, strict=True)):
        delays = np.array(bare.delays(index, x))
        series = np.array([command.series for command in run.commands])
        if any(np.ptp(delays[series == each]) > _SAME for each in np.unique(series)):
            return False
        numbers += len(own.effect) * length / run.timestep * bare.width
    return bare.delays_are_added and numbers <= _MOST_NUMBERS


def _joined(record: Record) -> NDArray[np.float64]:
    """Return all columns of a record beside each other."""
    return np.concatenate([record[field] for field in sorted(record)], axis=1)


def _parted(rows: NDArray[np.float64], like: Record) -> Record:
    """Return rows as a record with the fields of another."""
    fields = sorted(like)
    ends = np.cumsum([like[field].shape[1] for field in fields])[:-1]
    return dict(zip(fields, np.split(rows, ends, axis=1), strict=True))
