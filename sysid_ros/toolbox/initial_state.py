# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""State vectors that simulations start from, and their clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np

from sysid_ros.errors import FitError
from sysid_ros.signals.mapping import SignalType, find_signal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

#: ``mjtState`` bits of the state vectors of the toolbox: everything that advances in time.
FULLPHYSICS = mujoco.mjtState.mjSTATE_FULLPHYSICS.value
#: A history buffer begins with two numbers, then come the stamps (MuJoCo 4.0); the first of a
#: sensor's is a stamp too, that of its last computation.
_HISTORY_HEADER = 2
#: A stamp that misses the grid of the steps by less than this fraction of a step is on it.
_ON_GRID = 1e-3


def state_size(model: mujoco.MjModel) -> int:
    """Return how many numbers a full physics state of a model has."""
    return int(mujoco.mj_stateSize(model, FULLPHYSICS))


def create_initial_state(
    model: mujoco.MjModel,
    qpos: ArrayLike,
    qvel: ArrayLike | None = None,
    act: ArrayLike | None = None,
    qpos_names: Sequence[str] | None = None,
    qvel_names: Sequence[str] | None = None,
    act_names: Sequence[str] | None = None,
) -> NDArray[np.float64]:
    """Build a full physics state, at time zero, from its parts.

    Names say which joints, free bodies or actuators the numbers belong to, with or without
    ``_qpos``, ``_qvel``, ``_act``; a free joint takes 7 of them in ``qpos``, a ball joint 4. What
    is not named keeps the model's ``qpos0``, or zero. Without names the numbers are in the
    model's order.

    Args:
        model: The model.
        qpos: (nq,) positions, or as many as the names need; rad, m, unit quaternions.
        qvel: (nv,) velocities, rad/s, m/s; zero by default.
        act: (na,) activations; zero by default.
        qpos_names: What ``qpos`` is.
        qvel_names: What ``qvel`` is.
        act_names: What ``act`` is.

    Returns:
        (nstate,) vector of kind ``mjSTATE_FULLPHYSICS``.

    Raises:
        FitError: A part has the wrong length, is not finite, or has names but no values.
        SignalError: The model has nothing of a name.
    """
    data = mujoco.MjData(model)
    parts = (
        ('qpos', qpos, qpos_names, SignalType.MjStateQPos, 0),
        ('qvel', qvel, qvel_names, SignalType.MjStateQVel, model.nq),
        ('act', act, act_names, SignalType.MjStateAct, model.nq + model.nv),
    )
    for part, values, names, kind, begin in parts:
        target = getattr(data, part)
        if values is None:
            if names is not None:
                msg = f'Expected {part} not to be None when {part}_names are given, found None.'
                raise FitError(msg)
            continue
        columns = np.arange(len(target))
        if names is not None:
            found = [find_signal(model, name, (kind,)).columns - begin for name in names]
            columns = np.concatenate([columns[:0], *found])
        given = np.asarray(values, dtype=np.float64)
        if given.shape != columns.shape:
            msg = f'Expected {part} to have shape {columns.shape}, found {given.shape}.'
            raise FitError(msg)
        if not np.all(np.isfinite(given)):
            msg = f'Expected finite numbers in {part}, found {given}.'
            raise FitError(msg)
        target[columns] = given
    state = np.empty(state_size(model))
    mujoco.mj_getState(model, data, state, FULLPHYSICS)
    return state


def set_clock(
    model: mujoco.MjModel, states: NDArray[np.float64], times: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Move states to other times, the stamps inside of their delay buffers along with them.

    Mechanics does not depend on the time, but delayed actuators and sensors compare it with the
    stamps of their buffers.

    Args:
        model: The model.
        states: (n, nstate) states of kind ``mjSTATE_FULLPHYSICS``.
        times: (n,) seconds.

    Returns:
        (n, nstate) copies.
    """
    moved: NDArray[np.float64] = states.copy()
    moved[:, 0] = times
    for columns in _stamp_columns(model):
        age = (states[:, [0]] - states[:, columns]) / model.opt.timestep
        # Seconds since the epoch hold only 0.2 µs: without this, a sample of just the delay's age
        # could be missed.
        whole = np.rint(age)
        age = np.where(np.abs(age - whole) < _ON_GRID, whole, age)
        moved[:, columns] = times[:, None] - age * model.opt.timestep
    return moved


def _stamp_columns(model: mujoco.MjModel) -> Iterator[NDArray[np.int64]]:
    """Yield the columns of a full physics state that are stamps of a delay buffer."""
    first = 1 + model.nq + model.nv + model.na
    for addresses, histories, header in (
        (model.actuator_historyadr, model.actuator_history, ()),
        (model.sensor_historyadr, model.sensor_history, (0,)),
    ):
        for address, (samples, _) in zip(addresses, histories, strict=True):
            if address >= 0:
                stamps = range(_HISTORY_HEADER, _HISTORY_HEADER + int(samples))
                yield first + int(address) + np.array([*header, *stamps], dtype=np.int64)
