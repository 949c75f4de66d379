# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which simulations touched nothing, so that those beside them need not look for contacts."""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray

#: So many points are remembered.
_REMEMBERED = 64
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
        """Begin without knowledge.

        Args:
            runs: Number of sequences.
            columns: (p,) which values of a point change a simulation.
        """
        self._columns = columns
        self._nothing = np.zeros(runs, dtype=bool)
        self._free: dict[bytes, NDArray[np.bool_]] = {}

    def free(self, point: NDArray[np.float64] | None) -> NDArray[np.bool_]:
        """Return (number of sequences,) where nothing touches at a (p,) point, if that is known."""
        if point is None:
            return self._nothing
        return self._free.get(self._key(point), self._nothing)

    def note(self, point: NDArray[np.float64], run: int, contacts: NDArray[np.int32]) -> None:
        """Remember a simulation at a (p,) point by the numbers of its contacts."""
        key = self._key(point)
        if key not in self._free:
            while len(self._free) >= _REMEMBERED:
                del self._free[next(iter(self._free))]
            self._free[key] = self._nothing.copy()
        self._free[key][run] = not contacts.any()

    def _key(self, point: NDArray[np.float64]) -> bytes:
        return bytes(point[self._columns].tobytes())
