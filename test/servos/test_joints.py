# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Actuators of any kind are taken over by servos, and what cannot be is named."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from builders.servo_robots import VALUES, arm, drive, driven_arm
from sysid_ros.errors import ModelError, ParameterError
from sysid_ros.model.loading import differing_fields
from sysid_ros.simulation.servo import Servo
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


def one(actuator: str, joint: str = 'hinge', more: str = '') -> mujoco.MjModel:
    text = ONE if joint in ('hinge', 'slide') else ONE[: ONE.index('<tendon>')]
    text += '' if text is ONE else '<actuator>{actuator}</actuator></mujoco>'
    return mujoco.MjModel.from_xml_string(text.format(actuator=actuator, joint=joint, more=more))


ACTUATORS = (
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


@pytest.mark.parametrize('actuator', ACTUATORS)
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
    text = ONE.replace('actuator="a"', 'actuator="aa"') if '"aa"' in actuator else ONE
    if joint == 'ball':
        text = text[: text.index('<tendon>')] + '<actuator>{actuator}</actuator></mujoco>'
    text = text.format(actuator=actuator, joint=joint, more='')
    with pytest.raises(ParameterError, match=complaint) as caught:
        ServoJoints(mujoco.MjModel.from_xml_string(text), [drive('a')])
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
