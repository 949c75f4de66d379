# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Places and orientations in the text: relative to frames, and in several spellings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sysid_ros.model.mjcf.numbers import join, set_vector
from sysid_ros.model.mjcf.text import Draft

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sysid_ros.model.mjcf.numbers import Editable
    from sysid_ros.model.mjcf.source import Node

#: How MJCF spells an orientation.
ORIENTATIONS = ('quat', 'axisangle', 'xyaxes', 'zaxis', 'euler')

#: Coordinates below this share of the largest one are rounding errors of zeros.
_ROUNDING = 1e-15


class Pose(NamedTuple):
    """A place and an orientation.

    Attributes:
        pos: (3,) m.
        quat: (4,) w x y z.
    """

    pos: NDArray[np.float64]
    quat: NDArray[np.float64]

    def place_inside(self, pos: ArrayLike) -> NDArray[np.float64]:
        """Return a place, given where this pose is, relative to this pose."""
        made, pos = np.empty(3), np.asarray(pos, float)
        mujoco.mju_rotVecQuat(made, pos - self.pos, self._back())
        made[np.abs(made) < _ROUNDING * max(np.abs(pos).max(), np.abs(self.pos).max())] = 0.0
        return made

    def orientation_inside(self, quat: ArrayLike) -> NDArray[np.float64]:
        """Return an orientation, given where this pose is, relative to this pose."""
        made = np.empty(4)
        mujoco.mju_mulQuat(made, self._back(), np.asarray(quat, float))
        return made

    def _back(self) -> NDArray[np.float64]:
        back = np.empty(4)
        mujoco.mju_negQuat(back, self.quat)
        return back


def frames_around(node: Node, spec: mujoco.MjSpec) -> Pose | None:
    """Return the pose of the ``<frame>`` elements around an element; None where there are none.

    Args:
        node: The element.
        spec: The model, whose angles the text has.
    """
    frames: list[Node] = []
    for ancestor in node.ancestors():
        if ancestor.tag != 'frame':
            break
        frames.append(ancestor)
    if not frames:
        return None
    angle = 'degree' if spec.compiler.degree else 'radian'
    root = Draft('mujoco')
    sequence = ''.join(spec.compiler.eulerseq)
    root.add(Draft('compiler', angle=angle, eulerseq=sequence))
    inside = root.add(Draft('worldbody'))
    for frame in reversed(frames):
        texts = {name: frame.get(name) for name in ('pos', *ORIENTATIONS)}
        inside = inside.add(Draft('frame', **{n: t for n, t in texts.items() if t is not None}))
    inside.add(Draft('site'))
    model = mujoco.MjModel.from_xml_string(str(root))
    return Pose(np.array(model.site_pos[0]), np.array(model.site_quat[0]))


def set_orientation(element: Editable, quat: ArrayLike) -> None:
    """Write an orientation as a quaternion, in the place of any other spelling."""
    found = [name for name in ORIENTATIONS if element.get(name) is not None]
    if 'quat' in found or not found:
        set_vector(element, 'quat', np.asarray(quat, float))
    else:
        element.rename(found[0], 'quat', join(np.asarray(quat, float)))
