# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Robots of URDFs, which imply position servos, and what they record."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np

from builders import messages
from sysid_ros.bags.writer import BagWriter
from sysid_ros.model.loading import ActuatorKind, add_actuators, free_joints, load_spec

ORIGIN_NS = 1_700_000_000_000_000_000
_STATE, _COMMAND = '/joint_states', '/joint_commands'
_TYPE = 'sensor_msgs/msg/JointState'


class Robot(NamedTuple):
    """A robot that is unlike its model, its joints, and target to the value that is to be found."""

    model: mujoco.MjModel
    joints: list[str]
    truth: dict[str, float]


def make_robot(urdf: Path, rng: np.random.Generator) -> Robot:
    """Make a robot of a URDF whose gains and armatures differ from it."""
    spec = load_spec(urdf)
    joints = free_joints(spec)
    add_actuators(spec, [f'{joint}_{ActuatorKind.POSITION}' for joint in joints])
    own = _inertias(spec.copy().compile(), joints)
    truth = {}
    for joint, actuator, inertia in zip(joints, spec.actuators, own, strict=True):
        # Motors have at least about .01 kg·m² or kg at their joint.
        added = max(inertia, 0.01) * rng.uniform(0.1, 0.5)
        armature = float(spec.joint(joint).armature + added)
        stiffness = float(-actuator.biasprm[1] * rng.uniform(0.6, 1.6))
        damping = float(-actuator.biasprm[2] * rng.uniform(0.7, 1.4))
        spec.joint(joint).armature = armature
        actuator.set_to_position(kp=stiffness, kv=damping)
        truth[f'joint/{joint}/armature'] = armature
        truth[f'actuator/{actuator.name}/kp'] = stiffness
        truth[f'actuator/{actuator.name}/kv'] = damping
    return Robot(spec.compile(), joints, truth)


def _inertias(model: mujoco.MjModel, joints: list[str]) -> np.ndarray:
    """Return what moves at each joint when nothing else is held, kg·m² or kg."""
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    inverse = np.eye(model.nv)
    mujoco.mj_solveM(model, data, inverse, inverse.copy())
    dofs = [model.joint(joint).dofadr[0] for joint in joints]
    return 1 / inverse[dofs, dofs]


def record(robot: Robot, bag: BagWriter, rng: np.random.Generator) -> None:
    """Move a robot for 3 s and write joint states and commands of positions, as joint states."""
    model, joints = robot.model, robot.joints
    data, step = mujoco.MjData(model), model.opt.timestep
    rows = [model.joint(joint) for joint in joints]
    qpos, dofs = ([int(getattr(r, field)[0]) for r in rows] for field in ('qposadr', 'dofadr'))
    ranges = np.array([r.range if model.jnt_limited[r.id] else (-3.0, 3.0) for r in rows])
    reach = 0.25 * np.minimum(np.ptp(ranges, axis=1), 3.0)
    middle = np.clip(data.qpos[qpos], ranges[:, 0] + reach, ranges[:, 1] - reach)
    data.qpos[qpos] = middle
    phases = rng.uniform(0, 2 * np.pi, (len(joints), 3))
    rates = 2 * np.pi * rng.uniform(0.2, 1.2, (len(joints), 3))
    # Efforts err by a part of what turns a joint at 3 Hz by 1 rad.
    noise = 2e-4, 5e-3, 2e-3 * _inertias(model, joints) * (2 * np.pi * 3.0) ** 2
    for topic in (_STATE, _COMMAND):
        bag.add_topic(topic, _TYPE)
    for tick in range(round(3.0 / step)):
        at = tick * step
        if tick % round(1 / (50 * step)) == 0:
            swing = np.sin(rates * at + phases) - np.sin(phases)
            data.ctrl[:] = middle + 0.5 * reach * swing.mean(axis=1)
            _send(bag, _COMMAND, at, joints, [data.ctrl])
        if tick % round(1 / (100 * step)) == 0:
            mujoco.mj_forward(model, data)
            told = data.qpos[qpos], data.qvel[dofs], data.qfrc_actuator[dofs]
            noisy = [v + s * rng.normal(size=len(v)) for v, s in zip(told, noise, strict=True)]
            _send(bag, _STATE, at, joints, noisy)
        mujoco.mj_step(model, data)


def _send(bag: BagWriter, topic: str, at: float, joints: list[str], told: list[Any]) -> None:
    ns = ORIGIN_NS + round(1e9 * at)
    bag.write(topic, ns + 200_000, messages.joint_state(ns, joints, *told))
