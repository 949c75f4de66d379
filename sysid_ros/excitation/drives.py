# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The actuators as the sender of commands sees them: ranges, and commands that hold a pose."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ModelError
from sysid_ros.model.elements import SCALAR_JOINTS, TO_JOINT
from sysid_ros.model.loading import (
    ActuatorKind,
    add_actuators,
    compile_spec,
    free_joints,
    load_spec,
)

#: Keyframe that holds the pose in which a robot waits; without it, ``qpos0`` is that pose.
HOME_KEYFRAME = 'home'
#: A hinge without a range is moved by at most half a turn to either side.
_FREE_HINGE = math.pi


class Drive(NamedTuple):
    """One actuator as the sender of commands sees it.

    Attributes:
        actuator: Its name, or ``actuator_3`` when it has none.
        joint: The hinge or slide joint that it moves; empty when it moves something else.
        slope: Command per unit of joint position; 0 when a command is no position.
        offset: Command for joint position 0.
        home: Command that holds the home pose.
        lower: Smallest command that both the actuator and its joint allow.
        upper: Largest such command.
    """

    actuator: str
    joint: str
    slope: float
    offset: float
    home: float
    lower: float
    upper: float

    @property
    def takes_positions(self) -> bool:
        """Whether a joint position can be commanded."""
        return self.slope != 0.0

    def command(self, position: float) -> float:
        """Return the command that asks for a joint position, rad or m."""
        return self.offset + self.slope * position

    def position(self, command: float) -> float:
        """Return the joint position, rad or m, that a command asks for."""
        return (command - self.offset) / self.slope


def load_driven(path: Path, packages: Sequence[Path] = ()) -> mujoco.MjSpec:
    """Parse a model for somebody who sends commands: without actuators it gets position servos.

    Raises:
        ModelError: There is no such file, or MuJoCo refuses it.
    """
    spec = load_spec(path, packages)
    if not spec.actuators:
        add_actuators(spec, [f'{joint}_{ActuatorKind.POSITION}' for joint in free_joints(spec)])
    return spec


def compile_file(path: Path) -> mujoco.MjModel:
    """Compile a model, driven as `load_driven` says.

    Raises:
        ModelError: There is no such file, MuJoCo refuses it, or an actuator takes several commands.
    """
    return compile_driven(load_driven(path), path)


def compile_driven(spec: mujoco.MjSpec, path: Path) -> mujoco.MjModel:
    """Compile a spec that was read from a file, for somebody who sends commands.

    Raises:
        ModelError: MuJoCo refuses it, or an actuator takes several commands.
    """
    model = compile_spec(spec, path)
    if model.nu != model.nactuator:
        raise ModelError(
            f'Expected one command per actuator in {str(path)!r}, found actuators that take more.'
        )
    return model


def joint_names(model: mujoco.MjModel) -> tuple[str, ...]:
    """Return the names of the hinge and slide joints, in model order, the unnamed left out."""
    return tuple(
        model.joint(row).name
        for row in range(model.njnt)
        if model.jnt_type[row] in SCALAR_JOINTS and model.joint(row).name
    )


def home_position(model: mujoco.MjModel) -> NDArray[np.float64]:
    """Return the (nq,) pose in which the robot waits: keyframe ``home``, else ``qpos0``."""
    row = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_KEY, HOME_KEYFRAME)
    return np.array(model.qpos0 if row < 0 else model.key_qpos[row])


def holding_commands(model: mujoco.MjModel, position: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the (nu,) commands that ask position servos for a (nq,) pose, nothing of the others.

    A servo with force ``gain * command + bias0 + bias1 * length`` rests where that is zero. All
    commands are inside the actuators' ranges.
    """
    data = mujoco.MjData(model)
    data.qpos[:] = position
    mujoco.mj_fwdPosition(model, data)
    commands = np.zeros(model.nu)
    for row in range(model.nu):
        if _is_position_servo(model, row):
            gain = model.actuator_gainprm[row, 0]
            bias = model.actuator_biasprm[row]
            commands[row] = -(bias[0] + bias[1] * data.actuator_length[row]) / gain
    limited = model.actuator_ctrllimited.astype(bool)
    lower, upper = model.actuator_ctrlrange.T
    commands[limited] = np.clip(commands, lower, upper)[limited]
    return commands


def drives(model: mujoco.MjModel) -> tuple[Drive, ...]:
    """Describe all actuators of a model, in model order."""
    home = holding_commands(model, home_position(model))
    return tuple(_drive(model, row, float(home[row])) for row in range(model.nu))


def _drive(model: mujoco.MjModel, row: int, home: float) -> Drive:
    name = model.actuator(row).name or f'actuator_{row}'
    lower, upper = -math.inf, math.inf
    if model.actuator_ctrllimited[row]:
        lower, upper = (float(value) for value in model.actuator_ctrlrange[row])
    joint = int(model.actuator_trnid[row, 0])
    on_joint = model.actuator_trntype[row] in TO_JOINT and model.jnt_type[joint] in SCALAR_JOINTS
    if not on_joint:
        return Drive(name, '', 0.0, 0.0, home, lower, upper)
    slope = offset = 0.0
    if _is_position_servo(model, row):
        # MuJoCo measures the length of a joint transmission as gear * qpos, not from qpos0.
        gain, bias = model.actuator_gainprm[row, 0], model.actuator_biasprm[row]
        slope = float(-bias[1] * model.actuator_gear[row, 0] / gain)
        offset = float(-bias[0] / gain)
    if slope:
        ends = sorted(offset + slope * value for value in _joint_range(model, joint))
        lower, upper = max(lower, ends[0]), min(upper, ends[1])
    return Drive(name, model.joint(joint).name, slope, offset, home, lower, upper)


def _joint_range(model: mujoco.MjModel, joint: int) -> tuple[float, float]:
    if model.jnt_limited[joint]:
        lower, upper = model.jnt_range[joint]
        return float(lower), float(upper)
    if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE:
        centre = float(home_position(model)[model.jnt_qposadr[joint]])
        return centre - _FREE_HINGE, centre + _FREE_HINGE
    return -math.inf, math.inf


def _is_position_servo(model: mujoco.MjModel, row: int) -> bool:
    return bool(
        model.actuator_gaintype[row] == mujoco.mjtGain.mjGAIN_FIXED
        and model.actuator_biastype[row] == mujoco.mjtBias.mjBIAS_AFFINE
        and model.actuator_gainprm[row, 0] != 0
        and model.actuator_biasprm[row, 1] != 0
    )


def check_ranges(chosen: Iterable[Drive]) -> None:
    """Check that every actuator says how large its commands may be.

    Raises:
        ModelError: One has no range.
    """
    for drive in chosen:
        if not math.isfinite(drive.upper - drive.lower):
            raise ModelError(
                f'Expected a ctrlrange for actuator {drive.actuator!r}, found none: it says how '
                'large its commands may be.'
            )
