# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fits from many starts, and over windows of robots that whole simulations run away from.

``random``: seven armatures of a seven-joint arm under torques from starts over the whole bounds,
with sysid_ros and MuJoCo's toolbox. The toolbox gets the samples stamped one timestep later, as it
stamps its predictions. A fit is at the truth when every armature is within 5 standard errors of it.

``schedule``: a seven-joint arm of servos, with and without torque sensors, and a double pendulum
that tumbles for ten seconds, with our start and without. A fit of the arm is at the optimum when
every value is within .1 standard errors of the solution that starts at the truth. Its steps are
those until then that had a Jacobian of their own; "moves" are all, also those that went on with an
older one, for the cost of a single simulation. A fit of the pendulum is recovered when every
parameter is within 3 standard errors or 1 % of the truth.

``windows``: arms of three and seven joints are driven by torques, a cart by a force so that it
balances its pole; all three are controlled by what is not logged, and only what the motors were
told is. Gains of motors are unknown, too, so that forces along the motion do not tell. In each draw
the robot is another one, and so is the motion: two recordings to fit to and one that is held out.
"""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np
from shared.arms import STATES, Link, chain, joint_sensors, write
from shared.cases import BOUNDS, TIMESTEP, torque_arm_case
from shared.common import QUANTILE, AnyOf, Floats, Table, ends, names_of, recorded, run, trajectory
from shared.contenders import MODULES, TOOLBOX, Case, fit, installed

from sysid_ros.config.files import validate
from sysid_ros.config.schema import CalibrationConfig
from sysid_ros.errors import FitError
from sysid_ros.fit.fit import FitOptions
from sysid_ros.fit.observer import Nobody
from sysid_ros.fit.solver import KEPT
from sysid_ros.model.targets import Unknown, make_unknowns
from sysid_ros.signals import Trajectory
from sysid_ros.uncertainty.inference import Identification
from sysid_ros.uncertainty.inference import identify as identify_parameters
from sysid_ros.workflows.calibrate import identify

_CONTENDERS = AnyOf(MODULES)
_EXAMPLES = AnyOf(('torque', 'servo', 'pendulum'))
_CHOICES = AnyOf(('auto', 'nominal'))
_ROBOTS = AnyOf(('arm3', 'arm7', 'cart'))
#: How many standard errors from the truth is still at it, for `random`.
_AT_TRUTH = 5.0
#: Distance from the optimum at which a fit is there, in standard errors.
_THERE = 0.1
#: Distance from the truth at which a value of the pendulum is recovered.
_SIGMAS, _SHARE = 3.0, 0.01


def random(*, starts: int = 20, seed: int = 0, only: AnyOf = _CONTENDERS) -> None:
    """Fit the falling arm from random starts with both contenders."""
    case = torque_arm_case()
    limit = _AT_TRUTH * case.standard_errors()
    drawn = np.random.default_rng(seed).uniform(*BOUNDS, (starts, len(case.truth)))
    for name in (name for name in only if installed(name)):
        late = TIMESTEP if name == TOOLBOX else 0.0
        found = [fit(name, _starting(case, values), late=late) for values in drawn]
        away = [np.abs(one.values - case.truth) for one in found]
        lost = [k for k in range(starts) if not np.all(away[k] <= limit)]
        seconds = [one.seconds for one in found]
        print(
            f'{name:13s} {starts - len(lost)} of {starts} at the truth; median '
            f'{statistics.median(seconds):.3f} s, '
            f'{statistics.median(one.meter.rollouts for one in found):g} rollouts; '
            f'slowest {max(seconds):.3f} s',
            flush=True,
        )
        for k in lost:
            worst = (away[k] / case.truth).max()
            print(f'    start {k}: up to {worst:.0%} off, ended: {found[k].message}')


def _starting(case: Case, values: Floats) -> Case:
    free = (
        dataclasses.replace(parameter, start=value[None])
        for parameter, value in zip(case.free, values, strict=True)
    )
    return dataclasses.replace(case, free=tuple(free))


class Example(NamedTuple):
    """What is to be identified from what: model, unknowns, true values and the recording.

    ``noise`` is that of the first sensor, in its unit.
    """

    model: mujoco.MjModel
    unknowns: tuple[Unknown, ...]
    truth: Floats
    run: Trajectory
    noise: float


def servo_arm(*, torque: bool, seed: int) -> Example:
    """Return armature, damping and friction of a 14 kg arm's joints, and its payload."""
    joints = [f'joint{k}' for k in range(7)]
    axes = ('0 0 1', '0 1 0', '0 0 1', '0 -1 0', '0 0 1', '0 1 0', '0 0 1')
    lengths = (0.16, 0.2, 0.2, 0.2, 0.2, 0.19, 0.08)
    masses = (4.0, 4.0, 3.0, 2.7, 1.7, 1.8, 0.3)
    moments = (0.03, 0.04, 0.03, 0.025, 0.02, 0.005, 0.001)
    kp = (2000.0, 2000.0, 1200.0, 1200.0, 500.0, 400.0, 150.0)
    kv = (90.0, 90.0, 50.0, 50.0, 18.0, 14.0, 4.0)
    force = (300.0, 300.0, 180.0, 180.0, 110.0, 60.0, 40.0)
    payload = (
        f'<body name="payload" pos="0 0 {lengths[-1]}"><inertial mass="1" pos=".04 .02 .05" '
        'diaginertia=".004 .004 .003"/></body>'
    )
    links = [
        Link(
            f'pos="0 0 {lengths[k - 1] if k else 0.1}"',
            f'name="{joint}" axis="{axes[k]}" armature=".1" damping="1"',
            f'<inertial mass="{masses[k]}" pos="0 .02 {lengths[k] / 2}" '
            f'diaginertia="{moments[k]} {moments[k]} {moments[k] / 2}"/>'
            + (payload if joint == joints[-1] else ''),
        )
        for k, joint in enumerate(joints)
    ]
    servos = ''.join(
        f'<position name="servo{k}" joint="joint{k}" kp="{kp[k]}" kv="{kv[k]}" '
        f'forcerange="{-force[k]} {force[k]}"/>'
        for k in range(7)
    )
    kinds = STATES | ({'torque': 'jointactuatorfrc'} if torque else {})
    model = mujoco.MjModel.from_xml_string(chain(links, servos, joint_sensors(joints, kinds)))
    truth = [0.5, 0.45, 0.3, 0.3, 0.15, 0.12, 0.05]
    truth += [6.0, 8.0, 4.0, 4.0, 2.0, 1.5, 0.6]
    truth += [4.0, 5.0, 3.0, 3.0, 1.5, 1.2, 0.5, 2.2]
    unknowns = _unknowns(
        model,
        {
            'joint/*/armature': (0.001, 1.5),
            'joint/*/damping': (0.0, 20.0),
            'joint/*/frictionloss': (0.0, 10.0),
            'body/payload/mass': (0.05, 6.0),
        },
    )
    home = np.array([0.0, 0.5, 0.0, -1.2, 0.0, 0.8, 0.0])
    times = np.arange(0.0, 6.0, 0.002)
    frequencies = np.geomspace(0.25, 1.4, 14)
    first, second = frequencies[:7], np.roll(frequencies[7:], 3)
    turns = 2 * np.pi * times[:, None]
    waves = 0.4 * (np.sin(turns * first) - first / second * np.sin(turns * second))
    own = trajectory(
        model,
        np.arange(0.0, 6.0, 1 / 250),
        commands=(times, home + waves),
        start=(home, np.zeros(7)),
    )
    # rad, rad/s and, as a share of the largest torque, N·m.
    noise = np.array([*[2e-4] * 7, *[5e-3] * 7, *(0.01 * f for f in force if torque)])
    return _example(model, unknowns, truth, own, noise, seed)


def double_pendulum(*, seed: int) -> Example:
    """Return a passive double pendulum that falls from above and tumbles for ten seconds."""
    inertial = '<inertial mass="1" pos="0 0 -.25" diaginertia=".02 .02 .001"/>'
    links = [
        Link(
            f'name="{name}" pos="0 0 {height}"',
            f'name="{name}" axis="0 1 0" damping=".05"',
            inertial,
        )
        for name, height in (('upper', 2), ('lower', -0.5))
    ]
    sensors = joint_sensors(('upper', 'lower'), {'position': 'jointpos'})
    text = chain(links, '', sensors).replace('implicitfast', 'RK4')
    model = mujoco.MjModel.from_xml_string(text)
    bounds = {
        'body/lower/mass': (0.2, 3.0),
        'body/lower/ipos[2]': (-0.6, -0.1),
        'joint/upper/damping': (0.0, 0.2),
        'joint/lower/damping': (0.0, 0.2),
    }
    start = (np.array([2.6, 0.4]), np.zeros(2))
    own = trajectory(model, np.arange(0.0, 10.0, 0.01), start=start)
    truth = [0.8, -0.35, 0.02, 0.01]
    return _example(model, _unknowns(model, bounds), truth, own, np.full(2, 0.005), seed)


def _unknowns(model: mujoco.MjModel, bounds: dict[str, tuple[float, float]]) -> tuple[Unknown, ...]:
    return tuple(u for path, own in bounds.items() for u in make_unknowns(path, model, bounds=own))


def _example(
    model: mujoco.MjModel,
    unknowns: tuple[Unknown, ...],
    truth: list[float],
    own: Trajectory,
    noise: Floats,
    seed: int,
) -> Example:
    measured = recorded(model, own, unknowns, truth, noise, seed)
    return Example(model, unknowns, np.array(truth), measured, float(noise[0]))


def schedule(
    *, starts: int = 20, seed: int = 0, only: AnyOf = _EXAMPLES, choices: AnyOf = _CHOICES
) -> None:
    """Fit arm and pendulum from random starts, by our start and by the values alone."""
    table = Table(
        'robot:10s', 'start:8s', 'there:8s', 'steps:10s', 'moves:10s', 'median/s:8.2f',
        'rollouts:9.0f', 'from and end:s',
    )  # fmt: skip
    for name in only:
        example = (
            double_pendulum(seed=seed)
            if name == 'pendulum'
            else servo_arm(torque=name == 'torque', seed=seed)
        )
        optimum = None if name == 'pendulum' else _fitted(example, example.truth, 'nominal')
        low = [unknown.min_value for unknown in example.unknowns]
        high = [unknown.max_value for unknown in example.unknowns]
        drawn = np.random.default_rng(seed).uniform(low, high, (starts, len(low)))
        for choice in choices:
            found = [_arrival(example, values, choice, optimum) for values in drawn]
            table.row(
                name,
                choice,
                f'{sum(one.there for one in found)} of {starts}',
                f'{min(one.steps for one in found)} to {max(one.steps for one in found)}',
                f'{min(one.moves for one in found)} to {max(one.moves for one in found)}',
                statistics.median(one.seconds for one in found),
                statistics.median(one.rollouts for one in found),
                ', '.join(sorted({one.way for one in found})),
            )
            for number, one in enumerate(found):
                if not one.there:
                    print(f'    start {number}: {one.way}, {one.steps} steps')


class Arrival(NamedTuple):
    """What came of one start: whether it arrived, steps and moves until then, time, way."""

    there: bool
    steps: int
    moves: int
    seconds: float
    rollouts: int
    way: str


def _fitted(example: Example, values: Floats, choice: Any) -> Identification:
    unknowns = [
        dataclasses.replace(unknown, nominal=float(value))
        for unknown, value in zip(example.unknowns, values, strict=True)
    ]
    return identify_parameters(
        example.model, unknowns, [example.run], options=FitOptions(start=choice, threads=1)
    )


def _errors(found: Identification) -> Floats:
    low, high = ends(found.intervals)
    return (high - low) / (2 * QUANTILE)


def _arrival(
    example: Example, values: Floats, choice: str, optimum: Identification | None
) -> Arrival:
    """Fit from a start; compare the path with the optimum, or the end with the truth."""
    began = time.perf_counter()
    try:
        found = _fitted(example, values, choice)
    except FitError as err:
        return Arrival(
            there=False,
            steps=0,
            moves=0,
            seconds=time.perf_counter() - began,
            rollouts=0,
            way=str(err),
        )
    seconds = time.perf_counter() - began
    trace = found.solution.trace
    steps = moves = len(trace) - 1
    if optimum is None:
        away = np.abs(found.solution.x - example.truth)
        limit = np.fmax(_SIGMAS * _errors(found), _SHARE * np.abs(example.truth))
        # The interval of a fit that is lost may be as wide as it likes: it explains the data.
        explained = 2 * found.solution.cost < 1.5 * len(found.solution.residual)
        noise = max(found.noise.values()) < 2 * example.noise
        there = bool(np.all(away <= limit) and explained and noise)
    else:
        sigma = _errors(optimum)
        path = (np.array([entry.x[: len(sigma)] for entry in trace]) - optimum.solution.x) / sigma
        moved = np.abs(np.diff(path, axis=0)).max(axis=1) > 0
        late = np.flatnonzero(np.abs(path).max(axis=1) > _THERE)
        until = min(int(late[-1]) + 1 if len(late) else 0, len(moved))
        own = np.array([entry.jacobian != KEPT for entry in trace[:until]], dtype=bool)
        steps, moves = int((moved[:until] & own).sum()), int(moved[:until].sum())
        last = np.abs((found.solution.x - optimum.solution.x) / sigma).max()
        there = bool(last <= _THERE)
    window = '' if found.window is None else f' of {found.window:g} s'
    way = f'{found.start}{window}: {found.solution.status}'
    return Arrival(there, steps, moves, seconds, found.rollouts, way)


#: Seconds of a recording, steps of the log, s.
_SECONDS, _LOGGED = 8.0, 0.004
#: Of positions, rad or m, and velocities.
_NOISE = 1e-4, 2e-3
_CART = """<mujoco><option timestep=".002" integrator="implicitfast"/><worldbody>
  <body name="cart"><joint name="slide" type="slide" axis="1 0 0" damping="2" frictionloss=".3"/>
    <inertial mass="1.5" pos="0 0 0" diaginertia=".01 .01 .01"/>
    <body name="pole"><joint name="hinge" axis="0 1 0" damping=".02"/>
      <inertial mass=".4" pos="0 0 .3" diaginertia=".012 .012 .0005"/></body></body>
  </worldbody><actuator><motor name="push" joint="slide"/></actuator></mujoco>"""


class Robot(NamedTuple):
    """A model, and the targets that are unknown of it."""

    mjcf: str
    targets: tuple[str, ...]


def robot_of(name: str) -> Robot:
    """Return the cart, or an arm with a motor at each joint."""
    if name == 'cart':
        joints = ('joint/slide/damping', 'joint/slide/frictionloss', 'joint/hinge/damping')
        return Robot(_CART, (*joints, 'body/pole/mass', 'actuator/push/gear[0]'))
    count = int(name.removeprefix('arm'))
    masses = (3.0, 2.5, 1.8, 1.4, 1.0, 0.8, 0.6)
    lengths = (0.1, 0.3, 0.25, 0.15, 0.15, 0.1, 0.08)
    axes = ('0 0 1', '0 1 0', '0 1 0', '1 0 0', '0 1 0', '1 0 0', '0 1 0')
    links = []
    for k in range(count):
        half = lengths[k] / 2
        around = masses[k] * half**2 / 3 + 0.002
        links.append(
            Link(
                f'name="l{k}" pos="0 0 {lengths[k - 1] if k else 0}"',
                f'name="j{k}" axis="{axes[k]}" damping="{1.0 / (k + 1):.3g}" '
                f'frictionloss="{0.6 / (k + 1):.3g}" armature="{0.1 / (k + 1):.3g}"',
                f'<inertial mass="{masses[k]}" pos="0.01 0.01 {half}" '
                f'diaginertia="{around} {around} 0.002"/>',
            )
        )
    motors = ''.join(f'<motor name="m{k}" joint="j{k}"/>' for k in range(count))
    each = ('joint/j{}/damping', 'joint/j{}/frictionloss', 'actuator/m{}/gear[0]')
    targets = [target.format(k) for target in each for k in range(count)]
    return Robot(chain(links, motors), (*targets, f'body/l{count - 1}/mass'))


def _moved(robot: Robot, rng: np.random.Generator) -> tuple[mujoco.MjModel, dict[str, float]]:
    """Return a robot that is unlike its model, and what it is like."""
    spec, truth = mujoco.MjSpec.from_string(robot.mjcf), {}
    for target in robot.targets:
        kind, name, attribute = target.split('/')
        factor = rng.uniform(0.6, 1.6)
        if kind == 'actuator':
            factor = rng.uniform(0.85, 1.2)
        nominal = np.ravel(getattr(getattr(spec, kind)(name), attribute.removesuffix('[0]')))[0]
        truth[target] = float(nominal * factor)
        write(spec, target, truth[target])
    return spec.compile(), truth


def _pushes(data: mujoco.MjData, model: mujoco.MjModel, wanted: Floats, speed: Floats) -> Floats:
    """Return what a controller tells the motors."""
    if model.nu < model.nv:  # the cart, by hand
        x, angle = data.qpos - [wanted[0], 0.0]
        return np.array([2.5 * x + 40 * angle + 5 * (data.qvel[0] - speed[0]) + 7 * data.qvel[1]])
    stiff = 60.0 / np.arange(1, model.nv + 1)
    push = stiff * (wanted - data.qpos) + 0.2 * stiff * (speed - data.qvel) + data.qfrc_bias
    return np.asarray(push / model.actuator_gear[:, 0])


def _log(model: mujoco.MjModel, path: Path, rng: np.random.Generator) -> None:
    """Write a table of motion and commands."""
    data, joints = mujoco.MjData(model), model.nv
    rates, phases = 2 * np.pi * rng.uniform(0.15, 1.0, (joints, 3)), rng.uniform(0, 6, (joints, 3))
    size = 0.1 if model.nu < joints else 0.35
    names = names_of(model, 'joint')
    motors = [names[int(row[0])] for row in model.actuator_trnid]
    kinds = [f'{name}_{what}' for what in ('pos', 'vel') for name in names]
    lines = [','.join(['t', *kinds, *(f'cmd_{name}_effort' for name in motors)])]
    every = round(_LOGGED / TIMESTEP)
    for row in range(round(_SECONDS / TIMESTEP)):
        now, ramp = row * TIMESTEP, min(row * TIMESTEP, 1.0)
        if row % every == 0:
            wanted = ramp * size * np.sin(rates.T * now + phases.T).sum(axis=0)
            speed = ramp * size * (rates.T * np.cos(rates.T * now + phases.T)).sum(axis=0)
            mujoco.mj_forward(model, data)
            data.ctrl[:] = _pushes(data, model, wanted, speed)
            told = np.concatenate([data.qpos, data.qvel])
            told += np.repeat(_NOISE, joints) * rng.standard_normal(2 * joints)
            lines.append(','.join(f'{value:.9g}' for value in (now, *told, *data.ctrl)))
        mujoco.mj_step(model, data)
    path.write_text('\n'.join(lines) + '\n', encoding='utf-8')


def windows(
    *, robots: AnyOf = _ROBOTS, draws: int = 4, first: int = 0, estimator: str = 'windows'
) -> None:
    """Identify robots that whole simulations run away from."""
    table = Table(
        'robot:6s', 'seed:4d', 'window:6.3g', 'inside:8s', 'half-widths:6.2f', 'part:6.1%',
        'worst:26s', 'fit s:6.1f', 'all s:6.1f', 'said:s',
    )  # fmt: skip
    inside: list[bool] = []
    for name in robots:
        robot = robot_of(name)
        for seed in range(first, first + draws):
            rng = np.random.default_rng(seed)
            real, truth = _moved(robot, rng)
            with tempfile.TemporaryDirectory() as folder:
                result, spent = _identified(robot, real, rng, estimator, Path(folder))
            true = np.array([truth[parameter.targets[0]] for parameter in result.parameters])
            found = np.array([parameter.value for parameter in result.parameters])
            low, high = ends(result.parameters)
            away = np.abs(found - true) / np.where(found > true, found - low, high - found)
            inside.extend(away < 1)
            told = result.acceptance if not result.accepted else 'accepted'
            told += ''.join(f', {each.text}' for each in result.reservations)
            table.row(
                name,
                seed,
                result.solver.window,
                f'{np.sum(away < 1)}/{len(away)}',
                away.max(),
                np.abs(found / true - 1).max(),
                robot.targets[int(away.argmax())],
                result.solver.seconds,
                spent,
                f'{told} [held out {result.held_out_before:.3g} to {result.held_out_after:.3g}, '
                f'training {result.training_after:.3g}]',
            )
    print(f'{100 * np.mean(inside):.1f} % of {len(inside)} intervals hold the truth')


def _identified(
    robot: Robot, real: mujoco.MjModel, rng: np.random.Generator, estimator: str, folder: Path
) -> tuple[Any, float]:
    """Record a robot three times and identify it; return result and seconds."""
    (folder / 'model.xml').write_text(robot.mjcf, encoding='utf-8')
    for name in ('one', 'two', 'held_out'):
        _log(real, folder / f'{name}.csv', rng)
    values = {
        'model': folder / 'model.xml',
        'bags': [
            {'path': str(folder / f'{name}.csv'), 'role': role}
            for name, role in (('one', 'train'), ('two', 'train'), ('held_out', 'validate'))
        ],
        'parameters': [{'target': target} for target in robot.targets],
        'estimator': estimator,
        'output': folder / 'out',
    }
    began = time.perf_counter()
    config = validate(CalibrationConfig, values, 'the benchmark')
    result = identify(config, observer=Nobody()).result
    return result, time.perf_counter() - began


if __name__ == '__main__':
    run(__doc__, random, schedule, windows)
