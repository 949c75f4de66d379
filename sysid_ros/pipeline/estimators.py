# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the model is compared with: whole simulations, or the forces along the measured motion.

A robot whose actuators hold positions moves as it is told; a simulation of it stays near, and says
most. One that is driven by forces drifts away from any simulation within tenths of a second. There
the forces that the measured motion needs are compared with those that were measured.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sysid_ros.errors import ConfigError
from sysid_ros.estimation.noise import estimate_noise
from sysid_ros.estimation.start.motion import measured_joints, resampled
from sysid_ros.estimation.torques import (
    as_torques,
    measured_forces,
    not_prescribable,
    standing,
    with_inertial_priors,
)
from sysid_ros.model.targets import Role as Acting
from sysid_ros.pipeline.driven import NotToldError
from sysid_ros.results.result import EstimatorKind
from sysid_ros.rollout.inverse import acts_on_forces, force_weights, transmissions
from sysid_ros.rollout.runs import prepare
from sysid_ros.signals import SignalType, TimeSeries

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from sysid_ros.config import CalibrationConfig
    from sysid_ros.model.targets import Target
    from sysid_ros.pipeline.loading import CalibrationBag, Problem
    from sysid_ros.signals.trajectory import Trajectory

#: Gain and bias of an actuator that exerts a multiple of its command.
_FORCE = (mujoco.mjtGain.mjGAIN_FIXED.value, mujoco.mjtBias.mjBIAS_NONE.value)
#: Parts of readings below this are rounding.
_ROUNDING = 1e-9
_MOTION = (mujoco.mjtSensor.mjSENS_JOINTPOS.value, mujoco.mjtSensor.mjSENS_JOINTVEL.value)


class Estimated(NamedTuple):
    """A problem as an estimator sees it.

    Attributes:
        problem: What is fitted: the recordings themselves, or the forces along them.
        kind: Which estimator.
        sentence: Why.
    """

    problem: Problem
    kind: EstimatorKind
    sentence: str = ''

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader has to know of the estimator, if anything."""
        return (f'Compared are {self.sentence}.',) if self.sentence else ()


def estimated(config: CalibrationConfig, problem: Problem) -> Estimated:
    """Choose the estimator, and return the problem as it sees it.

    Args:
        config: ``estimator`` says which; ``auto`` takes forces where nothing but them drives the
            joints, they are measured, and all parameters act on them.
        problem: What was loaded.

    Raises:
        FitError: A simulation is wanted, and a bag does not say what drove the robot.
        ConfigError: Forces are wanted, and the recordings or parameters do not allow that.
    """
    chosen, recorded = config.estimator, problem
    problem = _told(problem) if chosen != 'simulation' else problem
    reason = None if chosen == 'simulation' else _not_by_forces(problem)
    if chosen == 'torque' and reason is not None:
        msg = f'Estimator torque is not possible: {reason}; leave it to auto or use simulation.'
        raise ConfigError(msg)
    if chosen == 'auto' and reason is None and not problem.refused:
        unknown = standing(problem.model, problem.sequences('train'))
        if unknown or not _driven_by_forces(problem.model):
            reason = 'the joints hold positions, or not all of them are measured'
    if chosen == 'simulation' or reason is not None:
        for refused in problem.refused:
            also = f'; nor do its forces tell, since {reason}.' if reason else '.'
            raise NotToldError(str(refused).rstrip('.') + also) from refused
        return Estimated(recorded, EstimatorKind.SIMULATION)
    seen = _changed(problem, lambda each: as_torques(problem.model, each, problem.parameters))
    seen = dataclasses.replace(seen, parameters=with_inertial_priors(problem.parameters))
    if not seen.sequences('train') and chosen == 'auto' and not problem.refused:
        return Estimated(recorded, EstimatorKind.SIMULATION)
    if not seen.sequences('train'):
        msg = (
            'Expected a training recording with ten periods or more of motion and measured '
            'forces that no limit or contact disturbs, found none.'
        )
        raise ConfigError(msg)
    cutoffs = [s.motion.cutoff for s in seen.sequences('train') if s.motion is not None]
    why = 'nothing else says what drove the robot' if problem.refused else 'forces drive the joints'
    if chosen == 'torque':
        why = 'as asked for'
    held = standing(problem.model, problem.sequences('train'))
    if held:
        why += f'; {", ".join(held)} not measured: taken to stand still'
    sentence = (
        f'forces along the measured motion, low-passed at {min(cutoffs):.3g} Hz ({why}); '
        'positions are predicted for validation only'
    )
    return Estimated(seen, EstimatorKind.TORQUE, sentence)


def _not_by_forces(problem: Problem) -> str | None:
    """Return why forces along the measured motion do not tell the parameters, in a clause."""
    if problem.servos is not None:
        return 'laws of servos drive the joints'
    training = problem.sequences('train')
    if not training:
        return 'there is no training sequence'
    for parameter in problem.parameters:
        for target in parameter.targets:
            if not _acts(problem.model, target):
                return f'parameter {parameter.name!r} does not act on the forces of a given motion'
    return not_prescribable(problem.model, training)


def _acts(model: mujoco.MjModel, target: Target) -> bool:
    if target.role is Acting.SENSOR:
        sensor = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, target.name)
        return int(model.sensor_adr[sensor]) in force_weights(model)
    if target.role is Acting.FIELD:
        return acts_on_forces(model, target)
    return target.role is Acting.SPEC


def _driven_by_forces(model: mujoco.MjModel) -> bool:
    """Whether no actuator feeds back what it drives."""
    return bool(model.nactuator) and len(_motors(model)) == model.nactuator


class _Motor(NamedTuple):
    """An actuator that exerts a multiple of its command, whatever moves.

    Attributes:
        name: Of the actuator.
        row: Which it is.
        gain: Its own force by its command.
        moment: (nv,) forces of joints by its own.
    """

    name: str
    row: int
    gain: float
    moment: NDArray[np.float64]


def _motors(model: mujoco.MjModel) -> list[_Motor]:
    found = []
    for row, moment in enumerate(transmissions(model)):
        fixed = (model.actuator_gaintype[row], model.actuator_biastype[row]) == _FORCE
        gain = float(model.actuator_gainprm[row, 0])
        if fixed and gain and np.isfinite(moment).all() and moment.any():
            found.append(_Motor(model.actuator(row).name, row, gain, moment))
    return found


def _changed(problem: Problem, change: Callable[[Trajectory], Trajectory | None]) -> Problem:
    """Return a problem with every sequence changed, without those that became None."""

    def of(recording: CalibrationBag) -> CalibrationBag:
        sequences = tuple(filter(None, map(change, recording.alignment.sequences)))
        alignment = dataclasses.replace(recording.alignment, sequences=sequences)
        return dataclasses.replace(recording, alignment=alignment)

    return dataclasses.replace(problem, recordings=tuple(map(of, problem.recordings)))


def _told(problem: Problem) -> Problem:
    """Return a problem in which the commands of motors are forces that were measured, too."""
    model = problem.model
    motors = _motors(model)
    moments = transmissions(model)
    sensors = np.flatnonzero(model.sensor_type == mujoco.mjtSensor.mjSENS_JOINTACTFRC)

    def change(sequence: Trajectory) -> Trajectory:
        known = measured_joints(model, prepare(model, sequence)).torque
        measured = []
        for sensor, series in itertools.product(sensors.tolist(), sequence.commands):
            dof = int(model.jnt_dofadr[model.sensor_objid[sensor]])
            acting = [motor for motor in motors if motor.moment[dof]]
            every = np.count_nonzero(moments[:, dof]) == len(acting)  # NaN is not zero
            if (
                acting
                and every
                and dof not in known
                and {m.name for m in acting} <= set(series.names)
            ):
                later = series.times >= 0
                force = np.sum(
                    [m.moment[dof] * m.gain * series.get(m.name) for m in acting], axis=0
                )
                mapping = {model.sensor(sensor).name: (SignalType.MjSensor, np.array([0]))}
                measured.append(TimeSeries(series.times[later], force[later], mapping))
        return dataclasses.replace(sequence, measurements=(*sequence.measurements, *measured))

    return _changed(problem, change)


def driven(problem: Problem) -> Problem:
    """Return a problem whose motors are told the measured forces where no bag holds commands."""
    model = problem.model
    motors = _motors(model)
    inverse = np.linalg.pinv(np.nan_to_num(transmissions(model)).T)

    def change(sequence: Trajectory) -> Trajectory:
        if sequence.commands:
            return sequence
        forces = measured_forces(model, prepare(model, sequence))
        read = np.array([force.weights for force in forces]).reshape(-1, model.nv)
        commands = []
        for motor in motors:
            # What the motor exerts is a sum of forces of joints, and these are sums of readings.
            parts = np.linalg.lstsq(read.T, inverse[motor.row], rcond=None)[0]
            if not np.allclose(parts @ read, inverse[motor.row], atol=_ROUNDING) or not len(parts):
                continue
            used = [
                (force, part)
                for force, part in zip(forces, parts, strict=True)
                if abs(part) > _ROUNDING
            ]
            times = max((force.samples.times for force, _ in used), key=len)
            exerted = sum(part * resampled(force.samples, times) for force, part in used)
            mapping = {motor.name: (SignalType.MjCtrl, np.array([0]))}
            commands.append(TimeSeries(times, np.asarray(exerted)[:, None] / motor.gain, mapping))
        return dataclasses.replace(sequence, commands=tuple(commands))

    return _changed(problem, change)


def motion_noise(problem: Problem) -> Mapping[str, float]:
    """Return the noise of measured positions and velocities of joints, from their roughness."""
    model = problem.model
    found = estimate_noise(prepare(model, sequence) for sequence in problem.sequences('train'))
    return {
        sensor: sigma
        for sensor, sigma in found.items()
        if (row := mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, sensor)) >= 0
        and model.sensor_type[row] in _MOTION
    }
