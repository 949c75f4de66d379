# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a model and its parameters predict: motion, or the forces along prescribed motions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import FitError
from sysid_ros.model.candidates import CandidateError, Rebuild, writable_model
from sysid_ros.model.kinds import Role
from sysid_ros.model.targets import Unknown
from sysid_ros.signals import PrescribedMotion, Trajectory
from sysid_ros.simulation.inverse import (
    GEOMETRY,
    LINEAR,
    force_weights,
    kept_regressor,
    numbers_of,
    regressor,
)
from sysid_ros.simulation.runs import ROUNDING, SENSORS, Run, measurement_models, prepare
from sysid_ros.simulation.simulator import Block, Drives, Simulator

Array = NDArray[np.float64]


def _first_kept(motion: PrescribedMotion) -> int:
    """Return the number of the first row that is kept of a motion, in strides."""
    return -(-motion.first // motion.stride)


class InverseSimulator(Simulator):
    """Computes the forces that prescribed motions need, in place of simulating them.

    A force is that of all actuators of a joint together; there are no contacts, limits or equality
    constraints. Forces are those of MuJoCo's steps, which see velocities half a step before and
    after the derivative of the positions.
    """

    prescribed = True

    def _prepare(self, sequences: Sequence[Trajectory]) -> None:
        super()._prepare(sequences)
        self._weights = force_weights(self.model)
        self._regressors = [kept_regressor(self.model, motion) for motion in self._motions]

    @property
    def _motions(self) -> Iterator[PrescribedMotion]:
        for run in self.runs:
            assert run.sequence.motion is not None  # noqa: S101
            yield run.sequence.motion

    def _prepared(self, sequence: Trajectory) -> Run:
        motion = sequence.motion
        assert motion is not None  # noqa: S101
        return prepare(self.model, sequence, self._lead, motion.interval * motion.stride)

    def simulate(
        self,
        candidates: Array,
        wanted: Sequence[NDArray[np.int64]],
        beside: Array | None = None,  # noqa: ARG002
        variants: Sequence[Sequence[Run]] | None = None,  # noqa: ARG002
    ) -> Iterator[Block]:
        """Yield the forces along each motion for some candidates; see `Simulator.simulate`."""
        self.refused = {}
        numbers, moved, gears = self._read(candidates, sorted({int(c) for w in wanted for c in w}))
        weights = {
            gear: force_weights(self.model, np.frombuffer(gear))
            for gear in {row.tobytes() for row in gears}
        }
        for index, (run, motion) in enumerate(zip(self.runs, self._motions, strict=True)):
            which = np.asarray(wanted[index], dtype=np.int64)
            if not len(which):
                continue
            forces = self._forces(index, motion, numbers, moved, which)
            rows = np.zeros((len(which), run.steps, self.model.nsensordata))
            first = _first_kept(motion)
            last = min(first + forces.shape[2], run.steps)
            for place, candidate in enumerate(which.tolist()):
                for column, own in weights[gears[candidate].tobytes()].items():
                    rows[place, first:last, column] = own @ forces[place, :, : last - first]
            for column in self._weights:
                # A delay may look a little beyond the ends.
                rows[:, :first, column] = rows[:, first, None, column]
                rows[:, last:, column] = rows[:, last - 1, None, column]
            self.rollouts += len(which)
            lost = np.array([candidate in self.refused for candidate in which.tolist()])
            yield Block(index, which, {SENSORS: rows}, lost)

    def joint_forces(self, candidates: Array) -> list[Array]:
        """Return the (m, nv, n) forces of all joints along each motion, N·m or N."""
        every = np.arange(len(candidates))
        numbers, moved, _ = self._read(candidates, every.tolist())
        return [
            self._forces(index, motion, numbers, moved, every)
            for index, motion in enumerate(self._motions)
        ]

    def _forces(
        self,
        index: int,
        motion: PrescribedMotion,
        numbers: Array,
        moved: Mapping[int, mujoco.MjModel],
        which: NDArray[np.int64],
    ) -> Array:
        forces = self._regressors[index].forces(numbers[which])
        for place, candidate in enumerate(which.tolist()):
            if candidate in moved:
                own = regressor(moved[candidate], motion)
                forces[place] = own.forces(numbers[[candidate]])[0]
        return forces

    @property
    def linear(self) -> bool:
        """Whether all that unknowns decide of the forces are numbers that these are linear in."""
        fields = {
            field
            for unknown in self.parameters
            for target in unknown.targets
            for field in target.fields(self.model)
        }
        return not self._build and fields.isdisjoint({*GEOMETRY, 'actuator_gear'})

    def lines(self, index: int, column: int) -> Array:
        """Return (steps, k + 1) what a sensor's force is linear in, and its rest, along a motion.

        The k numbers are those of `numbers_of`.
        """
        run, motion = self.runs[index], tuple(self._motions)[index]
        found = self._regressors[index].lines(self._weights[column])
        # A delay may look a little beyond the ends.
        rows = np.clip(np.arange(run.steps) - _first_kept(motion), 0, len(found) - 1)
        return np.asarray(found[rows])

    def equations(self) -> dict[str, tuple[Array, Array]]:
        """Return what the forces of each sensor are linear in, over all motions.

        That is (n, k) lines of the `Regressor`, and the (n,) readings less its rest.
        """
        found: dict[str, list[Array]] = {}
        for index, run in enumerate(self.runs):
            for readings in run.readings:
                for sensor, column, values in zip(
                    readings.sensors, readings.columns.tolist(), readings.measured.T, strict=True
                ):
                    both = np.column_stack([readings.at_stamps(self.lines(index, column)), values])
                    found.setdefault(sensor, []).append(both[np.isfinite(values)])
        tables = {sensor: np.concatenate(parts) for sensor, parts in found.items()}
        return {s: (table[:, :-2], table[:, -1] - table[:, -2]) for s, table in tables.items()}

    def numbers_of(self, candidates: Array) -> Array:
        """Return (m, k) what candidates have for the columns of `equations`."""
        return self._read(candidates, range(len(candidates)))[0]

    def unexplained(self) -> dict[str, float]:
        """Return the size of what no rigid bodies with linear friction explain, by sensor.

        It is what a linear regression on all numbers of all bodies and joints, physical or not,
        and an offset leaves of the sensor's forces.
        """
        found = {}
        for sensor, (lines, force) in self.equations().items():
            matrix = np.column_stack([lines, np.ones(len(force))])
            matrix /= np.linalg.norm(matrix, axis=0) + ROUNDING
            x, _, rank, _ = np.linalg.lstsq(matrix, force, rcond=ROUNDING)
            squares = float(np.sum((force - matrix @ x) ** 2))
            found[sensor] = float(np.sqrt(squares / max(len(force) - int(rank), 1))) + ROUNDING
        return found

    def _read(
        self, candidates: Array, needed: Iterable[int]
    ) -> tuple[Array, dict[int, mujoco.MjModel], Array]:
        """Return (m, k) numbers, models in which bodies move otherwise, and (m, …) gears."""
        count = len(candidates)
        own = {field: np.asarray(attrgetter(field)(self.model)) for field in (*LINEAR, *GEOMETRY)}
        fields = {field: np.repeat(values[None], count, axis=0) for field, values in own.items()}
        models = {}
        if not self._build:
            fields = self.fields(candidates, own)
        for candidate in needed if self._build else ():
            try:
                models[candidate] = model = self.compiled(candidates[candidate])
            except CandidateError as err:
                self.refused[candidate] = err
                self.refusals += 1
                continue
            for field, values in fields.items():
                values[candidate] = attrgetter(field)(model)
        same = np.ones(count, dtype=bool)
        for field in GEOMETRY:
            same &= np.all((fields[field] == own[field]).reshape(count, -1), axis=1)
        moved = {
            candidate: models.get(candidate) or self.compiled(candidates[candidate])
            for candidate in needed
            if not same[candidate] and candidate not in self.refused
        }
        gears = fields['actuator_gear'].reshape(count, -1)
        return numbers_of(self.model, fields), moved, gears


@dataclass(frozen=True)
class Prediction:
    """What a candidate predicts for one sequence."""

    channels: tuple[Array, ...]  # one (1, n, k) array per measured series
    diverged: NDArray[np.bool_]  # (1,) whether the simulation became unstable


def make_simulator(
    model: mujoco.MjModel | mujoco.MjSpec,
    unknowns: Sequence[Unknown],
    sequences: Sequence[Trajectory],
    threads: int = 0,
    *,
    drives: Drives | None = None,
) -> Simulator:
    """Return what simulates candidates or, where all motions are prescribed, the forces along them.

    The model is a spec, or what it compiled to if no unknown needs another compilation. With 0
    threads there is one per core. Commands of actuators that laws drive are goals.

    Raises:
        FitError: An unknown needs the spec, or a sequence does not fit the model.
        ModelError: The spec does not compile.
        ParameterError: An unknown is a number of a law that is not there, or one of the model that
            a law decides.
    """
    prescribed = bool(sequences) and all(sequence.motion is not None for sequence in sequences)
    kind = InverseSimulator if prescribed else Simulator
    # A negative delay of a sensor looks beyond the last sample.
    lead = 0.0
    for unknown in unknowns:
        if any(t.role is Role.SENSOR and t.attribute == 'delay' for t in unknown.targets):
            lead = max(lead, -unknown.min_value)
    if isinstance(model, mujoco.MjModel):
        for unknown in unknowns:
            if any(target.role is Role.SPEC for target in unknown.targets):
                raise FitError(
                    f'Parameter {unknown.name!r} is read by the compiler: expected the spec of the '
                    'model, found a compiled model.'
                )
        return kind(model, unknowns, sequences, threads, lead=lead, drives=drives)
    rebuild = Rebuild(model, unknowns)
    build = rebuild if rebuild.columns else None
    compiled = (
        rebuild(np.array([unknown.nominal for unknown in unknowns]))
        if build
        else writable_model(model, [target for u in unknowns for target in u.targets])
    )
    return kind(compiled, unknowns, sequences, threads, build=build, lead=lead, drives=drives)


def predict(
    model: mujoco.MjModel | mujoco.MjSpec,
    sequences: Sequence[Trajectory],
    parameters: Sequence[Unknown] = (),
    values: NDArray[np.float64] | None = None,
    threads: int = 0,
    *,
    drives: Drives | None = None,
) -> tuple[Prediction, ...]:
    """Simulate sequences with a model as it is, or with parameters set to (p,) values.

    What belongs to sequences that are not among these is ignored; other arguments and errors are
    those of `make_simulator`.

    Returns:
        For each sequence what sensors with their gains, biases and delays say; NaN at instants
        when they would describe a time before the start.
    """
    x = np.zeros(0) if values is None else values
    each = predict_each(model, sequences, parameters, x[None], threads, drives=drives)
    found = {
        run: Prediction(tuple(channel[None] for channel in channels), np.array([diverged]))
        for run, _, channels, diverged in each
    }
    return tuple(found[index] for index in range(len(found)))


def predict_each(
    model: mujoco.MjModel | mujoco.MjSpec,
    sequences: Sequence[Trajectory],
    parameters: Sequence[Unknown],
    candidates: NDArray[np.float64],
    threads: int = 0,
    *,
    drives: Drives | None = None,
) -> Iterator[tuple[int, int, tuple[NDArray[np.float64], ...], bool]]:
    """Simulate sequences with (m, p) candidates, as `predict` does with one.

    Yields index of the sequence and of the candidate, the (n, width) predictions of each of its
    series, and whether it became unstable; those of a sequence in the order of the candidates.
    """
    laws = measurement_models(parameters)
    with make_simulator(model, parameters, sequences, threads, drives=drives) as simulator:
        every = np.arange(len(candidates))
        for block in simulator.simulate(candidates, [every] * len(simulator.runs)):
            for place, candidate in enumerate(block.candidates.tolist()):
                rows = {field: values[place] for field, values in block.rows.items()}
                x, channels = candidates[candidate], []
                for bare in simulator.runs[block.run].readings:
                    readings = bare.under(laws)
                    delays = np.array(
                        [0.0 if law.delay is None else x[law.delay] for law in readings.laws]
                    )
                    early = (readings.times[:, None] - delays < 0) & (delays > 0)
                    channels.append(np.where(early, np.nan, readings.predicted(rows, x)))
                yield block.run, candidate, tuple(channels), bool(block.diverged[place])
