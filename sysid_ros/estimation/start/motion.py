# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Position, velocity, acceleration and torque of all joints, as they were measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sysid_ros.rollout.inverse import meaning

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from sysid_ros.model.unknown import Unknown
    from sysid_ros.rollout.runs import Run

#: Order of the low-pass; run forwards and backwards it has no phase.
_ORDER = 4
#: A frequency carries motion where a channel's power is so many times that of its noise.
_SIGNAL_TO_NOISE = 10.0
#: The noise floor is the median power above this share of the highest frequency.
_FLOOR_FROM = 0.75
#: Range of the cut-off: from so many periods in a recording to this share of its sample rate.
_FEWEST_PERIODS = 5.0
_HIGHEST_CUTOFF = 0.15
#: Samples of a spectrum: a quarter of the recording, so that it averages several, between these.
_SHORTEST_SPECTRUM, _LONGEST_SPECTRUM = 16, 256
#: Fewer samples of a channel say nothing about accelerations.
FEWEST_SAMPLES = 30
#: So many periods of the cut-off beside an end or a gap the low-pass shows what was not there.
_MARGIN = 1.0
#: A pause of a channel is a gap from so many of its usual intervals on.
_GAP = 5.0
#: Range of a channel that is numerically at rest, in SI units.
_AT_REST = 1e-9
_SCALAR = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)

#: Constraints that motion alone does not determine: limits, and contacts.
LIMITS = np.array(
    [
        mujoco.mjtConstraint.mjCNSTR_LIMIT_JOINT.value,
        mujoco.mjtConstraint.mjCNSTR_LIMIT_TENDON.value,
    ]
)
CONTACTS = np.array(
    [
        mujoco.mjtConstraint.mjCNSTR_CONTACT_FRICTIONLESS.value,
        mujoco.mjtConstraint.mjCNSTR_CONTACT_PYRAMIDAL.value,
        mujoco.mjtConstraint.mjCNSTR_CONTACT_ELLIPTIC.value,
    ]
)


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


@dataclass(frozen=True)
class MeasuredMotion:
    """The motion of one sequence on an even grid, all through the same zero-phase low-pass.

    Attributes:
        times: (n,) seconds from the start of the sequence.
        qpos: (n, nv) rad or m.
        qvel: (n, nv) rad/s or m/s.
        qacc: (n, nv) rad/s² or m/s².
        torque: (n, nv) N·m or N; NaN where none was measured.
        sound: (n,) whether the instant is not beside a gap or an end.
        cutoff: Hz.
        kernel: Second-order sections of the low-pass.
    """

    times: NDArray[np.float64]
    qpos: NDArray[np.float64]
    qvel: NDArray[np.float64]
    qacc: NDArray[np.float64]
    torque: NDArray[np.float64]
    sound: NDArray[np.bool_]
    cutoff: float
    kernel: NDArray[np.float64]

    @property
    def interval(self) -> float:
        """Seconds between instants."""
        return float(self.times[1] - self.times[0])


def unmeasured(model: mujoco.MjModel, runs: Iterable[Run]) -> str | None:
    """Return why the motion of all joints is not known from the measurements, or None."""
    if not model.njnt:
        return 'the model has no joints'
    for joint in range(model.njnt):
        if mujoco.mjtJoint(model.jnt_type[joint]) not in _SCALAR:
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
    for readings in run.readings:
        for column, measured in zip(readings.columns, readings.measured.T, strict=True):
            for kind, dof, gear in meaning(model, readings.source, int(column)):
                finite = np.isfinite(measured)
                channel = JointSamples(readings.times[finite], measured[finite] * gear)
                place: dict[int, JointSamples] = getattr(found, kind)
                if dof not in place or len(channel.times) > len(place[dof].times):
                    place[dof] = channel
    return found


def motion_of(model: mujoco.MjModel, run: Run) -> MeasuredMotion | None:
    """Return the smoothed motion of one sequence, or None where it is too short.

    Each joint's velocity comes from its measured velocity or its measured position, whichever
    rises above its own noise up to the higher frequency. The cut-off, one for all, is the median
    of the frequencies up to which the moving joints do. All channels pass the same Butterworth
    low-pass forwards and backwards, so that the equations of motion hold among them as they did
    before (Gautier, "Dynamic identification of robots with power model", ICRA 1997).

    Args:
        model: The compiled model; all of its joints have one axis and a measured position.
        run: The sequence.
    """
    from scipy.signal import butter  # noqa: PLC0415 (slow to import, and not every fit needs it)

    measured = measured_joints(model, run)
    positions = measured.position
    interval = max(
        min(float(np.median(np.diff(channel.times))) for channel in positions.values()),
        float(model.opt.timestep),
    )
    first = max(channel.times[0] for channel in positions.values())
    last = min(channel.times[-1] for channel in positions.values())
    count = int(np.floor((last - first) / interval)) + 1
    if count < FEWEST_SAMPLES:
        return None
    times = first + interval * np.arange(count)
    even = {dof: resampled(channel, times) for dof, channel in positions.items()}
    speeds = {
        dof: resampled(channel, times)
        for dof, channel in measured.velocity.items()
        if len(channel.times) >= FEWEST_SAMPLES
    }
    reach = {dof: _reach(values, interval) for dof, values in even.items()}
    reach_of_speed = {dof: _reach(values, interval) for dof, values in speeds.items()}
    best = [max(reach[dof], reach_of_speed.get(dof, 0.0)) for dof in reach]
    moving = [frequency for frequency in best if frequency > 0] or [0.0]
    slowest = _FEWEST_PERIODS / (times[-1] - times[0])
    cutoff = float(np.clip(np.median(moving), slowest, _HIGHEST_CUTOFF / interval))
    kernel = np.asarray(butter(_ORDER, cutoff, output='sos', fs=1 / interval))
    # MuJoCo's steps, but for RK4's, change a position by the velocity at their end: a velocity is
    # the difference of positions around half a step before it, an acceleration half a step after.
    late = 0.5 * float(model.opt.timestep) if is_discrete(model) else 0.0
    nv = model.nv
    qpos, qvel, qacc = np.zeros((count, nv)), np.zeros((count, nv)), np.zeros((count, nv))
    torque = np.full((count, nv), np.nan)
    for dof, values in even.items():
        qpos[:, dof] = low_pass(kernel, values)
        if reach_of_speed.get(dof, 0.0) > reach[dof]:
            qvel[:, dof] = low_pass(kernel, speeds[dof])
            qacc[:, dof] = _derivative(times, qvel[:, dof], times + late)
        else:
            qvel[:, dof] = _derivative(times, qpos[:, dof], times - late)
            qacc[:, dof] = _derivative(times, qvel[:, dof], times + late)
    for dof, channel in measured.torque.items():
        if len(channel.times) >= FEWEST_SAMPLES:
            torque[:, dof] = low_pass(kernel, resampled(channel, times))
    margin = _MARGIN / cutoff
    sound = (times > times[0] + margin) & (times < times[-1] - margin)
    for channel in (*positions.values(), *measured.torque.values()):
        sound &= ~in_gap(channel, times, margin)
    return MeasuredMotion(times, qpos, qvel, qacc, torque, sound, cutoff, kernel)


def dry_joints(model: mujoco.MjModel, unknowns: Iterable[Unknown]) -> NDArray[np.bool_]:
    """Return (nv,) whether a joint has dry friction, or may be given it."""
    dry: NDArray[np.bool_] = np.asarray(model.dof_frictionloss > 0)
    tendons = bool(np.any(model.tendon_frictionloss > 0))
    for unknown in unknowns:
        for target in unknown.targets:
            for slot in target.slots(model) if target.in_model else ():
                if slot.field == 'dof_frictionloss':
                    dry[slot.place] = True
                tendons = tendons or slot.field == 'tendon_frictionloss'
    return dry | tendons


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


def _derivative(
    times: NDArray[np.float64], values: NDArray[np.float64], instants: NDArray[np.float64]
) -> NDArray[np.float64]:
    from scipy.interpolate import CubicSpline  # noqa: PLC0415 (as above)

    rates: NDArray[np.float64] = CubicSpline(times, values)(instants, 1)
    return rates


def _reach(values: NDArray[np.float64], interval: float) -> float:
    """Return the highest frequency at which a channel moves visibly, Hz; 0 for one at rest."""
    from scipy.signal import welch  # noqa: PLC0415 (as above)

    if np.ptp(values) < _AT_REST:
        return 0.0
    size = int(np.clip(len(values) // 4, _SHORTEST_SPECTRUM, _LONGEST_SPECTRUM))
    frequencies, power = welch(values, 1 / interval, nperseg=size, detrend='linear')
    floor = np.median(power[frequencies >= _FLOOR_FROM * frequencies[-1]])
    visible = np.flatnonzero(power > _SIGNAL_TO_NOISE * floor)
    return float(frequencies[visible[-1]]) if len(visible) else 0.0


def in_gap(channel: JointSamples, times: NDArray[np.float64], margin: float) -> NDArray[np.bool_]:
    """Return (n,) whether an instant lies in or beside a pause of a channel."""
    intervals = np.diff(channel.times)
    inside = np.zeros(len(times), dtype=bool)
    for place in np.flatnonzero(intervals > _GAP * np.median(intervals)):
        inside |= (times > channel.times[place] - margin) & (
            times < channel.times[place + 1] + margin
        )
    return inside
