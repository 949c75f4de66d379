# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Simulating every sequence with every candidate, in one batch on one thread pool.

A simulation holds the mean of a command over each time step, so that predictions change smoothly
with a delay. A driver reads no mean: where states and commands are synchronous, every force is
read just before or just after a command came to act, and a stiff servo's differ by much. A force
with a fixed gain is therefore taken apart: what follows the state is interpolated between steps,
and the gain times the command in force at the stamp is added.
"""

from __future__ import annotations

import copy
import math
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, Self

import mujoco
import numpy as np
from mujoco.batch import Batch
from numpy.typing import NDArray

from sysid_ros.errors import FitError, ParameterError
from sysid_ros.model.candidates import APART, CandidateError, Rebuild, Writer, set_all_apart
from sysid_ros.model.elements import SCALAR_JOINTS, TO_JOINT
from sysid_ros.model.kinds import Role
from sysid_ros.model.targets import Target, Unknown
from sysid_ros.signals import Trajectory
from sysid_ros.simulation.bases import weighted
from sysid_ros.simulation.runs import (
    ROUNDING,
    SENSORS,
    Command,
    HeldCommand,
    InterpolatedCommand,
    Run,
    prepare,
)

Array = NDArray[np.float64]


#: Sequences whose lengths differ by less than this factor share a batch, the shorter ones padded.
_LENGTH_FACTOR = 1.25
#: What a batch records is kept below this, bytes, so that memory does not grow with the data.
_LARGEST_RECORD = 3e6
#: So many simulations for each thread are one batch at most: each needs memory of its own.
_PER_THREAD = 8
#: What a batch records where laws are evaluated between steps, bytes: that costs hardly more for
#: many simulations than for one.
_LARGEST_DRIVEN_RECORD = 128e6
#: So much is kept at once of what takes memory for each candidate: controls of commands, and
#: simulations that are driven by laws.
_MOST_KEPT = 256
#: The state vector that holds nothing but the time.
_CLOCK = mujoco.mjtState.mjSTATE_TIME.value
#: What is set before each step.
_CONTROLS = mujoco.mjtState.mjSTATE_CTRL.value
_CONTROLS_AND_FORCES = _CONTROLS | mujoco.mjtState.mjSTATE_QFRC_APPLIED.value
#: The number of contacts, and what tells simulations whether to look for them.
_CONTACTS, _FLAGS = 'ncon', 'opt.disableflags'
#: Recorded after each step, so that row k describes the state at ``(k + 1) * timestep``.
_STATE = ('qpos', 'qvel', 'act')


_lock = threading.Lock()
#: What was set when each that is silent now began; the first is what the user had.
_silent: list[mujoco.MjLogConfig] = []


@contextmanager
def unlogged() -> Iterator[None]:
    """Let MuJoCo write nothing of what diverges, to no console and no file: that is counted."""
    with _lock:
        before = mujoco.MjLogConfig.get()
        if not _silent:
            quiet = mujoco.MjLogConfig.get()
            quiet.logto_console = quiet.logto_file = False
            quiet.set()
        _silent.append(before)
    try:
        yield
    finally:
        with _lock:
            if len(_silent) == 1:
                _silent[0].set()
            _silent.pop()


class Stepper(Protocol):
    """Steps simulations of one model with some unknowns.

    Attributes:
        fields: Fields of the model that it writes, each simulation having its own values.
    """

    fields: frozenset[str]

    def roll(
        self, batch: Batch, control: Array, values: Array, record: Mapping[Any, Array]
    ) -> None:
        """Simulate the first n simulations of a batch from the states that they are in.

        The (n, steps, nu) controls of driven actuators are goals; (n, p) values are of the
        unknowns. What ``Batch.rollout`` may be asked to record comes with the (n, steps, width)
        arrays that are filled in as it does: states after each step, sensors before it.
        """


class Drives(Protocol):
    """Which actuators of a model are driven by laws."""

    def prepared(self, model: mujoco.MjModel) -> mujoco.MjModel:
        """Return a copy of a compiled model whose driven actuators exert what they are told."""

    def stepper(self, model: mujoco.MjModel, written: Sequence[tuple[Target, int]]) -> Stepper:
        """Return what steps simulations of a prepared model, from targets and their columns.

        Raises:
            ParameterError: A target is a number of a law that its actuator does not have, or a
                number of the model that a law decides.
        """


def no_law(target: Target) -> ParameterError:
    """Return the error that an actuator is driven by no law."""
    return ParameterError(
        f'Target {target.path!r} is a number of a servo, and no servo drives actuator '
        f"{target.name!r}: expected the actuator under 'servos', with type and model, or params."
    )


class Pool:
    """A ``mujoco.batch.Batch`` that grows, shared by all that simulate the same model."""

    def __init__(
        self,
        model: mujoco.MjModel,
        writer: Writer | None,
        threads: int,
        size: int,
        *,
        also: frozenset[str] = frozenset(),
    ) -> None:
        """Keep what the batch of a compiled model is made of, ready for so many simulations.

        There is no writer where each candidate has its own model. Each simulation has its own
        values of the fields that it writes and of others.
        """
        self._model = model
        self._writer = writer
        self._threads = threads
        self._size = max(size, 2 * threads)
        self._also = also
        self._batch: Batch | None = None
        self._fields: dict[str, Array] = {}
        self._buffers: dict[Any, Array] = {}

    def clear(self) -> None:
        """Let go of the batch, its threads and the buffers."""
        self._batch = None
        self._fields.clear()
        self._buffers.clear()

    def batch(self, count: int) -> Batch:
        """Return the batch, with room for a number of simulations."""
        if self._batch is None or self._batch.nsim < count:
            self._size = max(self._size, count)
            self._fields.clear()
            self._batch = Batch(self._model, self._size, self._threads)
            for field in sorted(self._also):
                self._batch.expand(field)
            if self._writer is not None:
                for field in sorted(self._writer.fields.union(self._writer.frames)):
                    values = self._batch.expand(field)
                    self._fields[field] = values.reshape(self._batch.nsim, -1)
        return self._batch

    def values(self, field: str, places: NDArray[np.int64]) -> Array:
        """Return the (n, size) numbers that the simulations at (n,) places have in a field."""
        own = self._fields.get(field)
        if own is not None:
            return own[places]
        return np.tile(np.ravel(getattr(self._model, field)), (len(places), 1))

    def buffer(self, item: Any, shape: tuple[int, ...]) -> Array:
        """Return an array for what is recorded, in memory that is used again by the next."""
        size = math.prod(shape)
        flat = self._buffers.get(item)
        if flat is None or flat.size < size:
            flat = self._buffers[item] = np.empty(size)
        return flat[:size].reshape(shape)

    def write(self, candidates: Array, which: NDArray[np.int64]) -> None:
        """Give the first n simulations the values of some of (m, p) candidates, by index."""
        if self._writer is None or not self._writer.fields:
            return
        batch, count = self.batch(len(which)), len(which)
        for field, index, data in self._writer.assignments(candidates):
            self._fields[field][:count, index] = data[which]
        if not self._writer.constant:
            batch.set_const(np.arange(count))
        for field, rows in self._writer.frames.items():
            self._fields[field][:count, rows] = APART


#: Switches the search for contacts off.
WITHOUT = mujoco.mjtDisableBit.mjDSBL_CONTACT.value


def may_touch(model: mujoco.MjModel) -> bool:
    """Return whether a model has anything that touches, and all of that is counted."""
    masks = np.bitwise_or(model.geom_contype, model.geom_conaffinity)
    pairs = model.npair > 0 or np.count_nonzero(masks) > 1
    # Contacts of flexible bodies are not all among those that MuJoCo counts.
    return bool(pairs and not model.opt.disableflags & WITHOUT and not model.nflex)


class Contacts:
    """Whether anything touched, by point and sequence.

    Looking for contacts takes half of the time of a robot with meshes, mostly to find none. A
    difference moves a simulation so little that it touches what was touched before it, and nothing
    else: where that was nothing, the same numbers come of a simulation that does not look.
    """

    def __init__(self, runs: int, columns: NDArray[np.bool_]) -> None:
        """Begin without knowledge of so many sequences, of which (p,) values change simulations."""
        self._columns = columns
        self._nothing = np.zeros(runs, dtype=bool)
        self._free: dict[bytes, NDArray[np.bool_]] = {}

    def free(self, point: Array | None) -> NDArray[np.bool_]:
        """Return (number of sequences,) where nothing touches at a (p,) point, if that is known."""
        if point is None:
            return self._nothing
        return self._free.get(self._key(point), self._nothing)

    def note(self, point: Array, run: int, contacts: NDArray[np.int32]) -> None:
        """Remember a simulation at a (p,) point by the numbers of its contacts."""
        free = self._free.setdefault(self._key(point), self._nothing.copy())
        free[run] = not contacts.any()

    def _key(self, point: Array) -> bytes:
        return bytes(point[self._columns].tobytes())


class Timing(NamedTuple):
    """Columns of a candidate that say when the commands of a sequence act."""

    #: Seconds by which all act later than their stamps and delays say; None for 0.
    offset: int | None = None
    #: What is said of the updates of its controller (see `InterpolatedCommand.updated`); empty
    #: where what it asks for is taken to change all the time.
    updates: Mapping[str, int] = MappingProxyType({})
    #: Message that is interpolated to the seconds by which it acts later than the others.
    messages: Mapping[int, int] = MappingProxyType({})


class Controls:
    """Turns the commands of a sequence into one control per step and candidate."""

    def __init__(
        self,
        model: mujoco.MjModel,
        written: list[tuple[Target, int]],
        *,
        native: bool = False,
        shown: Mapping[int, tuple[float, float]] = MappingProxyType({}),
    ) -> None:
        """Find the columns that act on commands, from targets and their columns.

        A ``native`` simulation applies the model's delays itself. Forces show of a delay, by its
        column, between which two it is.
        """
        self._shown = shown
        self._nu = model.nu
        self._timestep = float(model.opt.timestep)
        self._delays = np.where(native, 0.0, model.actuator_delay)
        limited = np.array(model.actuator_ctrllimited, dtype=bool)[:, None]
        self._ranges = np.where(limited, model.actuator_ctrlrange, [-np.inf, np.inf])
        self._columns: dict[str, dict[int, int]] = {'delay': {}, 'gain': {}, 'bias': {}}
        for target, column in written:
            if target.role is Role.COMMAND:
                self._columns[target.attribute][target.row] = column
        # The command is kept as well: its id would else be given to another one.
        self._kept: dict[tuple[object, ...], tuple[HeldCommand, Array]] = {}

    def of(self, run: Run, steps: int, candidates: Array, timing: Timing) -> Array:
        """Return the (m, steps, nu) means of the delayed commands of a run over each step."""
        control = np.zeros((len(candidates), steps, self._nu))
        columns = [*timing.updates.values(), *timing.messages.values()]
        for command, delays in zip(run.commands, self.delays(run, candidates, timing), strict=True):
            acting = delays[:, None]
            if isinstance(command.held, InterpolatedCommand):
                acting = np.concatenate([acting, candidates[:, columns]], axis=1)
            distinct, inverse = np.unique(acting, axis=0, return_inverse=True)
            means = [self._means(run, command, steps, timing, each) for each in distinct]
            control[:, :, command.column] = self._scaled(
                command.actuator, np.stack(means)[inverse.reshape(-1)], candidates
            )
        return control

    def _scaled(self, actuator: int, values: Array, candidates: Array) -> Array:
        """Return (m, n) values of a command times its gain, with its bias."""
        if actuator in self._columns['gain']:
            values = values * candidates[:, self._columns['gain'][actuator], None]
        if actuator in self._columns['bias']:
            values = values + candidates[:, self._columns['bias'][actuator], None]
        return values

    def take_apart(
        self,
        run: Run,
        forces: Sequence[SampledForce],
        rows: dict[str, Array],
        control: Array,
        candidates: Array,
        timing: Timing,
        gains: Array,
        ranges: Array,
    ) -> None:
        """Replace forces by what follows the state, and add what commands make of each sample.

        Of m simulations with (m, steps, nu) controls and (m, p) values, the (m, steps, width) rows
        of the sensors change, and the field `Readings.held` is added, (m, n, k). The (m, size)
        gains and ranges are their ``actuator_gainprm`` and ``actuator_forcerange``.
        """
        for force in forces:
            readings, command = run.readings[force.readings], run.commands[force.command]
            gain = force.factor * gains[:, mujoco.mjNGAIN * force.actuator, None]
            low, high = np.sort(
                force.factor * ranges[:, 2 * force.actuator : 2 * force.actuator + 2], axis=1
            ).T[:, :, None]
            if not force.limited:
                low, high = -np.inf, np.inf
            low, high = np.maximum(low, force.limits[0]), np.minimum(high, force.limits[1])
            values = rows[SENSORS][:, :, force.column]
            limited = (values <= (1 - ROUNDING) * low) | (values >= (1 - ROUNDING) * high)
            told = gain * np.clip(control[:, :, command.column], *self._ranges[command.column])
            values -= told
            at_samples = readings.at_stamps(np.stack([told, limited.astype(np.float64)], axis=2))
            held = rows.setdefault(
                readings.held, np.zeros((len(gain), len(readings.times), len(readings.columns)))
            )
            in_force = self._in_force(run, force.command, candidates, timing, readings.times)
            held[:, :, force.place] = np.where(
                at_samples[:, :, 1] > 0, at_samples[:, :, 0], gain * in_force
            )

    def _in_force(
        self, run: Run, number: int, candidates: Array, timing: Timing, times: Array
    ) -> Array:
        """Return (m, n) what a command of a sequence says at (n,) times, s, for (m, p) values."""
        command, delays = run.commands[number], self.delays(run, candidates, timing)[number]
        column = self._columns['delay'].get(command.actuator, -1)
        delays = np.clip(delays, *self._shown.get(column, (-np.inf, np.inf)))
        distinct, inverse = np.unique(delays, return_inverse=True)
        held = np.stack([command.held.in_force(times - delay) for delay in distinct])
        told = self._scaled(command.actuator, held[inverse.reshape(-1)], candidates)
        return np.asarray(np.clip(told, *self._ranges[command.column]))

    def delays(self, run: Run, candidates: Array, timing: Timing) -> list[Array]:
        """Return for each command the (m,) seconds by which it acts later than its stamps."""
        shift = np.zeros(len(candidates))
        if timing.offset is not None:
            shift = candidates[:, timing.offset]
        found = []
        for command in run.commands:
            column = self._columns['delay'].get(command.actuator)
            known = np.full(len(candidates), self._delays[command.actuator])
            found.append((known if column is None else candidates[:, column]) + shift)
        return found

    def common_delay(self, run: Run, count: int, timing: Timing) -> Array:
        """Return the derivative of the mean delay of a run's commands by the (p,) values."""
        found = np.zeros(count)
        for command in run.commands:
            column = self._columns['delay'].get(command.actuator)
            if column is not None:
                found[column] += 1.0
        # Six times a sixth is less than one.
        found /= max(len(run.commands), 1)
        if timing.offset is not None:
            found[timing.offset] += 1.0
        return found

    def _means(
        self, run: Run, command: Command, steps: int, timing: Timing, acting: Array
    ) -> Array:
        """Return the (steps,) controls of a command for its delay, phase and messages' offsets."""
        key = (id(command.held), command.column, acting.tobytes(), steps)
        if key not in self._kept:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            edges = self._timestep * np.arange(steps + 1, dtype=np.float64)
            held, (delay, *more) = command.held, acting.tolist()
            if isinstance(held, InterpolatedCommand) and timing.messages:
                later = np.zeros(len(run.sequence.replaced) + 1)
                later[list(timing.messages)] = more[-len(timing.messages) :]
                held = held.replaced(run.sequence.replaced, later)
            if isinstance(held, InterpolatedCommand) and timing.updates:
                said = dict(zip(timing.updates, more, strict=False))
                means = held.updated(edges, delay, run.sequence.updates, said)
            else:
                means = held.means(edges, delay)
            self._kept[key] = (command.held, means)
        return self._kept[key][1]


class SampledForce(NamedTuple):
    """A column of readings that is the force of one actuator."""

    readings: int  # number of the readings of the run …
    place: int  # … and column of them
    column: int  # of the sensors' data
    actuator: int  # its id
    factor: float  # what is read for a unit of its force
    limited: bool  # whether the actuator has limits
    limits: Array  # (2,) least and greatest reading that the joint allows
    command: int  # its command in the run


def sampled_forces(model: mujoco.MjModel, run: Run) -> tuple[SampledForce, ...]:
    """Return the readings of a run that are taken apart."""
    if not run.sequence.sampled:
        return ()
    return tuple(
        SampledForce(number, place, int(column), *force, command)
        for number, readings in enumerate(run.readings)
        if readings.source == SENSORS
        for place, column in enumerate(readings.columns.tolist())
        for force in _force(model, column)
        for command, commanded in enumerate(run.commands)
        if commanded.actuator == force[0] and not isinstance(commanded.held, InterpolatedCommand)
    )


def _force(model: mujoco.MjModel, column: int) -> Iterator[tuple[int, float, bool, Array]]:
    """Yield the actuator whose force is read, the factor, and limits of it and of the joint."""
    (found,) = np.nonzero(model.sensor_adr == column)
    kind = model.sensor_type[found[0]] if len(found) else -1
    element = int(model.sensor_objid[found[0]]) if len(found) else -1
    limits = np.array([-np.inf, np.inf])
    if kind == mujoco.mjtSensor.mjSENS_ACTUATORFRC:
        if _is_static(model, element):
            yield element, 1.0, bool(model.actuator_forcelimited[element]), limits
    elif kind == mujoco.mjtSensor.mjSENS_JOINTACTFRC and model.jnt_type[element] in SCALAR_JOINTS:
        on_joint = np.isin(model.actuator_trntype, list(TO_JOINT))
        (own,) = np.nonzero(on_joint & (model.actuator_trnid[:, 0] == element))
        if model.jnt_actfrclimited[element]:
            limits = np.array(model.jnt_actfrcrange[element])
        if len(own) == 1 and _is_static(model, int(own[0])):
            gear, has_limits = model.actuator_gear[own[0], 0], model.actuator_forcelimited[own[0]]
            yield int(own[0]), float(gear), bool(has_limits), limits


def _is_static(model: mujoco.MjModel, actuator: int) -> bool:
    """Return whether an actuator's force is a fixed gain times its command, and more."""
    return bool(
        model.actuator_dyntype[actuator] == mujoco.mjtDyn.mjDYN_NONE
        and model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_FIXED
    )


class Block(NamedTuple):
    """Simulations of one sequence; the arrays are valid until the batch simulates again."""

    run: int  # index of the sequence
    candidates: NDArray[np.int64]  # (m,) their indices
    #: Recorded field to (m, steps, width); row k describes the state at ``k * timestep``.
    rows: dict[str, Array]
    diverged: NDArray[np.bool_]  # (m,) whether the simulation became unstable


class Simulator:
    """Runs candidates of one model over sequences.

    The model is compiled once, by the caller. What candidates write are fields of a
    ``mujoco.batch.Batch``, one value per simulation, so that there are no copies of the model; a
    candidate that needs another compilation is built by ``build``. The batch, its threads and its
    buffers are made once and kept. The caller's model is never changed.

    Attributes:
        parameters: What a candidate's values are, in order.
        runs: The sequences, prepared.
        rollouts: Number of simulations so far.
        refused: Why no model could be built for some candidates of the last call, by their index.
        refusals: Number of such candidates so far.
    """

    prescribed = False  # whether motions are, and not simulated

    def __init__(
        self,
        model: mujoco.MjModel,
        parameters: Sequence[Unknown],
        sequences: Sequence[Trajectory],
        threads: int = 0,
        *,
        build: Rebuild | None = None,
        lead: float = 0.0,
        drives: Drives | None = None,
    ) -> None:
        """Prepare the sequences; see `make_simulator`.

        Args:
            model: The compiled nominal model; it is not changed, and must not be.
            parameters: What a candidate's values are, in order.
            sequences: What is simulated.
            threads: Size of the pool; 0 means one per core.
            build: Compiles a model for the (p,) values of a candidate, where some of them cannot
                be written into a compiled model; what it has learnt is written.
            lead: Seconds by which predictions may be looked up after the last sample's stamp.
            drives: Which actuators are driven by laws that MuJoCo lacks; their commands are goals.
        """
        self.parameters = tuple(parameters)
        self.rollouts = 0
        self.refused: dict[int, CandidateError] = {}
        self.refusals = 0
        self._built = False
        self._lead = lead
        self._rebuilt = list(build.columns) if build else []
        learnt = (build and build.learnt) or ()
        self._build = build = None if learnt else build
        # Delays are applied to the commands here, not by MuJoCo as well; but what is compiled
        # again may delay its actuators by itself.
        self.model = model
        if not build and model.actuator_delay.any():
            self.model = model.__copy__()
            self.model.actuator_delay[:] = 0.0
        bases = {body for each in sequences if each.base is not None for body in each.base.names}
        if bases:
            if build is not None or drives is not None:
                what = 'servos' if build is None else 'parameters that the compiler reads'
                raise FitError(f'Expected no {what} beside base: measured, found some.')
            self.model = weighted(self.model, sorted(bases))
        self.threads = threads or os.cpu_count() or 1
        self._written = [(t, j) for j, p in enumerate(self.parameters) for t in p.targets]
        self.drives, self._stepper = drives, None
        if drives is None:
            for target, _ in self._written:
                if target.role is Role.LAW:
                    raise no_law(target)
        else:
            for column in self._rebuilt:  # laws between steps cannot follow the compiler
                raise FitError(
                    f'Parameter {parameters[column].name!r} is read by the compiler: beside '
                    'servos, expected parameters that are numbers of the compiled model.'
                )
            self.model = drives.prepared(self.model)
            self._stepper = drives.stepper(self.model, self._written)
        self._writer = Writer(model, self._written, learnt=learnt)
        shown = {j: p.in_force for j, p in enumerate(self.parameters) if p.in_force is not None}
        self._controls = Controls(model, self._written, native=build is not None, shown=shown)
        self._pool = Pool(
            self.model,
            self._writer if build is None else None,
            self.threads,
            min(1 + len(self.parameters), self._most_at_once(0)),
            also=frozenset() if self._stepper is None else self._stepper.fields,
        )
        self._prepare(sequences)

    def _prepare(self, sequences: Sequence[Trajectory]) -> None:
        self.runs: tuple[Run, ...] = tuple(self._prepared(sequence) for sequence in sequences)
        names = [sequence.name for sequence in sequences]
        self._starts, self._timings = _per_sequence(self._written, names)
        sources = {readings.source for run in self.runs for readings in run.readings}
        self._sources = tuple(sorted(sources | {SENSORS}))
        recorded = (s for s in self._sources if s != SENSORS or self.model.nsensordata)
        self._record = (_CLOCK, *recorded)
        self._widths = [1] + [
            self.model.nsensordata if s == SENSORS else getattr(self.runs[0], s).size
            for s in self._record[1:]
        ]
        # Laws that are evaluated between steps, and models that are compiled, have their own gains.
        alone = self._build is None and self._stepper is None
        self._sampled = [sampled_forces(self.model, run) if alone else () for run in self.runs]
        self._batches: list[list[int]] = []
        for index in sorted(range(len(self.runs)), key=lambda i: -self.runs[i].steps):
            longest = self.runs[self._batches[-1][0]].steps if self._batches else np.inf
            if longest <= _LENGTH_FACTOR * self.runs[index].steps:
                self._batches[-1].append(index)
            else:
                self._batches.append([index])
        self._contacts: Contacts | None = None
        if alone and may_touch(self.model):
            self._contacts = Contacts(len(self.runs), np.any(self.acts(), axis=1))

    def _prepared(self, sequence: Trajectory) -> Run:
        return prepare(self.model, sequence, self._lead)

    def _most_at_once(self, size: int) -> int:
        """Return how many simulations, each recording so many bytes, are one batch at most."""
        most = self.threads * _PER_THREAD
        if self._stepper is not None:
            return min(max(int(_LARGEST_DRIVEN_RECORD / max(size, 1)), most), _MOST_KEPT)
        room = int(_LARGEST_RECORD / max(size, 1))
        return min(self.threads * max(room // self.threads, 2), most)

    def of(self, sequences: Sequence[Trajectory]) -> Simulator:
        """Return a simulator of other sequences with the same model and candidates."""
        other = copy.copy(self)  # model, batch and threads are shared
        other.rollouts = other.refusals = 0
        other.refused = {}
        other._prepare(sequences)  # noqa: SLF001 (one of us)
        return other

    def acts(self) -> NDArray[np.bool_]:
        """Return (p, number of sequences) whether an unknown changes a sequence's simulation."""
        found = np.zeros((len(self.parameters), len(self.runs)), dtype=bool)
        found[self._rebuilt] = True
        names = [run.sequence.name for run in self.runs]
        for column, parameter in enumerate(self.parameters):
            for target in parameter.targets:
                if target.role is Role.SEQUENCE:
                    found[column] |= np.array([name == target.name for name in names])
                elif target.role is not Role.SENSOR:
                    found[column] = True
        return found

    def touches(self, x: Array) -> bool:
        """Return whether anything touched in the simulations with (p,) values, or may have."""
        if self._contacts is None or self.prescribed:
            return False
        return not self._contacts.free(x).all()

    def close(self) -> None:
        """Let go of the threads and buffers."""
        self._pool.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def compiled(self, x: Array) -> mujoco.MjModel:
        """Return a model of its own with (p,) values, or the first, the others being nominal."""
        values = self._whole(x)
        model = self.model.__copy__() if self._build is None else self._build(values)
        self._writer.write(model, values)
        if self._writer.fields and not self._writer.constant:
            mujoco.mj_setConst(model, mujoco.MjData(model))
        if self._build is not None:
            set_all_apart(model)
        for field, rows in self._writer.frames.items():
            getattr(model, field)[rows] = APART
        return model

    def fields(self, candidates: Array, names: Iterable[str]) -> dict[str, Array]:
        """Return (m, …) fields of the models of (m, p) candidates."""
        if self._build is not None:
            models = [self.compiled(x) for x in candidates]
            return {n: np.stack([attrgetter(n)(model) for model in models]) for n in names}
        count = len(candidates)
        found = {n: np.repeat(attrgetter(n)(self.model)[None], count, axis=0) for n in names}
        for field, index, data in self._writer.assignments(candidates):
            if field in found:
                found[field].reshape(count, -1)[:, index] = data
        return found

    def _whole(self, x: Array) -> Array:
        rest = [parameter.nominal for parameter in self.parameters[len(x) :]]
        return np.concatenate([x, rest])

    def check(self, x: Array) -> None:
        """Raise a `CandidateError` where a candidate's model has to be built and cannot be."""
        if self._build is not None:
            self.compiled(x)

    def controls(self, run: Run, steps: int, x: Array, timing: Timing | None = None) -> Array:
        """Return the (steps, nu) controls of a sequence for (p,) values."""
        return np.asarray(
            self._controls.of(run, steps, self._whole(x)[None], timing or Timing())[0]
        )

    def applied(self, index: int, x: Array) -> Array:
        """Return the (steps, nu) controls of a sequence, when they act, for (p,) values."""
        run = self.runs[index]
        return self.controls(run, run.steps, x, self._timing(index))

    def start(self, index: int, x: Array) -> dict[str, Array]:
        """Return ``qpos``, ``qvel`` and ``act`` where a sequence starts, for (p,) values."""
        whole = self._whole(x)[None]
        return {source: self._initial(index, source, whole)[0] for source in _STATE}

    def delays(self, index: int, x: Array) -> Array:
        """Return how much later than its stamps each command of a sequence acts, s."""
        found = self._controls.delays(self.runs[index], x[None], self._timing(index))
        return np.array([delays[0] for delays in found])

    def common_delay(self, index: int) -> Array:
        """Return the derivative of the mean delay of a sequence's commands by the (p,) values."""
        count = len(self.parameters)
        return self._controls.common_delay(self.runs[index], count, self._timing(index))

    def _timing(self, index: int) -> Timing:
        return self._timings.get(index, Timing())

    def simulate(
        self,
        candidates: Array,
        wanted: Sequence[NDArray[np.int64]],
        beside: Array | None = None,
        variants: Sequence[Sequence[Run]] | None = None,
    ) -> Iterator[Block]:
        """Yield simulations of some of (m, p) candidates on each sequence.

        Blocks of a sequence follow each other, in the order of its candidates; there are several
        where their record would be large. A candidate that no model can be built for counts as
        diverged; a `CandidateError` says that there was no other yet.

        Args:
            candidates: (m, p) parameter values.
            wanted: For each sequence, the indices of the candidates to simulate it with.
            beside: (p,) what all of them differ from by no more than the step of a difference.
            variants: For each sequence, what each candidate simulates in its place: the same with
                commands at other times.
        """
        models = self._compiled(candidates, wanted)
        for batch in self._batches:
            steps = max(self.runs[index].steps for index in batch)
            most = self._most_at_once(8 * sum(self._widths) * steps)
            jobs = [(index, int(c)) for index in batch for c in wanted[index]]
            for first in range(0, len(jobs), most):
                some = jobs[first : first + most]
                yield from self._roll(some, steps, candidates, models, beside, variants)

    def _compiled(
        self, candidates: Array, wanted: Sequence[NDArray[np.int64]]
    ) -> list[mujoco.MjModel] | None:
        """Return a model per candidate where candidates have to be compiled."""
        self.refused = {}
        if self._build is None:
            return None
        needed = {int(c) for some in wanted for c in some}
        models: dict[int, mujoco.MjModel] = {}
        for index in sorted(needed):
            try:
                # Where nothing is written, candidates may share what was compiled.
                shared = self._build.shared if not self._writer.fields else self.compiled
                models[index] = shared(candidates[index])
            except CandidateError as err:
                if not self._built:
                    raise
                self.refused[index] = err
                continue
            self._built = True
        self.refusals += len(self.refused)
        spare = next(iter(models.values()), self.model)
        return [models.get(index, spare) for index in range(len(candidates))]

    def _roll(
        self,
        jobs: list[tuple[int, int]],
        steps: int,
        candidates: Array,
        models: list[mujoco.MjModel] | None,
        beside: Array | None,
        variants: Sequence[Sequence[Run]] | None,
    ) -> Iterator[Block]:
        count = len(jobs)
        runs = np.array([run for run, _ in jobs])
        which = np.array([candidate for _, candidate in jobs])
        batch, ids = self._pool.batch(count), np.arange(count)
        if models is not None:
            chosen = [models[index] for index in which]
            batch.set_models(chosen + [chosen[0]] * (batch.nsim - count))
        batch.reset(ids, stage=mujoco.mjtStage.mjSTAGE_NONE.value)
        if models is None:
            self._pool.write(candidates, which)
        for source in _STATE:
            if getattr(self.runs[0], source).size:
                state = batch.bind(source)
                for run in dict.fromkeys(runs.tolist()):
                    own = runs == run
                    state[:count][own] = self._initial(run, source, candidates[which[own]])
        groups = self._groups(runs, which, variants)
        control = np.concatenate(
            [
                self._controls.of(
                    told, steps, candidates[which[own]], self._timing(int(runs[own.start]))
                )
                for told, own in groups
            ]
        )
        out = {
            item: self._pool.buffer(item, (count, steps, width))
            for item, width in zip(self._record, self._widths, strict=True)
        }
        self._rollout(batch, self._with_forces(control, runs), out, candidates[which], runs, beside)
        self.rollouts += count
        for told, own in groups:
            run, rows = int(runs[own.start]), {k: v[own] for k, v in out.items()}
            block = self._block(run, which[own], rows, candidates)
            if self._sampled[run]:
                self._controls.take_apart(
                    told,
                    self._sampled[run],
                    block.rows,
                    control[own],
                    candidates[which[own]],
                    self._timing(run),
                    self._pool.values('actuator_gainprm', ids[own]),
                    self._pool.values('actuator_forcerange', ids[own]),
                )
            yield block

    def _groups(
        self,
        runs: NDArray[np.int64],
        which: NDArray[np.int64],
        variants: Sequence[Sequence[Run]] | None,
    ) -> list[tuple[Run, slice]]:
        """Return the simulations beside each other that are told the same commands, and by what."""
        found: list[tuple[Run, slice]] = []
        for run in dict.fromkeys(runs.tolist()):
            own = np.flatnonzero(runs == run)
            if variants is None:
                found.append((self.runs[run], slice(own[0], own[-1] + 1)))
            else:
                found += [(variants[run][which[at]], slice(at, at + 1)) for at in own]
        return found

    def _with_forces(self, control: Array, runs: NDArray[np.int64]) -> Array:
        """Return (m, steps, nu) controls, with forces where the motion of bodies is prescribed."""
        if self.runs[0].forces is None:
            return control
        forces = np.zeros((*control.shape[:2], self.model.nv))
        for own, run in zip(forces, runs, strict=True):
            known = self.runs[run].forces
            if known is not None:
                own[: len(known)] = known
        return np.concatenate([control, forces], axis=2)

    def _rollout(
        self,
        batch: Batch,
        control: Array,
        out: dict[Any, Array],
        candidates: Array,
        runs: NDArray[np.int64],
        beside: Array | None,
    ) -> None:
        """Simulate the first of a batch under (m, steps, nu) controls."""
        count, steps, _ = control.shape
        ids = np.arange(count)
        spec = _CONTROLS if self.runs[0].forces is None else _CONTROLS_AND_FORCES
        with unlogged():
            if self._stepper is not None:
                self._stepper.roll(batch, control, candidates, out)
            elif self._contacts is None:
                batch.rollout(steps, control, spec, record=self._record, ids=ids, out=out)
            else:
                free = self._contacts.free(beside)[runs]
                flags = self.model.opt.disableflags
                batch.expand(_FLAGS)[:count] = flags | np.where(free, WITHOUT, 0)
                record = self._record if free.all() else (*self._record, _CONTACTS)
                found = batch.rollout(steps, control, spec, record=record, ids=ids, out=out)
                for place in np.flatnonzero(~free):
                    self._contacts.note(candidates[place], runs[place], found[_CONTACTS][place])

    def _block(
        self, run: int, which: NDArray[np.int64], record: dict[Any, Array], candidates: Array
    ) -> Block:
        last = self.runs[run].steps - 1
        # A simulation that diverged stops and repeats its last record: its clock stands still.
        reached = record[_CLOCK][:, last].reshape(len(which))
        diverged = reached < (last + 0.5) * self.model.opt.timestep
        diverged |= [int(candidate) in self.refused for candidate in which]
        rows: dict[str, Array] = {}
        for source in self._sources:
            if source == SENSORS:
                rows[source] = record.get(
                    source, np.zeros((len(which), record[_CLOCK].shape[1], 0))
                )
                diverged |= ~np.isfinite(rows[source][:, last]).all(axis=1)
            else:  # recorded after the step
                start = self._initial(run, source, candidates[which])
                rows[source] = np.concatenate([start[:, None], record[source][:, :-1]], axis=1)
        return Block(run, which, rows, diverged)

    def _initial(self, run: int, source: str, candidates: Array) -> Array:
        """Return the (m, width) part of the initial state of each candidate."""
        values = np.tile(getattr(self.runs[run], source), (len(candidates), 1))
        for what, index, column in self._starts.get(run, ()):
            if what == source:
                values[:, index] = candidates[:, column]
            elif what == 'turn' and source == 'qpos':
                turn = np.zeros(self.model.nv)
                turn[index] = 1.0
                for row in np.flatnonzero(candidates[:, column]).tolist():
                    mujoco.mj_integratePos(self.model, values[row], turn, candidates[row, column])
        return values


def _per_sequence(
    written: list[tuple[Target, int]], names: list[str]
) -> tuple[dict[int, list[tuple[str, int, int]]], dict[int, Timing]]:
    """Return the columns of initial states and of when commands act, by sequence."""
    starts: dict[int, list[tuple[str, int, int]]] = {}
    timings: dict[int, Timing] = {}
    for target, column in written:
        if target.role is not Role.SEQUENCE or target.name not in names:
            continue
        run = names.index(target.name)
        if target.attribute.startswith('initial_'):
            what = target.attribute.removeprefix('initial_')
            starts.setdefault(run, []).append((what, target.index or 0, column))
            continue
        timing = timings.get(run, Timing())
        if target.attribute == 'arrival_offset':
            timing = timing._replace(offset=column)
        elif target.attribute.startswith('update_'):
            timing = timing._replace(updates={**timing.updates, target.attribute: column})
        else:
            timing = timing._replace(messages={**timing.messages, target.index or 0: column})
        timings[run] = timing
    return starts, timings
