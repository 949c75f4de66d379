# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A servo as a joint and an actuator of MJCF."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from sysid_ros.errors import ModelError, ParameterError
from sysid_ros.servos.formats.mjcf import plain_actuator, snippet, write_plain_mjcf
from sysid_ros.servos.laws.friction import Coefficient, friction_law
from sysid_ros.servos.laws.servo import ACTUATORS, ActuatorType, Servo

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
    write_plain_mjcf(tmp_path / 'servo.xml', plain_actuator(servo, values))
    model = mujoco.MjModel.from_xml_path(str(tmp_path / 'servo.xml'))
    data = mujoco.MjData(model)
    generator = np.random.default_rng(1)
    p = {**servo.type.constants, **values}
    errors = np.concatenate([generator.normal(scale=scale, size=60) for scale in (0.02, 0.3, 3.0)])
    speeds = generator.normal(scale=2.0, size=len(errors))
    expected = servo.type.motor.torque(p, errors, speeds, 1.0)
    found = []
    for goal, speed in zip(errors, speeds, strict=True):
        data.ctrl[0], data.qvel[0] = goal, speed
        mujoco.mj_forward(model, data)
        found.append(data.qfrc_actuator[0])
    assert np.allclose(found, expected, rtol=1e-7, atol=1e-7)


def test_a_position_actuator_has_the_back_emf_in_the_damping_of_its_joint():
    servo, values = _servo(ACTUATORS['mx106'])
    motor, position = (
        plain_actuator(servo, values, element=element) for element in ('dcmotor', 'position')
    )
    braking = values['kt'] ** 2 / values['R']
    assert float(position.joint['damping']) == pytest.approx(
        float(motor.joint['damping']) + braking
    )
    limit = values['kt'] / values['R'] * MX['vin'] * MX['max_pwm']
    assert float(position.actuator['forcerange'].split()[1]) == pytest.approx(limit)
    assert 'back-EMF' in position.notes[0]


def test_a_regulated_supply_current_is_a_line():
    servo, values = _servo(ACTUATORS['xl330i'])
    (note,) = plain_actuator(servo, values).notes
    assert 'root of the position error' in note


def test_gain_and_supply_are_taken_and_checked():
    servo, values = _servo(ACTUATORS['xl330'])
    usual, given = (
        float(plain_actuator(servo, values, element='position', **own).actuator['kp'])
        for own in ({}, {'kp': 200.0, 'vin': 5.0})
    )
    assert given == pytest.approx(usual * 200 / 400 * 5.0 / 7.5)
    with pytest.raises(ParameterError, match="positive number for 'kp'"):
        plain_actuator(servo, values, kp=-1.0)
    go1 = _servo(ACTUATORS['unitree_go1'])
    with pytest.raises(ParameterError, match="no 'vin' to set"):
        plain_actuator(*go1, vin=5.0)
    with pytest.raises(ParameterError, match='available: position'):
        plain_actuator(*go1, element='dcmotor')


def test_of_a_law_with_load_the_rest_is_kept_and_told():
    servo, values = _servo(ACTUATORS['xl330'], 'm3')
    found = plain_actuator(servo, values)
    assert (found.joint['frictionloss'], found.joint['damping']) == ('0.05', '0.1')
    assert 'only friction_base and friction_viscous are kept' in found.notes[-1]


def test_the_snippet_goes_into_another_model():
    servo, values = _servo(ACTUATORS['mx106'])
    joint, drive = snippet(plain_actuator(servo, values), 'a "b" & c')
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><worldbody><body>{joint}<geom size=".1"/></body></worldbody>'
        f'<actuator>{drive}</actuator></mujoco>'
    )
    assert model.joint(0).name == 'a "b" & c'
    assert model.dof_frictionloss[0] == pytest.approx(values['friction_base'])
    assert model.dof_armature[0] == pytest.approx(values['armature'])


def test_a_joint_that_friction_holds_does_not_creep():
    servo, values = _servo(ACTUATORS['xl330'])
    joint, _ = snippet(plain_actuator(servo, values))
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep=".001"/><worldbody><body>{joint}'
        '<geom pos=".1 0 0" size=".01" mass=".02"/></body></worldbody></mujoco>'.replace(
            '<joint ', '<joint axis="0 -1 0" '
        )
    )
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, nstep=1000)
    assert 0.3 * values['friction_base'] < data.qfrc_bias[0] < values['friction_base']
    assert abs(data.qpos[0]) < 2e-5


def test_numbers_that_mujoco_refuses_are_an_error_and_no_file(tmp_path: Path):
    servo, values = _servo(ACTUATORS['mx106'])
    actuator = plain_actuator(servo, values)
    broken = actuator._replace(actuator={**actuator.actuator, 'resistance': '-1'})
    with pytest.raises(ModelError, match='does not take the servo'):
        write_plain_mjcf(tmp_path / 'servo.xml', broken)
    assert list(tmp_path.iterdir()) == []
