# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fits from many starts: a seven-joint arm, and a double pendulum that tumbles for ten seconds.

The starts are drawn over the whole bounds; the recordings stay the same. A fit of the arm is at the
optimum when every value is within .1 standard errors of the solution that starts at the truth. Its
steps are those until then that had a Jacobian of their own; "moves" are all, also those that went
on with an older one, for the cost of a single simulation. A fit of the pendulum is
recovered when every parameter is within 3 standard errors or 1 % of the truth.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from typing import NamedTuple

import numpy as np
from cases.starting import Example, arm, double_pendulum
from numpy.typing import NDArray

from sysid_ros.config.calibration import StartChoice
from sysid_ros.errors import FitError
from sysid_ros.estimation.solver.quadratic import KEPT
from sysid_ros.identification.fit import Fit, fit

STARTS = 20
#: Distance from the optimum at which a fit is there, and at which a step still counts, in
#: standard errors.
_THERE = 0.1
#: Distance from the truth at which a value is recovered.
_SIGMAS, _SHARE = 3.0, 0.01
_QUANTILE = 1.96


class Outcome(NamedTuple):
    """What came of one start: whether it arrived, steps and moves until then, time, way, end."""

    there: bool
    steps: int
    moves: int
    seconds: float
    began: str
    status: str
    rollouts: int


def starts(example: Example, count: int, seed: int) -> NDArray[np.float64]:
    """Return (count, p) values, uniform over the bounds."""
    low = [unknown.min_value for unknown in example.unknowns]
    high = [unknown.max_value for unknown in example.unknowns]
    return np.random.default_rng(seed).uniform(low, high, (count, len(low)))


def fitted(example: Example, values: NDArray[np.float64], choice: StartChoice) -> Fit:
    """Fit from a start."""
    unknowns = [
        dataclasses.replace(unknown, nominal=float(value))
        for unknown, value in zip(example.unknowns, values, strict=True)
    ]
    return fit(example.model, unknowns, example.sequences, start=choice, threads=1)


def errors(found: Fit) -> NDArray[np.float64]:
    """Return (p,) standard errors."""
    return np.array([(i.high - i.low) / (2 * _QUANTILE) for i in found.intervals])


def run_arm(
    example: Example, values: NDArray[np.float64], choice: StartChoice, optimum: Fit
) -> Outcome:
    """Fit the arm and compare the path with the optimum."""
    began = time.perf_counter()
    found = fitted(example, values, choice)
    seconds = time.perf_counter() - began
    sigma = errors(optimum)
    path = np.array([entry.x[: len(sigma)] for entry in found.solution.trace])
    away = np.abs((path - optimum.solution.x) / sigma).max(axis=1)
    last = np.abs((found.solution.x - optimum.solution.x) / sigma).max()
    moved = np.abs(np.diff(path, axis=0) / sigma).max(axis=1) > 0
    late = np.flatnonzero(away > _THERE)
    until = int(late[-1]) + 1 if len(late) else 0
    own = np.array([entry.jacobian != KEPT for entry in found.solution.trace[:until]], dtype=bool)
    return Outcome(
        bool(last <= _THERE),
        int((moved[:until] & own).sum()),
        int(moved[:until].sum()),
        seconds,
        found.start,
        found.solution.status,
        found.rollouts,
    )


def run_pendulum(example: Example, values: NDArray[np.float64], choice: StartChoice) -> Outcome:
    """Fit the pendulum and compare the end with the truth."""
    began = time.perf_counter()
    try:
        found = fitted(example, values, choice)
    except FitError as err:
        return Outcome(
            there=False,
            steps=0,
            moves=0,
            seconds=time.perf_counter() - began,
            began=choice,
            status=str(err),
            rollouts=0,
        )
    seconds = time.perf_counter() - began
    away = np.abs(found.solution.x - example.truth)
    limit = np.fmax(_SIGMAS * errors(found), _SHARE * np.abs(example.truth))
    # The interval of a fit that is lost may be as wide as it likes: it has to explain the data.
    explained = 2 * found.solution.cost < 1.5 * len(found.solution.residual)
    noise = max(found.noise.values()) < 2 * example.noise
    there = bool(np.all(away <= limit) and explained and noise)
    steps = len(found.solution.trace) - 1
    way = found.start if found.window is None else f'{found.start} of {found.window:g} s'
    return Outcome(there, steps, steps, seconds, way, found.solution.status, found.rollouts)


def report(title: str, outcomes: list[Outcome]) -> None:
    """Print one line, and one for each start that did not arrive."""
    arrived = sum(outcome.there for outcome in outcomes)
    steps = [outcome.steps for outcome in outcomes]
    moves = [outcome.moves for outcome in outcomes]
    ways = sorted({outcome.began for outcome in outcomes})
    ends = sorted({outcome.status for outcome in outcomes})
    print(
        f'{title:44s} {arrived} of {len(outcomes)}; steps {min(steps)} to {max(steps)}, '
        f'moves {min(moves)} to {max(moves)}, '
        f'{statistics.median(o.seconds for o in outcomes):.2f} s, '
        f'{statistics.median(o.rollouts for o in outcomes):.0f} rollouts; from {", ".join(ways)}; '
        f'ended with {", ".join(ends)}',
        flush=True,
    )
    for number, outcome in enumerate(outcomes):
        if not outcome.there:
            print(f'    start {number}: {outcome.status}, {outcome.steps} steps')


def main() -> None:
    """Print, with our start and without, how many of the starts arrived."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('--starts', type=int, default=STARTS)
    parser.add_argument('--seed', type=int, default=0, help='of noise and starts')
    parser.add_argument('--only', choices=['torque', 'servo', 'pendulum'])
    parser.add_argument('--choices', nargs='+', default=['auto', 'nominal'])
    arguments = parser.parse_args()
    for case in ('torque', 'servo'):
        if arguments.only not in (None, case):
            continue
        example = arm(torque=case == 'torque', seed=arguments.seed)
        optimum = fitted(example, example.truth, 'nominal')
        drawn = starts(example, arguments.starts, arguments.seed)
        for choice in arguments.choices:
            report(
                f'arm, {"with" if case == "torque" else "without"} torque sensors, start {choice}',
                [run_arm(example, values, choice, optimum) for values in drawn],
            )
    if arguments.only in (None, 'pendulum'):
        example = double_pendulum(seed=arguments.seed)
        drawn = starts(example, arguments.starts, arguments.seed)
        for choice in arguments.choices:
            report(
                f'double pendulum, start {choice}',
                [run_pendulum(example, values, choice) for values in drawn],
            )


if __name__ == '__main__':
    main()
