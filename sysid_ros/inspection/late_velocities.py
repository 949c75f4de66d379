# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Velocities that come late against the derivative of the positions, as from a filter of a driver.

A fit that compared them with the velocity at that instant would take the lag for inertia and
damping: a low-pass of 20 ms makes armatures several times as large.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment import Alignment
from sysid_ros.alignment.health import SECOND_NS, FindingKind, HealthFinding
from sysid_ros.alignment.initial import initial_state
from sysid_ros.alignment.pairs import PairRole
from sysid_ros.errors import listed
from sysid_ros.inspection.lag import Lag, lag
from sysid_ros.signals import TimeSeries
from sysid_ros.signals.trajectory import Trajectory

#: A velocity may be late by this part of the interval of its samples, as a difference of two
#: positions is, and by this, s, as stamps and the steps of a simulation are. It is late when it is
#: by more, for so many standard errors.
USUAL_PART = 0.5
USUAL_S = 2e-3
ERRORS = 3.0
#: So many sensors are named one by one.
_NAMED = 3


class LateVelocities(NamedTuple):
    """Velocities of one topic that are late.

    Attributes:
        topic: Where they come from.
        sensors: Theirs, to the sensor of the same joint's position.
        seconds: By how much, s.
    """

    topic: str
    sensors: dict[str, str]
    seconds: float


class _Measured(NamedTuple):
    """Of one velocity in each bag: interval of its samples, s, and lag where that is told."""

    intervals: list[float]
    lags: list[Lag]


def velocity_lag(
    position_times: NDArray[np.float64],
    positions: NDArray[np.float64],
    velocity_times: NDArray[np.float64],
    velocities: NDArray[np.float64],
) -> Lag | None:
    """Find the lag of a velocity behind the derivative of a position, s; None where none is told.

    The integral of the velocity by the trapezoidal rule, which has no lag of its own, is compared
    with the position, which takes no derivative of noise.
    """
    means = (velocities[1:] + velocities[:-1]) / 2
    integral = np.concatenate([[0.0], np.cumsum(means * np.diff(velocity_times))])
    return lag(position_times, positions, velocity_times, integral, interpolated=True)


def late_velocities(
    model: mujoco.MjModel, alignments: Iterable[Alignment], spared: Collection[str] = ()
) -> tuple[LateVelocities, ...]:
    """Find the velocities that are late in all bags together, but for sensors that are spared.

    Where a joint moves too little to tell, the topic's others speak for it.
    """
    topics: dict[str, dict[tuple[str, str], _Measured]] = defaultdict(dict)
    for alignment in alignments:
        kinds = {
            (int(model.sensor(pair.name).type[0]), int(model.sensor(pair.name).objid[0])): pair
            for pair in alignment.pairs
            if pair.role is PairRole.SENSOR
        }
        for (kind, joint), pair in kinds.items():
            position = kinds.get((int(mujoco.mjtSensor.mjSENS_JOINTPOS), joint))
            is_velocity = kind == mujoco.mjtSensor.mjSENS_JOINTVEL
            if not is_velocity or position is None or pair.name in spared:
                continue
            slow = _samples(alignment.sequences, position.name)
            fast = _samples(alignment.sequences, pair.name)
            if min(len(slow[0]), len(fast[0])) < 2:  # noqa: PLR2004 - no interval
                continue
            names = pair.name, position.name
            measured = topics[pair.topic].setdefault(names, _Measured([], []))
            measured.intervals.append(float(np.median(np.diff(fast[0]))))
            with np.errstate(over='ignore', invalid='ignore'):  # of damaged values
                found = velocity_lag(*slow, *fast)
            measured.lags.extend([found] if found else [])
    return tuple(filter(None, (_late(topic, each) for topic, each in topics.items())))


def without_late(
    alignment: Alignment, model: mujoco.MjModel, late: Iterable[LateVelocities]
) -> Alignment:
    """Leave late velocities out of what is compared, and of the states in which sequences start.

    Those stay whose positions are not compared.
    """
    compared = {n for run in alignment.sequences for each in run.measurements for n in each.names}
    lost: set[str] = set()
    findings = []
    for topic, sensors, seconds in late:
        names = [name for name, position in sensors.items() if position in compared]
        lost |= set(names)
        if names:
            detail = (
                f'{listed(names, _NAMED)} lag the derivative of the positions by '
                f'{1e3 * seconds:.1f} ms, as after a filter; they are not compared, nor used for '
                'the state at the start'
            )
            kind = FindingKind.VELOCITY_LAG
            findings.append(HealthFinding(alignment.bag, topic, kind, len(names), detail))
    if not findings:
        return alignment
    sequences = []
    for sequence, begin in zip(alignment.sequences, alignment.begins, strict=True):
        start = initial_state(model, only(begin, lambda name: name not in lost))
        measurements = only(sequence.measurements, lambda name: name not in lost)
        sequences.append(
            dataclasses.replace(
                sequence,
                initial_qpos=start.qpos,
                initial_qvel=start.qvel,
                measurements=measurements,
            )
        )
    health = (*alignment.health, *findings)
    return dataclasses.replace(alignment, sequences=tuple(sequences), health=health)


def only(measurements: Iterable[TimeSeries], keep: Callable[[str], bool]) -> tuple[TimeSeries, ...]:
    """Return series with the sensors that are kept, those that have any."""
    return tuple(
        TimeSeries(series.times, series.data, kept)
        for series in measurements
        if (kept := {n: entry for n, entry in series.signal_mapping.items() if keep(n)})
    )


def usual(interval: float) -> float:
    """Return by how much a velocity may be late that comes from no filter, s."""
    return USUAL_PART * interval + USUAL_S


def _late(topic: str, each: Mapping[tuple[str, str], _Measured]) -> LateVelocities | None:
    together = _mean([found for item in each.values() for found in item.lags])
    sensors, lags = {}, []
    for (sensor, position), item in each.items():
        alone, limit = _mean(item.lags), usual(max(item.intervals))
        surely = alone[0] - ERRORS * alone[1] > limit
        surely_not = alone[0] + ERRORS * alone[1] <= limit
        if surely or (not surely_not and together[0] - ERRORS * together[1] > limit):
            sensors[sensor] = position
            lags += item.lags
    return LateVelocities(topic, sensors, _mean(lags)[0]) if sensors else None


def _mean(lags: Sequence[Lag]) -> tuple[float, float]:
    """Return the weighted mean of lags and its standard error, s, NaN where there are none.

    The error is that of their scatter where it is more than their own say (Birge, Phys. Rev. 40,
    1932).
    """
    if not lags:
        return np.nan, np.nan
    seconds, deviations, *_ = np.array(lags).T
    weights = np.maximum(deviations, np.finfo(float).eps) ** -2.0
    mean = float(weights @ seconds / weights.sum())
    error = float(weights.sum() ** -0.5)
    if len(lags) > 1:
        scatter = float(weights @ (seconds - mean) ** 2 / (len(lags) - 1))
        error *= max(scatter, 1.0) ** 0.5
    return mean, error


def _samples(
    sequences: Sequence[Trajectory], sensor: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return all times of a sensor, s from the first, and its values."""
    times, values = [np.empty(0)], [np.empty(0)]
    end = -np.inf
    for sequence in sequences:
        shift = (sequence.origin_ns - sequences[0].origin_ns) / SECOND_NS
        for series in sequence.measurements:
            if sensor not in series.signal_mapping or shift + series.times[0] <= end:
                continue  # after a clock was set back
            found = series.get(sensor)[:, 0]
            kept = np.isfinite(found)
            times.append(shift + series.times[kept])
            values.append(found[kept])
            end = shift + series.times[-1]
    return np.concatenate(times), np.concatenate(values)
