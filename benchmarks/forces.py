# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Forces of a seven-joint arm whose truth is known: errors, coverage of intervals, time and memory.

In each draw all links, armatures and frictions of the robot are unlike those of the model, and so
is the motion. Forces held out are compared with what the robot's own parameters leave of them,
below which no regression can be but by chance. Intervals are those of parameters that are
identified, and of the combinations that are determined of the others.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import NamedTuple

import mujoco
import numpy as np

from sysid_ros.estimation.torques import as_torques, with_inertial_priors
from sysid_ros.identification.fit import fit
from sysid_ros.model.unknown import Scope, make_unknowns
from sysid_ros.rollout.prediction import predict
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.signals.trajectory import Trajectory

#: Joints' places and axes, links' masses, centres and moments, like those of a Panda.
PLACES = (
    ((0, 0, 0.333), (0, 0, 1)),
    ((0, 0, 0), (0, 1, 0)),
    ((0, 0, 0.316), (0, 0, 1)),
    ((0.0825, 0, 0), (0, -1, 0)),
    ((-0.0825, 0, 0.384), (0, 0, 1)),
    ((0, 0, 0), (0, -1, 0)),
    ((0.088, 0, 0), (0, 0, -1)),
)
LINKS = (
    (4.97, (0.004, 0.002, -0.17), (0.1, 0.1, 0.05)),
    (0.65, (-0.003, -0.03, 0.003), (0.01, 0.03, 0.03)),
    (3.2, (0.0275, 0.039, -0.066), (0.037, 0.036, 0.011)),
    (3.6, (-0.053, 0.104, 0.027), (0.026, 0.02, 0.028)),
    (1.2, (-0.012, 0.041, -0.038), (0.036, 0.029, 0.009)),
    (1.7, (0.06, -0.014, -0.01), (0.002, 0.0044, 0.0054)),
    (0.74, (0.01, -0.004, 0.062), (0.0125, 0.01, 0.0048)),
)
FRICTION = (0.6, 0.8, 0.5, 0.7, 0.4, 0.3, 0.25)
DAMPING = (1.2, 1.5, 0.8, 1.0, 0.5, 0.4, 0.3)
ARMATURE = (0.3, 0.3, 0.25, 0.25, 0.1, 0.08, 0.06)
START = np.array([0, -0.3, 0, 1.8, 0, 1.6, 0.5])
STIFFNESS = np.array([600, 600, 400, 400, 150, 100, 60.0])
SECONDS, RATE = 7.0, 1000
#: Of positions, rad, velocities, rad/s, and torques, N·m.
NOISE = 2e-5, 1e-3, 0.05
TARGETS = ('joint/*/armature', 'joint/*/damping', 'joint/*/frictionloss', 'body/*/inertia')


class Draw(NamedTuple):
    """What became of a draw: held-out errors per joint over the truth's, and intervals."""

    ratios: np.ndarray
    before: np.ndarray
    inside: int
    intervals: int
    seconds: float
    rollouts: int


def nominal() -> mujoco.MjSpec:
    """Return the model."""
    spec = mujoco.MjSpec()
    spec.option.timestep, spec.option.integrator = 1 / RATE, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    body = spec.worldbody
    for k, ((place, axis), (mass, centre, moments)) in enumerate(zip(PLACES, LINKS, strict=True)):
        body = body.add_body(name=f'l{k}', pos=place)
        body.explicitinertial = True
        body.mass, body.ipos, body.inertia = mass, centre, moments
        damping = [DAMPING[k], 0, 0]
        joint = body.add_joint(name=f'j{k}', axis=axis, armature=ARMATURE[k], damping=damping)
        joint.frictionloss = FRICTION[k]
        kinds = (mujoco.mjtSensor.mjSENS_JOINTPOS, mujoco.mjtSensor.mjSENS_JOINTVEL)
        for letter, kind in zip('qvt', (*kinds, mujoco.mjtSensor.mjSENS_JOINTACTFRC), strict=True):
            sensor = spec.add_sensor(name=f'{letter}{k}', type=kind, objname=f'j{k}')
            sensor.objtype = mujoco.mjtObj.mjOBJ_JOINT
    return spec


def unlike(rng: np.random.Generator) -> mujoco.MjSpec:
    """Return a robot whose links and joints are unlike the model's."""
    spec = nominal()
    for k in range(len(LINKS)):
        body, joint = spec.body(f'l{k}'), spec.joint(f'j{k}')
        body.mass *= rng.uniform(0.7, 1.4)
        body.ipos = body.ipos + 0.01 * rng.standard_normal(3)
        body.inertia = body.inertia * rng.uniform(0.7, 1.4)
        joint.damping = joint.damping * rng.uniform(0.5, 1.8)
        joint.frictionloss *= rng.uniform(0.5, 1.8)
        joint.armature *= rng.uniform(0.5, 1.6)
    return spec


def record(spec: mujoco.MjSpec, rng: np.random.Generator, name: str) -> Trajectory:
    """Move a robot along Fourier series under a controller that updates as often as it is read."""
    model = spec.compile()
    data, count = mujoco.MjData(model), round(SECONDS * RATE)
    orders = np.arange(1, 6)
    rates = 2 * np.pi * rng.uniform(0.1, 0.35, 7)[:, None] * orders
    sizes = 0.47 * rng.standard_normal((7, 5)) / orders
    phases = rng.uniform(0, 2 * np.pi, (7, 5))
    data.qpos[:] = START
    values = np.empty((count, 21))
    for row in range(count):
        now = row / RATE
        ramp = min(now, 1.0) ** 2 * (3 - 2 * min(now, 1.0))
        wanted = START + ramp * (sizes * np.sin(rates * now + phases)).sum(axis=1)
        speed = ramp * (sizes * rates * np.cos(rates * now + phases)).sum(axis=1)
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        away = STIFFNESS * (wanted - data.qpos) + 2 * np.sqrt(STIFFNESS) * (speed - data.qvel)
        data.qfrc_applied[:] = data.qfrc_bias + away
        values[row] = np.concatenate([data.qpos, data.qvel, data.qfrc_applied])
        mujoco.mj_step(model, data)
    values += np.repeat(NOISE, 7) * rng.standard_normal(values.shape)
    names = [f'{letter}{k}' for letter in 'qvt' for k in range(7)]
    mapping = {own: (SignalType.MjSensor, np.array([c])) for c, own in enumerate(names)}
    series = TimeSeries(np.arange(count) / RATE, values, mapping)
    return Trajectory(name, 0, START, np.zeros(7), (), (series,))


def draw(seed: int) -> Draw:
    """Record a robot twice, fit the model to one recording, and predict the other."""
    rng = np.random.default_rng(seed)
    robot, spec = unlike(rng), nominal()
    model, true = spec.compile(), robot.compile()
    scope = Scope(model, spec, ())
    unknowns = [u for target in TARGETS for u in make_unknowns(target, scope)]
    unknowns = list(with_inertial_priors(unknowns))
    recordings = [record(robot, rng, name) for name in ('train', 'validate')]
    begun = time.perf_counter()
    train, held_out = (as_torques(model, each, unknowns) for each in recordings)
    assert train is not None  # noqa: S101
    assert held_out is not None  # noqa: S101
    found = fit(spec, unknowns, [train])
    seconds = time.perf_counter() - begun
    (timed,) = found.as_timed([held_out])
    measured = timed.measurements[0].data

    def error(source: mujoco.MjSpec, values: np.ndarray | None = None) -> np.ndarray:
        own = unknowns if values is not None else ()
        predicted = predict(source, [timed], own, values)[0].channels[0][0]
        return np.asarray(np.sqrt(np.nanmean((predicted - measured) ** 2, axis=0)))

    truth = {u.name: float(u.targets[0].read(true)) for u in unknowns}
    names = [u.name for u in unknowns]
    inside = [
        interval.low < truth[name] < interval.high
        for name, interval in zip(names, found.intervals, strict=True)
        if interval.verdict == 'identified'
    ]
    return Draw(
        error(spec, found.solution.x) / error(robot),
        error(spec) / error(robot),
        sum(inside),
        len(inside),
        seconds,
        found.rollouts,
    )


def main() -> None:
    """Print a row for each draw, and the worst."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('--draws', type=int, default=5)
    parser.add_argument('--first', type=int, default=0, help='seed of the first')
    asked = parser.parse_args()
    print('seed  error over truth: mean, worst joint  (nominal)  inside       s  evaluations')
    draws = []
    for seed in range(asked.first, asked.first + asked.draws):
        one = draw(seed)
        draws.append(one)
        print(
            f'{seed:4}  {one.ratios.mean():24.3f} {one.ratios.max():12.3f} '
            f'{one.before.mean():10.1f} {one.inside:4}/{one.intervals:<3} {one.seconds:7.1f} '
            f'{one.rollouts:8}',
            flush=True,
        )
    inside, every = sum(d.inside for d in draws), sum(d.intervals for d in draws)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f'worst joint {max(d.ratios.max() for d in draws):.3f} of the truth, '
        f'{100 * inside / every:.1f} % of {every} intervals, {memory:.2f} GB'
    )


if __name__ == '__main__':
    main()
