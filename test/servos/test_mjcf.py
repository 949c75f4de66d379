# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A servo as a joint and an actuator of MJCF."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from sysid_ros.errors import ModelError, ParameterError
from sysid_ros.servos.mjcf import plain_servo, write_servo
from sysid_ros.simulation.servo import (
    ACTUATORS,
    MOTOR_LAWS,
    ActuatorType,
    Coefficient,
    Servo,
    friction_law,
)

LIMITED = {**ACTUATORS['mx106'].coefficients, 'current_limit': Coefficient(2.0, 1.0, 4.0)}
MX = ACTUATORS['mx106'].constants
DRIVER = {'kp': 2.0, 'vin': 15.0, 'error_gain': 1.0}
KINDS = {
    'voltage': ACTUATORS['mx106'],
    'voltage, current limited': ActuatorType(
        name='limited', law='voltage', constants=MX, coefficients=LIMITED
    ),
    'current': ActuatorType(name='driver', law='current', constants=DRIVER, coefficients=LIMITED),
    'damped current': ACTUATORS['erob80_50'],
    'torque': ACTUATORS['unitree_go1'],
}


def _servo(kind: ActuatorType, model: str = 'm1') -> tuple[Servo, dict[str, float]]:
    servo = Servo(kind, friction_law(model))
    return servo, {name: usual.initial for name, usual in servo.coefficients.items()}


@pytest.mark.parametrize('kind', KINDS)
def test_the_actuator_gives_the_torque_of_its_law_inside_and_at_its_limits(
    kind: str, tmp_path: Path
):
    servo, values = _servo(KINDS[kind])
    write_servo(tmp_path / 'servo.xml', plain_servo(servo, values))
    model = mujoco.MjModel.from_xml_path(str(tmp_path / 'servo.xml'))
    data = mujoco.MjData(model)
    generator = np.random.default_rng(1)
    errors = np.concatenate([generator.normal(scale=scale, size=60) for scale in (0.02, 0.3, 3.0)])
    speeds = generator.normal(scale=2.0, size=len(errors))
    p = {**servo.type.constants, **values}
    expected = MOTOR_LAWS[servo.type.law].torque(p, errors, speeds, 1.0)
    found = []
    for goal, speed in zip(errors, speeds, strict=True):
        data.ctrl[0], data.qvel[0] = goal, speed
        mujoco.mj_forward(model, data)
        found.append(data.qfrc_actuator[0])
    assert np.allclose(found, expected, rtol=1e-7, atol=1e-7)


def test_what_is_lost_is_said():
    assert not plain_servo(*_servo(ACTUATORS['mx106'])).notes
    (note,) = plain_servo(*_servo(ACTUATORS['xl330i'])).notes
    assert 'root of the position error' in note
    found = plain_servo(*_servo(ACTUATORS['xl330'], 'm3'))
    assert 'damping="0.1" frictionloss="0.05"' in found.joint
    assert 'only friction_base and friction_viscous are kept' in found.notes[-1]


def test_gain_and_supply_are_taken_and_checked():
    servo, values = _servo(ACTUATORS['xl330'])
    usual, given = (
        float(plain_servo(servo, values, **own).actuator.split('controller="')[1].split()[0])
        for own in ({}, {'kp': 200.0, 'vin': 5.0})
    )
    assert given == pytest.approx(usual * 200 / 400 * 5.0 / 7.5)
    with pytest.raises(ParameterError, match="positive number for 'kp'"):
        plain_servo(servo, values, kp=-1.0)
    with pytest.raises(ParameterError, match="no 'vin' to set"):
        plain_servo(*_servo(ACTUATORS['unitree_go1']), vin=5.0)


def test_a_joint_that_friction_holds_does_not_creep():
    servo, values = _servo(ACTUATORS['xl330'])
    joint = plain_servo(servo, values).joint.replace('<joint ', '<joint axis="0 -1 0" ')
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep=".001"/><worldbody><body>{joint}'
        '<geom pos=".1 0 0" size=".01" mass=".02"/></body></worldbody></mujoco>'
    )
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, nstep=1000)
    assert 0.3 * values['friction_base'] < data.qfrc_bias[0] < values['friction_base']
    assert abs(data.qpos[0]) < 2e-5


def test_numbers_that_mujoco_refuses_are_an_error_and_no_file(tmp_path: Path):
    servo, values = _servo(ACTUATORS['mx106'])
    with pytest.raises(ModelError, match='does not take the servo'):
        write_servo(tmp_path / 'servo.xml', plain_servo(servo, {**values, 'R': -1.0}))
    assert list(tmp_path.iterdir()) == []
