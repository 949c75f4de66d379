# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Motions tried on the model before a robot moves, and the one that says most about parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import mujoco
import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sysid_ros.alignment.health import LITTLE, MOST
from sysid_ros.errors import ConfigError, ModelError, ParameterError
from sysid_ros.fit.differences import scales
from sysid_ros.fit.residuals import Residuals
from sysid_ros.model.elements import SCALAR_JOINTS
from sysid_ros.model.loading import compile_spec
from sysid_ros.model.targets import Unknown
from sysid_ros.signals import SignalType, TimeSeries, Trajectory
from sysid_ros.simulation.prediction import make_simulator
from sysid_ros.uncertainty.covariance import QUANTILE
from sysid_ros.workflows.excitation.drives import (
    CLEARANCE,
    Collisions,
    Drive,
    Limits,
    Usage,
    drives,
    holding_commands,
    home_position,
    settles,
)
from sysid_ros.workflows.excitation.motion import (
    AMPLITUDE_POWER,
    SINES,
    Motion,
    approach,
    quintic,
    ramp_window,
    sample_times,
)

_SENSORS = mujoco.mjtSensor
#: Standard deviations that sensors have unless the MJCF says another, in SI units: of the size that
#: data sheets of robots and industrial sensors promise at 100 Hz. Positions are those of encoders
#: of 14 bits, with a uniform rounding error.
_NOISE = {
    getattr(_SENSORS, f'mjSENS_{kind}'): sigma
    for sigma, kinds in (
        (1.5e-4, ('JOINTPOS', 'ACTUATORPOS', 'TENDONPOS')),
        (5e-3, ('JOINTVEL', 'ACTUATORVEL', 'TENDONVEL', 'GYRO')),
        (5e-2, ('JOINTACTFRC', 'ACTUATORFRC', 'TENDONACTFRC', 'ACCELEROMETER')),
        (0.5, ('FORCE',)),
        (2e-2, ('TORQUE',)),
        (1e-3, ('FRAMEPOS', 'FRAMEQUAT', 'MAGNETOMETER')),
    )
    for kind in kinds
}
#: Step of the differences, in units of the parameters' scales: derivatives are then right to some
#: 1e-4, and clear of the noise of MuJoCo's solver.
_STEP = 1e-4
#: Names of the sensors that are added to the model to see what the limits are about.
_OWN = '_excitation'
_OF_JOINTS = _SENSORS.mjSENS_JOINTPOS, _SENSORS.mjSENS_JOINTVEL, _SENSORS.mjSENS_JOINTACTFRC
#: Configurations are looked at for collisions so often, s.
_COLLISION_PERIOD = 0.04
#: Called with what happens, and which part of the work is done.
Observer = Callable[[str, float], None]
#: Seconds over which a motion fades in, and out.
RAMP = 1.0
#: Seconds of one period, about: short enough to repeat, long enough for slow and fast sines.
_PERIOD = 5.0
#: Poses in a period.
_POSES = 4
#: Motions are drawn at random so often, and so often the best one is changed at random.
_RANDOM, _CHANGED = 40, 110
#: The criterion is the sum of the relative widths to this power: 2 is A-optimality, more looks at
#: the widest. That of two links in `benchmarks/excitation.py` is .87 times as wide as with 2 (three
#: seeds).
_POWER = 6
#: How far the true parameters may be off while no limit is broken, as a part of their values, and
#: on how many models with such parameters the motion is checked.
UNCERTAINTY, _CHECKED = 0.2, 8
#: Amplitudes are fitted to the limits so often.
_FITS = 3


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

    Parts are the (k,) of `Limits.parts`; the least distance of bodies that may collide, m, is
    infinite where none is near.
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
    """One simulation: in n steps the (n, nu) forces of actuators, (n, njnt) torques at joints."""

    qpos: NDArray[np.float64]
    qvel: NDArray[np.float64]
    forces: NDArray[np.float64]
    torques: NDArray[np.float64]
    diverged: bool


class Experiment:
    """A model with limits and sensors of known noise, on which motions are tried out.

    Noise is by sensor, the rate that of its samples, Hz. Motions are designed for the (p,) nominal
    values of the parameters, which are between lower and upper.
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
        distances = [self.collisions.distance(trace.qpos[::stride]) for trace in traces]
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
    settled = settles(data, model.opt.timestep, lambda: mujoco.mj_step(model, data))
    return np.array(data.qpos) if settled else home_position(model)


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
    """Return a motion with a move from a (nq,) pose in front; refuse a move into a collision.

    Of what stands or flies nobody knows where it is: its move is not looked at.

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


@dataclass(frozen=True)
class Plan:
    """A family of motions: all coefficients of some shapes in time.

    The command of actuator j is ``home_j + span_j * shapes @ x_j``. The shapes are a ramped
    constant, then sines and cosines over whole periods, s, then moves from pose to pose, which
    visit each once in a period. All are (n, m), and begin and end at rest and at zero.
    """

    drives: tuple[Drive, ...]
    times: NDArray[np.float64]
    shapes: NDArray[np.float64]
    period: float
    periods: int

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (nu, m) of the coefficients."""
        return len(self.drives), self.shapes.shape[1]

    def motion(self, x: NDArray[np.float64], seconds: float = np.inf) -> Motion:
        """Return the motion of (nu, m) coefficients, or its first seconds."""
        count = int(np.searchsorted(self.times, seconds + 1e-9))
        home = np.array([drive.home for drive in self.drives])
        spans = np.array([(drive.upper - drive.lower) / 2 for drive in self.drives])
        names = tuple(drive.actuator for drive in self.drives)
        return Motion(self.times[:count].copy(), home + spans * (self.shapes[:count] @ x.T), names)

    def random(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return random coefficients: slow and fast sines and poses in any proportion."""
        x: NDArray[np.float64] = 0.1 * rng.standard_normal(self.shape)
        sines = rng.uniform()
        # Of each actuator, slow sines or fast ones may be up to seven times larger.
        numbers = np.linspace(-1.0, 1.0, (self.shape[1] - 1 - _POSES) // 2)
        tilts = np.exp(rng.uniform(-1.0, 1.0, len(x))[:, None] * np.tile(numbers, 2))
        x[:, 1:-_POSES] *= sines * tilts
        x[:, -_POSES:] *= 3 * (1 - sines)
        x[:, 0] = rng.uniform(-0.3, 0.3, len(x))
        return x


def make_plan(
    chosen: Sequence[Drive], *, duration: float, rate: float, max_frequency: float
) -> Plan:
    """Divide a duration in s into ramps and whole periods; rates and frequencies are in Hz.

    Raises:
        ConfigError: The duration is too short for a period at that frequency.
    """
    between = duration - 2 * RAMP
    periods = max(round(between / _PERIOD), 1)
    period = between / periods
    highest = int(period * max_frequency + 1e-9)
    if highest < 1:
        raise ConfigError(
            f'Expected a duration of at least {2 * RAMP + 1 / max_frequency:.3g} s for sines of up '
            f'to {max_frequency:g} Hz, found {duration:g} s.'
        )
    times = sample_times(duration, rate)
    phase = (times - RAMP) / period
    numbers = np.unique(np.round(np.geomspace(1, highest, min(SINES, highest))))
    angles = 2 * np.pi * phase[:, None] * numbers
    sines = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    sines *= np.tile(numbers**-AMPLITUDE_POWER, 2)
    # How far each instant is from each pose, in moves.
    slots = phase[:, None] * _POSES - np.arange(_POSES)
    away = np.abs((slots + _POSES / 2) % _POSES - _POSES / 2)
    poses = quintic(1.5 - 2 * away)  # a move takes half of the time from pose to pose
    shapes = np.concatenate([np.ones((len(times), 1)), sines, poses], axis=1)
    shapes *= ramp_window(times, 0.0, duration, RAMP)[:, None]
    return Plan(tuple(chosen), times, shapes, period, periods)


@dataclass(frozen=True)
class Unexcited:
    """A parameter that no motion of the family says anything about, and why."""

    parameter: Unknown
    reason: str


@dataclass(frozen=True)
class Design:
    """A motion worth recording.

    The intervals of its parameters, all but the unexcited, have (p,) predicted half-widths in their
    units. ``usage`` is how much of each limit it uses at most on as many models, with parameters
    off, and bodies that may collide keep a distance, m.
    """

    motion: Motion
    parameters: tuple[Unknown, ...]
    half: NDArray[np.float64]
    usage: tuple[Usage, ...]
    distance: float
    unexcited: tuple[Unexcited, ...]
    models: int


def design(
    experiment: Experiment, plan: Plan, *, seed: int = 0, observe: Observer | None = None
) -> Design:
    """Find the motion of a plan with the narrowest intervals inside the limits.

    Random motions, then random changes of the best, each with amplitudes that just reach the
    limits, are compared by the information of a period: by a high power of the widths of intervals,
    relative to the parameters' scales. The best one is then made smaller until models whose
    parameters are off keep all limits.

    Equal seeds give equal motions; ``observe`` is called with what happens and the part done.

    Raises:
        ModelError: The limits leave no room for any motion.
        ParameterError: No parameter can be excited.
    """
    tell = observe or (lambda _text, _part: None)
    rng = np.random.default_rng(seed)
    search = _Search(experiment, plan)
    search.check_room()
    tell('trying random motions', 0.0)
    best, kept, unexcited = search.best(rng, lambda part: tell('searching', part))
    tell('checking the limits', 0.0)
    candidates = off(experiment, _CHECKED, rng)
    best, worst = search.inside(best, candidates)
    motion = plan.motion(best)
    return Design(
        motion,
        tuple(experiment.unknowns[row] for row in kept),
        half_widths(experiment.information(motion)[np.ix_(kept, kept)]),
        experiment.limits.usage(worst.parts),
        worst.distance,
        unexcited,
        len(candidates),
    )


def off(experiment: Experiment, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return (1 + count, p) parameters: nominal, then all 20 % off, up or down at random."""
    nominal = experiment.nominal
    signs = rng.choice([-1.0, 1.0], (count, len(nominal)))
    moved = np.clip(nominal * (1 + UNCERTAINTY * signs), experiment.lower, experiment.upper)
    return np.concatenate([nominal[None], moved])


def half_widths(information: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the (p,) half-widths of 95 % intervals of a (p, p) information.

    They are NaN where the information does not determine all parameters.
    """
    size = np.sqrt(np.diag(information))
    undetermined = np.full(len(size), np.nan)
    if not np.all(np.isfinite(size)) or not np.all(size > 0):
        return undetermined
    try:
        inverse = np.linalg.inv(information / np.outer(size, size))
    except np.linalg.LinAlgError:
        return undetermined
    with np.errstate(invalid='ignore'):
        half: NDArray[np.float64] = QUANTILE * np.sqrt(np.diag(inverse)) / size
    return half


class _Search:
    """Finds coefficients of a plan, by the first ramp and period of their motions."""

    def __init__(self, experiment: Experiment, plan: Plan) -> None:
        self._experiment = experiment
        self._plan = plan
        # Per actuator, the limits that its amplitude is to respect.
        usage = experiment.limits.usage(experiment.limits.allowed)
        self._owners = [
            [
                row
                for row, use in enumerate(usage)
                if not drive.joint or use.name in (drive.actuator, drive.joint)
            ]
            for drive in drives(experiment.limits.model)
        ]

    def check_room(self) -> None:
        """Refuse limits that are used up when nothing moves."""
        rest = self._reached(np.zeros(self._plan.shape))
        broken = rest.broken(self._experiment.limits)
        if broken:
            raise ModelError(
                f'Expected room for a motion around the home pose, found that rest breaks {broken}.'
            )

    def best(
        self, rng: np.random.Generator, tell: Callable[[float], None]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], tuple[Unexcited, ...]]:
        """Return the (nu, m) coefficients that say most, about which parameters, and the others."""
        plan, unknowns = self._plan, self._experiment.unknowns
        drawn = []
        for number in range(_RANDOM):
            x = self.fitted(plan.random(rng))
            found = self.information(x)
            drawn += [(x, found)] if np.all(np.isfinite(found)) else []
            tell((number + 1) / (_RANDOM + _CHANGED))
        if not drawn:
            raise ModelError('Expected a motion whose simulation stays stable, found none.')
        unexcited = _unexcited(unknowns, np.sum([found for _, found in drawn], axis=0))
        lost = {item.parameter.name for item in unexcited}
        kept = np.flatnonzero([unknown.name not in lost for unknown in unknowns])
        if not len(kept):
            names = ', '.join(sorted(lost))
            raise ParameterError(f'Expected a parameter that motion can tell, found none: {names}.')
        sizes = scales(unknowns)[kept]

        def cost(information: NDArray[np.float64]) -> float:
            widths = half_widths(information[np.ix_(kept, kept)]) / sizes
            return float(np.nan_to_num(np.sum(widths**_POWER), nan=np.inf))

        costs = [cost(found) for _, found in drawn]
        least = min(costs)
        best = drawn[costs.index(least)][0]
        for number in range(_CHANGED):
            # Some or all coefficients change, by a little or by as much as they are.
            changed = rng.uniform(size=plan.shape) < rng.uniform()
            size = LITTLE ** rng.uniform() * np.maximum(np.mean(np.abs(best), axis=0), 1e-2)
            x = self.fitted(best + changed * size * rng.standard_normal(plan.shape))
            reached = cost(self.information(x))
            if reached < least:
                best, least = x, reached
            tell((_RANDOM + number + 1) / (_RANDOM + _CHANGED))
        return best, kept, unexcited

    def fitted(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return coefficients with which each actuator just reaches a limit of its own."""
        for _ in range(_FITS):
            x = self._scaled(x, self._reached(x))
        return x

    def inside(
        self, x: NDArray[np.float64], candidates: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], Excursion]:
        """Fit the whole motion to the limits of all models, then shrink it until none breaks."""
        limits = self._experiment.limits
        for _ in range(_FITS):
            x = self._scaled(x, self._experiment.excursion(self._plan.motion(x), candidates))
        while True:
            worst = self._experiment.excursion(self._plan.motion(x), candidates)
            broken = worst.broken(limits)
            if not broken:
                return x, worst
            if np.abs(x).max() < LITTLE:
                raise ModelError(
                    'Expected room for a motion around the home pose, found that even a small one '
                    f'breaks {broken}.'
                )
            x[(self._used(worst) > 1) | worst.blocked(limits)] *= 1 - LITTLE

    def information(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (p, p) information of one period, per unit of the parameters."""
        return self._experiment.information(self._period(x), RAMP)

    def _period(self, x: NDArray[np.float64]) -> Motion:
        return self._plan.motion(x, RAMP + self._plan.period)

    def _reached(self, x: NDArray[np.float64]) -> Excursion:
        return self._experiment.excursion(self._period(x), self._experiment.nominal[None])

    def _used(self, reached: Excursion) -> NDArray[np.float64]:
        """Return (nu,) the largest used part of each actuator's allowed limits, half at least."""
        used = reached.parts / self._experiment.limits.allowed
        return np.array([np.max(used[owned], initial=MOST) for owned in self._owners])

    def _scaled(self, x: NDArray[np.float64], reached: Excursion) -> NDArray[np.float64]:
        """Return coefficients whose amplitudes use what the limits allow, if all were linear."""
        step = 1 / self._used(reached)
        if reached.blocked(self._experiment.limits):
            step = np.minimum(step, 0.8)
        # A centre outside of the limits comes back.
        centre = np.sqrt(np.minimum(step, 1.0))
        factors = np.concatenate([centre[:, None], np.tile(step[:, None], x.shape[1] - 1)], axis=1)
        scaled: NDArray[np.float64] = x * factors
        return scaled


def _unexcited(
    unknowns: tuple[Unknown, ...], information: NDArray[np.float64]
) -> tuple[Unexcited, ...]:
    """Return the parameters without effect, and those that others stand for completely."""
    if not np.all(np.isfinite(information)):
        raise ModelError('Expected simulations that stay stable with small motions, found none.')
    spans = np.array([unknown.max_value - unknown.min_value for unknown in unknowns])
    size = np.sqrt(np.diag(information))
    # Even with all others known the interval would be as wide as the bounds.
    seen = np.flatnonzero(size * spans > QUANTILE)
    found = [
        Unexcited(unknown, 'no motion of the actuators shows in a sensor')
        for row, unknown in enumerate(unknowns)
        if row not in seen
    ]
    scaled = information[np.ix_(seen, seen)] / np.outer(size[seen], size[seen])
    values, vectors = np.linalg.eigh(scaled)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    factor, order = scipy.linalg.qr(root.T, mode='r', pivoting=True)
    weight = np.abs(np.diag(factor[: len(seen)]))
    rank = int(np.sum(weight > _STEP * weight[0])) if len(weight) else 0
    for place in range(rank, len(seen)):
        shares = np.abs(np.linalg.lstsq(factor[:rank, :rank], factor[:rank, place], rcond=None)[0])
        names = [unknowns[seen[order[k]]].name for k in np.flatnonzero(shares > LITTLE)]
        lost = unknowns[seen[order[place]]]
        found.append(Unexcited(lost, f'only together with {", ".join(names)}'))
    return tuple(found)
