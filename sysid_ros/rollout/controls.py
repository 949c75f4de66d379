# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The controls of a sequence for every candidate: held commands, delayed, scaled and shifted.

A simulation holds the mean of a command over each time step, so that predictions change smoothly
with a delay. What a driver reads is not a mean: where states and commands are synchronous, every
force is read just before or just after a command came to act, and a stiff servo's differ by much.
A force with a fixed gain is therefore taken apart: what follows the state is interpolated between
steps, and the gain times the command in force at the stamp is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.model.elements import SCALAR_JOINTS, TO_JOINT
from sysid_ros.model.kinds import Role
from sysid_ros.model.targets import Target
from sysid_ros.rollout.measurement import SENSORS
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
        """Return the (m, steps, nu) means of the delayed commands of a run over each step."""
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


#: A force this close to a limit is at it, relative to the limit.
_AT_LIMIT = 1e-9


class SampledForce(NamedTuple):
    """A column of readings that is the force of one actuator.

    Attributes:
        readings: Number of the readings of the run …
        place: … and column of them.
        column: Of the sensors' data.
        actuator: Id of the actuator.
        factor: What is read for a unit of its force.
        limited: Whether the actuator has limits.
        limits: (2,) least and greatest reading that the joint allows.
        command: Its command in the run.
    """

    readings: int
    place: int
    column: int
    actuator: int
    factor: float
    limited: bool
    limits: NDArray[np.float64]
    command: int


def sampled_forces(model: mujoco.MjModel, run: Run) -> tuple[SampledForce, ...]:
    """Return the readings of a run that are taken apart."""
    if not run.sequence.sampled:
        return ()
    return tuple(
        SampledForce(number, place, int(column), *force, command)
        for number, readings in enumerate(run.readings)
        if readings.source == SENSORS
        for place, column in enumerate(readings.columns.tolist())
        for force in _force(model, column)
        for command, commanded in enumerate(run.commands)
        if commanded.actuator == force[0] and not isinstance(commanded.held, InterpolatedCommand)
    )


def _force(
    model: mujoco.MjModel, column: int
) -> Iterator[tuple[int, float, bool, NDArray[np.float64]]]:
    """Yield the actuator whose force is read, the factor, and limits of it and of the joint."""
    (found,) = np.nonzero(model.sensor_adr == column)
    kind = model.sensor_type[found[0]] if len(found) else -1
    element = int(model.sensor_objid[found[0]]) if len(found) else -1
    limits = np.array([-np.inf, np.inf])
    if kind == mujoco.mjtSensor.mjSENS_ACTUATORFRC:
        if _is_static(model, element):
            yield element, 1.0, bool(model.actuator_forcelimited[element]), limits
    elif kind == mujoco.mjtSensor.mjSENS_JOINTACTFRC and model.jnt_type[element] in SCALAR_JOINTS:
        on_joint = np.isin(model.actuator_trntype, list(TO_JOINT))
        (own,) = np.nonzero(on_joint & (model.actuator_trnid[:, 0] == element))
        if model.jnt_actfrclimited[element]:
            limits = np.array(model.jnt_actfrcrange[element])
        if len(own) == 1 and _is_static(model, int(own[0])):
            gear, has_limits = model.actuator_gear[own[0], 0], model.actuator_forcelimited[own[0]]
            yield int(own[0]), float(gear), bool(has_limits), limits


def _is_static(model: mujoco.MjModel, actuator: int) -> bool:
    """Return whether an actuator's force is a fixed gain times its command, and more."""
    return bool(
        model.actuator_dyntype[actuator] == mujoco.mjtDyn.mjDYN_NONE
        and model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_FIXED
    )


def take_apart(
    run: Run,
    forces: tuple[SampledForce, ...],
    rows: dict[str, NDArray[np.float64]],
    control: NDArray[np.float64],
    in_force: Callable[[int, NDArray[np.float64]], NDArray[np.float64]],
    values_of: Callable[[str], NDArray[np.float64]],
) -> None:
    """Replace forces by what follows the state, and add what commands make of each sample.

    Args:
        run: The sequence.
        forces: Its readings that are taken apart.
        rows: Recorded field to (m, steps, width); those of sensors change, and each readings' own
            field (see `Readings.held`) is added, (m, n, k).
        control: (m, steps, nu) what the simulations were told, within its limits.
        in_force: From the number of a command and (n,) times, s, to (m, n) what it says then.
        values_of: From a field of the model to the (m, size) numbers of the simulations.
    """
    gains, ranges = values_of('actuator_gainprm'), values_of('actuator_forcerange')
    width = mujoco.mjNGAIN
    for force in forces:
        readings, command = run.readings[force.readings], run.commands[force.command]
        gain = force.factor * gains[:, width * force.actuator, None]
        low, high = np.sort(
            force.factor * ranges[:, 2 * force.actuator : 2 * force.actuator + 2], axis=1
        ).T[:, :, None]
        if not force.limited:
            low, high = -np.inf, np.inf
        low, high = np.maximum(low, force.limits[0]), np.minimum(high, force.limits[1])
        values = rows[SENSORS][:, :, force.column]
        limited = (values <= (1 - _AT_LIMIT) * low) | (values >= (1 - _AT_LIMIT) * high)
        told = gain * control[:, :, command.column]
        values -= told
        at_samples = readings.looked_up(np.stack([told, limited.astype(np.float64)], axis=2))
        held = rows.setdefault(
            readings.held, np.zeros((len(gain), len(readings.times), len(readings.columns)))
        )
        held[:, :, force.place] = np.where(
            at_samples[:, :, 1] > 0,
            at_samples[:, :, 0],
            gain * in_force(force.command, readings.times),
        )
