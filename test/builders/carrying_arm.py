# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""An arm with a wrench in its wrist that picks something up, and bags of both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

from builders import messages
from sysid_ros.bags.writer import BagWriter
from sysid_ros.model.inertia import INERTIAL_FIELDS, Inertial, theta_from_body

Array = NDArray[np.float64]

START = 1_700_000_000_000_000_000
JOINTS = ('pan', 'lift', 'elbow')
#: Steps of the model from a sample or command to the next, each 5 ms long, and that commands take.
PERIOD, LATE = 2, 3
STEP = 0.005
ARM = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep=".005" integrator="implicitfast"/>
  <worldbody><body><joint name="pan" axis="0 0 1"/><geom size=".05" mass="1"/>
    <body><joint name="lift" axis="0 1 0"/><geom size=".04" mass="1.2" pos=".15 0 0"/>
      <body pos=".3 0 0"><joint name="elbow" axis="0 1 0"/><geom size=".03" mass=".6" pos=".1 0 0"/>
        <body name="tool" pos=".2 0 0">
          <inertial pos=".03 0 .01" mass=".4" diaginertia="2e-4 2e-4 2e-4"/><site name="wrist"/>
        </body></body></body></body></worldbody>
  <actuator><position joint="pan" name="pan" kp="120" kv="6"/>
    <position joint="lift" name="lift" kp="120" kv="6"/>
    <position joint="elbow" name="elbow" kp="60" kv="2"/></actuator>
  <sensor>
    <jointpos name="pan_position" joint="pan"/><jointpos name="lift_position" joint="lift"/>
    <jointpos name="elbow_position" joint="elbow"/>
    <jointactuatorfrc name="pan_effort" joint="pan"/>
    <jointactuatorfrc name="lift_effort" joint="lift"/>
    <jointactuatorfrc name="elbow_effort" joint="elbow"/>
    <force name="force" site="wrist"/><torque name="torque" site="wrist"/>
  </sensor>
</mujoco>
"""
#: What the model does not know of the arm.
ARMATURE, DAMPING, FRICTION = (0.08, 0.06, 0.03), (0.9, 0.7, 0.3), (0.5, 0.4, 0.2)
DELAY = LATE * STEP  # of commands, s
BIAS = np.array([1.5, -0.8, 2.0, 0.05, -0.1, 0.08])  # of the wrench, N and N·m
#: Standard deviations of the noise.
POSITION, EFFORT = 1e-4, 0.05
WRENCH = np.array([0.1, 0.1, 0.1, 5e-3, 5e-3, 5e-3])  # of each axis, N and N·m
#: The tool with what it has picked up.
LOADED = Inertial(
    mass=np.array(1.5),
    ipos=np.array([0.07, -0.02, 0.03]),
    iquat=np.array([0.96, 0.12, -0.2, 0.152]) / np.linalg.norm([0.96, 0.12, -0.2, 0.152]),
    inertia=np.array([5e-3, 4e-3, 3e-3]),
)
LOAD_THETA = theta_from_body(*LOADED)


def robot(*, loaded: bool, friction: Sequence[float] = FRICTION) -> mujoco.MjModel:
    """Return the arm as it is, whose tool is empty or holds the load."""
    model = mujoco.MjModel.from_xml_string(ARM)
    model.dof_armature[:], model.dof_damping[:] = ARMATURE, DAMPING
    model.dof_frictionloss[:] = friction
    if loaded:
        tool = model.body('tool').id
        for field, value in zip(INERTIAL_FIELDS, LOADED, strict=True):
            getattr(model, field)[tool] = value
        mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


def goals(seed: int, times: Array) -> Array:
    """Return the (n, 3) commands of a motion of four sines for each joint, which begins at zero."""
    rng = np.random.default_rng(seed)
    speeds, phases = rng.uniform(1.0, 8.0, (4, 3, 1)), rng.uniform(0, 2 * np.pi, (4, 3, 1))
    waves = np.sin(speeds * times + phases) - np.sin(phases)
    return np.asarray(0.25 * waves.sum(axis=0).T)


def record(
    path: Path,
    seed: int,
    seconds: float,
    *measured: str,
    loaded: bool,
    friction: Sequence[float] = FRICTION,
) -> None:
    """Let the arm follow a motion, and write what it was told and measured into a bag.

    Positions are always ``measured``; efforts and the wrench where they are named.
    """
    model, rng = robot(loaded=loaded, friction=friction), np.random.default_rng(100 + seed)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 1000)  # it comes to rest where it is told to be
    count = round(seconds / (PERIOD * STEP))
    told = goals(seed, PERIOD * STEP * np.arange(count))
    topics = {'/joint_states': 'JointState', '/joint_commands': 'JointState'}
    with BagWriter(path) as bag:
        for topic, kind in topics.items():
            bag.add_topic(topic, f'sensor_msgs/msg/{kind}')
        bag.add_topic('/wrench', 'geometry_msgs/msg/WrenchStamped')
        for row, command in enumerate(told):
            at = START + round(row * PERIOD * STEP * 1e9)
            bag.write('/joint_commands', at, messages.joint_state(at, JOINTS, command))
            for step in range(PERIOD * row, PERIOD * (row + 1)):
                data.ctrl[:] = told[max(0, (step - LATE) // PERIOD)]
                if step == PERIOD * row:
                    mujoco.mj_forward(model, data)
                    position, effort, wrench = np.split(data.sensordata.copy(), (3, 6))
                    position += rng.normal(0, POSITION, 3)
                    effort += rng.normal(0, EFFORT, 3)
                    wrench += BIAS + rng.normal(0, WRENCH)
                    known = effort if 'effort' in measured else ()
                    state = messages.joint_state(at, JOINTS, position, effort=known)
                    bag.write('/joint_states', at, state)
                    if 'wrench' in measured:
                        bag.write('/wrench', at, messages.wrench(at, wrench[:3], wrench[3:]))
                mujoco.mj_step(model, data)
