# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Position, velocity, acceleration and torque of all joints, as they were measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sysid_ros.rollout.measurement import SENSORS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

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
_FEWEST_SAMPLES = 30
#: So many periods of the cut-off beside an end or a gap the low-pass shows what was not there.
_MARGIN = 1.0
#: A pause of a channel is a gap from so many of its usual intervals on.
_GAP = 5.0
#: Range of a channel that is numerically at rest, in SI units.
_AT_REST = 1e-9
#: Transmissions of actuators that drive one joint.
DIRECT = (mujoco.mjtTrn.mjTRN_JOINT.value, mujoco.mjtTrn.mjTRN_JOINTINPARENT.value)
_SCALAR = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)


class Channel(NamedTuple):
    """What was measured of one degree of freedom: (n,) seconds and (n,) finite values."""

    times: NDArray[np.float64]
    values: NDArray[np.float64]


class Measured(NamedTuple):
    """The channels of one sequence that say how its joints move.

    Attributes:
        position: Degree of freedom to its measured position.
        velocity: The same for velocities, …
        torque: … and for the force that all actuators together exert on it.
    """

    position: dict[int, Channel]
    velocity: dict[int, Channel]
    torque: dict[int, Channel]


@dataclass(frozen=True)
class Motion:
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
            if channel is None or len(channel.times) < _FEWEST_SAMPLES:
                name = model.joint(joint).name
                return f'the position of joint {name!r} is not measured in {run.sequence.name!r}'
    return None


def measured_joints(model: mujoco.MjModel, run: Run) -> Measured:
    """Return what a sequence measures of the joints of a model; of two channels, the denser."""
    found = Measured({}, {}, {})
    for readings in run.readings:
        for column, measured in zip(readings.columns, readings.measured.T, strict=True):
            for kind, dof, gear in _meaning(model, readings.source, int(column)):
                finite = np.isfinite(measured)
                channel = Channel(readings.times[finite], measured[finite] * gear)
                place: dict[int, Channel] = getattr(found, kind)
                if dof not in place or len(channel.times) > len(place[dof].times):
                    place[dof] = channel
    return found


def _meaning(model: mujoco.MjModel, source: str, column: int) -> Iterator[tuple[str, int, float]]:
    """Yield which quantity of which degree of freedom a column is, and a factor on it."""
    if source == 'qpos':
        yield from (('position', int(dof), 1.0) for dof in _dofs(model, column))
    elif source == 'qvel':
        yield 'velocity', column, 1.0
    elif source == SENSORS:
        sensor = (
            int(np.flatnonzero(model.sensor_adr == column)[0]) if column in model.sensor_adr else -1
        )
        kind = mujoco.mjtSensor(model.sensor_type[sensor]) if sensor >= 0 else None
        target = int(model.sensor_objid[sensor])
        if kind in _JOINT_SENSORS:
            yield _JOINT_SENSORS[kind], int(model.jnt_dofadr[target]), 1.0
        elif kind == mujoco.mjtSensor.mjSENS_ACTUATORFRC:
            yield from _actuator_force(model, target)


_JOINT_SENSORS = {
    mujoco.mjtSensor.mjSENS_JOINTPOS: 'position',
    mujoco.mjtSensor.mjSENS_JOINTVEL: 'velocity',
    mujoco.mjtSensor.mjSENS_JOINTACTFRC: 'torque',
}


def _dofs(model: mujoco.MjModel, column: int) -> NDArray[np.int64]:
    """Return the degree of freedom of a scalar joint whose position is a column."""
    joints = np.flatnonzero(model.jnt_qposadr == column)
    return np.asarray(model.jnt_dofadr[joints], dtype=np.int64)


def _actuator_force(model: mujoco.MjModel, actuator: int) -> Iterator[tuple[str, int, float]]:
    """Yield the degree of freedom that one actuator alone drives, and its gear."""
    direct = np.isin(model.actuator_trntype, DIRECT)
    driven = np.where(direct, model.actuator_trnid[:, 0], -1).tolist()
    joint = driven[actuator]
    if joint >= 0 and driven.count(joint) == 1 and -1 not in driven:
        yield 'torque', int(model.jnt_dofadr[joint]), float(model.actuator_gear[actuator, 0])


def motion_of(model: mujoco.MjModel, run: Run) -> Motion | None:
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
    if count < _FEWEST_SAMPLES:
        return None
    times = first + interval * np.arange(count)
    even = {dof: _resampled(channel, times) for dof, channel in positions.items()}
    speeds = {
        dof: _resampled(channel, times)
        for dof, channel in measured.velocity.items()
        if len(channel.times) >= _FEWEST_SAMPLES
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
        if len(channel.times) >= _FEWEST_SAMPLES:
            torque[:, dof] = low_pass(kernel, _resampled(channel, times))
    margin = _MARGIN / cutoff
    sound = (times > times[0] + margin) & (times < times[-1] - margin)
    for channel in (*positions.values(), *measured.torque.values()):
        sound &= ~_in_gap(channel, times, margin)
    return Motion(times, qpos, qvel, qacc, torque, sound, cutoff, kernel)


def is_discrete(model: mujoco.MjModel) -> bool:
    """Return whether the model's steps differ from continuous time in the first order."""
    return bool(model.opt.integrator != mujoco.mjtIntegrator.mjINT_RK4.value)


def low_pass(kernel: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (n, …) values after the low-pass, forwards and backwards."""
    from scipy.signal import sosfiltfilt  # noqa: PLC0415 (as above)

    passed: NDArray[np.float64] = sosfiltfilt(kernel, values, axis=0)
    return passed


def _resampled(channel: Channel, times: NDArray[np.float64]) -> NDArray[np.float64]:
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


def _in_gap(channel: Channel, times: NDArray[np.float64], margin: float) -> NDArray[np.bool_]:
    """Return (n,) whether an instant lies in or beside a pause of a channel."""
    intervals = np.diff(channel.times)
    inside = np.zeros(len(times), dtype=bool)
    for place in np.flatnonzero(intervals > _GAP * np.median(intervals)):
        inside |= (times > channel.times[place] - margin) & (
            times < channel.times[place + 1] + margin
        )
    return inside
