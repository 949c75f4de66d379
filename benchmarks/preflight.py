# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What `sysid preflight` promises of random arms, and what the fit then says.

Arms of two to five joints, in turns with position servos and with torque motors, whose values are
up to a half off the model's. Two recordings of 5 to 8 s at 100 to 250 Hz are fitted; encoders have
13 to 17 bits, and one joint of every other arm hardly moves. The truth is computed at a quarter of
the model's time step. Offenders are parameters that preflight calls identified and the fit does
not. Torque motors are also looked at with ``estimator: simulation``, as their simulations diverge.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
from shared.arms import Link, chain, joint_sensors
from shared.common import Floats, OneOf, measuring, run, trajectory

from sysid_ros.alignment import Alignment
from sysid_ros.config.schema import (
    BagSelection,
    CalibrationConfig,
    ParameterConfig,
    SolverConfig,
    VerdictKind,
)
from sysid_ros.errors import FitError
from sysid_ros.fit.observer import Nobody
from sysid_ros.model.description import Description
from sysid_ros.model.loading import RobotModel
from sysid_ros.model.targets import Scope, make_unknowns
from sysid_ros.signals import Trajectory
from sysid_ros.uncertainty.inference import Identification
from sysid_ros.workflows.estimators import estimated
from sysid_ros.workflows.fitting import Job, fit_training
from sysid_ros.workflows.preflight import Preflight, predicted
from sysid_ros.workflows.problem import CalibrationBag, Problem

STEP, FINER = 0.002, 4
OFF = (0.65, 1.5)
#: Torques in N·m that hold the arm's reach of 1 m and 1 kg, and drives in parts of them.
GRAVITY = 9.81
#: Size of an idle joint's motion, in parts of what it would be.
IDLE = (0.01, 0.1)
_KINDS = OneOf(('both', 'position', 'torque'))
COMMON = ('joint/*/armature', 'joint/*/damping', 'joint/*/frictionloss')
#: Beside the common ones an arm has one of these.
EXTRAS = {
    'position': ((), ('body/*/mass',), ('actuator/*/kp',), ('actuator/*/delay', 'body/*/mass')),
    'torque': ((), ('body/*/mass',), ('body/*/inertia',), ('body/*/mass', 'sensor/frc*/bias')),
}


class Arm(NamedTuple):
    """A model, and a robot that is like it but for its values."""

    kind: str
    text: str
    robot: mujoco.MjModel
    targets: tuple[str, ...]
    rate: int
    stiffness: Floats
    sizes: Floats
    noise: Floats
    step: float


def make_arm(seed: int) -> tuple[Arm, np.random.Generator]:
    """Return an arm, and the source of its motions and noise."""
    rng = np.random.default_rng([seed, 16])
    kind = ('position', 'torque')[seed % 2]
    count = int(rng.integers(2, 6))
    lengths = rng.uniform(0.1, 0.3, count)
    masses = rng.uniform(0.6, 1.4, count) * np.linspace(2.0, 0.4, count)
    beyond = [lengths[k:].sum() for k in range(count)]
    loads = np.array([masses[k:].sum() * GRAVITY * beyond[k] for k in range(count)])
    swung = np.array([masses[k:].sum() * beyond[k] ** 2 / 3 for k in range(count)])
    armature = swung * rng.uniform(0.1, 0.8, count)
    stiffness = loads * rng.uniform(8, 25, count)
    joints = [f'j{k}' for k in range(count)]
    place, links, actuators = '0 0 .1', [], ''
    for k, joint in enumerate(joints):
        axis = rng.permutation(['0 1 0', '0 0 1', '0 1 0'])[0] if k else '0 0 1'
        damping, friction = rng.uniform(0.02, 0.08) * stiffness[k] / 8, loads[k] * 0.04
        links.append(
            Link(
                f'name="l{k}" pos="{place}"',
                f'name="{joint}" axis="{axis}" armature="{armature[k]:.4g}" '
                f'damping="{damping:.4g}" frictionloss="{friction:.4g}"',
                f'<geom type="capsule" fromto="0 0 0 {lengths[k]:.4g} 0 .02" size=".03" '
                f'mass="{masses[k]:.4g}"/>',
            )
        )
        place = f'{lengths[k]:.4g} 0 0'
        loss = 1.2 * np.sqrt(stiffness[k] * (armature[k] + swung[k]))
        actuators += (
            f'<position name="a{k}" joint="{joint}" kp="{stiffness[k]:.4g}" kv="{loss:.4g}"/>'
            if kind == 'position'
            else f'<motor name="a{k}" joint="{joint}"/>'
        )
    kinds = {'pos': 'jointpos', 'vel': 'jointvel', 'frc': 'jointactuatorfrc'}
    flag = '<option><flag contact="disable"/></option>'
    sensors = joint_sensors(joints, kinds)
    text = chain(links, actuators, sensors, timestep=STEP, more=flag)
    spec = mujoco.MjSpec.from_string(text)
    spec.option.timestep = STEP / FINER
    for joint in spec.joints:
        joint.armature *= rng.uniform(*OFF)
        joint.damping[0] *= rng.uniform(*OFF)
        joint.frictionloss *= rng.uniform(*OFF)
    for geom in spec.geoms:
        geom.mass *= rng.uniform(0.8, 1.25)
    sizes = rng.uniform(0.25, 0.7, count)
    if rng.random() < 0.5:  # noqa: PLR2004 (every other)
        sizes[rng.integers(count)] *= rng.uniform(*IDLE)
    rate = int(rng.choice([100, 125, 250]))
    bits = int(rng.integers(13, 18))
    noise = np.concatenate(
        [np.full(count, 5e-5), np.full(count, rng.uniform(1e-3, 1e-2)), 0.01 * loads]
    )
    extras = EXTRAS[kind][int(rng.integers(4))]
    step = 2 * np.pi / 2**bits
    arm = Arm(kind, text, spec.compile(), (*COMMON, *extras), rate, stiffness, sizes, noise, step)
    return arm, rng


def record(arm: Arm, name: str, rng: np.random.Generator) -> Trajectory:
    """Move a robot along sines from rest, by goals of its servos or a controller's torques."""
    model, count = arm.robot, arm.robot.nv
    data = mujoco.MjData(model)
    seconds, settling = rng.uniform(5.0, 8.0), 2.0
    frequencies = rng.uniform(0.15, 1.4, (3, count))
    phases = rng.uniform(0, 2 * np.pi, (3, count))
    loss = 1.2 * np.sqrt(arm.stiffness * np.diag(_inertia(model)))
    rows, lead = round(seconds * arm.rate), round(settling * arm.rate)
    substeps = round(1 / (arm.rate * model.opt.timestep))
    told, values = np.empty((rows, count)), np.empty((rows, 3 * count))
    for row in range(-lead, rows):
        now = max(row, 0) / arm.rate
        ramp = min(now, 1.0) ** 2 * (3 - 2 * min(now, 1.0))
        goal = ramp * arm.sizes * np.sin(2 * np.pi * frequencies * now + phases).mean(axis=0) * 1.7
        mujoco.mj_forward(model, data)
        if arm.kind == 'position':
            data.ctrl[:] = goal
        else:
            data.ctrl[:] = data.qfrc_bias + arm.stiffness * (goal - data.qpos) - loss * data.qvel
        mujoco.mj_forward(model, data)
        if row >= 0:
            told[row] = data.ctrl
            values[row] = np.concatenate([data.qpos, data.qvel, data.qfrc_actuator])
        for _ in range(substeps):
            mujoco.mj_step(model, data)
    values += arm.noise * rng.standard_normal(values.shape)
    values[:, :count] = np.round(values[:, :count] / arm.step) * arm.step
    times = np.arange(rows) / arm.rate
    start = (values[:3, :count].mean(axis=0), np.zeros(count))
    own = trajectory(model, times, commands=(times, told), start=start, name=name)
    return measuring(model, own, times, values)


def _inertia(model: mujoco.MjModel) -> Floats:
    data, full = mujoco.MjData(model), np.zeros((model.nv, model.nv))
    mujoco.mj_forward(model, data)
    mujoco.mj_fullM(model, data, full)
    return full


def problem_of(seed: int) -> tuple[Problem, Arm]:
    """Return two recordings to fit."""
    arm, rng = make_arm(seed)
    runs = [record(arm, f'run{place}', rng) for place in range(2)]
    spec = mujoco.MjSpec.from_string(arm.text)
    scope = Scope(spec.compile(), spec, runs)
    bags = tuple(
        CalibrationBag(Path(run.name), 'train', Alignment(run.name, (run,), (), (), (), ()))
        for run in runs
    )
    unknowns = tuple(u for target in arm.targets for u in make_unknowns(target, scope))
    source = RobotModel(Description(Path('arm.xml')), spec)
    return Problem(spec, spec.compile(), bags, unknowns, source), arm


class Outcome(NamedTuple):
    """What was promised of an arm, and what became of it."""

    before: Preflight
    after: Identification
    seconds: tuple[float, float]


def judge(problem: Problem, arm: Arm, estimator: str) -> Outcome | str:
    """Return what preflight and fit say, or the error of the first."""
    config = CalibrationConfig(
        model=Path('arm.xml'),
        bags=(BagSelection(path='bag'),),
        estimator=estimator,  # type: ignore[arg-type]
        parameters=tuple(ParameterConfig(target=target) for target in arm.targets),
        solver=SolverConfig(threads=1),
    )
    seen = estimated(config, problem).problem
    times = [time.process_time()]
    try:
        before = predicted(config, seen, Nobody())[0]
    except FitError as err:
        return str(err)
    times.append(time.process_time())
    try:
        after = fit_training(Job.begin(config, Nobody()), seen)
    except FitError as err:
        return str(err)
    times.append(time.process_time())
    return Outcome(before, after, (times[1] - times[0], times[2] - times[1]))


def compare(*, arms: str = '0:20', kind: OneOf = _KINDS, simulated: bool = False) -> None:
    """Print the offenders of each arm FIRST:END, and how wide intervals are.

    --simulated simulates torque motors.
    """
    first, end = map(int, arms.split(':'))
    identified = VerdictKind.IDENTIFIED
    totals, ratios, spent = np.zeros(5, int), [], []
    for seed in range(first, end):
        problem, arm = problem_of(seed)
        if kind not in ('both', arm.kind) or (simulated and arm.kind != 'torque'):
            continue
        found = judge(problem, arm, 'simulation' if simulated else 'auto')
        head = f'{seed:4} {arm.kind:8} {arm.robot.nv} joints'
        if isinstance(found, str):
            print(f'{head}  {found}', flush=True)
            continue
        before, after, seconds = found
        pairs = list(zip(before.parameters, after.intervals, strict=True))
        offenders = [
            f'{b.name} ({b.nominal:.3g} ± {b.half:.2g}): {a.verdict}, {value:.3g} '
            f'[{a.low:.3g}, {a.high:.3g}] {a.explanation}'
            for (b, a), value in zip(pairs, after.solution.x, strict=True)
            if b.verdict_kind is identified and a.verdict_kind is not identified
        ]
        timid = [
            f'{b.name} ({b.verdict}, ± {b.half:.2g}): [{a.low:.3g}, {a.high:.3g}]'
            for b, a in pairs
            if b.verdict_kind is not identified and a.verdict_kind is identified
        ]
        own = [
            (a.high - a.low) / 2 / b.half
            for b, a in pairs
            if b.verdict_kind is a.verdict_kind is identified
        ]
        ratios.extend(own)
        promised = sum(b.verdict_kind is identified for b, _ in pairs)
        kept = sum(a.verdict_kind is identified for _, a in pairs)
        totals += [len(pairs), promised, kept, len(offenders), len(timid)]
        spent.append(seconds)
        print(
            f'{head} {len(pairs):3} parameters, {promised:3} promised, {kept:3} identified, '
            f'{len(offenders)} offend, {len(timid)} more than promised; wider by '
            f'{np.median(own) if own else np.nan:.2f} [{min(own, default=np.nan):.2f}, '
            f'{max(own, default=np.nan):.2f}]; {seconds[0]:.1f} + {seconds[1]:.1f} s, '
            f'start {after.start}, window {after.window}, {after.solution.status}',
            flush=True,
        )
        if before.diverging:
            print(f'       {before.diverging}')
        for mark, lines in (('!', offenders), ('+', timid)):
            for line in lines:
                print(f'     {mark} {line}')
    if ratios:
        low, middle, high = np.quantile(ratios, [0.05, 0.5, 0.95])
        print(
            '{} parameters, {} promised, {} identified, {} offend, {} more than promised'.format(
                *totals
            )
        )
        print(
            f'intervals of the fit over those predicted: median {middle:.2f}, 5 % {low:.2f}, '
            f'95 % {high:.2f}, largest {max(ratios):.2f}; preflight took '
            f'{np.divide(*np.sum(spent, axis=0)):.2f} of the processor time of the fits, at most '
            f'{np.max(spent):.0f} s'
        )


if __name__ == '__main__':
    run(__doc__, compare)
