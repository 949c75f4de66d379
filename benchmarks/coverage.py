# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether 95 % intervals hold the truth where the model is wrong, and whether the result says so.

A two-joint arm that does what its model does not is recorded and fitted again and again, with other
motions and noise in each draw. Per fault and number of recordings: in how many draws the model is
said to lack something, in how many of those the term that is named first is the right one, the
share of all intervals that hold the truth, the least of one parameter, the share of values called
identified that are within their interval and within three standard errors of the truth.

Draws are kept in ``--folder`` and not repeated.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from cases import noisy, wrong

from sysid_ros.identification.fit import fit

DRAWS = 50
#: Standard deviation of the noise, rad and rad/s.
_NOISE = np.array([1e-3, 1e-3, 2e-2, 2e-2])


def draw(name: str, bags: int, number: int, seed: int) -> dict[str, Any]:
    """Record and fit once; return ends of intervals, verdicts, and what is said to be lacking."""
    sequences = []
    for bag in range(bags):
        rng = np.random.default_rng([seed, number, bag])
        clean = wrong.happen(wrong.PLANTS[name], noisy.motion(rng))
        sequences.append(
            noisy.record(clean, lambda c, r=rng: c + r.normal(size=c.shape) * _NOISE, f'bag_{bag}')
        )
    found = fit(noisy.model(), noisy.unknowns(), sequences, start='nominal', threads=1)
    return {
        'values': found.solution.x[: len(noisy.TRUTH)].tolist(),
        'low': [interval.low for interval in found.intervals],
        'high': [interval.high for interval in found.intervals],
        'verdicts': [str(interval.verdict_kind) for interval in found.intervals],
        'lacking': [each.title for each in found.inference.lacking],
        'status': found.solution.status,
    }


def _kept(name: str, bags: int, number: int, seed: int, folder: Path) -> dict[str, Any]:
    path = folder / f'{name}_{bags}_{seed}_{number}.json'
    if path.exists():
        return dict(json.loads(path.read_text('utf-8')))
    found = draw(name, bags, number, seed)
    path.with_suffix('.new').write_text(json.dumps(found), 'utf-8')
    path.with_suffix('.new').rename(path)
    return found


def report(name: str, bags: int, draws: list[dict[str, Any]]) -> None:
    """Print the line of one fault."""
    truth, plant = noisy.truth(), wrong.PLANTS[name]
    low, high = (np.array([each[end] for each in draws]) for end in ('low', 'high'))
    values = np.array([each['values'] for each in draws])
    held = (low <= truth) & (truth <= high)
    has = np.isfinite(low)
    said = [each['lacking'] for each in draws if each['lacking']]
    right = sum(plant.lack is not None and own[0].startswith(plant.lack) for own in said)
    identified = np.array([each['verdicts'] for each in draws]) == 'identified'
    near = np.abs(values - truth) <= 3 / 1.96 * np.maximum(high - values, values - low)
    named = f'{right / len(said):8.0%}' if said and plant.lack else f'{"-":>8}'
    rest = [f'{part[identified].mean():10.0%}' for part in (held, near) if identified.any()]
    print(
        f'{plant.title:34}{bags:4}{len(draws):6}{len(said) / len(draws):9.0%}{named}'
        f'{held[has].mean():9.0%}{held.mean(axis=0).min():7.0%}{identified.mean():12.0%}'
        f'{"".join(rest)}',
        flush=True,
    )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('--faults', nargs='*', choices=list(wrong.PLANTS), default=[])
    parser.add_argument('--bags', nargs='*', type=int, default=[2, 8])
    parser.add_argument('--draws', type=int, default=DRAWS)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--folder', type=Path, default=Path('coverage'))
    parser.add_argument('--processes', type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    print(
        f'{"the robot has":34}{"bags":>4}{"draws":>6}{"lacking":>9}{"right":>8}'
        f'{"held":>9}{"least":>7}{"identified":>12}{"held":>10}{"within 3":>10}'
    )
    with multiprocessing.get_context('spawn').Pool(arguments.processes) as pool:
        for bags in arguments.bags:
            for name in arguments.faults or wrong.PLANTS:
                jobs = [
                    (name, bags, number, arguments.seed, arguments.folder)
                    for number in range(arguments.draws)
                ]
                report(name, bags, pool.starmap(_kept, jobs, chunksize=2))
    return 0


if __name__ == '__main__':
    sys.exit(main())
