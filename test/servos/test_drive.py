# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which loads a motor moves, and which move it."""

from __future__ import annotations

import numpy as np

from sysid_ros.servos.laws.friction import drive_diagram, friction_law, friction_under_load

LOADS = np.linspace(0.0, 0.6, 25)
M6 = {
    'friction_base': 0.0048,
    'friction_stribeck': 0.0047,
    'load_friction_motor': 0.267,
    'load_friction_external': 0.01,
    'load_friction_motor_stribeck': 0.02,
    'load_friction_external_stribeck': 0.081,
    'load_friction_motor_quad': 0.01,
    'load_friction_external_quad': 0.005,
    'dtheta_stribeck': 2.9,
    'alpha': 8.7,
    'friction_viscous': 0.005,
}


def test_with_coulomb_friction_the_two_lines_are_parallel():
    law, values = friction_law('m1'), {'friction_base': 0.05, 'friction_viscous': 0.1}
    found = drive_diagram(law, values, LOADS, (0.0, 3.0))
    assert np.allclose(found.drive, LOADS + 0.05, rtol=0, atol=1e-12)
    assert np.all(np.isnan(found.backdrive[:, LOADS < 0.05]))
    heavy = LOADS > 0.05
    distance = found.drive[:, heavy] - found.backdrive[:, heavy]
    assert np.allclose(distance, 2 * 0.05, rtol=0, atol=1e-12)


def test_with_load_dependent_friction_they_open_as_the_law_says():
    base, slope = 0.03, 0.2
    values = {'friction_base': base, 'load_friction_base': slope, 'friction_viscous': 0.0}
    found = drive_diagram(friction_law('m3'), values, LOADS)
    # τm - Kc - Kl (τm + L) = L, and τm + Kc + Kl (τm + L) = L.
    drive = (base + LOADS * (1 + slope)) / (1 - slope)
    backdrive = (LOADS * (1 - slope) - base) / (1 + slope)
    assert np.allclose(found.drive[0], drive, rtol=0, atol=1e-12)
    holds = backdrive < 0
    assert holds.any()
    assert np.all(np.isnan(found.backdrive[0, holds]))
    assert np.allclose(found.backdrive[0, ~holds], backdrive[~holds], rtol=0, atol=1e-12)


def test_a_joint_that_locks_itself_is_never_driven():
    values = {'friction_base': 0.01, 'load_friction_base': 1.0, 'friction_viscous': 0.0}
    found = drive_diagram(friction_law('m3'), values, LOADS)
    assert np.all(np.isnan(found.drive))
    assert np.all(np.isnan(found.backdrive))


def test_the_lines_are_where_a_search_through_all_torques_finds_them():
    law = friction_law('m6')
    found = drive_diagram(law, M6, LOADS, (0.0, 1.0, 30.0))
    torques = np.linspace(0.0, 2.0, 4001)
    for row, speed in enumerate(found.velocities):
        for column, load in enumerate(LOADS):
            most = law.dry(M6, torques, np.full_like(torques, -load), np.full_like(torques, speed))
            driven = torques[torques - most >= load]
            assert abs(found.drive[row, column] - driven.min()) <= torques[1]
            moved = torques[torques + most <= load]
            if len(moved):
                assert abs(found.backdrive[row, column] - moved.max()) <= torques[1]
            else:
                assert np.isnan(found.backdrive[row, column])


def test_friction_under_load_is_that_of_a_motor_that_carries_it():
    values = {'friction_base': 0.03, 'load_friction_base': 0.2, 'friction_viscous': 0.01}
    speeds = np.array([0.0, -2.0, 5.0])
    found = friction_under_load(friction_law('m3'), values, np.array([[0.0], [0.4]]), speeds)
    # The gears pass on the torques of both.
    expected = 0.03 + 0.2 * np.array([[0.0], [0.8]]) + 0.01 * np.abs(speeds)
    assert np.allclose(found, expected, rtol=0, atol=1e-15)
