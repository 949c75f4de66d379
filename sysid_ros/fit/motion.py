# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How all joints moved, as it was measured, and the forces that were measured along the motion.

Positions pass a low-pass that leaves out what is noise in the accelerations; the forces that the
model needs along this motion, and those that were measured, then pass a narrower one, so that the
equations of motion hold among them as they did before (Gautier, "Dynamic identification of robots
with power model", ICRA 1997).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import scipy
from numpy.typing import NDArray

from sysid_ros.alignment.lag import only
from sysid_ros.alignment.segments import initial_state
from sysid_ros.errors import FitError
from sysid_ros.fit.differences import CLEARLY
from sysid_ros.fit.noise import FEWEST_SAMPLES, SMALLEST
from sysid_ros.model.elements import SCALAR_JOINTS, is_orientation, posed_joint
from sysid_ros.model.targets import Unknown
from sysid_ros.signals import PrescribedMotion, SignalType, TimeSeries, Trajectory
from sysid_ros.simulation.bases import free_joint
from sysid_ros.simulation.inverse import fixed_tendons, force_weights, meaning, slowest
from sysid_ros.simulation.runs import SENSORS, Run, prepare

Array = NDArray[np.float64]

#: Order of the low-passes; run forwards and backwards they have no phase.
_ORDER = 4
#: Noise may be this part of the power of the accelerations: so much smaller the inertias become.
_NOISE_PART = 1e-3
#: A frequency carries motion where a channel's power is clearly above that of its noise, which is
#: the median power above this share of the highest frequency.
_FLOOR_FROM = 0.75
#: Noise is looked for above the frequency below which this part of the velocities' power is, in
#: octaves around so many centres; it is there if it rises over some of them, and white if it rises
#: with this power of the frequency at least: real encoders' have 3.6 to 4, others 1.2 to 2.9.
_MOST_MOTION, _CENTRES, _FEWEST_RISING, _WHITE = 0.9, 40, 5, 3.2
#: Range of the cut-off: from so many periods in a recording to this share of its sample rate.
_FEWEST_PERIODS, _HIGHEST_CUTOFF = 10.0, 0.2
#: The motion has passed a low-pass whose cut-off is so many times that of the comparison.
_WIDER = 2.0
#: Kept rows of a motion in a period of the cut-off, and compared samples: more of these are not
#: independent.
_ROWS_PER_PERIOD, _SAMPLES_PER_PERIOD = 12, 3
#: A pause of a channel is a gap from so many of its usual intervals on.
_GAP = 5.0
#: Stamps are on the grid within this part of its interval.
_ON_GRID = 1e-6
#: What is known of links before, as standard deviations of the log-Cholesky numbers: the mass
#: within a factor of 1.8, each size within 1.35, the centre of mass within 5 cm.
_INERTIAL_DEVIATIONS = (0.3, 0.3, 0.3, 0.3, 0.03, 0.03, 0.03, 0.05, 0.05, 0.05)

#: Constraints that motion alone does not determine: limits, and contacts.
_JOINT_LIMIT = mujoco.mjtConstraint.mjCNSTR_LIMIT_JOINT.value
_TENDON_LIMIT = mujoco.mjtConstraint.mjCNSTR_LIMIT_TENDON.value
_CONTACTS = (
    mujoco.mjtConstraint.mjCNSTR_CONTACT_FRICTIONLESS.value,
    mujoco.mjtConstraint.mjCNSTR_CONTACT_PYRAMIDAL.value,
    mujoco.mjtConstraint.mjCNSTR_CONTACT_ELLIPTIC.value,
)


class JointSamples(NamedTuple):
    """What was measured of one degree of freedom: (n,) seconds and (n,) finite values."""

    times: Array
    values: Array


class JointMeasurements(NamedTuple):
    """The channels of one sequence that say how its joints move, by degree of freedom.

    ``torque`` is the force that all actuators together exert on a joint.
    """

    position: dict[int, JointSamples]
    velocity: dict[int, JointSamples]
    torque: dict[int, JointSamples]


def measured_joints(model: mujoco.MjModel, run: Run) -> JointMeasurements:
    """Return what a sequence measures of the joints of a model; of two channels, the denser."""
    found = JointMeasurements({}, {}, {})
    forces = force_weights(model)
    for readings in run.readings:
        for column, measured in zip(readings.columns.tolist(), readings.measured.T, strict=True):
            channels = [(*one, 1.0) for one in meaning(model, readings.source, column)]
            if readings.source == SENSORS and column in forces:
                involved = np.flatnonzero(forces[column]).tolist()
                if len(involved) == 1:
                    channels.append(('torque', involved[0], 1.0 / forces[column][involved[0]]))
            finite = np.isfinite(measured)
            for kind, dof, factor in channels:
                channel = JointSamples(readings.times[finite], measured[finite] * factor)
                place: dict[int, JointSamples] = getattr(found, kind)
                if dof not in place or len(channel.times) > len(place[dof].times):
                    place[dof] = channel
    return found


def unmeasured(model: mujoco.MjModel, runs: Iterable[Run]) -> str | None:
    """Return why the motion of all joints is not known from the measurements, or None."""
    if not model.njnt:
        return 'the model has no joints'
    for run in runs:
        known = measured_joints(model, run).position
        placed = placed_bodies(model, run.sequence)
        for dof, joint in enumerate(model.dof_jntid.tolist()):
            if joint in placed:
                continue
            if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
                body = model.body(int(model.jnt_bodyid[joint])).name
                return f'position and orientation of {body!r} are not both measured'
            if dof not in known or len(known[dof].times) < FEWEST_SAMPLES:
                name = model.joint(int(model.dof_jntid[dof])).name
                return f'the position of joint {name!r} is not measured in {run.sequence.name!r}'
    return None


def placed_bodies(model: mujoco.MjModel, sequence: Trajectory) -> frozenset[int]:
    """Return the free joints of which a sequence measures or prescribes where they are."""
    prescribed = sequence.base.names if sequence.base is not None else ()
    if prescribed:
        return frozenset(free_joint(model, body) for body in prescribed)
    names = {name for series in sequence.measurements for name in series.names}
    posed = {(posed_joint(model, name), is_orientation(model, name)) for name in names}
    return frozenset(
        joint for joint, _ in posed if joint >= 0 and {(joint, False), (joint, True)} <= posed
    )


def no_motion_shows(model: mujoco.MjModel, *, tied: bool = False) -> str | None:
    """Return which forces of a model no motion shows, in a clause, or None.

    ``tied`` allows for joints that move as others do.
    """
    bound = model.eq_type[np.flatnonzero(model.eq_active0)]
    if np.any(bound != mujoco.mjtEq.mjEQ_JOINT.value) or (len(bound) and not tied):
        return 'the model has equality constraints, whose forces no motion shows'
    if np.isnan(fixed_tendons(model)).any():
        return 'the model has spatial tendons'
    return None


def smoothed(
    model: mujoco.MjModel,
    positions: dict[int, JointSamples],
    start: Array,
    *,
    by_forces: bool = False,
) -> PrescribedMotion | None:
    """Return the measured motion after a zero-phase low-pass, or None where it is too short.

    The cut-off, one for all, is the median of the frequencies up to which the accelerations of
    the moving joints hold little noise. Where a fit compares forces along it, that of the motion
    itself is higher than that of the forces, and noise need not be white. Joints that are not
    measured stay where they start, (nq,).
    """
    even = _evened(positions, by_forces=by_forces)
    if even is None:
        return None
    interval, first, cutoff = even.interval, even.first, even.cutoff
    times = interval * (first + np.arange(even.rows, dtype=np.float64))
    kernel, wide = (
        np.asarray(scipy.signal.butter(_ORDER, each, output='sos', fs=1 / interval))
        for each in (cutoff, _WIDER * cutoff if by_forces else cutoff)
    )
    qpos, qvel, qacc = np.zeros((3, len(times), model.nv))
    qpos[:] = start[model.jnt_qposadr[model.dof_jntid]]
    for dof, values in even.channels.items():
        qpos[:, dof] = low_pass(wide, values)
        curve = scipy.interpolate.CubicSpline(times, qpos[:, dof])
        qvel[:, dof] = curve(times, 1)
        qacc[:, dof] = scipy.interpolate.CubicSpline(times, qvel[:, dof])(times, 1)
    stride = max(int(1.0 / (_ROWS_PER_PERIOD * cutoff * interval)), 1)
    return PrescribedMotion(
        interval, first, qpos, qvel, qacc, slowest(qvel), kernel, cutoff, stride
    )


class _Evened(NamedTuple):
    """Channels on an even grid, and the cut-off of a low-pass that leaves little of their noise."""

    interval: float  # seconds from row to row
    first: int  # number of the first row, counted from time zero
    rows: int
    cutoff: float  # Hz
    channels: dict[int, Array]  # (n,) each


def _evened(channels: dict[int, JointSamples], *, by_forces: bool = False) -> _Evened | None:
    """Return channels at even instants while all are measured; None where these are few."""
    interval = min(float(np.median(np.diff(channel.times))) for channel in channels.values())
    begin = max(channel.times[0] for channel in channels.values()) / interval
    end = min(channel.times[-1] for channel in channels.values()) / interval
    first, last = int(np.ceil(begin - _ON_GRID)), int(np.floor(end + _ON_GRID))
    if last - first < FEWEST_SAMPLES:
        return None
    times: Array = interval * np.arange(first, last + 1, dtype=np.float64)
    even = {key: resampled(channel, times) for key, channel in channels.items()}
    slowest_cutoff = _FEWEST_PERIODS / (times[-1] - times[0])
    cutoffs = np.array([_cutoff(own, interval, white=not by_forces) for own in even.values()])
    moving = cutoffs[np.isfinite(cutoffs)] if np.isfinite(cutoffs).any() else slowest_cutoff
    cutoff = float(np.clip(np.median(moving), slowest_cutoff, _HIGHEST_CUTOFF / interval))
    return _Evened(interval, first, len(times), cutoff, even)


def with_measured_bases(
    model: mujoco.MjModel, sequence: Trajectory, bodies: Mapping[int, str]
) -> Trajectory:
    """Return a sequence in which bodies that float move as they were measured.

    What says so is compared no more. Positions and quaternions pass a zero-phase low-pass, as
    positions of joints do.

    Args:
        model: The model.
        sequence: What was recorded.
        bodies: Free joint to the name of its body.

    Raises:
        FitError: Position and orientation of a body are not both measured, or not for long.
    """
    placed = placed_bodies(model, sequence)
    for joint, body in bodies.items():
        if joint not in placed:
            raise FitError(
                f'Expected the position and the orientation of {body!r} in {sequence.name!r}, as '
                'base: measured follows both, found that they are not both mapped.'
            )
    instants = np.unique(np.concatenate([series.times for series in sequence.measurements]))
    states = np.array([initial_state(model, sequence.measurements, at).qpos for at in instants])
    channels = {}
    for joint in bodies:
        place = int(model.jnt_qposadr[joint])
        quaternions = states[:, place + 3 : place + 7]
        # Both signs are the same orientation.
        opposite = np.sum(quaternions[1:] * quaternions[:-1], axis=1) < 0
        quaternions[1:] *= np.cumprod(np.where(opposite, -1.0, 1.0))[:, None]
        for column in range(place, place + 7):
            channels[column] = JointSamples(instants, states[:, column])
    even = _evened(channels)
    if even is None:
        raise FitError(
            f'Expected {FEWEST_SAMPLES} or more poses in {sequence.name!r} to follow them, found '
            'fewer.'
        )
    kernel = scipy.signal.butter(_ORDER, even.cutoff, output='sos', fs=1 / even.interval)
    times = even.interval * (even.first + np.arange(even.rows, dtype=np.float64))
    values = np.stack([low_pass(kernel, own) for own in even.channels.values()], axis=1)
    mapping = {
        body: (SignalType.MjStateQPos, 7 * number + np.arange(7))
        for number, body in enumerate(bodies.values())
    }
    return dataclasses.replace(
        sequence,
        base=TimeSeries(times, values, mapping),
        measurements=only(sequence.measurements, lambda n: posed_joint(model, n) not in bodies),
    )


def _cutoff(values: Array, interval: float, *, white: bool) -> float:
    """Return the highest frequency up to which accelerations hold little noise; NaN at rest, Hz.

    Noise is taken for white, or it is looked for.
    """
    if np.ptp(values) < SMALLEST:
        return np.nan
    frequencies, power = scipy.signal.welch(
        values, 1 / interval, nperseg=len(values) // 4, detrend='linear'
    )
    floor = float(np.median(power[frequencies >= _FLOOR_FROM * frequencies[-1]]))
    weight = (2 * np.pi * frequencies) ** 4
    noise = np.cumsum(weight * floor)
    signal = np.cumsum(weight * np.maximum(power - floor, 0.0))
    clean = np.flatnonzero(noise <= _NOISE_PART * signal)
    visible = np.flatnonzero(power > CLEARLY * floor)
    if not len(clean) or not len(visible):
        return np.nan
    found = float(frequencies[min(clean[-1], visible[-1])])
    return found if white else min(found, _highest(frequencies, power))


def _highest(frequencies: Array, power: Array) -> float:
    """Return up to where noise that is not white leaves accelerations to be seen, else inf, Hz.

    The accelerations of a motion fall with the frequency; where they rise again they are noise. If
    they rise less than those of white noise do, which go with the fourth power, the noise at the
    highest frequencies says little of what is lower: backlash, vibrations and uneven sampling are
    such. Then it is an octave below the least power.
    """
    velocity = np.cumsum(power * frequencies**2)
    slow = frequencies[np.searchsorted(velocity, _MOST_MOTION * velocity[-1])]
    total = np.append(0.0, np.cumsum(power * frequencies**4))
    centres = np.geomspace(max(slow, frequencies[1]), frequencies[-1] / np.sqrt(2), _CENTRES)
    low, high = (np.searchsorted(frequencies, centres * f) for f in (np.sqrt(0.5), np.sqrt(2)))
    mean = (total[high] - total[low]) / np.maximum(high - low, 1)
    least = float(centres[np.argmin(mean)])
    rising = centres > np.sqrt(2) * least
    if np.count_nonzero(rising) < _FEWEST_RISING:
        return np.inf
    slope, _ = np.polyfit(np.log(centres[rising]), np.log(mean[rising]), 1)
    return least / 2 if slope < _WHITE else np.inf


def low_pass(kernel: Array, values: Array) -> Array:
    """Return (n, …) values after the low-pass, forwards and backwards."""
    return np.asarray(scipy.signal.sosfiltfilt(kernel, values, axis=0))


def resampled(channel: JointSamples, times: Array) -> Array:
    """Return a channel at other times, by a cubic spline through its samples."""
    inside = np.clip(times, channel.times[0], channel.times[-1])
    return np.asarray(scipy.interpolate.CubicSpline(channel.times, channel.values)(inside))


def disturbed(
    model: mujoco.MjModel, motion: PrescribedMotion, channels: Iterable[JointSamples]
) -> NDArray[np.bool_]:
    """Return (n,) whether an instant is beside an end, a pause of a channel, or something touched.

    Beside is within a period of the cut-off. Shapes that touch in most of a recording do so in the
    model alone, as those of neighbours, and joints that are held may be where their limits do not
    allow it.
    """
    data, place = mujoco.MjData(model), model.jnt_qposadr[model.dof_jntid]
    moves = np.ptp(motion.qpos, axis=0) > 0
    rows = np.arange(0, len(motion.qpos), motion.stride)
    limited, touched = np.zeros((2, len(rows)), dtype=bool)
    for index, row in enumerate(rows):
        data.qpos[place], data.qvel[:] = motion.qpos[row], motion.qvel[row]
        mujoco.mj_fwdPosition(model, data)
        kinds = data.efc_type[: data.nefc]
        limits = data.efc_id[: data.nefc][kinds == _JOINT_LIMIT]
        limited[index] = moves[model.jnt_dofadr[limits]].any() or (kinds == _TENDON_LIMIT).any()
        touched[index] = np.isin(kinds, _CONTACTS).any()
    found = limited if np.median(touched) else limited | touched
    found = _near(np.repeat(found, motion.stride)[: len(motion.qpos)], motion)
    times, margin = motion.times, 1.0 / motion.cutoff
    # Two low-passes show what was not there: that of the motion and that of the comparison.
    found |= (times <= times[0] + 2 * margin) | (times >= times[-1] - 2 * margin)
    for channel in channels:
        intervals = np.diff(channel.times)
        for gap in np.flatnonzero(intervals > _GAP * np.median(intervals)):
            begin, end = channel.times[gap : gap + 2]
            found |= (times > begin - margin) & (times < end + margin)
    return found


def turning(
    model: mujoco.MjModel, motion: PrescribedMotion, unknowns: Iterable[Unknown], weights: Array
) -> NDArray[np.bool_]:
    """Return (n,) whether dry friction may pull either way near an instant.

    Unknowns say which joints and tendons may be given dry friction that have none; the (nv,)
    weights, what joints' forces are compared.
    """
    joints, tendons = model.dof_frictionloss > 0, model.tendon_frictionloss > 0
    for unknown in unknowns:
        for target in unknown.targets:
            for slot in target.slots(model) if target.in_model else ():
                dry = {'dof_frictionloss': joints, 'tendon_frictionloss': tendons}.get(slot.field)
                if dry is not None:
                    dry[slot.place] = True
    moments = fixed_tendons(model)
    pulled = moments[tendons & ~np.isclose(moments @ weights, 0.0)]
    speeds = np.concatenate([motion.qvel[:, joints & (weights != 0)], motion.qvel @ pulled.T], 1)
    either = np.abs(speeds) < slowest(speeds)
    either[1:] |= np.signbit(speeds[1:]) != np.signbit(speeds[:-1])
    return _near(either.any(axis=1), motion)


def _near(where: NDArray[np.bool_], motion: PrescribedMotion) -> NDArray[np.bool_]:
    """Return (n,) whether an instant is within a period of the cut-off of one of some."""
    reach = int(np.ceil(1.0 / (motion.cutoff * motion.interval)))
    near = scipy.ndimage.binary_dilation(where, np.ones(2 * reach + 1, dtype=bool))
    return np.asarray(near)


class MeasuredForce(NamedTuple):
    """What a sensor read of the forces of joints, and the (nv,) weights of these in it."""

    sensor: str
    weights: Array
    samples: JointSamples


def measured_forces(model: mujoco.MjModel, run: Run) -> list[MeasuredForce]:
    """Return what was read of forces; of sensors that read the same the one with most samples."""
    columns = force_weights(model)
    found: dict[bytes, MeasuredForce] = {}
    for readings in run.readings:
        for sensor, column, values in zip(
            readings.sensors, readings.columns.tolist(), readings.measured.T, strict=True
        ):
            if readings.source != SENSORS or column not in columns:
                continue
            known = np.isfinite(values)
            samples = JointSamples(readings.times[known], values[known])
            weights = columns[column]
            alike = (weights / np.abs(weights).max()).astype(np.float32).tobytes()
            if len(samples.times) >= FEWEST_SAMPLES and (
                alike not in found or len(samples.times) > len(found[alike].samples.times)
            ):
                found[alike] = MeasuredForce(sensor, weights, samples)
    return list(found.values())


def not_prescribable(model: mujoco.MjModel, sequences: Sequence[Trajectory]) -> str | None:
    """Return why forces along the measured motion do not tell the parameters, in a clause."""
    if hidden := no_motion_shows(model, tied=True):
        return hidden
    if not np.isin(model.jnt_type, SCALAR_JOINTS).all() or not model.njnt:
        return 'the model has joints that move about more than one axis, or none'
    runs = [prepare(model, sequence) for sequence in sequences]
    forces = [measured_forces(model, run) for run in runs]
    if not any(forces):
        return 'no force or torque of a joint is measured'
    for run, measured in zip(runs, forces, strict=True):
        positions = measured_joints(model, run).position
        for dof in {int(dof) for force in measured for dof in np.flatnonzero(force.weights)}:
            if dof not in positions or len(positions[dof].times) < FEWEST_SAMPLES:
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

    Samples at which something is touched, or a joint that may have dry friction hardly moves, are
    left out. It is None where the sequence is too short.
    """
    run = prepare(model, sequence)
    positions = measured_joints(model, run).position
    motion = smoothed(model, positions, np.asarray(sequence.initial_qpos), by_forces=True)
    if motion is None:
        return None
    times, forces = motion.times, measured_forces(model, run)
    channels = [*positions.values(), *(force.samples for force in forces)]
    left_out = disturbed(model, motion, channels)
    period = 1.0 / (motion.cutoff * motion.interval * motion.stride)
    rows = max(int(period / _SAMPLES_PER_PERIOD), 1)
    chosen = slice(-motion.first % motion.stride, len(times), motion.stride * rows)
    columns: list[Array] = []
    mapping = {}
    for force in forces:
        known = force.samples.times
        lost = left_out | (times < known[0]) | (times > known[-1])
        lost |= turning(model, motion, unknowns, force.weights)
        values = low_pass(motion.low_pass, resampled(force.samples, times))
        mapping[force.sensor] = (SignalType.MjSensor, np.array([len(columns)]))
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


def with_inertial_priors(
    unknowns: Sequence[Unknown], deviations: Sequence[float] = _INERTIAL_DEVIATIONS
) -> tuple[Unknown, ...]:
    """Give log-Cholesky inertias that have no prior a wide one around the model.

    No motion of a chain tells all ten numbers of each link apart; what it does not tell stays
    where the model has it, and is said to rest on the prior.
    """
    found = []
    for unknown in unknowns:
        target = unknown.targets[0]
        if unknown.prior is None and target.element_and_attribute == ('body', 'inertia'):
            deviation = deviations[target.index or 0]
            found.append(dataclasses.replace(unknown, prior=(unknown.nominal, deviation)))
        else:
            found.append(unknown)
    return tuple(found)
