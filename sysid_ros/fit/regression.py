# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A starting point without simulation: least squares on the equations of motion.

What a motion needs is compared with the measured torque or, where none was measured, with what the
model's actuators exert at the measured state under the recorded commands: for a position servo
``kp (command - position) - kv velocity``.

Measured forces show the delay of a servo, too. Where states and commands are synchronous, its force
is a step function of the delay: between two walls, a command's period apart, every delay says the
same, and beyond a wall all forces are wrong by kp times what a command changes. A fit that begins
on the wrong side stays there, and damping and armature make up for it. So the right side is looked
for first, by regressing forces on the command, the position and the velocity for each delay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import scipy
from numpy.typing import NDArray

from sysid_ros.errors import FitError
from sysid_ros.fit.context import FitContext
from sysid_ros.fit.differences import NEGLIGIBLE, SMALL, FunctionResiduals, scales
from sysid_ros.fit.motion import (
    disturbed,
    low_pass,
    measured_joints,
    no_motion_shows,
    resampled,
    smoothed,
    turning,
    unmeasured,
)
from sysid_ros.fit.noise import FEWEST_SAMPLES, SMALLEST
from sysid_ros.fit.solver import PROMISED, SolverSettings, attempt, interrupt
from sysid_ros.model.elements import SCALAR_JOINTS
from sysid_ros.model.kinds import Role
from sysid_ros.model.targets import Unknown
from sysid_ros.signals import PrescribedMotion, Trajectory
from sysid_ros.simulation.inverse import ACTUATION, IDENTITY, driven_otherwise, exerted
from sysid_ros.simulation.prediction import InverseSimulator
from sysid_ros.simulation.runs import HeldCommand, Run, prepare
from sysid_ros.simulation.simulator import SampledForce, Simulator, sampled_forces

Array = NDArray[np.float64]

#: Instants of all sequences at most: each is evaluated for every candidate.
_MOST_INSTANTS = 600
#: Rounds in which joints are weighted by what their equations leave.
_WEIGHTINGS = 3


class Regression(NamedTuple):
    """The (p,) values that solve the equations of motion, and what these were made of."""

    x: Array
    sentence: str


class _Part(NamedTuple):
    """One sequence at n of its instants."""

    run: Run  # the sequence
    whole: PrescribedMotion  # all of its motion, smoothed, …
    rows: NDArray[np.int64]  # … (n,) which rows of it these instants are, …
    motion: PrescribedMotion  # … and the motion at these alone
    torque: Array  # (n, nv) what was measured, after the same low-pass, N·m or N; NaN elsewhere
    # (n, nv) where the force that the motion needs is measured, or told by the actuators.
    known: NDArray[np.bool_]


def not_applicable(simulator: Simulator) -> str | None:
    """Return why there are no equations of motion without unknown forces, in a clause, or None."""
    for joint in np.flatnonzero(~np.isin(simulator.model.jnt_type, SCALAR_JOINTS)).tolist():
        name = simulator.model.joint(joint).name
        return f'joint {name!r} turns or moves about more than one axis'
    return no_motion_shows(simulator.model) or unmeasured(simulator.model, simulator.runs)


def regress(context: FitContext, simulator: Simulator) -> Regression | str:
    """Solve the equations of motion for the unknowns.

    Joints are weighted by what their equations leave unexplained, and a Gaussian around the start
    as wide as the bounds, or the prior where one is given, decides what they do not determine.

    Returns:
        What was found, or the reason why nothing was, in a clause.
    """
    reason = not_applicable(simulator)
    if reason is not None:
        return reason
    if simulator.drives is not None:
        return 'servos drive the joints, whose laws are not in the equations of motion'
    model = simulator.compiled(np.zeros(0))
    # Forces are linear in gains, however far off these are.
    unknowns = [dataclasses.replace(unknown, scale='linear') for unknown in simulator.parameters]
    most = -(-_MOST_INSTANTS // len(simulator.runs))
    parts = [part for run in simulator.runs if (part := _part(model, run, unknowns, most))]
    count = sum(int(part.known.sum()) for part in parts)
    if count <= len(unknowns):
        return (
            f'the motion gives {count} equations without contacts, limits or reversals, too few '
            f'for {len(unknowns)} parameters'
        )
    moved = [
        dataclasses.replace(part.run.sequence, motion=part.motion, measurements=())
        for part in parts
    ]
    inverse = context.simulator(unknowns, moved)
    assert isinstance(inverse, InverseSimulator)  # noqa: S101 (as motions are prescribed)
    x = _solve(context, _Torques(simulator, inverse, parts), unknowns)
    if x is None:
        return 'the equations of motion have no finite solution'
    measured = int(np.isfinite(np.concatenate([part.torque for part in parts])).all(axis=0).sum())
    source = "the torques that the model's actuators exert at the measured state"
    if measured == model.nv:
        source = 'measured torques'
    elif measured:
        source = f'torques, measured at {measured} of {model.nv} joints'
    cutoff = min(part.motion.cutoff for part in parts)
    return Regression(x, f'inverse dynamics from {source}, low-passed at {cutoff:.3g} Hz')


def _part(model: mujoco.MjModel, run: Run, unknowns: Sequence[Unknown], most: int) -> _Part | None:
    """Return one sequence at even instants, most at most; None where it is too short."""
    measured = measured_joints(model, run)
    motion = smoothed(model, measured.position, run.qpos)
    if motion is None:
        return None
    stride = max(motion.stride, -(-len(motion.qpos) // most))
    rows = np.arange(-motion.first % stride, len(motion.qpos), stride)
    torque = np.full(motion.qpos.shape, np.nan)
    for dof, channel in measured.torque.items():
        if len(channel.times) >= FEWEST_SAMPLES:
            torque[:, dof] = low_pass(motion.low_pass, resampled(channel, motion.times))
    channels = [*measured.position.values(), *measured.torque.values()]
    sound = ~disturbed(model, dataclasses.replace(motion, stride=stride), channels)
    moving = np.stack(
        [~turning(model, motion, unknowns, weights) for weights in np.eye(model.nv)], axis=1
    )
    known = sound[:, None] & moving & (np.isfinite(torque) | ~driven_otherwise(model))
    thinned = dataclasses.replace(
        motion,
        interval=motion.interval * stride,
        first=-(-motion.first // stride),
        qpos=motion.qpos[rows],
        qvel=motion.qvel[rows],
        qacc=motion.qacc[rows],
        low_pass=IDENTITY,
        stride=1,
    )
    return _Part(run, motion, rows, thinned, torque[rows], known[rows])


class _Torques:
    """Measured minus needed torque of every joint, as a function of candidates.

    Where torque was measured, what the actuators should exert is compared with it, too: that is a
    regression for their gains. A joint without any actuator has no torque, which also is known.

    Attributes:
        groups: (n,) which joint and which of the two comparisons a residual belongs to.
    """

    def __init__(
        self, simulator: Simulator, inverse: InverseSimulator, parts: Sequence[_Part]
    ) -> None:
        self._simulator, self._inverse, self._parts = simulator, inverse, parts
        self._model = simulator.compiled(np.zeros(0))
        targets = [parameter.targets for parameter in simulator.parameters]
        self._driving = np.array(
            [any(target.path.startswith('actuator/') for target in own) for own in targets]
        )
        stateless = ~driven_otherwise(self._model) & self._driving.any()
        self._masks = [
            np.concatenate([part.known, part.known & np.isfinite(part.torque) & stateless], axis=1)
            for part in parts
        ]
        self.groups = np.concatenate([np.nonzero(mask)[1] for mask in self._masks])
        self._timed = np.array([any(t.role is Role.COMMAND for t in own) for own in targets])
        self._controls: dict[bytes, list[Array]] = {}

    def __call__(self, candidates: Array) -> Array:
        """Return the (n, m) residuals of (m, p) candidates, N·m or N."""
        fields = self._simulator.fields(candidates, ACTUATION)
        controls = [self._passed(x) for x in candidates]
        columns = []
        for index, forces in enumerate(self._inverse.joint_forces(candidates)):
            part, mask = self._parts[index], self._masks[index]
            held = np.stack([each[index] for each in controls])
            told = exerted(self._model, fields, part.motion, held)
            known = np.where(np.isfinite(part.torque), part.torque, told)
            both = [known - np.swapaxes(forces, 1, 2), part.torque - told]
            columns.append(np.concatenate(both, axis=2)[:, mask])
        return np.concatenate(columns, axis=1).T

    def _passed(self, x: Array) -> list[Array]:
        """Return the (n, nu) commands of each sequence after the low-pass that its motion passed.

        They differ between candidates in few columns, such as delays.
        """
        key = x[self._timed].tobytes()
        if key not in self._controls:
            self._controls[key] = [self._low_passed(part, x) for part in self._parts]
        return self._controls[key]

    def _low_passed(self, part: _Part, x: Array) -> Array:
        timestep, times = float(self._model.opt.timestep), part.whole.times
        steps = int(np.ceil(times[-1] / timestep)) + 1
        held = self._simulator.controls(part.run, steps, x)
        # Each is the mean over a step; a discrete step meets it with the state at its beginning.
        rk4 = self._model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4.value
        acting = timestep * (np.arange(steps) + (0.5 if rk4 else 0.0))
        even = np.zeros((len(times), held.shape[1]))
        for column, values in zip(even.T, held.T, strict=True):
            column[:] = np.interp(times, acting, values)
        return low_pass(part.whole.low_pass, even)[part.rows]


def _solve(context: FitContext, torques: _Torques, unknowns: Sequence[Unknown]) -> Array | None:
    """Return the (p,) values of the least cost, or None where it is not finite."""
    low, high = np.array([(unknown.min_value, unknown.max_value) for unknown in unknowns]).T
    x = np.clip([unknown.nominal for unknown in unknowns], low, high)
    spans = np.where(np.isfinite(high - low), high - low, scales(unknowns))
    priors = [
        unknown.prior or (unknown.nominal, span)
        for unknown, span in zip(unknowns, spans, strict=True)
    ]
    means, deviations = np.array(priors).T
    residual = torques(x[None])[:, 0]
    if not np.all(np.isfinite(residual)):
        return None
    settings = SolverSettings(rough=True, promised=PROMISED)
    for _ in range(_WEIGHTINGS):
        sigma = _spread(residual, torques.groups)

        def weighted(candidates: Array, sigma: Array = sigma) -> Array:
            interrupt(context.cancel)
            from_prior = (candidates - means) / deviations
            return np.concatenate([torques(candidates) / sigma[:, None], from_prior.T])

        found = attempt(FunctionResiduals(weighted, unknowns), x, settings=settings)
        if isinstance(found, FitError):
            return None
        x, residual = found.x, found.residual[: len(sigma)] * sigma
    return x


def _spread(residual: Array, groups: NDArray[np.int64]) -> Array:
    """Return (n,) the root mean square of the residuals of each one's group, above zero."""
    squares = np.bincount(groups, residual**2) / np.maximum(np.bincount(groups), 1)
    return np.asarray(np.maximum(np.sqrt(squares), SMALLEST)[groups])


#: Delays this far apart are tried, s, and so late at most where nobody says how late they may be.
_DELAY_STEP, _LATEST = 5e-4, 0.1
#: Forces tell a stiffness where both regressions agree to this part.
_CLEAR = 0.8


class _Law(NamedTuple):
    """What one joint's force is regressed on, in one sequence."""

    force: Array  # (n,) measured, at the actuator
    position: Array  # (n,) measured, in the unit of the command
    # (n, k) one, and the velocity in several ways: by positions and, if there is one, a sensor.
    others: Array
    times: Array  # (n,) s
    held: HeldCommand  # its command

    def table(self, delay: float) -> Array:
        """Return (n, k + 2): what the position misses of the command, the others, the force."""
        missed = self.held.in_force(self.times - delay) - self.position
        return np.column_stack([missed, self.others, self.force])


class Gains(NamedTuple):
    """What measured forces say of a servo's gains."""

    low: float  # least stiffness: forces regressed on what the position misses, which has noise …
    # … and greatest: regressed the other way, as if forces had all of the noise, N·m/rad.
    high: float
    kv: float  # damping at the stiffness between, N·m·s/rad

    @property
    def kp(self) -> float | None:
        """The stiffness, N·m/rad; None where forces do not tell it."""
        return float(np.sqrt(self.low * self.high)) if self.low > _CLEAR * self.high > 0 else None


def aimed(
    model: mujoco.MjModel, unknowns: Sequence[Unknown], sequences: Sequence[Trajectory]
) -> tuple[Unknown, ...]:
    """Return unknowns of which delays and gains begin where forces show the servos' law.

    The command in force stays that which forces show. Delays may leave for a time step of the
    model: so much earlier or later than its forces a fit's motion may be.
    """
    laws = _laws(model, sequences)
    delays = {row: float(model.actuator_delay[row]) for row in laws}
    found = list(unknowns)
    for place, unknown in enumerate(unknowns):
        rows = [
            target.row
            for target in unknown.targets
            if target.role is Role.COMMAND and target.attribute == 'delay' and target.row in laws
        ]
        alike = _alike([laws[row] for row in rows], unknown.min_value, unknown.max_value)
        if alike is not None:
            found[place] = dataclasses.replace(
                unknown,
                nominal=(alike[0] + alike[1]) / 2,
                min_value=max(alike[0] - model.opt.timestep, unknown.min_value),
                max_value=min(alike[1] + model.opt.timestep, unknown.max_value),
                in_force=alike,
            )
        delays |= dict.fromkeys(rows, found[place].nominal)
    gains = {row: _gains(law, delays[row]) for row, law in laws.items()}
    return tuple(_begun(unknown, gains) for unknown in found)


def _begun(unknown: Unknown, gains: Mapping[int, Gains]) -> Unknown:
    """Return an unknown that begins at the gain that forces show, if it is one."""
    kinds = {target.attribute for target in unknown.targets}
    own = [
        gains[target.row]
        for target in unknown.targets
        if target.path.startswith('actuator/') and target.row in gains
    ]
    if kinds not in ({'kp'}, {'kv'}) or len(own) < len(unknown.targets):
        return unknown
    if any(each.kp is None or each.kv <= 0 for each in own):
        return unknown
    middle = np.median([each.kv if kinds == {'kv'} else each.kp or 0.0 for each in own])
    start = float(np.clip(middle, unknown.min_value, unknown.max_value))
    return dataclasses.replace(unknown, nominal=start)


def servo_gains(model: mujoco.MjModel, sequences: Sequence[Trajectory]) -> dict[int, Gains]:
    """Return actuator to what forces say of its gains, if all commands are late by one time."""
    laws = _laws(model, sequences)
    late = np.mean(_alike(list(laws.values()), 0.0, _LATEST) or 0.0)
    return {row: _gains(law, float(late)) for row, law in laws.items()}


def _gains(joint: Sequence[_Law], delay: float) -> Gains:
    """Return what the forces of a joint say of its servo at a delay."""
    table = np.concatenate([law.table(delay) for law in joint])
    others, both = table[:, 1:-1], table[:, [0, -1]]
    slopes = np.linalg.lstsq(others, both)[0]
    rest = both - others @ slopes
    (missed, product), (_, force) = rest.T @ rest
    low, high = (product / missed, force / product) if missed and product else (0.0, np.inf)
    # Without the stiffness's part, forces fall with the velocity in all of its columns.
    kv = np.sqrt(max(low * high, 0.0)) * slopes[1:, 0].sum() - slopes[1:, 1].sum()
    return Gains(float(low), float(high), float(kv))


def _laws(model: mujoco.MjModel, sequences: Sequence[Trajectory]) -> dict[int, list[_Law]]:
    """Return, by actuator, what its force is regressed on in each sequence that measures it."""
    found: dict[int, list[_Law]] = {}
    for run in [prepare(model, sequence) for sequence in sequences if sequence.sampled]:
        positions = measured_joints(model, run).position
        motion = smoothed(model, positions, run.qpos) if positions else None
        for force in sampled_forces(model, run):
            law = _law(model, run, force, motion)
            if law is not None:
                found.setdefault(force.actuator, []).append(law)
    return found


def _law(
    model: mujoco.MjModel, run: Run, force: SampledForce, motion: PrescribedMotion | None
) -> _Law | None:
    readings, measured = run.readings[force.readings], measured_joints(model, run)
    dof = int(model.jnt_dofadr[model.actuator_trnid[force.actuator, 0]])
    if dof not in measured.position or len(measured.position[dof].times) < FEWEST_SAMPLES:
        return None
    times, values = readings.times, readings.measured[:, force.place]
    at, position = measured.position[dof]
    # Differences of positions are smooth, a spline through them follows what is fast, and what
    # passed a low-pass holds little of an encoder's steps, of which velocities are else made up: a
    # command with another delay would stand in for the velocity. A regression takes of each what
    # explains the force.
    others = [np.ones(len(times)), np.interp(times, at, np.gradient(position, at))]
    others.append(scipy.interpolate.CubicSpline(at, position)(times, 1))
    if motion is not None:
        others.append(np.interp(times, motion.times, motion.qvel[:, dof]))
    if dof in measured.velocity and len(measured.velocity[dof].times):
        others.append(np.interp(times, *measured.velocity[dof]))
    low, high = force.limits
    if model.actuator_forcelimited[force.actuator]:
        own = np.sort(force.factor * model.actuator_forcerange[force.actuator])
        low, high = max(low, own[0]), min(high, own[1])
    known = np.isfinite(values) & (times >= at[0]) & (times <= at[-1])
    # A force that is nearly at its limit is taken to be limited.
    known &= (values > (1 - SMALL) * low) & (values < (1 - SMALL) * high)
    if known.sum() < FEWEST_SAMPLES:
        return None
    # What a command is held against: of a servo the length of its transmission, of a motor nothing.
    gain, bias = model.actuator_gainprm[force.actuator, 0], model.actuator_biasprm[force.actuator]
    affine = model.actuator_biastype[force.actuator] == mujoco.mjtBias.mjBIAS_AFFINE
    ratio = -bias[1] / gain * model.actuator_gear[force.actuator, 0] if affine and gain else 0.0
    return _Law(
        values[known] / force.factor,
        ratio * np.interp(times, at, position)[known],
        np.column_stack(others)[known],
        times[known],
        run.commands[force.command].held,
    )


def _alike(laws: Sequence[list[_Law]], low: float, high: float) -> tuple[float, float] | None:
    """Return the delays between which all explain the forces of some joints best, s, if any do."""
    if not laws:
        return None
    delays = np.arange(low, high + _DELAY_STEP / 2, _DELAY_STEP)
    left = np.array([sum(_unexplained(joint, delay) for joint in laws) for delay in delays])
    best = int(np.argmin(left))
    weight = sum(len(law.force) for joint in laws for law in joint)
    # A little more is left at the walls of a wrong friction, and far more a command's period away.
    others = np.flatnonzero(left > left[best] + weight * np.log1p(SMALL))
    if not len(others):
        return None
    first = others[others < best].max(initial=-1) + 1
    last = others[others > best].min(initial=len(delays)) - 1
    return float(delays[first]), float(delays[last])


def _unexplained(joint: Sequence[_Law], delay: float) -> float:
    """Return minus twice the logarithm of the likelihood of a joint's forces at a delay."""
    table = np.concatenate([law.table(delay) for law in joint])
    normal, count = table.T @ table, len(table)
    solution = np.linalg.lstsq(normal[:-1, :-1], normal[:-1, -1])[0]
    left = normal[-1, -1] - normal[:-1, -1] @ solution
    return count * float(np.log(max(left, NEGLIGIBLE * normal[-1, -1]) / count))
