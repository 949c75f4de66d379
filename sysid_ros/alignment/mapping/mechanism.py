# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a model says about its joints: ranges, servo laws, and the torques of a motion."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import NamedTuple

import mujoco
import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

from sysid_ros.alignment.health import FACTOR, LITTLE, MOST
from sysid_ros.alignment.mapping.axes import SmoothSignal
from sysid_ros.alignment.pairs import (
    actuator_names,
    command_quantity,
    drives_joint,
    scalar_joints,
)
from sysid_ros.vocabulary import Quantity

#: What a model may have and a motion does not tell; each is fitted to the motion where needed.
_UNKNOWN = (
    'dof_armature',
    'dof_frictionloss',
    'tendon_armature',
    'actuator_armature',
)
#: A smaller offset, rad or m per unit of stiffness, is none: backlash, sag and friction hold a
#: joint so far away.
LEAST_SHIFT = 0.05
#: The torques of rigid bodies are at most so many times the model's, or so many times smaller.
MASSES = 1.7
#: An effort that is so many times what the model needs, or one so many times smaller, is no torque.
TENFOLD = 10.0
#: Any factors that are not negative.
_ANY = (np.zeros(4), np.full(4, np.inf))


class JointActuator(NamedTuple):
    """What drives a joint, in the joint's coordinates.

    The torque is ``stiffness (x − q) − damping q̇`` for a position command x, ``damping (x − q̇)``
    for a velocity and x itself for an effort; the control is ``slope x + intercept``.

    Attributes:
        actuator: Its id.
        name: Its name.
        commanded: What x is.
        stiffness: N·m/rad or N/m.
        damping: N·m·s/rad or N·s/m.
        slope: Control per unit of x.
        intercept: Control at x = 0.
        known: Whether torques can be computed: a fixed gain and an affine bias.
    """

    actuator: int
    name: str
    commanded: Quantity
    stiffness: float
    damping: float
    slope: float
    intercept: float
    known: bool

    @property
    def takes_positions(self) -> bool:
        """Whether controls are positions of the joint, but for a positive factor."""
        return self.known and self.slope > 0 and self.commanded is Quantity.POSITION


class ModelJoint(NamedTuple):
    """A hinge or slide joint.

    Attributes:
        name: Its name.
        id: Its id.
        hinge: Whether it turns.
        low: Least position, −inf where it has no limit.
        high: Largest position.
        armature: Of the joint and its actuators, kg·m² or kg.
        damping: N·m·s/rad or N·s/m.
        friction: Dry friction, N·m or N.
        drive: The first servo on it, else its first actuator, or None.
    """

    name: str
    id: int
    hinge: bool
    low: float
    high: float
    armature: float
    damping: float
    friction: float
    drive: JointActuator | None


class Follower(NamedTuple):
    """A joint whose position is ``offset + ratio × leader`` by an equality constraint."""

    joint: int
    leader: int
    offset: float
    ratio: float


class Mechanism:
    """A model's joints, and the torques that a motion takes.

    Attributes:
        model: As the user has it.
        joints: Hinges and slides with a name that follow no other.
        followers: Those that do.
        fixed: Whether nothing that is measured stands on a free or ball joint.
    """

    def __init__(self, model: mujoco.MjModel, guessed: frozenset[str] = frozenset()) -> None:
        """Look at a model as the user has it; gains of guessed actuators say nothing."""
        self.model = model
        named = scalar_joints(model)
        self.followers = _followers(model, set(named.values()))
        following = {follower.joint for follower in self.followers}
        self.joints = tuple(
            _joint(model, name, joint, guessed)
            for name, joint in named.items()
            if joint not in following
        )
        self.fixed = all(_stands_fast(model, joint.id) for joint in self.joints)
        self._bare = copy.copy(model)
        for name in _UNKNOWN:
            getattr(self._bare, name)[:] = 0.0
        # Left are rigid bodies, gravity and springs.
        self._bare.opt.disableflags |= int(
            mujoco.mjtDisableBit.mjDSBL_DAMPER
            | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
            | mujoco.mjtDisableBit.mjDSBL_SENSOR
        )
        self._data = mujoco.MjData(self._bare)
        self._home = np.array(model.key_qpos[0] if model.nkey else model.qpos0)

    @property
    def driven(self) -> dict[int, ModelJoint]:
        """Actuator to its joint."""
        return {joint.drive.actuator: joint for joint in self.joints if joint.drive is not None}

    def needed(self, moved: Mapping[int, SmoothSignal], count: int) -> NDArray[np.float64]:
        """Return the (count, k) torques that joints take as they moved, by index.

        Without friction and armature; those that nothing is known of stay at home.
        """
        model, data = self._bare, self._data
        qpos = np.tile(self._home, (count, 1))
        qvel, qacc, force = np.zeros((3, count, model.nv))
        address, dofs = model.jnt_qposadr, model.jnt_dofadr
        for index, signal in moved.items():
            joint = self.joints[index].id
            qpos[:, address[joint]] = signal.values
            qvel[:, dofs[joint]] = signal.rate
            qacc[:, dofs[joint]] = signal.acceleration
        for joint, leader, offset, ratio in self.followers:
            qpos[:, address[joint]] = offset + ratio * qpos[:, address[leader]]
            for values in (qvel, qacc):
                values[:, dofs[joint]] = ratio * values[:, dofs[leader]]
        for row in range(count):
            data.qpos[:], data.qvel[:], data.qacc[:] = qpos[row], qvel[row], qacc[row]
            mujoco.mj_inverse(model, data)
            force[row] = data.qfrc_inverse
        for joint, leader, _, ratio in self.followers:
            force[:, dofs[leader]] += ratio * force[:, dofs[joint]]
        found: NDArray[np.float64] = force[:, dofs[[joint.id for joint in self.joints]]]
        return found


def _joint(model: mujoco.MjModel, name: str, joint: int, guessed: frozenset[str]) -> ModelJoint:
    low, high = -np.inf, np.inf
    if model.jnt_limited[joint]:
        low, high = (float(value) for value in model.jnt_range[joint])
    dof = int(model.jnt_dofadr[joint])
    armature = float(model.dof_armature[dof])
    drive = None
    for actuator, actuator_name in enumerate(actuator_names(model)):
        if drives_joint(model, actuator) and int(model.actuator_trnid[actuator, 0]) == joint:
            gear = float(model.actuator_gear[actuator, 0])
            armature += gear**2 * float(model.actuator_armature[actuator])
            if actuator_name and (drive is None or drive.commanded is Quantity.EFFORT):
                own = _actuator(model, actuator, guessed)
                drive = own if drive is None or own.commanded is not Quantity.EFFORT else drive
    hinge = bool(model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE)
    resists = float(model.dof_damping[dof]), float(model.dof_frictionloss[dof])
    return ModelJoint(name, joint, hinge, low, high, armature, *resists, drive)


def _actuator(model: mujoco.MjModel, actuator: int, guessed: frozenset[str]) -> JointActuator:
    gear, name = float(model.actuator_gear[actuator, 0]), actuator_names(model)[actuator]
    commanded = command_quantity(model, actuator)
    gain = float(model.actuator_gainprm[actuator, 0])
    bias = [float(value) for value in model.actuator_biasprm[actuator, :3]]
    affine = model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_AFFINE
    linear = affine or model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_NONE
    fixed = model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_FIXED
    known = bool(linear and fixed and gain and gear)
    stiffness, damping = -(gear**2) * bias[1], -(gear**2) * bias[2]
    slope, intercept = 1.0, 0.0
    if known and commanded is Quantity.POSITION:
        slope, intercept = -bias[1] * gear / gain, -bias[0] / gain
    elif known and commanded is Quantity.VELOCITY:
        slope = -bias[2] * gear / gain
    elif known:
        slope = 1.0 / (gear * gain)
    known = known and name not in guessed
    return JointActuator(actuator, name, commanded, stiffness, damping, slope, intercept, known)


def _followers(model: mujoco.MjModel, scalar: set[int]) -> tuple[Follower, ...]:
    found: dict[int, Follower] = {}
    for row in range(model.neq):
        kinds = mujoco.mjtEq.mjEQ_JOINT, mujoco.mjtObj.mjOBJ_JOINT
        if model.eq_type[row] != kinds[0] or not model.eq_active0[row]:
            continue
        joint, leader = int(model.eq_obj1id[row]), int(model.eq_obj2id[row])
        coefficients = model.eq_data[row, :5]
        if joint in scalar and leader in scalar and not coefficients[2:].any():
            # The polynomial is in distances from qpos0.
            ratio = float(coefficients[1])
            rest = [float(model.qpos0[model.jnt_qposadr[item]]) for item in (joint, leader)]
            offset = rest[0] + float(coefficients[0]) - ratio * rest[1]
            found[joint] = Follower(joint, leader, offset, ratio)
    return tuple(item for item in found.values() if item.leader not in found)


def _stands_fast(model: mujoco.MjModel, joint: int) -> bool:
    floating = (int(mujoco.mjtJoint.mjJNT_FREE), int(mujoco.mjtJoint.mjJNT_BALL))
    body = int(model.jnt_bodyid[joint])
    while body:
        first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
        if any(int(model.jnt_type[first + index]) in floating for index in range(count)):
            return False
        body = int(model.body_parentid[body])
    return True


def servo_torque(
    joint: ModelJoint,
    commanded: Quantity,
    command: NDArray[np.float64] | None,
    moved: SmoothSignal,
) -> NDArray[np.float64] | None:
    """Return the (n,) torques of the actuator by the model's gains."""
    drive = joint.drive
    if drive is None or not drive.known or command is None or drive.commanded is not commanded:
        return None
    if commanded is Quantity.POSITION:
        return drive.stiffness * (command - moved.values) - drive.damping * moved.rate
    return drive.damping * (command - moved.rate) if commanded is Quantity.VELOCITY else command


def law_part(
    joint: ModelJoint,
    effort: NDArray[np.float64],
    servo: NDArray[np.float64],
    moved: SmoothSignal,
) -> tuple[float, float]:
    """Return the part of an effort that a servo's law leaves unexplained, and the gain's cost."""
    gain, late = _law_fit(effort, servo, moved)
    gain = min(max(gain, 1 / FACTOR), FACTOR)
    left = effort - gain * servo - late * moved.rate
    stiffness = joint.drive.stiffness if joint.drive else 0.0
    slack = LEAST_SHIFT * gain * stiffness
    left -= min(max(float(left.mean()), -slack), slack)
    return _part(left, effort), (2 * math.log(gain) / math.log(FACTOR)) ** 2


def scaled_law_part(
    effort: NDArray[np.float64], servo: NDArray[np.float64], moved: SmoothSignal
) -> float:
    """Return the part of an effort of unknown scale that a servo's law leaves unexplained."""
    gain, late = _law_fit(effort, servo, moved)
    left = effort - gain * servo - late * moved.rate
    return float(np.var(left) / np.var(effort)) if gain > 0 and np.ptp(effort) > 0 else 1.0


def _law_fit(
    effort: NDArray[np.float64], servo: NDArray[np.float64], moved: SmoothSignal
) -> tuple[float, float]:
    """Return by what a servo's torque and the speed explain an effort best, but for a constant.

    Commands act late: a servo is behind by its stiffness times the delay and the speed.
    """
    columns = np.column_stack([servo, moved.rate])
    found = np.linalg.lstsq(columns - columns.mean(axis=0), effort - effort.mean())[0]
    return float(found[0]), float(found[1])


def motion_bases(torque: NDArray[np.float64], moved: SmoothSignal) -> NDArray[np.float64]:
    """Return the (n, 4) torques of bodies, armature, viscous and dry friction, up to factors."""
    slow = LITTLE * float(np.sqrt(np.mean(moved.rate**2))) or 1.0
    return np.column_stack([torque, moved.acceleration, moved.rate, np.tanh(moved.rate / slow)])


def motion_part(
    joint: ModelJoint, driving: NDArray[np.float64], bases: NDArray[np.float64]
) -> float:
    """Return the part of a torque that rigid bodies, armature and friction leave unexplained."""
    least = np.array([1 / MASSES, joint.armature / FACTOR, 0.0, 0.0])
    most = np.array([MASSES, joint.armature * FACTOR or np.inf, np.inf, np.inf])
    return _part(driving - bases @ _bounded(bases, driving, least, most), driving)


def scaled_part(driving: NDArray[np.float64], bases: NDArray[np.float64]) -> float:
    """Return the part of a drive of unknown scale that the motion leaves unexplained."""
    return _part(driving - bases @ _bounded(bases, driving, *_ANY), driving)


def scale_of(driving: NDArray[np.float64], bases: NDArray[np.float64]) -> float:
    """Return by what a drive has to be multiplied for the model's masses to be right, or NaN.

    Bodies must take most of the drive, else the motion does not tell.
    """
    factor = _bounded(bases, driving, *_ANY)[0]
    carried = float(np.sqrt(np.mean((factor * bases[:, 0]) ** 2) / np.mean(driving**2)))
    return 1.0 / float(factor) if carried > MOST else math.nan


def contradiction(
    joint: ModelJoint, effort: NDArray[np.float64], bases: NDArray[np.float64]
) -> float | None:
    """Return how many times what the model needs an (n,) effort is, if that says it is no torque.

    The model needs what its bodies, armature, damping and dry friction take for the motion; of what
    it has none of, there may be any. None where the effort may be a torque: where it agrees but for
    a modest factor, and where the motion does not tell.
    """
    known = np.array([1.0, joint.armature, joint.damping, joint.friction])
    columns = np.column_stack([bases @ known, bases[:, known == 0.0]])
    most = np.full(columns.shape[1], np.inf)
    least = np.zeros_like(most)
    fits = {sign: sign * _bounded(columns, sign * effort, least, most) for sign in (1.0, -1.0)}
    left = {sign: _part(effort - columns @ factors, effort) for sign, factors in fits.items()}
    best = min(left, key=lambda sign: left[sign])
    times = float(fits[best][0])
    least[0], most[0] = 1 / FACTOR, FACTOR
    usual = _part(effort - columns @ _bounded(columns, effort, least, most), effort)
    if not times or 1 / TENFOLD < times < TENFOLD or not left[best] < MOST < usual:
        return None
    return times


def _bounded(
    bases: NDArray[np.float64],
    values: NDArray[np.float64],
    least: NDArray[np.float64],
    most: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the (k,) factors of (n, k) bases that fit (n,) values, near the best within bounds."""
    sizes = np.sqrt((bases**2).sum(axis=0))
    sizes[sizes == 0] = 1.0
    factors: NDArray[np.float64] = least.copy()
    free = np.ones(len(least), dtype=bool)
    while free.any():
        factors[free] = least[free]
        found, _ = scipy.optimize.nnls(bases[:, free] / sizes[free], values - bases @ factors)
        factors[free] += found / sizes[free]
        beyond = factors > most
        if not beyond.any():
            break
        factors[beyond] = most[beyond]
        free &= ~beyond
    return factors


def _part(left: NDArray[np.float64], whole: NDArray[np.float64]) -> float:
    size = float(np.var(whole) + (LITTLE * np.mean(whole)) ** 2)
    return float(np.mean(left**2)) / size if size > 0 else math.nan
