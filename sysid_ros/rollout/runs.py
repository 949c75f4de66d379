# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Trajectories prepared for simulation with any candidate, and the controls of each candidate.

A simulation holds the mean of a command over each time step, so that predictions change smoothly
with a delay. A driver reads no mean: where states and commands are synchronous, every force is
read just before or just after a command came to act, and a stiff servo's differ by much. A force
with a fixed gain is therefore taken apart: what follows the state is interpolated between steps,
and the gain times the command in force at the stamp is added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import FitError, nearest
from sysid_ros.model.joints import SCALAR_JOINTS, TO_JOINT
from sysid_ros.model.targets import Role, Target
from sysid_ros.rollout.measurement import ON_STEP, ROUNDING, SENSORS, Readings
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.signals.setpoints import STEP_NS
from sysid_ros.signals.trajectory import SLOWEST_UPDATE, Trajectory

#: So much is kept at once of what takes memory for each candidate: controls of commands, and
#: simulations that are driven by laws.
MOST_KEPT = 256
#: Samples of an interpolated command that are nearer than this, s, are those of a curve.
_BENT = 2e-9 * STEP_NS


def in_order(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (n,) stamps that increase: none is before the one before it."""
    least = ON_STEP * np.arange(len(times))
    ordered: NDArray[np.float64] = np.maximum.accumulate(times - least) + least
    return ordered


class HeldCommand:
    """One actuator's command: each sample holds until the next, the first also before it.

    Where it changes inside a step, the step gets its mean, so that the impulse is exact and the
    controls, and with them the residuals, are continuous functions of the delay.
    """

    def __init__(self, times: NDArray[np.float64], values: NDArray[np.float64]) -> None:
        """Prepare the integral of (n,) commands at increasing times, s."""
        self.times = times
        self._values = values
        self._integral = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(times))])

    @property
    def changes(self) -> NDArray[np.bool_]:
        """(n,) whether a sample differs from the one before it."""
        return np.asarray(np.diff(self._values, prepend=self._values[0]) != 0)

    def retimed(self, times: NDArray[np.float64]) -> HeldCommand:
        """Return the same values at other (n,) times, s."""
        return type(self)(times, self._values)

    def in_force(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the undelayed command at (n,) times, in seconds."""
        index = np.searchsorted(self.times, times + ON_STEP, side='right') - 1
        held: NDArray[np.float64] = self._values[np.maximum(index, 0)]
        return held

    def means(self, edges: NDArray[np.float64], delay: float) -> NDArray[np.float64]:
        """Return the (m,) means over steps with (m + 1,) edges, s, of the command delayed by s."""
        at = edges - delay
        index = np.clip(np.searchsorted(self.times, at, side='right') - 1, 0, None)
        held = self._values[index]
        inside = self._integral[index] + held * (at - self.times[index])
        mean = np.diff(inside) / np.diff(edges)
        # Steps without a change take the held value itself: no rounding from the integral.
        return np.where(index[1:] == index[:-1], held[:-1], mean)


class InterpolatedCommand(HeldCommand):
    """What a controller asks for at each moment: linear between samples, held at the ends."""

    def __init__(self, times: NDArray[np.float64], values: NDArray[np.float64]) -> None:
        super().__init__(times, values)
        areas = (values[1:] + values[:-1]) / 2 * np.diff(times)
        self._integral = np.concatenate([[0.0], np.cumsum(areas)])

    @property
    def changes(self) -> NDArray[np.bool_]:
        """(n,) False: no sample is a change by itself."""
        return np.zeros(len(self.times), dtype=bool)

    def in_force(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the undelayed command at (n,) times, in seconds."""
        return np.interp(times, self.times, self._values)

    def replaced(
        self, switches: NDArray[np.float64], later: NDArray[np.float64]
    ) -> InterpolatedCommand:
        """Return the command whose messages are later than their stamps by different times.

        A message begins where the one before has come to. If it is later by more than that, this is
        farther on, and the way to its first point begins there: that of a cubic, whose value and
        slope at the begin change (Hermite's basis).

        Args:
            switches: (k, 2) when each message but the first begins, and is at its first point, s.
            later: (k + 1,) by how much each message is later, s.
        """
        values = self._values.copy()
        message = np.searchsorted(switches[:, 0], self.times, side='right')
        for (begin, end), more in zip(switches, np.diff(later), strict=True):
            row = int(np.searchsorted(self.times, begin))
            if row < 2 or values[row + 1] == values[row]:  # noqa: PLR2004 (it had come to rest)
                continue
            steps = np.diff(self.times[row - 2 : row + 1])
            slopes = np.diff(self._values[row - 2 : row + 1]) / steps
            bend = np.diff(slopes)[0] / steps.mean() if steps.max() < _BENT else 0.0
            slope = slopes[1] + bend * (steps[1] + more) / 2  # from here to where it begins
            way = slice(row, int(np.searchsorted(self.times, end, side='right')))
            share = (self.times[way] - begin) / (end - begin)
            change = (1 + 2 * share) * slope + share * (end - begin) * bend
            values[way] += more * (1 - share) ** 2 * change
        times = self.times + later[message]
        # What a message that is earlier replaces is no longer asked for.
        kept = times <= np.minimum.accumulate(times[::-1])[::-1]
        return InterpolatedCommand(in_order(times[kept]), values[kept])

    def updated(
        self,
        edges: NDArray[np.float64],
        delay: float,
        measured: NDArray[np.float64],
        said: Mapping[str, float],
    ) -> NDArray[np.float64]:
        """Return the means of a command that changes only in the controller's updates.

        From update to update it is held, while what is asked for goes on: a sawtooth beside that,
        whose mean is zero, as the delay is the mean one.

        Args:
            edges: (m + 1,) limits of the steps, seconds.
            delay: Seconds by which the command arrives late, on average.
            measured: (k,) instants, one or none in each period of the updates, s.
            said: ``update_phase``, by how much more of what is asked for is in force at these than
                on average, as the seconds in which that changes so much; ``update_ripple``, the
                part of the sawtooth of a period as long as from instant to instant that is there
                between them; ``update_blur``, the square of the period in that of the slowest.
        """
        ahead, ripple = said.get('update_phase', 0.0), said.get('update_ripple', 1.0)
        means = self.means(edges, delay)
        step = float(edges[1] - edges[0])
        number = np.searchsorted(measured, edges[1:] - ON_STEP, side='right') - 1
        number = np.clip(number, 0, len(measured) - 2)
        since = edges[:-1] - measured[number]
        period = (measured[1:] - measured[:-1])[number]
        saw = (ahead + period / 2 - since) % period - period / 2
        # What is read between two steps is of both.
        read = since < step - ON_STEP
        saw = np.where(read, ahead, ripple * saw)
        rest = np.bincount(number, ~read, minlength=len(measured))
        left = np.bincount(number, saw, minlength=len(measured)) / np.maximum(rest, 1)
        saw[~read] -= left[number[~read]]
        slope = np.gradient(means, step)
        jumps = self.times[1:][np.diff(self.times) < 2 * ON_STEP] + delay
        # The same steps are left out for delays that differ a little: what is predicted would else
        # change at once, and differences would take that for information.
        near = SLOWEST_UPDATE * np.round(jumps / SLOWEST_UPDATE)
        reach = SLOWEST_UPDATE / 2 + 2 * step
        for low, high in zip(*np.searchsorted(edges, (near - reach, near + reach)), strict=True):
            slope[low:high] = 0.0
        # To second order: holding for P takes (ωP)²/24 of what changes with the frequency ω.
        blur = said.get('update_blur', 0.0) * SLOWEST_UPDATE**2 / 24
        means = means + blur * np.gradient(slope, step)
        return means + np.where(rest[number] > 0, saw, 0.0) * slope

    def means(self, edges: NDArray[np.float64], delay: float) -> NDArray[np.float64]:
        """Return the mean of the delayed command over each step, as a held command does."""
        at = edges - delay
        index = np.clip(np.searchsorted(self.times, at, side='right') - 1, 0, None)
        since = at - self.times[index]
        values = np.interp(at, self.times, self._values)
        inside = self._integral[index] + (self._values[index] + values) / 2 * since
        means: NDArray[np.float64] = np.diff(inside) / np.diff(edges)
        return means


#: Which recorded field a signal of the state is found in.
_STATE_FIELDS = {
    SignalType.MjStateQPos: 'qpos',
    SignalType.MjStateQVel: 'qvel',
    SignalType.MjStateAct: 'act',
}


class Command(NamedTuple):
    """What one control was told."""

    actuator: int  # its id
    column: int  # of the model's controls
    held: HeldCommand
    series: int  # which of the sequence's series of commands it is in


@dataclass(frozen=True)
class Run:
    """One sequence, prepared for simulation with any candidate."""

    sequence: Trajectory
    steps: int  # rows that its samples need
    qpos: NDArray[np.float64]  # (nq,) at the start
    qvel: NDArray[np.float64]  # (nv,) at the start
    act: NDArray[np.float64]  # (na,) at the start
    commands: tuple[Command, ...]
    readings: tuple[Readings, ...]  # of each measured series, one per recorded field it is in
    timestep: float  # of the simulation, s


def prepare(
    model: mujoco.MjModel,
    sequence: Trajectory,
    lead: float = 0.0,
    timestep: float | None = None,
) -> Run:
    """Prepare a sequence for simulation.

    Args:
        model: The compiled model.
        sequence: What was recorded.
        lead: Seconds by which predictions may be looked up after the last sample's stamp.
        timestep: From row to row, s; the model's unless given.

    Raises:
        FitError: The sequence names a sensor or actuator that the model does not have, or its
            initial state is not of the model's size.
    """
    timestep = float(model.opt.timestep) if timestep is None else timestep
    # One row more than the last sample needs, so that every sample lies between two rows.
    steps = int(np.floor((sequence.duration + lead) / timestep + ON_STEP / timestep)) + 2
    for what, values, size in (
        ('qpos', sequence.initial_qpos, model.nq),
        ('qvel', sequence.initial_qvel, model.nv),
        ('act', sequence.initial_act, model.na),
    ):
        if values is not None and len(values) != size:
            raise FitError(
                f'Sequence {sequence.name!r} starts with {len(values)} numbers of {what}, '
                f'the model has {size}.'
            )
    commands = tuple(_commands(model, sequence))
    readings = [
        each
        for series in sequence.measurements
        for each in _readings(model, series, sequence.name, timestep)
    ]
    return Run(
        sequence,
        steps,
        np.asarray(sequence.initial_qpos, dtype=np.float64),
        np.asarray(sequence.initial_qvel, dtype=np.float64),
        _activation(model, sequence, commands),
        commands,
        tuple(replace(each, held=f'held/{number}') for number, each in enumerate(readings)),
        timestep,
    )


def retimed(run: Run, times: Sequence[NDArray[np.float64]]) -> Run:
    """Return a run whose commands have other stamps, (n,) seconds for each of its series."""
    return replace(
        run,
        commands=tuple(c._replace(held=c.held.retimed(times[c.series])) for c in run.commands),
    )


def _commands(model: mujoco.MjModel, sequence: Trajectory) -> list[Command]:
    found = []
    for number, series in enumerate(sequence.commands):
        for name in series.names:
            actuator = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_ACTUATOR, name)
            if actuator < 0:
                known = [model.actuator(i).name for i in range(model.nactuator)]
                raise FitError(
                    f'Sequence {sequence.name!r} commands {name!r}; {nearest(name, known)}.'
                )
            first = int(model.actuator_ctrladr[actuator])
            for offset, values in enumerate(series.get(name).T):
                kind = InterpolatedCommand if name in sequence.interpolated else HeldCommand
                held = kind(series.times, np.ascontiguousarray(values))
                found.append(Command(actuator, first + offset, held, number))
    return found


def _activation(
    model: mujoco.MjModel, sequence: Trajectory, commands: tuple[Command, ...]
) -> NDArray[np.float64]:
    if sequence.initial_act is not None:
        return np.asarray(sequence.initial_act, dtype=np.float64)
    act = np.zeros(model.na)
    # The steady state of these is the control itself.
    filters = (mujoco.mjtDyn.mjDYN_FILTER, mujoco.mjtDyn.mjDYN_FILTEREXACT)
    for actuator, column, held, _ in commands:
        own = column == model.actuator_ctrladr[actuator]
        if own and mujoco.mjtDyn(model.actuator_dyntype[actuator]) in filters:
            (first,) = held.in_force(np.zeros(1))
            if model.actuator_ctrllimited[column]:
                first = np.clip(first, *model.actuator_ctrlrange[column])
            act[model.actuator_actadr[actuator]] = first
    return act


def _readings(
    model: mujoco.MjModel, series: TimeSeries, sequence: str, timestep: float
) -> list[Readings]:
    """Return one entry per recorded field that the series' signals are found in."""
    places: dict[str, list[tuple[str, int, int]]] = {}
    for name, (kind, own) in series.signal_mapping.items():
        source, columns = _place(model, name, kind, len(own), sequence)
        for column, mine in zip(columns, own, strict=True):
            places.setdefault(source, []).append((name, column, int(mine)))
    found = []
    for source, entries in places.items():
        names, there, here = zip(*entries, strict=True)
        found.append(Readings(series, np.array(here), names, source, np.array(there), timestep))
    return found


def _place(
    model: mujoco.MjModel, name: str, kind: SignalType, width: int, sequence: str
) -> tuple[str, range]:
    """Return the recorded field and the columns that a signal is found in."""
    if kind in _STATE_FIELDS:
        source = _STATE_FIELDS[kind]
        first, size = _state_place(model, name, source, sequence)
    else:
        sensor = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, name)
        if sensor < 0:
            known = [model.sensor(i).name for i in range(model.nsensor)]
            raise FitError(f'Sequence {sequence!r} measures {name!r}; {nearest(name, known)}.')
        source, first, size = SENSORS, int(model.sensor_adr[sensor]), int(model.sensor_dim[sensor])
    if width != size:
        raise FitError(
            f'Sequence {sequence!r} measures {width} columns of {name!r}; the model has {size}.'
        )
    return source, range(first, first + size)


def _state_place(model: mujoco.MjModel, name: str, source: str, sequence: str) -> tuple[int, int]:
    """Return first column and width of a part of the state, named after a joint or actuator."""
    bare = name.removesuffix(f'_{source}')
    if source == 'act':
        actuator = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_ACTUATOR, bare)
        if actuator >= 0 and model.actuator_actnum[actuator]:
            return int(model.actuator_actadr[actuator]), int(model.actuator_actnum[actuator])
        known = [model.actuator(i).name for i in range(model.nactuator) if model.actuator_actnum[i]]
    else:
        joint = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, bare)
        if joint < 0:  # a free joint may go by the name of its body
            body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, bare)
            joint = int(model.body_jntadr[body]) if body >= 0 else -1
        if joint >= 0:
            widths = {mujoco.mjtJoint.mjJNT_FREE: (7, 6), mujoco.mjtJoint.mjJNT_BALL: (4, 3)}
            sizes = widths.get(mujoco.mjtJoint(model.jnt_type[joint]), (1, 1))
            if source == 'qpos':
                return int(model.jnt_qposadr[joint]), sizes[0]
            return int(model.jnt_dofadr[joint]), sizes[1]
        known = [model.joint(i).name for i in range(model.njnt)]
    raise FitError(
        f'Sequence {sequence!r} measures the {source} of {bare!r}; {nearest(bare, known)}.'
    )


class Timing(NamedTuple):
    """Columns of a candidate that say when the commands of a sequence act."""

    #: Seconds by which all act later than their stamps and delays say; None for 0.
    offset: int | None = None
    #: What is said of the updates of its controller (see `InterpolatedCommand.updated`); empty
    #: where what it asks for is taken to change all the time.
    updates: Mapping[str, int] = MappingProxyType({})
    #: Message that is interpolated to the seconds by which it acts later than the others.
    messages: Mapping[int, int] = MappingProxyType({})


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
        self._delays = np.where(native, 0.0, model.actuator_delay)
        limited = np.array(model.actuator_ctrllimited, dtype=bool)[:, None]
        self._ranges = np.where(limited, model.actuator_ctrlrange, [-np.inf, np.inf])
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
            control[:, :, command.column] = self._scaled(
                command.actuator, np.stack(means)[inverse.reshape(-1)], candidates
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

    def take_apart(
        self,
        run: Run,
        forces: Sequence[SampledForce],
        rows: dict[str, NDArray[np.float64]],
        control: NDArray[np.float64],
        candidates: NDArray[np.float64],
        timing: Timing,
        gains: NDArray[np.float64],
        ranges: NDArray[np.float64],
    ) -> None:
        """Replace forces by what follows the state, and add what commands make of each sample.

        Args:
            run: The sequence.
            forces: Its readings that are taken apart.
            rows: Recorded field to (m, steps, width); those of sensors change, and each readings'
                own field (see `Readings.held`) is added, (m, n, k).
            control: (m, steps, nu) what the simulations were told.
            candidates: (m, p) their values.
            timing: When commands of the sequence act.
            gains: (m, size) ``actuator_gainprm`` of the simulations, …
            ranges: … and their ``actuator_forcerange``.
        """
        for force in forces:
            readings, command = run.readings[force.readings], run.commands[force.command]
            gain = force.factor * gains[:, mujoco.mjNGAIN * force.actuator, None]
            low, high = np.sort(
                force.factor * ranges[:, 2 * force.actuator : 2 * force.actuator + 2], axis=1
            ).T[:, :, None]
            if not force.limited:
                low, high = -np.inf, np.inf
            low, high = np.maximum(low, force.limits[0]), np.minimum(high, force.limits[1])
            values = rows[SENSORS][:, :, force.column]
            limited = (values <= (1 - ROUNDING) * low) | (values >= (1 - ROUNDING) * high)
            told = gain * np.clip(control[:, :, command.column], *self._ranges[command.column])
            values -= told
            at_samples = readings.at_stamps(np.stack([told, limited.astype(np.float64)], axis=2))
            held = rows.setdefault(
                readings.held, np.zeros((len(gain), len(readings.times), len(readings.columns)))
            )
            in_force = self._in_force(run, force.command, candidates, timing, readings.times)
            held[:, :, force.place] = np.where(
                at_samples[:, :, 1] > 0, at_samples[:, :, 0], gain * in_force
            )

    def _in_force(
        self,
        run: Run,
        number: int,
        candidates: NDArray[np.float64],
        timing: Timing,
        times: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return (m, n) what a command of a sequence says at (n,) times, s, for (m, p) values."""
        command, delays = run.commands[number], self.delays(run, candidates, timing)[number]
        column = self._columns['delay'].get(command.actuator, -1)
        delays = np.clip(delays, *self._shown.get(column, (-np.inf, np.inf)))
        distinct, inverse = np.unique(delays, return_inverse=True)
        held = np.stack([command.held.in_force(times - delay) for delay in distinct])
        told = self._scaled(command.actuator, held[inverse.reshape(-1)], candidates)
        return np.asarray(np.clip(told, *self._ranges[command.column]))

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
            if len(self._kept) >= MOST_KEPT:
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


class SampledForce(NamedTuple):
    """A column of readings that is the force of one actuator."""

    readings: int  # number of the readings of the run …
    place: int  # … and column of them
    column: int  # of the sensors' data
    actuator: int  # its id
    factor: float  # what is read for a unit of its force
    limited: bool  # whether the actuator has limits
    limits: NDArray[np.float64]  # (2,) least and greatest reading that the joint allows
    command: int  # its command in the run


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
