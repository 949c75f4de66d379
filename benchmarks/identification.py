# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Ten identifications with sysid_ros and with MuJoCo's own sysid toolbox, taking turns.

Both get the same model, start, bounds and recordings, all cores, and the same program but for the
import, with callbacks on the spec (sysid_ros with targets by --targets). Nothing was tuned on cases
f to h, and little on i and j. Every run has new noise, and all but the first other starts, up to
30 % of the bounds' distance away from the published one. The time is that of building the residual
function and fitting; "times" is the median of the runs' ratios, "worst" that of the worst run.
"share" is the part of the time that mujoco.rollout alone takes, on one pool of threads, for the
same simulations, call by call. An error is the root mean square of the parameters' errors, each in
units of the standard error that the noise leaves (Cramér-Rao), in the median run: about 1 is as
good as it gets; "off" counts runs with more than 3, whose time then says little. MB are those at
the peak beyond model and data.

They do not do the same work. The toolbox interpolates commands between samples and stamps
predictions one timestep later than the state that they describe, where most of its error comes
from. How long it searches at the optimum differs from noise to noise.

``growth`` shows how time grows with sequences, length, parameters and threads, and memory with
iterations. Time is shown per simulated step, which is flat where the time grows linearly: fits of
different data need different numbers of iterations. "off line" is how far the time is from the
straight line through the smallest and the largest size.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import json
import statistics
import sys
from collections.abc import Sequence

import numpy as np
from shared.cases import CASES, SEQUENCES, chain_case, seven_joint_case, tutorial_case
from shared.common import AnyOf, OneOf, Table, in_own_process, in_turns, peak, resident, run
from shared.contenders import (
    MODULES,
    OURS,
    TOOLBOX,
    Case,
    Outcome,
    fit,
    ideal_seconds,
    installed,
    prepare,
    solve,
)

#: Root mean square error, in standard errors, from which an answer is not the truth.
_WRONG = 3.0
_BOTH = AnyOf(MODULES)
_OURS_FIRST = OneOf((OURS, TOOLBOX))
_SIZES = (1, 3, 10, 30, 100)
#: Unknowns of a chain of twenty joints: all armatures, then dampings, frictions and springs.
_UNKNOWNS = (5, 10, 20, 40, 80)


def compare(
    *,
    case: str = ','.join(CASES),
    runs: int = 10,
    only: AnyOf = _BOTH,
    targets: bool = False,
    no_memory: bool = False,
) -> None:
    """Fit the cases whose letters are given, as ``a,d``."""
    contenders = [name for name in only if installed(name)]
    for name in contenders:  # imports, thread pools, caches
        fit(name, CASES['a']())
    table = Table(
        'case:42s', 'contender:12s', 'median/s:9.3f', 'from:8.3f', 'to:8.3f', 'times:6.1f',
        'worst:6.1f', 'rollouts:9.0f', 'iterations:10.0f', 'share:6.0%', 'error:6.1f', 'off:4d',
        'MB:5.0f', 'ended:s',
    )  # fmt: skip
    for key in (key for key in CASES if key in case.split(',')):
        own = CASES[key]()
        measured = in_turns(
            {name: functools.partial(_fitted, name, own, targets=targets) for name in contenders},
            runs,
        )
        for name, found in measured.items():
            megabytes = None
            if key == 'b' and not no_memory:
                megabytes = in_own_process(__file__, name, key)['megabytes']
            _show(table, own, name, measured, found, megabytes)


def _fitted(name: str, case: Case, number: int, *, targets: bool) -> tuple[Outcome, float]:
    """Fit from the start of a run; return also what MuJoCo alone takes after a run of ours."""
    outcome = fit(name, case.started(number), number, targets=targets)
    ideal = ideal_seconds(case, outcome.meter.calls) if name == OURS else np.nan
    return outcome, ideal / outcome.seconds


def _show(
    table: Table,
    case: Case,
    name: str,
    measured: dict[str, list[tuple[Outcome, float]]],
    found: list[tuple[Outcome, float]],
    megabytes: float | None,
) -> None:
    outcomes = [outcome for outcome, _ in found]
    seconds = [outcome.seconds for outcome in outcomes]
    theirs = measured.get(TOOLBOX, []) if name == OURS else []
    ratios = [other.seconds / own for (other, _), own in zip(theirs, seconds, strict=False)]
    errors = [
        float(np.sqrt(np.mean(((own.values - case.truth) / case.standard_errors()) ** 2)))
        for own in outcomes
    ]
    table.row(
        f'{case.key} {case.title}',
        name,
        statistics.median(seconds),
        min(seconds),
        max(seconds),
        statistics.median(ratios) if ratios else None,
        min(ratios, default=None),
        statistics.median(own.meter.rollouts for own in outcomes),
        statistics.median(own.iterations for own in outcomes),
        statistics.median(share for _, share in found) if name == OURS else None,
        statistics.median(errors),
        sum(not error < _WRONG for error in errors),
        megabytes,
        ' | '.join(dict.fromkeys(outcome.message for outcome in outcomes)),
    )


def _measure_memory(name: str, key: str) -> None:
    """Fit once in this process and print the MB between peak and what was there before."""
    problem = prepare(name, CASES[key](), 0)
    _settle()
    before = max(resident(), peak())
    solve(problem)
    print(json.dumps({'megabytes': (peak() - before) / 1e6}))


def _settle() -> None:
    """Give memory that nobody uses back to the system, so that its reuse is not overlooked."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), 'malloc_trim', None)  # glibc only
    if trim is not None:
        trim(0)


def growth(*, of: OneOf = _OURS_FIRST, runs: int = 3) -> None:
    """Fit ever more sequences, longer ones, and more unknowns."""
    name = str(of)
    fit(name, tutorial_case('a', ''))  # imports, thread pools

    def median(case: Case, threads: int = 0) -> tuple[float, int]:
        options = {'n_threads': threads} if threads else {}
        found = [solve(prepare(name, case, 0, targets=True), **options) for _ in range(runs)]
        return statistics.median(one.seconds for one in found), found[0].meter.steps

    table = Table(
        'what grows:24s', 'size:5d', 's:9.3f', 'k steps:9.0f', 'µs/step:8.2f', 'off line:9.1%'
    )
    for title, sizes, cases in (
        ('sequences of 1 s', _SIZES, [tutorial_case('', '', count=n, seconds=1.0) for n in _SIZES]),
        ('length of one, s', _SIZES, [tutorial_case('', '', seconds=float(n)) for n in _SIZES]),
        ('unknowns of 20 joints', _UNKNOWNS, [chain_case(n) for n in _UNKNOWNS]),
    ):
        points = [median(case) for case in cases]
        _show_growth(table, title, sizes, points)
    _repeated(name)
    for title, case in (
        ('meshed 7-joint arm', seven_joint_case()),
        ('20 sequences', tutorial_case('', '', count=SEQUENCES)),
    ):
        one, two = (median(case, threads)[0] for threads in (1, 2))
        print(f'{title}: {one:.3f} s with one thread, {two:.3f} s with two, {one / two:.2f} times')


def _show_growth(
    table: Table, title: str, sizes: Sequence[int], points: list[tuple[float, int]]
) -> None:
    (first, fewest), (last, most) = points[0], points[-1]
    slope = (last - first) / (most - fewest)
    for size, (seconds, steps) in zip(sizes, points, strict=True):
        line = first + slope * (steps - fewest)
        table.row(title, size, seconds, steps / 1e3, 1e6 * seconds / steps, seconds / line - 1)


def _repeated(name: str) -> None:
    """Print the memory that is held after more and more evaluations of a residual function."""
    problem = prepare(name, tutorial_case('a', ''), 0, targets=True)
    residual = problem.sysid.build_residual_fn(**problem.options)
    start = problem.parameters.as_vector()
    moved = start[:, None] + 1e-4 * np.eye(len(start))
    held = []
    for number in range(101):
        residual(moved, problem.parameters)
        if number in {0, 1, 10, 100}:
            _settle()
            held.append(resident())
    grown = ', '.join(f'{(each - held[0]) / 1e6:+.2f}' for each in held[1:])
    print(f'MB after 1, 10 and 100 more evaluations of a Jacobian: {grown}')


if __name__ == '__main__':
    if sys.argv[1:2] == ['measure']:
        _measure_memory(*sys.argv[2:])
    else:
        run(__doc__, compare, growth)
