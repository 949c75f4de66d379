# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which measured samples count, and where their residuals are in the vector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import FitError
from sysid_ros.estimation.noise import measured
from sysid_ros.model.units import reads_force
from sysid_ros.model.unknown import Unknown
from sysid_ros.rollout.measurement import MeasurementModel, Readings, Signal
from sysid_ros.rollout.runs import Run
from sysid_ros.rollout.simulation import Simulator

#: In place of a sensor's index: the residual is not of a measurement but of a prior.
PRIOR = -1
#: The same for how much later than its stamp a command arrived.
ARRIVAL = -2
#: Stamps this much apart are the same instant, s.
_SAME_INSTANT = 1e-9


@dataclass(frozen=True)
class Samples:
    """Which measured samples the residual vector holds, in its order.

    Attributes:
        sequence: (n,) index of the sequence; for the prior of what belongs to one sequence, that.
        time: (n,) seconds from the sequence's start.
        sensor: (n,) index into ``sensors``; ``PRIOR`` or ``ARRIVAL``, below 0, for what is not a
            measurement.
        sensors: Names of the sensors.
        variance: (n,) what is expected of the square of a residual that is not of a measurement;
            None where that is 1 for each.
        bags: For each sequence, the recording that it is from; empty where each is one.
        taken: For each sensor, the part of its residuals' squares that unknown errors of arrival
            have taken; None for nothing.
        encoder_steps: Sensor to the step of its encoder, in units of its noise; empty where they
            are not known.
        forces: Whether one of the sensors reads forces or torques.
    """

    sequence: NDArray[np.int64]
    time: NDArray[np.float64]
    sensor: NDArray[np.int64]
    sensors: tuple[str, ...]
    variance: NDArray[np.float64] | None = None
    bags: tuple[str, ...] = ()
    taken: NDArray[np.float64] | None = None
    encoder_steps: Mapping[str, float] = field(default_factory=dict)
    forces: bool = False


@dataclass
class Compared:
    """Which readings of a series are compared, and where their residuals are.

    Attributes:
        readings: What was measured, and what a simulation says instead.
        mask: (n, k) whether a sample counts.
        rows: Where the residuals are.
        scale: (k,) what residuals are multiplied by.
        limit: (k,) their largest size.
    """

    readings: Readings
    mask: NDArray[np.bool_]
    rows: slice
    scale: NDArray[np.float64]
    limit: NDArray[np.float64]

    def picked(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (…, counted) samples of (…, n, k) values."""
        if self.mask.all():
            return values.reshape(*values.shape[:-2], -1)
        return values[..., self.mask]


@dataclass(frozen=True)
class Part:
    """One sequence: its index, its simulator, its index there, and what is compared of it."""

    index: int
    simulator: int
    run: int
    compared: list[Compared]


def lay_out(
    simulators: Sequence[Simulator],
    laws: Mapping[Signal, MeasurementModel],
    unknowns: Sequence[Unknown],
    counts: Sequence[Callable[[str], bool]],
    dead: Sequence[str],
) -> list[Part]:
    """Decide which samples count: measured, of a sensor that moves, and simulated at any delay.

    Args:
        simulators: What predicts, one per model.
        laws: Sensor, or axis of one, to the columns that act on its reading.
        unknowns: What the columns are.
        counts: Per simulator, whether a sensor counts.
        dead: Sensors that never move.
    """
    parts: list[Part] = []
    place = 0
    for index, simulator in enumerate(simulators):
        for number, run in enumerate(simulator.runs):
            part = Part(len(parts), index, number, [])
            for bare in run.readings:
                readings = bare.under(laws)
                live = [counts[index](s) and s not in dead for s in readings.sensors]
                mask = np.isfinite(readings.measured) & np.array(live, dtype=bool)
                mask &= _inside(readings, run, unknowns)
                rows = slice(place, place + int(mask.sum()))
                place = rows.stop
                ones = np.ones(len(live))
                part.compared.append(Compared(readings, mask, rows, ones, ones))
            parts.append(part)
    return parts


def samples_of(
    simulators: Sequence[Simulator],
    parts: Sequence[Part],
    owners: NDArray[np.int64],
    dead: Sequence[str],
    variance: NDArray[np.float64],
    bags: tuple[str, ...] = (),
) -> Samples:
    """Say what each residual is.

    Args:
        simulators: What predicts, one per model.
        parts: The sequences, laid out.
        owners: (r,) for each residual of a prior, the sequence that it belongs to.
        dead: Sensors that are left out because they never move.
        variance: (r,) what is expected of the square of each residual of a prior.
        bags: For each sequence, the recording that it is from.

    Raises:
        FitError: No sample counts.
    """
    every = [(part.index, compared) for part in parts for compared in part.compared]
    sensors = sorted(
        {
            sensor
            for _, compared in every
            for sensor, used in zip(
                compared.readings.sensors, np.atleast_1d(compared.mask.any(axis=0)), strict=True
            )
            if used
        }
    )
    if not sensors:
        never = f' (never moving: {", ".join(dead)})' if dead else ''
        raise FitError(f'Nothing to fit: {len(parts)} sequences without a measured sample{never}.')
    ids = {sensor: number for number, sensor in enumerate(sensors)}
    sequence, time, sensor = [], [], []
    for index, compared in every:
        readings, mask = compared.readings, compared.mask
        own = np.array([ids.get(name, PRIOR) for name in readings.sensors])
        sequence.append(np.full(int(mask.sum()), index))
        time.append(np.broadcast_to(readings.times[:, None], mask.shape)[mask])
        sensor.append(np.broadcast_to(own, mask.shape)[mask])
    measurements = sum(len(times) for times in time)
    return Samples(
        np.concatenate([*sequence, owners]),
        np.concatenate([*time, np.zeros(len(owners))]),
        np.concatenate([*sensor, np.full(len(owners), PRIOR)]),
        tuple(sensors),
        np.concatenate([np.ones(measurements), variance]),
        bags,
        forces=any(reads_force(simulator.model, s) for simulator in simulators for s in sensors),
    )


def dead_sensors(runs: Iterable[Run]) -> tuple[str, ...]:
    """Return the sensors of which every sample is the same in all sequences."""
    seen: dict[str, tuple[float, float]] = {}
    for sensor, values in measured(runs):
        low, high = seen.get(sensor, (np.inf, -np.inf))
        seen[sensor] = (min(low, float(values.min())), max(high, float(values.max())))
    return tuple(sorted(sensor for sensor, (low, high) in seen.items() if low == high))


def _inside(readings: Readings, run: Run, unknowns: Sequence[Unknown]) -> NDArray[np.bool_]:
    """Return (n, k) whether a reading describes a simulated state at any allowed delay."""
    end = (run.steps - 1) * run.timestep
    inside = np.ones(readings.measured.shape, dtype=bool)
    for k, law in enumerate(readings.laws):
        if law.delay is not None:
            unknown = unknowns[law.delay]
            inside[:, k] = readings.times >= unknown.max_value - _SAME_INSTANT
            inside[:, k] &= readings.times <= end + unknown.min_value + _SAME_INSTANT
    return inside
