# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Joints of one degree of freedom, and what drives one joint, by their types in a model.

As integers: MuJoCo's enums do not find a NumPy integer in a tuple of them.
"""

from __future__ import annotations

import mujoco

#: Hinges and slides.
SCALAR_JOINTS = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
#: Transmissions of actuators that drive one joint.
TO_JOINT = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT))


def position_joint(model: mujoco.MjModel, sensor: str) -> int:
    """Return the joint whose position a sensor measures; -1 where there is none."""
    row = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, sensor)
    measures = row >= 0 and model.sensor_type[row] == mujoco.mjtSensor.mjSENS_JOINTPOS
    return int(model.sensor_objid[row]) if measures else -1


def driven_joint(model: mujoco.MjModel, actuator: int | str) -> int:
    """Return the joint that an actuator, by index or name, drives alone; -1 where there is none."""
    row = actuator
    if isinstance(row, str):
        row = int(mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_ACTUATOR, row))
    drives = row >= 0 and model.actuator_trntype[row] in TO_JOINT
    return int(model.actuator_trnid[row, 0]) if drives else -1
