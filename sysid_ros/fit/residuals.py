# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Measured minus predicted, in units of each sensor's noise, and what each residual is."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import FitError
from sysid_ros.fit.differences import PRIOR, Differences, Samples, Sharing, StepChanges
from sysid_ros.fit.noise import MAD_OF_NORMAL, JointPrior, measured, prior_rows
from sysid_ros.fit.solver import Solution
from sysid_ros.model.elements import reads_force
from sysid_ros.model.targets import Unknown
from sysid_ros.signals import Trajectory
from sysid_ros.simulation.runs import (
    ON_STEP,
    MeasurementModel,
    Readings,
    Run,
    Signal,
    combined,
    measurement_models,
)
from sysid_ros.simulation.simulator import Block, Simulator

Array = NDArray[np.float64]
Predicted = tuple[Array, ...]
Record = dict[str, Array]

#: Residual of every sample of a diverged simulation, in units of the noise or of the range of the
#: channel, whichever is larger: above what any stable candidate gives, and finite, so that the
#: solver steps back. No residual is larger, or diverging would look better than being wrong.
DIVERGED = 1e4
#: Numbers of residuals or of a Jacobian that are held at once: a fit takes some ten times the size
#: of its Jacobian, 1 GB, and samples are left out evenly where it would have more.
MOST_NUMBERS = 1e7


@dataclass
class _Compared:
    """Which readings of a series are compared, and where their residuals are."""

    readings: Readings  # what was measured, and what a simulation says instead
    mask: NDArray[np.bool_]  # (n, k) whether a sample counts
    rows: slice  # where the residuals are
    scale: Array  # (k,) what residuals are multiplied by
    limit: Array  # (k,) their largest size

    def picked(self, values: Array) -> Array:
        """Return the (…, counted) samples of (…, n, k) values."""
        if self.mask.all():
            return values.reshape(*values.shape[:-2], -1)
        return values[..., self.mask]

    def residual(self, block: Block, candidates: Array) -> Array:
        """Return the (m, counted) residuals of a block of (…, p) candidates."""
        if self.readings.lawful:
            values = np.stack(
                [
                    self.readings.residual(
                        {field: rows[place] for field, rows in block.rows.items()},
                        candidates[candidate],
                    )
                    for place, candidate in enumerate(block.candidates)
                ]
            )
        else:
            values = self.readings.measured - self.readings.simulated(block.rows)
        values *= self.scale
        values[block.diverged] = self.limit
        np.clip(values, -self.limit, self.limit, out=values)
        return self.picked(values)


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
        memory: What is known of some unknowns together, if anything.
        priors: The residuals of priors, which need no simulation …
        prior_rows: … and where they are.
        unstable_in: (number of sequences, m) whether each candidate of the last call became
            unstable on a sequence.
    """

    def __init__(
        self,
        simulators: Simulator | Sequence[Simulator],
        noise: Mapping[str, float],
        *,
        unknowns: Sequence[Unknown] | None = None,
        laws: Mapping[Signal, MeasurementModel] | None = None,
        weights: Sequence[Mapping[str, float]] = (),
        enabled: Sequence[Callable[[str], bool]] = (),
        memory: JointPrior | None = None,
    ) -> None:
        """Lay out the residual vector."""
        self.simulators = (simulators,) if isinstance(simulators, Simulator) else tuple(simulators)
        self._all = self.simulators[0].parameters
        self.unknowns = tuple(self._all if unknowns is None else unknowns)
        count = len(self.unknowns)
        self._constants = np.array([unknown.nominal for unknown in self._all[count:]])
        self._diverged = 0
        self._seconds = 0.0
        self._parts_of_data: list[Residuals] = []
        self._alike: list[tuple[Record, NDArray[np.bool_]]] | None = None
        self.runs = tuple(run for simulator in self.simulators for run in simulator.runs)
        self.unstable_in = np.zeros((len(self.runs), 0), dtype=bool)
        self._first = np.cumsum([0, *(len(simulator.runs) for simulator in self.simulators)])
        self.memory = memory
        self._made: dict[str, Any] = {
            'laws': laws,
            'weights': weights,
            'enabled': enabled,
            'memory': memory,
        }
        models = measurement_models(self._all)
        for signal, law in (laws or {}).items():
            models[signal] = combined(models.get(signal, MeasurementModel()), law)
        acts = np.concatenate([simulator.acts() for simulator in self.simulators], axis=1)
        self._acts = acts[:count]
        lawful = set().union(*(law.columns for law in models.values()))
        self.exact = np.array(
            [j in lawful and not self._acts[j].any() for j in range(count)], dtype=bool
        )
        self._weights = [
            weights[i] if weights else {} for i, s in enumerate(self.simulators) for _ in s.runs
        ]
        counts = [
            enabled[i] if enabled else (lambda _: True)
            for i, s in enumerate(self.simulators)
            for _ in s.runs
        ]
        self._extents = _extents(self.runs)
        self.dead = tuple(sorted(s for s, extent in self._extents.items() if not extent))
        self._compared = self._lay_out(models, counts)
        self.priors = prior_rows(self.unknowns, memory)
        self.samples = self._described()
        end = len(self.samples.time)
        self.prior_rows = slice(end - len(self.priors.unknown), end)
        self.set_noise(noise)

    def _lay_out(
        self, models: Mapping[Signal, MeasurementModel], counts: Sequence[Callable[[str], bool]]
    ) -> list[list[_Compared]]:
        """Decide for each sequence which samples count.

        That are those which were measured, of a sensor that moves, and simulated at any delay.
        """
        found: list[list[_Compared]] = []
        place = 0
        for run, counted in zip(self.runs, counts, strict=True):
            found.append([])
            for bare in run.readings:
                readings = bare.under(models)
                live = [counted(s) and s not in self.dead for s in readings.sensors]
                mask = np.isfinite(readings.measured) & np.array(live, dtype=bool)
                end = (run.steps - 1) * run.timestep
                for k, law in enumerate(readings.laws):
                    if law.delay is not None:
                        unknown = self._all[law.delay]
                        mask[:, k] &= readings.times >= unknown.max_value - ON_STEP
                        mask[:, k] &= readings.times <= end + unknown.min_value + ON_STEP
                rows = slice(place, place + int(mask.sum()))
                place = rows.stop
                ones = np.ones(len(live))
                found[-1].append(_Compared(readings, mask, rows, ones, ones))
        return found

    def _described(self) -> Samples:
        """Say what each residual is."""
        every = [(run, compared) for run, own in enumerate(self._compared) for compared in own]
        used: set[str] = set()
        for _, compared in every:
            used.update(np.array(compared.readings.sensors)[compared.mask.any(axis=0)].tolist())
        sensors = sorted(used)
        if not sensors:
            never = f' (never moving: {", ".join(self.dead)})' if self.dead else ''
            raise FitError(
                f'Nothing to fit: {len(self.runs)} sequences without a measured sample{never}.'
            )
        ids = {sensor: number for number, sensor in enumerate(sensors)}
        owners = self._acts[self.priors.unknown].argmax(axis=1)
        sequence, time, sensor = [], [], []
        for run, compared in every:
            readings, mask = compared.readings, compared.mask
            own = np.array([ids.get(name, PRIOR) for name in readings.sensors])
            sequence.append(np.full(int(mask.sum()), run))
            time.append(np.broadcast_to(readings.times[:, None], mask.shape)[mask])
            sensor.append(np.broadcast_to(own, mask.shape)[mask])
        measurements = sum(len(times) for times in time)
        return Samples(
            np.concatenate([*sequence, owners]),
            np.concatenate([*time, np.zeros(len(owners))]),
            np.concatenate([*sensor, np.full(len(owners), PRIOR)]),
            tuple(sensors),
            np.concatenate([np.ones(measurements), self.priors.variance]),
            tuple(run.sequence.bag or run.sequence.name for run in self.runs),
            forces=any(reads_force(s.model, sensor) for s in self.simulators for sensor in sensors),
        )

    @property
    def unstable(self) -> NDArray[np.bool_]:
        """(m,) whether each candidate of the last call became unstable on some sequence."""
        return np.asarray(np.any(self.unstable_in, axis=0))

    @property
    def diverged(self) -> int:
        """Number of simulations that became unstable so far."""
        return self._diverged + sum(part.diverged for part in self._parts_of_data)

    @property
    def evaluations(self) -> int:
        """Number of simulations so far."""
        own = sum(simulator.rollouts for simulator in self.simulators)
        return own + sum(part.evaluations for part in self._parts_of_data)

    @property
    def seconds(self) -> float:
        """Wall time that a candidate's simulations took, s."""
        ran = sum(simulator.rollouts for simulator in self.simulators)
        return self._seconds * len(self.runs) / max(ran, 1)

    @property
    def refusals(self) -> int:
        """Number of candidates so far that no model could be built for, for each simulator."""
        own = sum(simulator.refusals for simulator in self.simulators)
        return own + sum(part.refusals for part in self._parts_of_data)

    def check(self, x: Array) -> None:
        """Check that a candidate has a model.

        Raises:
            CandidateError: No model can be built with its values.
        """
        for simulator in self.simulators:
            simulator.check(x)

    def set_noise(self, noise: Mapping[str, float]) -> None:
        """Change the scales, sensor name to standard deviation in the sensor's unit."""
        self.noise = {sensor: float(noise[sensor]) for sensor in self.samples.sensors}
        for weights, own in zip(self._weights, self._compared, strict=True):
            for compared in own:
                sensors = compared.readings.sensors
                sigma = np.array([self.noise.get(sensor, 1.0) for sensor in sensors])
                extent = np.array([self._extents.get(sensor, 0.0) for sensor in sensors])
                weight = np.array([weights.get(sensor, 1.0) for sensor in sensors])
                compared.scale = weight / sigma
                compared.limit = DIVERGED * np.abs(weight) * np.maximum(1.0, extent / sigma)

    def __call__(self, candidates: Array) -> Array:
        """Return the (n, m) residuals of (m, p) candidates, dimensionless."""
        return self._evaluate(candidates, None)

    def compare(self, candidates: Array) -> tuple[Array, list[list[Predicted]]]:
        """Return the same, and what is predicted: per sequence and candidate, (n, k) per series.

        Raises:
            CandidateError: No model can be built for a candidate.
        """
        found: list[list[Predicted]] = [[() for _ in candidates] for _ in self.runs]
        residual = self._evaluate(candidates, found)
        for simulator in self.simulators:
            for refused in simulator.refused.values():
                raise refused
        return residual, found

    def _evaluate(self, candidates: Array, predicted: list[list[Predicted]] | None) -> Array:
        candidates = self._complete(candidates)
        found = np.empty((len(candidates), len(self.samples.time)))
        every = np.arange(len(candidates))
        self.unstable_in = np.zeros((len(self.runs), len(candidates)), dtype=bool)
        for run, block in self._simulate(candidates, [every] * len(self.runs)):
            self.unstable_in[run, block.candidates] = block.diverged
            for compared in self._compared[run]:
                found[block.candidates, compared.rows] = compared.residual(block, candidates)
            if predicted is None:
                continue
            for place, candidate in enumerate(block.candidates):
                rows = {field: values[place] for field, values in block.rows.items()}
                x = candidates[candidate]
                predicted[run][candidate] = tuple(
                    compared.readings.predicted(rows, x) for compared in self._compared[run]
                )
        found[:, self.prior_rows] = self.priors.residual(candidates)
        residual: Array = found.T
        return residual

    def step_changes(
        self,
        x: Array,
        steps: Array,
        columns: NDArray[np.bool_] | None = None,
        base: Array | None = None,
        sharing: Sharing | None = None,
    ) -> StepChanges:
        """Evaluate a candidate and its neighbours in one batch; see `ResidualLike`."""
        wanted = np.ones(len(x), dtype=bool) if columns is None else columns
        exact = wanted & self.exact
        probes = self._probes(np.flatnonzero(wanted & ~self.exact), sharing)
        candidates = self._complete(np.tile(x, (1 + len(probes), 1)))
        for place, probe in enumerate(probes, start=1):
            candidates[place, probe] += steps[probe]
        residual = np.empty(len(self.samples.time)) if base is None else base
        changes = np.zeros((len(x), len(residual))).T
        wild = np.zeros(len(x), dtype=bool)
        squares = np.zeros((len(x), len(self.samples.sensors)))
        unstable = False
        jobs = [
            np.array(
                ([0] if base is None or exact.any() else [])
                + [i for i, probe in enumerate(probes, 1) if self._acts[probe, run].any()],
                dtype=np.int64,
            )
            for run in range(len(self.runs))
        ]
        for run, block in self._simulate(candidates, jobs, candidates[0]):
            moved = block.candidates > 0
            unstable |= bool(block.diverged[~moved].any())
            chosen = [probes[candidate - 1] for candidate in block.candidates[moved]]
            own = [probe[self._acts[probe, run]] for probe in chosen]
            for unknowns in itertools.compress(own, block.diverged[moved]):
                wild[unknowns] = True
            for compared in self._compared[run]:
                values = compared.residual(block, candidates)
                if not moved.all():
                    residual[compared.rows] = values[~moved][0]
                    self._derive(compared, block, candidates[0], steps, exact, changes)
                sensor = self.samples.sensor[compared.rows]
                values = values[moved] - residual[compared.rows]
                by_sensor = [np.bincount(sensor, v**2, squares.shape[1]) for v in values]
                for unknowns, change, square in zip(own, values, by_sensor, strict=True):
                    for j in unknowns.tolist():
                        told = 1.0 if sharing is None else sharing.own[j, sensor]
                        changes[compared.rows, j] = told * change
                        squares[j] += square
        if base is None:
            residual[self.prior_rows] = self.priors.residual(candidates[:1])[0]
        changes[self.prior_rows] = -self.priors.matrix * np.where(wanted, steps, 0.0)
        return StepChanges(residual, changes, wild, unstable, np.sqrt(squares))

    def channels(self) -> Iterator[tuple[int, Readings, int, NDArray[np.bool_], float]]:
        """Yield each channel's sequence, series, place in it, (n,) samples that count and scale."""
        for run, own in enumerate(self._compared):
            for compared in own:
                for k, scale in enumerate(compared.scale.tolist()):
                    yield run, compared.readings, k, compared.mask[:, k], scale

    def of(self, sequences: Sequence[Sequence[Trajectory]]) -> Residuals:
        """Return the residuals of other sequences, of each simulator's, in the same scales."""
        return Residuals(
            [s.of(some) for s, some in zip(self.simulators, sequences, strict=True)],
            self.noise,
            unknowns=self.unknowns,
            **self._made,
        )

    def also(self, part: Residuals) -> None:
        """Count the simulations of other residuals, which serve the same solve, as one's own."""
        self._parts_of_data.append(part)

    def extended(self, solution: Solution, fewer: Residuals) -> Solution:
        """Return a solution with what this has more unknown than others, at its nominal value."""
        rows, count = fewer.prior_rows.start, len(fewer.unknowns)
        more = [unknown.nominal for unknown in self.unknowns[count:]]
        x = np.concatenate([solution.x, more])
        residual = np.concatenate([solution.residual[:rows], self.priors.residual(x[None])[0]])
        differences = Differences(self)
        if solution.differences is not None:
            differences.take_steps(solution.differences)
        added = np.arange(len(x)) >= count
        jacobian = differences.at(x, residual, added).jacobian
        jacobian[:rows, :count] = solution.jacobian[:rows]
        jacobian[rows:] = -self.priors.matrix
        return dataclasses.replace(
            solution, x=x, residual=residual, jacobian=jacobian, differences=differences
        )

    def rescaled(self, solution: Solution, noise: Mapping[str, float]) -> Solution:
        """Change the scales to another noise, and return a solution in the new ones."""
        ratios = np.array([self.noise[sensor] / noise[sensor] for sensor in self.samples.sensors])
        factor = np.where(self.samples.sensor < 0, 1.0, ratios[self.samples.sensor])
        self.set_noise(noise)
        return dataclasses.replace(
            solution,
            residual=solution.residual * factor,
            jacobian=solution.jacobian * factor[:, None],
        )

    def delays(self, index: int, x: Array) -> Array:
        """Return how much later than its stamps each command of a sequence acts, s."""
        simulator, run = self._place(index)
        return simulator.delays(run, self._complete(x[None])[0])

    def common_delays(self) -> Array:
        """Return the (number of sequences, p) derivatives of the mean delay of their commands."""
        places = map(self._place, range(len(self.runs)))
        found = [simulator.common_delay(run) for simulator, run in places]
        return np.array(found)[:, : len(self.unknowns)]

    def _place(self, index: int) -> tuple[Simulator, int]:
        """Return the simulator of a sequence, and its index there."""
        owner = int(np.searchsorted(self._first, index, side='right')) - 1
        return self.simulators[owner], index - int(self._first[owner])

    def records(self, x: Array) -> list[Record]:
        """Return what is recorded of each sequence's simulation with a (p,) candidate."""
        every = [np.zeros(1, dtype=np.int64)] * len(self.runs)
        found: list[Record] = [{} for _ in self.runs]
        for run, block in self._simulate(self._complete(x[None]), every):
            found[run] = {field: rows[0].copy() for field, rows in block.rows.items()}
        return found

    def with_variants(self, x: Array, variants: Sequence[Sequence[Run]]) -> Array:
        """Return the (n, m) residuals of a (p,) candidate on m variants of each sequence."""
        count = len(variants[0])
        candidates = np.repeat(self._complete(x[None]), count, axis=0)
        found = np.empty((len(self.samples.time), count))
        found[self.prior_rows] = self.priors.residual(x[None]).T
        every = [np.arange(count)] * len(self.runs)
        for run, block in self._simulate(candidates, every, variants=variants):
            for compared in self._compared[run]:
                found[compared.rows, block.candidates] = compared.residual(block, candidates).T
        return found

    def of_records(self, x: Array, records: Sequence[Record]) -> Array:
        """Return the (n,) residuals of a (p,) candidate whose simulations recorded this."""
        found = np.empty(len(self.samples.time))
        for index, record in enumerate(records):
            found[self.rows(index)] = self.of_record(index, x, record)
        found[self.prior_rows] = self.priors.residual(x[None])[0]
        return found

    def of_record(self, index: int, x: Array, record: Record) -> Array:
        """Return the residuals of one sequence, as `rows` has them."""
        candidates = self._complete(x[None])
        rows = {field: values[None] for field, values in record.items()}
        wild = np.array([not all(np.isfinite(values).all() for values in rows.values())])
        block = Block(index, np.zeros(1, dtype=np.int64), rows, wild)
        found = [compared.residual(block, candidates)[0] for compared in self._compared[index]]
        return np.concatenate([np.zeros(0), *found])

    def rows(self, index: int) -> slice:
        """Return where the residuals of a sequence are."""
        compared = self._compared[index]
        return slice(compared[0].rows.start, compared[-1].rows.stop) if compared else slice(0, 0)

    def spread(self, residual: Array, *, robust: bool = False) -> dict[str, float]:
        """Return the root mean square of each sensor's (n,) residuals, dimensionless.

        A robust one is the median absolute residual, scaled to a normal distribution.
        """
        found: dict[str, float] = {}
        for index, sensor in enumerate(self.samples.sensors):
            own = np.abs(residual[self.samples.sensor == index])
            size = np.median(own) / MAD_OF_NORMAL if robust else np.sqrt(np.mean(own**2))
            found[sensor] = float(size)
        return found

    def _complete(self, candidates: Array) -> Array:
        """Return (m, all) candidates with what is not unknown at its nominal value."""
        constants = np.broadcast_to(self._constants, (len(candidates), len(self._constants)))
        return np.concatenate([candidates, constants], axis=1)

    def _probes(
        self, columns: NDArray[np.int64], sharing: Sharing | None
    ) -> list[NDArray[np.int64]]:
        """Group unknowns that act on different sequences, or change different sensors."""
        acts = self._acts.astype(np.float64)
        apart = acts @ acts.T > 0
        if sharing is not None:
            apart &= sharing.apart
        groups: list[list[int]] = []
        for j in columns.tolist():
            free = next((group for group in groups if not apart[j, group].any()), None)
            if free is None:
                groups.append([j])
            else:
                free.append(j)
        return [np.array(members) for members in groups]

    def _simulate(
        self,
        candidates: Array,
        jobs: Sequence[NDArray[np.int64]],
        beside: Array | None = None,
        variants: Sequence[Sequence[Run]] | None = None,
    ) -> Iterator[tuple[int, Block]]:
        """Yield the index of every sequence and the simulations of its candidates.

        Where no unknown acts on simulations, those of one candidate serve all.
        """
        if self._alike is None and self.exact.all():
            one = [np.zeros(1, dtype=np.int64)] * len(self.runs)
            found = {
                run: ({k: rows[0].copy() for k, rows in block.rows.items()}, block.diverged.copy())
                for run, block in self._simulated(candidates, one)
            }
            self._alike = [found[run] for run in range(len(self.runs))]
        if self._alike is None or variants:
            yield from self._simulated(candidates, jobs, beside, variants)
            return
        for run, ((record, diverged), job) in enumerate(zip(self._alike, jobs, strict=True)):
            rows = {k: np.broadcast_to(v, (len(job), *v.shape)) for k, v in record.items()}
            yield run, Block(run, job, rows, np.repeat(diverged, len(job)))

    def _simulated(
        self,
        candidates: Array,
        jobs: Sequence[NDArray[np.int64]],
        beside: Array | None = None,
        variants: Sequence[Sequence[Run]] | None = None,
    ) -> Iterator[tuple[int, Block]]:
        """Do the same, and simulate every candidate."""
        began = time.monotonic()
        for simulator, first, end in zip(
            self.simulators, self._first[:-1].tolist(), self._first[1:].tolist(), strict=True
        ):
            own = variants and variants[first:end]
            for block in simulator.simulate(candidates, jobs[first:end], beside, own):
                self._diverged += int(block.diverged.sum())
                yield first + block.run, block
        self._seconds += time.monotonic() - began

    def _derive(
        self,
        compared: _Compared,
        block: Block,
        x: Array,
        steps: Array,
        exact: NDArray[np.bool_],
        changes: Array,
    ) -> None:
        """Fill in the changes by the unknowns that act on readings only."""
        acting = set().union(*(law.columns for law in compared.readings.laws))
        own = [column for column in acting if column < len(exact) and exact[column]]
        if own:
            rows = {field: values[0] for field, values in block.rows.items()}
            found = compared.readings.derivatives(rows, x, compared.scale)
            for column in set(own) & set(found):
                changes[compared.rows, column] = steps[column] * compared.picked(found[column])


def _extents(runs: Iterable[Run]) -> dict[str, float]:
    """Return the range of each sensor's samples in all sequences."""
    ends: dict[str, tuple[float, float]] = {}
    for sensor, values in measured(runs):
        low, high = ends.get(sensor, (np.inf, -np.inf))
        ends[sensor] = (min(low, float(values.min())), max(high, float(values.max())))
    return {sensor: high - low for sensor, (low, high) in ends.items()}
