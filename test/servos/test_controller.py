# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Servos in a simulation that is stepped by hand do what they do on the bench."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from builders.servo_robots import drive, driven_arm
from sysid_ros.servos.joints import ServoController, ServoJoints
from sysid_ros.servos.logs import ServoLog
from sysid_ros.servos.pendulum import simulate, stack_logs
from sysid_ros.servos.servo import FRICTION_LAWS

MASS, ARM_MASS, LENGTH = 0.567, 0.085, 0.105
_TOTAL = MASS + ARM_MASS
_CENTRE = (MASS * LENGTH + ARM_MASS * LENGTH / 2) / _TOTAL
_INERTIA = MASS * LENGTH**2 + ARM_MASS * LENGTH**2 / 3 - _TOTAL * _CENTRE**2
PENDULUM = f"""
<mujoco>
  <option timestep="{{timestep}}" gravity="0 0 -9.80665"/>
  <worldbody>
    <body>
      <joint name="j" axis="0 -1 0"/>
      <inertial pos="0 0 -{_CENTRE}" mass="{_TOTAL}"
        diaginertia="{_INERTIA} {_INERTIA} {_INERTIA}"/>
    </body>
  </worldbody>
  <actuator><position name="a" joint="j" kp="3"/></actuator>
</mujoco>
"""


def pendulum(timestep: float = 0.002, **numbers: float | str) -> ServoJoints:
    model = mujoco.MjModel.from_xml_string(PENDULUM.format(timestep=timestep))
    return ServoJoints(model, [drive('a', **numbers)])


def difference_from_the_bench(model: str, timestep: float) -> float:
    times = np.arange(0.0, 1.2, timestep)
    goal = 0.8 * np.sin(4.0 * times) + 0.4 * np.sin(13.0 * times)
    on = np.where(times < 0.9, 1.0, 0.0)
    joints = pendulum(timestep, model=model)
    (own,) = joints.drives
    start = np.full(len(times), 0.3)
    rest = np.zeros(len(times))
    log = ServoLog('l', 'xl330', 't', MASS, ARM_MASS, LENGTH, {}, timestep, start, goal, on, rest)
    values = {**own.values, 'q_offset': 0.0}
    candidate = np.array([[values[name] for name in own.servo.coefficients]])
    expected = simulate(own.servo, stack_logs(own.servo, [log]), candidate).position[:, 0, 0]

    data = mujoco.MjData(joints.model)
    data.qpos[0] = 0.3
    controller = ServoController(joints, data)
    found = np.empty(len(times))
    for row in range(len(times)):
        found[row] = data.qpos[0]
        controller.goal[0], controller.enabled[0] = goal[row], on[row]
        controller.update()
        mujoco.mj_step(joints.model, data)
    assert np.ptp(expected) > 0.5
    return float(np.abs(found - expected).max())


@pytest.mark.slow
@pytest.mark.parametrize('model', FRICTION_LAWS)
def test_a_pendulum_moves_as_on_the_bench_the_nearer_the_shorter_the_step(model: str):
    coarse, fine = (difference_from_the_bench(model, step) for step in (0.002, 0.0005))

    assert coarse < 0.015  # the bench's last half step, at up to 8 rad/s
    assert fine < 0.3 * coarse


def test_friction_holds_a_loaded_joint_where_it_is():
    joints = pendulum(model='m1', friction_base=0.2)
    data = mujoco.MjData(joints.model)
    data.qpos[0] = 0.2  # gravity turns with .12 N·m
    controller = ServoController(joints, data)
    controller.enabled[:] = 0.0
    for _ in range(2000):
        controller.update()
        mujoco.mj_step(joints.model, data)

    assert data.qfrc_bias[0] == pytest.approx(0.125, abs=0.005)
    assert data.qpos[0] == pytest.approx(0.2, abs=1e-4)


def test_a_servo_whose_speed_is_limited_starts_from_where_it_is_also_after_a_reset():
    joints = pendulum(kind='sts3215', max_velocity=0.5)
    data = mujoco.MjData(joints.model)
    controller = ServoController(joints, data)
    for _ in range(2):
        mujoco.mj_resetData(joints.model, data)
        data.qpos[0] = 1.0
        controller.goal[0] = 2.0
        for _ in range(100):
            controller.update()
            mujoco.mj_step(joints.model, data)

        # After .2 s the goal of the loop is .1 rad on; the command is 1 rad away.
        assert data.qpos[0] == pytest.approx(1.05, abs=0.06)


def test_motors_that_are_off_give_no_torque():
    joints = driven_arm()
    data = mujoco.MjData(joints.model)
    controller = ServoController(joints, data)
    controller.goal[:] = 1.0
    controller.enabled[joints.place('b')] = 0.0
    controller.update()

    assert data.ctrl[joints.controls[joints.place('b')]] == 0.0
    assert data.ctrl[joints.controls[joints.place('a')]] > 0.0
