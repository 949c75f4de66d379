# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What textbooks do with the torques of an arm, without any code of the package.

Positions and efforts pass the same zero-phase low-pass; velocities and accelerations are central
differences. Torques are linear in ten numbers of each link, and in rotor inertia, viscous and
Coulomb friction and an offset of each joint (M. Gautier, J. Robotic Systems 8(4), 1991); weighted
least squares finds them, without any prior but that what motion does not tell changes least.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from scipy.signal import butter, sosfiltfilt
from shared.common import Floats

#: Cut-offs are so many times the frequency below which a share of the velocities' power is.
_TIMES, _SHARE = (3.0, 5.0, 10.0), 0.9
#: Samples in each period of the cut-off.
_SAMPLES = 10
#: Dry friction turns around within this velocity, rad/s (m/s).
_STILL = 0.02
#: Singular values below this part of the greatest are nothing that motion tells.
_RANK = 1e-7
#: Scale and terms of a current are found in turns.
_TURNS = 20


class Log(NamedTuple):
    """What was recorded: (n,) times, s, and (n, k) positions and efforts or commands."""

    times: Floats
    positions: Floats
    drives: Floats


class Motion(NamedTuple):
    """A log after its low-pass, (m, k) each."""

    position: Floats
    velocity: Floats
    acceleration: Floats
    effort: Floats


def _evenly(times: Floats, values: Floats) -> tuple[float, Floats]:
    """Return the period, and (n, k) values at even times."""
    period = float(np.median(np.diff(times)))
    even = np.arange(times[0], times[-1], period)
    return period, np.column_stack([np.interp(even, times, column) for column in values.T])


def cut_offs(logs: Sequence[Log]) -> list[float]:
    """Return the cut-offs that are tried for logs, by the median of their joints, Hz."""
    found = []
    for log in logs:
        period, positions = _evenly(log.times, log.positions)
        velocities = np.gradient(positions, axis=0)
        window = np.hanning(len(velocities))[:, None]
        power = np.abs(np.fft.rfft((velocities - velocities.mean(0)) * window, axis=0)) ** 2
        share = np.cumsum(power, axis=0) / np.maximum(power.sum(0), np.finfo(float).tiny)
        places = np.argmax(share >= _SHARE, axis=0)
        found += list(np.fft.rfftfreq(len(velocities), period)[places])
    median = float(np.sort(found)[(len(found) - 1) // 2])
    return [times * median for times in _TIMES]


def smooth(log: Log, frequency: float) -> Motion:
    """Return a log after a low-pass, without its ends, as often as that leaves anything new."""
    period, values = _evenly(log.times, np.column_stack([log.positions, log.drives]))
    low_pass = butter(4, min(frequency, 0.4 / period), fs=1 / period, output='sos')
    position, effort = np.split(sosfiltfilt(low_pass, values, axis=0), 2, axis=1)
    velocity = np.gradient(position, period, axis=0)
    acceleration = np.gradient(velocity, period, axis=0)
    end = int(1 / frequency / period) + 1
    kept = slice(end, -end, max(1, int(1 / (_SAMPLES * frequency * period))))
    return Motion(*(part[kept] for part in (position, velocity, acceleration, effort)))


def joined(motions: Sequence[Motion]) -> Motion:
    """Return several motions as one."""
    return Motion(*(np.concatenate(parts) for parts in zip(*motions, strict=True)))


def torques(model: mujoco.MjModel, joints: Sequence[str], motion: Motion) -> Floats:
    """Return the (m, k) torques of joints along a motion, all others held."""
    numbers = [model.joint(joint).id for joint in joints]
    places, rows = model.jnt_qposadr[numbers], model.jnt_dofadr[numbers]
    data = mujoco.MjData(model)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    found = np.empty_like(motion.position)
    for line, (position, velocity, acceleration) in enumerate(zip(*motion[:3], strict=True)):
        data.qpos[places], data.qvel[rows], data.qacc[rows] = position, velocity, acceleration
        mujoco.mj_inverse(model, data)
        found[line] = data.qfrc_inverse[rows]
    return found + model.dof_frictionloss[rows] * _direction(motion)


def _direction(motion: Motion) -> Floats:
    return np.asarray(np.tanh(motion.velocity / _STILL))


def _of_links(model: mujoco.MjModel, joints: Sequence[str], motion: Motion) -> Floats:
    """Return (m, k, 10 k) torques by each number of each link."""
    model = model.__copy__()
    model.dof_damping[:] = model.dof_frictionloss[:] = 0.0
    bodies = model.jnt_bodyid[[model.joint(joint).id for joint in joints]]

    def put(body: int, mass: float, place: Floats, moments: Floats, turn: Floats) -> None:
        model.body_mass[body], model.body_ipos[body] = mass, place
        model.body_inertia[body], model.body_iquat[body] = moments, turn

    zero, one, straight = np.zeros(3), np.ones(3), np.array([1.0, 0.0, 0.0, 0.0])
    # An eighth of a turn about each axis makes of a moment a product of inertia.
    turns = [np.append(np.cos(np.pi / 8), np.sin(np.pi / 8) * axis) for axis in np.eye(3)]
    numbers = [
        (2.0, zero, one, straight),
        *((1.0, axis, one, straight) for axis in np.eye(3)),
        *((1.0, zero, one + axis, straight) for axis in np.eye(3)),
        *((1.0, zero, one + np.eye(3)[k - 2], turns[k]) for k in range(3)),
    ]
    for body in bodies:
        put(body, 1.0, zero, one, straight)
    base, columns = torques(model, joints, motion), []
    for body in bodies:
        for given in numbers:
            put(body, *given)
            columns.append(torques(model, joints, motion) - base)
        put(body, 1.0, zero, one, straight)
    return np.stack(columns, axis=-1)


def _of_joints(motion: Motion) -> Floats:
    """Return (m, k, 4) torques by rotor inertia, friction and offset of a joint."""
    parts = motion.acceleration, motion.velocity, _direction(motion), np.ones_like(motion.velocity)
    return np.stack(parts, axis=-1)


def _solved(matrix: Floats, values: Floats) -> Floats:
    size = np.linalg.norm(matrix, axis=0) + np.finfo(float).tiny
    return np.asarray(np.linalg.lstsq(matrix / size, values, rcond=_RANK)[0] / size)


def regression(
    model: mujoco.MjModel, joints: Sequence[str], train: Motion, unseen: Motion, *, currents: bool
) -> tuple[Floats, Floats]:
    """Return the (m, k) efforts of both motions by a fit to the first.

    Args:
        model: Its torques are where the regression starts; without its friction.
        joints: Of the columns.
        train: What is fitted.
        unseen: What is not.
        currents: Whether efforts have an unknown scale each.
    """
    bare = model.__copy__()
    bare.dof_damping[:] = bare.dof_frictionloss[:] = 0.0
    nominal, links, own = (
        [of(one) for one in (train, unseen)]
        for of in (
            lambda motion: torques(bare, joints, motion),
            lambda motion: _of_links(model, joints, motion),
            _of_joints,
        )
    )
    count = len(joints)
    every = range(count)
    # Weights are what each joint by itself leaves.
    left = np.empty(count)
    for j in every:
        alone = np.column_stack([links[0][:, j], own[0][:, j]])
        left[j] = np.std(alone @ _solved(alone, train.effort[:, j]) - train.effort[:, j])

    def scales(torque: Floats) -> Floats:
        if not currents:
            return np.ones(count)
        return np.array(
            [
                _solved(np.column_stack([torque[:, j], own[0][:, j]]), train.effort[:, j])[0]
                for j in every
            ]
        )

    def stacked(scale: Floats, which: int) -> Floats:
        width = links[which].shape[-1]
        both = np.zeros((*links[which].shape[:2], width + 4 * count))
        both[:, :, :width] = scale[:, None] * links[which]
        for j in every:
            both[:, j, width + 4 * j : width + 4 * j + 4] = own[which][:, j]
        return both

    scale = scales(nominal[0])
    for _ in range(_TURNS if currents else 1):
        matrix = stacked(scale, 0) / left[:, None]
        values = (train.effort - scale * nominal[0]) / left
        x = _solved(matrix.reshape(-1, matrix.shape[-1]), values.ravel())
        scale, before = scales(nominal[0] + links[0] @ x[: links[0].shape[-1]]), scale
    first, second = (np.asarray(before * nominal[k] + stacked(before, k) @ x) for k in (0, 1))
    return first, second


def follow(train: Sequence[Log], unseen: Sequence[Log]) -> Floats:
    """Return the (k,) errors of joints that are where they were told to be some time ago."""

    def apart(log: Log, delay: float) -> Floats:
        rows = np.searchsorted(log.times, log.times - delay, side='right') - 1
        return log.drives[np.maximum(rows, 0)] - log.positions

    def squares(logs: Sequence[Log], delay: float) -> Floats:
        return np.nanmean(np.concatenate([apart(log, delay) for log in logs]) ** 2, axis=0)

    delays = np.arange(0.0, 0.3, 0.005)
    best = np.argmin([squares(train, delay) for delay in delays], axis=0)
    return np.sqrt([squares(unseen, delays[place])[k] for k, place in enumerate(best)])
