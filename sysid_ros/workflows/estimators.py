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
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.schema import CalibrationConfig
from sysid_ros.errors import ConfigError, listed
from sysid_ros.fit.motion import (
    as_torques,
    measured_forces,
    measured_joints,
    not_prescribable,
    resampled,
    standing,
    with_inertial_priors,
)
from sysid_ros.model.kinds import Role as Acting
from sysid_ros.model.loading import (
    ActuatorKind,
    RobotModel,
    add_actuators,
    compile_spec,
    free_joints,
)
from sysid_ros.model.targets import Target
from sysid_ros.results.result import CalibrationResult, EstimatorKind
from sysid_ros.signals import SignalType, TimeSeries, Trajectory
from sysid_ros.simulation.inverse import acts_on_forces, force_weights, transmissions
from sysid_ros.simulation.runs import prepare
from sysid_ros.uncertainty.inference import Identification
from sysid_ros.workflows.problem import NotToldError, Problem

_WINDOWS = 'simulations over windows{}, each from where the robot was at its start'


class Estimated(NamedTuple):
    """What is fitted: recordings or the forces along them, by which estimator, and why."""

    problem: Problem
    kind: EstimatorKind
    sentence: str = ''  # after "Compared are"; empty where there is nothing to know of it


def estimated(config: CalibrationConfig, problem: Problem) -> Estimated:
    """Choose the estimator, and return the problem as it sees it.

    ``auto`` takes forces where nothing but them drives the joints, they are measured, and all
    parameters act on them.

    Raises:
        FitError: A simulation is wanted, and a bag does not say what drove the robot.
        ConfigError: Forces are wanted, and the recordings or parameters do not allow that.
    """
    chosen, recorded = config.estimator, problem
    simulates = chosen in ('simulation', 'windows')
    problem = problem if simulates else _told(problem)
    reason = None if simulates else _not_by_forces(problem)
    if chosen == 'torque' and reason is not None:
        raise ConfigError(
            f'Estimator torque is not possible: {reason}; leave it to auto or use simulation.'
        )
    if chosen == 'auto' and reason is None and not problem.refused:
        unknown = standing(problem.model, problem.sequences('train'))
        if unknown or not _driven_by_forces(problem):
            reason = (
                f'the positions of {listed(unknown)} are not measured'
                if unknown
                else 'more than forces drives the joints'
            ) + '; estimator: torque compares the forces, which simulates nothing'
    if simulates or reason is not None:
        for refused in problem.refused:
            also = f'; nor do its forces tell, since {reason}.' if reason else '.'
            raise NotToldError(str(refused).rstrip('.') + also) from refused
        if chosen == 'windows':
            return Estimated(recorded, EstimatorKind.WINDOWS, _WINDOWS.format(''))
        sentence = f'whole simulations, not forces along the motion: {reason}' if reason else ''
        return Estimated(recorded, EstimatorKind.SIMULATION, sentence)
    seen = problem.with_trajectories(
        lambda each: as_torques(problem.model, each, problem.parameters)
    )
    seen = dataclasses.replace(seen, parameters=with_inertial_priors(problem.parameters))
    if not seen.sequences('train') and chosen == 'auto' and not problem.refused:
        sentence = 'whole simulations, not forces along the motion: too little of it is undisturbed'
        return Estimated(recorded, EstimatorKind.SIMULATION, sentence)
    if not seen.sequences('train'):
        raise ConfigError(
            'Expected a training recording with ten periods or more of motion and measured '
            'forces that no limit or contact disturbs, found none.'
        )
    why = 'nothing else says what drove the robot' if problem.refused else 'forces drive the joints'
    why = 'as asked for' if chosen == 'torque' else why
    return Estimated(seen, EstimatorKind.TORQUE, _of_forces(problem, seen, why))


def _of_forces(problem: Problem, seen: Problem, why: str) -> str:
    cutoff = min(s.motion.cutoff for s in seen.sequences('train') if s.motion is not None)
    held = standing(problem.model, problem.sequences('train'))
    if held:
        why += f'; {listed(held)} not measured: taken to stand still'
    return (
        f'forces along the measured motion, low-passed at {cutoff:.3g} Hz ({why}); '
        'positions are predicted for validation only'
    )


def by_windows(seen: Estimated, fit: Identification) -> Estimated:
    """Return a problem as a fit saw it in the end, which rests on windows or not."""
    if fit.window is None:
        return seen
    why = ' (as asked for)'
    if seen.kind is EstimatorKind.SIMULATION:
        why = ': over whole recordings the smallest errors grow until they decide where motion ends'
    sentence = _WINDOWS.format(f' of {fit.window:g} s') + why
    return seen._replace(kind=EstimatorKind.WINDOWS, sentence=sentence)


def forces_tell(problem: Problem) -> bool:
    """Return whether forces along the measured motion can be compared instead of simulations."""
    return _not_by_forces(_told(problem)) is None


def _not_by_forces(problem: Problem) -> str | None:
    """Return why forces along the measured motion do not tell the parameters, in a clause."""
    if problem.servos is not None:
        return 'laws of servos drive the joints'
    training = problem.sequences('train')
    if not training:
        return 'there is no training sequence'
    reason = not_prescribable(problem.model, training)
    if reason is not None:
        return reason
    for parameter in problem.parameters:
        if not all(_acts(problem.model, target) for target in parameter.targets):
            return f'parameter {parameter.name!r} does not act on the forces of a given motion'
    return None


def _acts(model: mujoco.MjModel, target: Target) -> bool:
    """Whether a target acts on the forces of a given motion."""
    if target.role is Acting.SENSOR:
        sensor = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, target.name)
        return int(model.sensor_adr[sensor]) in force_weights(model)
    if target.role is Acting.FIELD:
        return acts_on_forces(model, target)
    return target.role is Acting.SPEC


def _driven_by_forces(problem: Problem) -> bool:
    """Whether no actuator feeds back what it drives, or forces were measured although none is."""
    model = problem.model
    if model.nactuator:
        return len(_motors(model)) == int(model.nactuator)
    runs = [prepare(model, sequence) for sequence in problem.sequences('train')]
    return any(np.any(f.samples.values) for run in runs for f in measured_forces(model, run))


class _Motor(NamedTuple):
    """An actuator that exerts ``gain`` times its command plus ``bias``, whatever moves."""

    name: str
    row: int  # its index
    gain: float
    bias: float
    moment: NDArray[np.float64]  # (nv,) forces of joints by its own


def _motors(model: mujoco.MjModel) -> list[_Motor]:
    found = []
    for row, moment in enumerate(transmissions(model)):
        fixed = model.actuator_gaintype[row] == mujoco.mjtGain.mjGAIN_FIXED
        affine = model.actuator_biastype[row] == mujoco.mjtBias.mjBIAS_AFFINE
        constant, *feedback = model.actuator_biasprm[row, :3].tolist() if affine else (0.0,)
        told = affine or model.actuator_biastype[row] == mujoco.mjtBias.mjBIAS_NONE
        gain = float(model.actuator_gainprm[row, 0])
        moves = np.isfinite(moment).all() and moment.any()
        if fixed and told and gain and moves and not any(feedback):
            found.append(_Motor(model.actuator(row).name, row, gain, constant, moment))
    return found


def motor_biases(
    model: mujoco.MjModel, values: Sequence[tuple[Target, float]]
) -> tuple[list[tuple[Target, float]], dict[str, float]]:
    """Return values without the offsets of efforts, and motors to the constant forces they become.

    A force is read as ``needed + offset``: who tells a motor what was read has it exert the offset
    too much. Half the difference of dry friction in both directions is such an offset. The offsets
    of sensors are ``sensor/NAME/bias`` among the values; forces are in N·m or N before a gear.
    """
    weights = force_weights(model)
    moments = np.nan_to_num(transmissions(model))
    inverse = np.linalg.pinv(moments.T)
    offsets, scaled = {}, set()
    for target, value in values:
        if target.role is Acting.SENSOR:
            row = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, target.name)
            read = weights.get(int(model.sensor_adr[row]))
            if target.attribute == 'bias' and read is not None:
                offsets[target.name] = read, float(value)
            elif target.attribute == 'gain':
                scaled.add(target.name)
    used = {name: offset for name, offset in offsets.items() if name not in scaled}
    if not used:
        return list(values), {}
    read = np.array([each for each, _ in used.values()])
    of_joints = np.linalg.lstsq(read, [value for _, value in used.values()], rcond=None)[0]
    found = {}
    for motor in _motors(model):
        bias = -float(inverse[motor.row] @ of_joints)
        if motor.name and bias:
            found[motor.name] = bias
    said = np.linalg.lstsq(moments.T, of_joints, rcond=None)[0] @ moments if len(moments) else 0
    if not found or not np.allclose(said, of_joints):
        return list(values), {}
    return [v for v in values if v[0].name not in used or v[0].attribute != 'bias'], found


def with_biases(
    result: CalibrationResult, source: RobotModel, values: Sequence[tuple[Target, float]]
) -> tuple[list[tuple[Target, float]], dict[str, float]]:
    """Return what is written of the values of a result; see `motor_biases` for fits of efforts."""
    if result.solver is None or result.solver.estimator is not EstimatorKind.TORQUE:
        return list(values), {}
    return motor_biases(compile_spec(source.spec, Path(result.model)), values)


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
            told = {motor.name for motor in acting} <= set(series.names)
            if acting and every and dof not in known and told:
                later = series.times >= 0
                own = [m.moment[dof] * (m.gain * series.get(m.name) + m.bias) for m in acting]
                force = np.sum(own, axis=0)
                name = model.sensor(sensor).name
                measured.append(TimeSeries.from_columns(series.times[later], force[later], [name]))
        return dataclasses.replace(sequence, measurements=(*sequence.measurements, *measured))

    return problem.with_trajectories(change)


def driven(problem: Problem, values: Sequence[tuple[Target, float]] = ()) -> Problem:
    """Return a problem whose motors exert the measured forces where no bag holds commands.

    Where the model has no actuators at all, each joint gets a motor. What was found of sensors
    among the values, gains and offsets, is taken out of the readings.
    """
    if not problem.model.nactuator:
        spec = problem.spec.copy()
        add_actuators(spec, [f'{joint}_{ActuatorKind.EFFORT}' for joint in free_joints(spec)])
        compiled = compile_spec(spec, problem.source.description.path)
        problem = dataclasses.replace(problem, spec=spec, model=compiled)
    model = problem.model
    motors = _motors(model)
    inverse = np.linalg.pinv(np.nan_to_num(transmissions(model)).T)
    of_sensors: dict[str, dict[str, float]] = {'bias': {}, 'gain': {}}
    for target, value in values:
        if target.role is Acting.SENSOR and target.attribute in of_sensors:
            of_sensors[target.attribute][target.name] = value
    offsets, gains = of_sensors['bias'], of_sensors['gain']

    def change(sequence: Trajectory) -> Trajectory:
        if sequence.commands:
            return sequence
        forces = measured_forces(model, prepare(model, sequence))
        read = np.array([force.weights for force in forces]).reshape(-1, model.nv)
        commands = []
        for motor in motors:
            # What the motor exerts is a sum of forces of joints, and these are sums of readings.
            parts = np.linalg.lstsq(read.T, inverse[motor.row], rcond=None)[0]
            if not len(parts) or not np.allclose(parts @ read, inverse[motor.row]):
                continue
            rows = zip(forces, parts, strict=True)
            used = [(force, part) for force, part in rows if not np.isclose(part, 0.0)]
            times = max((force.samples.times for force, _ in used), key=len)
            exerted = np.full(len(times), -motor.bias)
            for force, part in used:
                above = resampled(force.samples, times) - offsets.get(force.sensor, 0.0)
                exerted += part * above / gains.get(force.sensor, 1.0)
            told = exerted[:, None] / motor.gain
            commands.append(TimeSeries.from_columns(times, told, [motor.name], SignalType.MjCtrl))
        return dataclasses.replace(sequence, commands=tuple(commands))

    return problem.with_trajectories(change)
