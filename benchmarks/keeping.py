# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A robot that is refitted again and again while one joint's friction drifts: what is seen, when?

    python benchmarks/keeping.py [--refits 20] [--seed 0] [--alone] [--step 0.03] [--output DIR]

Each refit of the simulated arm of ``gate.py`` learns from two new recordings and is judged on a
third. From the eighth on, dry friction of the elbow rises by a step each time; nothing else does.
``--alone`` fits without memory, so that the history compares neighbours.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path

from gate import ARM, PARAMETERS, TRUTH, mapping, record, whole

from sysid_ros.config import CalibrationConfig
from sysid_ros.pipeline import calibrate
from sysid_ros.results.history import read_history

DRIFTS = 'joint/elbow/frictionloss'
#: The first refit in which friction is another.
ONSET = 8
_FRICTION = TRUTH['joint/*/frictionloss']


def friction(refit: int, step: float) -> float:
    """Return the elbow's dry friction at a refit, N·m."""
    return _FRICTION * (1 + step) ** max(refit - ONSET + 1, 0)


def refit(root: Path, number: int, args: argparse.Namespace) -> None:
    """Record with the friction of this time, and fit."""
    # The last pattern that a joint matches counts.
    truth = {**TRUTH, DRIFTS: friction(number, args.step)}
    bags = {
        'train': [root / f'train_{number:02d}_{part}' for part in 'ab'],
        'validate': [root / f'validate_{number:02d}'],
    }
    for place, bag in enumerate([*bags['train'], *bags['validate']]):
        record(bag, root / 'arm.xml', truth, 1000 * args.seed + 10 * number + place, whole)
    document = {
        'model': root / 'arm.xml',
        'bags': [{'path': str(bag), 'role': role} for role in bags for bag in bags[role]],
        'mapping': mapping(),
        'parameters': PARAMETERS,
        'solver': {'threads': 1},
        'output': root / 'out',
        'memory': {'previous': 'none' if args.alone else 'auto'},
    }
    done = calibrate(CalibrationConfig.model_validate(document))
    print(f'refit {number}: {done.result.standing}', flush=True)


def show(root: Path, args: argparse.Namespace) -> None:
    """Print what the history says beside what is true."""
    entries = read_history(root / 'out')
    print(f'\n{"refit":5s}  {DRIFTS:>24s}  {"true":>6s}  inside  changed since the one before')
    seen: Counter[str] = Counter()
    right = 0
    for number, entry in enumerate(entries, 1):
        own, true = entry.result.parameter(DRIFTS), friction(number, args.step)
        inside = own.low <= true <= own.high
        right += inside
        print(f'{number:5d}  {own.value:24.4f}  {true:6.4f}  {inside!s:6s}  {entry.changed}')
        if entry.drift is not None:
            seen.update(
                f'{row.name} {"before" if number < ONSET else "after"}'
                for row in entry.drift.parameters
                if row.changed
            )
    others = sum(count for name, count in seen.items() if not name.startswith(DRIFTS))
    tests = sum(len(e.drift.parameters) for e in entries if e.drift is not None)
    accepted = sum(entry.result.accepted for entry in entries)
    print(f'\n{accepted} of {len(entries)} accepted; the friction lies inside {right} intervals')
    print(f'{DRIFTS} was named {seen[DRIFTS + " after"]} times after refit {ONSET - 1} and')
    print(f'{seen[DRIFTS + " before"]} times before; others {others} times in {tests} comparisons')


def main() -> None:
    """Refit as often as asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--refits', type=int, default=20)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--step', type=float, default=0.03, help='part of the friction')
    parser.add_argument('--alone', action='store_true', help='fit without memory')
    parser.add_argument('--output', type=Path, help='keep bags and results here')
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = args.output or Path(name)
        root.mkdir(parents=True, exist_ok=True)
        (root / 'arm.xml').write_text(ARM.format(mass=1.0))
        for number in range(1, args.refits + 1):
            refit(root, number, args)
        show(root, args)


if __name__ == '__main__':
    main()
