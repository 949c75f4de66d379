# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fits over windows of robots that whole simulations run away from, whose truth is known.

Arms of three and seven joints are driven by torques, a cart by a force so that it balances its
pole; all three are controlled by what is not logged, and only what the motors were told is. Gains
of motors are unknown, too, so that forces along the motion do not tell. In each draw the robot is
another one, and so is the motion: two recordings to fit to and one that is held out.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np

from sysid_ros.config import CalibrationConfig, validate
from sysid_ros.identification.observer import Nobody
from sysid_ros.pipeline.calibration import identify

#: Seconds of a recording, steps of the simulation and of the log, s.
SECONDS, STEP, LOGGED = 8.0, 0.002, 0.004
#: Of positions, rad or m, and velocities.
NOISE = 1e-4, 2e-3
#: Robots differ from their models by so many times.
APART = 0.6, 1.6
#: Masses and lengths of links, from the first, kg and m; arms take the first of them.
MASSES = (3.0, 2.5, 1.8, 1.4, 1.0, 0.8, 0.6)
LENGTHS = (0.1, 0.3, 0.25, 0.15, 0.15, 0.1, 0.08)
AXES = ('0 0 1', '0 1 0', '0 1 0', '1 0 0', '0 1 0', '1 0 0', '0 1 0')
CART = """<mujoco><option timestep="{step}" integrator="implicitfast"/><worldbody>
  <body name="cart"><joint name="slide" type="slide" axis="1 0 0" damping="2" frictionloss=".3"/>
    <inertial mass="1.5" pos="0 0 0" diaginertia=".01 .01 .01"/>
    <body name="pole"><joint name="hinge" axis="0 1 0" damping=".02"/>
      <inertial mass=".4" pos="0 0 .3" diaginertia=".012 .012 .0005"/></body></body>
  </worldbody><actuator><motor name="push" joint="slide"/></actuator></mujoco>"""


class Robot(NamedTuple):
    """What is recorded.

    Attributes:
        mjcf: Its model.
        targets: What is unknown of it.
    """

    mjcf: str
    targets: tuple[str, ...]


class Outcome(NamedTuple):
    """What became of a draw.

    Attributes:
        away: (p,) errors in half-widths of the intervals, and …
        relative: … in parts of the truth.
        seconds: Wall time of the fit, and …
        total: … of everything.
        said: What came of it.
        window: Length of the windows, s.
    """

    away: np.ndarray
    relative: np.ndarray
    seconds: float
    total: float
    said: str
    window: float


def arm(joints: int) -> Robot:
    """Return an arm with a motor at each joint."""
    inside = ''
    for k in reversed(range(joints)):
        mass, half = MASSES[k], LENGTHS[k] / 2
        around, along = mass * half**2 / 3 + 0.002, 0.002
        inside = (
            f'<body name="l{k}" pos="0 0 {LENGTHS[k - 1] if k else 0}">'
            f'<joint name="j{k}" axis="{AXES[k]}" damping="{1.0 / (k + 1):.3g}" '
            f'frictionloss="{0.6 / (k + 1):.3g}" armature="{0.1 / (k + 1):.3g}"/>'
            f'<inertial mass="{mass}" pos="0.01 0.01 {half}" '
            f'diaginertia="{around} {around} {along}"/>{inside}</body>'
        )
    motors = ''.join(f'<motor name="m{k}" joint="j{k}"/>' for k in range(joints))
    mjcf = (
        f'<mujoco><option timestep="{STEP}" integrator="implicitfast"/><worldbody>{inside}'
        f'</worldbody><actuator>{motors}</actuator></mujoco>'
    )
    each = ('joint/j{}/damping', 'joint/j{}/frictionloss', 'actuator/m{}/gear[0]')
    targets = [target.format(k) for target in each for k in range(joints)]
    return Robot(mjcf, (*targets, f'body/l{joints - 1}/mass'))


ROBOTS = {
    'arm3': arm(3),
    'arm7': arm(7),
    'cart': Robot(
        CART.format(step=STEP),
        (
            'joint/slide/damping',
            'joint/slide/frictionloss',
            'joint/hinge/damping',
            'body/pole/mass',
            'actuator/push/gear[0]',
        ),
    ),
}


def moved(robot: Robot, rng: np.random.Generator) -> tuple[mujoco.MjModel, dict[str, float]]:
    """Return a robot that is unlike its model, and what it is like."""
    spec, truth = mujoco.MjSpec.from_string(robot.mjcf), {}
    for target in robot.targets:
        kind, name, attribute = target.split('/')
        factor = rng.uniform(*APART)
        part = {'joint': spec.joint, 'body': spec.body, 'actuator': spec.actuator}[kind](name)
        if kind == 'actuator':
            factor = rng.uniform(0.85, 1.2)
            part.gear[0] *= factor
            truth[target] = float(part.gear[0])
        elif attribute == 'damping':
            part.damping = part.damping * factor
            truth[target] = float(np.ravel(part.damping)[0])
        else:
            setattr(part, attribute, getattr(part, attribute) * factor)
            truth[target] = float(getattr(part, attribute))
    return spec.compile(), truth


def pushes(
    data: mujoco.MjData, model: mujoco.MjModel, wanted: np.ndarray, speed: np.ndarray
) -> np.ndarray:
    """Return what a controller tells the motors."""
    if model.nu < model.nv:  # the cart, by hand
        x, angle = data.qpos - [wanted[0], 0.0]
        return np.array([2.5 * x + 40 * angle + 5 * (data.qvel[0] - speed[0]) + 7 * data.qvel[1]])
    stiff = 60.0 / np.arange(1, model.nv + 1)
    push = stiff * (wanted - data.qpos) + 0.2 * stiff * (speed - data.qvel) + data.qfrc_bias
    return np.asarray(push / model.actuator_gear[:, 0])


def record(model: mujoco.MjModel, path: Path, rng: np.random.Generator) -> None:
    """Write a table of motion and commands."""
    data, joints = mujoco.MjData(model), model.nv
    rates, phases = 2 * np.pi * rng.uniform(0.15, 1.0, (joints, 3)), rng.uniform(0, 6, (joints, 3))
    size = 0.1 if model.nu < joints else 0.35
    names = [model.joint(j).name for j in range(joints)]
    motors = [model.joint(int(model.actuator_trnid[a, 0])).name for a in range(model.nu)]
    kinds = [f'{name}_{what}' for what in ('pos', 'vel') for name in names]
    lines = [','.join(['t', *kinds, *(f'cmd_{name}_effort' for name in motors)])]
    every = round(LOGGED / STEP)
    for row in range(round(SECONDS / STEP)):
        now, ramp = row * STEP, min(row * STEP, 1.0)
        if row % every == 0:
            wanted = ramp * size * np.sin(rates.T * now + phases.T).sum(axis=0)
            speed = ramp * size * (rates.T * np.cos(rates.T * now + phases.T)).sum(axis=0)
            mujoco.mj_forward(model, data)
            data.ctrl[:] = pushes(data, model, wanted, speed)
            told = np.concatenate([data.qpos, data.qvel])
            told += np.repeat(NOISE, joints) * rng.standard_normal(2 * joints)
            lines.append(','.join(f'{value:.9g}' for value in (now, *told, *data.ctrl)))
        mujoco.mj_step(model, data)
    path.write_text('\n'.join(lines) + '\n', encoding='utf-8')


def draw(robot: Robot, seed: int, estimator: str, folder: Path) -> Outcome:
    """Record a robot three times and identify it."""
    rng = np.random.default_rng(seed)
    real, truth = moved(robot, rng)
    (folder / 'model.xml').write_text(robot.mjcf, encoding='utf-8')
    names = ('one', 'two', 'held_out')
    for name in names:
        record(real, folder / f'{name}.csv', rng)
    role = {'held_out': 'validate'}
    values = {
        'model': folder / 'model.xml',
        'bags': [{'path': str(folder / f'{n}.csv'), 'role': role.get(n, 'train')} for n in names],
        'parameters': [{'target': target} for target in robot.targets],
        'estimator': estimator,
        'output': folder / 'out',
    }
    begun = time.perf_counter()
    config = validate(CalibrationConfig, values, 'the benchmark')
    result = identify(config, observer=Nobody()).result
    total = time.perf_counter() - begun
    true = np.array([truth[parameter.targets[0]] for parameter in result.parameters])
    found = np.array([parameter.value for parameter in result.parameters])
    ends = np.array([(parameter.low, parameter.high) for parameter in result.parameters])
    half = np.where(found > true, found - ends[:, 0], ends[:, 1] - found)
    said = 'accepted' if result.accepted else f'REJECTED: {result.acceptance}'
    if result.accepted and result.reservations:
        said += ', but ' + ' '.join(each.detail for each in result.reservations)
    return Outcome(
        np.abs(found - true) / half,
        np.abs(found / true - 1),
        result.solver.seconds,
        total,
        f'{said} [held out {result.held_out_before:.3g} to {result.held_out_after:.3g}, training '
        f'{result.training_after:.3g}]',
        result.solver.window or math.nan,
    )


def main() -> None:
    """Print a row for each draw, and how often intervals hold the truth."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('robots', nargs='*', default=list(ROBOTS), help=', '.join(ROBOTS))
    parser.add_argument('--draws', type=int, default=4)
    parser.add_argument('--first', type=int, default=0, help='seed of the first')
    parser.add_argument('--estimator', default='windows')
    asked = parser.parse_args()
    print('robot seed  window   inside   worst (half-widths, part)   fit s  all s')
    every = []
    for name in asked.robots:
        for seed in range(asked.first, asked.first + asked.draws):
            with tempfile.TemporaryDirectory() as folder:
                one = draw(ROBOTS[name], seed, asked.estimator, Path(folder))
            every.append(one.away)
            worst = int(one.away.argmax())
            print(
                f'{name:5} {seed:4} {one.window:7.3g} {np.sum(one.away < 1):4}/{len(one.away):<4}'
                f'{one.away[worst]:6.2f} {one.relative.max():7.1%} '
                f'({ROBOTS[name].targets[worst]}) {one.seconds:7.1f} {one.total:6.1f} {one.said}',
                flush=True,
            )
    away = np.concatenate(every)
    print(f'{100 * np.mean(away < 1):.1f} % of {len(away)} intervals hold the truth')


if __name__ == '__main__':
    main()
