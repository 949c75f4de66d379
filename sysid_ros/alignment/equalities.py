# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where joints are that nothing measures, but that the model's equalities tie to measured ones."""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray

#: Measured joints go from qpos0 to where they were in so many steps at least, in which none of them
#: moves farther than this, rad or m, and in so many at most: a linkage closes in more than one way,
#: and is put together as it is in qpos0.
_FEWEST, _FARTHEST, _MOST = 20, 0.1, 500
#: Gauss-Newton steps after each of them, and what is nothing left of the equalities, rad or m.
_STEPS, _NOTHING = 10, 1e-10
#: Singular values of a Jacobian below this part of the largest are zero.
_SINGULAR = 1e-8


def close_loops(
    model: mujoco.MjModel,
    qpos: NDArray[np.float64],
    qvel: NDArray[np.float64],
    positions: NDArray[np.bool_],
    velocities: NDArray[np.bool_],
) -> None:
    """Put joints that are not measured where the active equalities of the model hold.

    Args:
        model: The compiled model.
        qpos: (nq,) with qpos0 where nothing is measured; changed in place.
        qvel: (nv,) with zeros where nothing is measured; changed in place.
        positions: (nv,) whether the position along a degree of freedom is measured.
        velocities: (nv,) whether its velocity is known.
    """
    if not model.neq or positions.all():
        return
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    if np.abs(_equalities(model, data)[0]).max(initial=0.0) > _NOTHING:
        far = qpos - model.qpos0
        parts = int(np.clip(np.ceil(np.abs(far).max() / _FARTHEST), _FEWEST, _MOST))
        moved = np.flatnonzero(far)
        data.qpos[:] = model.qpos0
        for part in np.linspace(0, 1, parts + 1)[1:]:
            data.qpos[moved] = (model.qpos0 + part * far)[moved]
            _solve(model, data, ~positions)
        qpos[:] = data.qpos
    _, jacobian = _equalities(model, data)
    free = ~velocities
    qvel[free] -= np.linalg.lstsq(jacobian[:, free], jacobian @ qvel, _SINGULAR)[0]


def _solve(model: mujoco.MjModel, data: mujoco.MjData, free: NDArray[np.bool_]) -> None:
    """Move free degrees of freedom by Gauss-Newton steps for as long as they help."""
    left, jacobian = _equalities(model, data)
    for _ in range(_STEPS):
        size, before = float(np.abs(left).max(initial=0.0)), data.qpos.copy()
        if size <= _NOTHING:
            return
        step = np.zeros(model.nv)
        step[free] = -np.linalg.lstsq(jacobian[:, free], left, _SINGULAR)[0]
        mujoco.mj_integratePos(model, data.qpos, step, 1.0)
        left, jacobian = _equalities(model, data)
        if not np.abs(left).max(initial=0.0) < size:
            data.qpos[:] = before
            return


def _equalities(
    model: mujoco.MjModel, data: mujoco.MjData
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (k,) what is left of the active equalities, rad or m, and (k, nv) its Jacobian."""
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_flex(model, data)
    mujoco.mj_tendon(model, data)
    mujoco.mj_makeConstraint(model, data)
    jacobian = np.zeros((data.nefc, model.nv))
    if mujoco.mj_isSparse(model):
        rows = data.efc_J_rownnz, data.efc_J_rowadr, data.efc_J_colind
        mujoco.mju_sparse2dense(jacobian, data.efc_J, *rows)
    else:
        jacobian[:] = data.efc_J.reshape(jacobian.shape)
    return data.efc_pos[: data.ne].copy(), jacobian[: data.ne]
