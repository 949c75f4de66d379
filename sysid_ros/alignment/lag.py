# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How far a response lags behind its command, and a velocity behind its position.

The lag is the shift in time with which the command, holding until the next one, correlates best
with the response, both as velocities in the band that both show (Knapp and Carter, IEEE Trans.
ASSP 24(4), 1976, with that band as the weight). That commands come seldom adds nothing to it. What
a servo needs to follow is in it: only a model can tell transport from dynamics, and a calibration
with ``actuator/*/delay`` among its parameters does.

Velocities come late against the derivative of the positions as from a filter of a driver. A fit
that compared them with the velocity at that instant would take the lag for inertia and damping: a
low-pass of 20 ms makes armatures several times as large.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import scipy
from numpy.typing import NDArray

from sysid_ros.alignment import Alignment
from sysid_ros.alignment.health import (
    ERRORS,
    MANY,
    MOST,
    RESPONSE_S,
    FindingKind,
    HealthFinding,
    away_from_gaps,
)
from sysid_ros.alignment.pairs import PairRole
from sysid_ros.alignment.segments import initial_state
from sysid_ros.errors import listed
from sysid_ros.signals import TimeSeries, Trajectory
from sysid_ros.vocabulary import SECOND_NS

#: How finely lags are looked for at first, s.
_SCAN_S = 0.01
#: Of longer recordings, so many instants or samples are looked at.
MOST_SAMPLES = 200_000
#: Corner of the low-pass filter, Hz, at most this part of the response's rate.
_CORNER_HZ, _CORNER_PART = 20.0, 0.2
#: A lag is reported when its standard deviation is below this, s.
_KNOWN_S = 0.02
#: Stamps and the steps of a simulation make a velocity late by as much as this, s.
_USUAL_S = 2e-3


class Lag(NamedTuple):
    """A lag of a response behind its command and its standard deviation, s.

    There, the two velocities have a correlation, and the response a gain as its slope by the
    command.
    """

    seconds: float
    deviation: float
    correlation: float
    gain: float


def lag(
    command_times: NDArray[np.float64],
    command: NDArray[np.float64],
    response_times: NDArray[np.float64],
    response: NDArray[np.float64],
    *,
    interpolated: bool = False,
) -> Lag | None:
    """Find the lag of a response behind its command.

    The (m,) and (n,) times, s, of one clock increase strictly. The command holds, or is
    interpolated from stamp to stamp. The lag is None where the recording is too short, still or
    unlike its command to tell.
    """
    if len(command_times) < 2 or len(response_times) < 2:  # noqa: PLR2004 (no interval)
        return None
    period = float(np.median(np.diff(response_times)))
    first = float(max(response_times[0], command_times[0]))
    last = float(response_times[-1])
    step = max(period / 2, (last - first) / MOST_SAMPLES)
    corner = min(_CORNER_HZ, _CORNER_PART / period)
    if 2 * corner * step >= 1:  # a gap of hours leaves no room for samples of the motion
        return None
    grid = np.arange(first, last, step)
    reach, margin = round(RESPONSE_S / step) + 1, round(1 / corner / step) + 1
    if (len(grid) - reach - 2 * margin) * step * corner < MANY:
        return None
    if interpolated:
        acting = np.interp(grid, command_times, command)
    else:
        acting = command[np.searchsorted(command_times, grid, side='right') - 1]
    moved = np.interp(grid, response_times, response)
    # Their slopes, smoothed without a shift in time.
    low = scipy.signal.butter(2, 2 * corner * step, output='sos')
    asked, given = (
        np.gradient(scipy.signal.sosfiltfilt(low, values - values[0]), step)
        for values in (acting, moved)
    )
    usable = away_from_gaps(grid, response_times, 1 / corner)
    usable[: reach + margin] = usable[len(grid) - margin :] = False
    instants = np.flatnonzero(usable).astype(np.float64)
    if len(instants) < MANY:
        return None
    given_there = given[usable]
    rows = np.arange(len(grid), dtype=np.float64)

    def fit(seconds: float) -> tuple[float, float]:
        """Return correlation and gain with a lag."""
        shifted = np.interp(instants - seconds / step, rows, asked)
        power = float(shifted @ shifted)
        along = float(shifted @ given_there)
        size = math.sqrt(power * float(given_there @ given_there))
        return (along / size, along / power) if size > 0 else (0.0, 0.0)

    scan = np.arange(0.0, RESPONSE_S, _SCAN_S)
    squares = np.array([fit(seconds)[0] ** 2 for seconds in scan])
    place = int(np.argmax(squares))
    if squares[place] < MOST or place == len(scan) - 1:
        return None
    bounds = (max(scan[place] - _SCAN_S, 0.0), scan[place] + _SCAN_S)
    found = scipy.optimize.minimize_scalar(
        lambda seconds: -(fit(seconds)[0] ** 2),
        bounds=bounds,
        method='bounded',
        options={'xatol': 1e-6},
    )
    best = float(found.x)
    correlation, gain = fit(best)
    sides = (fit(best - _SCAN_S)[0] ** 2 + fit(best + _SCAN_S)[0] ** 2) / 2
    bend = 2 * (correlation**2 - sides) / _SCAN_S**2
    # 1 - correlation² is to its least value as chi-square is to its degrees of freedom, of which
    # a band-limited signal has two for each period of its corner.
    freedom = max(2 * corner * len(instants) * step, 1.0)
    deviation = math.sqrt(2 * (1 - correlation**2) / freedom / bend) if bend > 0 else math.inf
    return Lag(best, deviation, correlation, gain) if deviation < _KNOWN_S else None


class LateVelocities(NamedTuple):
    """Velocity sensors of one topic, to those of their positions, and by how much they lag, s."""

    topic: str
    sensors: dict[str, str]
    seconds: float


#: Of one velocity in each bag: intervals of its samples, s, and lags where these show.
_Measured = tuple[list[float], list[Lag]]


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
            intervals, lags = topics[pair.topic].setdefault(names, ([], []))
            intervals.append(float(np.median(np.diff(fast[0]))))
            with np.errstate(over='ignore', invalid='ignore'):  # of damaged values
                found = velocity_lag(*slow, *fast)
            lags.extend([found] if found else [])
    return tuple(filter(None, (_late(topic, each) for topic, each in topics.items())))


def without_late(
    alignment: Alignment, model: mujoco.MjModel, late: Iterable[LateVelocities]
) -> Alignment:
    """Leave out late velocities whose positions are compared, also from the initial states."""
    compared = {n for run in alignment.sequences for each in run.measurements for n in each.names}
    lost: set[str] = set()
    findings = []
    for topic, sensors, seconds in late:
        names = [name for name, position in sensors.items() if position in compared]
        lost |= set(names)
        if names:
            detail = (
                f'{listed(names)} lag the derivative of the positions by '
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
        kept = only(sequence.measurements, lambda name: name not in lost)
        sequences.append(
            dataclasses.replace(
                sequence, initial_qpos=start.qpos, initial_qvel=start.qvel, measurements=kept
            )
        )
    health = (*alignment.health, *findings)
    return dataclasses.replace(alignment, sequences=tuple(sequences), health=health)


def only(measurements: Iterable[TimeSeries], keep: Callable[[str], bool]) -> tuple[TimeSeries, ...]:
    """Return series with the columns of the sensors that are kept, those that have any."""
    found = []
    for series in measurements:
        kept = {name: entry for name, entry in series.signal_mapping.items() if keep(name)}
        if kept:
            columns = [own for _, own in kept.values()]
            places = np.split(np.arange(sum(map(len, columns))), np.cumsum([*map(len, columns)]))
            mapping = {name: (kept[name][0], at) for name, at in zip(kept, places, strict=False)}
            data = series.matrix[:, np.concatenate(columns)]
            found.append(TimeSeries(series.times, data, mapping))
    return tuple(found)


def usual(interval: float) -> float:
    """Return by how much a velocity, a difference of two positions, is late without a filter, s."""
    return interval / 2 + _USUAL_S


def _late(topic: str, each: Mapping[tuple[str, str], _Measured]) -> LateVelocities | None:
    together = _mean([found for _, own in each.values() for found in own])
    sensors, lags = {}, []
    for (sensor, position), (intervals, own) in each.items():
        alone, limit = _mean(own), usual(max(intervals))
        surely = alone[0] - ERRORS * alone[1] > limit
        surely_not = alone[0] + ERRORS * alone[1] <= limit
        if surely or (not surely_not and together[0] - ERRORS * together[1] > limit):
            sensors[sensor] = position
            lags += own
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
