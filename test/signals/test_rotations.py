# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Orientations as rotation vectors, against SciPy's rotations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sysid_ros.signals.rotations import nearest_rotation_vectors, rotation_vectors


def quaternions(turned: Rotation) -> np.ndarray:
    return np.asarray(turned.as_quat(scalar_first=True))


def turning(turns: float, count: int = 400) -> Rotation:
    """Return orientations that go through so many turns about an axis that drifts."""
    angle = np.linspace(-np.pi * turns, np.pi * turns, count)
    drift = np.linspace(0, 0.3, count)
    axis = np.stack([np.cos(drift), np.sin(drift), 0.5 + drift], axis=1)
    return Rotation.from_rotvec(angle[:, None] * axis / np.linalg.norm(axis, axis=1)[:, None])


@pytest.mark.parametrize('turns', [0.3, 1.0, 2.7])
def test_rotation_vectors_go_on_and_are_those_of_the_orientations(turns: float) -> None:
    turned, signs = turning(turns), np.random.default_rng(1).choice([-1.0, 1.0], (400, 1))
    vectors = rotation_vectors(3.0 * signs * quaternions(turned))
    apart = (Rotation.from_rotvec(vectors).inv() * turned).magnitude()
    assert apart.max() < 1e-12
    assert np.linalg.norm(np.diff(vectors, axis=0), axis=1).max() < 0.02 + 0.05 * turns


def test_the_nearest_differ_as_the_orientations_do() -> None:
    rng = np.random.default_rng(2)
    there = rotation_vectors(quaternions(turning(1.4, 50)))
    turn = np.array([0.01, 1.0, 3.0])[:, None, None] * _units(rng, (3, 50, 3))
    here = Rotation.from_rotvec(there)
    other = np.stack([quaternions(here * Rotation.from_rotvec(each)) for each in turn])
    np.testing.assert_allclose(
        nearest_rotation_vectors(-2.0 * other, there) - there, turn, atol=1e-12
    )
    same = nearest_rotation_vectors(quaternions(here), there)
    np.testing.assert_allclose(same, there, atol=1e-15 + 1e-14)


def _units(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    drawn = rng.standard_normal(shape)
    return np.asarray(drawn / np.linalg.norm(drawn, axis=-1, keepdims=True))
