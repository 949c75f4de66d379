# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Predicted minus measured, in units of each sensor's noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.errors import FitError
from sysid_ros.identification.unknown import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from sysid_ros.identification.simulation import Channels, Prediction, Simulator

#: Residual of every sample of a diverged simulation, in units of the noise: above what any stable
#: candidate gives, and finite, so that the solver steps back. At least so much, …
DIVERGED = 1e4
#: … and at least so many times the range of the channel, or so many SI units where it moved less.
#: No residual is larger, or diverging would look better than being wrong.
_DIVERGED_RANGES = 10.0
#: MAD of a normal distribution in units of its standard deviation.
_MAD_OF_NORMAL = 0.6745
#: Binomial weights of the third difference, and the root of the sum of their squares: white noise
#: passes with that gain, motion that is smooth over four samples hardly at all.
_THIRD_DIFFERENCE_GAIN = float(np.sqrt(1 + 9 + 9 + 1))
_DIFFERENCE_ORDER = 3
#: A channel without any visible noise is trusted to this fraction of its range.
_SMALLEST_RELATIVE_NOISE = 1e-5
#: The same for a channel that never moves, in SI units.
_SMALLEST_NOISE = 1e-9


#: In place of a sensor's index: the residual is not of a measurement but of an offset.
OFFSET = -1
#: Farther than this no command is moved, s. (It also sets the step of the differences.)
_OFFSET_BOUND = 0.025
#: Standard deviation of a normal distribution in units of the distance of its quartiles.
_SIGMA_OF_QUARTILES = 0.7413
#: Arrivals that vary by more than this are not jitter but irregular commands, s.
_LARGEST_JITTER = 5e-4
_SMALLEST_JITTER = 1e-7


@dataclass(frozen=True)
class Samples:
    """Which measured samples the residual vector holds, in its order.

    Attributes:
        sequence: (n,) index of the sequence.
        time: (n,) seconds from the sequence's start.
        sensor: (n,) index into ``sensors``; ``OFFSET`` for the offset of a sequence.
        sensors: Names of the sensors.
    """

    sequence: NDArray[np.int64]
    time: NDArray[np.float64]
    sensor: NDArray[np.int64]
    sensors: tuple[str, ...]


def arrival_jitter(simulator: Simulator) -> float:
    """Return how much the stamps of the commands jitter, as a standard deviation in s.

    How much sooner or later than at the recorder a command arrived at the robot cannot be seen in
    a bag, but it is of the size of the jitter of the arrivals, which can: the spread of their
    intervals over √2, an interval having two ends. Evenly stamped commands have none.
    """
    series = [c.times for run in simulator.runs for c in run.commands if c is not None]
    intervals = [np.diff(times) for times in series if len(times) > 1]
    if not intervals:
        return 0.0
    quarter, three_quarters = np.percentile(np.concatenate(intervals), [25, 75])
    jitter = _SIGMA_OF_QUARTILES * float(three_quarters - quarter) / float(np.sqrt(2.0))
    # Stamps are whole nanoseconds, kept as differences of floats: what is below is rounding.
    return min(jitter, _LARGEST_JITTER) if jitter > _SMALLEST_JITTER else 0.0


def estimate_noise(simulator: Simulator) -> dict[str, float]:
    """Estimate each sensor's noise from the roughness of its own samples.

    The third difference of a smooth motion is small, that of white noise is not: its median
    absolute value gives the standard deviation. The quantisation step, the smallest jump between
    different neighbours, bounds it from below by step/sqrt(12).

    Returns:
        Sensor name to standard deviation, in the sensor's unit, always positive.
    """
    squares: dict[str, list[float]] = {}
    for sensor, values in _measured(simulator):
        squares.setdefault(sensor, []).append(max(_roughness(values), _floor(values)) ** 2)
    return {sensor: float(np.sqrt(np.mean(values))) for sensor, values in squares.items()}


def smallest_noise(simulator: Simulator) -> dict[str, float]:
    """Return how far each sensor may be trusted at most, in the sensor's unit."""
    floors: dict[str, float] = {}
    for sensor, values in _measured(simulator):
        floors[sensor] = max(floors.get(sensor, 0.0), _floor(values))
    return floors


def _measured(simulator: Simulator) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Yield sensor and samples of every channel that was measured at all."""
    for run in simulator.runs:
        for channels in run.channels:
            for column, sensor in enumerate(channels.sensors):
                values = channels.measured[:, column]
                finite = np.isfinite(values)
                if finite.any():
                    yield sensor, values[finite]


def _roughness(values: NDArray[np.float64]) -> float:
    if len(values) <= _DIFFERENCE_ORDER:
        return 0.0
    rough = np.abs(np.diff(values, _DIFFERENCE_ORDER))
    sigma = float(np.median(rough)) / _MAD_OF_NORMAL / _THIRD_DIFFERENCE_GAIN
    jumps = np.abs(np.diff(values))
    jumps = jumps[jumps > 0]
    step = float(jumps.min()) if len(jumps) else 0.0
    return max(sigma, step / float(np.sqrt(12.0)))


def _floor(values: NDArray[np.float64]) -> float:
    extent = float(np.ptp(values)) if len(values) else 0.0
    return max(extent * _SMALLEST_RELATIVE_NOISE, _SMALLEST_NOISE)


class Residuals:
    """The residual vector of a set of sequences as a function of the candidates.

    Samples that were not measured (NaN) are left out; the vector's length does not depend on the
    candidate.

    Commands that are stamped on arrival reach robot and recorder at slightly different moments,
    earlier or later by another amount in every recording. Where their arrivals jitter, each
    sequence therefore has an unknown offset of its own, which the size of the jitter keeps near
    zero: its residual is offset / jitter. Left out, a common delay that fits no sequence would
    bend the other parameters.

    Attributes:
        simulator: What predicts.
        noise: Sensor name to the standard deviation that its residuals are divided by.
        samples: What each residual is.
        diverged: How many simulations became unstable so far.
        jitter: Standard deviation of the arrival of commands, s; 0 when their stamps are regular.
        offsets: The unknown offsets, one per sequence, or none without jitter.
        unstable: (m,) whether each candidate of the last call became unstable on some sequence.
    """

    def __init__(self, simulator: Simulator, noise: Mapping[str, float]) -> None:
        """Lay out the residual vector.

        Args:
            simulator: What predicts.
            noise: Sensor name to the standard deviation that its residuals are divided by.

        Raises:
            FitError: No sequence holds a measured sample.
        """
        self.simulator = simulator
        self.diverged = 0
        self.unstable = np.zeros(0, dtype=bool)
        self._valid = [
            [np.isfinite(channels.measured) for channels in run.channels] for run in simulator.runs
        ]
        self.jitter = arrival_jitter(simulator)
        self.offsets = tuple(
            Unknown(
                f'arrival offset in {run.sequence.name}', (), 0.0, -_OFFSET_BOUND, _OFFSET_BOUND
            )
            for run in (simulator.runs if self.jitter else ())
        )
        self.samples = self._layout()
        self._extents = dict.fromkeys(self.samples.sensors, 1.0)
        for sensor, values in _measured(simulator):
            self._extents[sensor] = max(self._extents[sensor], float(np.ptp(values)))
        self.set_noise(noise)

    def set_noise(self, noise: Mapping[str, float]) -> None:
        """Change the scales, sensor name to standard deviation in the sensor's unit."""
        self.noise = dict(noise)
        # What was never measured has no noise; its samples are left out.
        scales = {sensor: noise[sensor] for sensor in self.samples.sensors}
        limits = {
            sensor: max(DIVERGED, _DIVERGED_RANGES * self._extents[sensor] / sigma)
            for sensor, sigma in scales.items()
        }
        self._scales = self._per_channel(scales)
        self._limits = self._per_channel(limits)

    def _per_channel(self, values: Mapping[str, float]) -> list[list[NDArray[np.float64]]]:
        return [
            [np.array([values.get(sensor, 1.0) for sensor in c.sensors]) for c in run.channels]
            for run in self.simulator.runs
        ]

    def __call__(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (n, m) residuals of (m, p + number of offsets) candidates, dimensionless."""
        offsets = None
        if self.offsets:
            candidates, offsets = np.split(candidates, [-len(self.offsets)], axis=1)
        predictions = self.simulator.predict(candidates, offsets)
        parts = []
        for run, prediction, scales, limits, valid in zip(
            self.simulator.runs, predictions, self._scales, self._limits, self._valid, strict=True
        ):
            parts.extend(self._sequence(run.channels, prediction, scales, limits, valid))
        self.diverged += sum(int(prediction.diverged.sum()) for prediction in predictions)
        self.unstable = np.any([prediction.diverged for prediction in predictions], axis=0)
        if offsets is not None:
            parts.append(offsets / self.jitter)
        residual: NDArray[np.float64] = np.concatenate(parts, axis=1).T
        return residual

    @staticmethod
    def _sequence(
        channels: tuple[Channels, ...],
        prediction: Prediction,
        scales: list[NDArray[np.float64]],
        limits: list[NDArray[np.float64]],
        valid: list[NDArray[np.bool_]],
    ) -> list[NDArray[np.float64]]:
        parts = []
        for series, predicted, scale, limit, mask in zip(
            channels, prediction.channels, scales, limits, valid, strict=True
        ):
            largest = np.broadcast_to(limit, mask.shape)[mask]
            whitened = ((predicted - series.measured) / scale)[:, mask]
            whitened[prediction.diverged] = largest
            parts.append(np.clip(whitened, -largest, largest))
        return parts

    def _layout(self) -> Samples:
        sensors = sorted({sensor for sensor, _ in _measured(self.simulator)})
        if not sensors:
            msg = f'Nothing to fit: {len(self._valid)} sequences without a measured sample.'
            raise FitError(msg)
        place = {sensor: index for index, sensor in enumerate(sensors)}
        sequence, time, sensor = [], [], []
        for index, (run, masks) in enumerate(zip(self.simulator.runs, self._valid, strict=True)):
            for channels, mask in zip(run.channels, masks, strict=True):
                ids = np.array([place.get(name, -1) for name in channels.sensors])
                sensor.append(np.broadcast_to(ids, mask.shape)[mask])
                time.append(np.broadcast_to(channels.times[:, None], mask.shape)[mask])
                sequence.append(np.full(int(mask.sum()), index))
        if self.offsets:
            sequence.append(np.arange(len(self.offsets)))
            time.append(np.zeros(len(self.offsets)))
            sensor.append(np.full(len(self.offsets), OFFSET))
        return Samples(
            np.concatenate(sequence), np.concatenate(time), np.concatenate(sensor), tuple(sensors)
        )

    def spread(self, residual: NDArray[np.float64], *, robust: bool = False) -> dict[str, float]:
        """Return how far each sensor's residuals scatter around zero, dimensionless.

        Args:
            residual: (n,) residuals in units of the noise.
            robust: Take the median absolute residual, scaled to a normal distribution, instead of
                the root mean square.
        """
        found: dict[str, float] = {}
        for index, sensor in enumerate(self.samples.sensors):
            values = residual[self.samples.sensor == index]
            if robust:
                found[sensor] = float(np.median(np.abs(values))) / _MAD_OF_NORMAL
            else:
                found[sensor] = float(np.sqrt(np.mean(values**2)))
        return found
