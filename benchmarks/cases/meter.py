# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Counting what a fit simulates, and how long MuJoCo alone needs for the same."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import mujoco
import numpy as np
from mujoco.rollout import Rollout

from cases.case import Case

try:
    from mujoco.batch import Batch
except ImportError:  # before MuJoCo 3.17
    Batch = None


class Call(NamedTuple):
    """One call of MuJoCo's batched simulation: simulations and steps of each."""

    simulations: int
    steps: int


@dataclass
class Meter:
    """Counts, while it is entered, what anyone in this process simulates in batches.

    Attributes:
        calls: In order.
    """

    calls: list[Call] = field(default_factory=list)

    @property
    def rollouts(self) -> int:
        """Number of simulations."""
        return sum(call.simulations for call in self.calls)

    @property
    def steps(self) -> int:
        """Number of timesteps, over all simulations."""
        return sum(call.simulations * call.steps for call in self.calls)

    def __enter__(self) -> Self:
        self._kept: list[tuple[type, str, Callable[..., Any]]] = []
        self._wrap(Rollout, 'rollout', lambda _, found, __: Call(*found[0].shape[:2]))
        if Batch is not None:
            self._wrap(Batch, 'rollout', _of_batch)
            self._wrap(Batch, 'step', _of_step)
        return self

    def __exit__(self, *_: object) -> None:
        for owner, name, original in self._kept:
            setattr(owner, name, original)

    def _wrap(self, owner: type, name: str, read: Callable[..., Call]) -> None:
        original = getattr(owner, name)
        self._kept.append((owner, name, original))

        @functools.wraps(original)
        def counted(this: Any, *args: Any, **options: Any) -> Any:
            found = original(this, *args, **options)
            self.calls.append(read(this, found, (args, options)))
            return found

        setattr(owner, name, counted)


def _of_batch(batch: Any, found: Any, _: Any) -> Call:
    shapes = [array.shape[:2] for array in found.values()]
    return Call(*shapes[0]) if shapes else Call(batch.nsim, 0)


def _of_step(batch: Any, _: Any, given: Any) -> Call:
    args, options = given
    ids = options.get('ids', args[0] if args else None)
    steps = options.get('nstep', args[1] if len(args) > 1 else 1)
    return Call(batch.nsim if ids is None else len(np.atleast_1d(ids)), int(steps))


def ideal_seconds(case: Case, calls: list[Call], threads: int = 0) -> float:
    """Return the wall time of the same simulations by ``mujoco.rollout`` alone.

    The true model, the first recording's commands (repeated where a call is longer), one thread
    pool, buffers made before: nothing is computed but steps.
    """
    threads = threads or os.cpu_count() or 1
    model = case.model(case.truth)
    data = [mujoco.MjData(model) for _ in range(threads)]
    nstate = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS.value)
    first = case.exact[0]
    seconds = 0.0
    with Rollout(nthread=threads) as pool:
        arguments: dict[Call, tuple[Any, ...]] = {}
        for call in set(calls):
            size, steps = call
            controls = np.resize(first.controls, (steps, model.nu))
            arguments[call] = (
                np.tile(first.state, (size, 1)),
                np.tile(controls, (size, 1, 1)),
                np.zeros((size, steps, nstate)),
                np.zeros((size, steps, model.nsensordata)),
            )
        for call in calls:
            state, controls, states, sensors = arguments[call]
            models = [model] * call.simulations
            began = time.perf_counter()
            pool.rollout(
                models, data, state, controls, nstep=call.steps, state=states, sensordata=sensors
            )
            seconds += time.perf_counter() - began
    return seconds
