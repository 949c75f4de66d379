# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""IMUs, wrenches and orientations of an arm that moves: which they are, their units and axes."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest

from builders.bag_columns import Columns
from builders.sensor_arm import JOINTS, TIMES, arm, bag, record
from sysid_ros.alignment.health import FindingKind
from sysid_ros.alignment.pairing import map_columns
from sysid_ros.alignment.trajectories import align
from sysid_ros.alignment.vectors import VectorPair, vector_pairs


def found_in(recorded: Any, model: mujoco.MjModel) -> dict[str, VectorPair]:
    pairs = [
        pair
        for pair in map_columns(recorded, model, 'auto').pairs
        if pair.name in dict(JOINTS) or pair.field == 'position'
    ]
    return {pair.name: pair for pair in vector_pairs(recorded, model, pairs)}


def test_what_a_motion_makes_them_read_names_sensors(columns: Columns) -> None:
    found = found_in(bag(columns, record(arm())), arm())
    assert {name: pair.field for name, pair in found.items()} == {
        'gyro': 'angular_velocity',
        'acc': 'linear_acceleration',
        'force': 'wrench.force',
        'torque': 'wrench.torque',
        'tilt': 'orientation',
    }
    assert all(found[name].score > 0.95 for name in ('gyro', 'acc', 'force', 'tilt'))
    assert all('100%' in found[name].reason for name in ('gyro', 'acc', 'tilt'))


def test_units_and_signs_are_told_by_the_motion(columns: Columns) -> None:
    recorded = bag(columns, record(arm()), gyro=180 / np.pi, acc=-1 / 9.80665, force=-1.3)
    found = found_in(recorded, arm())
    assert found['gyro'].scale == pytest.approx(np.pi / 180)
    assert found['acc'].scale == pytest.approx(-9.80665)
    assert found['force'].scale == -1
    assert 'deg/s' in found['gyro'].reason
    assert 'in g, with the other sign' in found['acc'].reason
    mapped = map_columns(recorded, arm(), 'auto')
    assert {pair.name: pair.scale for pair in mapped.pairs}['gyro'] == found['gyro'].scale
    assert [item.kind for item in mapped.health].count(FindingKind.ASSUMED_UNIT) == 3


def test_axes_that_are_turned_are_said(columns: Columns) -> None:
    recorded = bag(columns, record(arm('euler=".2 0 1.5"')))
    found = found_in(recorded, arm())
    for name in ('gyro', 'acc', 'tilt'):
        assert 'turned by 87°' in found[name].reason or 'turned by 86°' in found[name].reason
        assert found[name].score > 0.95


def test_an_orientation_of_another_reference_is_left_out(columns: Columns) -> None:
    seen, turned = record(arm()), np.zeros((len(TIMES), 4))
    about_z = np.array([np.cos(0.35), 0.0, 0.0, np.sin(0.35)])
    for into, quat in zip(turned, seen['tilt'], strict=True):
        mujoco.mju_mulQuat(into, about_z, quat)
    found = found_in(bag(columns, {**seen, 'tilt': turned}), arm())['tilt']
    assert found.score < 0.5
    assert 'its reference is turned by 40° against the world' in found.reason


def test_what_moves_otherwise_is_not_taken(columns: Columns) -> None:
    seen = record(arm())
    other = {**seen, 'gyro': np.roll(seen['gyro'], 137, axis=0)}
    found = found_in(bag(columns, other), arm())['gyro']
    assert found.score < 0.5
    assert 'but the motion explains' in found.reason


def test_an_orientation_becomes_a_rotation_vector_and_zeros_are_none(columns: Columns) -> None:
    seen = record(arm())
    seen['tilt'][100:150] = 0.0
    seen['tilt'][200:] *= -1.0  # the same orientation
    recorded = bag(columns, seen)
    aligned = align(recorded, arm(), map_columns(recorded, arm(), 'auto'), 'auto')
    (run,) = aligned.sequences
    missing = [item for item in aligned.health if item.kind is FindingKind.MISSING]
    assert [(item.subject, item.count) for item in missing] == [('/data_1.orientation', 50)]
    (series,) = [each for each in run.measurements if 'tilt' in each.names]
    assert series.data.shape == (len(TIMES) - 50, 3)
    steady = np.diff(series.times) < 0.02
    assert np.abs(np.diff(series.data, axis=0))[steady].max() < 0.1
    quat, first = np.array([1.0, 0, 0, 0]), np.zeros(4)
    mujoco.mju_quatIntegrate(quat, series.data[-1], 1.0)
    first[:] = -seen['tilt'][-1]
    np.testing.assert_allclose(quat * np.sign(quat @ first), first, atol=1e-12)
