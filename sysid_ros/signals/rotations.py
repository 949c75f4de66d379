# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Orientations as rotation vectors: three numbers that can be compared, in rad.

Quaternions are (w, x, y, z), as in MuJoCo, of any length above zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def rotation_vectors(quaternions: Array) -> Array:
    """Return the (n, 3) rotation vectors of (n, 4) orientations in time order.

    They go on beyond half a turn, where those of the same orientations would jump.
    """
    from scipy.spatial.transform import Rotation  # noqa: PLC0415 (slow to import)

    turned = Rotation.from_quat(quaternions, scalar_first=True).as_rotvec()
    angle = np.linalg.norm(turned, axis=1)
    axis = turned / np.where(angle > 0, angle, 1.0)[:, None]
    # Where the angle passes zero or half a turn, the axis becomes its opposite.
    same = np.sum(axis[1:] * axis[:-1], axis=1) >= 0
    way = np.concatenate([[1.0], np.cumprod(np.where(same, 1.0, -1.0))])[: len(angle)]
    return np.asarray(axis * (way * np.unwrap(way * angle))[:, None])


def nearest_rotation_vectors(quaternions: Array, vectors: Array) -> Array:
    """Return (…, n, 3) rotation vectors that differ from (n, 3) ones as (…, n, 4) orientations do.

    The difference is the rotation vector from the one orientation to the other, about the axes of
    the first: no longer than half a turn, and as good in every direction wherever the first is.
    """
    half = np.linalg.norm(vectors, axis=1, keepdims=True) / 2.0
    real, imaginary = np.cos(half), vectors * np.sinc(half / np.pi) / 2.0
    w, v = quaternions[..., :1], quaternions[..., 1:]
    # The product of the one quaternion's conjugate and the other.
    cosine = real * w + np.sum(imaginary * v, axis=-1, keepdims=True)
    sine = real * v - w * imaginary - np.cross(imaginary, v)
    sine = np.where(cosine < 0, -sine, sine)
    size = np.linalg.norm(sine, axis=-1, keepdims=True)
    angle = 2.0 * np.arctan2(size, np.abs(cosine))
    apart = sine * angle / np.where(size > 0, size, 1.0)
    return np.asarray(vectors + apart)
