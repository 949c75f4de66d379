# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the curves of a result say about it: blocks, explained variance, stuck values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sysid_ros.results.parts import Role, SignalPlot
    from sysid_ros.results.result import CalibrationResult

#: Stretches of time that errors are compared on, in all: fewer cannot exclude chance.
_BLOCKS = 12
#: A sequence's error is that of so many stretches of its time, …
_STRETCHES = 100
#: … without the worst of them: this part is kept.
_KEPT = 0.75
#: Instants of a curve from which on values that are all equal are a stretch.
_FEWEST_EQUAL = 4
#: Counts of an encoder that a position may move by before it says so.
_COUNTS = 3.0
#: Correlation from which on two curves are the same motion.
_SAME_MOTION = 0.8


class Stuck(NamedTuple):
    """A position that stands still for so many seconds while it should move."""

    sensor: str
    sequence: str
    seconds: float
    movement: float
    unit: str


@dataclass(frozen=True)
class Sensor:
    """One sensor over all sequences: its standard deviations, measured and predicted."""

    unit: str
    spread: float
    predicted: float
    error: float


class Evidence:
    """The curves of one role of a result, or of all."""

    #: Units of positions and velocities.
    MOTION: ClassVar = frozenset({'rad', 'm', 'rad/s', 'm/s'})
    _POSITIONS: ClassVar = frozenset({'rad', 'm'})

    def __init__(self, result: CalibrationResult, role: Role | None) -> None:
        """Take the curves of a role; None for all of them."""
        self.role = role
        self._plots = [plot for plot in result.plots if role is None or plot.role == role]
        self._noise = {scale.sensor: scale.sigma for scale in result.noise}
        self.sensors = {name: self._sensor(name) for name in dict.fromkeys(self._names())}

    def _names(self) -> Iterator[str]:
        yield from (plot.sensor for plot in self._plots)

    def _of(self, sensor: str) -> list[SignalPlot]:
        return [plot for plot in self._plots if plot.sensor == sensor]

    def _sensor(self, name: str) -> Sensor:
        plots = self._of(name)
        measured = np.concatenate([plot.measured for plot in plots])
        after = np.concatenate([plot.after for plot in plots])
        known = np.isfinite(measured) & np.isfinite(after)
        measured, after = measured[known], after[known]
        if not len(measured):
            return Sensor(plots[0].unit, math.nan, math.nan, math.nan)
        return Sensor(
            plots[0].unit,
            # Rounded curves of a constant have no spread, but their mean may be rounded again.
            float(np.std(measured)) if np.ptp(measured) else 0.0,
            float(np.std(after)),
            float(np.sqrt(np.mean((after - measured) ** 2))),
        )

    def _squares(self, plot: SignalPlot, values: tuple[float, ...]) -> NDArray[np.float64]:
        sigma = self._noise.get(plot.sensor.split('[')[0], math.nan)
        away: NDArray[np.float64] = (np.array(values) - np.array(plot.measured)) / sigma
        return away**2

    def chance(self) -> float:
        """Return how likely it is that the errors on stretches of time fell by chance.

        One-sided signed-rank test (Wilcoxon, Biometrics Bulletin 1, 1945) on the mean squares of
        stretches, which are much longer than residuals remember.
        """
        from scipy.stats import wilcoxon  # noqa: PLC0415 (slow to import)

        sequences = list(dict.fromkeys(plot.sequence for plot in self._plots))
        pieces = max(math.ceil(_BLOCKS / max(len(sequences), 1)), 1)
        pairs = []
        for sequence in sequences:
            plots = [plot for plot in self._plots if plot.sequence == sequence]
            first = min(plot.times[0] for plot in plots)
            last = max(plot.times[-1] for plot in plots)
            times = np.concatenate([plot.times for plot in plots])
            both = [
                np.concatenate([self._squares(plot, values(plot)) for plot in plots])
                for values in (_before, _after)
            ]
            for low, high in pairwise(np.linspace(first, last, pieces + 1)):
                chosen = (times >= low) & (times <= high) & np.isfinite(both[0] + both[1])
                if chosen.any():
                    pairs.append([float(np.mean(squares[chosen])) for squares in both])
        if not pairs:
            return 1.0
        before, after = np.array(pairs).T
        if np.array_equal(before, after):
            return 1.0
        return float(wilcoxon(before, after, alternative='greater').pvalue)

    def by_sequence(self) -> dict[tuple[Role, str], float]:
        """Return the error of each sequence, in units of the noise.

        Root mean square over short stretches of time without the worst quarter of them: a command
        that came late or a knock is no other robot.
        """
        found = {}
        for key in dict.fromkeys((plot.role, plot.sequence) for plot in self._plots):
            plots = [plot for plot in self._plots if (plot.role, plot.sequence) == key]
            times = np.concatenate([plot.times for plot in plots])
            squares = np.concatenate([self._squares(plot, plot.after) for plot in plots])
            finite = np.isfinite(squares)
            times, squares = times[finite], squares[finite]
            if not len(squares):
                continue
            edges = np.linspace(times.min(), times.max(), _STRETCHES + 1)
            stretch = np.searchsorted(edges[1:-1], times)
            count = np.bincount(stretch, minlength=_STRETCHES)
            total = np.bincount(stretch, squares, minlength=_STRETCHES)
            means = np.sort(total[count > 0] / count[count > 0])
            kept = means[: math.ceil(_KEPT * len(means))]
            found[key] = float(np.sqrt(np.mean(kept)))
        return found

    def moving(self, share: float) -> list[str]:
        """Return the positions and velocities that move by a share of the most of their kind.

        It is enough that they should; those that never do are not among them.
        """
        most: dict[str, float] = {}
        for sensor in self.sensors.values():
            most[sensor.unit] = max(most.get(sensor.unit, 0.0), sensor.spread)
        return [
            name
            for name, sensor in self.sensors.items()
            if sensor.unit in self.MOTION
            and sensor.spread > 0
            and max(sensor.spread, sensor.predicted) > share * most[sensor.unit]
        ]

    def explained(self, sensor: str) -> float:
        """Return the part of a sensor's variance that is predicted, at most 1."""
        found = self.sensors[sensor]
        return 1 - (found.error / found.spread) ** 2

    def suspicion(self, sensor: str) -> str:
        """Return a clause on what may be wrong with a sensor, or nothing.

        The nominal model tells: what it predicts may be measured with the other sign, or by another
        sensor.
        """
        own = self._motion(sensor, measured=False)
        like = {
            other: _correlation(own, self._motion(other, measured=True))
            for other, found in self.sensors.items()
            if found.unit == self.sensors[sensor].unit
        }
        if like[sensor] < -_SAME_MOTION:
            return ': it runs against the model, as with a wrong sign'
        best = max(like, key=lambda name: abs(like[name]))
        if best != sensor and abs(like[best]) > max(_SAME_MOTION, like[sensor]):
            return f': {best} moves as it should, as with swapped joints'
        return ''

    def _motion(self, sensor: str, *, measured: bool) -> NDArray[np.float64]:
        plots = self._of(sensor)
        return np.concatenate([plot.measured if measured else plot.before for plot in plots])

    def stuck(self, share: float, moving: float) -> Stuck | None:
        """Return the worst position that stands still while it should move, if any.

        Args:
            share: Of the range that it is measured in; movement below does not count.
            moving: Share of the most of its kind that a position moves by, to be looked at.
        """
        worst: Stuck | None = None
        for sensor in self.moving(moving):
            if self.sensors[sensor].unit not in self._POSITIONS:
                continue
            plots = self._of(sensor)
            values = np.concatenate([plot.measured for plot in plots])
            steps = np.concatenate([np.abs(np.diff(plot.measured)) for plot in plots])
            # A coarse encoder says the same until its next count.
            least = max(
                share * float(np.nanmax(values) - np.nanmin(values)),
                _COUNTS * float(np.min(steps[steps > 0], initial=math.inf)),
            )
            for plot in plots:
                for run in _equal(np.array(plot.measured)):
                    moved = float(np.ptp(np.array(plot.after)[run]))
                    if moved > least and (worst is None or moved > worst.movement):
                        seconds = plot.times[run.stop - 1] - plot.times[run.start]
                        worst = Stuck(sensor, plot.sequence, seconds, moved, plot.unit)
        return worst if worst is not None and math.isfinite(worst.movement) else None


def _before(plot: SignalPlot) -> tuple[float, ...]:
    return plot.before


def _after(plot: SignalPlot) -> tuple[float, ...]:
    return plot.after


def _equal(values: NDArray[np.float64]) -> Iterator[slice]:
    """Yield stretches of equal values, if values ever change."""
    edges = np.flatnonzero(np.diff(values) != 0) + 1
    for start, stop in pairwise([0, *edges.tolist(), len(values)]):
        if stop - start >= _FEWEST_EQUAL and np.isfinite(values[start]):
            yield slice(start, stop)


def _correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    if len(one) != len(other):
        return 0.0
    known = np.isfinite(one) & np.isfinite(other)
    one, other = one[known], other[known]
    if len(one) < _FEWEST_EQUAL or not np.ptp(one) or not np.ptp(other):
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])
