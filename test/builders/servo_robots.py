# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Small robots with servos, for the tests beside this file."""

from __future__ import annotations

import mujoco

from sysid_ros.simulation.servo import Servo
from sysid_ros.simulation.servo_joints import ServoDrive, ServoJoints

#: Of all laws, so that each takes what it has.
VALUES = {
    'kt': 0.9,
    'R': 3.0,
    'armature': 0.006,
    'friction_base': 0.02,
    'friction_stribeck': 0.03,
    'load_friction_base': 0.1,
    'load_friction_stribeck': 0.2,
    'load_friction_motor': 0.12,
    'load_friction_external': 0.08,
    'load_friction_motor_stribeck': 0.1,
    'load_friction_external_stribeck': 0.2,
    'load_friction_motor_quad': 0.05,
    'load_friction_external_quad': 0.04,
    'dtheta_stribeck': 0.2,
    'alpha': 1.5,
    'friction_viscous': 0.03,
}

#: Two joints for servos, with limits that they reach, and one with an actuator of its own.
ARM = """
<mujoco>
  <compiler autolimits="true"/>
  <option timestep="0.002"/>
  <default><joint axis="0 -1 0"/></default>
  <worldbody>
    <body>
      <inertial pos="0 0 -.08" mass=".3" diaginertia=".001 .001 .001"/>
      <joint name="shoulder" range="-.9 .9" damping="5" frictionloss="5" armature="5"/>
      <body pos="0 0 -.15">
        <inertial pos="0 0 -.08" mass=".2" diaginertia=".0008 .0008 .0008"/>
        <joint name="elbow" damping="5"/>
        <body pos="0 0 -.1">
          <inertial pos="0 0 -.03" mass=".05" diaginertia=".0001 .0001 .0001"/>
          <joint name="wrist" damping=".002" frictionloss=".001" armature=".0003"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="a" joint="shoulder" kp="5" kv=".3" ctrlrange="-.1 .1" forcerange="-.1 .1"/>
    <motor name="w" joint="wrist"/>
    <position name="b" joint="elbow" kp="5" timeconst=".05"/>
  </actuator>
  <sensor>
    <jointpos name="shoulder_position" joint="shoulder"/>
    <jointactuatorfrc name="shoulder_torque" joint="shoulder"/>
    <jointvel name="elbow_velocity" joint="elbow"/>
    <jointpos name="wrist_position" joint="wrist"/>
  </sensor>
</mujoco>
"""


def arm() -> mujoco.MjModel:
    """Return the compiled arm."""
    return mujoco.MjModel.from_xml_string(ARM)


def drive(*actuators: str, model: str = 'm4', kind: str = 'xl330', **numbers: float) -> ServoDrive:
    """Return a drive with the values above, some of which may be given."""
    servo = Servo.named(kind, model)
    usual = {name: start for name, (start, _, _) in servo.coefficients.items()}
    own = {name: VALUES.get(name, start) for name, start in usual.items() if name != 'q_offset'}
    constants = {name: value for name, value in numbers.items() if name not in own}
    values = {**own, **{name: value for name, value in numbers.items() if name in own}}
    return ServoDrive(actuators, servo, values, constants)


def driven_arm(**numbers: float) -> ServoJoints:
    """Return the arm with servos of two kinds."""
    return ServoJoints(arm(), [drive('b', model='m6', **numbers), drive('a', model='m2')])
