# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The physics of a simulated robot: commands in, noisy joint states out."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.pairs import scalar_joints
from sysid_ros.config.files import read_yaml
from sysid_ros.errors import ConfigError, ModelError, ParameterError
from sysid_ros.model.candidates import Writer
from sysid_ros.model.description import read_description
from sysid_ros.model.loading import load_spec
from sysid_ros.model.targets import Target, resolve
from sysid_ros.signals.setpoints import SetpointPath
from sysid_ros.simulation.servo_joints import ServoController, ServoJoints
from sysid_ros.vocabulary import SECOND_NS
from sysid_ros.workflows.excitation.drives import (
    Drive,
    compile_driven,
    drives,
    holding_commands,
    home_position,
    load_driven,
    settles,
)

#: What takes effect so little later is in force already, s: times are sums of floats.
_INSTANT = 1e-9
_DIVERGED = [
    int(mujoco.mjtWarning.mjWARN_BADQPOS),
    int(mujoco.mjtWarning.mjWARN_BADQVEL),
    int(mujoco.mjtWarning.mjWARN_BADQACC),
]


class TrajectoryCommand(NamedTuple):
    """Points to follow as a joint_trajectory_controller does: see `sysid_ros.signals.setpoints`.

    ``after`` are the (p,) increasing seconds from its arrival to each point. Points are (p, 3, nu)
    commands and their first and second derivatives by time; derivatives that are not given are NaN,
    and so are the commands of actuators that hold theirs.
    """

    after: NDArray[np.float64]
    points: NDArray[np.float64]


class _Change(NamedTuple):
    """A command that takes effect; a straight one was approached linearly before."""

    effect: float
    value: float
    straight: bool = False


class CommandQueue:
    """Commands per actuator, in the order in which they take effect.

    A command holds until the next, and a trajectory is followed until its end or the next command.
    Within a time step the mean over the time that each command is in force is what the servo gets:
    the integrator's step sees the same impulse as if it had been cut where the command changes.
    """

    def __init__(self, initial: NDArray[np.float64], delays: NDArray[np.float64]) -> None:
        """Start with (nu,) commands in force, and (nu,) seconds from arrival to effect."""
        self._now = 0.0
        self._current = initial.astype(np.float64)
        self._asked = self._current.copy()
        self._path: SetpointPath | None = None
        self._delays = delays
        self._pending: list[list[_Change]] = [[] for _ in initial]

    def put(self, time: float, values: NDArray[np.float64] | TrajectoryCommand) -> None:
        """Add a command that arrived at a time in s.

        It is (nu,) values, of which NaN leaves an actuator as it is, or a trajectory. What is late
        takes effect at once.
        """
        time_ns = round(time * SECOND_NS)
        if self._path is not None:
            self._asked = self._path.at(time_ns)[0]
            if time_ns >= self._path.end_ns:
                self._path = None
        if isinstance(values, TrajectoryCommand):
            self._follow(time_ns, values)
            return
        if self._path is not None:
            points = np.full((1, 3, len(values)), np.nan)
            points[0, 0] = values
            self._follow(time_ns, TrajectoryCommand(np.zeros(1), points))
            return
        for row, value in enumerate(values):
            if np.isnan(value):
                continue
            self._asked[row] = value
            pending = self._pending[row]
            key = max(time + self._delays[row], self._now)
            place = bisect.bisect_right(pending, key, key=lambda entry: entry[0])
            pending.insert(place, _Change(key, float(value)))

    def _follow(self, time_ns: int, command: TrajectoryCommand) -> None:
        points = command.points.copy()
        values = points[:, 0]  # a view
        values[:] = np.where(np.isnan(values), self._asked, values)
        if self._path is None:
            self._path = SetpointPath(self._asked)
        self._path.follow(time_ns, np.round(command.after * SECOND_NS).astype(int).tolist(), points)
        rows = self._path.rows(latest=True)
        self._path.forget(time_ns)
        effects = rows.times_ns[:, None] / SECOND_NS + self._delays
        for row, pending in enumerate(self._pending):
            del pending[bisect.bisect_left(pending, effects[0, row], key=lambda entry: entry[0]) :]
            pending += [
                _Change(effect, value, straight=True)
                for effect, value in zip(
                    effects[:, row].tolist(), rows.states[:, 0, row].tolist(), strict=True
                )
            ]

    def in_force(self) -> NDArray[np.float64]:
        """Return the (nu,) commands in force where the next step begins."""
        found: NDArray[np.float64] = self._current.copy()
        for row, pending in enumerate(self._pending):
            for effect, value, straight in pending:
                if straight or effect > self._now + _INSTANT:
                    break
                found[row] = value
        return found

    def mean(self, start: float, end: float) -> NDArray[np.float64]:
        """Return the (nu,) mean commands of a time step, and forget what is past.

        Steps must follow each other without a gap.
        """
        means: NDArray[np.float64] = self._current.copy()
        for row, pending in enumerate(self._pending):
            if not pending or (pending[0].effect >= end and not pending[0].straight):
                continue
            total, since, value = 0.0, start, float(self._current[row])
            while pending and (pending[0].effect < end or pending[0].straight):
                effect, aim, straight = pending[0]
                moment = min(max(effect, start), end)
                reached = value
                if straight:
                    share = (moment - since) / (effect - since) if effect > since else 1.0
                    reached += share * (aim - value)
                total += (value + reached) / 2 * (moment - since)
                since = moment
                if effect >= end:
                    value = reached
                    break
                value = aim
                del pending[0]
            self._current[row] = value
            means[row] = (total + value * (end - since)) / (end - start)
        self._now = end
        return means


@dataclass(frozen=True)
class Noise:
    """Standard deviations of a robot's sensors, in SI units, of the position before the encoder.

    A hinge's encoder has ``2^encoder_bits`` counts per turn; 0 means exact. Slides have none.
    """

    position: float = 0.0
    velocity: float = 0.0
    effort: float = 0.0
    encoder_bits: int = 0
    seed: int = 0


class Sample(NamedTuple):
    """What the sensors of all joints, in the order of ``Plant.joints``, say at a time in s.

    All are (n,) in SI units; efforts are of the actuators at the joint.
    """

    time: float
    position: NDArray[np.float64]
    velocity: NDArray[np.float64]
    effort: NDArray[np.float64]


class Plant:
    """A model with hidden true parameters, stepped at its own time step from time 0.

    Attributes:
        model: The compiled model, with the true values.
        joints: Names of the hinge and slide joints, in model order.
        drives: The actuators, in model order.
        timestep: Seconds.
        settled: Whether it was at rest at time 0.
    """

    def __init__(
        self,
        path: Path,
        truth: Mapping[str, float] | None = None,
        *,
        rate: float = 500.0,
        noise: Noise | None = None,
        servos: Callable[[mujoco.MjModel], ServoJoints | None] | None = None,
    ) -> None:
        """Compile a model, write the truth into it and let it come to rest in its home pose.

        Args:
            path: MJCF, or a URDF, whose joints position servos drive.
            truth: Target or pattern of targets, as ``joint/*/damping``, to the true value.
            rate: Samples per second.
            noise: Of the sensors; default none.
            servos: From the compiled model to the joints that servos drive; default none. Their
                commands are positions.

        Raises:
            ModelError: The model cannot be compiled, has no named hinge or slide joint, or is
                unstable at rest.
            ParameterError: A target of the truth is unknown.
            ConfigError: The rate is above one sample per time step.
        """
        self._name = str(path)
        # An MJCF without actuators may be meant to swing; a URDF cannot say what drives it.
        urdf = read_description(path).urdf is not None
        spec = load_driven(path) if urdf else load_spec(path)
        self.joints = tuple(scalar_joints(compile_driven(spec, path)))
        if not self.joints:
            raise ModelError(
                f'Expected a hinge or slide joint with a name in {str(path)!r}, found none.'
            )
        for joint in self.joints:
            spec.add_sensor(
                type=mujoco.mjtSensor.mjSENS_JOINTACTFRC,
                objtype=mujoco.mjtObj.mjOBJ_JOINT,
                objname=joint,
            )
        delays = _take_delays(spec)
        self.model = compile_driven(spec, path)
        self.timestep = float(self.model.opt.timestep)
        self._rate = rate
        if rate * self.timestep > 1.0 + 1e-9:
            raise ConfigError(
                f'Expected a rate of at most {1 / self.timestep:g} Hz, one sample per time step of '
                f'{str(path)!r}, found {rate:g} Hz.'
            )
        _write_truth(self.model, truth or {}, delays)
        self.drives: tuple[Drive, ...] = drives(self.model)
        driven = servos(self.model) if servos is not None else None
        if driven is not None:
            self.model = driven.model
        self._sensors = _Sensors(self.model, self.joints, noise or Noise())
        self._data = mujoco.MjData(self.model)
        self._data.qpos[:] = home_position(self.model)
        held = holding_commands(self.model, self._data.qpos)
        self._driven, self._servos = driven, None
        if driven is not None:
            held[driven.controls] = self._data.qpos[driven.qpos]
            self._servos = ServoController(driven, self._data)
        self.settled = settles(self._data, self.timestep, lambda: self._advance(held))
        self._check(0.0)
        self._data.time = 0.0
        self._queue = CommandQueue(held, delays)
        self._step = 0
        self._samples = 0

    @property
    def time(self) -> float:
        """Seconds that were simulated so far."""
        return self._step * self.timestep

    def command(self, time: float, values: NDArray[np.float64] | TrajectoryCommand) -> None:
        """Tell the servos where to go; see `CommandQueue.put`."""
        self._queue.put(time, values)

    def advance(self, until: float) -> Iterator[Sample]:
        """Simulate all whole steps up to a time in s, yielding the samples on the way.

        Sample k is of the step nearest to k / rate. Commands that arrive by then less their delay
        must have been given.

        Raises:
            ModelError: The simulation became unstable.
        """
        # The small part keeps a step whose end is this very time, which floating point puts after.
        last = int(np.floor(until / self.timestep + 1e-6))
        while self._step < last:
            start = self._step * self.timestep
            in_force = self._queue.in_force()
            commands = self._queue.mean(start, (self._step + 1) * self.timestep)
            if self._step != round(self._samples / (self._rate * self.timestep)):
                self._advance(commands)
                self._step += 1
                continue
            position, velocity = self._sensors.state(self._data)
            if self._driven is None:
                # A driver reads the force under the command that is in force then.
                self._data.ctrl[:] = in_force
                mujoco.mj_forward(self.model, self._data)
                effort = self._sensors.effort(self._data)
                self._advance(commands)
            else:
                self._advance(commands)
                effort = self._sensors.effort(self._data)
            self._step += 1
            self._samples += 1
            self._check(start)
            yield self._sensors.measure(start, position, velocity, effort)

    def _advance(self, commands: NDArray[np.float64]) -> None:
        """Make one step with (nu,) commands."""
        self._data.ctrl[:] = commands
        if self._driven is not None and self._servos is not None:  # goals become torques
            self._servos.goal[:] = self._data.ctrl[self._driven.controls]
            self._servos.update()
        mujoco.mj_step(self.model, self._data)

    def _check(self, time: float) -> None:
        """Stop where MuJoCo has found the state unbounded and started anew from ``qpos0``."""
        if self._data.warning.number[_DIVERGED].any():
            raise ModelError(f'The simulation of {self._name!r} became unstable at {time:g} s.')


class _Sensors:
    """Position, velocity and effort of named joints, with their errors."""

    def __init__(self, model: mujoco.MjModel, joints: tuple[str, ...], noise: Noise) -> None:
        rows = [model.joint(name).id for name in joints]
        self._qpos = model.jnt_qposadr[rows]
        self._dofs = model.jnt_dofadr[rows]
        self._efforts = model.sensor_adr[-len(joints) :]
        hinge = model.jnt_type[rows] == int(mujoco.mjtJoint.mjJNT_HINGE)
        self._encoded = np.flatnonzero(hinge) if noise.encoder_bits else np.zeros(0, np.int64)
        self._count = 2.0 * np.pi / 2.0**noise.encoder_bits
        self._noise = noise
        self._rng = np.random.default_rng(noise.seed)

    def state(self, data: mujoco.MjData) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return copies of the true positions and velocities."""
        return data.qpos[self._qpos], data.qvel[self._dofs]

    def effort(self, data: mujoco.MjData) -> NDArray[np.float64]:
        """Return a copy of the true forces, as they were computed last."""
        return np.asarray(data.sensordata[self._efforts])

    def measure(
        self,
        time: float,
        position: NDArray[np.float64],
        velocity: NDArray[np.float64],
        effort: NDArray[np.float64],
    ) -> Sample:
        errors = self._rng.standard_normal((3, len(position)))
        position = position + self._noise.position * errors[0]
        counts = np.round(position[self._encoded] / self._count)
        position[self._encoded] = counts * self._count
        return Sample(
            time,
            position,
            velocity + self._noise.velocity * errors[1],
            effort + self._noise.effort * errors[2],
        )


def _take_delays(spec: mujoco.MjSpec) -> NDArray[np.float64]:
    """Take the delays out of a model's actuators: the queue of commands applies them exactly."""
    delays = np.array([actuator.delay for actuator in spec.actuators], dtype=np.float64)
    for actuator in spec.actuators:
        actuator.delay = 0.0
        actuator.nsample = 0
    return delays


def load_truth(path: Path) -> dict[str, float]:
    """Read a YAML file of ``target: value``.

    Raises:
        ConfigError: The file cannot be read, or a value is not a finite number.
    """
    truth: dict[str, float] = {}
    for pattern, value in read_yaml(path).items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not math.isfinite(value):
            raise ConfigError(
                f'Expected a number for {str(pattern)!r} in {str(path)!r}, found {value!r}.'
            )
        truth[str(pattern)] = float(value)
    return truth


def _write_truth(
    model: mujoco.MjModel, truth: Mapping[str, float], delays: NDArray[np.float64]
) -> None:
    """Write true values into a model, and delays into the (nu,) seconds beside it.

    Where two patterns name the same target, the later wins.

    Raises:
        ParameterError: A target is unknown, or its value is impossible.
    """
    values: dict[str, tuple[Target, float]] = {}
    for pattern, value in truth.items():
        for target in resolve(pattern, model):
            lower, upper = target.bounds
            if not lower <= value <= upper:
                raise ParameterError(
                    f'Expected {pattern!r} between {lower:g} and {upper:g}, found {value:g}.'
                )
            if not (target.in_model or (target.in_mjcf and target.attribute == 'delay')):
                raise ParameterError(
                    f"Expected a number of the model or an actuator's delay, found {pattern!r}, "
                    'which a simulated robot cannot hide.'
                )
            values[target.path] = target, value
    for target, value in values.values():
        if not target.in_model:
            delays[target.row] = value
    writer = Writer(model, [(target, row) for row, (target, _) in enumerate(values.values())])
    writer.write(model, np.array([value for _, value in values.values()]))
    mujoco.mj_setConst(model, mujoco.MjData(model))
