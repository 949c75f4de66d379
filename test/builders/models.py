# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Small models that tests of several packages share."""

from __future__ import annotations

import enum

import mujoco
import numpy as np

from sysid_ros.model.candidates import Writer
from sysid_ros.model.targets import Target


class Drive(enum.Enum):
    """What moves the joint of a model: the actuator ``a``."""

    SERVO = '<position name="a" joint="j" kp="20" kv="1"/>'
    MOTOR = '<motor name="a" joint="j" gear="3"/>'


def rod(
    *, timestep: float, damping: float, armature: float = 0.0, drive: Drive = Drive.SERVO
) -> str:
    """Return the MJCF of a rod of 1 kg and .3 m that hangs in the hinge ``j``.

    The sensors ``q`` and ``v`` read its angle and its velocity.

    Args:
        timestep: Of the simulation, s.
        damping: Of the hinge, N·m·s/rad.
        armature: Of the hinge, kg·m².
        drive: What moves it.
    """
    return f"""
<mujoco>
  <option timestep="{timestep}"/>
  <worldbody>
    <body name="upper"><joint name="j" axis="0 1 0" damping="{damping}" armature="{armature}"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass="1"/></body>
  </worldbody>
  <actuator>{drive.value}</actuator>
  <sensor><jointpos name="q" joint="j"/><jointvel name="v" joint="j"/></sensor>
</mujoco>
"""


def write_value(model: mujoco.MjModel, target: Target, value: float) -> None:
    """Set the value of a target in a model; the caller runs ``mj_setConst``."""
    Writer(model, [(target, 0)]).write(model, np.array([value]))
