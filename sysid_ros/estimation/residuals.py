# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Measured minus predicted, in units of each sensor's noise."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysid_ros.estimation.layout import Compared, Part, dead_sensors, lay_out, samples_of
from sysid_ros.estimation.noise import MAD_OF_NORMAL, measured
from sysid_ros.estimation.priors import JointPrior, prior_rows
from sysid_ros.estimation.solver.differences import Differences, StepChanges
from sysid_ros.estimation.solver.solver import Solution
from sysid_ros.model.unknown import Unknown
from sysid_ros.rollout.measurement import MeasurementModel, Signal, combined, measurement_models
from sysid_ros.rollout.simulation import Block, Simulator
from sysid_ros.signals.trajectory import Trajectory

Predicted = tuple[NDArray[np.float64], ...]
Record = dict[str, NDArray[np.float64]]

#: Residual of every sample of a diverged simulation, in units of the noise: above what any stable
#: candidate gives, and finite, so that the solver steps back. It is at least the first, and at
#: least the second times the range of the channel, or so many SI units where it moved less. No
#: residual is larger, or diverging would look better than being wrong.
DIVERGED = 1e4
_DIVERGED_RANGES = 10.0
#: Simulations of the last candidate are kept up to this size, bytes.
_LARGEST_MEMO = 16e6


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
        unstable: (m,) whether each candidate of the last call became unstable on some sequence.
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
        """Lay out the residual vector.

        Args:
            simulators: What predicts, one per model, all for the same candidates.
            noise: Sensor name to the standard deviation that its residuals are divided by.
            unknowns: What a candidate's values are; the default is all of the first simulator's,
                else its first ones, and the others stay at their nominal values.
            laws: Sensor, or axis of one, to the columns that act on its reading, beside those
                whose targets do.
            weights: Per simulator, sensor name to a factor on its residuals; 1 unless given.
            enabled: Per simulator, whether a sensor counts; all do unless given.
            memory: What is known of some unknowns together, beside each one's own prior.

        Raises:
            FitError: No sequence holds a measured sample that counts.
        """
        self.simulators = (simulators,) if isinstance(simulators, Simulator) else tuple(simulators)
        self._all = self.simulators[0].parameters
        self.unknowns = tuple(self._all if unknowns is None else unknowns)
        count = len(self.unknowns)
        self._constants = np.array([unknown.nominal for unknown in self._all[count:]])
        self._diverged = 0
        self._parts_of_data: list[Residuals] = []
        self.unstable = np.zeros(0, dtype=bool)
        self.runs = tuple(run for simulator in self.simulators for run in simulator.runs)
        self.memory = memory
        self._made: dict[str, Any] = {
            'laws': laws,
            'weights': weights,
            'enabled': enabled,
            'memory': memory,
        }
        self._laws = measurement_models(self._all)
        for signal, law in (laws or {}).items():
            self._laws[signal] = combined(self._laws.get(signal, MeasurementModel()), law)
        acts = np.concatenate([simulator.acts() for simulator in self.simulators], axis=1)
        self._acts = acts[:count]
        lawful = set().union(*(law.columns for law in self._laws.values()))
        self.exact = np.array(
            [j in lawful and not self._acts[j].any() for j in range(len(self.unknowns))], dtype=bool
        )
        counts = [enabled[i] if enabled else (lambda _: True) for i in range(len(self.simulators))]
        self._weights = [weights[i] if weights else {} for i in range(len(self.simulators))]
        self.dead = dead_sensors(self.runs)
        self._parts = lay_out(self.simulators, self._laws, self._all, counts, self.dead)
        self._first = np.cumsum([0, *(len(simulator.runs) for simulator in self.simulators)])
        self.priors = prior_rows(self.unknowns, memory)
        owners = self._acts[self.priors.unknown].argmax(axis=1)
        bags = tuple(run.sequence.bag or run.sequence.name for run in self.runs)
        self.samples = samples_of(
            self.simulators, self._parts, owners, self.dead, self.priors.variance, bags
        )
        end = len(self.samples.time)
        self.prior_rows = slice(end - len(owners), end)
        self._extents = dict.fromkeys(self.samples.sensors, 1.0)
        for sensor, values in measured(self.runs):
            if sensor in self._extents:
                self._extents[sensor] = max(self._extents[sensor], float(np.ptp(values)))
        self._memo: tuple[bytes, dict[int, dict[str, NDArray[np.float64]]]] | None = None
        self.set_noise(noise)

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
    def at_once(self) -> int:
        """Number of candidates that are simulated in the time of one."""
        return max(self.simulators[0].threads // len(self.runs), 1)

    @property
    def refusals(self) -> int:
        """Number of candidates so far that no model could be built for, for each simulator."""
        own = sum(simulator.refusals for simulator in self.simulators)
        return own + sum(part.refusals for part in self._parts_of_data)

    def check(self, x: NDArray[np.float64]) -> None:
        """Check that a candidate has a model.

        Raises:
            CandidateError: No model can be built with its values.
        """
        for simulator in self.simulators:
            simulator.check(x)

    def set_noise(self, noise: Mapping[str, float]) -> None:
        """Change the scales, sensor name to standard deviation in the sensor's unit."""
        self.noise = {sensor: float(noise[sensor]) for sensor in self.samples.sensors}
        for part in self._parts:
            weights = self._weights[part.simulator]
            for compared in part.compared:
                sensors = compared.readings.sensors
                sigma = np.array([self.noise.get(sensor, 1.0) for sensor in sensors])
                extent = np.array([self._extents.get(sensor, 1.0) for sensor in sensors])
                weight = np.array([weights.get(sensor, 1.0) for sensor in sensors])
                compared.scale = weight / sigma
                largest = np.maximum(DIVERGED, _DIVERGED_RANGES * extent / sigma)
                compared.limit = np.maximum(np.abs(weight), 1e-300) * largest

    def __call__(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (n, m) residuals of (m, p) candidates, dimensionless."""
        return self._evaluate(candidates, None)

    def compare(
        self, candidates: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], list[list[Predicted]]]:
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

    def _evaluate(
        self, candidates: NDArray[np.float64], predicted: list[list[Predicted]] | None
    ) -> NDArray[np.float64]:
        candidates = self._complete(candidates)
        found = np.empty((len(candidates), len(self.samples.time)))
        every = np.arange(len(candidates))
        self.unstable = np.zeros(len(candidates), dtype=bool)
        for part, block in self._simulate(candidates, [every] * len(self.runs)):
            self.unstable[block.candidates] |= block.diverged
            for compared in part.compared:
                values = self._residual(compared, block, candidates)
                found[block.candidates, compared.rows] = values
            if predicted is None:
                continue
            for place, candidate in enumerate(block.candidates):
                rows = {field: values[place] for field, values in block.rows.items()}
                x = candidates[candidate]
                predicted[part.index][candidate] = tuple(
                    compared.readings.predicted(rows, x) for compared in part.compared
                )
        found[:, self.prior_rows] = self.priors.residual(candidates)
        residual: NDArray[np.float64] = found.T
        return residual

    def step_changes(
        self,
        x: NDArray[np.float64],
        steps: NDArray[np.float64],
        columns: NDArray[np.bool_] | None = None,
        base: NDArray[np.float64] | None = None,
    ) -> StepChanges:
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
        for part, block in self._simulate(candidates, jobs, candidates[0]):
            moved = block.candidates > 0
            unstable |= bool(block.diverged[~moved].any())
            # Of the unknowns that a candidate moves, one acts on this sequence.
            chosen = [probes[candidate - 1] for candidate in block.candidates[moved]]
            own = [int(probe[self._acts[probe, part.index]][0]) for probe in chosen]
            wild[own] |= block.diverged[moved]
            for compared in part.compared:
                values = self._residual(compared, block, candidates)
                if not moved.all():
                    residual[compared.rows] = values[~moved][0]
                    self._derive(compared, block, candidates[0], steps, exact, changes)
                changes[compared.rows, own] = (values[moved] - residual[compared.rows]).T
        if base is None:
            residual[self.prior_rows] = self.priors.residual(candidates[:1])[0]
        changes[self.prior_rows] = -self.priors.matrix * np.where(wanted, steps, 0.0)
        return StepChanges(residual, changes, wild, unstable)

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
        """Return a solution with what this has more, unknown but at its nominal value.

        Args:
            solution: Of other residuals of the same data.
            fewer: Those residuals, whose unknowns are the first of this.
        """
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
        """Change the scales, and return a solution in the new ones.

        Args:
            solution: Residuals and Jacobian in the present scales.
            noise: Sensor name to standard deviation in the sensor's unit.
        """
        factor = self.factors(noise)
        self.set_noise(noise)
        return dataclasses.replace(
            solution,
            residual=solution.residual * factor,
            jacobian=solution.jacobian * factor[:, None],
        )

    def factors(self, noise: Mapping[str, float]) -> NDArray[np.float64]:
        """Return what the (n,) residuals would be multiplied by in other scales."""
        ratios = np.array([self.noise[sensor] / noise[sensor] for sensor in self.samples.sensors])
        return np.where(self.samples.sensor < 0, 1.0, ratios[self.samples.sensor])

    def delays(self, index: int, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how much later than its stamps each command of a sequence acts, s."""
        part = self._parts[index]
        return self.simulators[part.simulator].delays(part.run, self._complete(x[None])[0])

    def common_delays(self) -> NDArray[np.float64]:
        """Return the (number of sequences, p) derivatives of the mean delay of their commands."""
        found = [self.simulators[part.simulator].common_delay(part.run) for part in self._parts]
        return np.array(found)[:, : len(self.unknowns)]

    def retime(self, times: Sequence[Sequence[NDArray[np.float64]]]) -> None:
        """Give the commands of each sequence other stamps, (n,) seconds for each series."""
        for index, simulator in enumerate(self.simulators):
            simulator.retime(times[self._first[index] : self._first[index + 1]])
        self.runs = tuple(run for simulator in self.simulators for run in simulator.runs)
        self._memo = None

    @property
    def commands(self) -> int:
        """Number of controls."""
        return int(max(simulator.model.nu for simulator in self.simulators))

    @property
    def width(self) -> int:
        """How many numbers a simulation records in each step, at most."""
        return max(simulator.width for simulator in self.simulators)

    @property
    def delays_are_added(self) -> bool:
        """Whether delays of commands are added to their stamps, and not left to MuJoCo."""
        return all(simulator.delays_are_added for simulator in self.simulators)

    def records(self, x: NDArray[np.float64]) -> list[Record]:
        """Return what is recorded of each sequence's simulation with a (p,) candidate."""
        every = [np.zeros(1, dtype=np.int64)] * len(self.runs)
        found: list[Record] = [{} for _ in self.runs]
        for part, block in self._simulate(self._complete(x[None]), every):
            found[part.index] = {field: rows[0].copy() for field, rows in block.rows.items()}
        return found

    def pushed(self, x: NDArray[np.float64], pushes: Sequence[NDArray[np.float64]]) -> list[Record]:
        """Return what is recorded with a (p,) candidate whose commands are pushed in m ways.

        Args:
            x: The candidate.
            pushes: For each sequence, (m, steps, nu) what is added to its commands.

        Returns:
            For each sequence, (m, n, width) records.
        """
        count = len(pushes[0])
        candidates = np.repeat(self._complete(x[None]), count, axis=0)
        found: list[list[Record]] = [[] for _ in self.runs]
        for index, simulator in enumerate(self.simulators):
            own = pushes[self._first[index] : self._first[index + 1]]
            every = [np.arange(count)] * len(own)
            for block in simulator.simulate(candidates, every, pushes=own):
                self._diverged += int(block.diverged.sum())
                rows = {field: values.copy() for field, values in block.rows.items()}
                found[int(self._first[index]) + block.run].append(rows)
        return [
            {field: np.concatenate([rows[field] for rows in parts]) for field in parts[0]}
            for parts in found
        ]

    def of_records(self, x: NDArray[np.float64], records: Sequence[Record]) -> NDArray[np.float64]:
        """Return the (n,) residuals of a (p,) candidate whose simulations recorded this."""
        found = np.empty(len(self.samples.time))
        for index, record in enumerate(records):
            found[self.rows(index)] = self.of_record(index, x, record)
        found[self.prior_rows] = self.priors.residual(x[None])[0]
        return found

    def of_record(self, index: int, x: NDArray[np.float64], record: Record) -> NDArray[np.float64]:
        """Return the residuals of one sequence, as `rows` has them."""
        part, candidates = self._parts[index], self._complete(x[None])
        rows = {field: values[None] for field, values in record.items()}
        wild = np.array([not all(np.isfinite(values).all() for values in rows.values())])
        block = Block(part.run, np.zeros(1, dtype=np.int64), rows, wild)
        found = [self._residual(compared, block, candidates)[0] for compared in part.compared]
        return np.concatenate([np.zeros(0), *found])

    def rows(self, index: int) -> slice:
        """Return where the residuals of a sequence are."""
        compared = self._parts[index].compared
        if not compared:
            return slice(0, 0)
        return slice(compared[0].rows.start, compared[-1].rows.stop)

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

    def _probes(self, columns: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Group unknowns that act on different sequences."""
        groups: list[tuple[list[int], NDArray[np.bool_]]] = []
        for j in columns:
            acts = self._acts[j]
            if acts.all():
                groups.append(([int(j)], acts))
                continue
            free = next((group for group in groups if not np.any(group[1] & acts)), None)
            if free is None:
                groups.append(([int(j)], acts.copy()))
            else:
                free[0].append(int(j))
                free[1][acts] = True
        return [np.array(members) for members, _ in groups]

    def _simulate(
        self,
        candidates: NDArray[np.float64],
        jobs: Sequence[NDArray[np.int64]],
        beside: NDArray[np.float64] | None = None,
    ) -> Iterator[tuple[Part, Block]]:
        """Yield every sequence with its simulations, no two of them for the same dynamics."""
        keys = [bytes(x[: len(self.exact)][~self.exact].tobytes()) for x in candidates]
        leaders = [keys.index(key) if self.exact.any() else i for i, key in enumerate(keys)]
        known = self._memo[1] if self._memo is not None and self._memo[0] == keys[0] else {}
        keep: dict[int, dict[str, NDArray[np.float64]]] = {}
        for index, simulator in enumerate(self.simulators):
            first = int(self._first[index])
            own = jobs[first : first + len(simulator.runs)]
            followers = [
                {i: [c for c in some.tolist() if leaders[c] == i] for i in leaders} for some in own
            ]
            wanted = []
            for run, some in enumerate(own):
                leading = sorted({leaders[c] for c in some.tolist()})
                if leading and leading[0] == 0 and first + run in known:
                    leading = leading[1:]
                    yield from self._shared(first + run, run, followers[run][0], known[first + run])
                wanted.append(np.array(leading, dtype=np.int64))
            for block in simulator.simulate(candidates, wanted, beside):
                self._diverged += int(block.diverged.sum())
                if block.candidates[0] == 0 and not block.diverged[0]:
                    keep[first + block.run] = {k: v[:1].copy() for k, v in block.rows.items()}
                yield self._parts[first + block.run], block
                for place, leader in enumerate(block.candidates.tolist()):
                    rest = [c for c in followers[block.run][leader] if c != leader]
                    rows = {k: v[place : place + 1] for k, v in block.rows.items()}
                    wild = bool(block.diverged[place])
                    yield from self._shared(first + block.run, block.run, rest, rows, wild=wild)
        size = sum(rows.nbytes for some in keep.values() for rows in some.values())
        if keep and size < _LARGEST_MEMO:
            self._memo = (keys[0], keep)

    def _shared(
        self,
        index: int,
        run: int,
        candidates: list[int],
        rows: dict[str, NDArray[np.float64]],
        *,
        wild: bool = False,
    ) -> Iterator[tuple[Part, Block]]:
        """Yield the simulation of one candidate for others that differ in sensors' laws only."""
        if candidates:
            count = len(candidates)
            yield (
                self._parts[index],
                Block(
                    run,
                    np.array(candidates, dtype=np.int64),
                    {k: np.broadcast_to(v, (count, *v.shape[1:])) for k, v in rows.items()},
                    np.full(count, wild),
                ),
            )

    @staticmethod
    def _residual(
        compared: Compared, block: Block, candidates: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the (m, counted samples) residuals of one series."""
        readings, limit = compared.readings, compared.limit
        if readings.lawful:
            values = np.stack(
                [
                    readings.residual(
                        {field: rows[place] for field, rows in block.rows.items()},
                        candidates[candidate],
                    )
                    for place, candidate in enumerate(block.candidates)
                ]
            )
        else:
            values = readings.measured - readings.simulated(block.rows)
        values *= compared.scale
        if block.diverged.any():
            values[block.diverged] = limit
        np.clip(values, -limit, limit, out=values)
        return compared.picked(values)

    def _derive(
        self,
        compared: Compared,
        block: Block,
        x: NDArray[np.float64],
        steps: NDArray[np.float64],
        exact: NDArray[np.bool_],
        changes: NDArray[np.float64],
    ) -> None:
        """Fill in the changes by the unknowns that act on readings only."""
        acting = set().union(*(law.columns for law in compared.readings.laws))
        own = [column for column in acting if column < len(exact)]
        if not exact[own].any():
            return
        rows = {field: values[0] for field, values in block.rows.items()}
        found = compared.readings.derivatives(rows, x, compared.scale)
        for column, derivative in found.items():
            if column in own and exact[column]:
                changes[compared.rows, column] = steps[column] * compared.picked(derivative)
