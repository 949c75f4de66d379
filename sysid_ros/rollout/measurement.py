# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What lies between the state of the model and the number in the recording: gain, bias, delay.

The residual of a sample y at time t is ``(g_m y + b_m) − (g_p p(t − d) + b_p)``, where p is what
the model's sensor says. Its derivatives by gains, biases and delay follow from one simulation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.model.targets import Role
from sysid_ros.model.unknown import Unknown
from sysid_ros.signals import TimeSeries

#: Instants this close to each other are the same, s: stamps are whole nanoseconds.
ON_STEP = 1e-9
#: What is smaller, relative to its kind, is a rounding error.
ROUNDING = 1e-9
#: The recorded field that holds what the model's sensors say.
SENSORS = 'sensordata'


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
    """Where samples lie between the rows of a simulation.

    Attributes:
        rows: (n,) row at or before each sample; (n, k) for columns with times of their own.
        weights: (n, 1) or (n, k) share of the row after it; None where every sample is on a row.
    """

    rows: NDArray[np.int64]
    weights: NDArray[np.float64] | None = None

    def __call__(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Evaluate (…, steps, k) rows at the (…, n, k) samples; (steps, k) for columns apart."""
        if self.weights is None:
            return values[..., self.rows, :]
        if self.rows.ndim > 1:
            before = np.take_along_axis(values, self.rows, axis=0)
            after = np.take_along_axis(values, self.rows + 1, axis=0)
        else:
            before, after = values[..., self.rows, :], values[..., self.rows + 1, :]
        result: NDArray[np.float64] = before + self.weights * (after - before)
        return result

    def slopes(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
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


def lookup(times: NDArray[np.float64], timestep: float) -> Lookup:
    """Find samples at (n,) times, or (n, k) of columns apart, s; row k is at ``k * timestep``."""
    position = np.maximum(times / timestep, 0.0)
    near = np.rint(position)
    position = np.where(np.abs(position - near) * timestep <= ON_STEP, near, position)
    rows = np.floor(position).astype(np.int64)
    weights: NDArray[np.float64] = position - rows
    if rows.ndim > 1:
        return Lookup(rows, weights)
    return Lookup(rows, weights[:, None] if np.any(weights) else None)


def _selection(columns: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """Return columns as a slice where they are consecutive: what it selects is not copied."""
    if not len(columns) or np.any(np.diff(columns) != 1):
        return columns
    return slice(int(columns[0]), int(columns[-1]) + 1)


@dataclass(frozen=True)
class Readings:
    """A measured series, where a simulation has the same, and the laws between the two.

    Attributes:
        series: What was measured; its samples are not copied.
        own: (k,) columns of the series that are read from the same recorded field.
        sensors: (k,) name of the signal that each of them belongs to.
        source: Recorded field: ``sensordata``, ``qpos``, ``qvel`` or ``act``.
        columns: (k,) columns of that field.
        timestep: Of the simulation, seconds.
        laws: (k,) law of each column, once they are known: see `under`.
        held: Recorded field with (n, k) values that are added at the samples, if it is there: what
            commands that are held make of forces.
        measured: (n, k) values of the columns.
        at_stamps: Evaluates rows of a simulation at the measured stamps.
    """

    series: TimeSeries
    own: NDArray[np.int64]
    sensors: tuple[str, ...]
    source: str
    columns: NDArray[np.int64]
    timestep: float
    laws: tuple[MeasurementModel, ...] = ()
    held: str = ''
    measured: NDArray[np.float64] = field(init=False, repr=False)
    at_stamps: Lookup = field(init=False, repr=False)
    _columns: NDArray[np.int64] | slice = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, 'measured', self.series.data[:, _selection(self.own)])
        object.__setattr__(self, 'at_stamps', lookup(self.times, self.timestep))
        object.__setattr__(self, '_columns', _selection(self.columns))

    @property
    def times(self) -> NDArray[np.float64]:
        """(n,) seconds from the start of the sequence."""
        return self.series.times

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

    def values(self, rows: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the (…, steps, k) rows of the columns, from (…, steps, width) of their field."""
        return rows[self.source][..., self._columns]

    def simulated(self, rows: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the (m, n, k) values that (m, steps, width) rows have at the measured stamps.

        Row k describes the state at ``k * timestep``. No law acts on them.
        """
        return self._with_held(self.at_stamps(self.values(rows)), rows)

    def _with_held(
        self, values: NDArray[np.float64], rows: Mapping[str, NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        return values + rows[self.held] if self.held in rows else values

    def predicted(
        self, rows: Mapping[str, NDArray[np.float64]], x: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the (n, k) readings that a (p,) candidate predicts; rows are (steps, width)."""
        return self._state(rows, x)[0] * self._product(x, 'gains') + self._sum(x, 'biases')

    def residual(
        self, rows: Mapping[str, NDArray[np.float64]], x: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the (n, k) measured minus predicted readings of a (p,) candidate."""
        state, _ = self._state(rows, x)
        if not self.lawful:
            return self.measured - state
        found: NDArray[np.float64] = (
            self.measured * self._product(x, 'measured_gains')
            + self._sum(x, 'measured_biases')
            - state * self._product(x, 'gains')
            - self._sum(x, 'biases')
        )
        return found

    def derivatives(
        self,
        rows: Mapping[str, NDArray[np.float64]],
        x: NDArray[np.float64],
        scale: NDArray[np.float64],
    ) -> dict[int, NDArray[np.float64]]:
        """Return columns of a (p,) candidate and the (n, k) derivatives of residuals by them.

        Residuals are multiplied by (k,) scales.
        """
        state, slope = self._state(rows, x, slopes=True)
        found: dict[int, NDArray[np.float64]] = {}
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

    def _factors(self, x: NDArray[np.float64]) -> Iterator[tuple[int, int, float, str]]:
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

    def _product(self, x: NDArray[np.float64], what: str) -> NDArray[np.float64]:
        return np.array([np.prod(x[list(getattr(law, what))]) for law in self.laws])

    def _sum(self, x: NDArray[np.float64], what: str) -> NDArray[np.float64]:
        return np.array([np.sum(x[list(getattr(law, what))]) for law in self.laws])

    def _state(
        self,
        rows: Mapping[str, NDArray[np.float64]],
        x: NDArray[np.float64],
        *,
        slopes: bool = False,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the (n, k) values at the times that the readings describe, and their slopes."""
        delays = np.array([0.0 if law.delay is None else x[law.delay] for law in self.laws])
        delayed = any(law.delay is not None for law in self.laws)
        if not delays.any() and not (slopes and delayed):
            return np.array(self.simulated(rows)), np.empty((0, 0))
        values = self.values(rows)
        common = np.all(delays == delays[0])
        times = self.times - delays[0] if common else self.times[:, None] - delays
        # Never beyond the last row: what lies there is not compared.
        at = lookup(np.minimum(times, (len(values) - 2) * self.timestep), self.timestep)
        state = np.array(self._with_held(at(values), rows))
        if not slopes:
            return state, np.empty((0, 0))
        return state, at.slopes(values) / self.timestep
