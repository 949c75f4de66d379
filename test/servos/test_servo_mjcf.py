# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""MJCF of servos, compiled and simulated."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import mujoco
import numpy as np
import pytest

from sysid_ros.errors import ModelError
from sysid_ros.servos.bench.pendulum import GRAVITY
from sysid_ros.servos.formats.logs import ServoLog
from sysid_ros.servos.formats.mjcf import (
    PendulumLoad,
    compiled,
    nearness,
    pendulum_mjcf,
    plain_actuator,
    plain_friction,
    snippet,
    write_plain_mjcf,
)
from sysid_ros.servos.laws.friction import Coefficient, friction_law
from sysid_ros.servos.laws.motors import MOTOR_LAWS
from sysid_ros.servos.laws.servo import ACTUATORS, ActuatorType, Servo

if TYPE_CHECKING:
    from pathlib import Path

LIMITED = {**ACTUATORS['mx106'].coefficients, 'current_limit': Coefficient(2.0, 1.0, 4.0)}
MX = ACTUATORS['mx106'].constants
DRIVER = {'kp': 2.0, 'vin': 15.0, 'error_gain': 1.0}
KINDS = {
    'voltage': ACTUATORS['mx106'],
    'voltage, current limited': ActuatorType('limited', MOTOR_LAWS['voltage'], MX, LIMITED),
    'voltage, velocity limited': ACTUATORS['sts3215'],
    'current': ActuatorType('driver', MOTOR_LAWS['current'], DRIVER, LIMITED),
    'damped current': ACTUATORS['erob80_50'],
    'torque': ACTUATORS['unitree_go1'],
}


def _servo(kind: str) -> tuple[Servo, dict[str, float]]:
    servo = Servo(KINDS[kind], friction_law('m1'))
    return servo, {name: usual.initial for name, usual in servo.coefficients.items()}


def _steps_and_sines(servo: Servo, count: int = 600, dt: float = 0.001) -> ServoLog:
    """Return commands that drive the motor to its limits; it is off in the last third."""
    times = np.arange(count) * dt
    nothing = np.zeros(count)
    goal = 1.2 * np.sign(np.sin(14 * times + 0.3)) + 0.3 * np.sin(9 * times)
    enabled = np.where(times < 2 / 3 * times[-1], 1.0, 0.0)
    kp = servo.type.constants['kp']
    return ServoLog(
        'steps', '', '', 0.3, 0.02, 0.15, {'kp': kp}, dt, nothing, goal, enabled, nothing
    )


@pytest.mark.parametrize('kind', sorted(set(KINDS) - {'voltage, velocity limited'}))
def test_the_actuator_gives_the_torque_of_its_law_inside_and_at_its_limits(kind: str):
    servo, values = _servo(kind)
    actuator = plain_actuator(servo, values)
    model = compiled(pendulum_mjcf(actuator, PendulumLoad()))
    model.actuator_ctrllimited[:] = False
    data = mujoco.MjData(model)
    generator = np.random.default_rng(1)
    p = {**servo.type.constants, **values}
    errors = np.concatenate([generator.normal(scale=scale, size=60) for scale in (0.02, 0.3, 3.0)])
    speeds = generator.normal(scale=2.0, size=len(errors))
    control, _ = servo.type.law.drive(p, errors, np.zeros(1), speeds, 0.001, None)
    expected = servo.type.law.torque(p, control, 1.0, speeds)
    found = []
    for goal, speed in zip(errors, speeds, strict=True):
        data.ctrl[0], data.qvel[0] = goal, speed
        mujoco.mj_forward(model, data)
        found.append(data.qfrc_actuator[0])
    assert np.allclose(found, expected, rtol=1e-7, atol=1e-7)
    model.opt.disableactuator = 1
    mujoco.mj_forward(model, data)
    assert data.qfrc_actuator[0] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize('kind', KINDS)
def test_what_mjcf_can_hold_moves_as_the_law_but_for_the_length_of_steps(kind: str):
    servo, values = _servo(kind)
    log = _steps_and_sines(servo)
    friction = plain_friction(servo, values)
    coarse, fine = (
        nearness(servo, values, [log], friction, timestep=step)[0] for step in (1e-3, 2.5e-4)
    )
    # Of motions by about a radian.
    assert coarse.powered < 0.01
    assert fine.powered < 0.35 * coarse.powered
    assert fine.off < 0.35 * coarse.off


@pytest.mark.slow
def test_a_position_actuator_is_as_good_while_a_motor_without_other_limits_is_powered():
    servo, values = _servo('voltage')
    friction = plain_friction(servo, values)
    log = _steps_and_sines(servo)
    dcmotor, position = (
        nearness(servo, values, [log], friction, element)[0] for element in ('dcmotor', 'position')
    )
    assert position.powered == pytest.approx(dcmotor.powered, rel=0.05)
    # The back-EMF of a motor that is off still brakes.
    assert position.off > 10 * dcmotor.off


@pytest.mark.slow
def test_friction_chosen_for_the_logs_is_nearer_to_a_law_with_load():
    servo = Servo(KINDS['voltage'], friction_law('m3'))
    values = {name: usual.initial for name, usual in servo.coefficients.items()}
    values['load_friction_base'] = 0.2
    times = np.arange(1000) * 0.002
    log = dataclasses.replace(
        _steps_and_sines(servo, len(times), 0.002),
        mass=2.0,
        length=0.2,
        goal=np.sin(5 * times),
        enabled=np.ones(len(times)),
    )
    kept, chosen = (
        nearness(servo, values, [log], plain_friction(servo, values, logs))[0]
        for logs in ((), [log])
    )
    assert chosen.powered < 0.6 * kept.powered


def test_each_log_has_its_own_gain():
    servo, values = _servo('voltage')
    stiff = _steps_and_sines(servo)
    soft = dataclasses.replace(stiff, name='soft', constants={'kp': 4.0, 'vin': 11.0})
    found = nearness(servo, values, [stiff, soft], plain_friction(servo, values))
    assert [item.log for item in found] == ['steps', 'soft']
    assert max(item.powered for item in found) < 0.01
    assert found[0].error > 0.1


def test_a_joint_that_friction_holds_does_not_creep():
    servo = Servo.named('xl330', 'm1')
    values = {name: usual.initial for name, usual in servo.coefficients.items()}
    actuator = plain_actuator(servo, values)
    model = compiled(pendulum_mjcf(actuator, PendulumLoad(mass=0.05)))
    model.opt.disableactuator = 1
    data = mujoco.MjData(model)
    data.qpos[0] = 0.5
    held = 0.05 * GRAVITY * 0.1 * np.sin(0.5)
    assert 0.3 * actuator.frictionloss < held < actuator.frictionloss
    mujoco.mj_step(model, data, nstep=1000)
    assert abs(data.qpos[0] - 0.5) < 2e-5


def test_the_pendulum_has_the_inertia_and_weight_of_the_bench():
    servo, values = _servo('voltage')
    load = PendulumLoad(mass=0.3, arm_mass=0.06, length=0.2, offset=0.07)
    model = compiled(pendulum_mjcf(plain_actuator(servo, values), load))
    data = mujoco.MjData(model)
    for angle in (-1.0, 0.0, 0.4):
        data.qpos[0] = angle
        mujoco.mj_forward(model, data)
        weight = (0.3 + 0.06 / 2) * GRAVITY * 0.2
        assert data.qfrc_bias[0] == pytest.approx(weight * np.sin(angle + 0.07), rel=1e-7)
    inertia = np.zeros((1, 1))
    mujoco.mj_fullM(model, data, inertia)
    expected = 0.3 * 0.2**2 + 0.06 / 3 * 0.2**2 + values['armature']
    assert inertia[0, 0] == pytest.approx(expected, rel=1e-7)


def test_the_snippet_goes_into_another_model():
    servo, values = _servo('voltage')
    actuator = plain_actuator(servo, values)
    joint, drive = snippet(actuator, 'a "b" & c')
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><worldbody><body>{joint}<geom size=".1"/></body></worldbody>'
        f'<actuator>{drive}</actuator></mujoco>'
    )
    assert model.joint(0).name == 'a "b" & c'
    assert model.dof_frictionloss[0] == pytest.approx(values['friction_base'])
    assert model.dof_armature[0] == pytest.approx(values['armature'])


def test_the_file_says_what_is_lost(tmp_path: Path):
    servo = Servo.named('xl330', 'm3')
    values = {name: usual.initial for name, usual in servo.coefficients.items()}
    path = tmp_path / 'servo.xml'
    write_plain_mjcf(path, plain_actuator(servo, values), PendulumLoad(), ('from a--b.json',))
    text = path.read_text()
    assert 'only friction_base and friction_viscous are kept' in text
    assert mujoco.MjModel.from_xml_path(str(path)).nu == 1


def test_numbers_that_mujoco_refuses_are_an_error_and_no_file(tmp_path: Path):
    servo, values = _servo('voltage')
    actuator = plain_actuator(servo, values)
    broken = dataclasses.replace(actuator, motor=actuator.motor._replace(resistance=-1.0))
    with pytest.raises(ModelError, match='does not take the servo'):
        write_plain_mjcf(tmp_path / 'servo.xml', broken, PendulumLoad())
    assert list(tmp_path.iterdir()) == []
