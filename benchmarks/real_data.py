# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Two real robots, fitted without one kind of motion at a time and judged on that one.

The data are not part of the project; see ``cases/recorded.py`` for their sources. Predictions are
open loop over the whole length of each run, so errors are those of a simulation, not of a filter.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from cases.recorded import Robot, quadruped, servo
from numpy.typing import NDArray

from sysid_ros.config import SolverConfig
from sysid_ros.estimation.solver.least_squares import SolverSettings
from sysid_ros.identification.fit import Fit, fit
from sysid_ros.pipeline.validation import leave_out as refit_without
from sysid_ros.rollout.prediction import predict
from sysid_ros.signals.trajectory import Trajectory

DATA = Path(os.environ.get('SYSID_SHARED_DATA', Path(__file__).parents[2] / 'shared' / 'data'))
ROBOTS = {'servo_sysid': servo, 'go2_iit': quadruped}
#: Iterations of the fit to all data.
_ITERATIONS = 30


class Score(NamedTuple):
    """Root mean square error in rad on a family that was held out, and the values fitted then."""

    family: str
    nominal: float
    inside: float
    outside: float
    values: NDArray[np.float64]


def errors(
    robot: Robot, sequences: Sequence[Trajectory], x: NDArray[np.float64] | None
) -> list[NDArray[np.float64]]:
    """Return (n, k) measured minus predicted of every sequence, in rad."""
    found = (
        predict(robot.model, sequences)
        if x is None
        else predict(robot.spec, sequences, robot.unknowns, x)
    )
    return [
        sequence.measurements[0].data - prediction.channels[0][0]
        for sequence, prediction in zip(sequences, found, strict=True)
    ]


def rms(parts: Sequence[NDArray[np.float64]]) -> float:
    """Return the root mean square of what is finite."""
    values = np.concatenate([part.ravel() for part in parts])
    return float(np.sqrt(np.nanmean(values**2)))


def solve(robot: Robot, sequences: Sequence[Trajectory]) -> Fit:
    """Fit a robot's unknowns to some sequences."""
    # What no model of this kind follows, as backlash, counts less.
    settings = SolverSettings(max_iterations=_ITERATIONS, loss='huber')
    return fit(robot.spec, robot.unknowns, sequences, settings=settings)


def leave_out(robot: Robot, family: str, full: Fit) -> Score:
    """Fit without a family, from near the fit to all, and judge on the family."""
    every = [sequence for runs in robot.families.values() for sequence in runs]
    held_out = {family: tuple(robot.families[family])}
    (fold,) = refit_without(robot.spec, every, held_out, full, SolverConfig())
    without = np.array(fold.values)
    own = robot.families[family]
    return Score(
        family,
        rms(errors(robot, own, None)),
        rms(errors(robot, own, full.solution.x)),
        rms(errors(robot, own, without)),
        without,
    )


def neighbours(parts: Sequence[NDArray[np.float64]]) -> float:
    """Return the correlation of neighbouring residuals."""
    before = np.concatenate([part[:-1].ravel() for part in parts])
    after = np.concatenate([part[1:].ravel() for part in parts])
    known = np.isfinite(before) & np.isfinite(after)
    return float(np.corrcoef(before[known], after[known])[0, 1])


def report(name: str, robot: Robot) -> bool:
    """Print what a robot's data say; return whether held-out error is below the nominal one."""
    sequences = [sequence for runs in robot.families.values() for sequence in runs]
    seconds = sum(sequence.duration for sequence in sequences)
    print(
        f'\n{name}: {len(sequences)} runs, {seconds:.0f} s, {len(robot.unknowns)} unknowns',
        flush=True,
    )
    began = time.perf_counter()
    full = solve(robot, sequences)
    took = time.perf_counter() - began
    left = errors(robot, sequences, full.solution.x)
    print(f'fitted in {took:.0f} s: {full.solution.message} {full.diverged} rollouts diverged')
    print(f'residuals: neighbours correlate by {neighbours(left):.3f};', end=' ')
    print(f'{len(full.solution.residual)} say as much as {full.inference.effective:.0f}')
    print(f'intervals: {full.inference.method}; {" ".join(full.inference.notes)}', flush=True)
    print(f'\n{"held out":12s} {"nominal":>9s} {"fitted to all":>14s} {"without it":>11s}  rad')
    scores = []
    for family in robot.families:
        score = leave_out(robot, family, full)
        scores.append(score)
        print(
            f'{score.family:12s} {score.nominal:9.4f} {score.inside:14.4f} {score.outside:11.4f}'
            f'  x{score.outside / score.nominal:.2f}',
            flush=True,
        )
    spread = np.std([score.values for score in scores], axis=0, ddof=1)
    print(f'\n{"parameter":32s} {"value":>9s} {"+-":>9s} {"over folds":>11s}  verdict')
    for place, interval in enumerate(full.intervals):
        half = (interval.high - interval.low) / 2
        print(
            f'{robot.unknowns[place].name:32s} {full.solution.x[place]:9.4g} {half:9.2g} '
            f'{spread[place]:11.2g}  {interval.verdict} {interval.explanation}'
        )
    below = [score.outside < score.nominal for score in scores]
    verdict = 'PASS' if all(below) else 'MISS'
    print(f'{verdict}: held-out error below the nominal one on {sum(below)} of {len(below)}')
    return all(below)


def main() -> int:
    """Fit the robots whose data are there."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('--data', type=Path, default=DATA, help='folder of the recordings')
    parser.add_argument('--only', choices=list(ROBOTS))
    parser.add_argument('--every', type=int, default=1, help='take every n-th run of a family')
    arguments = parser.parse_args()
    chosen = [arguments.only] if arguments.only else list(ROBOTS)
    missing = [name for name in chosen if not (arguments.data / name).is_dir()]
    if missing:
        print(f'Expected {" and ".join(missing)} in {str(arguments.data)!r}, found none.')
        return 2
    passed = []
    for name in chosen:
        robot = ROBOTS[name](arguments.data / name)
        thinned = {key: runs[:: arguments.every] for key, runs in robot.families.items()}
        passed.append(report(name, robot._replace(families=thinned)))
    return 0 if all(passed) else 1


if __name__ == '__main__':
    sys.exit(main())
