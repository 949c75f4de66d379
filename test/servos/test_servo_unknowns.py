# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of servos become unknowns with starts and bounds of their own."""

from __future__ import annotations

import pytest

from builders.servo_robots import VALUES, arm, drive, driven_arm
from sysid_ros.errors import ParameterError
from sysid_ros.model.targets import resolve
from sysid_ros.pipeline.problem import servo_unknowns, start_of
from sysid_ros.servos.laws.joints import ServoJoints


def test_each_joint_has_its_own_numbers():
    found = servo_unknowns(driven_arm(), ['kt', 'friction_stribeck', 'armature'])

    assert {u.name for u in found} == {
        'actuator/b/kt',
        'actuator/b/friction_stribeck',
        'joint/elbow/armature',
        'actuator/a/kt',
        'actuator/a/friction_stribeck',
        'joint/shoulder/armature',
    }
    (kt,) = (u for u in found if u.name == 'actuator/b/kt')
    assert (kt.nominal, kt.min_value, kt.max_value, kt.unit) == (0.9, 0.1, 3.0, 'N·m/A')


def test_actuators_of_a_drive_may_share_numbers():
    joints = ServoJoints(arm(), [drive('a', 'b', kt=7.0)])

    kt, armature = servo_unknowns(joints, ['kt', 'armature'], shared=True)

    assert kt.name == 'actuator/{a,b}/kt'
    assert [t.path for t in kt.targets] == ['actuator/a/kt', 'actuator/b/kt']
    assert [t.path for t in armature.targets] == ['joint/shoulder/armature', 'joint/elbow/armature']
    assert (kt.nominal, kt.max_value) == (7.0, 7.0)


def test_the_start_of_a_target_is_that_of_its_servo():
    joints = driven_arm()
    (target,) = resolve('actuator/a/R', joints.model)

    assert start_of(joints, target) == (VALUES['R'], 2.0, 5.0)
    with pytest.raises(ParameterError, match="'a' has no 'load_friction_base'; nearest: friction_"):
        start_of(joints, *resolve('actuator/a/load_friction_base', joints.model))
    with pytest.raises(ParameterError, match="No servo drives an actuator 'w'"):
        start_of(joints, *resolve('actuator/w/kt', joints.model))


def test_a_coefficient_that_no_servo_has_is_named():
    with pytest.raises(ParameterError, match="coefficient 'alfa'; nearest: alpha"):
        servo_unknowns(driven_arm(), ['alfa'])
