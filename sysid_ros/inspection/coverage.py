# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which physics a motion shows at each joint: gravity, inertia, friction. A quick look, no fit.

The rule, per joint, from positions, velocities (measured, else the slope of the positions) and
accelerations (the slope of the velocities) on one grid, and from the nominal model:

- **gravity**: over the recorded poses the joint's gravity torque varies by at least a fifth of how
  much it varies when the joint alone turns through its range.
- **inertia**: the acceleration is at least three times its noise, and the torque that it takes is
  at least a tenth of how much the gravity torque varies, root mean square both.
- **friction**: the joint moves both ways, each for at least a tenth of the time that it moves, and
  turns around at least four times.

It says what a motion cannot show, not that a fit will succeed: parameters that all show may still
be confounded with each other.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import mujoco
import numpy as np
import scipy  # its parts are loaded when they are used: half of a node's start otherwise

from sysid_ros.alignment.health import away_from_gaps
from sysid_ros.alignment.pairs import Quantity, scalar_joints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sysid_ros.inspection.joints import Joint

#: Gravity: part of the variation over the joint's range that the recorded poses must reach.
GRAVITY_PART = 0.2
#: Inertia: acceleration over its noise, and torque over the gravity torque's standard deviation.
NOISE_FACTOR = 3.0
INERTIA_PART = 0.1
#: Friction: part of the moving time in each direction, and reversals.
DIRECTION_PART = 0.1
REVERSALS = 4
#: Dry and viscous friction are told apart when the speeds of the middle 80 % span this factor.
SPEED_FACTOR = 3.0

#: The grid is no finer than this, s, nor longer than so many instants.
_STEP_S = 0.01
_LONGEST = 200_000
#: Slopes are taken of a parabola through so many instants (Savitzky and Golay 1964).
_WINDOW = 7
_DEGREE = 2
#: A joint moves when it is faster than this part of its 95 % speed.
_MOVING_PART = 0.05
#: Poses at which the model is evaluated, over the recording and over each joint's range.
_POSES = 200
_SWEEP = 33
#: Less acceleration than this is rounding, rad/s² or m/s².
_REST = 1e-9
#: Less gravity torque than this is none, N·m or N.
_NO_TORQUE = 1e-6


#: Where a velocity comes from.
VelocitySource = Literal['measured', 'slope of position']


class Judgement(NamedTuple):
    """Whether a motion shows something, and by which numbers."""

    shown: bool
    reason: str


@dataclass(frozen=True)
class Excitation:
    """What a motion shows of one joint.

    Attributes:
        joint: Name of the joint.
        of_range: Part of the joint's range that its positions cover; NaN where it has no limits.
        speed: Largest speed, rad/s or m/s.
        acceleration: Root mean square of the acceleration, rad/s² or m/s².
        velocity_source: Where velocities come from: ``measured`` or ``slope of position``.
        gravity: Whether gravity's torque varies.
        inertia: Whether acceleration takes torque.
        friction: Whether friction changes its direction.
    """

    joint: str
    of_range: float
    speed: float
    acceleration: float
    velocity_source: VelocitySource
    gravity: Judgement
    inertia: Judgement
    friction: Judgement


class _Motion(NamedTuple):
    """A joint on the common grid: (n,) position, velocity, acceleration, and where it is known."""

    position: NDArray[np.float64]
    velocity: NDArray[np.float64]
    acceleration: NDArray[np.float64]
    known: NDArray[np.bool_]
    velocity_noise: float
    acceleration_noise: float
    source: VelocitySource


class _Torques(NamedTuple):
    """Gravity torque of one joint: how much it varies recorded, and can; its size; inertia."""

    recorded: float
    deviation: float
    possible: float
    greatest: float
    inertia: float


def excitation(model: mujoco.MjModel, joints: Sequence[Joint]) -> tuple[Excitation, ...]:
    """Judge the motion of every hinge and slide joint whose position was measured.

    Args:
        model: The compiled nominal model.
        joints: What was measured, in units of the model; joints that it does not have are ignored.
    """
    known = scalar_joints(model)
    measured = {
        joint.name: joint
        for joint in joints
        if joint.name in known
        and (trace := joint.find(Quantity.POSITION)) is not None
        and len(trace.times) > _WINDOW
    }
    if not measured:
        return ()
    grid = _grid(list(measured.values()))
    if len(grid) <= _WINDOW:
        return ()
    # Damaged values may be as large as numbers get; what comes of them is no reason for warnings.
    with np.errstate(over='ignore', invalid='ignore'):
        motions = {name: _motion(joint, grid) for name, joint in measured.items()}
        torques = _torques(model, {known[name]: motion for name, motion in motions.items()})
        return tuple(
            _judged(model, name, known[name], motion, torques[known[name]])
            for name, motion in motions.items()
        )


def _grid(joints: list[Joint]) -> NDArray[np.float64]:
    """Return instants at which all positions are known, evenly spaced, s."""
    traces = [trace for joint in joints if (trace := joint.find(Quantity.POSITION)) is not None]
    first = max(float(trace.times[0]) for trace in traces)
    last = min(float(trace.times[-1]) for trace in traces)
    step = max(*(float(np.median(np.diff(trace.times))) for trace in traces), _STEP_S)
    step = max(step, (last - first) / _LONGEST)
    return np.arange(first, last + step / 2, step) if last > first else np.empty(0)


def _motion(joint: Joint, grid: NDArray[np.float64]) -> _Motion:
    trace = joint.find(Quantity.POSITION)
    if trace is None:
        raise KeyError(joint.name)
    step = float(grid[1] - grid[0])
    # Slopes reach half a window over a gap's ends.
    known = away_from_gaps(grid, trace.times, _WINDOW // 2 * step)
    position = np.interp(grid, trace.times, trace.values)
    speed = joint.find(Quantity.VELOCITY)
    source: VelocitySource
    if speed is not None and len(speed.times) > _WINDOW and np.ptp(speed.values) > 0:
        velocity = np.interp(grid, speed.times, speed.values)
        velocity_noise = _noise(velocity[known])
        acceleration = _slope(velocity, step, 1)
        acceleration_noise = velocity_noise * _gain(step, 1)
        source = 'measured'
    else:
        noise = _noise(position[known])
        velocity, acceleration = _slope(position, step, 1), _slope(position, step, 2)
        velocity_noise, acceleration_noise = (noise * _gain(step, order) for order in (1, 2))
        source = 'slope of position'
    return _Motion(
        position, velocity, acceleration, known, velocity_noise, acceleration_noise, source
    )


def _slope(values: NDArray[np.float64], step: float, order: int) -> NDArray[np.float64]:
    slopes: NDArray[np.float64] = scipy.signal.savgol_filter(
        values, _WINDOW, _DEGREE, deriv=order, delta=step
    )
    return slopes


def _gain(step: float, order: int) -> float:
    """Return the standard deviation of a slope whose values have standard deviation one."""
    return float(
        np.linalg.norm(scipy.signal.savgol_coeffs(_WINDOW, _DEGREE, deriv=order, delta=step))
    )


def _noise(values: NDArray[np.float64]) -> float:
    """Estimate the noise of a signal by its distance from smooth, on the safe side."""
    if len(values) <= _WINDOW:
        return math.inf
    rest = values - scipy.signal.savgol_filter(values, _WINDOW, _DEGREE)
    leverage = scipy.signal.savgol_coeffs(_WINDOW, _DEGREE)[_WINDOW // 2]
    return float(np.std(rest) / math.sqrt(1 - leverage))


def _torques(model: mujoco.MjModel, motions: dict[int, _Motion]) -> dict[int, _Torques]:
    """Evaluate the nominal model at rest in the recorded poses and over each joint's range."""
    free = copy.copy(model)
    free.opt.disableflags |= int(
        mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    )
    data = mujoco.MjData(free)
    length = len(next(iter(motions.values())).position)
    rows = np.unique(np.linspace(0, length - 1, min(length, _POSES)).astype(int))
    poses = np.tile(np.asarray(model.qpos0, dtype=np.float64), (len(rows), 1))
    for joint, motion in motions.items():
        poses[:, model.jnt_qposadr[joint]] = motion.position[rows]
    recorded = np.empty((len(rows), model.nv))
    inertia = np.empty((len(rows), model.nv))
    for row, pose in enumerate(poses):
        recorded[row], inertia[row] = _at_rest(free, data, pose)
    found = {}
    for joint in motions:
        dof, address = model.jnt_dofadr[joint], model.jnt_qposadr[joint]
        swept = []
        limits = model.jnt_range[joint] if model.jnt_limited[joint] else (-math.pi, math.pi)
        for value in np.linspace(float(limits[0]), float(limits[1]), _SWEEP):
            pose = np.median(poses, axis=0)
            pose[address] = value
            swept.append(_at_rest(free, data, pose)[0][dof])
        found[joint] = _Torques(
            float(np.ptp(recorded[:, dof])),
            float(np.std(recorded[:, dof])),
            float(np.ptp(swept)),
            float(np.abs([*swept, *recorded[:, dof]]).max()),
            float(inertia[:, dof].mean()),
        )
    return found


def _at_rest(
    model: mujoco.MjModel, data: mujoco.MjData, pose: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (nv,) torques that hold the model in a pose, and the diagonal of its inertia."""
    data.qpos[:] = pose
    data.qvel[:] = 0
    mujoco.mj_forward(model, data)
    full = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, full)
    return np.array(data.qfrc_bias - data.qfrc_gravcomp), np.array(full.diagonal())


def _judged(
    model: mujoco.MjModel, name: str, joint: int, motion: _Motion, torques: _Torques
) -> Excitation:
    slide = bool(model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE)
    length, force = ('m', 'N') if slide else ('rad', 'N·m')
    positions = motion.position[motion.known]
    limited = bool(model.jnt_limited[joint])
    reach = float(np.ptp(model.jnt_range[joint])) if limited else math.nan
    acceleration = motion.acceleration[motion.known]
    rms = float(np.sqrt(np.mean(acceleration**2))) if len(acceleration) else 0.0
    velocities = motion.velocity[motion.known]
    return Excitation(
        joint=name,
        of_range=float(np.ptp(positions)) / reach if len(positions) else math.nan,
        speed=float(np.abs(velocities).max(initial=0.0)),
        acceleration=rms,
        velocity_source=motion.source,
        gravity=_gravity(torques, force),
        inertia=_inertia(torques, rms, motion.acceleration_noise, f'{length}/s²', force),
        friction=_friction(velocities, motion.velocity_noise, f'{length}/s'),
    )


def _gravity(torques: _Torques, unit: str) -> Judgement:
    if torques.greatest < _NO_TORQUE:
        return Judgement(shown=False, reason='gravity does not load it')
    if torques.possible < GRAVITY_PART * torques.greatest and torques.recorded < _NO_TORQUE:
        reason = f'its load is constant, {torques.greatest:.3g} {unit}'
        return Judgement(shown=False, reason=reason)
    reason = f'its load varies by {torques.recorded:.3g} of {torques.possible:.3g} {unit}'
    enough = torques.recorded >= max(GRAVITY_PART * torques.possible, _NO_TORQUE)
    return Judgement(enough, reason)


def _inertia(torques: _Torques, rms: float, noise: float, unit: str, force: str) -> Judgement:
    if rms < _REST:
        return Judgement(shown=False, reason='it does not move')
    if rms < NOISE_FACTOR * noise:
        reason = f'acceleration {rms:.3g} {unit} is below {NOISE_FACTOR:g} times its noise'
        return Judgement(shown=False, reason=f'{reason}, {noise:.2g}')
    torque = torques.inertia * rms
    reason = f'acceleration {rms:.3g} {unit} takes {torque:.3g} {force}'
    if torque < INERTIA_PART * torques.deviation:
        reason = f"{reason}, gravity's deviates by {torques.deviation:.3g} {force}"
        return Judgement(shown=False, reason=reason)
    return Judgement(shown=True, reason=reason)


def _friction(velocities: NDArray[np.float64], noise: float, unit: str) -> Judgement:
    speeds = np.abs(velocities)
    fastest = float(np.percentile(speeds, 95)) if len(speeds) else 0.0
    least = max(_MOVING_PART * fastest, NOISE_FACTOR * noise)
    moving = velocities[speeds > least]
    if len(moving) < REVERSALS:
        return Judgement(shown=False, reason='it does not move')
    forward = float(np.mean(moving > 0))
    reversals = int(np.count_nonzero(np.diff(np.sign(moving))))
    slow, fast = np.percentile(np.abs(moving), [10, 90])
    reason = f'{reversals} reversals, speeds {slow:.2g} to {fast:.2g} {unit}'
    if fast < SPEED_FACTOR * slow:
        reason += ', too alike to tell dry from viscous friction'
    both = DIRECTION_PART <= forward <= 1 - DIRECTION_PART
    if not both:
        reason += f', {max(forward, 1 - forward):.0%} of the time in one direction'
    return Judgement(shown=both and reversals >= REVERSALS, reason=reason)
