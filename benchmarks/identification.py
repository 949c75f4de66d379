# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Six identifications with sysid_ros and with MuJoCo's own sysid toolbox, taking turns.

Both get the same model, start, bounds and recordings, all cores, and the same program but for the
import; sysid_ros is told targets where the toolbox is given callbacks on the spec, except in
case f. Each run has new noise. The time is that of building the residual function and fitting.

"ideal" is the time that mujoco.rollout alone takes, on one pool of threads, for the simulations
that sysid_ros ran, call by call. An error is the root mean square of the parameters' errors, each
in units of the standard error that the noise leaves (Cramér-Rao): about 1 is as good as it gets,
and an exclamation mark is beside what is not the truth, whose time then says little.

They do not do the same work. The toolbox interpolates commands between samples and stamps
predictions one timestep later than the state that they describe, where most of its error in b, c
and e comes from. How long it searches at the optimum differs from noise to noise.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np
from cases import cases, robots
from cases.contenders import MODULES, fit, load
from cases.memory import extra_memory
from cases.meter import ideal_seconds

if TYPE_CHECKING:
    from cases.case import Case
    from cases.contenders import Outcome

REFERENCE, OURS = MODULES
MEMORY_CASES = 'b'
#: Root mean square error, in standard errors, from which an answer is not the truth.
_WRONG = 3.0
_ROW = '{:2s}{:41s}{:>10s}{:>10s}{:>7s}{:>6s}{:>8s}{:>7s}{:>10s}{:>9s}{:>9s}{:>9s}'


class Row(NamedTuple):
    """What was measured for one case: outcomes of each contender, and the ideal of ours, s."""

    case: Case
    outcomes: dict[str, list[Outcome]]
    ideal: list[float]


def measure(case: Case, contenders: list[str], runs: int) -> Row:
    """Run the contenders in turns, and MuJoCo alone after each run of ours."""
    row = Row(case, {name: [] for name in contenders}, [])
    for run in range(runs):
        for name in contenders if run % 2 else reversed(contenders):
            outcome = fit(name, case, run)
            row.outcomes[name].append(outcome)
            if name == OURS:
                row.ideal.append(ideal_seconds(case, outcome.meter.calls))
    return row


def table_row(row: Row) -> str:
    """Return medians of one case as a line of the table."""
    case = row.case
    seconds = {
        name: statistics.median(outcome.seconds for outcome in outcomes)
        for name, outcomes in row.outcomes.items()
    }
    steps = {
        name: statistics.median(outcome.meter.steps for outcome in outcomes)
        for name, outcomes in row.outcomes.items()
    }
    errors = case.standard_errors()
    rms = {
        name: float(np.sqrt(np.mean([((o.values - case.truth) / errors) ** 2 for o in outcomes])))
        for name, outcomes in row.outcomes.items()
    }
    both = len(seconds) > 1
    ideal = statistics.median(row.ideal) if row.ideal else None
    return _ROW.format(
        case.key,
        case.title,
        _number(seconds.get(REFERENCE), '.3f'),
        _number(seconds.get(OURS), '.3f'),
        _number(seconds[REFERENCE] / seconds[OURS] if both else None, '.1f'),
        f'≥ {case.required:g}',
        _number(ideal, '.3f'),
        _number(seconds[OURS] / ideal if ideal else None, '.2f'),
        _number(steps.get(REFERENCE), ',.0f', 1e-3),
        _number(steps.get(OURS), ',.0f', 1e-3),
        _error(rms.get(REFERENCE)),
        _error(rms.get(OURS)),
    )


def _error(value: float | None) -> str:
    return '-' if value is None else f'{value:.1f}' + ('' if value < _WRONG else '!')


def _number(value: float | None, form: str, factor: float = 1.0) -> str:
    return '-' if value is None else format(value * factor, form)


def details(row: Row) -> list[str]:
    """Say how the fits of one case went: work, spread of the times, ends."""
    lines = [f'{row.case.key}  {row.case.title}, {row.case.size} unknowns']
    for name, outcomes in row.outcomes.items():
        seconds = [outcome.seconds for outcome in outcomes]
        cpu = statistics.median(outcome.cpu for outcome in outcomes)
        work = [
            statistics.median(values)
            for values in (
                [outcome.iterations for outcome in outcomes],
                [outcome.meter.rollouts for outcome in outcomes],
                [len(outcome.meter.calls) for outcome in outcomes],
            )
        ]
        errors = row.case.standard_errors()
        worst = max(float(np.max(np.abs(o.values - row.case.truth) / errors)) for o in outcomes)
        ends = list(dict.fromkeys(outcome.message for outcome in outcomes))
        lines.append(
            f'   {name:13s} {min(seconds):.3f} to {max(seconds):.3f} s in {len(seconds)} runs, '
            f'cpu {cpu:.2f} s; {work[0]:g} iterations, {work[1]:g} rollouts in {work[2]:g} calls; '
            f'worst error {worst:.1f} standard errors; '
            f'ended: {" | ".join(ends)}'
        )
    if len(row.outcomes) > 1:
        theirs, ours = (
            statistics.median(outcome.cpu for outcome in row.outcomes[name])
            for name in (REFERENCE, OURS)
        )
        lines.append(f'   ratio of the CPU times: {theirs / ours:.1f}')
    return lines


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('--case', default=','.join(cases.KEYS), help='letters, e.g. a,d')
    parser.add_argument('--runs', type=int, help='runs of each; the default depends on the case')
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
        _ROW.format('', '', 'seconds', '', '', 'at', 'ideal', 'ours/', 'steps/k', '', 'error', '')
    )
    print(
        _ROW.format(
            '', 'case', 'toolbox', 'ours', 'ratio', 'least', 's', 'ideal', 'toolbox', 'ours',
            'toolbox', 'ours',
        )
    )  # fmt: skip
    rows = []
    for key in keys:
        case = cases.make(key)
        row = measure(case, contenders, arguments.runs or case.runs)
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
