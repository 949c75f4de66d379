# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What lies between the state of the model and the number in the recording: gain, bias, delay.

With gains g, biases b and the delay d of a channel, the residual of a sample y at time t is
``w · ((g_m y + b_m) − (g_p p(t − d) + b_p)) / σ``, where p is what the model's sensor says. Its
derivatives by all of them follow from one simulation.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.model.targets import Role
from sysid_ros.rollout.runs import lookup, lookup_each

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.model.unknown import Unknown
    from sysid_ros.rollout.runs import Channels, Lookup, LookupEach


@dataclass(frozen=True)
class MeasurementModel:
    """Columns of a candidate that act on one sensor's reading.

    Attributes:
        gains: The prediction is multiplied by all of them, …
        biases: … and all of these are added.
        measured_gains: The measurement is multiplied by all of them, …
        measured_biases: … and all of these are added.
        delay: Seconds by which a reading describes an earlier state.
    """

    gains: tuple[int, ...] = ()
    biases: tuple[int, ...] = ()
    measured_gains: tuple[int, ...] = ()
    measured_biases: tuple[int, ...] = ()
    delay: int | None = None

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


def models_along(
    models: Mapping[Signal, MeasurementModel], sensors: Sequence[str]
) -> tuple[MeasurementModel, ...]:
    """Return the model of each of (k,) columns, those of one sensor in the order of its axes."""
    return tuple(
        combined(
            models.get(sensor, MeasurementModel()),
            models.get((sensor, sensors[:column].count(sensor)), MeasurementModel()),
        )
        for column, sensor in enumerate(sensors)
    )


class Reading(NamedTuple):
    """One candidate's residuals of one series, and their derivatives.

    Attributes:
        residual: (n, k), dimensionless.
        derivatives: Column of the candidate to the (n, k) derivative by its value.
    """

    residual: NDArray[np.float64]
    derivatives: dict[int, NDArray[np.float64]]


@dataclass(frozen=True)
class Readings:
    """The laws of the channels of one measured series.

    Attributes:
        channels: The series.
        laws: (k,) law of each column.
    """

    channels: Channels
    laws: tuple[MeasurementModel, ...]
    delayed: tuple[int, ...] = field(init=False)
    lawful: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, 'lawful', bool(self.columns))
        delayed = tuple(k for k, law in enumerate(self.laws) if law.delay is not None)
        object.__setattr__(self, 'delayed', delayed)

    @property
    def columns(self) -> set[int]:
        """All columns of a candidate that act on the series."""
        return set().union(*(law.columns for law in self.laws))

    def predicted(
        self, rows: Mapping[str, NDArray[np.float64]], x: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the (n, k) readings that a candidate predicts.

        Args:
            rows: Recorded field to (steps, width).
            x: (p,) candidate.
        """
        state, _ = self._state(rows, x)
        return state * self._product(x, 'gains') + self._sum(x, 'biases')

    def evaluate(
        self,
        rows: Mapping[str, NDArray[np.float64]],
        x: NDArray[np.float64],
        scale: NDArray[np.float64],
        *,
        derivatives: bool = False,
        shift: float = 0.0,
    ) -> Reading:
        """Evaluate one candidate.

        Args:
            rows: Recorded field to (steps, width); row k describes the state at ``k * timestep``.
            x: (p,) candidate.
            scale: (k,) what residuals are multiplied by.
            derivatives: Whether to differentiate, too.
            shift: Seconds by which the measurements are moved to later stamps.
        """
        if not self.lawful:
            state, _ = self._state(rows, x, shift=shift)
            return Reading(scale * (self.channels.measured - state), {})
        state, slope = self._state(rows, x, slopes=derivatives, shift=shift)
        gain, measured_gain = self._product(x, 'gains'), self._product(x, 'measured_gains')
        measured = self.channels.measured
        residual = scale * (
            measured * measured_gain
            + self._sum(x, 'measured_biases')
            - state * gain
            - self._sum(x, 'biases')
        )
        found: dict[int, NDArray[np.float64]] = {}
        for column, k, factor, what in self._factors(x) if derivatives else ():
            if what == 'state':
                change = -state[:, k]
            elif what == 'measured':
                change = measured[:, k]
            else:
                change = slope[:, k] if what == 'slope' else np.ones(len(state))
            into = found.setdefault(column, np.zeros_like(residual))
            into[:, k] += scale[k] * factor * change
        return Reading(residual, found)

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
        shift: float = 0.0,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the (n, k) values at the times that the readings describe, and their slopes."""
        channels = self.channels
        delays = np.array([0.0 if law.delay is None else x[law.delay] for law in self.laws]) - shift
        if not delays.any() and not (slopes and self.delayed):
            return np.array(channels.predict(rows)), np.empty((0, 0))
        values = channels.values(rows)
        # Never beyond the last row: what lies there is not compared.
        end = (len(values) - 2) * channels.timestep
        if np.all(delays == delays[0]):
            times = np.minimum(channels.times - delays[0], end)
            at: Lookup | LookupEach = lookup(times, channels.timestep)
        else:
            times = np.minimum(channels.times[:, None] - delays, end)
            at = lookup_each(times, channels.timestep)
        state = np.array(at(values))
        if not slopes:
            return state, np.empty((0, 0))
        return state, at(np.gradient(values, channels.timestep, axis=0))
