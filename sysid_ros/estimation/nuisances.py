# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is unknown besides the parameters, differs between recordings, and interests nobody.

Left out, it would bend the parameters, and their intervals would not know of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np

from sysid_ros.estimation.noise import arrival_jitter
from sysid_ros.model.targets import Target
from sysid_ros.model.unknown import Unknown
from sysid_ros.rollout.measurement import SENSORS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sysid_ros.rollout.runs import Run
    from sysid_ros.signals.trajectory import Trajectory

#: Farther than this no command is moved, s. (It also sets the step of the differences.)
_OFFSET_BOUND = 0.025
#: A start is known from the measurements around it to so many standard deviations of one of them.
#: The measurements after it are in the residuals as well, which tell far more.
_START_DEVIATIONS = 3.0
#: The velocity at a start that is the slope of positions is known to their noise over this, s: half
#: of what the slope is taken over.
_SLOPE_WINDOW = 0.025
#: Starts are sought within so many of those standard deviations.
_START_REACH = 10.0

_POSITION = int(mujoco.mjtSensor.mjSENS_JOINTPOS)
_VELOCITY = int(mujoco.mjtSensor.mjSENS_JOINTVEL)
_SCALAR = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))


def arrival_offsets(sequences: Sequence[Trajectory]) -> tuple[Unknown, ...]:
    """Return an unknown offset of the commands for each sequence, or none without jitter.

    Commands that are stamped on arrival reach robot and recorder at slightly different moments,
    earlier or later by another amount in every recording. Where their arrivals jitter, each
    sequence therefore has an unknown offset of its own, which the size of the jitter keeps near
    zero. Left out, a common delay that fits no sequence would bend the other parameters.
    """
    jitter = arrival_jitter(sequences)
    if not jitter:
        return ()
    return tuple(
        Unknown(
            f'arrival offset in {sequence.name}',
            (Target('sequence', sequence.name, 'arrival_offset', None, 0, 's'),),
            0.0,
            -_OFFSET_BOUND,
            _OFFSET_BOUND,
            prior=(0.0, jitter),
        )
        for sequence in sequences
    )


def initial_states(
    model: mujoco.MjModel,
    runs: Iterable[Run],
    noise: Mapping[str, float],
    told: Iterable[Unknown] = (),
) -> tuple[Unknown, ...]:
    """Return the unknown position and velocity of each measured joint at the start of each run.

    A run starts where noisy measurements say. What follows from the error is no noise: it goes on
    through the whole prediction, and where motion is little damped it is all of the error. The
    measurements around the start keep its unknowns near; those after it say where it was.

    Args:
        model: The compiled model.
        runs: The sequences, prepared.
        noise: Sensor name to the standard deviation of its samples, in the sensor's unit.
        told: Unknowns that may be starts already, which are not repeated.
    """
    known = {
        (target.name, target.attribute, target.index or 0)
        for unknown in told
        for target in unknown.targets
    }
    found = []
    for run in runs:
        positions, velocities = _measured(model, run, noise)
        for joint in sorted(positions):
            slide = int(model.jnt_type[joint]) == int(mujoco.mjtJoint.mjJNT_SLIDE)
            qpos, dof = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
            speed = velocities.get(joint, positions[joint] / _SLOPE_WINDOW)
            for attribute, index, value, deviation, unit in (
                ('initial_qpos', qpos, run.qpos[qpos], positions[joint], 'm' if slide else 'rad'),
                ('initial_qvel', dof, run.qvel[dof], speed, 'm/s' if slide else 'rad/s'),
            ):
                if (run.sequence.name, attribute, index) in known:
                    continue
                wide = _START_DEVIATIONS * deviation
                found.append(
                    Unknown(
                        f'{attribute}[{index}] of {run.sequence.name}',
                        (Target('sequence', run.sequence.name, attribute, index, 0, unit),),
                        float(value),
                        float(value) - _START_REACH * wide,
                        float(value) + _START_REACH * wide,
                        prior=(float(value), wide),
                    )
                )
    return tuple(found)


def _measured(
    model: mujoco.MjModel, run: Run, noise: Mapping[str, float]
) -> tuple[dict[int, float], dict[int, float]]:
    """Return joint to the noise of its position, and of its velocity, where they are measured."""
    positions: dict[int, float] = {}
    velocities: dict[int, float] = {}
    of_qpos = {int(model.jnt_qposadr[j]): j for j in range(model.njnt)}
    of_dof = {int(model.jnt_dofadr[j]): j for j in range(model.njnt)}
    of_sensor = {int(model.sensor_adr[s]): s for s in range(model.nsensor)}
    for readings in run.readings:
        for sensor, column, values in zip(
            readings.sensors, readings.columns, readings.measured.T, strict=True
        ):
            if sensor not in noise or not np.isfinite(values).any():
                continue
            place = int(column)
            joint, into = -1, positions
            if readings.source == 'qpos':
                joint = of_qpos.get(place, -1)
            elif readings.source == 'qvel':
                joint, into = of_dof.get(place, -1), velocities
            elif readings.source == SENSORS and place in of_sensor:
                kind = int(model.sensor_type[of_sensor[place]])
                if kind in (_POSITION, _VELOCITY):
                    joint = int(model.sensor_objid[of_sensor[place]])
                    into = positions if kind == _POSITION else velocities
            if joint >= 0 and int(model.jnt_type[joint]) in _SCALAR:
                into[joint] = min(into.get(joint, np.inf), noise[sensor])
    return positions, velocities
