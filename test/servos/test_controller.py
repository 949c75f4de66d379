# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Servos in simulations that are stepped by hand, on the bench and in a batch move alike."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from mujoco.batch import Batch
from numpy.typing import NDArray

from builders.servo_robots import arm, drive, driven_arm
from sysid_ros.servos.logs import ServoLog
from sysid_ros.servos.pendulum import simulate, stack_logs
from sysid_ros.simulation.servo import FRICTION_LAWS
from sysid_ros.simulation.servo_joints import ServoController, ServoJoints, ServoStepper

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


STEPS = 400


def goals(amplitude: float = 1.4) -> NDArray[np.float64]:
    times = 0.002 * np.arange(STEPS)
    return amplitude * np.sin(6.0 * times[:, None] + np.array([0.5, 0.0]))


START = (0.1, 0.2, 0.3), (1.0, 0.0, -1.0)
SIZES = {'qpos': 3, 'sensordata': 4, 'qfrc_actuator': 3}


def one_by_one(
    joints: ServoJoints, wanted: NDArray[np.float64], control: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    data = mujoco.MjData(joints.model)
    data.qpos[:], data.qvel[:] = START
    controller = ServoController(joints, data)
    found: dict[str, list[NDArray[np.float64]]] = {name: [] for name in SIZES}
    limited = 0
    for row in range(STEPS):
        data.ctrl[:] = control[row]
        controller.goal[:] = wanted[row]
        controller.update()
        mujoco.mj_step(joints.model, data)
        limited += int(data.nefc > data.nf)
        for name, rows in found.items():
            rows.append(getattr(data, name).copy())
    assert limited > 10  # limits are loads, too
    return {name: np.array(rows) for name, rows in found.items()}


BASES, QUADS = np.array([0.0, 0.02, 0.1]), np.array([0.0, 0.5, 2.0])


def stepped(
    wanted: NDArray[np.float64], control: NDArray[np.float64], count: int
) -> dict[str, NDArray[np.float64]]:
    """Step the first simulations of a batch of three, each with its own friction."""
    joints = driven_arm()
    columns = {(0, 'friction_base'): 0, (1, 'friction_base'): 0, (0, 'load_friction_motor_quad'): 1}
    batch = Batch(joints.model, len(BASES), 2)
    batch.reset(stage=0)
    batch.bind('qpos')[:], batch.bind('qvel')[:] = START
    told = np.tile(control, (count, 1, 1))
    told[:, :, joints.controls] = wanted[:count]
    found = {name: np.empty((count, STEPS, size)) for name, size in SIZES.items()}
    stepper = ServoStepper(joints, joints.model, columns)
    stepper.roll(batch, told, np.column_stack([BASES, QUADS])[:count], found)
    return found


@pytest.mark.slow
@pytest.mark.parametrize('count', [3, 2])
def test_simulations_in_a_batch_move_as_each_does_by_hand(count: int):
    wanted = np.stack([goals(), -goals(), goals(2.0)])
    control = np.zeros((STEPS, 3))
    control[:, 1] = 0.05 * np.sin(0.1 * np.arange(STEPS))
    found = stepped(wanted, control, count)

    for index in range(count):
        base = BASES[index]
        drives = [
            drive('b', model='m6', friction_base=base, load_friction_motor_quad=QUADS[index]),
            drive('a', model='m2', friction_base=base),
        ]
        expected = one_by_one(ServoJoints(arm(), drives), wanted[index], control)
        for name, values in expected.items():
            assert found[name][index] == pytest.approx(values, abs=1e-12, rel=1e-11), name


@pytest.mark.slow
def test_a_simulation_that_diverges_repeats_its_record_and_the_others_go_on():
    wanted = np.stack([goals(), goals(), goals()])
    good = stepped(wanted, np.zeros((STEPS, 3)), 3)
    wanted[1, 50:] = np.nan
    found = stepped(wanted, np.zeros((STEPS, 3)), 3)

    assert np.array_equal(found['qpos'][[0, 2]], good['qpos'][[0, 2]])
    assert np.all(found['qpos'][1, 50:] == found['qpos'][1, 50])
