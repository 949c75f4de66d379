# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Floating bodies whose motion is prescribed: forces that let a simulation follow it.

A free joint with a very large inertia is accelerated by what is applied to it and by nothing that
it carries, while what it carries feels its accelerations. MuJoCo integrates velocities first, and
with these positions: differences of the places that are wanted, taken in that order, lead through
each of them.
"""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.signals import TimeSeries

Array = NDArray[np.float64]

#: What a robot of 1000 N moves of so much, kg and kg·m², in an hour is .6 mm; of double precision
#: ten digits are left for what it carries.
HEAVY = 1e10


class Prescribed(NamedTuple):
    """What is prescribed of one sequence: the start, and forces at each step."""

    qpos: Array  # (nq,) at the start, the rest as it was
    qvel: Array  # (nv,)
    forces: Array  # (steps, nv) that are applied, zero where nothing is prescribed


def free_joint(model: mujoco.MjModel, body: str) -> int:
    """Return the free joint of a body."""
    return int(model.body_jntadr[model.body(body).id])


def weighted(model: mujoco.MjModel, bodies: list[str]) -> mujoco.MjModel:
    """Return a copy of a compiled model in which nothing moves some bodies that float."""
    copy = model.__copy__()
    for body in bodies:
        first = int(copy.jnt_dofadr[free_joint(copy, body)])
        copy.dof_armature[first : first + 6] = HEAVY
    return copy


def prescribed(
    model: mujoco.MjModel,
    base: TimeSeries,
    start: tuple[Array, Array],
    timestep: float,
    steps: int,
) -> Prescribed:
    """Return how a simulation follows measured bodies from a (nq,) and (nv,) state.

    Between the samples a cubic spline says where they are.
    """
    from scipy.interpolate import CubicSpline  # noqa: PLC0415 (slow to import)

    times = np.clip(timestep * np.arange(-1, steps + 1), base.times[0], base.times[-1])
    qpos, qvel, forces = start[0].copy(), start[1].copy(), np.zeros((steps, model.nv))
    for body in base.names:
        joint = free_joint(model, body)
        place, dof = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
        poses = CubicSpline(base.times, base.get(body))(times)
        poses[:, 3:] /= np.linalg.norm(poses[:, 3:], axis=1, keepdims=True)
        speeds = np.empty((steps + 1, 6))
        speeds[:, :3] = np.diff(poses[:, :3], axis=0) / timestep
        for before, after, into in zip(poses, poses[1:], speeds, strict=False):
            mujoco.mju_subQuat(into[3:], after[3:], before[3:])
        speeds[:, 3:] /= timestep
        qpos[place : place + 7], qvel[dof : dof + 6] = poses[1], speeds[0]
        forces[:, dof : dof + 6] = HEAVY * np.diff(speeds, axis=0) / timestep
    return Prescribed(qpos, qvel, forces)
