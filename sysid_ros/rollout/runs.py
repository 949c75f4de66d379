# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences, prepared once for simulation with any candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import FitError, nearest
from sysid_ros.rollout.measurement import ON_STEP, SENSORS, Readings
from sysid_ros.signals import SLOWEST_UPDATE, SignalType, TimeSeries, Trajectory
from sysid_ros.signals.setpoints import STEP_NS

#: Stamps of a series are at least so far apart, s.
_SHORTEST = 1e-9
#: Where samples of what is interpolated are nearer than this, s, it is bent there …
_BENT = 2e-9 * STEP_NS
#: … and where they are nearer than this, it jumps, and has no slope.
_JUMP = 1e-6


def in_order(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (n,) stamps that increase: none is before the one before it."""
    least = _SHORTEST * np.arange(len(times))
    ordered: NDArray[np.float64] = np.maximum.accumulate(times - least) + least
    return ordered


class HeldCommand:
    """One actuator's command: each sample holds until the next, the first also before it.

    A simulation takes one control value per step. Where the command changes inside a step, the
    step gets the mean of the command over it, so that the impulse is exact and the controls, and
    with them the residuals, are continuous functions of the delay.
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

    def at(self, time: float) -> float:
        """Return the undelayed command at one time, in seconds."""
        return float(self.in_force(np.array([time]))[0])

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
    """One actuator's command that changes linearly from sample to sample, and is held at the ends.

    It is what a controller asks for at each moment: no message of its own makes it change.
    """

    def __init__(self, times: NDArray[np.float64], values: NDArray[np.float64]) -> None:
        """Prepare the integral of (n,) commands at increasing times, s."""
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
        number = np.searchsorted(measured, edges[1:] - _SHORTEST, side='right') - 1
        number = np.clip(number, 0, len(measured) - 2)
        since = edges[:-1] - measured[number]
        period = (measured[1:] - measured[:-1])[number]
        saw = (ahead + period / 2 - since) % period - period / 2
        # What is read between two steps is of both.
        read = since < step - _SHORTEST
        saw = np.where(read, ahead, ripple * saw)
        rest = np.bincount(number, ~read, minlength=len(measured))
        left = np.bincount(number, saw, minlength=len(measured)) / np.maximum(rest, 1)
        saw[~read] -= left[number[~read]]
        slope = np.gradient(means, step)
        jumps = self.times[1:][np.diff(self.times) < _JUMP] + delay
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
    """What one control was told.

    Attributes:
        actuator: Id of the actuator.
        column: Column of the model's controls.
        held: The command.
        series: Which of the sequence's series of commands it is in.
    """

    actuator: int
    column: int
    held: HeldCommand
    series: int


@dataclass(frozen=True)
class Run:
    """One sequence, prepared for simulation with any candidate.

    Attributes:
        sequence: What was recorded.
        steps: Rows that its samples need.
        qpos: (nq,) at the start.
        qvel: (nv,) at the start.
        act: (na,) at the start.
        commands: What the controls were told.
        readings: Of each measured series, one per recorded field that it is found in.
        timestep: Of the simulation, seconds.
    """

    sequence: Trajectory
    steps: int
    qpos: NDArray[np.float64]
    qvel: NDArray[np.float64]
    act: NDArray[np.float64]
    commands: tuple[Command, ...]
    readings: tuple[Readings, ...]
    timestep: float


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
    return Run(
        sequence,
        steps,
        np.asarray(sequence.initial_qpos, dtype=np.float64),
        np.asarray(sequence.initial_qvel, dtype=np.float64),
        _activation(model, sequence, commands),
        commands,
        tuple(
            replace(readings, held=f'held/{number}')
            for number, readings in enumerate(
                readings
                for series in sequence.measurements
                for readings in _readings(model, series, sequence.name, timestep)
            )
        ),
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
    for actuator, column, held, _ in commands:
        if column != model.actuator_ctrladr[actuator]:
            continue
        # The steady state of these is the control itself.
        filters = (mujoco.mjtDyn.mjDYN_FILTER, mujoco.mjtDyn.mjDYN_FILTEREXACT)
        if mujoco.mjtDyn(model.actuator_dyntype[actuator]) in filters:
            first = held.at(0.0)
            if model.actuator_ctrllimited[column]:
                first = float(np.clip(first, *model.actuator_ctrlrange[column]))
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
