# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How time and memory of a fit grow with sequences, length, parameters, iterations and threads.

Time is shown per simulated step, which is flat where the time grows linearly: fits of different
data need different numbers of iterations. "off line" is how far the time is from the straight line
through the smallest and the largest size. Memory is the peak beyond model and data.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from cases import arm, chain, robots
from cases.case import Case
from cases.contenders import MODULES, load, prepare
from cases.memory import resident, settle
from cases.meter import Meter

SIZES = (1, 3, 10, 30, 100)
#: Unknowns of a chain of twenty joints: all armatures, then dampings, frictions and springs.
UNKNOWNS = (5, 10, 20, 40, 80)
REPEATS = (1, 10, 100)
RUNS = 3
#: Seconds of the tutorial's arm where the number of sequences grows.
_SHORT = 1.0
_MEGABYTE = 1e6


class Point(NamedTuple):
    """Median of some fits: wall time in s, and steps."""

    size: int
    seconds: float
    steps: int


def fitted(case: Case, sysid: Any, threads: int = 0) -> tuple[float, int]:
    """Return the seconds and the steps of a fit."""
    problem = prepare(sysid, case, 0, callbacks=False)
    options = {**problem.options, **({'n_threads': threads} if threads else {})}
    with Meter() as meter:
        began = time.perf_counter()
        residual = sysid.build_residual_fn(**options)
        sysid.optimize(problem.parameters, residual, optimizer='mujoco', verbose=False)
        seconds = time.perf_counter() - began
    return seconds, meter.steps


def median(case: Case, sysid: Any, size: int, threads: int = 0) -> Point:
    """Fit a few times."""
    found = [fitted(case, sysid, threads) for _ in range(RUNS)]
    return Point(size, statistics.median(seconds for seconds, _ in found), found[0][1])


def show(title: str, points: Sequence[Point]) -> None:
    """Print times, per step, and their distance from the straight line through the ends."""
    print(title)
    first, last = points[0], points[-1]
    slope = (last.seconds - first.seconds) / (last.steps - first.steps)
    for point in points:
        line = first.seconds + slope * (point.steps - first.steps)
        each = point.seconds / point.steps
        print(
            f'  {point.size:4d} {point.seconds:9.3f} s {point.steps / 1e3:9,.0f} k steps'
            f'{each * 1e6:9.2f} µs/step{point.seconds / line - 1:+9.1%} off line'
        )


def repeated(sysid: Any) -> None:
    """Print the memory that is held after more and more evaluations of a residual function."""
    problem = prepare(sysid, arm.armature_case('growth', '', 1.0), 0, callbacks=False)
    residual = sysid.build_residual_fn(**problem.options)
    start = problem.parameters.as_vector()
    moved = start[:, None] + 1e-4 * np.eye(len(start))
    residual(moved, problem.parameters)
    settle()
    before = resident()
    print('evaluations of a Jacobian, memory beyond that after the first')
    done = 0
    for count in REPEATS:
        for _ in range(count - done):
            residual(moved, problem.parameters)
        done = count
        settle()
        print(f'  {count:4d} {(resident() - before) / _MEGABYTE:+9.2f} MB')


def main() -> None:
    """Print the growth of sysid_ros, or of the toolbox."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('--of', choices=list(MODULES), default=list(MODULES)[-1])
    sysid = load(parser.parse_args().of)
    if sysid is None:
        parser.error('that contender is not installed')
    fitted(arm.armature_case('growth', '', 1.0), sysid)  # imports, thread pools
    show(
        'sequences of 1 s',
        [
            median(arm.armature_case('growth', '', 1.0, count=size, seconds=_SHORT), sysid, size)
            for size in SIZES
        ],
    )
    show(
        'length of one sequence, s',
        [
            median(arm.armature_case('growth', '', 1.0, seconds=float(size)), sysid, size)
            for size in SIZES
        ],
    )
    show(
        'unknowns of a chain of 20 joints, 5 s',
        [median(chain.case(size), sysid, size) for size in UNKNOWNS],
    )
    repeated(sysid)
    case, many = robots.arm_case(), arm.armature_case('growth', '', 1.0, count=arm.SEQUENCES)
    for title, chosen in (('meshed 7-joint arm', case), ('20 sequences', many)):
        one, two = (median(chosen, sysid, threads, threads) for threads in (1, 2))
        print(
            f'{title}: {one.seconds:.3f} s with one thread, {two.seconds:.3f} s with two, '
            f'{one.seconds / two.seconds:.2f} times as fast'
        )


if __name__ == '__main__':
    main()
