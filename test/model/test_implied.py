# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Models as they are shipped: without sensors and actuators."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from sysid_ros.model.description import read_description
from sysid_ros.model.loading import (
    RobotModel,
    add_actuators,
    drop_implied,
    free_joints,
    implied_actuators,
    implied_sensors,
    implied_sentence,
    load_model,
    load_spec,
)
from sysid_ros.model.mjcf import write_model
from sysid_ros.model.targets import resolve

BODIES = """<mujoco>
  <worldbody>
    <body name="base"><freejoint name="root"/><geom size=".1"/><site name="imu"/>
      <body><joint name="hip"/><geom size=".1"/>
        <body><joint name="knee" type="slide"/><geom size=".1"/></body>
      </body>
      <body><joint/><geom size=".1"/></body>
    </body>
  </worldbody>
  {}
</mujoco>
"""
IMPLIED = [
    f'{joint}_{quantity}'
    for joint in ('hip', 'knee')
    for quantity in ('position', 'velocity', 'effort')
]


def _file(folder: Path, sensors: str) -> Path:
    path = folder / 'robot.xml'
    path.write_text(BODIES.format(sensors))
    return path


def _sensors(model: mujoco.MjModel) -> list[str]:
    return [model.sensor(index).name for index in range(model.nsensor)]


def test_hinges_and_slides_with_names_are_measured_behind_what_the_model_has(tmp_path: Path):
    path = _file(tmp_path, '<sensor><gyro name="gyro" site="imu"/></sensor>')
    assert _sensors(load_model(path)) == ['gyro', *IMPLIED]
    assert implied_sensors(load_spec(path)) == IMPLIED


def test_a_model_with_a_sensor_of_a_joint_stays_as_it_is(tmp_path: Path):
    path = _file(tmp_path, '<sensor><jointvel name="v" joint="hip"/></sensor>')
    assert _sensors(load_model(path)) == ['v']


def test_a_name_that_is_taken_is_not_given_twice(tmp_path: Path):
    path = _file(tmp_path, '<sensor><gyro name="hip_effort" site="imu"/></sensor>')
    found = _sensors(load_model(path))
    assert found == ['hip_effort', *(name for name in IMPLIED if name != 'hip_effort')]


def test_implied_sensors_are_known_again_in_a_copy(tmp_path: Path):
    spec = load_spec(_file(tmp_path, '')).copy()
    assert implied_sensors(spec) == IMPLIED
    drop_implied(spec)
    assert spec.compile().nsensor == 0


def test_the_model_that_is_written_has_none(tmp_path: Path):
    path = _file(tmp_path, '')
    (target,) = resolve('joint/hip/damping', load_model(path), spec=load_spec(path))
    written = write_model(path, [(target, 0.5)], tmp_path / 'identified').path
    text = written.read_text().replace(' damping="0.5"', '')
    assert text == path.read_text()


SERVOS = ['hip_servo', 'knee_motor', 'slip_velocity_servo', 'nothing_servo', 'hip']
JOINTS = """<mujoco>
  <worldbody>
    <body><joint name="hip"/><geom size=".1" pos=".2 0 0"/>
      <body><joint name="knee" type="slide"/><geom size=".1"/>
        <body><joint name="slip"/><geom size=".1" pos="0 .1 0"/></body></body></body>
    <body><joint name="copy"/><geom size=".1"/></body>
  </worldbody>
  <equality><joint joint1="copy" joint2="hip"/></equality>{}
</mujoco>
"""


def _driven(folder: Path, actuators: str = '') -> tuple[Path, mujoco.MjSpec]:
    path = folder / 'joints.xml'
    path.write_text(JOINTS.format(actuators))
    spec = load_spec(path)
    add_actuators(spec, SERVOS)
    return path, spec


def test_actuators_are_made_by_their_names(tmp_path: Path):
    _, spec = _driven(tmp_path)
    assert implied_actuators(spec) == SERVOS[:3]
    assert free_joints(spec) == ['hip', 'knee', 'slip']
    servo, motor, velocity = spec.actuators
    assert servo.biasprm[1] < 0
    assert not motor.biasprm.any()
    assert (velocity.biasprm[1], velocity.gainprm[0]) == (0, -velocity.biasprm[2])
    assert 'actuator/*/kp and actuator/*/kv' in implied_sentence(spec)


def test_a_model_with_a_servo_of_its_own_gets_none(tmp_path: Path):
    _, spec = _driven(tmp_path, '<actuator><position joint="hip"/></actuator>')
    assert implied_actuators(spec) == []
    assert implied_sentence(spec) == ''


@pytest.mark.parametrize('mass', [1e-4, 1.0, 300.0])
@pytest.mark.parametrize('timestep', [0.001, 0.01])
def test_servos_with_guessed_gains_hold_and_follow(mass: float, timestep: float):
    spec = mujoco.MjSpec.from_string(
        f'<mujoco><option timestep="{timestep}"/><worldbody><body><joint name="j" axis="0 1 0"/>'
        f'<geom size=".05" pos=".3 0 0" mass="{mass}"/></body></worldbody></mujoco>'
    )
    add_actuators(spec, ['j_servo'])
    model = spec.compile()
    data = mujoco.MjData(model)
    data.ctrl[:] = 0.5
    for _ in range(round(5 / timestep)):
        mujoco.mj_step(model, data)
    # It sags by the load over its stiffness, at rest.
    load = mass * 9.81 * 0.3 * np.cos(data.qpos[0])
    assert data.qpos[0] == pytest.approx(0.5 + load / model.actuator_gainprm[0, 0], abs=1e-3)
    assert abs(data.qvel[0]) < 1e-3


def test_implied_actuators_are_written_and_the_rest_is_the_users_text(tmp_path: Path):
    path, spec = _driven(tmp_path)
    model = spec.copy().compile()
    (target,) = resolve('actuator/hip_servo/kp', model, spec=spec)
    source = RobotModel(read_description(path), spec)
    text = write_model(source, [(target, 55.0)], tmp_path / 'out').path.read_text()
    before, _, after = text.partition('  <actuator>\n')
    assert before + '</mujoco>\n' == path.read_text()
    assert '<position name="hip_servo" joint="hip" kp="55" kv="' in after
    assert '<motor name="knee_motor" joint="knee"/>' in after
    assert '<velocity name="slip_velocity_servo" joint="slip" kv="' in after
