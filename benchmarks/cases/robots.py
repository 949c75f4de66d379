# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Meshed arms of six and seven joints and a meshed quadruped, from MJCF inside wheels on PyPI.

``pip install --no-deps robosuite mjlab`` brings them; neither package is imported.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

from cases import arm
from cases.case import Case, Free, Modify, initial_state, record, scalars
from cases.inertia import body_theta, write_theta

ARM_SECONDS = 5.0
TRUNK_SECONDS = 2.0
TIMESTEP = 0.002

_ARM = ('robosuite', 'models/assets/robots/kinova3/robot.xml')
_QUADRUPED = ('mjlab', 'asset_zoo/robots/unitree_go1/xmls/go1.xml')

_ARM_JOINTS = tuple(f'Actuator{k}' for k in range(1, 8))
_ARM_HOME = np.array([0.0, 0.5, 0.0, 1.2, 0.0, 0.8, 0.0])
_ARM_KP = (400.0, 400.0, 300.0, 300.0, 150.0, 150.0, 100.0)
_ARM_KV = (20.0, 20.0, 15.0, 15.0, 6.0, 6.0, 4.0)
_ARM_ARMATURE = np.array([0.25, 0.3, 0.2, 0.2, 0.08, 0.08, 0.05])
#: The same arm under torques, as the tutorial's five: N·m, and kg·m².
_TORQUE_ARMATURE = np.array([0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.05])
_ARM_DAMPING = np.array([2.0, 2.5, 1.5, 1.5, 0.7, 0.6, 0.4])
_ARM_FRICTION = np.array([1.2, 1.5, 1.0, 0.9, 0.5, 0.45, 0.3])
#: rad and rad/s: encoders, and velocities that are differenced from them.
_ARM_NOISE = np.repeat([0.0005, 0.01], 7)

#: The link that a payload is fixed to.
_HAND = 'Bracelet_Link'
_SIX = ('robosuite', 'models/assets/robots/ur5e/robot.xml')
_SIX_JOINTS = (
    'shoulder_pan_joint',
    'shoulder_lift_joint',
    'elbow_joint',
    'wrist_1_joint',
    'wrist_2_joint',
    'wrist_3_joint',
)
_SIX_HOME = np.array([0.0, -1.2, 1.4, -0.6, 0.5, 0.0])
_SIX_KP = (900.0, 900.0, 700.0, 200.0, 200.0, 100.0)
_SIX_KV = (60.0, 60.0, 40.0, 10.0, 10.0, 5.0)
_SIX_ARMATURE = np.array([1.8, 1.5, 0.9, 0.25, 0.2, 0.15])
_SIX_DAMPING = np.array([9.0, 11.0, 7.0, 2.0, 1.6, 1.1])
_SIX_FRICTION = np.array([5.0, 6.5, 4.0, 1.4, 1.1, 0.8])

_TRUNK = 'trunk'
_LEGS = tuple(
    f'{leg}_{part}_joint' for leg in ('FR', 'FL', 'RR', 'RL') for part in ('hip', 'thigh', 'calf')
)
_POSTURE = np.tile([0.0, 0.9, -1.8], 4)
_HEIGHT = 1.0  # m, of the trunk that hangs on four elastic cords, clear of the ground
_CORD_LENGTH, _CORD_STIFFNESS, _CORD_DAMPING = 0.85, 220.0, 6.0  # m, N/m, N·s/m
_CORD_ENDS = tuple((x, y) for x in (0.2, -0.2) for y in (0.08, -0.08))
_LEG_KP, _LEG_KV = 60.0, 2.0
#: What the robot carries and its model does not know: changes of θ.
_PAYLOAD = np.array([0.12, 0.1, 0.15, 0.2, 0.02, -0.015, 0.02, 0.03, -0.01, 0.04])
#: As the toolbox's own bounds: mass a tenth to ten times, stretch half to twice, shear and centre
#: of mass ± 0.5.
_THETA_BELOW = np.array([0.5 * np.log(10.0), *[0.5 * np.log(2.0)] * 3, *[0.5] * 6])


def missing() -> str | None:
    """Return the command that installs what is missing, or None."""
    absent = [name for name, _ in (_ARM, _QUADRUPED) if importlib.util.find_spec(name) is None]
    return f'pip install --no-deps {" ".join(absent)}' if absent else None


def arm_case() -> Case:
    """Return armature, damping and friction of a meshed seven-joint arm under position control."""
    free = (
        *scalars(
            _ARM_JOINTS, _ARM_ARMATURE, 0.4 * _ARM_ARMATURE, (0.001, 1.0), attribute='armature'
        ),
        *scalars(_ARM_JOINTS, _ARM_DAMPING, 2.0 * _ARM_DAMPING, (0.0, 10.0), attribute='damping'),
        *scalars(
            _ARM_JOINTS, _ARM_FRICTION, 0.3 * _ARM_FRICTION, (0.0, 5.0), attribute='frictionloss'
        ),
    )
    times = np.arange(round(ARM_SECONDS / TIMESTEP) + 1, dtype=np.float64) * TIMESTEP
    commands = _ARM_HOME + _waves(times, 7, amplitude=0.5, slowest=0.25, fastest=1.3)
    model = _true_model(_arm_spec(), free)
    recording = record(model, initial_state(model, _ARM_HOME), commands)
    return Case(
        'b',
        'meshed 7-joint arm, 21 parameters',
        6.0,
        _arm_spec,
        free,
        (recording,),
        _ARM_NOISE,
    )


def six_joint_case() -> Case:
    """Return armature, damping and friction of a meshed six-joint arm under position control."""
    free = (
        *scalars(_SIX_JOINTS, _SIX_ARMATURE, 0.3 * _SIX_ARMATURE, (0.01, 6), attribute='armature'),
        *scalars(_SIX_JOINTS, _SIX_DAMPING, 0.4 * _SIX_DAMPING, (0.0, 40.0), attribute='damping'),
        *scalars(
            _SIX_JOINTS, _SIX_FRICTION, 0.2 * _SIX_FRICTION, (0.0, 25.0), attribute='frictionloss'
        ),
    )
    times = np.arange(round(ARM_SECONDS / TIMESTEP) + 1, dtype=np.float64) * TIMESTEP
    commands = _SIX_HOME + _waves(times, 6, amplitude=0.4, slowest=0.3, fastest=1.5)
    model = _true_model(_six_joint_spec(), free)
    return Case(
        'i',
        'meshed 6-joint arm, 18 parameters',
        6.0,
        _six_joint_spec,
        free,
        (record(model, initial_state(model, _SIX_HOME), commands),),
        np.repeat([0.0005, 0.01], 6),
    )


def payload_case() -> Case:
    """Return mass and centre of what the meshed seven-joint arm carries, from 2 s."""
    axes = 'xyz'

    def mass(spec: mujoco.MjSpec, value: NDArray[np.float64]) -> None:
        spec.body(_HAND).mass = value[0]

    def centre(axis: int) -> Modify:
        def modify(spec: mujoco.MjSpec, value: NDArray[np.float64]) -> None:
            spec.body(_HAND).ipos[axis] = value[0]

        return modify

    model = _arm_spec().compile()
    held, at = model.body(_HAND).mass, model.body(_HAND).ipos
    free = (
        Free('mass', held.copy(), 0.2 * held, held + 5.0, held + 1.5, f'body/{_HAND}/mass', mass),
        *(
            Free(
                f'centre {axes[k]}',
                at[[k]],
                at[[k]] - 0.3,
                at[[k]] + 0.3,
                at[[k]] + offset,
                f'body/{_HAND}/ipos[{k}]',
                centre(k),
            )
            for k, offset in enumerate((0.02, -0.03, -0.06))
        ),
    )
    times = np.arange(round(TRUNK_SECONDS / TIMESTEP) + 1, dtype=np.float64) * TIMESTEP
    commands = _ARM_HOME + _waves(times, 7, amplitude=0.6, slowest=0.4, fastest=1.5)
    model = _true_model(_arm_spec(), free)
    return Case(
        'j',
        'payload of a meshed 7-joint arm, 4 parameters',
        6.0,
        _arm_spec,
        free,
        (record(model, initial_state(model, _ARM_HOME), commands),),
        _ARM_NOISE,
    )


def torque_arm_case() -> Case:
    """Return the armatures of the seven-joint arm under torques, without its meshes.

    It falls and swings through turns with the little damping of its file: many armatures explain
    a part of such a motion, so that a solver may end elsewhere.
    """
    free = scalars(
        _ARM_JOINTS, _TORQUE_ARMATURE, np.full(7, arm.START), arm.BOUNDS, attribute='armature'
    )
    model = _true_model(_torque_arm_spec(), free)
    recording = record(model, initial_state(model, _ARM_HOME), arm.torques(7, arm.SECONDS))
    noise = np.full(7, arm.NOISE)
    return Case('', 'armatures of a 7-joint arm', 1.0, _torque_arm_spec, free, (recording,), noise)


def trunk_case() -> Case:
    """Return the ten inertial parameters of a quadruped's trunk.

    It hangs on elastic cords and swings its legs. Standing on open-loop commands it falls over, and
    then the smallest change of a parameter changes everything: that has no optimum to find.
    """
    spec = _quadruped_spec()
    start = body_theta(spec.compile(), _TRUNK)

    def modify(spec: mujoco.MjSpec, value: NDArray[np.float64]) -> None:
        write_theta(spec, _TRUNK, value)

    free = (
        Free(
            f'{_TRUNK}/inertia',
            start,
            start - _THETA_BELOW,
            start + _THETA_BELOW,
            start + _PAYLOAD,
            f'body/{_TRUNK}/inertia',
            modify,
        ),
    )
    times = np.arange(round(TRUNK_SECONDS / TIMESTEP) + 1, dtype=np.float64) * TIMESTEP
    swing = _waves(times, len(_LEGS), amplitude=0.3, slowest=0.5, fastest=3.0)
    model = _true_model(spec, free)
    qpos = np.array([0.0, 0.0, _HEIGHT, 1.0, 0.0, 0.0, 0.0, *_POSTURE])
    recording = record(model, initial_state(model, qpos), _POSTURE + swing)
    return Case(
        'c',
        "quadruped's trunk, 10-parameter inertia",
        8.0,
        _quadruped_spec,
        free,
        (recording,),
        _trunk_noise(),
    )


def _true_model(spec: mujoco.MjSpec, free: Sequence[Free]) -> mujoco.MjModel:
    for parameter in free:
        if parameter.modify is not None:
            parameter.modify(spec, parameter.truth)
    return spec.compile()


def _waves(
    times: NDArray[np.float64], count: int, *, amplitude: float, slowest: float, fastest: float
) -> NDArray[np.float64]:
    """Return (n, count) motions of two sines each, rad, that begin at rest and at zero."""
    frequencies = np.geomspace(slowest, fastest, 2 * count)
    # Far-apart frequencies for each joint, in an order that differs from the joints'.
    first, second = frequencies[:count], np.roll(frequencies[count:], count // 2)
    waves = [
        np.sin(2 * np.pi * f * times) * (1 if k % 2 else -1)
        - f / g * np.sin(2 * np.pi * g * times) * (1 if k % 2 else -1)
        for k, (f, g) in enumerate(zip(first, second, strict=True))
    ]
    return amplitude * np.stack(waves, axis=1)


def _arm_spec() -> mujoco.MjSpec:
    return _servo_arm_spec(_ARM, _ARM_JOINTS, _ARM_KP, _ARM_KV)


def _six_joint_spec() -> mujoco.MjSpec:
    return _servo_arm_spec(_SIX, _SIX_JOINTS, _SIX_KP, _SIX_KV)


def _servo_arm_spec(
    file: tuple[str, str], joints: Sequence[str], kp: Sequence[float], kv: Sequence[float]
) -> mujoco.MjSpec:
    spec = mujoco.MjSpec.from_file(_file(*file))
    for element in (*spec.actuators, *spec.sensors):
        spec.delete(element)
    _servos(spec, joints, kp, kv)
    _joint_sensors(spec, joints)
    spec.option.timestep = TIMESTEP
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    return spec


def _torque_arm_spec() -> mujoco.MjSpec:
    spec = mujoco.MjSpec.from_file(_file(*_ARM))
    for element in (*spec.geoms, *spec.meshes):  # inertia is given, and nothing touches anything
        spec.delete(element)
    _joint_sensors(spec, _ARM_JOINTS, ('position',))
    for joint in _ARM_JOINTS:
        spec.joint(joint).armature = arm.START
    spec.option.timestep = TIMESTEP
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    return spec


def _quadruped_spec() -> mujoco.MjSpec:
    spec = mujoco.MjSpec.from_file(_file(*_QUADRUPED))
    for sensor in list(spec.sensors):
        spec.delete(sensor)
    _servos(spec, _LEGS, [_LEG_KP] * len(_LEGS), [_LEG_KV] * len(_LEGS))
    for name, kind in (
        ('base_pos', mujoco.mjtSensor.mjSENS_FRAMEPOS),
        ('base_quat', mujoco.mjtSensor.mjSENS_FRAMEQUAT),
        ('base_gyro', mujoco.mjtSensor.mjSENS_GYRO),
    ):
        spec.add_sensor(name=name, type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname='imu')
    _joint_sensors(spec, _LEGS)
    trunk = spec.body(_TRUNK)
    for number, (x, y) in enumerate(_CORD_ENDS):
        spec.worldbody.add_site(name=f'anchor{number}', pos=[2 * x, 2 * y, 2 * _HEIGHT])
        trunk.add_site(name=f'eyelet{number}', pos=[x, y, 0.05])
        cord = spec.add_tendon(
            name=f'cord{number}',
            stiffness=_CORD_STIFFNESS,
            damping=_CORD_DAMPING,
            springlength=[0.0, _CORD_LENGTH],
        )
        cord.wrap_site(f'anchor{number}')
        cord.wrap_site(f'eyelet{number}')
    spec.option.timestep = TIMESTEP
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    return spec


def _trunk_noise() -> NDArray[np.float64]:
    """Return noise of motion capture (m, quaternion), gyroscope (rad/s), encoders (rad, rad/s)."""
    return np.concatenate(
        [np.repeat([0.0005, 0.001, 0.01], [3, 4, 3]), np.repeat([0.0005, 0.02], [12, 12])]
    )


def _servos(
    spec: mujoco.MjSpec, joints: Sequence[str], kp: Sequence[float], kv: Sequence[float]
) -> None:
    for joint, stiffness, damping in zip(joints, kp, kv, strict=True):
        actuator = spec.add_actuator(
            name=f'servo_{joint}', target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT
        )
        actuator.set_to_position(kp=stiffness, kv=damping)


def _joint_sensors(
    spec: mujoco.MjSpec, joints: Sequence[str], words: Sequence[str] = ('position', 'velocity')
) -> None:
    kinds = {
        'position': mujoco.mjtSensor.mjSENS_JOINTPOS,
        'velocity': mujoco.mjtSensor.mjSENS_JOINTVEL,
    }
    for word in words:
        for joint in joints:
            spec.add_sensor(
                name=f'{word}_{joint}',
                type=kinds[word],
                objtype=mujoco.mjtObj.mjOBJ_JOINT,
                objname=joint,
            )


def _file(package: str, path: str) -> str:
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise RuntimeError(f'Expected the files of {package}: pip install --no-deps {package}.')
    return str(Path(found.submodule_search_locations[0]) / path)
