# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A two-joint arm with an IMU and a wrench in its wrist, and bags of its motion."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from builders.bag_columns import Columns

Array = NDArray[np.float64]

TIMES = np.arange(0, 12, 0.01)
TOOL = 'pos=".03 0 .01" mass=".4" diaginertia="2e-4 2e-4 2e-4"'
XYZ, WXYZ = ('x', 'y', 'z'), ('w', 'x', 'y', 'z')
ARM = """
<mujoco>
  <compiler angle="radian"/><option integrator="implicitfast"/>
  <worldbody><body><joint name="pan" axis="0 0 1" damping=".5"/><geom size=".05" mass="1"/>
    <body pos=".3 0 0"><joint name="lift" axis="0 1 0" damping=".5"/>
      <geom size=".04" mass=".5" pos=".1 0 0"/><site name="imu" pos=".05 0 .02" {imu}/>
      <body name="tool" pos=".2 0 0"><inertial {tool}/><site name="wrist"/></body>
    </body></body></worldbody>
  <actuator><position joint="pan" name="pan" kp="30" kv="2"/>
    <position joint="lift" name="lift" kp="30" kv="2"/></actuator>
  <sensor><jointpos name="pan_pos" joint="pan"/><jointpos name="lift_pos" joint="lift"/>
    <gyro name="gyro" site="imu"/><accelerometer name="acc" site="imu"/>
    <force name="force" site="wrist"/><torque name="torque" site="wrist"/>
    <framequat name="tilt" objtype="site" objname="imu"/></sensor>
</mujoco>
"""
JOINTS = [('pan_pos', 'pan'), ('lift_pos', 'lift')]


def arm(imu: str = '', tool: str = TOOL) -> mujoco.MjModel:
    """Return the arm; the IMU's site and what the wrist carries have further attributes."""
    return mujoco.MjModel.from_xml_string(ARM.format(imu=imu, tool=tool))


def record(model: mujoco.MjModel) -> dict[str, Array]:
    """Return what the sensors and commands of a model are over a motion, (n, k) each."""
    data, found = mujoco.MjData(model), []
    commands = np.stack(
        [0.8 * np.sin(2.1 * TIMES) - 0.3 * np.sin(5 * TIMES), 0.6 * np.sin(2.9 * TIMES)], axis=1
    )
    mujoco.mj_step(model, data, 1500)  # it hangs still
    for row in commands:
        data.ctrl[:] = row
        mujoco.mj_forward(model, data)
        found.append(data.sensordata.copy())
        for _ in range(5):
            mujoco.mj_step(model, data)
    values = np.array(found)
    names = [model.sensor(row).name for row in range(model.nsensor)]
    sizes = np.split(values, model.sensor_adr[1:], axis=1)
    return {'commands': commands, **dict(zip(names, sizes, strict=True))}


def bag(columns: Columns, seen: dict[str, Array], **scales: float) -> Any:
    """Return a bag of what was recorded, each sensor of no joint times its scale."""

    def vector(name: str, labels: tuple[str, ...] = XYZ) -> dict[str, Array]:
        return dict(zip(labels, (scales.get(name, 1.0) * seen[name]).T, strict=True))

    states = {label: seen[name][:, 0] for name, label in JOINTS}
    commands = dict(zip(('pan', 'lift'), seen['commands'].T, strict=True))
    imu = {
        'angular_velocity': vector('gyro'),
        'linear_acceleration': vector('acc'),
        'orientation': vector('tilt', WXYZ),
    }
    wrench = {'wrench.force': vector('force'), 'wrench.torque': vector('torque')}
    return columns.bag(
        columns.topic('/joint_states', TIMES, {'position': states}),
        columns.topic('/joint_commands', TIMES, {'position': commands}),
        columns.topic('/data_1', TIMES, imu, msgtype='sensor_msgs/msg/Imu'),
        columns.topic('/data_2', TIMES, wrench, msgtype='geometry_msgs/msg/WrenchStamped'),
    )
