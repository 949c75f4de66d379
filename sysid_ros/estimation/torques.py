# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A recording as a prescribed motion and the forces that were measured along it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from sysid_ros.estimation.start.motion import (
    CONTACTS,
    FEWEST_SAMPLES,
    LIMITS,
    JointSamples,
    dry_joints,
    in_gap,
    low_pass,
    measured_joints,
    resampled,
)
from sysid_ros.rollout.inverse import torque_columns
from sysid_ros.rollout.measurement import SENSORS
from sysid_ros.rollout.runs import prepare
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.signals.trajectory import PrescribedMotion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sysid_ros.estimation.start.motion import JointMeasurements
    from sysid_ros.model.unknown import Unknown
    from sysid_ros.rollout.runs import Run
    from sysid_ros.signals.trajectory import Trajectory

#: Order of the low-passes; run forwards and backwards they have no phase.
_ORDER = 4
#: Noise may be this part of the power of the accelerations: so much smaller the inertias become.
_NOISE_PART = 1e-3
#: A frequency carries motion where a channel's power is so many times that of its noise.
_SIGNAL_TO_NOISE = 10.0
#: Range of the cut-off: from so many periods in a recording to this share of its sample rate.
_FEWEST_PERIODS = 10.0
_HIGHEST_CUTOFF = 0.2
#: The derivatives have passed a low-pass whose cut-off is so many times that of the comparison,
#: which then changes forces that were measured and predicted alike.
_WIDER = 2.0
#: Compared samples for each period of the cut-off: more are not independent.
_SAMPLES_PER_PERIOD = 3
#: Rows from one compared sample to the next, at most: between rows, a delay is interpolated.
_ROWS_PER_SAMPLE = 4
#: The noise floor is the median power above this share of the highest frequency.
_FLOOR_FROM = 0.75
#: Samples of a spectrum: a quarter of the recording, so that it averages several, between these.
_SHORTEST_SPECTRUM, _LONGEST_SPECTRUM = 16, 2048
#: So many periods of the cut-off beside an end or a gap the low-pass shows what was not there.
_MARGIN = 1.0
#: A joint is slow below this part of its usual speed.
_SLOW = 0.02
#: Gauss-Newton steps to the lag of a measured velocity behind the position's derivative.
_LAG_STEPS = 5
#: Contacts in a larger part of a recording are none of the robot's.
_USUAL = 0.5
#: Stamps are on the grid within this part of its interval.
_ON_GRID = 1e-6
#: Highest cut-off that a filter can have, as a share of the sample rate.
_WIDEST = 0.45
_SCALAR = (mujoco.mjtJoint.mjJNT_HINGE.value, mujoco.mjtJoint.mjJNT_SLIDE.value)
#: Range of a channel that is numerically at rest, in SI units.
_AT_REST = 1e-9


def not_prescribable(model: mujoco.MjModel, sequences: Sequence[Trajectory]) -> str | None:
    """Return why forces along the measured motion do not tell the parameters, in a clause."""
    bound = model.eq_type[np.flatnonzero(model.eq_active0)]
    if np.any(bound != mujoco.mjtEq.mjEQ_JOINT.value):
        return 'the model has equality constraints, whose forces no motion shows'
    if not np.isin(model.jnt_type, _SCALAR).all() or not model.njnt:
        return 'the model has joints that move about more than one axis, or none'
    measured = [measured_joints(model, prepare(model, sequence)) for sequence in sequences]
    if not any(joints.torque for joints in measured):
        return 'no force or torque of a joint is measured'
    for joints in measured:
        for dof in joints.torque:
            channel = joints.position.get(dof)
            if channel is None or len(channel.times) < FEWEST_SAMPLES:
                name = model.joint(int(model.dof_jntid[dof])).name
                return f'the position of joint {name!r} is not measured, although its force is'
    return None


def standing(model: mujoco.MjModel, sequences: Sequence[Trajectory]) -> list[str]:
    """Return the joints whose position some sequence does not measure: they are held."""
    measured = [measured_joints(model, prepare(model, sequence)).position for sequence in sequences]
    return [
        model.joint(joint).name
        for joint in range(model.njnt)
        if any(int(model.jnt_dofadr[joint]) not in positions for positions in measured)
    ]


def as_torques(
    model: mujoco.MjModel, sequence: Trajectory, unknowns: Sequence[Unknown]
) -> Trajectory | None:
    """Return the measured forces of a sequence along its measured motion.

    Positions pass a low-pass that leaves out what is noise in the accelerations; the forces that
    the model needs along this motion, and those that were measured, then pass a narrower one, so
    that the equations of motion hold among them as they did before (Gautier, "Dynamic
    identification of robots with power model", ICRA 1997). Samples at which something is touched,
    or a joint with dry friction hardly moves, are left out.

    Args:
        model: The compiled nominal model.
        sequence: Positions of all joints, and forces of some, are measured in it.
        unknowns: Which joints may have dry friction.

    Returns:
        The sequence, or None where it is too short.
    """
    run = prepare(model, sequence)
    measured = measured_joints(model, run)
    motion = _motion(model, measured, np.asarray(sequence.initial_qpos))
    if motion is None:
        return None
    count, interval = len(motion.qpos), motion.interval
    times: NDArray[np.float64] = interval * (motion.first + np.arange(count, dtype=np.float64))
    reach = int(np.ceil(_MARGIN / (motion.cutoff * interval)))
    unsound = _near(_touching(model, motion), reach)
    unsound[: 2 * reach] = unsound[count - 2 * reach :] = True
    for channel in (*measured.position.values(), *measured.torque.values()):
        unsound |= in_gap(channel, times, _MARGIN / motion.cutoff)
    dry = dry_joints(model, unknowns)
    rows = max(int(1.0 / (_SAMPLES_PER_PERIOD * motion.cutoff * interval * motion.stride)), 1)
    chosen = slice(-motion.first % motion.stride, count, motion.stride * rows)
    columns: list[NDArray[np.float64]] = []
    mapping = {}
    for dof, (name, channel) in _torques(model, run).items():
        lost = unsound | (times < channel.times[0]) | (times > channel.times[-1])
        if dry[dof]:
            lost |= _near(np.abs(motion.qvel[:, dof]) < motion.slow[dof], reach)
        values = low_pass(motion.low_pass, resampled(channel, times))
        mapping[name] = (SignalType.MjSensor, np.array([len(columns)]))
        columns.append(np.where(lost, np.nan, values)[chosen])
    if not columns or not np.isfinite(columns).any():
        return None
    series = TimeSeries(times[chosen], np.stack(columns, axis=1), mapping)
    return dataclasses.replace(
        sequence,
        commands=(),
        measurements=(series,),
        motion=motion,
        interpolated=frozenset(),
        replaced=np.zeros((0, 2)),
    )


def _motion(
    model: mujoco.MjModel, measured: JointMeasurements, start: NDArray[np.float64]
) -> PrescribedMotion | None:
    """Return the smoothed motion; joints that are not measured stay at the (nq,) start.

    None where it is too short.
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
    widest = min(_WIDER * cutoff, _WIDEST / interval)
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
    stride = max(int(1.0 / (_SAMPLES_PER_PERIOD * _ROWS_PER_SAMPLE * cutoff * interval)), 1)
    return PrescribedMotion(interval, first, qpos, qvel, qacc, slow, kernel, cutoff, stride)


def _near(where: NDArray[np.bool_], reach: int) -> NDArray[np.bool_]:
    """Return (n,) whether an instant is within so many of one of some."""
    from scipy.ndimage import binary_dilation  # noqa: PLC0415 (slow to import)

    found: NDArray[np.bool_] = binary_dilation(where, np.ones(2 * reach + 1, dtype=bool))
    return found


def _torques(model: mujoco.MjModel, run: Run) -> dict[int, tuple[str, JointSamples]]:
    """Return degree of freedom to the sensor that reads its force most often, and its samples."""
    columns = torque_columns(model)
    found: dict[int, tuple[str, JointSamples]] = {}
    for readings in run.readings:
        for sensor, column, values in zip(
            readings.sensors, readings.columns.tolist(), readings.measured.T, strict=True
        ):
            if readings.source != SENSORS or column not in columns:
                continue
            known = np.isfinite(values)
            samples = JointSamples(readings.times[known], values[known])
            dof = columns[column][0]
            if len(samples.times) >= FEWEST_SAMPLES and (
                dof not in found or len(samples.times) > len(found[dof][1].times)
            ):
                found[dof] = sensor, samples
    return found


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


def _touching(model: mujoco.MjModel, motion: PrescribedMotion) -> NDArray[np.bool_]:
    """Return (n,) whether something touches a limit or another body.

    Shapes that touch in most of a recording do so in the model alone, as those of neighbours.
    """
    data, place = mujoco.MjData(model), model.jnt_qposadr[model.dof_jntid]
    limited, touched = np.zeros((2, len(motion.qpos)), dtype=bool)
    for row in range(0, len(limited), motion.stride):
        data.qpos[place], data.qvel[:] = motion.qpos[row], motion.qvel[row]
        mujoco.mj_fwdPosition(model, data)
        kinds, rows = data.efc_type[: data.nefc], slice(row, row + motion.stride)
        limited[rows] = np.isin(kinds, LIMITS).any()
        touched[rows] = np.isin(kinds, CONTACTS).any()
    usual = bool(np.mean(touched) > _USUAL)
    return limited if usual else limited | touched


#: What is known of links before, as standard deviations of the log-Cholesky numbers: the mass
#: within a factor of 1.8, each size within 1.35, the centre of mass within 5 cm.
_INERTIAL_DEVIATIONS = (0.3, 0.3, 0.3, 0.3, 0.03, 0.03, 0.03, 0.05, 0.05, 0.05)


def with_inertial_priors(unknowns: Sequence[Unknown]) -> tuple[Unknown, ...]:
    """Give log-Cholesky inertias that have no prior a wide one around the model.

    No motion of a chain tells all ten numbers of each link apart; what it does not tell stays
    where the model has it, and is said to rest on the prior.
    """
    found = []
    for unknown in unknowns:
        target = unknown.targets[0]
        if unknown.prior is None and target.element_and_attribute == ('body', 'inertia'):
            deviation = _INERTIAL_DEVIATIONS[target.index or 0]
            found.append(dataclasses.replace(unknown, prior=(unknown.nominal, deviation)))
        else:
            found.append(unknown)
    return tuple(found)
