# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The simulations of one model, each with its own values of the fields that candidates write."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mujoco
import numpy as np
from mujoco.batch import Batch
from numpy.typing import NDArray

from sysid_ros.model.targets import Writer
from sysid_ros.model.targets.writer import APART

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
        """Keep what the batch is made of.

        Args:
            model: The compiled model.
            writer: Writes candidates' values into fields; None where each has its own model.
            threads: Size of the pool of threads.
            size: Number of simulations to be ready for.
            also: Further fields that each simulation has its own values of.
        """
        self._model = model
        self._writer = writer
        self._threads = threads
        self._size = max(size, 2 * threads)
        self._also = also
        self._batch: Batch | None = None
        self._fields: dict[str, NDArray[np.float64]] = {}
        self._buffers: dict[Any, NDArray[np.float64]] = {}

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

    def values(self, field: str, places: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the (n, size) numbers that the simulations at (n,) places have in a field."""
        own = self._fields.get(field)
        if own is not None:
            return own[places]
        return np.tile(np.ravel(getattr(self._model, field)), (len(places), 1))

    def buffer(self, item: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return an array for what is recorded, in memory that is used again by the next.

        Args:
            item: What is recorded.
            shape: Of the array.
        """
        size = math.prod(shape)
        flat = self._buffers.get(item)
        if flat is None or flat.size < size:
            flat = self._buffers[item] = np.empty(size)
        return flat[:size].reshape(shape)

    def write(self, candidates: NDArray[np.float64], which: NDArray[np.int64]) -> None:
        """Give the first simulations the values of candidates.

        Args:
            candidates: (m, p) parameter values.
            which: (n,) index of the candidate of each simulation.
        """
        if self._writer is None or not self._writer.fields:
            return
        batch, count = self.batch(len(which)), len(which)
        for field, index, data in self._writer.assignments(candidates):
            self._fields[field][:count, index] = data[which]
        if not self._writer.constant:
            batch.set_const(np.arange(count))
        for field, rows in self._writer.frames.items():
            self._fields[field][:count, rows] = APART
