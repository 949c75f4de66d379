# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The actuators as the sender of commands sees them, and the limits of the robot that they move."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.health import LITTLE
from sysid_ros.alignment.pairs import scalar_joints
from sysid_ros.errors import ModelError
from sysid_ros.model.elements import SCALAR_JOINTS, driven_joint
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
#: Largest speeds by default, rad/s and m/s: MJCF holds no limit of speed.
MAX_HINGE_SPEED = 2.0
MAX_SLIDE_SPEED = 0.5
#: Bodies that may collide stay so far apart, m.
CLEARANCE = 0.01
#: A limit that the home pose already uses to a larger part than the margin may be used so much
#: more: a joint that waits at the end of its range cannot wait inside of it.
_SLACK = 0.02
#: A robot whose joints are all slower than this, rad/s or m/s, is at rest; one that is not after so
#: many seconds, as a pendulum, starts moving.
_REST_SPEED, _SETTLING_S = 1e-5, 20.0


class Drive(NamedTuple):
    """One actuator as the sender of commands sees it, by its name, or as ``actuator_3`` without.

    The joint is a hinge or slide, empty when it moves something else. The command for a joint
    position is ``slope * position + offset``, the slope being 0 when a command is no position.
    Actuator and joint allow commands from lower to upper; that of ``home`` holds the home pose.
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


def settles(data: mujoco.MjData, timestep: float, advance: Callable[[], None]) -> bool:
    """Advance until gravity and servos balance; return whether they do."""
    for step in range(int(_SETTLING_S / timestep)):
        advance()
        if step > 0 and float(np.max(np.abs(data.qvel))) < _REST_SPEED:
            return True
    return False


def drives(model: mujoco.MjModel) -> tuple[Drive, ...]:
    """Describe all actuators of a model, in model order."""
    home = holding_commands(model, home_position(model))
    return tuple(_drive(model, row, float(home[row])) for row in range(model.nu))


def _drive(model: mujoco.MjModel, row: int, home: float) -> Drive:
    name = model.actuator(row).name or f'actuator_{row}'
    lower, upper = -math.inf, math.inf
    if model.actuator_ctrllimited[row]:
        lower, upper = (float(value) for value in model.actuator_ctrlrange[row])
    joint = driven_joint(model, row)
    if joint < 0 or model.jnt_type[joint] not in SCALAR_JOINTS:
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


class Usage(NamedTuple):
    """How much of a limit, from low to high in SI units, a motion uses.

    It is of the ``position``, ``velocity``, ``torque`` or ``command`` of a joint or actuator. Of
    the way from the middle to the limit, 1 being all, a part is used and as much allowed.
    """

    what: str
    name: str
    low: float
    high: float
    part: float
    allowed: float

    @property
    def kept(self) -> bool:
        """Whether no more is used than allowed."""
        return self.part <= self.allowed


class Limits:
    """The limits of a compiled model, and the (k,) ``allowed`` parts of each that may be used."""

    def __init__(
        self,
        model: mujoco.MjModel,
        *,
        margin: float = 0.9,
        max_speed: float | None = None,
        clearance: float = CLEARANCE,
    ) -> None:
        """Collect the limits.

        The margin is the part of each that may be used. The largest speed of all joints is 2 rad/s
        at hinges and 0.5 m/s at slides unless given. Bodies that may collide stay apart by a
        clearance, m.

        Raises:
            ModelError: The model floats freely, or has balls, or no actuator.
        """
        if not model.nu:
            raise ModelError('Expected a model with actuators to move it, found none.')
        others = [row for row in range(model.njnt) if model.jnt_type[row] not in SCALAR_JOINTS]
        if others:
            kind = 'free' if model.jnt_type[others[0]] == mujoco.mjtJoint.mjJNT_FREE else 'ball'
            name = model.body(model.jnt_bodyid[others[0]]).name
            raise ModelError(
                f'Expected hinges and slides only, found the {kind} joint of body {name!r}: a '
                'motion cannot be planned for what stands or flies; fix that body to the world.'
            )
        hinge = model.jnt_type == int(mujoco.mjtJoint.mjJNT_HINGE)
        usual = np.where(hinge, MAX_HINGE_SPEED, MAX_SLIDE_SPEED)
        speeds = usual if max_speed is None else np.full(model.njnt, float(max_speed))
        self.model = model
        self.clearance = clearance
        joints = [model.joint(row).name for row in range(model.njnt)]
        actuators = [drive.actuator for drive in drives(model)]
        limits: list[tuple[str, str, int, float, float]] = []

        # Both ends of a force count alike: what pushes pulls when a motion is turned around.
        forces, torques = (
            np.abs(ranges).min(axis=1)[:, None] * [-1, 1]
            for ranges in (model.actuator_forcerange, model.jnt_actfrcrange)
        )
        every = np.ones(model.njnt, dtype=bool)
        first = 0
        for what, names, count, ranges, limited in (
            ('position', joints, model.nq, model.jnt_range, model.jnt_limited),
            ('velocity', joints, model.nv, speeds[:, None] * [-1, 1], every),
            ('torque', actuators, model.nu, forces, model.actuator_forcelimited),
            ('torque', joints, model.njnt, torques, model.jnt_actfrclimited),
            ('command', actuators, 0, model.actuator_ctrlrange, model.actuator_ctrllimited),
        ):
            limits += [
                (what, names[row], first + row, *ranges[row].tolist())
                for row in np.flatnonzero(limited).tolist()
            ]
            first += count
        self._named = [(what, name, low, high) for what, name, _, low, high in limits]
        # Columns among all that a simulation is asked for, as `parts` takes it.
        self._columns = np.array([column for _, _, column, _, _ in limits], dtype=np.int64)
        low, high = np.array([(low, high) for *_, low, high in limits]).reshape(-1, 2).T
        self._middle, self._half = (low + high) / 2, (high - low) / 2
        resting = self.parts(
            home_position(model)[None],
            np.zeros((1, model.nv)),
            np.zeros((1, model.nu)),
            np.zeros((1, model.njnt)),
            np.array([[drive.home for drive in drives(model)]]),
        )
        # At rest, forces and torques are not what they are in a simulation.
        known = np.isin([what for what, *_ in limits], ('position', 'command'))
        self.allowed = np.where(known, np.maximum(margin, resting + _SLACK), margin)

    def parts(
        self,
        qpos: NDArray[np.float64],
        qvel: NDArray[np.float64],
        forces: NDArray[np.float64],
        torques: NDArray[np.float64],
        commands: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the (k,) parts of all limits that a simulation uses; 1 is all.

        Forces are the (n, nu) of the actuators, torques the (n, njnt) of all actuators at a joint.
        """
        signals = (qpos, qvel, forces, torques, commands)
        least = np.concatenate([np.min(signal, axis=0) for signal in signals])[self._columns]
        most = np.concatenate([np.max(signal, axis=0) for signal in signals])[self._columns]
        farthest = np.maximum(most - self._middle, self._middle - least)
        found: NDArray[np.float64] = farthest / self._half
        return found

    def usage(self, parts: NDArray[np.float64]) -> tuple[Usage, ...]:
        """Describe (k,) parts of limits as `parts` returns them."""
        return tuple(
            Usage(*named, float(part), float(allowed))
            for named, part, allowed in zip(self._named, parts, self.allowed, strict=True)
        )


class Collisions:
    """How near to each other bodies come that may collide.

    MuJoCo's own filters hold: geoms collide only where contype and conaffinity say so, and bodies
    that are joined do not. What touches in the home pose, as a base on the floor, does not count,
    nor what touches where a motion begins. ``possible`` is whether any two geoms can collide.
    """

    def __init__(
        self, model: mujoco.MjModel, clearance: float, start: NDArray[np.float64] | None = None
    ) -> None:
        """Prepare a copy of the model that reports contacts nearer than a clearance, m.

        ``start`` is the (nq,) pose in which a motion begins, the home pose unless given.
        """
        self._model = model.__copy__()
        self._clearance = clearance
        self._model.geom_margin[:] = 2.0 * clearance
        self._model.opt.disableflags &= ~int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
        self._data = mujoco.MjData(self._model)
        moving = model.body_weldid[model.geom_bodyid] > 0
        alive = (model.geom_contype | model.geom_conaffinity) > 0
        self.possible = bool(np.any(moving & alive)) or bool(model.npair)
        self._known: frozenset[tuple[int, int]] = frozenset()
        if self.possible:
            home = home_position(model)
            self._known = frozenset(
                {**self._near(home), **self._near(home if start is None else start)}
            )

    def distance(self, qpos: NDArray[np.float64]) -> float:
        """Return the least distance on (n, nq) configurations, m; infinite where none is near."""
        if not self.possible:
            return float('inf')
        least = float('inf')
        for row in qpos:
            near = self._near(row)
            least = min([least, *(d for pair, d in near.items() if pair not in self._known)])
        return least

    def _near(self, qpos: NDArray[np.float64]) -> dict[tuple[int, int], float]:
        self._data.qpos[:] = qpos
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_comPos(self._model, self._data)
        mujoco.mj_collision(self._model, self._data)
        found: dict[tuple[int, int], float] = {}
        contact = self._data.contact
        # One by one, contacts take longer than their search.
        for pair, distance in zip(map(tuple, contact.geom.tolist()), contact.dist, strict=True):
            found[pair] = min(found.get(pair, np.inf), float(distance))
        return found


class Breach(NamedTuple):
    """Which limit is broken, by how much, and whether commands have to go to where the robot is."""

    reason: str
    gives_way: bool = False


class Guard:
    """Compares joint states with the limits of a model and with the commands."""

    def __init__(
        self,
        model: mujoco.MjModel,
        *,
        position_tolerance: float,
        max_velocity: float,
        max_error: float,
    ) -> None:
        """Collect the limits; 0 means any.

        A joint may be ``position_tolerance`` beyond its range, as fast as ``max_velocity`` and
        ``max_error`` from its command, in rad, m and s.
        """
        self._tolerance = position_tolerance
        self._velocity = max_velocity
        self._error = max_error
        self._drives = drives(model)
        self._ranges: dict[str, tuple[float, ...]] = {}
        self._efforts: dict[str, float] = {}
        for name, row in scalar_joints(model).items():
            if model.jnt_limited[row]:
                self._ranges[name] = tuple(model.jnt_range[row].tolist())
            if (effort := _largest_effort(model, row)) < np.inf:
                self._efforts[name] = effort * (1 + LITTLE)

    def check(
        self,
        positions: Mapping[str, float],
        velocities: Mapping[str, float],
        efforts: Mapping[str, float],
        command: NDArray[np.float64],
    ) -> Breach | None:
        """Return the first limit that joint states break; None while all is well.

        States are by joint, in SI units, and empty where they are not measured; ``command`` are the
        present (nu,) commands. Joints that the model does not have are ignored.
        """
        for name, (low, high) in self._ranges.items():
            value = positions.get(name, low)
            if not low - self._tolerance <= value <= high + self._tolerance:
                return Breach(f'{name!r} is at {value:.3g}, outside its range {low:g} to {high:g}')
        for name, value in velocities.items():
            if self._velocity and abs(value) > self._velocity:
                return Breach(f'{name!r} moves at {value:.3g}, faster than {self._velocity:g}')
        for name, limit in self._efforts.items():
            value = efforts.get(name, 0.0)
            if abs(value) > limit:
                reason = f'the effort of {name!r} is {value:.3g}, above its limit by over 5 %'
                return Breach(reason, gives_way=True)
        for drive, goal in zip(self._drives, command, strict=True):
            if not (self._error and drive.takes_positions and drive.joint in positions):
                continue
            error = positions[drive.joint] - drive.position(float(goal))
            if abs(error) > self._error:
                reason = f'{drive.joint!r} is {error:.3g} from its command, over {self._error:g}'
                return Breach(reason, gives_way=True)
        return None

    def nearer(
        self, command: NDArray[np.float64], positions: Mapping[str, float], part: float
    ) -> NDArray[np.float64]:
        """Return (nu,) commands that are nearer to where the joints are by a part of the way."""
        found: NDArray[np.float64] = command.copy()
        for row, drive in enumerate(self._drives):
            if drive.takes_positions and drive.joint in positions:
                here = min(max(drive.command(positions[drive.joint]), drive.lower), drive.upper)
                found[row] += part * (here - command[row])
        return found


def _largest_effort(model: mujoco.MjModel, joint: int) -> float:
    """Return the largest effort that the model allows the actuators of a joint, N·m or N."""
    limit = np.inf
    if model.jnt_actfrclimited[joint]:
        limit = float(np.abs(model.jnt_actfrcrange[joint]).max())
    own = [row for row in range(model.nu) if driven_joint(model, row) == joint]
    if own and all(model.actuator_forcelimited[row] for row in own):
        most = np.abs(model.actuator_forcerange[own]).max(axis=1)
        limit = min(limit, float(np.sum(most * np.abs(model.actuator_gear[own, 0]))))
    return limit
