# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Measured forces of servos, under the command that is in force when they are read.

A simulation holds the mean of a command over each time step, so that predictions change smoothly
with a delay. What a driver reads is not a mean: where states and commands are synchronous, every
force is read just before or just after a command came to act, and a stiff servo's differ by much.
A force with a fixed gain is therefore taken apart: what follows the state is interpolated between
steps, and the gain times the command in force at the stamp is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.model.joints import SCALAR_JOINTS, TO_JOINT
from sysid_ros.rollout.measurement import SENSORS
from sysid_ros.rollout.runs import InterpolatedCommand, Run

#: A force this close to a limit is at it, relative to the limit.
_AT_LIMIT = 1e-9


class SampledForce(NamedTuple):
    """A column of readings that is the force of one actuator.

    Attributes:
        readings: Number of the readings of the run …
        place: … and column of them.
        column: Of the sensors' data.
        actuator: Id of the actuator.
        factor: What is read for a unit of its force.
        limited: Whether the actuator has limits.
        limits: (2,) least and greatest reading that the joint allows.
        command: Its command in the run.
    """

    readings: int
    place: int
    column: int
    actuator: int
    factor: float
    limited: bool
    limits: NDArray[np.float64]
    command: int


def sampled_forces(model: mujoco.MjModel, run: Run) -> tuple[SampledForce, ...]:
    """Return the readings of a run that are taken apart."""
    if not run.sequence.sampled:
        return ()
    return tuple(
        SampledForce(number, place, int(column), *force, command)
        for number, readings in enumerate(run.readings)
        if readings.source == SENSORS
        for place, column in enumerate(readings.columns.tolist())
        for force in _force(model, column)
        for command, commanded in enumerate(run.commands)
        if commanded.actuator == force[0] and not isinstance(commanded.held, InterpolatedCommand)
    )


def _force(
    model: mujoco.MjModel, column: int
) -> Iterator[tuple[int, float, bool, NDArray[np.float64]]]:
    """Yield the actuator whose force is read, the factor, and limits of it and of the joint."""
    (found,) = np.nonzero(model.sensor_adr == column)
    kind = model.sensor_type[found[0]] if len(found) else -1
    element = int(model.sensor_objid[found[0]]) if len(found) else -1
    limits = np.array([-np.inf, np.inf])
    if kind == mujoco.mjtSensor.mjSENS_ACTUATORFRC:
        if _is_static(model, element):
            yield element, 1.0, bool(model.actuator_forcelimited[element]), limits
    elif kind == mujoco.mjtSensor.mjSENS_JOINTACTFRC and model.jnt_type[element] in SCALAR_JOINTS:
        on_joint = np.isin(model.actuator_trntype, list(TO_JOINT))
        (own,) = np.nonzero(on_joint & (model.actuator_trnid[:, 0] == element))
        if model.jnt_actfrclimited[element]:
            limits = np.array(model.jnt_actfrcrange[element])
        if len(own) == 1 and _is_static(model, int(own[0])):
            gear, has_limits = model.actuator_gear[own[0], 0], model.actuator_forcelimited[own[0]]
            yield int(own[0]), float(gear), bool(has_limits), limits


def _is_static(model: mujoco.MjModel, actuator: int) -> bool:
    """Return whether an actuator's force is a fixed gain times its command, and more."""
    return bool(
        model.actuator_dyntype[actuator] == mujoco.mjtDyn.mjDYN_NONE
        and model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_FIXED
    )


def take_apart(
    run: Run,
    forces: tuple[SampledForce, ...],
    rows: dict[str, NDArray[np.float64]],
    control: NDArray[np.float64],
    in_force: Callable[[int, NDArray[np.float64]], NDArray[np.float64]],
    values_of: Callable[[str], NDArray[np.float64]],
) -> None:
    """Replace forces by what follows the state, and add what commands make of each sample.

    Args:
        run: The sequence.
        forces: Its readings that are taken apart.
        rows: Recorded field to (m, steps, width); those of sensors change, and each readings' own
            field (see `Readings.held`) is added, (m, n, k).
        control: (m, steps, nu) what the simulations were told, within its limits.
        in_force: From the number of a command and (n,) times, s, to (m, n) what it says then.
        values_of: From a field of the model to the (m, size) numbers of the simulations.
    """
    gains, ranges = values_of('actuator_gainprm'), values_of('actuator_forcerange')
    width = mujoco.mjNGAIN
    for force in forces:
        readings, command = run.readings[force.readings], run.commands[force.command]
        gain = force.factor * gains[:, width * force.actuator, None]
        low, high = np.sort(
            force.factor * ranges[:, 2 * force.actuator : 2 * force.actuator + 2], axis=1
        ).T[:, :, None]
        if not force.limited:
            low, high = -np.inf, np.inf
        low, high = np.maximum(low, force.limits[0]), np.minimum(high, force.limits[1])
        values = rows[SENSORS][:, :, force.column]
        limited = (values <= (1 - _AT_LIMIT) * low) | (values >= (1 - _AT_LIMIT) * high)
        told = gain * control[:, :, command.column]
        values -= told
        at_samples = readings.looked_up(np.stack([told, limited.astype(np.float64)], axis=2))
        held = rows.setdefault(
            readings.held, np.zeros((len(gain), len(readings.times), len(readings.columns)))
        )
        held[:, :, force.place] = np.where(
            at_samples[:, :, 1] > 0,
            at_samples[:, :, 0],
            gain * in_force(force.command, readings.times),
        )
