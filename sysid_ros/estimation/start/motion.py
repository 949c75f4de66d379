# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Position, velocity, acceleration and torque of all joints, as they were measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.model.joints import SCALAR_JOINTS
from sysid_ros.model.unknown import Unknown
from sysid_ros.rollout.inverse import force_weights, meaning, reads_force_of_one
from sysid_ros.rollout.measurement import SENSORS
from sysid_ros.rollout.runs import Run
from sysid_ros.signals.trajectory import PrescribedMotion

#: Order of the low-passes; run forwards and backwards they have no phase.
_ORDER = 4
#: Noise may be this part of the power of the accelerations: so much smaller the inertias become.
_NOISE_PART = 1e-3
#: A frequency carries motion where a channel's power is so many times that of its noise.
_SIGNAL_TO_NOISE = 10.0
#: The noise floor is the median power above this share of the highest frequency.
_FLOOR_FROM = 0.75
#: Samples of a spectrum: a quarter of the recording, so that it averages several, between these.
_SHORTEST_SPECTRUM, _LONGEST_SPECTRUM = 16, 2048
#: Range of the cut-off: from so many periods in a recording to this share of its sample rate.
_FEWEST_PERIODS = 10.0
_HIGHEST_CUTOFF = 0.2
#: Highest cut-off that a filter can have, as a share of the sample rate.
_WIDEST = 0.45
#: Rows of a motion from one kept row to the next leave at least so many in a period of the cut-off.
_ROWS_PER_PERIOD = 12
#: Fewer samples of a channel say nothing about accelerations.
FEWEST_SAMPLES = 30
#: So many periods of the cut-off beside an end or a gap the low-pass shows what was not there.
_MARGIN = 1.0
#: A pause of a channel is a gap from so many of its usual intervals on.
_GAP = 5.0
#: A joint is slow below this part of its usual speed.
_SLOW = 0.02
#: Gauss-Newton steps to the lag of a measured velocity behind the position's derivative.
_LAG_STEPS = 5
#: Stamps are on the grid within this part of its interval.
_ON_GRID = 1e-6
#: Range of a channel that is numerically at rest, in SI units.
_AT_REST = 1e-9

#: Constraints that motion alone does not determine: limits, and contacts.
_JOINT_LIMIT = mujoco.mjtConstraint.mjCNSTR_LIMIT_JOINT.value
_TENDON_LIMIT = mujoco.mjtConstraint.mjCNSTR_LIMIT_TENDON.value
_CONTACTS = (
    mujoco.mjtConstraint.mjCNSTR_CONTACT_FRICTIONLESS.value,
    mujoco.mjtConstraint.mjCNSTR_CONTACT_PYRAMIDAL.value,
    mujoco.mjtConstraint.mjCNSTR_CONTACT_ELLIPTIC.value,
)
#: Contacts in a larger part of a recording are none of the robot's.
_USUAL = 0.5


class JointSamples(NamedTuple):
    """What was measured of one degree of freedom: (n,) seconds and (n,) finite values."""

    times: NDArray[np.float64]
    values: NDArray[np.float64]


class JointMeasurements(NamedTuple):
    """The channels of one sequence that say how its joints move.

    Attributes:
        position: Degree of freedom to its measured position.
        velocity: The same for velocities, …
        torque: … and for the force that all actuators together exert on it.
    """

    position: dict[int, JointSamples]
    velocity: dict[int, JointSamples]
    torque: dict[int, JointSamples]


def unmeasured(model: mujoco.MjModel, runs: Iterable[Run]) -> str | None:
    """Return why the motion of all joints is not known from the measurements, or None."""
    if not model.njnt:
        return 'the model has no joints'
    for joint in range(model.njnt):
        if model.jnt_type[joint] not in SCALAR_JOINTS:
            return f'joint {model.joint(joint).name!r} turns or moves about more than one axis'
    for run in runs:
        known = measured_joints(model, run).position
        for joint in range(model.njnt):
            channel = known.get(int(model.jnt_dofadr[joint]))
            if channel is None or len(channel.times) < FEWEST_SAMPLES:
                name = model.joint(joint).name
                return f'the position of joint {name!r} is not measured in {run.sequence.name!r}'
    return None


def measured_joints(model: mujoco.MjModel, run: Run) -> JointMeasurements:
    """Return what a sequence measures of the joints of a model; of two channels, the denser."""
    found = JointMeasurements({}, {}, {})
    forces = force_weights(model)
    for readings in run.readings:
        for column, measured in zip(readings.columns.tolist(), readings.measured.T, strict=True):
            finite = np.isfinite(measured)
            channels = [(*one, 1.0) for one in meaning(model, readings.source, column)]
            if readings.source == SENSORS and column in forces:
                dof = reads_force_of_one(forces[column])
                if dof is not None:
                    channels.append(('torque', dof, 1.0 / forces[column][dof]))
            for kind, dof, factor in channels:
                channel = JointSamples(readings.times[finite], measured[finite] * factor)
                place: dict[int, JointSamples] = getattr(found, kind)
                if dof not in place or len(channel.times) > len(place[dof].times):
                    place[dof] = channel
    return found


def smoothed(
    model: mujoco.MjModel,
    measured: JointMeasurements,
    start: NDArray[np.float64],
    wider: float = 1.0,
) -> PrescribedMotion | None:
    """Return the measured motion after a zero-phase low-pass, or None where it is too short.

    The cut-off, one for all, is the median of the frequencies up to which the accelerations of
    the moving joints hold little noise. What was measured along the motion passes the same
    low-pass, so that the equations of motion hold among them as they did before (Gautier, "Dynamic
    identification of robots with power model", ICRA 1997).

    Args:
        model: The compiled model; its joints have one axis.
        measured: What was measured of them.
        start: (nq,) where joints stay that are not measured.
        wider: By how much the cut-off of the motion itself is above that of what is compared along
            it, which is then to pass the low-pass once it has been computed.
    """
    from scipy.interpolate import CubicSpline  # noqa: PLC0415 (slow to import)
    from scipy.signal import butter  # noqa: PLC0415 (as above)

    positions = measured.position
    interval = min(float(np.median(np.diff(channel.times))) for channel in positions.values())
    begin = max(channel.times[0] for channel in positions.values()) / interval
    end = min(channel.times[-1] for channel in positions.values()) / interval
    first, last = int(np.ceil(begin - _ON_GRID)), int(np.floor(end + _ON_GRID))
    if last - first < FEWEST_SAMPLES:
        return None
    times: NDArray[np.float64] = interval * np.arange(first, last + 1, dtype=np.float64)
    even = {dof: resampled(channel, times) for dof, channel in positions.items()}
    speeds = {
        dof: resampled(channel, times)
        for dof, channel in measured.velocity.items()
        if len(channel.times) >= FEWEST_SAMPLES
    }
    slowest = _FEWEST_PERIODS / (times[-1] - times[0])
    cutoffs = [_cutoff(values, speeds.get(dof), interval) for dof, values in even.items()]
    moving = [frequency for frequency in cutoffs if np.isfinite(frequency)] or [slowest]
    cutoff = float(np.clip(np.median(moving), slowest, _HIGHEST_CUTOFF / interval))
    widest = min(wider * cutoff, _WIDEST / interval)
    wide = np.asarray(butter(_ORDER, widest, output='sos', fs=1 / interval))
    qpos, qvel, qacc = np.zeros((3, len(times), model.nv))
    qpos[:] = start[model.jnt_qposadr[model.dof_jntid]]
    slow = np.zeros(model.nv)
    for dof, values in even.items():
        qpos[:, dof] = low_pass(wide, values)
        qvel[:, dof] = CubicSpline(times, qpos[:, dof])(times, 1)
        if dof in speeds and _is_finer(speeds[dof], values, cutoff, interval):
            measured_speed = CubicSpline(times, low_pass(wide, speeds[dof]))
            late = _lag(measured_speed(times), qvel[:, dof], interval)
            qvel[:, dof] = measured_speed(np.clip(times + late, times[0], times[-1]))
        qacc[:, dof] = CubicSpline(times, qvel[:, dof])(times, 1)
        slow[dof] = max(_SLOW * float(np.sqrt(np.mean(qvel[:, dof] ** 2))), _AT_REST)
    kernel = np.asarray(butter(_ORDER, cutoff, output='sos', fs=1 / interval))
    stride = max(int(1.0 / (_ROWS_PER_PERIOD * cutoff * interval)), 1)
    return PrescribedMotion(interval, first, qpos, qvel, qacc, slow, kernel, cutoff, stride)


def dry_joints(model: mujoco.MjModel, unknowns: Iterable[Unknown]) -> NDArray[np.bool_]:
    """Return (nv,) whether a joint has dry friction, or may be given it."""
    return _dry(model, unknowns, 'dof_frictionloss')


def dry_tendons(model: mujoco.MjModel, unknowns: Iterable[Unknown]) -> NDArray[np.bool_]:
    """Return (ntendon,) whether a tendon has dry friction, or may be given it."""
    return _dry(model, unknowns, 'tendon_frictionloss')


def _dry(model: mujoco.MjModel, unknowns: Iterable[Unknown], field: str) -> NDArray[np.bool_]:
    dry: NDArray[np.bool_] = np.asarray(getattr(model, field) > 0)
    for unknown in unknowns:
        for target in unknown.targets:
            for slot in target.slots(model) if target.in_model else ():
                if slot.field == field:
                    dry[slot.place] = True
    return dry


def is_discrete(model: mujoco.MjModel) -> bool:
    """Return whether the model's steps differ from continuous time in the first order."""
    return bool(model.opt.integrator != mujoco.mjtIntegrator.mjINT_RK4.value)


def low_pass(kernel: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (n, …) values after the low-pass, forwards and backwards."""
    from scipy.signal import sosfiltfilt  # noqa: PLC0415 (as above)

    passed: NDArray[np.float64] = sosfiltfilt(kernel, values, axis=0)
    return passed


def resampled(channel: JointSamples, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a channel at other times, by a cubic spline through its samples."""
    from scipy.interpolate import CubicSpline  # noqa: PLC0415 (as above)

    inside = np.clip(times, channel.times[0], channel.times[-1])
    values: NDArray[np.float64] = CubicSpline(channel.times, channel.values)(inside)
    return values


def _spectrum(
    values: NDArray[np.float64], interval: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return frequencies, power density at them, and that of the noise."""
    from scipy.signal import welch  # noqa: PLC0415 (slow to import)

    size = int(np.clip(len(values) // 4, _SHORTEST_SPECTRUM, _LONGEST_SPECTRUM))
    frequencies, power = welch(values, 1 / interval, nperseg=size, detrend='linear')
    floor = float(np.median(power[frequencies >= _FLOOR_FROM * frequencies[-1]]))
    return frequencies, power, floor


def _cutoff(
    positions: NDArray[np.float64], speeds: NDArray[np.float64] | None, interval: float
) -> float:
    """Return the highest frequency up to which accelerations hold little noise; NaN at rest, Hz."""
    best = np.nan
    for values, order in ((positions, 2), (speeds, 1)):
        if values is None or np.ptp(values) < _AT_REST:
            continue
        frequencies, power, floor = _spectrum(values, interval)
        weight = (2 * np.pi * frequencies) ** (2 * order)
        noise = np.cumsum(weight * floor)
        signal = np.cumsum(weight * np.maximum(power - floor, 0.0))
        clean = np.flatnonzero(noise <= _NOISE_PART * signal)
        visible = np.flatnonzero(power > _SIGNAL_TO_NOISE * floor)
        if len(clean) and len(visible):
            best = float(np.fmax(best, frequencies[min(clean[-1], visible[-1])]))
    return best


def _is_finer(
    speeds: NDArray[np.float64], positions: NDArray[np.float64], cutoff: float, interval: float
) -> bool:
    """Whether the measured velocity is less noisy than the derivative of the position."""
    noise = _spectrum(positions, interval)[2] * (2 * np.pi * cutoff) ** 2
    return _spectrum(speeds, interval)[2] < noise


def _lag(late: NDArray[np.float64], values: NDArray[np.float64], interval: float) -> float:
    """Return by how many seconds one signal is later than another that is the same."""
    total = 0.0
    times = interval * np.arange(len(values))
    for _ in range(_LAG_STEPS):
        moved = np.interp(times + total, times, late)
        slope = np.gradient(moved, interval)
        power = float(slope @ slope)
        if not power:
            break
        total += float(slope @ (values - moved)) / power
    return total


def unsound(motion: PrescribedMotion, measured: JointMeasurements) -> NDArray[np.bool_]:
    """Return (n,) whether an instant lies beside an end of a motion or a pause of a channel."""
    times, margin = motion.times, _MARGIN / motion.cutoff
    found: NDArray[np.bool_] = (times <= times[0] + margin) | (times >= times[-1] - margin)
    for channel in (*measured.position.values(), *measured.torque.values()):
        intervals = np.diff(channel.times)
        for place in np.flatnonzero(intervals > _GAP * np.median(intervals)):
            begin, end = channel.times[place : place + 2]
            found |= (times > begin - margin) & (times < end + margin)
    return found


def touching(
    model: mujoco.MjModel, motion: PrescribedMotion, rows: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return (n,) whether something touches a limit or another body at some of the instants.

    Shapes that touch in most of a recording do so in the model alone, as those of neighbours, and
    joints that are held may be where their limits do not allow it.
    """
    data, place = mujoco.MjData(model), model.jnt_qposadr[model.dof_jntid]
    moves = np.ptp(motion.qpos, axis=0) > 0
    limited, touched = np.zeros((2, len(rows)), dtype=bool)
    for index, row in enumerate(rows):
        data.qpos[place], data.qvel[:] = motion.qpos[row], motion.qvel[row]
        mujoco.mj_fwdPosition(model, data)
        kinds = data.efc_type[: data.nefc]
        limits = data.efc_id[: data.nefc][kinds == _JOINT_LIMIT]
        limited[index] = moves[model.jnt_dofadr[limits]].any() or bool(
            np.any(kinds == _TENDON_LIMIT)
        )
        touched[index] = np.isin(kinds, _CONTACTS).any()
    usual = bool(np.mean(touched) > _USUAL)
    return limited if usual else limited | touched
