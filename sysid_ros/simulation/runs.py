# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Trajectories prepared for simulation: where they start, what is commanded, what is read.

Between the state of the model and the number in the recording lie gain, bias and delay: the
residual of a sample y at time t is ``(g_m y + b_m) − (g_p p(t − d) + b_p)``, where p is what the
model's sensor says. Its derivatives by gains, biases and delay follow from one simulation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import FitError, listed, nearest
from sysid_ros.model.elements import is_orientation
from sysid_ros.model.kinds import Role
from sysid_ros.model.targets import Unknown
from sysid_ros.signals import SLOWEST_UPDATE, SignalType, TimeSeries, Trajectory
from sysid_ros.signals.rotations import nearest_rotation_vectors
from sysid_ros.signals.setpoints import STEP_NS
from sysid_ros.simulation.bases import prescribed

Array = NDArray[np.float64]

#: Instants this close to each other are the same, s: stamps are whole nanoseconds.
ON_STEP = 1e-9
#: Orientations are turned by what they turn in this part of a step, to tell how they change.
_SMALL_TURN = 1e-3
#: What is smaller, relative to its kind, is a rounding error.
ROUNDING = 1e-9
#: The recorded field that holds what the model's sensors say.
SENSORS = 'sensordata'
#: Samples of an interpolated command that are nearer than this, s, are those of a curve.
_BENT = 2e-9 * STEP_NS


@dataclass(frozen=True)
class MeasurementModel:
    """Columns of a candidate that act on one sensor's reading."""

    gains: tuple[int, ...] = ()  # the prediction is multiplied by all of them, …
    biases: tuple[int, ...] = ()  # … and all of these are added
    measured_gains: tuple[int, ...] = ()  # the measurement is multiplied by all of them, …
    measured_biases: tuple[int, ...] = ()  # … and all of these are added
    delay: int | None = None  # seconds by which a reading describes an earlier state

    @property
    def columns(self) -> set[int]:
        """All columns that act."""
        delay = set() if self.delay is None else {self.delay}
        return delay.union(self.gains, self.biases, self.measured_gains, self.measured_biases)


#: A sensor by its name, or one of its axes by that and its number.
Signal = str | tuple[str, int]


def measurement_models(unknowns: Sequence[Unknown]) -> dict[Signal, MeasurementModel]:
    """Return the model of every sensor, or axis of one, that a target names."""
    found: dict[Signal, MeasurementModel] = {}
    for column, unknown in enumerate(unknowns):
        for target in unknown.targets:
            if target.role is not Role.SENSOR:
                continue
            signal = target.name if target.index is None else (target.name, target.index)
            law = found.get(signal, MeasurementModel())
            if target.attribute == 'gain':
                law = replace(law, gains=(*law.gains, column))
            elif target.attribute == 'bias':
                law = replace(law, biases=(*law.biases, column))
            else:
                law = replace(law, delay=column)
            found[signal] = law
    return found


def combined(one: MeasurementModel, other: MeasurementModel) -> MeasurementModel:
    """Return the model that has the columns of two; of two delays, the second."""
    return MeasurementModel(
        one.gains + other.gains,
        one.biases + other.biases,
        one.measured_gains + other.measured_gains,
        one.measured_biases + other.measured_biases,
        one.delay if other.delay is None else other.delay,
    )


class Lookup(NamedTuple):
    """Where samples lie between the rows of a simulation."""

    #: (n,) row at or before each sample; (n, k) for columns with times of their own.
    rows: NDArray[np.int64]
    #: (n, 1) or (n, k) share of the row after it; None where every sample is on a row.
    weights: Array | None = None

    def __call__(self, values: Array) -> Array:
        """Evaluate (…, steps, k) rows at the (…, n, k) samples; (steps, k) for columns apart."""
        if self.weights is None:
            return values[..., self.rows, :]
        if self.rows.ndim > 1:
            before = np.take_along_axis(values, self.rows, axis=0)
            after = np.take_along_axis(values, self.rows + 1, axis=0)
        else:
            before, after = values[..., self.rows, :], values[..., self.rows + 1, :]
        result: Array = before + self.weights * (after - before)
        return result

    def slopes(self, values: Array) -> Array:
        """Return the change of (steps, k) rows per step at the samples.

        It is that of the straight line that a sample lies on: forces jump where controllers update
        their commands, and what is smoothed over neighbouring steps is the slope of nothing that
        is compared. On a row two lines meet, and their mean counts.
        """
        pick = np.take_along_axis if self.rows.ndim > 1 else np.take
        rise = np.diff(values, axis=0)
        after = pick(rise, np.minimum(self.rows, len(rise) - 1), axis=0)
        before = pick(rise, np.clip(self.rows - 1, 0, len(rise) - 1), axis=0)
        inside = np.zeros(len(self.rows), dtype=bool) if self.weights is None else self.weights > 0
        return np.where(
            inside if inside.ndim > 1 else inside[:, None], after, 0.5 * (after + before)
        )


#: Coefficients of the powers 0 to 3 of a sample's share, for the row before the two around it, for
#: these two, and for the next (E. Catmull and R. Rom, "A class of local interpolating splines",
#: Computer Aided Geometric Design, 1974).
_CUBIC = 0.5 * np.array([[0, -1, 2, -1], [2, 0, -5, 3], [0, 1, 4, -3], [0, 0, -1, 1]])


class SmoothLookup(Lookup):
    """Where samples lie between the rows of what is smooth: on cubics through four of them.

    Between rows a straight line is half as noisy as they are, so that a delay of half a row would
    seem better than the true one.
    """

    def __call__(self, values: Array) -> Array:
        """Evaluate (…, steps, k) rows at the (…, n, k) samples; (steps, k) for columns apart."""
        return values[..., self.rows, :] if self.weights is None else self._sum(values, _CUBIC)

    def slopes(self, values: Array) -> Array:
        """Return the change of (steps, k) rows per step at the samples."""
        return self._sum(values, _CUBIC[:, 1:] * np.arange(1, 4))

    def _sum(self, values: Array, powers: Array) -> Array:
        share = np.zeros((len(self.rows), 1)) if self.weights is None else self.weights
        last, found = values.shape[-2] - 1, np.zeros(1)
        for offset, own in zip((-1, 0, 1, 2), powers, strict=True):
            rows = np.clip(self.rows + offset, 0, last)
            one = rows.ndim == 1
            there = values[..., rows, :] if one else np.take_along_axis(values, rows, axis=0)
            found = found + np.polynomial.polynomial.polyval(share, own) * there
        return found


def lookup(times: Array, timestep: float, kind: type[Lookup] = Lookup) -> Lookup:
    """Find samples at (n,) times, or (n, k) of columns apart, s; row k is at ``k * timestep``."""
    position = np.maximum(times / timestep, 0.0)
    near = np.rint(position)
    position = np.where(np.abs(position - near) * timestep <= ON_STEP, near, position)
    rows = np.floor(position).astype(np.int64)
    weights: Array = position - rows
    if rows.ndim > 1:
        return kind(rows, weights)
    return kind(rows, weights[:, None] if np.any(weights) else None)


def _selection(columns: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """Return columns as a slice where they are consecutive: what it selects is not copied."""
    if not len(columns) or np.any(np.diff(columns) != 1):
        return columns
    return slice(int(columns[0]), int(columns[-1]) + 1)


@dataclass(frozen=True)
class Readings:
    """A measured series, where a simulation has the same, and the laws between the two."""

    series: TimeSeries  # what was measured; its samples are not copied
    own: NDArray[np.int64]  # (k,) columns of it that are read from the same recorded field
    sensors: tuple[str, ...]  # (k,) name of the signal that each of them belongs to
    source: str  # recorded field: ``sensordata``, ``qpos``, ``qvel`` or ``act``
    columns: NDArray[np.int64]  # (k,) of that field
    timestep: float  # of the simulation, s
    laws: tuple[MeasurementModel, ...] = ()  # of each column, once they are known: see `under`
    #: Recorded field with (n, k) values that are added at the samples, if it is there: what
    #: commands that are held make of forces.
    held: str = ''
    smooth: bool = False  # whether what is recorded is, as forces along a smoothed motion are
    measured: Array = field(init=False, repr=False)  # (n, k) values of the columns
    at_stamps: Lookup = field(init=False, repr=False)  # evaluates rows at the measured stamps
    _columns: NDArray[np.int64] | slice = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, 'measured', self.series.data[:, _selection(self.own)])
        object.__setattr__(self, 'at_stamps', self.at(self.times))
        object.__setattr__(self, '_columns', _selection(self.columns))

    @property
    def times(self) -> Array:
        """(n,) seconds from the start of the sequence."""
        return self.series.times

    def at(self, times: Array) -> Lookup:
        """Return what evaluates rows at (n,) times, or (n, k) of columns apart, s."""
        return lookup(times, self.timestep, SmoothLookup if self.smooth else Lookup)

    @property
    def lawful(self) -> bool:
        """Whether what was measured differs from what the model's sensors say."""
        return any(law.columns for law in self.laws)

    def under(self, models: Mapping[Signal, MeasurementModel]) -> Readings:
        """Return the same with the laws of sensors, those of one sensor's axes in their order."""
        nothing = MeasurementModel()
        return replace(
            self,
            laws=tuple(
                combined(
                    models.get(sensor, nothing),
                    models.get((sensor, self.sensors[:column].count(sensor)), nothing),
                )
                for column, sensor in enumerate(self.sensors)
            ),
        )

    def values(self, rows: Mapping[str, Array]) -> Array:
        """Return the (…, steps, k) rows of the columns, from (…, steps, width) of their field."""
        return rows[self.source][..., self._columns]

    def simulated(self, rows: Mapping[str, Array]) -> Array:
        """Return the (m, n, k) values that (m, steps, width) rows have at the measured stamps.

        Row k describes the state at ``k * timestep``. No law acts on them.
        """
        return self._with_held(self.at_stamps(self.values(rows)), rows)

    def _with_held(self, values: Array, rows: Mapping[str, Array]) -> Array:
        return values + rows[self.held] if self.held in rows else values

    def predicted(self, rows: Mapping[str, Array], x: Array) -> Array:
        """Return the (n, k) readings that a (p,) candidate predicts; rows are (steps, width)."""
        return self._state(rows, x)[0] * self._product(x, 'gains') + self._sum(x, 'biases')

    def residual(self, rows: Mapping[str, Array], x: Array) -> Array:
        """Return the (n, k) measured minus predicted readings of a (p,) candidate."""
        state, _ = self._state(rows, x)
        if not self.lawful:
            return self.measured - state
        found: Array = (
            self.measured * self._product(x, 'measured_gains')
            + self._sum(x, 'measured_biases')
            - state * self._product(x, 'gains')
            - self._sum(x, 'biases')
        )
        return found

    def derivatives(self, rows: Mapping[str, Array], x: Array, scale: Array) -> dict[int, Array]:
        """Return columns of a (p,) candidate and the (n, k) derivatives of residuals by them.

        Residuals are multiplied by (k,) scales.
        """
        state, slope = self._state(rows, x, slopes=True)
        found: dict[int, Array] = {}
        for column, k, factor, what in self._factors(x):
            if what == 'state':
                change = -state[:, k]
            elif what == 'measured':
                change = self.measured[:, k]
            else:
                change = slope[:, k] if what == 'slope' else np.ones(len(state))
            into = found.setdefault(column, np.zeros_like(state))
            into[:, k] += scale[k] * factor * change
        return found

    def _factors(self, x: Array) -> Iterator[tuple[int, int, float, str]]:
        """Yield candidate column, channel, factor, and what the factor multiplies."""
        for k, law in enumerate(self.laws):
            for columns, what in ((law.gains, 'state'), (law.measured_gains, 'measured')):
                for place, column in enumerate(columns):
                    others = [x[c] for i, c in enumerate(columns) if i != place]
                    yield column, k, float(np.prod(others)), what
            yield from ((column, k, -1.0, 'one') for column in law.biases)
            yield from ((column, k, 1.0, 'one') for column in law.measured_biases)
            if law.delay is not None:
                yield law.delay, k, float(self._product(x, 'gains')[k]), 'slope'

    def _product(self, x: Array, what: str) -> Array:
        return np.array([np.prod(x[list(getattr(law, what))]) for law in self.laws])

    def _sum(self, x: Array, what: str) -> Array:
        return np.array([np.sum(x[list(getattr(law, what))]) for law in self.laws])

    def _state(
        self, rows: Mapping[str, Array], x: Array, *, slopes: bool = False
    ) -> tuple[Array, Array]:
        """Return the (n, k) values at the times that the readings describe, and their slopes."""
        delays = np.array([0.0 if law.delay is None else x[law.delay] for law in self.laws])
        delayed = any(law.delay is not None for law in self.laws)
        if not delays.any() and not (slopes and delayed):
            return np.array(self.simulated(rows)), np.empty((0, 0))
        values = self.values(rows)
        common = np.all(delays == delays[0])
        times = self.times - delays[0] if common else self.times[:, None] - delays
        # Never beyond the last row: what lies there is not compared.
        at = self.at(np.minimum(times, (len(values) - 2) * self.timestep))
        state = np.array(self._with_held(at(values), rows))
        if not slopes:
            return state, np.empty((0, 0))
        return state, at.slopes(values) / self.timestep


@dataclass(frozen=True)
class OrientationReadings(Readings):
    """An orientation that was measured, as three numbers, where a simulation has a quaternion.

    What is predicted are rotation vectors that differ from the measured ones as the orientations
    do: see `nearest_rotation_vectors`. The columns are the first three of the quaternion's.
    """

    def values(self, rows: Mapping[str, Array]) -> Array:
        """Return the (…, steps, 4) quaternions."""
        first = int(self.columns[0])
        return rows[self.source][..., first : first + 4]

    def _state(
        self, rows: Mapping[str, Array], x: Array, *, slopes: bool = False
    ) -> tuple[Array, Array]:
        delay = self.laws[0].delay if self.laws else None
        times = self.times - (0.0 if delay is None else x[delay])
        values = self.values(rows)
        at = self.at(np.minimum(times, (len(values) - 2) * self.timestep))
        quaternions = at(values)
        state = nearest_rotation_vectors(quaternions, self.measured)
        if not slopes or delay is None:
            return state, np.empty((0, 0))
        step = _SMALL_TURN * self.timestep
        moved = quaternions + step * at.slopes(values) / self.timestep
        return state, (nearest_rotation_vectors(moved, self.measured) - state) / step

    def simulated(self, rows: Mapping[str, Array]) -> Array:
        """Return the (m, n, 3) rotation vectors at the measured stamps."""
        return nearest_rotation_vectors(self.at_stamps(self.values(rows)), self.measured)


def in_order(times: Array) -> Array:
    """Return (n,) stamps that increase: none is before the one before it."""
    least = ON_STEP * np.arange(len(times))
    ordered: Array = np.maximum.accumulate(times - least) + least
    return ordered


class HeldCommand:
    """One actuator's command: each sample holds until the next, the first also before it.

    Where it changes inside a step, the step gets its mean, so that the impulse is exact and the
    controls, and with them the residuals, are continuous functions of the delay.
    """

    def __init__(self, times: Array, values: Array) -> None:
        """Prepare the integral of (n,) commands at increasing times, s."""
        self.times = times
        self._values = values
        self._integral = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(times))])

    @property
    def changes(self) -> NDArray[np.bool_]:
        """(n,) whether a sample differs from the one before it."""
        return np.asarray(np.diff(self._values, prepend=self._values[0]) != 0)

    def retimed(self, times: Array) -> HeldCommand:
        """Return the same values at other (n,) times, s."""
        return type(self)(times, self._values)

    def in_force(self, times: Array) -> Array:
        """Return the undelayed command at (n,) times, in seconds."""
        index = np.searchsorted(self.times, times + ON_STEP, side='right') - 1
        held: Array = self._values[np.maximum(index, 0)]
        return held

    def means(self, edges: Array, delay: float) -> Array:
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

    def __init__(self, times: Array, values: Array) -> None:
        super().__init__(times, values)
        areas = (values[1:] + values[:-1]) / 2 * np.diff(times)
        self._integral = np.concatenate([[0.0], np.cumsum(areas)])

    @property
    def changes(self) -> NDArray[np.bool_]:
        """(n,) False: no sample is a change by itself."""
        return np.zeros(len(self.times), dtype=bool)

    def in_force(self, times: Array) -> Array:
        """Return the undelayed command at (n,) times, in seconds."""
        return np.interp(times, self.times, self._values)

    def replaced(self, switches: Array, later: Array) -> InterpolatedCommand:
        """Return the command whose messages are later than their stamps by different times.

        A message begins where the one before has come to. If it is later by more than that, this is
        farther on, and the way to its first point begins there: that of a cubic, whose value and
        slope at the begin change (Hermite's basis).

        The (k, 2) switches are when each message but the first begins, and is at its first point.
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
        self, edges: Array, delay: float, measured: Array, said: Mapping[str, float]
    ) -> Array:
        """Return the means of a command that changes only in the controller's updates.

        From update to update it is held, while what is asked for goes on: a sawtooth beside that,
        whose mean is zero, as the delay is the mean one. Of (k,) instants that are measured, s, one
        or none is in each period. Said is ``update_phase``, by how much more of what is asked for
        is in force at these than on average, as the seconds in which that changes so much;
        ``update_ripple``, the part of the sawtooth of a period as long as from instant to instant
        that is there between them; ``update_blur``, the square of the period in that of the
        slowest.
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

    def means(self, edges: Array, delay: float) -> Array:
        """Return the mean of the delayed command over each step, as a held command does."""
        at = edges - delay
        index = np.clip(np.searchsorted(self.times, at, side='right') - 1, 0, None)
        since = at - self.times[index]
        values = np.interp(at, self.times, self._values)
        inside = self._integral[index] + (self._values[index] + values) / 2 * since
        means: Array = np.diff(inside) / np.diff(edges)
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
    qpos: Array  # (nq,) at the start
    qvel: Array  # (nv,) at the start
    act: Array  # (na,) at the start
    commands: tuple[Command, ...]
    readings: tuple[Readings, ...]  # of each measured series, one per recorded field it is in
    timestep: float  # of the simulation, s
    #: (steps, nv) forces that lead floating bodies where they were measured; None where none are.
    forces: Array | None = None


def prepare(
    model: mujoco.MjModel, sequence: Trajectory, lead: float = 0.0, timestep: float | None = None
) -> Run:
    """Prepare a sequence for simulation, with rows at the model's timestep unless one is given.

    Predictions may be looked up so many seconds after the last sample's stamp.

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
    qpos = np.asarray(sequence.initial_qpos, dtype=np.float64)
    qvel = np.asarray(sequence.initial_qvel, dtype=np.float64)
    forces = None
    if sequence.base is not None:
        qpos, qvel, forces = prescribed(model, sequence.base, (qpos, qvel), timestep, steps)
    readings = [
        each
        for series in sequence.measurements
        for each in _readings(model, series, sequence.name, timestep)
    ]
    return Run(
        sequence,
        steps,
        qpos,
        qvel,
        _activation(model, sequence, commands),
        commands,
        tuple(
            replace(each, held=f'held/{number}', smooth=sequence.motion is not None)
            for number, each in enumerate(readings)
        ),
        timestep,
        forces,
    )


def retimed(run: Run, times: Sequence[Array]) -> Run:
    """Return a run whose commands have other stamps, (n,) seconds for each of its series."""
    return replace(
        run, commands=tuple(c._replace(held=c.held.retimed(times[c.series])) for c in run.commands)
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
) -> Array:
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
        if len(columns) > len(own):
            if len(series.signal_mapping) > 1:
                raise FitError(
                    f'Expected the rotation vector of {name!r} in a series of its own, found '
                    f'{listed(series.names)} in one of {sequence!r}.'
                )
            names = (name,) * len(own)
            columns = columns[: len(own)]
            return [OrientationReadings(series, own, names, source, np.array(columns), timestep)]
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
    if width != size and not (width == 3 and is_orientation(model, name)):  # noqa: PLR2004 (axes)
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
