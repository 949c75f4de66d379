# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The batch of simulations of one model: their values, what steps them, what touched nothing."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import mujoco
import numpy as np
from mujoco.batch import Batch
from numpy.typing import NDArray

from sysid_ros.errors import ParameterError
from sysid_ros.model.candidates import APART, Writer
from sysid_ros.model.targets import Target

Array = NDArray[np.float64]

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
