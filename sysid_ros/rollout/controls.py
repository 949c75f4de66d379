# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The controls of a sequence for every candidate: held commands, delayed, scaled and shifted."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.model.targets import Role, Target
from sysid_ros.rollout.runs import Command, HeldCommand, InterpolatedCommand, Run


class Timing(NamedTuple):
    """Columns of a candidate that say when the commands of a sequence act.

    Attributes:
        offset: Seconds by which all act later than their stamps and delays say; None for 0.
        updates: What is said of the updates of its controller: see `InterpolatedCommand.updated`;
            empty where what it asks for is taken to change all the time.
        messages: Which of the messages that are interpolated to the seconds by which it acts later
            than the others.
    """

    offset: int | None = None
    updates: Mapping[str, int] = MappingProxyType({})
    messages: Mapping[int, int] = MappingProxyType({})


#: Controls of so many commands and delays are kept.
_MOST_KEPT = 256


class Controls:
    """Turns the commands of a sequence into one control per step and candidate."""

    def __init__(
        self,
        model: mujoco.MjModel,
        written: list[tuple[Target, int]],
        *,
        native: bool = False,
        shown: Mapping[int, tuple[float, float]] = MappingProxyType({}),
    ) -> None:
        """Find the columns that act on commands.

        Args:
            model: The compiled model, with its native actuator delays.
            written: Targets and the columns of a candidate that they take their values from.
            native: Whether the simulation itself applies the model's delays.
            shown: Column of a delay to those between which forces show that it is.
        """
        self._shown = shown
        self._nu = model.nu
        self._timestep = float(model.opt.timestep)
        self._delays = np.array(model.actuator_delay, dtype=np.float64)
        limited = np.array(model.actuator_ctrllimited, dtype=bool)[:, None]
        self._ranges = np.where(limited, model.actuator_ctrlrange, [-np.inf, np.inf])
        if native:
            self._delays[:] = 0.0
        self._columns: dict[str, dict[int, int]] = {'delay': {}, 'gain': {}, 'bias': {}}
        for target, column in written:
            if target.role is Role.COMMAND:
                self._columns[target.attribute][target.row] = column
        # The command is kept as well: its id would else be given to another one.
        self._kept: dict[tuple[object, ...], tuple[HeldCommand, NDArray[np.float64]]] = {}

    def of(
        self,
        run: Run,
        steps: int,
        candidates: NDArray[np.float64],
        timing: Timing,
    ) -> NDArray[np.float64]:
        """Return the controls of one sequence.

        Args:
            run: The sequence.
            steps: Number of steps.
            candidates: (m, p) parameter values.
            timing: Columns that say when this sequence's commands act.

        Returns:
            (m, steps, nu) controls: the mean of the delayed command over each step.
        """
        control = np.zeros((len(candidates), steps, self._nu))
        columns = [*timing.updates.values(), *timing.messages.values()]
        for command, delays in zip(run.commands, self.delays(run, candidates, timing), strict=True):
            acting = delays[:, None]
            if isinstance(command.held, InterpolatedCommand):
                acting = np.concatenate([acting, candidates[:, columns]], axis=1)
            distinct, inverse = np.unique(acting, axis=0, return_inverse=True)
            means = [self._means(run, command, steps, timing, each) for each in distinct]
            control[:, :, command.column] = np.stack(means)[inverse.reshape(-1)]
            control[:, :, command.column] = self._scaled(
                command.actuator, control[:, :, command.column], candidates
            )
        return control

    def _scaled(
        self, actuator: int, values: NDArray[np.float64], candidates: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return (m, n) values of a command times its gain, with its bias."""
        if actuator in self._columns['gain']:
            values = values * candidates[:, self._columns['gain'][actuator], None]
        if actuator in self._columns['bias']:
            values = values + candidates[:, self._columns['bias'][actuator], None]
        return values

    def in_force(
        self,
        run: Run,
        candidates: NDArray[np.float64],
        timing: Timing,
        number: int,
        times: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return (m, n) what a command of a sequence says at (n,) times, s, for (m, p) values."""
        command, delays = run.commands[number], self.delays(run, candidates, timing)[number]
        column = self._columns['delay'].get(command.actuator, -1)
        delays = np.clip(delays, *self._shown.get(column, (-np.inf, np.inf)))
        distinct, inverse = np.unique(delays, return_inverse=True)
        held = np.stack([command.held.in_force(times - delay) for delay in distinct])
        told = self._scaled(command.actuator, held[inverse.reshape(-1)], candidates)
        low, high = self._ranges[command.column]
        return np.clip(told, low, high)

    def limited(self, control: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (…, nu) controls as the simulation limits them."""
        return np.clip(control, *self._ranges.T)

    def delays(
        self, run: Run, candidates: NDArray[np.float64], timing: Timing
    ) -> list[NDArray[np.float64]]:
        """Return for each command the (m,) seconds by which it acts later than its stamps."""
        shift = np.zeros(len(candidates))
        if timing.offset is not None:
            shift = candidates[:, timing.offset]
        found = []
        for command in run.commands:
            column = self._columns['delay'].get(command.actuator)
            known = np.full(len(candidates), self._delays[command.actuator])
            found.append((known if column is None else candidates[:, column]) + shift)
        return found

    def common_delay(self, run: Run, count: int, timing: Timing) -> NDArray[np.float64]:
        """Return the derivative of the mean delay of a run's commands by the (p,) values."""
        found = np.zeros(count)
        for command in run.commands:
            column = self._columns['delay'].get(command.actuator)
            if column is not None:
                found[column] += 1.0
        # Six times a sixth is less than one.
        found /= max(len(run.commands), 1)
        if timing.offset is not None:
            found[timing.offset] += 1.0
        return found

    def _means(
        self,
        run: Run,
        command: Command,
        steps: int,
        timing: Timing,
        acting: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the (steps,) controls of a command for its delay, phase and messages' offsets."""
        key = (id(command.held), command.column, acting.tobytes(), steps)
        if key not in self._kept:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            edges = self._timestep * np.arange(steps + 1, dtype=np.float64)
            held, (delay, *more) = command.held, acting.tolist()
            if isinstance(held, InterpolatedCommand) and timing.messages:
                later = np.zeros(len(run.sequence.replaced) + 1)
                later[list(timing.messages)] = more[-len(timing.messages) :]
                held = held.replaced(run.sequence.replaced, later)
            if isinstance(held, InterpolatedCommand) and timing.updates:
                said = dict(zip(timing.updates, more, strict=False))
                means = held.updated(edges, delay, run.sequence.updates, said)
            else:
                means = held.means(edges, delay)
            self._kept[key] = (command.held, means)
        return self._kept[key][1]
