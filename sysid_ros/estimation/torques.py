# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A recording as a prescribed motion and the forces that were measured along it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.estimation.start.motion import (
    FEWEST_SAMPLES,
    JointSamples,
    dry_joints,
    dry_tendons,
    low_pass,
    measured_joints,
    resampled,
    smoothed,
    touching,
    unsound,
)
from sysid_ros.model.joints import SCALAR_JOINTS
from sysid_ros.model.unknown import Unknown
from sysid_ros.rollout.inverse import force_weights, tendon_motion
from sysid_ros.rollout.measurement import SENSORS
from sysid_ros.rollout.runs import Run, prepare
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.signals.trajectory import Trajectory

#: The derivatives have passed a low-pass whose cut-off is so many times that of the comparison,
#: which then changes forces that were measured and predicted alike.
_WIDER = 2.0
#: Compared samples for each period of the cut-off: more are not independent.
_SAMPLES_PER_PERIOD = 3
#: A tendon pulls at what a sensor reads above this; sensors that agree to so many digits are alike.
_ROUNDING, _DIGITS = 1e-9, 6


def not_prescribable(model: mujoco.MjModel, sequences: Sequence[Trajectory]) -> str | None:
    """Return why forces along the measured motion do not tell the parameters, in a clause."""
    bound = model.eq_type[np.flatnonzero(model.eq_active0)]
    if np.any(bound != mujoco.mjtEq.mjEQ_JOINT.value):
        return 'the model has equality constraints, whose forces no motion shows'
    if not np.isin(model.jnt_type, SCALAR_JOINTS).all() or not model.njnt:
        return 'the model has joints that move about more than one axis, or none'
    runs = [prepare(model, sequence) for sequence in sequences]
    forces = [measured_forces(model, run) for run in runs]
    if not any(forces):
        return 'no force or torque of a joint is measured'
    for run, measured in zip(runs, forces, strict=True):
        positions = measured_joints(model, run).position
        for dof in {int(dof) for force in measured for dof in np.flatnonzero(force.weights)}:
            channel = positions.get(dof)
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
    motion = smoothed(model, measured, np.asarray(sequence.initial_qpos), _WIDER)
    if motion is None:
        return None
    count, interval = len(motion.qpos), motion.interval
    times = motion.times
    reach = int(np.ceil(1.0 / (motion.cutoff * interval)))
    forces = measured_forces(model, run)
    measured = measured._replace(torque={k: force.samples for k, force in enumerate(forces)})
    touched = touching(model, motion, np.arange(0, count, motion.stride))
    left_out = _near(np.repeat(touched, motion.stride)[:count], reach) | unsound(motion, measured)
    left_out[: 2 * reach] = left_out[count - 2 * reach :] = True  # two low-passes
    dry, dry_tendon = dry_joints(model, unknowns), dry_tendons(model, unknowns)
    tendons = tendon_motion(model, motion)
    rows = max(int(1.0 / (_SAMPLES_PER_PERIOD * motion.cutoff * interval * motion.stride)), 1)
    chosen = slice(-motion.first % motion.stride, count, motion.stride * rows)
    columns: list[NDArray[np.float64]] = []
    mapping = {}
    for force in forces:
        known = force.samples.times
        lost = left_out | (times < known[0]) | (times > known[-1])
        for dof in np.flatnonzero(force.weights * dry):
            lost |= _near(np.abs(motion.qvel[:, dof]) < motion.slow[dof], reach)
        pulled = np.abs(tendons.moments @ force.weights).max(axis=0, initial=0.0)
        for tendon in np.flatnonzero(dry_tendon & (pulled > _ROUNDING)):
            lost |= _near(np.abs(tendons.velocity[:, tendon]) < tendons.slow[tendon], reach)
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


def _near(where: NDArray[np.bool_], reach: int) -> NDArray[np.bool_]:
    """Return (n,) whether an instant is within so many of one of some."""
    from scipy.ndimage import binary_dilation  # noqa: PLC0415 (slow to import)

    found: NDArray[np.bool_] = binary_dilation(where, np.ones(2 * reach + 1, dtype=bool))
    return found


class MeasuredForce(NamedTuple):
    """What a sensor read of the forces of joints.

    Attributes:
        sensor: Its name.
        weights: (nv,) of the joints' forces in what it reads.
        samples: What it read.
    """

    sensor: str
    weights: NDArray[np.float64]
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
            alike = np.round(weights / np.abs(weights).max(), _DIGITS).tobytes()
            if len(samples.times) >= FEWEST_SAMPLES and (
                alike not in found or len(samples.times) > len(found[alike].samples.times)
            ):
                found[alike] = MeasuredForce(sensor, weights, samples)
    return list(found.values())


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
