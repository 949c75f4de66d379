# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Motions tried on the model before a robot moves: limits, and information about parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ModelError
from sysid_ros.estimation.differences import scales
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.excitation.drives import drives, holding_commands, home_position
from sysid_ros.excitation.limits import CLEARANCE, Collisions, Limits
from sysid_ros.excitation.motion import Motion, approach
from sysid_ros.model.joints import SCALAR_JOINTS
from sysid_ros.model.loading import compile_spec
from sysid_ros.model.unknown import Unknown
from sysid_ros.rollout.prediction import make_simulator
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.signals.trajectory import Trajectory

_SENSORS = mujoco.mjtSensor
#: Standard deviations that sensors have unless the MJCF says another, in SI units: of the size that
#: data sheets of robots and industrial sensors promise at 100 Hz. Positions are those of encoders
#: of 14 bits, with a uniform rounding error.
_NOISE = {
    **dict.fromkeys(
        (_SENSORS.mjSENS_JOINTPOS, _SENSORS.mjSENS_ACTUATORPOS, _SENSORS.mjSENS_TENDONPOS), 1.5e-4
    ),
    **dict.fromkeys(
        (_SENSORS.mjSENS_JOINTVEL, _SENSORS.mjSENS_ACTUATORVEL, _SENSORS.mjSENS_TENDONVEL), 5e-3
    ),
    **dict.fromkeys(
        (
            _SENSORS.mjSENS_JOINTACTFRC,
            _SENSORS.mjSENS_ACTUATORFRC,
            _SENSORS.mjSENS_TENDONACTFRC,
            _SENSORS.mjSENS_ACCELEROMETER,
        ),
        5e-2,
    ),
    _SENSORS.mjSENS_GYRO: 5e-3,
    _SENSORS.mjSENS_FORCE: 0.5,
    _SENSORS.mjSENS_TORQUE: 2e-2,
    _SENSORS.mjSENS_FRAMEPOS: 1e-3,
    _SENSORS.mjSENS_FRAMEQUAT: 1e-3,
    _SENSORS.mjSENS_MAGNETOMETER: 1e-3,
}
#: Step of the differences, in units of the parameters' scales: derivatives are then right to some
#: 1e-4, and clear of the noise of MuJoCo's solver.
_STEP = 1e-4
#: Names of the sensors that are added to the model to see what the limits are about.
_OWN = '_excitation'
_OF_JOINTS = (
    _SENSORS.mjSENS_JOINTPOS,
    _SENSORS.mjSENS_JOINTVEL,
    _SENSORS.mjSENS_JOINTACTFRC,
)
#: 97.5 % quantile of the normal distribution: half-widths of 95 % intervals in standard errors.
QUANTILE = 1.959964
#: Configurations are looked at for collisions so often, s.
_COLLISION_PERIOD = 0.04
#: Where parameters are off, they are looked at so many times less often: servos take nearly the
#: same way.
_COARSER = 5
#: The robot gets so long to sag into its home pose before a motion, s.
_SETTLING = 5.0
_REST_SPEED = 1e-5


def sensor_noise(model: mujoco.MjModel) -> dict[str, float]:
    """Return the standard deviation of each named sensor: its ``noise`` in the MJCF, or the usual.

    Sensors of which nothing is known are left out.

    Raises:
        ModelError: No sensor has a name and a noise.
    """
    found = {}
    for row in range(model.nsensor):
        name, usual = model.sensor(row).name, _NOISE.get(_SENSORS(int(model.sensor_type[row])), 0.0)
        sigma = float(model.sensor_noise[row]) or usual
        if name and sigma:
            found[name] = sigma
    if not found:
        raise ModelError(
            'Expected named sensors such as <jointpos name="q" joint="j"/> in the model, found '
            'none; without them nothing can be learnt from a motion.'
        )
    return found


class Excursion(NamedTuple):
    """How far simulations of a motion go, the worst of several models.

    Attributes:
        parts: (k,) used parts of all limits, as ``Limits.parts`` returns them.
        distance: Least distance of bodies that may collide, m; infinite where none is near.
        diverged: Whether a simulation became unstable.
    """

    parts: NDArray[np.float64]
    distance: float
    diverged: bool

    def blocked(self, limits: Limits) -> bool:
        """Whether it is more than the amplitude of one actuator that is too large."""
        return self.diverged or self.distance < limits.clearance

    def broken(self, limits: Limits) -> str:
        """Return which limit is broken, with the numbers; empty where all are kept."""
        most = max(limits.usage(self.parts), key=lambda use: use.part / use.allowed)
        if not most.kept:
            return f'a limit: {most.what} of {most.name!r} at {100 * most.part:.0f} %'
        if self.distance < limits.clearance:
            return f'a limit: bodies come as near as {1e3 * self.distance:.1f} mm'
        return 'the simulation' if self.diverged else ''


class SimulatedMotion(NamedTuple):
    """One simulation of a motion.

    Attributes:
        qpos: (n, nq) in each step.
        qvel: (n, nv).
        forces: (n, nu) of the actuators.
        torques: (n, njnt) of all actuators at each joint.
        diverged: Whether it became unstable.
    """

    qpos: NDArray[np.float64]
    qvel: NDArray[np.float64]
    forces: NDArray[np.float64]
    torques: NDArray[np.float64]
    diverged: bool


class Experiment:
    """A model with sensors of known noise, on which motions are tried out.

    Attributes:
        unknowns: The parameters.
        limits: What motions must not exceed.
        collisions: Finds bodies that come near to each other.
        noise: Sensor name to standard deviation.
        rate: Samples of every sensor per second.
        nominal: (p,) values that motions are designed for.
        lower: (p,) least values.
        upper: (p,) largest values.
    """

    def __init__(
        self,
        spec: mujoco.MjSpec,
        path: Path,
        unknowns: Sequence[Unknown],
        limits: Limits,
        noise: Mapping[str, float],
        *,
        rate: float,
        threads: int = 0,
    ) -> None:
        """Add sensors for the limits to a copy of the model.

        ``path`` is that of the model, for messages; with 0 threads, each core has one.
        """
        self.unknowns = tuple(unknowns)
        self.limits = limits
        self.collisions = Collisions(limits.model, limits.clearance)
        self.noise = dict(noise)
        self.rate = rate
        self.nominal = np.array([unknown.nominal for unknown in unknowns])
        self.lower = np.array([unknown.min_value for unknown in unknowns])
        self.upper = np.array([unknown.max_value for unknown in unknowns])
        own = _with_probes(spec)
        self._probes = _probes(compile_spec(own, path))
        self._start = _settled(limits.model)
        still = np.tile(holding_commands(limits.model, home_position(limits.model)), (2, 1))
        names = tuple(drive.actuator for drive in drives(limits.model))
        shortest = self.sequence(Motion(np.array([0.0, 0.1]), still, names))
        self._simulator = make_simulator(own, self.unknowns, [shortest], threads)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._simulator.close()

    def information(self, motion: Motion, since: float = 0.0) -> NDArray[np.float64]:
        """Return the (p, p) information JᵀJ of recording a motion, J being the `jacobian`."""
        jacobian = self.jacobian(motion, since)
        found: NDArray[np.float64] = jacobian.T @ jacobian
        return found

    def jacobian(
        self, motion: Motion, since: float = 0.0, values: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return the (n, p) derivative of measured minus predicted by the parameters.

        It is in units of the sensors' noise per unit of the parameters, at the nominal values
        unless others are given, instant by instant in the order of ``noise``, from a time in s on;
        NaN where the simulation becomes unstable.
        """
        residuals = Residuals(self._simulator.of([self.sequence(motion, since)]), self.noise)
        x = self.nominal if values is None else values
        size = np.minimum(_STEP * scales(self.unknowns), (self.upper - self.lower) / 4)
        steps = np.where(x - self.lower > self.upper - x, -size, size)  # from the nearer bound
        around = residuals.step_changes(x, steps)
        measured = residuals.samples.sensor >= 0
        if around.unstable or around.diverged.any():
            return np.full((int(measured.sum()), len(x)), np.nan)
        found: NDArray[np.float64] = around.changes[measured] / steps
        return found

    def excursion(self, motion: Motion, candidates: NDArray[np.float64]) -> Excursion:
        """Simulate (m, p) candidates and return how far the worst of them goes."""
        stride = max(round(_COLLISION_PERIOD / self.limits.model.opt.timestep), 1)
        traces = self._traces(motion, candidates)
        parts = [
            self.limits.parts(trace.qpos, trace.qvel, trace.forces, trace.torques, motion.commands)
            for trace in traces
        ]
        distances = [
            self.collisions.distance(trace.qpos[:: stride if place == 0 else _COARSER * stride])
            for place, trace in enumerate(traces)
        ]
        diverged = any(trace.diverged for trace in traces)
        return Excursion(np.max(parts, axis=0), min(distances), diverged)

    def trace(self, motion: Motion) -> SimulatedMotion:
        """Simulate a motion with the nominal values."""
        return self._traces(motion, self.nominal[None])[0]

    def _traces(self, motion: Motion, candidates: NDArray[np.float64]) -> list[SimulatedMotion]:
        simulator = self._simulator.of([self.sequence(motion)])
        found = []
        for block in simulator.simulate(candidates, [np.arange(len(candidates))]):
            for rows, diverged in zip(block.rows['sensordata'], block.diverged, strict=True):
                qpos, qvel, forces, torques = (rows[:, own].copy() for own in self._probes)
                found.append(SimulatedMotion(qpos, qvel, forces, torques, bool(diverged)))
        return found

    def sequence(self, motion: Motion, since: float = 0.0) -> Trajectory:
        """Return the recording of a motion, with numbers in place of measurements."""
        model = self.limits.model
        times = np.arange(np.ceil(since * self.rate), np.floor(motion.duration * self.rate) + 1)
        times /= self.rate
        columns, mapping = 0, {}
        for name in self.noise:
            width = int(model.sensor_dim[model.sensor(name).id])
            mapping[name] = (SignalType.MjSensor, np.arange(columns, columns + width))
            columns += width
        # Values do not matter to a derivative; they differ, or the sensor would count as dead.
        values = np.tile(np.arange(len(times))[:, None] % 2.0, (1, columns))
        commands = {
            name: (SignalType.MjCtrl, np.array([column]))
            for column, name in enumerate(motion.actuators)
        }
        return Trajectory(
            'motion',
            0,
            self._start,
            np.zeros(model.nv),
            (TimeSeries(motion.times, motion.commands, commands),),
            (TimeSeries(times, values, mapping),),
        )


def _with_probes(spec: mujoco.MjSpec) -> mujoco.MjSpec:
    """Return a copy with a sensor for everything that has a limit, and names for all that moves."""
    own = spec.copy()
    for number, joint in enumerate(own.joints):
        joint.name = joint.name or f'{_OWN}_joint{number}'
        for kind in _OF_JOINTS:
            own.add_sensor(
                name=f'{_OWN}_{kind.name}_{number}',
                type=kind,
                objtype=mujoco.mjtObj.mjOBJ_JOINT,
                objname=joint.name,
            )
    for number, actuator in enumerate(own.actuators):
        # The name that an actuator without one has in a motion.
        actuator.name = actuator.name or f'actuator_{number}'
        own.add_sensor(
            name=f'{_OWN}_force_{number}',
            type=_SENSORS.mjSENS_ACTUATORFRC,
            objtype=mujoco.mjtObj.mjOBJ_ACTUATOR,
            objname=actuator.name,
        )
    return own


def _probes(model: mujoco.MjModel) -> tuple[NDArray[np.int64], ...]:
    """Return the columns of positions, velocities, actuators' forces and joints' torques."""
    own = [row for row in range(model.nsensor) if model.sensor(row).name.startswith(_OWN)]

    def columns(kind: mujoco.mjtSensor) -> NDArray[np.int64]:
        rows = [row for row in own if model.sensor_type[row] == kind]
        rows.sort(key=lambda row: int(model.sensor_objid[row]))
        return np.array([model.sensor_adr[row] for row in rows], dtype=np.int64)

    position, velocity, torque = (columns(kind) for kind in _OF_JOINTS)
    return position, velocity, columns(_SENSORS.mjSENS_ACTUATORFRC), torque


def _settled(model: mujoco.MjModel) -> NDArray[np.float64]:
    """Return the (nq,) pose into which the robot sags when it is told to hold its home pose."""
    data = mujoco.MjData(model)
    data.qpos[:] = home_position(model)
    data.ctrl[:] = holding_commands(model, data.qpos)
    for _ in range(int(_SETTLING / model.opt.timestep)):
        mujoco.mj_step(model, data)
        if np.max(np.abs(data.qvel)) < _REST_SPEED:
            break
    else:
        return home_position(model)
    return np.array(data.qpos)


def rehearse(spec: mujoco.MjSpec, path: Path, motion: Motion, limits: Limits) -> None:
    """Simulate a motion, and what leads to it from the home pose, and refuse what breaks a limit.

    Raises:
        ModelError: A limit is broken, bodies come too near to each other, or the simulation
            becomes unstable.
    """
    model = limits.model
    rate = 1.0 / float(motion.times[1] - motion.times[0])
    whole = approach(motion, holding_commands(model, home_position(model)), rate=rate)
    with Experiment(spec, path, (), limits, {}, rate=rate) as experiment:
        found = experiment.excursion(whole, np.zeros((1, 0)))
    broken = found.broken(limits)
    if broken:
        raise ModelError(
            f'Expected a motion inside the limits of {str(path)!r}, found one that breaks {broken}.'
        )


def lead_in(
    model: mujoco.MjModel, motion: Motion, pose: NDArray[np.float64], *, rate: float
) -> Motion:
    """Return a motion with a move from a pose in front, and refuse a move into a collision.

    Of what stands or flies nobody knows where it is: its move is not looked at.

    Args:
        model: The compiled model.
        motion: The motion.
        pose: (nq,) where the robot is; what touches there does not count.
        rate: Commands per second.

    Raises:
        ModelError: Bodies come too near to each other, if servos do as they are told.
    """
    whole = approach(motion, holding_commands(model, pose), rate=rate)
    if not np.all(np.isin(model.jnt_type, SCALAR_JOINTS)):
        return whole
    commands = whole.commands[: len(whole.times) - len(motion.times) + 1]
    asked = np.tile(pose, (len(commands), 1))
    for column, drive in enumerate(drives(model)):
        if drive.takes_positions and drive.joint:
            address = model.jnt_qposadr[model.joint(drive.joint).id]
            asked[:, address] = (commands[:, column] - drive.offset) / drive.slope
    distance = Collisions(model, CLEARANCE, pose).distance(asked)
    if distance < CLEARANCE:
        raise ModelError(
            'Expected a free way from where the robot is to where the motion begins, found bodies '
            f'that come as near as {1e3 * distance:.1f} mm on it.'
        )
    return whole
