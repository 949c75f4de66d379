# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Rest lengths of tendons, which the compiler takes from the pose in which joints' springs rest.

``mj_setConst`` leaves them as they are (MuJoCo 4.0), so they are computed where a candidate changes
that pose or the geometry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np

from sysid_ros.model.targets.slots import write_field

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Self

    from numpy.typing import NDArray

    from sysid_ros.model.targets.slots import Assignment

#: The field that holds rest lengths: shortest and longest, per tendon.
LENGTH = 'tendon_lengthspring'
#: Fields on which the length of a tendon in the reference pose depends.
_POSE = frozenset(
    {
        'qpos_spring',
        'body_pos',
        'body_quat',
        'jnt_pos',
        'site_pos',
        'site_quat',
    }
)
#: A rest length within this share of a tendon's length in the reference pose is that length.
_SAME = 1e-12


class SpringLengths:
    """The rest lengths that follow the reference pose."""

    def __init__(self, model: mujoco.MjModel, tendons: Sequence[int]) -> None:
        """Prepare a copy of the model that candidates are written to.

        Args:
            model: The compiled nominal model.
            tendons: The tendons that rest at their length in the reference pose.
        """
        self._model = model.__copy__()
        self._data = mujoco.MjData(self._model)
        self._tendons = list(tendons)
        self.indices = tuple(2 * tendon + side for tendon in tendons for side in range(2))

    @classmethod
    def following(
        cls,
        model: mujoco.MjModel,
        written: Mapping[str, Collection[int]],
        spec: mujoco.MjSpec | None,
    ) -> Self | None:
        """Find the rest lengths that change with what is written; None where there are none.

        Args:
            model: The compiled nominal model.
            written: Flat indices that are written, by field.
            spec: What the model was compiled from, if it is at hand.
        """
        if not model.ntendon or _POSE.isdisjoint(written):
            return None
        every = cls(model, range(model.ntendon))
        rest = np.array(getattr(model, LENGTH))
        if spec is None:
            lengths = every.lengths((), 1).reshape(rest.shape)
            follows = np.all(np.isclose(lengths, rest, rtol=_SAME, atol=_SAME), axis=1)
        else:
            given = [np.asarray(tendon.springlength) for tendon in spec.tendons]
            follows = np.array([bool(np.all(length == -1)) for length in given])
        for place in written.get(LENGTH, ()):  # a target sets them
            follows[place // 2] = False
        return cls(model, np.flatnonzero(follows).tolist()) if np.any(follows) else None

    def lengths(self, assignments: Sequence[Assignment], count: int) -> NDArray[np.float64]:
        """Return the (count, 2 k) rest lengths of candidates, in the order of ``indices``."""
        made = np.empty((count, 2 * len(self._tendons)))
        for candidate in range(count):
            for field, index, data in assignments:
                write_field(self._model, field, index, data[candidate])
            # Frames that coincided in the nominal model need not do so in a candidate.
            mujoco.mj_setConst(self._model, self._data)
            self._data.qpos[:] = self._model.qpos_spring
            mujoco.mj_fwdPosition(self._model, self._data)
            made[candidate] = np.repeat(self._data.ten_length[self._tendons], 2)
        return made
