# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How far each sensor and the arrival of commands may be trusted, from the recording alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from sysid_ros.rollout.runs import Run
from sysid_ros.signals import Trajectory

#: MAD of a normal distribution in units of its standard deviation.
MAD_OF_NORMAL = 0.6745
#: Binomial weights of the third difference, and the root of the sum of their squares: white noise
#: passes with that gain, motion that is smooth over four samples hardly at all.
_THIRD_DIFFERENCE_GAIN = float(np.sqrt(1 + 9 + 9 + 1))
_DIFFERENCE_ORDER = 3
#: A channel without any visible noise is trusted to this fraction of its range.
_SMALLEST_RELATIVE_NOISE = 1e-5
#: The same for a channel that never moves, in SI units.
_SMALLEST_NOISE = 1e-9
#: Standard deviation of a normal distribution in units of the distance of its quartiles.
_SIGMA_OF_QUARTILES = 0.7413
#: Arrivals that vary by more than this are not jitter but irregular commands, s.
_LARGEST_JITTER = 5e-4
_SMALLEST_JITTER = 1e-7
#: An encoder shows so many levels at least; each is a whole number of steps but for this part, and
#: equal levels differ by less than this part of the range.
_FEWEST_LEVELS = 8
_OFF_LEVEL = 0.05
_ROUNDING = 1e-7
#: Times that the step is found better from all levels.
_REFINEMENTS = 2


def arrival_jitter(sequences: Iterable[Trajectory]) -> float:
    """Return how much the stamps of the commands jitter, as a standard deviation in s.

    How much sooner or later than at the recorder a command arrived at the robot cannot be seen in
    a bag, but it is of the size of the jitter of the arrivals, which can: the spread of their
    intervals over √2, an interval having two ends. Evenly stamped commands have none, nor
    have those that are stamped as they came to act.
    """
    series = [
        (series, set(series.names) - sequence.interpolated - sequence.applied)
        for sequence in sequences
        for series in sequence.commands
    ]
    # What is interpolated has the stamps of whoever samples it, not of messages that act.
    intervals = [np.diff(s.times) for s, held in series for _ in held if len(s) > 1]
    if not intervals:
        return 0.0
    quarter, three_quarters = np.percentile(np.concatenate(intervals), [25, 75])
    jitter = _SIGMA_OF_QUARTILES * float(three_quarters - quarter) / float(np.sqrt(2.0))
    # Stamps are whole nanoseconds, kept as differences of floats: what is below is rounding.
    return min(jitter, _LARGEST_JITTER) if jitter > _SMALLEST_JITTER else 0.0


def estimate_noise(runs: Iterable[Run]) -> dict[str, float]:
    """Estimate each sensor's noise from the roughness of its own samples.

    The third difference of a smooth motion is small, that of white noise is not: its median
    absolute value gives the standard deviation. The quantisation step, the smallest jump between
    different neighbours, bounds it from below by step/sqrt(12).

    Returns:
        Sensor name to standard deviation, in the sensor's unit, always positive.
    """
    series: dict[str, list[NDArray[np.float64]]] = {}
    for sensor, values in measured(runs):
        series.setdefault(sensor, []).append(values)
    return {sensor: noise_of(parts) for sensor, parts in series.items()}


def noise_of(series: Iterable[NDArray[np.float64]]) -> float:
    """Estimate the noise of one sensor from (n,) samples of each of its recordings."""
    squares = [max(_roughness(values), _floor(values)) ** 2 for values in series]
    return float(np.sqrt(np.mean(squares)))


def smallest_noise(runs: Iterable[Run]) -> dict[str, float]:
    """Return how far each sensor may be trusted at most, in the sensor's unit."""
    floors: dict[str, float] = {}
    for sensor, values in measured(runs):
        floors[sensor] = max(floors.get(sensor, 0.0), _floor(values))
    return floors


def encoder_steps(runs: Iterable[Run]) -> dict[str, float]:
    """Return the step of each sensor whose readings are whole steps apart, in its unit."""
    levels: dict[str, list[NDArray[np.float64]]] = {}
    for sensor, values in measured(runs):
        levels.setdefault(sensor, []).append(np.unique(values))
    steps = {sensor: encoder_step(np.concatenate(parts)) for sensor, parts in levels.items()}
    return {sensor: step for sensor, step in steps.items() if step is not None}


def encoder_step(values: NDArray[np.float64]) -> float | None:
    """Return the step of an encoder's (n,) readings; None where they are not whole steps apart."""
    values = np.unique(values)
    if len(values) < _FEWEST_LEVELS:
        return None
    jumps = np.diff(values)
    # Readings of one level differ by rounding.
    step = float(jumps[jumps > _ROUNDING * np.ptp(values)].min(initial=np.inf))
    for _ in range(_REFINEMENTS):
        # From level to level, rounding does not add up; over all of them the step is exact.
        counts = np.concatenate([[0.0], np.cumsum(np.round(jumps / step))])
        if not counts[-1]:
            return None
        step = float(np.ptp(values)) / float(counts[-1])
    off = np.abs(values - values[0] - counts * step)
    return step if np.all(off < _OFF_LEVEL * step) else None


def measured(runs: Iterable[Run]) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Yield sensor and samples of every channel that was measured at all."""
    for run in runs:
        for readings in run.readings:
            for sensor, values in zip(readings.sensors, readings.measured.T, strict=True):
                finite = np.isfinite(values)
                if finite.any():
                    yield sensor, values[finite]


def _roughness(values: NDArray[np.float64]) -> float:
    if len(values) <= _DIFFERENCE_ORDER:
        return 0.0
    rough = np.abs(np.diff(values, _DIFFERENCE_ORDER))
    sigma = float(np.median(rough)) / MAD_OF_NORMAL / _THIRD_DIFFERENCE_GAIN
    jumps = np.abs(np.diff(values))
    jumps = jumps[jumps > 0]
    step = float(jumps.min()) if len(jumps) else 0.0
    return max(sigma, step / float(np.sqrt(12.0)))


def _floor(values: NDArray[np.float64]) -> float:
    extent = float(np.ptp(values)) if len(values) else 0.0
    return max(extent * _SMALLEST_RELATIVE_NOISE, _SMALLEST_NOISE)
