# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Sensors that a model does not have and every robot does: what its joints are measured by."""

from __future__ import annotations

import mujoco

#: Which sensors measure a joint, directly or through its actuator.
_OF_JOINTS = frozenset(
    {
        mujoco.mjtSensor.mjSENS_JOINTPOS,
        mujoco.mjtSensor.mjSENS_JOINTVEL,
        mujoco.mjtSensor.mjSENS_JOINTACTFRC,
        mujoco.mjtSensor.mjSENS_ACTUATORPOS,
        mujoco.mjtSensor.mjSENS_ACTUATORVEL,
        mujoco.mjtSensor.mjSENS_ACTUATORFRC,
    }
)
#: What is implied for each joint: the end of the sensor's name, and its type.
_SCALAR = frozenset({mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE})
_IMPLIED = {
    'position': mujoco.mjtSensor.mjSENS_JOINTPOS,
    'velocity': mujoco.mjtSensor.mjSENS_JOINTVEL,
    'effort': mujoco.mjtSensor.mjSENS_JOINTACTFRC,
}
#: What an implied sensor carries in its ``info``, by which it is known again in copies.
_MARK = 'implied by sysid_ros'


def add_joint_sensors(spec: mujoco.MjSpec) -> None:
    """Give a model whose joints no sensor measures the sensors ``<joint>_position`` and so on.

    Models of robots come without sensors more often than not: simulators read positions from the
    state. A model with any sensor of a joint is left as it is: its author chose.

    Args:
        spec: Parsed model; each hinge and slide joint with a name gets a jointpos, a jointvel and a
            jointactuatorfrc sensor behind the sensors that there are.
    """
    if any(sensor.type in _OF_JOINTS for sensor in spec.sensors):
        return
    taken = {sensor.name for sensor in spec.sensors}
    for joint in spec.joints:
        if not joint.name or joint.type not in _SCALAR:
            continue
        for end, kind in _IMPLIED.items():
            name = f'{joint.name}_{end}'
            if name not in taken:
                spec.add_sensor(
                    name=name,
                    type=kind,
                    objtype=mujoco.mjtObj.mjOBJ_JOINT,
                    objname=joint.name,
                    info=_MARK,
                )


def implied_sensors(spec: mujoco.MjSpec) -> list[str]:
    """Return the names of the sensors that the user's file does not have."""
    return [sensor.name for sensor in spec.sensors if sensor.info == _MARK]


def drop_implied(spec: mujoco.MjSpec) -> None:
    """Take the sensors that the user's file does not have out again."""
    for sensor in list(spec.sensors):
        if sensor.info == _MARK:
            spec.delete(sensor)
