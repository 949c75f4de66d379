# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Designed motions: predicted against achieved intervals, against hand-made motions, and limits.

Each case has a true model and a nominal one whose asked parameters are all 20 % off, up or down
at random. The motion is designed with the nominal model, and

* the intervals that were predicted with the nominal values are compared with those of fits to
  noisy, encoded simulations of the true model, and with 1.96 times the standard deviation of
  estimates over many draws of the noise (one Gauss-Newton step from the truth each);
* a hand-made set, one sine per joint with frequencies spread over .2 to .45 Hz, and the package's
  sum of sines get the same length and, joint by joint, the amplitude that has the peak torque of
  the designed motion or uses as much of another limit as that may;
* the motion is simulated with 20 models whose asked parameters are uniformly up to 20 % off.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from shared.arms import Link, chain, joint_sensors, write
from shared.common import DEMO, AnyOf, Floats, ends, measuring, run, simulated, verdict

from sysid_ros.fit.fit import FitOptions
from sysid_ros.model.loading import compile_spec, load_spec
from sysid_ros.model.targets import Scope, Unknown, make_unknowns
from sysid_ros.plant import load_truth
from sysid_ros.signals import Trajectory
from sysid_ros.uncertainty.covariance import QUANTILE
from sysid_ros.uncertainty.inference import identify
from sysid_ros.workflows.excitation import Motion, sum_of_sines
from sysid_ros.workflows.excitation.design import (
    RAMP,
    Design,
    Experiment,
    design,
    half_widths,
    make_plan,
    sensor_noise,
)
from sysid_ros.workflows.excitation.drives import Limits, drives
from sysid_ros.workflows.excitation.motion import quintic, sample_times

SECONDS, RATE = 20.0, 100.0
OFF = 0.2
DRAWS, MODELS = 300, 20
#: Rounds in which the amplitudes of a comparison motion are fitted to its torques.
ROUNDS = 16
#: What the acceptance of this benchmark asks for.
NEAR, NARROWER = 0.25, 3.0
#: Standard deviation of positions before their encoders, rad; counts of the encoders per turn.
POSITION, COUNTS = 1e-4, 2**14

_CASES = AnyOf(('arm', 'two links'))


def two_links() -> str:
    """Return the MJCF of two links above a floor."""
    links = (
        Link(
            'name="upper" pos="0 0 .3"',
            'name="shoulder" axis="0 1 0" range="-1.6 1.6" armature=".05" damping=".8" '
            'frictionloss=".4"',
            '<inertial mass="2" pos="0 0 -.15" diaginertia=".02 .02 .003"/>'
            '<geom type="capsule" size=".03" fromto="0 0 0 0 0 -.3"/>',
        ),
        Link(
            'name="lower" pos="0 0 -.3"',
            'name="elbow" axis="0 1 0" range="-2 2" armature=".03" damping=".4" frictionloss=".25"',
            '<inertial mass="1.2" pos=".02 0 -.14" diaginertia=".01 .01 .002"/>'
            '<geom type="capsule" size=".025" fromto="0 0 0 0 0 -.3"/>',
        ),
    )
    servos = (
        '<position name="shoulder" joint="shoulder" kp="120" kv="8" ctrlrange="-1.6 1.6" '
        'forcerange="-25 25"/><position name="elbow" joint="elbow" kp="60" kv="3" '
        'ctrlrange="-2 2" forcerange="-12 12"/>'
    )
    kinds = {'q': 'jointpos', 'v': 'jointvel', 'f': 'jointactuatorfrc'}
    floor = '<worldbody><geom type="plane" size="2 2 .1" pos="0 0 -.45"/></worldbody>'
    return chain(links, servos, joint_sensors(('shoulder', 'elbow'), kinds), more=floor)


@dataclass(frozen=True)
class Case:
    """A true model and what is asked of it."""

    path: Path
    truth: dict[str, float]
    asked: tuple[str, ...]
    shared: tuple[str, ...] = ()


def cases(folder: Path) -> dict[str, Case]:
    """Return all cases; files that they need are written into a folder."""
    links = folder / 'two_links.xml'
    links.write_text(two_links())
    truth = load_truth(DEMO / 'truth.yaml')
    losses = ('joint/*/armature', 'joint/*/damping', 'joint/*/frictionloss', 'body/tool/mass')
    arm = DEMO / 'arm.xml'
    return {
        'arm': Case(arm, truth, losses, ('actuator/*/delay',)),
        'two links': Case(links, {}, (*losses[:3], 'body/lower/mass', 'body/lower/ipos')),
    }


def make_truth(case: Case) -> tuple[mujoco.MjSpec, tuple[Unknown, ...]]:
    """Return the true model and its parameters, nominal values being the truth."""
    spec = load_spec(case.path)
    model = compile_spec(spec, case.path)
    delay = 0.0
    for path, value in case.truth.items():
        if path.startswith('actuator/'):
            delay = value
        else:
            write(spec, path, value)
    model = compile_spec(spec, case.path)
    found = [u for pattern in case.asked for u in make_unknowns(pattern, Scope(model, spec))]
    for pattern in case.shared:
        found += make_unknowns(pattern, model, shared=True, bounds=(0.0, 0.05), initial=delay)
    return spec, tuple(found)


def moved(unknowns: tuple[Unknown, ...], values: Floats) -> tuple[Unknown, ...]:
    """Return the unknowns with other nominal values."""
    return tuple(
        Unknown(u.name, u.targets, float(v), u.min_value, u.max_value, u.scale)
        for u, v in zip(unknowns, values, strict=True)
    )


def hand_made(model: mujoco.MjModel) -> Motion:
    """Return one sine per actuator around the home pose, of small amplitude."""
    chosen = drives(model)
    times = sample_times(SECONDS, RATE)
    window: Floats = quintic(times / RAMP) * quintic((SECONDS - times) / RAMP)
    frequencies = np.linspace(0.2, 0.45, len(chosen))
    waves = window[:, None] * np.sin(2 * np.pi * frequencies * times[:, None])
    home = np.array([drive.home for drive in chosen])
    return Motion(times, home + 0.2 * waves, tuple(drive.actuator for drive in chosen))


def matched(experiment: Experiment, motion: Motion, torques: Floats) -> Motion:
    """Give each actuator of a motion the amplitude with which its peak torque is a given one.

    Where that would be above the part of another limit that may be used, the limit decides.
    """
    limits = experiment.limits
    usage, names = limits.usage(limits.allowed), drives(limits.model)
    first, scale, scaled = motion.commands[0], np.ones(len(names)), motion
    for _ in range(ROUNDS):
        reached = experiment.excursion(scaled, experiment.nominal[None])
        forces = np.max(np.abs(experiment.trace(scaled).forces), axis=0)
        used = reached.parts / limits.allowed
        limited = [
            max(part for part, use in zip(used, usage, strict=True) if use.name in drive[:2])
            for drive in names
        ]
        most = np.maximum(limited, forces / np.maximum(torques, 1e-9))
        if reached.blocked(limits):
            most = np.maximum(most, 1.25)
        scale *= np.clip(1 / np.maximum(most, 1e-9), 0.5, 1.5) ** 0.8
        scaled = Motion(motion.times, first + scale * (motion.commands - first), motion.actuators)
    return scaled


def encoded(
    model: mujoco.MjModel,
    noise: dict[str, float],
    clean: Floats,
    rng: np.random.Generator,
) -> Floats:
    """Return (n, k) samples with noise, angles rounded to the counts of their encoders."""
    count = 2 * np.pi / COUNTS
    found: Floats = clean.copy()
    for column, (name, sigma) in enumerate(noise.items()):
        angle = model.sensor(name).type[0] == mujoco.mjtSensor.mjSENS_JOINTPOS
        found[:, column] += (POSITION if angle else sigma) * rng.standard_normal(len(clean))
        if angle:
            found[:, column] = np.round(found[:, column] / count) * count
    return found


def check(name: str, case: Case, seed: int, fits: int) -> None:
    """Design, predict, fit, compare; print it all."""
    spec, true = make_truth(case)
    truth = np.array([unknown.nominal for unknown in true])
    rng = np.random.default_rng((seed, 17))
    nominal = truth * (1 + OFF * rng.choice([-1.0, 1.0], len(truth)))
    unknowns = moved(true, nominal)
    model = compile_spec(spec, case.path)
    limits = Limits(model)
    noise = sensor_noise(model)
    plan = make_plan(drives(model), duration=SECONDS, rate=RATE, max_frequency=2.5)
    with Experiment(spec, case.path, unknowns, limits, noise, rate=RATE) as experiment:
        begun = time.perf_counter()
        found = design(experiment, plan, seed=seed)
        seconds = time.perf_counter() - begun
        kept = [unknowns.index(parameter) for parameter in found.parameters]
        torques = np.max(np.abs(experiment.trace(found.motion).forces), axis=0)
        sines = sum_of_sines(model, duration=SECONDS, rate=RATE, seed=seed)
        others = {
            'hand': matched(experiment, hand_made(model), torques),
            'sines': matched(experiment, sines, torques),
        }
        halves = {
            other: half_widths(experiment.information(motion)[np.ix_(kept, kept)])
            for other, motion in others.items()
        }
        worst = 0.0
        for _ in range(MODELS):
            x = truth * (1 + OFF * rng.uniform(-1, 1, len(truth)))
            worst = max(worst, float(experiment.excursion(found.motion, x[None]).parts.max()))
        jacobian = experiment.jacobian(found.motion, values=truth)[:, kept]
        sequence = experiment.sequence(found.motion)
    print(f'\n{name}: {len(kept)} parameters, seed {seed}, designed in {seconds:.0f} s')
    for item in found.unexcited:
        print(f'  left out: {item.parameter.name}, {item.reason}')
    parameters = tuple(true[row] for row in kept)
    mean, sd = achieved(spec, model, noise, parameters, sequence, jacobian, rng, fits)
    report(found, halves, np.abs(truth[kept]), mean, sd, worst)


def achieved(
    spec: mujoco.MjSpec,
    model: mujoco.MjModel,
    noise: dict[str, float],
    parameters: tuple[Unknown, ...],
    sequence: Trajectory,
    jacobian: Floats,
    rng: np.random.Generator,
    fits: int,
) -> tuple[Floats, Floats]:
    """Return (p,) mean half-widths of fits, and 1.96 standard deviations of estimates."""
    truth = np.array([parameter.nominal for parameter in parameters])
    values = simulated(spec, sequence, parameters, truth)
    sigma = np.array(list(noise.values()))
    inverse = np.linalg.pinv(jacobian)
    estimates = [
        inverse @ ((encoded(model, noise, values, rng) - values) / sigma).reshape(-1)
        for _ in range(DRAWS)
    ]
    times, widths = sequence.measurements[0].times, []
    for _ in range(fits):
        recorded = measuring(model, sequence, times, encoded(model, noise, values, rng))
        start = truth * (1 + 0.05 * rng.choice([-1.0, 1.0], len(truth)))
        result = identify(
            spec, moved(parameters, start), [recorded], options=FitOptions(start='nominal')
        )
        low, high = ends(result.intervals)
        widths.append((high - low) / 2)
    return np.mean(widths, axis=0), QUANTILE * np.std(estimates, axis=0)


def report(
    found: Design,
    halves: dict[str, Floats],
    truth: Floats,
    mean: Floats,
    sd: Floats,
    worst: float,
) -> None:
    """Print the table and the verdicts."""
    percent = 100 / np.maximum(truth, 1e-12)
    head = ('predicted', 'fits', '1.96 sd', 'hand', 'sines')
    print(f'  {"half-widths, % of the truth":34s}' + ''.join(f'{word:>11s}' for word in head))
    for row, parameter in enumerate(found.parameters):
        shown = (found.half, mean, sd, halves['hand'], halves['sines'])
        numbers = ''.join(f'{percent[row] * column[row]:11.3f}' for column in shown)
        print(f'  {parameter.name:34s}{numbers}')
    for what, achieved_ in (('fits', mean), ('1.96 sd', sd)):
        ratio = found.half / achieved_
        good = bool(np.all(np.abs(ratio - 1) <= NEAR))
        verdict(good, f'predicted / {what}: {ratio.min():.2f} to {ratio.max():.2f}')
    for other, half in halves.items():
        ratio = half / found.half
        widest = float(np.max(half * percent) / np.max(found.half * percent))
        verdict(
            widest >= NARROWER,
            f'{other}: widest relative interval {widest:.2f} times narrower; each parameter '
            f'{ratio.min():.2f} to {ratio.max():.2f}, mean {np.exp(np.mean(np.log(ratio))):.2f}',
        )
    text = f'limits: at most {100 * worst:.0f} % of any used by {MODELS} models up to 20 % off'
    verdict(worst < 1, text)


def compare(*, only: AnyOf = _CASES, fits: int = 6, seed: int = 0) -> None:
    """Design motions for the cases and compare them."""
    with tempfile.TemporaryDirectory() as folder:
        known = cases(Path(folder))
        for name in only:
            check(name, known[name], seed, fits)


if __name__ == '__main__':
    run(__doc__, compare)
