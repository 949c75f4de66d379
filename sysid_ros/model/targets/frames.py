# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Frames that candidates move must not be taken for the frame that they start on.

``mj_setConst`` marks an inertial frame, geom or site within about 1e-6 of another frame as lying on
it, and kinematics then copies that frame (MuJoCo 4.0). So the smallest moves, of which derivatives
are made, would move nothing; unmarked, each frame is computed from its own numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

#: What marks a frame as one that is computed.
APART = mujoco.mjtSameFrame.mjSAMEFRAME_NONE.value


def moved_frames(
    model: mujoco.MjModel, written: Mapping[str, NDArray[np.int64]]
) -> dict[str, NDArray[np.int64]]:
    """Find the marks of the frames that candidates move.

    Args:
        model: The compiled model.
        written: Flat indices that candidates write, by field.

    Returns:
        Flat indices by the field of the marks: ``body_sameframe``, ``geom_sameframe`` and
        ``site_sameframe``; those of geoms and sites also where the inertial frame moves on which
        they may lie.
    """
    bodies = _rows(written, 'body_ipos', 'body_iquat')
    own = _rows(written, 'site_pos', 'site_quat')
    beside = np.flatnonzero(np.isin(model.site_bodyid, bodies))
    found = {
        'body_sameframe': bodies,
        'geom_sameframe': np.flatnonzero(np.isin(model.geom_bodyid, bodies)),
        'site_sameframe': np.union1d(own, beside),
    }
    return {field: rows for field, rows in found.items() if len(rows)}


def all_frames(model: mujoco.MjModel) -> dict[str, NDArray[np.int64]]:
    """Return the same for all frames: which of them a callback moves is not known."""
    return {
        'body_sameframe': np.arange(model.nbody),
        'geom_sameframe': np.arange(model.ngeom),
        'site_sameframe': np.arange(model.nsite),
    }


def _rows(written: Mapping[str, NDArray[np.int64]], pos: str, quat: str) -> NDArray[np.int64]:
    nothing = np.empty(0, dtype=np.int64)
    return np.union1d(written.get(pos, nothing) // 3, written.get(quat, nothing) // 4)
