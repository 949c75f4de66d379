# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The controls of a sequence for every candidate: held commands, delayed, scaled and shifted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.model.targets import Role

if TYPE_CHECKING:
    import mujoco
    from numpy.typing import NDArray

    from sysid_ros.model.targets import Target
    from sysid_ros.rollout.runs import Command, HeldCommand, Run

#: Controls of so many commands and delays are kept.
_MOST_KEPT = 256


class Controls:
    """Turns the commands of a sequence into one control per step and candidate."""

    def __init__(
        self, model: mujoco.MjModel, written: list[tuple[Target, int]], *, native: bool = False
    ) -> None:
        """Find the columns that act on commands.

        Args:
            model: The compiled model, with its native actuator delays.
            written: Targets and the columns of a candidate that they take their values from.
            native: Whether the simulation itself applies the model's delays.
        """
        self._nu = model.nu
        self._timestep = float(model.opt.timestep)
        self._delays = np.array(model.actuator_delay, dtype=np.float64)
        if native:
            self._delays[:] = 0.0
        self._columns: dict[str, dict[int, int]] = {'delay': {}, 'gain': {}, 'bias': {}}
        for target, column in written:
            if target.role is Role.COMMAND:
                self._columns[target.attribute][target.row] = column
        # The command is kept as well: its id would else be given to another one.
        self._kept: dict[tuple[int, int, float, int], tuple[HeldCommand, NDArray[np.float64]]] = {}

    def of(
        self, run: Run, steps: int, candidates: NDArray[np.float64], offset: int | None
    ) -> NDArray[np.float64]:
        """Return the controls of one sequence.

        Args:
            run: The sequence.
            steps: Number of steps.
            candidates: (m, p) parameter values.
            offset: Column of the seconds by which this sequence's commands act later than their
                stamps and delays say.

        Returns:
            (m, steps, nu) controls: the mean of the delayed command over each step.
        """
        control = np.zeros((len(candidates), steps, self._nu))
        for command, delays in zip(run.commands, self.delays(run, candidates, offset), strict=True):
            distinct, inverse = np.unique(delays, return_inverse=True)
            if len(distinct) == 1:
                control[:, :, command.column] = self._means(command, steps, float(distinct[0]))
            else:
                means = [self._means(command, steps, float(delay)) for delay in distinct]
                control[:, :, command.column] = np.stack(means)[inverse.reshape(-1)]
            if command.actuator in self._columns['gain']:
                gain = candidates[:, self._columns['gain'][command.actuator]]
                control[:, :, command.column] *= gain[:, None]
            if command.actuator in self._columns['bias']:
                bias = candidates[:, self._columns['bias'][command.actuator]]
                control[:, :, command.column] += bias[:, None]
        return control

    def delays(
        self, run: Run, candidates: NDArray[np.float64], offset: int | None
    ) -> list[NDArray[np.float64]]:
        """Return for each command the (m,) seconds by which it acts later than its stamps."""
        shift = np.zeros(len(candidates)) if offset is None else candidates[:, offset]
        found = []
        for command in run.commands:
            column = self._columns['delay'].get(command.actuator)
            known = np.full(len(candidates), self._delays[command.actuator])
            found.append((known if column is None else candidates[:, column]) + shift)
        return found

    def common_delay(self, run: Run, count: int, offset: int | None) -> NDArray[np.float64]:
        """Return the derivative of the mean delay of a run's commands by the (p,) values."""
        found = np.zeros(count)
        for command in run.commands:
            column = self._columns['delay'].get(command.actuator)
            if column is not None:
                found[column] += 1.0 / len(run.commands)
        if offset is not None:
            found[offset] += 1.0
        return found

    def _means(self, command: Command, steps: int, delay: float) -> NDArray[np.float64]:
        key = (id(command.held), command.column, delay, steps)
        if key not in self._kept:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            edges = self._timestep * np.arange(steps + 1, dtype=np.float64)
            self._kept[key] = (command.held, command.held.means(edges, delay))
        return self._kept[key][1]
