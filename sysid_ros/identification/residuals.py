# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Measured minus predicted, in units of each sensor's noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.errors import FitError
from sysid_ros.identification.laws import Law, Readings, laws_of
from sysid_ros.identification.noise import MAD_OF_NORMAL, measured
from sysid_ros.identification.problem import Around
from sysid_ros.identification.simulation import Simulator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.identification.runs import Run
    from sysid_ros.identification.simulation import Block
    from sysid_ros.identification.unknown import Unknown

#: Residual of every sample of a diverged simulation, in units of the noise: above what any stable
#: candidate gives, and finite, so that the solver steps back. At least so much, …
DIVERGED = 1e4
#: … and at least so many times the range of the channel, or so many SI units where it moved less.
#: No residual is larger, or diverging would look better than being wrong.
_DIVERGED_RANGES = 10.0
#: In place of a sensor's index: the residual is not of a measurement but of a prior.
PRIOR = -1
#: Stamps this much apart are the same instant, s.
_SAME_INSTANT = 1e-9
#: Simulations of the last candidate are kept up to this size, bytes, where sensors have laws.
_LARGEST_MEMO = 64e6


@dataclass(frozen=True)
class Samples:
    """Which measured samples the residual vector holds, in its order.

    Attributes:
        sequence: (n,) index of the sequence; for the prior of what belongs to one sequence, that.
        time: (n,) seconds from the sequence's start.
        sensor: (n,) index into ``sensors``; ``PRIOR`` for what is not a measurement.
        sensors: Names of the sensors.
    """

    sequence: NDArray[np.int64]
    time: NDArray[np.float64]
    sensor: NDArray[np.int64]
    sensors: tuple[str, ...]


@dataclass
class _Series:
    """One measured series: which of its samples count, and where their residuals are."""

    readings: Readings
    mask: NDArray[np.bool_]
    rows: slice
    scale: NDArray[np.float64]
    limit: NDArray[np.float64]

    @property
    def lawful(self) -> bool:
        return bool(self.readings.columns)

    def picked(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (…, counted) samples of (…, n, k) values."""
        if self.mask.all():
            return values.reshape(*values.shape[:-2], -1)
        return values[..., self.mask]


class _Part(NamedTuple):
    """One sequence: its simulator, its index there, and its series."""

    simulator: int
    run: int
    series: list[_Series]


class Residuals:
    """The residual vector of a set of sequences as a function of the candidates.

    Samples that were not measured (NaN) are left out, and so are sensors that never move in any
    sequence: their noise cannot be told, and a dead channel would outweigh all others. The
    vector's length does not depend on the candidate.

    Unknowns act where they can: what belongs to one sequence is moved together with what belongs
    to the others, and what acts on a sensor's reading only needs no simulation for its derivative.

    Attributes:
        simulators: What predicts, one per model.
        unknowns: What a candidate's values are.
        noise: Sensor name to the standard deviation that its residuals are divided by.
        samples: What each residual is.
        dead: Sensors that are left out because they never move.
        exact: (p,) unknowns whose derivative needs no difference.
        diverged: How many simulations became unstable so far.
        unstable: (m,) whether each candidate of the last call became unstable on some sequence.
    """

    def __init__(  # noqa: PLR0913 (each is another kind of knowledge about the data)
        self,
        simulators: Simulator | Sequence[Simulator],
        noise: Mapping[str, float],
        *,
        unknowns: Sequence[Unknown] | None = None,
        laws: Mapping[str, Law] | None = None,
        weights: Sequence[Mapping[str, float]] = (),
        enabled: Sequence[Callable[[str], bool]] = (),
    ) -> None:
        """Lay out the residual vector.

        Args:
            simulators: What predicts, one per model, all for the same candidates.
            noise: Sensor name to the standard deviation that its residuals are divided by.
            unknowns: What a candidate's values are; the default is all of the first simulator's,
                else its first ones, and the others stay at their nominal values.
            laws: Sensor name to the columns that act on its reading; from the unknowns' targets
                unless given.
            weights: Per simulator, sensor name to a factor on its residuals; 1 unless given.
            enabled: Per simulator, whether a sensor counts; all do unless given.

        Raises:
            FitError: No sequence holds a measured sample that counts.
        """
        self.simulators = (simulators,) if isinstance(simulators, Simulator) else tuple(simulators)
        self._all = self.simulators[0].parameters
        self.unknowns = tuple(self._all if unknowns is None else unknowns)
        count = len(self.unknowns)
        self._constants = np.array([unknown.nominal for unknown in self._all[count:]])
        self.diverged = 0
        self.unstable = np.zeros(0, dtype=bool)
        self.runs = tuple(run for simulator in self.simulators for run in simulator.runs)
        self._laws = dict(laws_of(self._all) if laws is None else laws)
        acts = np.concatenate([simulator.acts() for simulator in self.simulators], axis=1)
        self._acts = acts[:count]
        lawful = set().union(*(law.columns for law in self._laws.values()))
        self.exact = np.array(
            [j in lawful and not self._acts[j].any() for j in range(len(self.unknowns))], dtype=bool
        )
        counts = [enabled[i] if enabled else _always for i in range(len(self.simulators))]
        self._weights = [weights[i] if weights else {} for i in range(len(self.simulators))]
        self.dead = _dead(self.runs)
        self.samples = self._layout(counts)
        self._extents = dict.fromkeys(self.samples.sensors, 1.0)
        for sensor, values in measured(self.runs):
            if sensor in self._extents:
                self._extents[sensor] = max(self._extents[sensor], float(np.ptp(values)))
        self._priors = [j for j, unknown in enumerate(self.unknowns) if unknown.prior is not None]
        self._memo: tuple[bytes, dict[int, dict[str, NDArray[np.float64]]]] | None = None
        self.set_noise(noise)

    @property
    def evaluations(self) -> int:
        """Number of simulations so far."""
        return sum(simulator.rollouts for simulator in self.simulators)

    def set_noise(self, noise: Mapping[str, float]) -> None:
        """Change the scales, sensor name to standard deviation in the sensor's unit."""
        self.noise = {sensor: float(noise[sensor]) for sensor in self.samples.sensors}
        for part in self._parts:
            weights = self._weights[part.simulator]
            for series in part.series:
                sensors = series.readings.channels.sensors
                sigma = np.array([self.noise.get(sensor, 1.0) for sensor in sensors])
                extent = np.array([self._extents.get(sensor, 1.0) for sensor in sensors])
                weight = np.array([weights.get(sensor, 1.0) for sensor in sensors])
                series.scale = weight / sigma
                largest = np.maximum(DIVERGED, _DIVERGED_RANGES * extent / sigma)
                series.limit = np.maximum(np.abs(weight), 1e-300) * largest

    def __call__(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (n, m) residuals of (m, p) candidates, dimensionless."""
        candidates = self._complete(candidates)
        found = np.empty((len(candidates), len(self.samples.time)))
        every = np.arange(len(candidates))
        self.unstable = np.zeros(len(candidates), dtype=bool)
        for part, block in self._simulate(candidates, [every] * len(self.runs)):
            self.unstable[block.candidates] |= block.diverged
            for series in part.series:
                found[block.candidates, series.rows] = self._residual(series, block, candidates)
        found[:, self._prior_rows] = self._prior(candidates)
        residual: NDArray[np.float64] = found.T
        return residual

    def around(
        self,
        x: NDArray[np.float64],
        steps: NDArray[np.float64],
        columns: NDArray[np.bool_] | None = None,
        base: NDArray[np.float64] | None = None,
    ) -> Around:
        """Evaluate a candidate and its neighbours in one batch.

        Args:
            x: (p,) candidate.
            steps: (p,) signed steps, in the unknowns' units.
            columns: (p,) which unknowns to move; all by default.
            base: (n,) residuals at ``x`` where they are known.

        Returns:
            Residuals, and their changes by one step of each unknown.
        """
        wanted = np.ones(len(x), dtype=bool) if columns is None else columns
        exact = wanted & self.exact
        probes = self._probes(np.flatnonzero(wanted & ~self.exact))
        candidates = self._complete(np.tile(x, (1 + len(probes), 1)))
        for place, probe in enumerate(probes, start=1):
            candidates[place, probe] += steps[probe]
        residual = np.empty(len(self.samples.time)) if base is None else base
        changes = np.zeros((len(x), len(residual))).T
        wild = np.zeros(len(x), dtype=bool)
        unstable = False
        jobs = [
            np.array(
                ([0] if base is None or exact.any() else [])
                + [i for i, probe in enumerate(probes, 1) if self._acts[probe, run].any()],
                dtype=np.int64,
            )
            for run in range(len(self.runs))
        ]
        for part, block in self._simulate(candidates, jobs, memorise=bool(self.exact.any())):
            run = self._index(part)
            for place, candidate in enumerate(block.candidates.tolist()):
                if candidate:
                    probe = probes[candidate - 1]
                    wild[probe] |= self._acts[probe, run] & block.diverged[place]
                else:
                    unstable |= bool(block.diverged[place])
            for series in part.series:
                values = self._residual(series, block, candidates)
                moved = block.candidates > 0
                if not moved.all():
                    residual[series.rows] = values[~moved][0]
                    self._derive(series, block, candidates[0], steps, exact, changes)
                for value, candidate in zip(values[moved], block.candidates[moved], strict=True):
                    probe = probes[candidate - 1]
                    (own,) = probe[self._acts[probe, run]]
                    changes[series.rows, own] = value - residual[series.rows]
        if base is None:
            residual[self._prior_rows] = self._prior(candidates[:1])[0]
        for row, j in enumerate(self._priors, start=self._prior_rows.start):
            if wanted[j]:
                changes[row, j] = -steps[j] / self.unknowns[j].prior[1]
        return Around(residual, changes, wild, unstable)

    def rows(self, index: int) -> slice:
        """Return where the residuals of a sequence are."""
        series = self._parts[index].series
        return slice(series[0].rows.start, series[-1].rows.stop)

    def readings(self, x: NDArray[np.float64]) -> tuple[tuple[NDArray[np.float64], ...], ...]:
        """Return what one candidate predicts for every sequence: (n, k) readings per series."""
        x = self._complete(x[None])[0]
        found: dict[int, tuple[NDArray[np.float64], ...]] = {}
        for part, block in self._simulate(x[None], [np.zeros(1, dtype=np.int64)] * len(self.runs)):
            rows = {field: values[0] for field, values in block.rows.items()}
            found[self._index(part)] = tuple(
                series.readings.predicted(rows, x) for series in part.series
            )
        return tuple(found[index] for index in range(len(self.runs)))

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
                found[sensor] = float(np.median(np.abs(values))) / MAD_OF_NORMAL
            else:
                found[sensor] = float(np.sqrt(np.mean(values**2)))
        return found

    def _complete(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (m, all) candidates with what is not unknown at its nominal value."""
        constants = np.broadcast_to(self._constants, (len(candidates), len(self._constants)))
        return np.concatenate([candidates, constants], axis=1)

    def _index(self, part: _Part) -> int:
        return self._first[part.simulator] + part.run

    def _probes(self, columns: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Group unknowns that act on different sequences."""
        groups: list[tuple[list[int], NDArray[np.bool_]]] = []
        for j in columns:
            acts = self._acts[j]
            if acts.all():
                groups.append(([int(j)], acts))
                continue
            for members, busy in groups:
                if not np.any(busy & acts):
                    members.append(int(j))
                    busy |= acts
                    break
            else:
                groups.append(([int(j)], acts.copy()))
        return [np.array(members) for members, _ in groups]

    def _simulate(
        self,
        candidates: NDArray[np.float64],
        jobs: Sequence[NDArray[np.int64]],
        *,
        memorise: bool = False,
    ) -> Iterator[tuple[_Part, Block]]:
        """Yield every sequence with its simulations, as many as the candidates need."""
        known = self._recall(candidates[0]) if len(candidates) and self.exact.any() else {}
        keep: dict[int, dict[str, NDArray[np.float64]]] = {}
        size = 0.0
        for index, simulator in enumerate(self.simulators):
            first = self._first[index]
            own = list(jobs[first : first + len(simulator.runs)])
            for run in range(len(own)):
                if first + run in known and len(own[run]) and own[run][0] == 0:
                    rows = known[first + run]
                    yield (
                        self._parts[first + run],
                        Block(run, np.zeros(1, dtype=np.int64), rows, np.zeros(1, dtype=bool)),
                    )
                    own[run] = own[run][1:]
            for block in simulator.simulate(candidates, own):
                self.diverged += int(block.diverged.sum())
                if memorise and block.candidates[0] == 0 and not block.diverged[0]:
                    keep[first + block.run] = {k: v[:1].copy() for k, v in block.rows.items()}
                    size += sum(v.nbytes for v in keep[first + block.run].values())
                    memorise = size < _LARGEST_MEMO
                yield self._parts[first + block.run], block
        if keep and size < _LARGEST_MEMO:
            self._memo = (self._key(candidates[0]), keep)

    def _key(self, x: NDArray[np.float64]) -> bytes:
        return x[: len(self.exact)][~self.exact].tobytes()

    def _recall(self, x: NDArray[np.float64]) -> dict[int, dict[str, NDArray[np.float64]]]:
        """Return the simulations of a candidate that differs in its sensors' laws at most."""
        if self._memo is None or self._memo[0] != self._key(x):
            return {}
        return self._memo[1]

    @staticmethod
    def _residual(
        series: _Series, block: Block, candidates: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the (m, counted samples) residuals of one series."""
        readings = series.readings
        if series.lawful:
            values = np.stack(
                [
                    readings.evaluate(
                        {field: rows[place] for field, rows in block.rows.items()},
                        candidates[candidate],
                        series.scale,
                        derivatives=False,
                    ).residual
                    for place, candidate in enumerate(block.candidates)
                ]
            )
        else:
            values = readings.channels.measured - readings.channels.predict(block.rows)
            values *= series.scale
        if block.diverged.any():
            values[block.diverged] = series.limit
        np.clip(values, -series.limit, series.limit, out=values)
        return series.picked(values)

    def _derive(
        self,
        series: _Series,
        block: Block,
        x: NDArray[np.float64],
        steps: NDArray[np.float64],
        exact: NDArray[np.bool_],
        changes: NDArray[np.float64],
    ) -> None:
        """Fill in the changes by the unknowns that act on readings only."""
        own = [column for column in series.readings.columns if column < len(exact)]
        if not exact[own].any():
            return
        rows = {field: values[0] for field, values in block.rows.items()}
        found = series.readings.evaluate(rows, x, series.scale, derivatives=True).derivatives
        for column, derivative in found.items():
            if column in own and exact[column]:
                changes[series.rows, column] = steps[column] * series.picked(derivative)

    def _prior(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (m, number of priors) residuals of the priors."""
        found = np.empty((len(candidates), len(self._priors)))
        for place, j in enumerate(self._priors):
            mean, deviation = self.unknowns[j].prior
            found[:, place] = (mean - candidates[:, j]) / deviation
        return found

    def _layout(self, counts: list[Callable[[str], bool]]) -> Samples:
        """Decide which samples count, and where their residuals are."""
        self._parts: list[_Part] = []
        self._first: list[int] = []
        chosen: list[tuple[int, NDArray[np.float64], list[str], NDArray[np.bool_]]] = []
        place = 0
        for index, simulator in enumerate(self.simulators):
            self._first.append(len(self._parts))
            for number, run in enumerate(simulator.runs):
                part = _Part(index, number, [])
                for channels in run.channels:
                    laws = tuple(self._laws.get(sensor, Law()) for sensor in channels.sensors)
                    live = [counts[index](s) and s not in self.dead for s in channels.sensors]
                    mask = np.isfinite(channels.measured) & np.array(live, dtype=bool)
                    mask &= self._inside(channels.times, laws, run)
                    count = int(mask.sum())
                    rows = slice(place, place + count)
                    place += count
                    empty = np.ones(len(live))
                    part.series.append(
                        _Series(Readings(channels, laws), mask, rows, empty, empty)
                    )
                    chosen.append(
                        (len(self._parts), channels.times, list(channels.sensors), mask)
                    )
                self._parts.append(part)
        sensors = sorted(
            {s for _, _, names, mask in chosen for s, used in zip(names, mask.any(0)) if used}
        )
        if not sensors:
            dead = f' (never moving: {", ".join(self.dead)})' if self.dead else ''
            msg = f'Nothing to fit: {len(self.runs)} sequences without a measured sample{dead}.'
            raise FitError(msg)
        priors = [j for j, unknown in enumerate(self.unknowns) if unknown.prior is not None]
        self._prior_rows = slice(place, place + len(priors))
        own = [self._acts[j] for j in priors]
        ids = {sensor: number for number, sensor in enumerate(sensors)}
        return Samples(
            np.concatenate(
                [np.full(int(mask.sum()), sequence) for sequence, _, _, mask in chosen]
                + [np.array([int(np.argmax(acts)) for acts in own], dtype=np.int64)]
            ),
            np.concatenate(
                [np.broadcast_to(times[:, None], mask.shape)[mask] for _, times, _, mask in chosen]
                + [np.zeros(len(priors))]
            ),
            np.concatenate(
                [
                    np.broadcast_to([ids.get(name, PRIOR) for name in names], mask.shape)[mask]
                    for _, _, names, mask in chosen
                ]
                + [np.full(len(priors), PRIOR)]
            ),
            tuple(sensors),
        )

    def _inside(
        self, times: NDArray[np.float64], laws: tuple[Law, ...], run: Run
    ) -> NDArray[np.bool_]:
        """Return (n, k) whether a reading describes a simulated state at any allowed delay."""
        end = (run.steps - 1) * run.timestep
        inside = np.ones((len(times), len(laws)), dtype=bool)
        for k, law in enumerate(laws):
            low, high = 0.0, 0.0
            if law.delay is not None:
                unknown = self._all[law.delay]
                low, high = unknown.min_value, unknown.max_value
            inside[:, k] = (times >= high - _SAME_INSTANT) & (times <= end + low + _SAME_INSTANT)
        return inside


def _always(_: str) -> bool:
    return True


def _dead(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the sensors of which every sample of a component is the same in all sequences."""
    seen: dict[str, tuple[float, float]] = {}
    for sensor, values in measured(runs):
        low, high = seen.get(sensor, (np.inf, -np.inf))
        seen[sensor] = (min(low, float(values.min())), max(high, float(values.max())))
    return tuple(sorted(sensor for sensor, (low, high) in seen.items() if low == high))
