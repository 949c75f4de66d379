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
from cases.servo_logs import near, record

from sysid_ros.servos.bench.fit import fit_servo
from sysid_ros.servos.laws.servo import Servo

_SHARE = (0.90, 0.98)


class Draw(NamedTuple):
    """One set of logs: (p,) truth, estimates, ends of the intervals, whether identified."""

    truth: np.ndarray
    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    identified: np.ndarray
    seconds: float


def draw(model: str, seed: int) -> Draw:
    """Return one draw."""
    os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
    servo, rng = Servo.named('xl330', model), np.random.default_rng(seed)
    truth = near(servo, rng)
    logs, _ = record(servo, truth, rng)
    before = time.monotonic()
    found = fit_servo(servo, logs)
    return Draw(
        np.array(list(truth.values())),
        found.solution.x,
        np.array([interval.low for interval in found.intervals]),
        np.array([interval.high for interval in found.intervals]),
        np.array([interval.verdict == 'identified' for interval in found.intervals]),
        time.monotonic() - before,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--model', choices=('m1', 'm4'), default='m1')
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
