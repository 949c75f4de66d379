# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Actuators of any kind are taken over by servos, and what cannot be is named."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from builders.servo_robots import VALUES, arm, drive, driven_arm
from sysid_ros.errors import ModelError, ParameterError
from sysid_ros.model.loading import differing_fields
from sysid_ros.servos.mjcf import plain_servo, write_servo
from sysid_ros.simulation.servo import (
    ACTUATORS,
    MOTOR_LAWS,
    ActuatorType,
    Coefficient,
    Servo,
    friction_law,
)
from sysid_ros.simulation.servo_joints import ServoDrive, ServoJoints, starting_values

ONE = """
<mujoco>
  <compiler autolimits="true"/>
  <worldbody>
    <body>
      <geom type="capsule" size=".02" fromto="0 0 0 0 0 -.3"/>
      <joint name="j" axis="0 1 0" type="{joint}" {more}/>
      <site name="s"/>
    </body>
  </worldbody>
  <tendon><fixed name="t"><joint joint="j" coef="1"/></fixed></tendon>
  <actuator>{actuator}</actuator>
  <sensor><actuatorfrc name="f" actuator="a"/></sensor>
</mujoco>
"""


def one(actuator: str, joint: str, more: str = '') -> mujoco.MjModel:
    text = ONE.replace('actuator="a"', 'actuator="aa"') if '"aa"' in actuator else ONE
    if joint == 'ball':
        text = text[: text.index('<tendon>')] + '<actuator>{actuator}</actuator></mujoco>'
    return mujoco.MjModel.from_xml_string(text.format(actuator=actuator, joint=joint, more=more))


ELEMENTS = (
    '<position {} kp="5" kv=".1" ctrlrange="-.1 .1"/>',
    '<position {} kp="5" timeconst=".05"/>',
    '<position {} kp="5" delay=".01" nsample="10"/>',
    '<velocity {} kv="1"/>',
    '<intvelocity {} kp="5" actrange="-1 1"/>',
    '<motor {} forcerange="-.01 .01" armature="3" damping="2"/>',
    '<general {} gaintype="affine" gainprm="1 2 3" biastype="affine" biasprm="1 2 3"/>',
    '<damper {} kv="1" ctrlrange="0 1"/>',
    '<pid {} kp="5" ki="1" kv=".1"/>',
    '<dcmotor {} motorconst="1" resistance="1" inductance=".01" input="pos"/>',
)


@pytest.mark.parametrize('actuator', ELEMENTS)
@pytest.mark.parametrize('joint', ['hinge', 'slide'])
def test_an_actuator_of_any_kind_exerts_the_torque_that_it_is_told(actuator: str, joint: str):
    own = actuator.format('name="a" joint="j" gear="2"')
    joints = ServoJoints(one(own, joint, 'actuatorfrcrange="-.1 .1"'), [drive('a')])
    data = mujoco.MjData(joints.model)
    data.qpos[0], data.qvel[0], data.act[:] = 0.3, 1.0, 0.7
    for torque in (3.0, 5.0):
        data.ctrl[joints.controls] = torque / joints.gears
        mujoco.mj_step(joints.model, data)

        assert data.qfrc_actuator[0] == pytest.approx(torque)
        assert data.sensordata[0] == pytest.approx(torque / 2.0)
    assert joints.model.actuator_armature[0] == joints.model.actuator_damping[0] == 0.0


def test_the_joint_has_what_the_servo_says_and_the_given_model_is_not_changed():
    model = arm()
    before = model.__copy__()

    found = driven_arm(armature=0.02).model

    assert differing_fields(model, before) == ()
    assert found.dof_armature == pytest.approx([VALUES['armature'], 0.02, 0.0003])
    assert found.dof_damping == pytest.approx([0.0, 0.0, 0.002])
    assert found.dof_frictionloss == pytest.approx([0.0, 0.0, 0.001])
    assert not np.array_equal(found.dof_invweight0, before.dof_invweight0)


def test_joints_are_in_the_order_of_the_drives():
    joints = driven_arm()

    assert joints.actuators == ('b', 'a')
    assert joints.joints == ('elbow', 'shoulder')
    assert joints.controls.tolist() == [2, 0]
    assert joints.dofs.tolist() == [1, 0]
    assert [group.servo.name for group in joints.groups] == ['xl330 m6', 'xl330 m2']
    assert joints.drive_of('a').servo.name == 'xl330 m2'


@pytest.mark.parametrize(
    ('actuator', 'joint', 'complaint'),
    [
        ('<motor name="a" tendon="t"/>', 'hinge', "'a' to drive a hinge .* found a tendon"),
        ('<motor name="a" site="s"/>', 'hinge', "'a' to drive a hinge .* found a site"),
        ('<motor name="a" joint="j"/>', 'ball', "'a' to drive .* found the ball joint 'j'"),
        ('<motor name="a" joint="j" gear="0"/>', 'hinge', "joint 'j' with a gear of 0"),
        ('<motor name="aa" joint="j"/>', 'hinge', "no actuator 'a'; nearest: aa"),
        (
            '<motor name="a" joint="j"/><velocity name="v" joint="j"/>',
            'hinge',
            "Joint 'j' has the actuators 'a' and 'v': expected one",
        ),
    ],
)
def test_an_actuator_that_moves_no_joint_alone_is_named(actuator: str, joint: str, complaint: str):
    with pytest.raises(ParameterError, match=complaint) as caught:
        ServoJoints(one(actuator, joint), [drive('a')])
    assert str(caught.value).endswith('.')


def test_an_actuator_has_one_servo():
    with pytest.raises(ParameterError, match="'a' is driven by two servos"):
        ServoJoints(arm(), [drive('a', 'b'), drive('a')])
    with pytest.raises(ParameterError, match='at least one servo'):
        ServoJoints(arm(), [])
    with pytest.raises(ParameterError, match="No servo drives an actuator 'w'; available: b, a"):
        driven_arm().place('w')


@pytest.mark.parametrize(
    ('values', 'constants', 'complaint'),
    [
        ({'kt': 1.0}, {}, "value of R, friction_base, friction_viscous for the servo 'xl330 m1'"),
        ({**VALUES}, {}, "no 'friction_stribeck' .* nearest: friction_base"),
        (None, {'vinn': 7.0}, "no 'vinn' of the servo 'xl330 m1' of 'a'; nearest: vin"),
        (None, {'vin': float('nan')}, "finite 'vin' .* found nan"),
    ],
)
def test_numbers_that_a_servo_lacks_or_does_not_know_are_named(
    values: dict[str, float] | None, constants: dict[str, float], complaint: str
):
    servo = Servo.named('xl330', 'm1')
    with pytest.raises(ParameterError, match=complaint):
        ServoDrive(('a',), servo, starting_values(servo) if values is None else values, constants)


@pytest.mark.parametrize('flag', ['frictionloss', 'constraint'])
def test_a_model_without_friction_is_refused(flag: str):
    model = arm()
    model.opt.disableflags |= getattr(mujoco.mjtDisableBit, f'mjDSBL_{flag.upper()}').value
    with pytest.raises(ModelError, match=f'flag {flag}="disable"'):
        ServoJoints(model, [drive('a')])


# A servo as a joint and an actuator of MJCF


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
