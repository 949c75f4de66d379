# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Units of what sensors say, and names of their components."""

from __future__ import annotations

import mujoco

#: Type of a sensor, as in ``mjtSensor``, to the SI unit of its values; one for hinges and one for
#: slides where it depends on the joint. What is not here has none, or the user decides it.
_UNITS: dict[str, str | tuple[str, str]] = {
    'JOINTPOS': ('rad', 'm'),
    'JOINTVEL': ('rad/s', 'm/s'),
    'JOINTACTFRC': ('N·m', 'N'),
    'JOINTLIMITPOS': ('rad', 'm'),
    'JOINTLIMITVEL': ('rad/s', 'm/s'),
    'JOINTLIMITFRC': ('N·m', 'N'),
    'TENDONPOS': 'm',
    'TENDONVEL': 'm/s',
    'TENDONACTFRC': 'N',
    'TENDONLIMITPOS': 'm',
    'TENDONLIMITVEL': 'm/s',
    'TENDONLIMITFRC': 'N',
    'ACCELEROMETER': 'm/s²',
    'VELOCIMETER': 'm/s',
    'GYRO': 'rad/s',
    'MAGNETOMETER': 'T',
    'FORCE': 'N',
    'TORQUE': 'N·m',
    'BALLQUAT': '1',
    'BALLANGVEL': 'rad/s',
    'FRAMEPOS': 'm',
    'FRAMEQUAT': '1',
    'FRAMEXAXIS': '1',
    'FRAMEYAXIS': '1',
    'FRAMEZAXIS': '1',
    'FRAMELINVEL': 'm/s',
    'FRAMEANGVEL': 'rad/s',
    'FRAMELINACC': 'm/s²',
    'FRAMEANGACC': 'rad/s²',
    'SUBTREECOM': 'm',
    'SUBTREELINVEL': 'm/s',
    'SUBTREEANGMOM': 'kg·m²/s',
    'GEOMDIST': 'm',
    'GEOMNORMAL': '1',
    'RANGEFINDER': 'm',
    'TOUCH': 'N',
    'E_POTENTIAL': 'J',
    'E_KINETIC': 'J',
    'CLOCK': 's',
}


def sensor_unit(model: mujoco.MjModel, signal: str) -> str:
    """Return the SI unit of a sensor of a model; empty where it has none or there is no such one.

    Args:
        model: The compiled model.
        signal: Name of the sensor.
    """
    sensor = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, signal)
    if sensor < 0:
        return ''
    kind = mujoco.mjtSensor(int(model.sensor_type[sensor])).name.removeprefix('mjSENS_')
    unit = _UNITS.get(kind, '')
    if isinstance(unit, str):
        return unit
    joint = int(model.sensor_objid[sensor])
    return unit[int(model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE)]


#: Types of sensors that read what drives or loads a joint.
_FORCES = frozenset({'JOINTACTFRC', 'ACTUATORFRC', 'TENDONACTFRC', 'TORQUE', 'FORCE'})


def reads_force(model: mujoco.MjModel, signal: str) -> bool:
    """Whether a sensor of a model reads a force or a torque, of an actuator or between bodies."""
    sensor = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, signal)
    if sensor < 0:
        return False
    kind = mujoco.mjtSensor(int(model.sensor_type[sensor])).name.removeprefix('mjSENS_')
    return kind in _FORCES


def component_label(signal: str, place: int, width: int) -> str:
    """Return the name of one component of a signal: that of the signal where it has but one."""
    return signal if width == 1 else f'{signal}[{place}]'
