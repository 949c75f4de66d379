# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How often 95 % intervals of a servo's coefficients hold the truth.

The truth is drawn around a published servo, the standard motions are recorded with three loads and
gains, with a shaken encoder of 4096 counts, and fitted; again and again. Per coefficient: in how
many draws it is called identified, the share of those whose interval holds the truth, and the mean
half-width over 1.96 times the scatter of the estimates about the truth.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import time
from typing import NamedTuple

import numpy as np

from sysid_ros.servos.bench.fit import fit_servo
from sysid_ros.servos.bench.motions import STANDARD, TRAJECTORIES
from sysid_ros.servos.bench.pendulum import simulate, stack_logs
from sysid_ros.servos.formats.logs import ServoLog
from sysid_ros.servos.laws.servo import Servo

#: Published coefficients of an xl330, rounded; what M4 lacks there made visible.
_TRUTH = {
    'm1': {
        'kt': 0.387,
        'R': 4.0,
        'armature': 0.0018,
        'q_offset': 0.03,
        'friction_base': 0.0128,
        'friction_viscous': 0.0037,
    },
    'm4': {
        'kt': 0.386,
        'R': 3.4,
        'armature': 0.0019,
        'q_offset': 0.028,
        'friction_base': 0.0088,
        'friction_stribeck': 0.004,
        'load_friction_base': 0.068,
        'load_friction_stribeck': 0.074,
        'dtheta_stribeck': 1.5,
        'alpha': 1.6,
        'friction_viscous': 0.0046,
    },
}
#: Mass, length, gain.
_RUNS = ((0.15, 0.1, 400.0), (0.3, 0.13, 200.0), (0.3, 0.17, 100.0))
_ARM = 0.02
_DT = 0.005
#: Truths differ by up to this part from draw to draw.
_VARIETY = 0.1
_COUNT = 2 * np.pi / 4096
#: Standard deviation of what shakes the encoder, counts.
_NOISE = 0.2
#: Step of the measured speed, rad/s.
_SPEED_STEP = 0.229 * 2 * np.pi / 60
_SHARE = (0.90, 0.98)


class Draw(NamedTuple):
    """One set of logs: (p,) truth, estimates, ends of the intervals, whether identified."""

    truth: np.ndarray
    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    identified: np.ndarray
    seconds: float


def logs_of(servo: Servo, truth: np.ndarray, rng: np.random.Generator) -> list[ServoLog]:
    """Return the recorded logs of a servo with (p,) coefficients."""
    made = []
    for name in STANDARD:
        trajectory = TRAJECTORIES[name]
        times = np.arange(0.0, trajectory.duration, _DT)
        for mass, length, kp in _RUNS:
            empty = ServoLog(
                f'{name}_m{mass}_l{length}_kp{kp:g}',
                servo.type.name,
                name,
                mass,
                _ARM,
                length,
                {'kp': kp, 'vin': 7.5},
                _DT,
                np.zeros(len(times)),
                trajectory.goal(times),
                trajectory.enabled(times).astype(np.float64),
                np.zeros(len(times)),
            )
            motion = simulate(servo, stack_logs(servo, [empty]), truth[None], velocities=True)
            shaken = motion.position[:, 0, 0] + _NOISE * _COUNT * rng.normal(size=len(times))
            position = np.round(shaken / _COUNT) * _COUNT
            speed = np.round(motion.velocity[:, 0, 0] / _SPEED_STEP) * _SPEED_STEP
            made.append(empty.__class__(**{**vars(empty), 'position': position, 'speed': speed}))
    return made


def draw(model: str, seed: int) -> Draw:
    """Return one draw."""
    os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
    servo, rng = Servo.named('xl330', model), np.random.default_rng(seed)
    usual = np.array([_TRUTH[model][name] for name in servo.coefficients])
    truth = usual * (1 + _VARIETY * rng.uniform(-1, 1, len(usual)))
    before = time.monotonic()
    found = fit_servo(servo, logs_of(servo, truth, rng))
    return Draw(
        truth,
        found.solution.x,
        np.array([interval.low for interval in found.intervals]),
        np.array([interval.high for interval in found.intervals]),
        np.array([interval.verdict == 'identified' for interval in found.intervals]),
        time.monotonic() - before,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--model', choices=sorted(_TRUTH), default='m1')
    parser.add_argument('--draws', type=int, default=100)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--processes', type=int, default=os.cpu_count())
    args = parser.parse_args()
    os.environ['OPENBLAS_NUM_THREADS'] = '1'
    seeds = range(1000 * args.seed, 1000 * args.seed + args.draws)
    with multiprocessing.get_context('spawn').Pool(args.processes) as pool:
        draws = pool.map(functools.partial(draw, args.model), seeds, chunksize=1)
    servo = Servo.named('xl330', args.model)
    seconds = np.median([one.seconds for one in draws])
    print(f'{servo.name}, {args.draws} sets of logs, {seconds:.1f} s each')
    print(f'{"coefficient":32}{"identified":>11}{"held":>8}{"width":>8}  bias/sd')
    good = True
    for column, name in enumerate(servo.coefficients):
        own = [d for d in draws if d.identified[column]]
        if not own:
            print(f'{name:32}{0:11d}')
            continue
        truth, estimate, low, high = (
            np.array([getattr(d, key)[column] for d in own])
            for key in ('truth', 'estimate', 'low', 'high')
        )
        held = float(np.mean((low <= truth) & (truth <= high)))
        error = estimate - truth
        width = float(np.mean(high - low) / 2 / (1.96 * np.std(error)))
        bias = float(np.mean(error) / np.std(error))
        missed = not _SHARE[0] <= held <= _SHARE[1]
        good &= not missed
        mark = '  MISS' if missed else ''
        print(f'{name:32}{len(own):11d}{100 * held:7.0f}%{width:8.2f}{bias:8.2f}{mark}')
    print('PASS' if good else 'MISS')


if __name__ == '__main__':
    main()
