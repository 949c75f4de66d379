# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Forces of a seven-joint arm whose truth is known: errors, coverage of intervals, time and memory.

In each draw all links, armatures and frictions of the robot are unlike those of the model, and so
is the motion. Forces held out are compared with what the best linear regression with the same
terms leaves of them: weighted least squares without bounds, physical or not, of as many singular
values as predict the held-out forces best. The motion held out is predicted over windows from
measured states. Intervals are those of the base parameters: the combinations of inertias and
frictions that a QR decomposition of the equations finds independent.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import NamedTuple

import mujoco
import numpy as np
import scipy.linalg
from shared.common import QUANTILE, Floats, Table, measuring, peak, run, trajectory

from sysid_ros.fit.motion import as_torques, with_inertial_priors
from sysid_ros.model.targets import Scope, make_unknowns
from sysid_ros.signals import Trajectory
from sysid_ros.simulation.prediction import InverseSimulator, make_simulator, predict
from sysid_ros.uncertainty.inference import Identification, identify

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


#: Windows of held-out motion, s, and how many of each.
WINDOWS, STARTS = (0.1, 0.5), 40
#: Singular values that a regression may keep, as parts of the largest; and the part of a column
#: below which it depends on the others.
KEPT, DEPENDENT = 10.0 ** -np.arange(1.0, 9.5, 0.25), 1e-7


class Draw(NamedTuple):
    """What became of a draw.

    Attributes:
        regressor: (7,) held-out errors of the forces, over those of the best regression, …
        truth: … over those of the robot's own numbers, …
        before: … and those of the model, over the robot's.
        windows: (2, 7) errors of motion over windows, over the model's.
        away: (k,) errors of base parameters in standard errors of theirs, …
        inside: … and (k,) whether intervals hold the truth.
        seconds: Of all threads, for the fit.
    """

    regressor: Floats
    truth: Floats
    before: Floats
    windows: Floats
    away: Floats
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
    times = np.arange(count) / RATE
    names = [f'{letter}{k}' for letter in 'qvt' for k in range(7)]
    own = trajectory(model, times, start=(START, np.zeros(7)), name=name)
    return measuring(model, own, times, values, names)


def terms(simulator: InverseSimulator) -> tuple[list[Floats], list[Floats]]:
    """Return what the forces of each sensor are linear in, but for springs, and the forces."""
    equations = simulator.equations().values()
    return [lines[:, :-14] for lines, _ in equations], [force for _, force in equations]


def best_regression(
    train: InverseSimulator, held_out: InverseSimulator, noise: list[float]
) -> Floats:
    """Return the (7,) held-out errors of the regression that predicts them best."""
    matrices, forces = terms(train)
    matrix = np.concatenate([m / s for m, s in zip(matrices, noise, strict=True)])
    force = np.concatenate([f / s for f, s in zip(forces, noise, strict=True)])
    size = np.linalg.norm(matrix, axis=0) + 1e-12
    left, singular, right = np.linalg.svd(matrix / size, full_matrices=False)
    found = []
    for share in KEPT:
        kept = singular > share * singular[0]
        x = right[kept].T @ (left[:, kept].T @ force / singular[kept]) / size
        pairs = zip(*terms(held_out), strict=True)
        found.append([np.sqrt(np.mean((m @ x - f) ** 2)) for m, f in pairs])
    return np.asarray(min(found, key=lambda errors: np.sum((np.array(errors) / noise) ** 2)))


def base_parameters(simulator: InverseSimulator) -> Floats:
    """Return (k, columns) of the combinations of numbers that the equations determine."""
    matrix = np.concatenate(terms(simulator)[0])
    size = np.linalg.norm(matrix, axis=0)
    live = np.flatnonzero(size > 0)
    triangle, order = scipy.linalg.qr(matrix[:, live] / size[live], mode='r', pivoting=True)
    rank = int(np.sum(np.abs(np.diag(triangle)) > DEPENDENT * abs(triangle[0, 0])))
    own = np.linalg.solve(triangle[:rank, :rank], triangle[:rank])
    found = np.zeros((rank, matrix.shape[1]))
    columns = live[order]
    found[:, columns] = own * size[columns] / size[columns[:rank], None]
    return found


def errors_of_base(simulator: InverseSimulator, found: Identification, true: Floats) -> Floats:
    """Return (k,) how far base parameters are from the truth, in their standard errors."""
    base = base_parameters(simulator)
    x = np.array(found.solution.x)
    steps = 1e-5 * np.maximum(np.abs(x), 1e-2)
    moves = np.diag(steps)

    def numbers(candidates: Floats) -> Floats:
        return np.asarray(simulator.numbers_of(candidates)[:, :-14])

    slopes = (numbers(x + moves) - numbers(x - moves)) / (2 * steps[:, None])
    covariance = found.inference.covariance[: len(x), : len(x)]
    blind = ~np.isfinite(np.diag(covariance))
    gradient = slopes @ base.T
    deviation = np.sqrt(
        np.sum(gradient * (np.where(np.isnan(covariance), 0, covariance) @ gradient), axis=0)
    )
    # What has no interval leaves those base parameters without one that it takes part in.
    lost = np.any(np.abs(gradient[blind]) > 0, axis=0)
    away = (base @ (numbers(x[None])[0] - true)) / deviation
    return np.where(lost, np.nan, away)


def window_errors(model: mujoco.MjModel, recording: Trajectory) -> Floats:
    """Return (2, 7) errors at the ends of windows that begin at measured states."""
    values, data = recording.measurements[0].data, mujoco.MjData(model)
    longest = round(max(WINDOWS) * RATE)
    ends = [round(seconds * RATE) for seconds in WINDOWS]
    squares = np.zeros((len(ends), 7))
    for start in np.linspace(0, len(values) - longest - 1, STARTS).astype(int):
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:] = values[start, :7], values[start, 7:14]
        for step in range(longest):
            data.qfrc_applied[:] = values[start + step, 14:]
            mujoco.mj_step(model, data)
            if step + 1 in ends:
                squares[ends.index(step + 1)] += (data.qpos - values[start + step + 1, :7]) ** 2
    return np.asarray(np.sqrt(squares / STARTS))


def draw(seed: int, *, windows: bool = True) -> Draw:
    """Record a robot twice, fit the model to one recording, and predict the other."""
    rng = np.random.default_rng(seed)
    robot, spec = unlike(rng), nominal()
    model = spec.compile()
    scope = Scope(model, spec, ())
    unknowns = [u for target in TARGETS for u in make_unknowns(target, scope)]
    unknowns = list(with_inertial_priors(unknowns))
    recordings = [record(robot, rng, name) for name in ('train', 'validate')]
    begun = time.process_time()
    train, held_out = (as_torques(model, each, unknowns) for each in recordings)
    assert train is not None  # noqa: S101
    assert held_out is not None  # noqa: S101
    found = identify(spec, unknowns, [train])
    seconds = time.process_time() - begun
    (timed,) = found.as_timed([held_out])
    (timed_train,) = found.as_timed([train])
    measured = timed.measurements[0].data

    def error(source: mujoco.MjSpec, values: Floats | None = None) -> Floats:
        own = unknowns if values is not None else ()
        predicted = predict(source, [timed], own, values)[0].channels[0][0]
        return np.asarray(np.sqrt(np.nanmean((predicted - measured) ** 2, axis=0)))

    with ExitStack() as opened:
        known, unseen, of_robot = (
            opened.enter_context(make_simulator(source, own, [each], 1))
            for source, own, each in (
                (spec, unknowns, timed_train),
                (spec, unknowns, timed),
                (robot, (), timed_train),
            )
        )
        best = best_regression(known, unseen, [found.noise[name] for name in known.equations()])
        numbers = of_robot.numbers_of(np.zeros((1, 0)))[0, :-14]
        away = errors_of_base(known, found, numbers)
        identified = known.compiled(found.solution.x)
        own = np.full((2, 7), np.nan)
        if windows:
            own = window_errors(identified, recordings[1]) / window_errors(model, recordings[1])
    ours, of_truth = error(spec, found.solution.x), error(robot)
    return Draw(
        ours / best,
        ours / of_truth,
        error(spec) / of_truth,
        own,
        away,
        seconds,
        found.rollouts,
    )


def compare(*, draws: int = 5, first: int = 0, coverage: bool = False) -> None:
    """Print a row for each draw, and the worst; --coverage says it of each base parameter."""
    print('held-out forces: ours over those of the regression, over those of the truth, and the')
    print("model's over those of the truth; motion after .1 and .5 s: ours over the model's")
    table = Table(
        'seed:4d', 'mean:6.3f', 'worst:6.3f', 'joint:5d', 'truth:6.3f', 'worst:6.3f', 'model:6.1f',
        '.1 s:6.3f', '.5 s:6.3f', 'inside:6s', 's:5.1f', 'rollouts:8d',
    )  # fmt: skip
    found = []
    for seed in range(first, first + draws):
        one = draw(seed, windows=not coverage)
        found.append(one)
        table.row(
            seed,
            one.regressor.mean(),
            one.regressor.max(),
            int(one.regressor.argmax()) + 1,
            one.truth.mean(),
            one.truth.max(),
            one.before.mean(),
            *one.windows.max(axis=1),
            f'{(np.abs(one.away) < QUANTILE).sum()}/{len(one.away)}',
            one.seconds,
            one.rollouts,
        )
    away = np.array([each.away for each in found])
    held = np.abs(away) < QUANTILE
    print(
        f'worst joint {max(each.regressor.max() for each in found):.3f} of the regression, windows '
        f'{max(each.windows.max() for each in found):.3f} of the model; {100 * held.mean():.1f} % '
        f'of {held.size} intervals hold the truth ({np.isnan(away).sum()} have none), at most '
        f'{max(each.seconds for each in found):.1f} processor s, {peak() / 1e9:.2f} GB'
    )
    if coverage:
        shares = np.sort(100 * np.mean(held, axis=0)).round().astype(int)
        print(f'of each of {len(shares)} base parameters: {shares} %')
        print('mean error in standard errors:', np.sort(np.nanmean(away, axis=0)).round(2))
        print('their size:', np.sort(np.sqrt(np.nanmean(away**2, axis=0))).round(2))


if __name__ == '__main__':
    run(__doc__, compare)
