# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Seven armatures of a seven-joint arm from random starts, with sysid_ros and MuJoCo's toolbox.

The starts are drawn over the whole bounds; data and everything else stay the same. The toolbox gets
the samples stamped one timestep later, as it stamps its predictions. A fit is at the truth when
every armature is within 5 standard errors of it.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
from typing import NamedTuple

import numpy as np
from cases import arm, robots
from cases.case import Case
from cases.contenders import MODULES, fit, load
from numpy.typing import NDArray

STARTS = 20
SEED = 0
#: How many standard errors from the truth is still at it.
_SIGMAS = 5.0


class Start(NamedTuple):
    """What came of one start: relative errors, wall time in s, rollouts and the solver's words."""

    errors: NDArray[np.float64]
    there: bool
    seconds: float
    rollouts: int
    message: str


def run(name: str, case: Case, values: NDArray[np.float64], limit: NDArray[np.float64]) -> Start:
    """Fit from a start."""
    free = tuple(
        dataclasses.replace(parameter, start=value[None])
        for parameter, value in zip(case.free, values, strict=True)
    )
    late = arm.TIMESTEP if name == 'mujoco.sysid' else 0.0
    found = fit(name, dataclasses.replace(case, free=free), late=late)
    errors = found.values - case.truth
    there = bool(np.all(np.abs(errors) <= limit))
    return Start(errors / case.truth, there, found.seconds, found.meter.rollouts, found.message)


def main() -> None:
    """Print, for each contender, how many starts ended at the truth, and where the others did."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('--starts', type=int, default=STARTS)
    parser.add_argument('--seed', type=int, default=SEED, help='of the starts')
    parser.add_argument('--only', choices=list(MODULES), help='run one contender')
    arguments = parser.parse_args()
    if robots.missing():
        parser.error(str(robots.missing()))
    case = robots.torque_arm_case()
    limit = _SIGMAS * case.standard_errors()
    low, high = arm.BOUNDS
    starts = np.random.default_rng(arguments.seed).uniform(low, high, (arguments.starts, case.size))
    print(f'{case.title}, {arm.SECONDS:g} s, {arm.NOISE:g} rad of noise, {len(starts)} starts')
    for name in MODULES:
        if arguments.only not in (None, name) or load(name) is None:
            continue
        ends = [run(name, case, values, limit) for values in starts]
        seconds = statistics.median(end.seconds for end in ends)
        rollouts = statistics.median(end.rollouts for end in ends)
        print(
            f'{name:13s} {sum(end.there for end in ends)} of {len(ends)} at the truth; '
            f'median {seconds:.3f} s, {rollouts:g} rollouts; '
            f'slowest {max(end.seconds for end in ends):.3f} s'
        )
        for number, end in enumerate(ends):
            if not end.there:
                worst = np.abs(end.errors).max()
                print(f'{"":13s} start {number}: up to {worst:.0%} off, ended: {end.message}')


if __name__ == '__main__':
    main()
