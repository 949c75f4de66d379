# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Ten identifications with sysid_ros and with MuJoCo's own sysid toolbox, taking turns.

Both get the same model, start, bounds and recordings, all cores, and the same program but for the
import, with callbacks on the spec. Nothing was tuned on cases f to h, and little on i and j. Every
run has new noise, and all but the first other starts, up to 30 % of the bounds' distance away from
the published one. The time is that of building the residual function and fitting.

The ratio is the median of the runs' ratios, "worst" that of the worst run. "rollout" is the share
of our time that mujoco.rollout alone takes, on one pool of threads, for the simulations that
sysid_ros ran, call by call. An error is the root mean square of the parameters' errors, each in
units of the standard error that the noise leaves (Cramér-Rao), in the median run: about 1 is as
good as it gets; "off" counts runs with more than 3, whose time then says little.

They do not do the same work. The toolbox interpolates commands between samples and stamps
predictions one timestep later than the state that they describe, where most of its error comes
from. How long it searches at the optimum differs from noise to noise.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
from collections.abc import Callable
from typing import NamedTuple

import mujoco
import numpy as np
from cases import cases, robots
from cases.case import Case
from cases.contenders import MODULES, Outcome, fit, load
from cases.memory import extra_memory
from cases.meter import ideal_seconds

REFERENCE, OURS = MODULES
MEMORY_CASES = 'b'
RUNS = 10
#: Root mean square error, in standard errors, from which an answer is not the truth.
_WRONG = 3.0
_ROW = '{:2s}{:42s}{:>9s}{:>8s}{:>7s}{:>7s}{:>6s}{:>9s}{:>7s}{:>9s}{:>9s}{:>7s}{:>8s}{:>5s}'


class Row(NamedTuple):
    """What was measured for one case: outcomes of each contender, and the share of rollouts."""

    case: Case
    outcomes: dict[str, list[Outcome]]
    shares: list[float]

    def median(self, name: str, of: Callable[[Outcome], float]) -> float | None:
        """Return the median of something over the runs of a contender, None where none ran."""
        found = self.outcomes.get(name)
        return statistics.median(map(of, found)) if found else None

    def errors(self, name: str) -> list[float]:
        """Return the root mean square error of each run, in standard errors."""
        sizes = self.case.standard_errors()
        return [
            float(np.sqrt(np.mean(((found.values - self.case.truth) / sizes) ** 2)))
            for found in self.outcomes.get(name, ())
        ]

    def ratios(self) -> list[float]:
        """Return the ratio of the times of each run."""
        both = [self.outcomes.get(name, ()) for name in (REFERENCE, OURS)]
        return [theirs.seconds / own.seconds for theirs, own in zip(*both, strict=False)]


def measure(case: Case, contenders: list[str], runs: int, *, targets: bool) -> Row:
    """Run the contenders in turns, and MuJoCo alone after each run of ours."""
    row = Row(case, {name: [] for name in contenders}, [])
    for run in range(runs):
        started = case.started(run)
        for name in contenders if run % 2 else reversed(contenders):
            outcome = fit(name, started, run, targets=targets)
            row.outcomes[name].append(outcome)
            if name == OURS:
                row.shares.append(ideal_seconds(case, outcome.meter.calls) / outcome.seconds)
    return row


def table_row(row: Row) -> str:
    """Return medians of one case as a line of the table."""
    ratios, errors = row.ratios(), {name: row.errors(name) for name in MODULES}
    return _ROW.format(
        row.case.key,
        row.case.title,
        *(_number(row.median(name, lambda found: found.seconds), '.2f') for name in MODULES),
        _number(statistics.median(ratios) if ratios else None, '.1f'),
        _number(min(ratios, default=None), '.1f'),
        f'≥ {row.case.required:g}',
        *(_number(row.median(name, lambda found: found.meter.rollouts), '.0f') for name in MODULES),
        _number(statistics.median(row.shares) if row.shares else None, '.0%'),
        *(
            text
            for name in MODULES
            for text in (
                _number(statistics.median(errors[name]) if errors[name] else None, '.1f'),
                f'{sum(not error < _WRONG for error in errors[name])}',
            )
        ),
    )


def _number(value: float | None, form: str) -> str:
    return '-' if value is None else format(value, form)


def details(row: Row) -> list[str]:
    """Say how the fits of one case went: work, spread of the times, ends."""
    lines = [f'{row.case.key}  {row.case.title}, {row.case.size} unknowns']
    errors = row.case.standard_errors()
    for name, outcomes in row.outcomes.items():
        seconds = [outcome.seconds for outcome in outcomes]
        worst = max(float(np.max(np.abs(o.values - row.case.truth) / errors)) for o in outcomes)
        ends = list(dict.fromkeys(outcome.message for outcome in outcomes))
        lines.append(
            f'   {name:13s} {min(seconds):.3f} to {max(seconds):.3f} s in {len(seconds)} runs, '
            f'cpu {row.median(name, lambda found: found.cpu):.2f} s; '
            f'{row.median(name, lambda found: found.iterations):g} iterations, '
            f'{row.median(name, lambda found: len(found.meter.calls)):g} calls, '
            f'{row.median(name, lambda found: found.meter.steps / 1e3):,.0f} k steps; '
            f'worst error {worst:.1f} standard errors; '
            f'ended: {" | ".join(ends)}'
        )
    ratios = ', '.join(f'{ratio:.1f}' for ratio in row.ratios())
    return [*lines, f'   ratios of the runs: {ratios}'] if ratios else lines


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('--case', default=','.join(cases.KEYS), help='letters, e.g. a,d')
    parser.add_argument('--runs', type=int, default=RUNS, help='runs of each contender')
    parser.add_argument(
        '--targets', action='store_true', help='give sysid_ros targets instead of callbacks'
    )
    parser.add_argument('--only', choices=list(MODULES), help='run one contender')
    parser.add_argument('--no-memory', action='store_true', help='leave the memory out')
    return parser.parse_args()


def main() -> None:
    """Print a line per case as it is done, then how the fits went."""
    arguments = _arguments()
    contenders = [name for name in MODULES if load(name) is not None]
    for name in MODULES:
        if name not in contenders:
            hint = "pip install 'mujoco-core[sysid]'" if name == REFERENCE else 'pip install -e .'
            print(f'{name} is left out: {hint}')
    contenders = [name for name in contenders if arguments.only in (None, name)]
    keys = [key for key in cases.KEYS if key in arguments.case.split(',')]
    if robots.missing() and set(keys) & set(cases.MESHED):
        print(f'The meshed cases are left out: {robots.missing()}')
        keys = [key for key in keys if key not in cases.MESHED]
    print(
        f'{os.cpu_count()} cores, Python {platform.python_version()}, MuJoCo {mujoco.__version__}, '
        f'NumPy {np.__version__}'
    )
    for name in contenders:  # imports, thread pools, caches
        fit(name, cases.make('a'))
    print(
        _ROW.format(
            '',
            '',
            'seconds',
            '',
            'ratio',
            '',
            'at',
            'rollouts',
            '',
            'rollout',
            'error',
            'runs',
            'error',
            'runs',
        )
    )
    print(
        _ROW.format(
            '', 'case', 'toolbox', 'ours', 'median', 'worst', 'least', 'toolbox', 'ours', 'share',
            'toolbox', 'off', 'ours', 'off',
        )
    )  # fmt: skip
    rows = []
    for key in keys:
        case = cases.make(key)
        row = measure(case, contenders, arguments.runs, targets=arguments.targets)
        print(table_row(row), flush=True)
        rows.append(row)
    print()
    for row in rows:
        print('\n'.join(details(row)))
        if row.case.key in MEMORY_CASES and not arguments.no_memory:
            for name in contenders:
                megabytes = extra_memory(name, row.case.key)
                shown = _number(megabytes, '.0f')
                print(f'   {name:13s} {shown} MB beyond model and data at the peak')
    print('\n' + '\n\n'.join((__doc__ or '').split('\n\n')[1:]))


if __name__ == '__main__':
    main()
