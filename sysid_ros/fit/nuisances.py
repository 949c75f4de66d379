# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is unknown besides the parameters, differs between recordings, and interests nobody.

Left out, it would bend the parameters, and their intervals would not know of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.segments import initial_state
from sysid_ros.fit.noise import arrival_jitter
from sysid_ros.model.elements import SCALAR_JOINTS, is_orientation, posed_joint, reads_force
from sysid_ros.model.kinds import MOST_TRAJECTORIES, Role
from sysid_ros.model.targets import Target, Unknown
from sysid_ros.signals import Trajectory
from sysid_ros.simulation.inverse import meaning
from sysid_ros.simulation.runs import SENSORS, Run

Array = NDArray[np.float64]

#: No command, message or measured force is taken to be farther than this from its stamp, s.
FARTHEST = 0.025
#: Name of the unknown delay of measured forces.
FORCE_DELAY = 'delay of measured forces'
#: Measured forces are usually later or earlier than the motion by so much, s.
_DELAY_DEVIATION = 0.003
#: When a controller begins a trajectory is known to one of its updates, s: a hundred a second by
#: default (https://control.ros.org/jazzy/doc/ros2_control/controller_manager/doc/userdoc.html).
_UPDATE_DEVIATION = 0.01 / np.sqrt(12)
#: What is anywhere between two ends is sought within so many times that. Its prior has them at one
#: standard deviation from the middle: at 1.7, as of a uniform one, it bent what was at an end.
_REACH = 1.5
#: A start is known from the measurements around it to so many standard deviations of one of them.
#: The measurements after it are in the residuals as well, which tell far more.
_START_DEVIATIONS = 3.0
#: The velocity at a start that is the slope of positions is known to their noise over this, s: half
#: of what the slope is taken over. By as much as it changes in this time it may be wrong as well:
#: a line to one side of the start has the slope of its middle, and its end is off by a sixth of
#: what that makes in the time.
_SLOPE_WINDOW = 0.025
#: Starts are sought within so many of those standard deviations.
_START_REACH = 10.0


@dataclass(frozen=True)
class Unknowns:
    """What is unknown in a fit, in the order of its values."""

    parameters: tuple[Unknown, ...]  # what is identified
    # When the commands of each sequence act, beside a common delay.
    timings: tuple[Unknown, ...] = ()
    # By how much measured forces are later than the motion; none or one.
    force_delay: tuple[Unknown, ...] = ()
    starts: tuple[Unknown, ...] = ()  # where sequences start

    @classmethod
    def of(cls, parameters: Sequence[Unknown], others: Sequence[Unknown]) -> Unknowns:
        """Return parameters and others that are in this order."""
        starts = [u for u in others if u.targets[0].attribute.startswith('initial_')]
        delays = [u for u in others if u.name == FORCE_DELAY]
        timings = [u for u in others if u not in starts and u not in delays]
        return cls(tuple(parameters), tuple(timings), tuple(delays), tuple(starts))

    @property
    def every(self) -> tuple[Unknown, ...]:
        """All of them."""
        return (*self.parameters, *self.timings, *self.force_delay, *self.starts)

    def of_parameters(self, values: Array) -> Array:
        """Return those of (p, …) values that are the parameters'."""
        return values[: len(self.parameters)]

    def offsets(self, x: Array) -> dict[str, float]:
        """Return sequence name to the seconds by which (p,) values let its commands act later."""
        values = x[len(self.parameters) :]
        return {
            timing.targets[0].name: float(value)
            for timing, value in zip(self.timings, values, strict=False)
            if timing.targets[0].attribute == 'arrival_offset'
        }


def command_timings(
    sequences: Sequence[Trajectory], known: Iterable[Unknown] = ()
) -> tuple[Unknown, ...]:
    """Return what is unknown of when the commands of each sequence act, beside a common delay.

    Commands that are stamped on arrival reach robot and recorder at slightly different moments,
    earlier or later by another amount in every recording. Where their arrivals jitter, each
    sequence therefore has an unknown offset of its own, which the size of the jitter keeps near
    zero. Left out, a common delay that fits no sequence would bend the other parameters.

    What a controller asks for between points begins at one of its updates, which nobody recorded:
    another offset for each message, beside that of the sequence. It asks for another value at each
    update, and for that until the next: an effort that is measured once in each period sees the
    command always as much earlier, or later, than motion, which sees the mean, and how much motion
    ripples between. The longer a value is held, the less is left of what changes fast.

    Args:
        sequences: What is fitted.
        known: Unknowns that may say so already, which are not repeated.
    """
    asked = {(t.name, t.attribute) for unknown in known for t in unknown.targets}
    jitter = arrival_jitter(sequences)
    found = []
    for sequence in sequences:
        name, updated = sequence.name, _UPDATE_DEVIATION if sequence.interpolated else 0.0
        if jitter or updated:
            found.append(_late('arrival', sequence, max(jitter, updated)))
        if not updated:
            continue
        messages = len(sequence.replaced) + 1
        apart = range(messages if 1 < messages <= MOST_TRAJECTORIES else 0)
        found += [_late('trajectory', sequence, updated, index) for index in apart]
        period = float(np.median(np.diff(sequence.updates)))
        for attribute, unit, middle, half in (
            ('update_phase', 's', 0.0, period / 2),
            ('update_ripple', '1', 0.5, 0.5),
            ('update_blur', '1', 0.5, 0.5),
        ):
            target = Target('sequence', name, attribute, None, 0, unit)
            ends = middle - _REACH * half, middle + _REACH * half
            prior = (middle, half)
            label = f'{attribute.replace("_", " ")} in {name}'
            found.append(Unknown(label, (target,), middle, *ends, prior=prior))
    return tuple(
        unknown
        for unknown in found
        if (unknown.targets[0].name, unknown.targets[0].attribute) not in asked
    )


def _late(what: str, sequence: Trajectory, deviation: float, index: int | None = None) -> Unknown:
    """Return an unknown by which commands act later than they would."""
    target = Target('sequence', sequence.name, f'{what}_offset', index, 0, 's')
    label = f'{what} offset{"" if index is None else f"[{index}]"} in {sequence.name}'
    return Unknown(label, (target,), 0.0, -FARTHEST, FARTHEST, prior=(0.0, deviation))


def torque_delay(
    model: mujoco.MjModel, sequences: Sequence[Trajectory], known: Iterable[Unknown]
) -> tuple[Unknown, ...]:
    """Return one unknown delay of all measured forces against the motion.

    A force is filtered on its way, and held for a step of its controller. What moves it in time
    looks like damping, which is out of phase with the inertia as well. A sensor whose delay is
    among the known unknowns has one of its own.
    """
    own = {
        target.name
        for unknown in known
        for target in unknown.targets
        if target.role is Role.SENSOR and target.attribute == 'delay'
    }
    names = {
        name: None
        for sequence in sequences
        if sequence.motion is not None or sequence.sampled
        for series in sequence.measurements
        for name in series.names
        if name not in own and (sequence.motion is not None or reads_force(model, name))
    }
    if not names:
        return ()
    targets = tuple(Target('sensor', name, 'delay', None, 0, 's') for name in names)
    prior = (0.0, _DELAY_DEVIATION)
    return (Unknown(FORCE_DELAY, targets, 0.0, -FARTHEST, FARTHEST, prior=prior),)


def initial_states(
    model: mujoco.MjModel,
    runs: Iterable[Run],
    noise: Mapping[str, float],
    known: Iterable[Unknown] = (),
) -> tuple[Unknown, ...]:
    """Return the unknown position and velocity of each measured joint at the start of each run.

    A run starts where noisy measurements say. What follows from the error is no noise: it goes on
    through the whole prediction, and where motion is little damped it is all of the error. The
    measurements around the start keep its unknowns near; those after it say where it was. Starts
    that are known unknowns already are not repeated.
    """
    known = tuple(known)
    found: list[Unknown] = []
    for run in runs:
        reach = start_reach(model, run, noise)
        for unknown in states_at_start(
            model, run.sequence.name, (run.qpos, run.qvel), reach, known
        ):
            deviation = (unknown.max_value - unknown.nominal) / _START_REACH
            found.append(dataclasses.replace(unknown, prior=(unknown.nominal, deviation)))
    return tuple(found)


def start_reach(
    model: mujoco.MjModel, run: Run, noise: Mapping[str, float]
) -> dict[int, tuple[float, float]]:
    """Return how far a start may be from what is measured: position and velocity by dof."""
    positions, velocities = _measured(model, run, noise)
    series = run.sequence.measurements
    now, next_ = (initial_state(model, series, at).qvel for at in (0.0, _SLOPE_WINDOW))
    found = {}
    for dof, position in sorted(positions.items()):
        velocity = velocities.get(dof, position / _SLOPE_WINDOW)
        bent = 0.0 if dof in velocities else float(abs(next_[dof] - now[dof]))
        far = _START_DEVIATIONS * position + _SLOPE_WINDOW / 6 * bent
        found[dof] = _START_REACH * far, _START_REACH * (_START_DEVIATIONS * velocity + bent)
    return found


def states_at_start(
    model: mujoco.MjModel,
    name: str,
    state: tuple[Array, Array],
    reach: Mapping[int, tuple[float, float]],
    known: Iterable[Unknown],
) -> tuple[Unknown, ...]:
    """Return the unknown positions and velocities at the start of a sequence.

    Args:
        model: The model.
        name: Of the sequence.
        state: (nq,) positions and (nv,) velocities around which they are sought.
        reach: Degree of freedom to how far its position and its velocity may be away.
        known: Unknowns that may be these already, which are not repeated.
    """
    own = {(t.name, t.attribute, t.index or 0) for unknown in known for t in unknown.targets}
    found = []
    for dof, (position, velocity) in reach.items():
        joint = int(model.dof_jntid[dof])
        part = dof - int(model.jnt_dofadr[joint])
        is_free = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE
        moves = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE or (is_free and part < 3)  # noqa: PLR2004
        unit = 'm' if moves else 'rad'
        place = int(model.jnt_qposadr[joint]) + part
        here = 'initial_qpos', place, float(state[0][place])
        if is_free and not moves:
            here = 'initial_turn', dof, 0.0
        for attribute, index, value, far, measure in (
            (*here, position, unit),
            ('initial_qvel', dof, float(state[1][dof]), velocity, f'{unit}/s'),
        ):
            if (name, attribute, index) not in own:
                target = Target('sequence', name, attribute, index, 0, measure)
                label = f'{attribute}[{index}] of {name}'
                found.append(Unknown(label, (target,), value, value - far, value + far))
    return tuple(found)


def _measured(
    model: mujoco.MjModel, run: Run, noise: Mapping[str, float]
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the noise of position and of velocity by degree of freedom, where it is measured."""
    positions: dict[int, float] = {}
    velocities: dict[int, float] = {}
    for readings in run.readings:
        for sensor, column, values in zip(
            readings.sensors, readings.columns, readings.measured.T, strict=True
        ):
            if sensor not in noise or not np.isfinite(values).any():
                continue
            posed = posed_joint(model, sensor) if readings.source == SENSORS else -1
            if posed >= 0:
                first = int(model.jnt_dofadr[posed]) + 3 * is_orientation(model, sensor)
                for dof in range(first, first + 3):
                    positions[dof] = min(positions.get(dof, np.inf), noise[sensor])
            for what, dof in meaning(model, readings.source, int(column)):
                into = {'position': positions, 'velocity': velocities}.get(what)
                scalar = int(model.jnt_type[model.dof_jntid[dof]]) in SCALAR_JOINTS
                if into is not None and scalar:
                    into[dof] = min(into.get(dof, np.inf), noise[sensor])
    return positions, velocities
