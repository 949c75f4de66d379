# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Units of what sensors say, and names of their components."""

from __future__ import annotations

import mujoco

#: SI units of what sensors say, and their types as in ``mjtSensor``. Other types have none, or the
#: user decides it.
_TYPES = {
    '1': 'BALLQUAT FRAMEQUAT FRAMEXAXIS FRAMEYAXIS FRAMEZAXIS GEOMNORMAL',
    'm': 'TENDONPOS TENDONLIMITPOS FRAMEPOS SUBTREECOM GEOMDIST RANGEFINDER',
    'm/s': 'TENDONVEL TENDONLIMITVEL VELOCIMETER FRAMELINVEL SUBTREELINVEL',
    'm/s²': 'ACCELEROMETER FRAMELINACC',
    'rad/s': 'GYRO BALLANGVEL FRAMEANGVEL',
    'rad/s²': 'FRAMEANGACC',
    'N': 'TENDONACTFRC TENDONLIMITFRC FORCE TOUCH',
    'N·m': 'TORQUE',
    'kg·m²/s': 'SUBTREEANGMOM',
    'J': 'E_POTENTIAL E_KINETIC',
    'T': 'MAGNETOMETER',
    's': 'CLOCK',
}
_UNITS = {kind: unit for unit, kinds in _TYPES.items() for kind in kinds.split()}
#: Units at hinges and at slides of what is of a joint, by the end of the type's name.
_OF_JOINTS = {'POS': ('rad', 'm'), 'VEL': ('rad/s', 'm/s'), 'FRC': ('N·m', 'N')}
#: Types of sensors that read what drives or loads a joint.
_FORCES = frozenset({'JOINTACTFRC', 'ACTUATORFRC', 'TENDONACTFRC', 'TORQUE', 'FORCE'})


def sensor_unit(model: mujoco.MjModel, signal: str) -> str:
    """Return the SI unit of a sensor; empty where it has none or there is no such one."""
    kind = _sensor_type(model, signal)
    if not kind.startswith('JOINT'):
        return _UNITS.get(kind, '')
    joint = int(model.sensor_objid[model.sensor(signal).id])
    return _OF_JOINTS[kind[-3:]][int(model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE)]


def reads_force(model: mujoco.MjModel, signal: str) -> bool:
    """Whether a sensor of a model reads a force or a torque, of an actuator or between bodies."""
    return _sensor_type(model, signal) in _FORCES


def _sensor_type(model: mujoco.MjModel, signal: str) -> str:
    """Return the type of a sensor, as in ``mjtSensor``; empty where there is no such one."""
    sensor = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, signal)
    if sensor < 0:
        return ''
    name: str = mujoco.mjtSensor(int(model.sensor_type[sensor])).name
    return name.removeprefix('mjSENS_')


def component_label(signal: str, place: int, width: int) -> str:
    """Return the name of one component of a signal: that of the signal where it has but one."""
    return signal if width == 1 else f'{signal}[{place}]'
