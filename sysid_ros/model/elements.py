# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the elements of a compiled model are: rows, names, joints, bodies, units of sensors."""

from __future__ import annotations

import mujoco

#: Numbers of two models are the same within this share: what a compiler and its eigenvalue routine
#: leave of their digits.
SAME = 1e-9
#: Numbers computed in two ways agree within this share, and smaller ones are rounded zeros.
ROUNDING = 1e-12
#: Hinges and slides, as integers: MuJoCo's enums do not find a NumPy integer in a tuple of them.
SCALAR_JOINTS = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
#: Transmissions of actuators that drive one joint.
TO_JOINT = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT))
#: Sensors that read the pose of a frame.
_POSES = (int(mujoco.mjtSensor.mjSENS_FRAMEPOS), int(mujoco.mjtSensor.mjSENS_FRAMEQUAT))
#: Fields of a model with the body that a frame belongs to; a body is its own.
_OWNERS = {
    int(mujoco.mjtObj.mjOBJ_GEOM): 'geom_bodyid',
    int(mujoco.mjtObj.mjOBJ_SITE): 'site_bodyid',
    int(mujoco.mjtObj.mjOBJ_CAMERA): 'cam_bodyid',
}


def position_joint(model: mujoco.MjModel, sensor: str) -> int:
    """Return the joint whose position a sensor measures; -1 where there is none."""
    row = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, sensor)
    measures = row >= 0 and model.sensor_type[row] == mujoco.mjtSensor.mjSENS_JOINTPOS
    return int(model.sensor_objid[row]) if measures else -1


def posed_joint(model: mujoco.MjModel, sensor: str) -> int:
    """Return the free joint of the frame whose pose in the world a sensor measures a part of.

    It is -1 for other sensors, and for frames that move against the body of a free joint.
    """
    row = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, sensor)
    if row < 0 or model.sensor_type[row] not in _POSES or model.sensor_refid[row] >= 0:
        return -1
    owner = _OWNERS.get(int(model.sensor_objtype[row]))
    element = int(model.sensor_objid[row])
    body = int(model.body_weldid[element if owner is None else getattr(model, owner)[element]])
    joint = int(model.body_jntadr[body])
    is_free = joint >= 0 and model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE
    return joint if is_free else -1


def driven_joint(model: mujoco.MjModel, actuator: int | str) -> int:
    """Return the joint that an actuator, by index or name, drives alone; -1 where there is none."""
    row = actuator
    if isinstance(row, str):
        row = int(mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_ACTUATOR, row))
    drives = row >= 0 and model.actuator_trntype[row] in TO_JOINT
    return int(model.actuator_trnid[row, 0]) if drives else -1


#: SI units of what sensors say, and their types as in ``mjtSensor``. Other types have none, or the
#: user decides it.
_TYPES = {
    'rad': 'BALLQUAT FRAMEQUAT',
    '1': 'FRAMEXAXIS FRAMEYAXIS FRAMEZAXIS GEOMNORMAL',
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
#: Types of sensors whose values are a quaternion, which is compared as a rotation vector.
_ORIENTATIONS = frozenset({'BALLQUAT', 'FRAMEQUAT'})
#: Types of sensors that read what drives or loads a joint.
_FORCES = frozenset({'JOINTACTFRC', 'ACTUATORFRC', 'TENDONACTFRC', 'TORQUE', 'FORCE'})


def sensor_unit(model: mujoco.MjModel, signal: str) -> str:
    """Return the SI unit of a sensor; empty where it has none or there is no such one."""
    kind = _sensor_type(model, signal)
    if not kind.startswith('JOINT'):
        return _UNITS.get(kind, '')
    joint = int(model.sensor_objid[model.sensor(signal).id])
    return _OF_JOINTS[kind[-3:]][int(model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE)]


def is_orientation(model: mujoco.MjModel, signal: str) -> bool:
    """Whether a sensor of a model is a quaternion."""
    return _sensor_type(model, signal) in _ORIENTATIONS


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


#: Kinds of elements with their types and counts.
OBJECTS = {
    'joint': (mujoco.mjtObj.mjOBJ_JOINT, 'njnt'),
    'body': (mujoco.mjtObj.mjOBJ_BODY, 'nbody'),
    'geom': (mujoco.mjtObj.mjOBJ_GEOM, 'ngeom'),
    'site': (mujoco.mjtObj.mjOBJ_SITE, 'nsite'),
    'pair': (mujoco.mjtObj.mjOBJ_PAIR, 'npair'),
    'tendon': (mujoco.mjtObj.mjOBJ_TENDON, 'ntendon'),
    'equality': (mujoco.mjtObj.mjOBJ_EQUALITY, 'neq'),
    'actuator': (mujoco.mjtObj.mjOBJ_ACTUATOR, 'nactuator'),  # each may have several controls
    'sensor': (mujoco.mjtObj.mjOBJ_SENSOR, 'nsensor'),
}


def element_names(model: mujoco.MjModel, element: str) -> list[str]:
    """Return the names of all elements of one kind, in model order, the unnamed left out."""
    kind, count = OBJECTS[element]
    names = (mujoco.mj_id2name(model, kind, index) for index in range(getattr(model, count)))
    return [name for name in names if name and name != 'world']


def object_id(model: mujoco.MjModel, element: str, name: str) -> int:
    """Return the row of a named element in a compiled model; -1 where there is none."""
    return int(mujoco.mj_name2id(model, OBJECTS[element][0], name))


def dofs(model: mujoco.MjModel, joint: int) -> range:
    """Return the degrees of freedom of a joint."""
    start = int(model.jnt_dofadr[joint])
    widths = {mujoco.mjtJoint.mjJNT_FREE: 6, mujoco.mjtJoint.mjJNT_BALL: 3}
    return range(start, start + widths.get(mujoco.mjtJoint(model.jnt_type[joint]), 1))


def subtree(model: mujoco.MjModel, body: int) -> tuple[int, ...]:
    """Return a body and everything below it."""
    inside = [body]
    for other in range(body + 1, model.nbody):
        if model.body_parentid[other] in inside:
            inside.append(other)
    return tuple(inside)
