# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Refits with memory: do they see what changed, only that, and know as much as one fit of all?

``drift`` counts how often an unchanged two-joint arm is seen to change, ``power`` how often 20 %
more friction in one joint is named; ``sequential`` compares ten refits with one fit of all
recordings. The arm is recorded again and again, 4 s at 100 Hz, with noise that is white or an AR(1)
with a coefficient of --rho.

``history`` refits a three-joint arm again and again: each refit learns from two new recordings and
is judged on a third. From the eighth on, dry friction of the elbow rises by --step (of it) each
time; nothing else does. --alone fits without memory, so that the history compares neighbours.
--output keeps bags and results.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import mujoco
import numpy as np
import scipy.signal
import scipy.stats
from shared import three_joints
from shared.arms import two_joints
from shared.common import ends, measuring, run, simulated, trajectory

from sysid_ros.config.schema import CalibrationConfig
from sysid_ros.fit.fit import FitOptions
from sysid_ros.fit.noise import JointPrior
from sysid_ros.model.targets import Unknown, make_unknowns
from sysid_ros.results.comparison import read_history
from sysid_ros.results.result import Standing
from sysid_ros.signals import Trajectory
from sysid_ros.uncertainty.covariance import Difference, JointEstimate, Known
from sysid_ros.uncertainty.inference import Identification, identify
from sysid_ros.workflows.calibrate import calibrate
from sysid_ros.workflows.fitting import continue_from

MODEL = mujoco.MjModel.from_xml_string(two_joints())
#: Of positions and velocities, rad and rad/s.
_NOISE = np.repeat([2e-3, 3e-2], 2)
TRUTH = {
    'joint/shoulder/armature': 0.07,
    'joint/elbow/armature': 0.028,
    'joint/shoulder/damping': 1.3,
    'joint/elbow/damping': 0.5,
    'joint/shoulder/frictionloss': 0.45,
    'joint/elbow/frictionloss': 0.2,
}
CHANGED = 'joint/elbow/frictionloss'
_LEVEL = 0.01
_PARAMETERS: tuple[Unknown, ...] = tuple(p for path in TRUTH for p in make_unknowns(path, MODEL))


def _record(name: str, truth: Mapping[str, float], seed: int, rho: float) -> Trajectory:
    """Return a recording with its own motion and noise."""
    rng = np.random.default_rng(seed)
    told_at = np.arange(-0.1, 4.1, 1 / 50)
    rates = rng.uniform(0.4, 1.6, (3, 2))
    phases = rng.uniform(0, 2 * np.pi, (3, 2))
    angles = 2 * np.pi * told_at[:, None, None] * rates + phases
    told = 0.3 * (np.sin(angles) - np.sin(phases)).sum(axis=1)
    times = np.arange(0.0, 4.0, 1 / 100)
    own = trajectory(MODEL, times, commands=(told_at, told), name=name)
    clean = simulated(MODEL, own, _PARAMETERS, [truth[p.name] for p in _PARAMETERS])
    white = rng.standard_normal((len(times) + 200, len(_NOISE)))
    colour = scipy.signal.lfilter([np.sqrt(1 - rho**2)], [1, -rho], white, axis=0)[200:]
    return measuring(MODEL, own, times, clean + colour * _NOISE)


def _fit_all(runs: list[Trajectory]) -> Identification:
    """Fit without memory."""
    return identify(MODEL, _PARAMETERS, runs, options=FitOptions(threads=1, start='nominal'))


def _known_of(found: Identification) -> Known:
    """Return what a later fit may continue."""
    count = len(_PARAMETERS)
    inference = found.inference
    covariance = inference.covariance[:count, :count]
    estimate = JointEstimate(found.solution.x, covariance, max(inference.effective - 1.0, 1.0))
    return Known(tuple(p.name for p in _PARAMETERS), estimate)


def _continued(
    known: Known, runs: list[Trajectory], forgetting: float
) -> tuple[Identification, Difference]:
    """Fit with memory."""

    def again(
        parameters: tuple[Unknown, ...], memory: JointPrior | None, earlier: Identification | None
    ) -> Identification:
        del earlier
        return identify(
            MODEL, parameters, runs, options=FitOptions(threads=1, start='nominal'), prior=memory
        )

    return continue_from(known, _PARAMETERS, again, forgetting=forgetting, level=_LEVEL)


def drift(*, draws: int = 100, seed: int = 0, rho: float = 0.0) -> None:
    """Refit a robot that has not changed."""
    _count_changes(draws, seed, rho, 1.0)


def power(*, draws: int = 20, seed: int = 0, rho: float = 0.0) -> None:
    """Refit a robot of whose joints one has 20 % more friction."""
    _count_changes(draws, seed, rho, 1.2)


def _count_changes(draws: int, seed: int, rho: float, factor: float) -> None:
    """Count how often a change is seen, and which."""
    changed = {**TRUTH, CHANGED: factor * TRUTH[CHANGED]}
    true = np.array([changed[p.name] for p in _PARAMETERS])
    told, p_values, inside = [], [], np.zeros(len(_PARAMETERS), dtype=int)
    for base in range(seed, seed + 10 * draws, 10):
        known = _known_of(_fit_all([_record('before', TRUTH, base, rho)]))
        fit, own = _continued(known, [_record('after', changed, base + 1, rho)], 0.9)
        pairs = zip(known.names, own.changed, strict=True)
        told.append([name for name, is_other in pairs if is_other])
        p_values.append(own.p_value)
        low, high = ends(fit.intervals)
        inside += (low <= true) & (true <= high)
    seen = sum(map(bool, told))
    print(f'{CHANGED} times {factor:g}, noise AR(1) {rho:g}, {draws} draws from seed {seed}:')
    print(
        f'  a change seen in {seen}, {CHANGED} named in {sum(CHANGED in own for own in told)}, '
        f'it alone in {sum(own == [CHANGED] for own in told)}'
    )
    if factor == 1.0:
        tail = scipy.stats.binom.sf(seen - 1, draws, _LEVEL)
        print(f'  chance of {seen} or more at a level of {_LEVEL:g}: {tail:.2g}')
    quantiles = np.quantile(p_values, [0.05, 0.25, 0.5, 0.75, 0.95])
    print('  p-values at 5, 25, 50, 75, 95 %:', *(f'{value:.2g}' for value in quantiles))
    print('  truth inside the 95 % intervals:', *inside, flush=True)


def sequential(*, seed: int = 0, rho: float = 0.0, bags: int = 10) -> None:
    """Compare one fit of all recordings with refits one after another."""
    runs = [_record(f'run {i}', TRUTH, seed + i, rho) for i in range(bags)]
    whole, one = _fit_all(runs), _fit_all(runs[:1])
    widths = [np.subtract(*ends(own.intervals)[::-1]) for own in (whole, one)]
    deviation = np.sqrt(np.diag(whole.inference.covariance)[: len(_PARAMETERS)])
    print(f'{bags} recordings, noise AR(1) {rho:g}, seed {seed}; half-widths relative to those of')
    print(f'one fit of all, whose own are {np.mean(widths[1] / widths[0]):.2f} times less')
    for forgetting in (1.0, 0.9, 0.5):
        found, changes = one, 0
        for own in runs[1:]:
            found, difference = _continued(_known_of(found), [own], forgetting)
            changes += int(difference.changed.any())
        off = (found.solution.x - whole.solution.x) / deviation
        width = np.subtract(*ends(found.intervals)[::-1]) / widths[0]
        print(
            f'  forgetting {forgetting:g}: off by {" ".join(f"{each:+.2f}" for each in off)} '
            f'standard errors; {width.min():.2f} to {width.max():.2f} as wide; {changes} changes '
            f'seen; verdicts {sorted({i.verdict for i in found.intervals})}',
            flush=True,
        )


#: The first refit in which friction is another.
ONSET = 8


def _friction(refit: int, step: float) -> float:
    """Return the elbow's dry friction at a refit, N·m."""
    usual = three_joints.TRUTH['joint/*/frictionloss']
    return float(usual * (1 + step) ** max(refit - ONSET + 1, 0))


def history(
    *,
    refits: int = 20,
    seed: int = 0,
    step: float = 0.03,
    alone: bool = False,
    output: Path = Path(),
) -> None:
    """Refit a robot of whose joints one rubs ever more; print what is seen, and when."""
    with tempfile.TemporaryDirectory() as name:
        root = output if output != Path() else Path(name)
        root.mkdir(parents=True, exist_ok=True)
        (root / 'arm.xml').write_text(three_joints.arm())
        for number in range(1, refits + 1):
            _refit(root, number, 1000 * seed + 10 * number, _friction(number, step), alone=alone)
        _show_history(root, step)


def _refit(root: Path, number: int, seed: int, friction: float, *, alone: bool) -> None:
    """Record three bags with a friction of the elbow, and fit."""
    bags = []
    for place, (role, part) in enumerate((('train', '_a'), ('train', '_b'), ('validate', ''))):
        bag = root / f'{role}_{number:02d}{part}'
        truth = {**three_joints.TRUTH, CHANGED: friction}
        three_joints.record(bag, root / 'arm.xml', truth, seed + place)
        bags.append({'path': str(bag), 'role': role})
    document = {
        'model': root / 'arm.xml',
        'bags': bags,
        'mapping': three_joints.mapping(),
        'parameters': three_joints.PARAMETERS,
        'solver': {'threads': 1},
        'output': root / 'out',
        'memory': {'previous': 'none' if alone else 'auto'},
    }
    done = calibrate(CalibrationConfig.model_validate(document))
    print(f'refit {number}: {done.result.standing}', flush=True)


def _show_history(root: Path, step: float) -> None:
    """Print what the history says beside what is true."""
    entries = read_history(root / 'out')
    print(f'\nrefit  {CHANGED}  true  inside  changed since the one before')
    seen: Counter[str] = Counter()
    right = 0
    for number, entry in enumerate(entries, 1):
        (own,) = (p for p in entry.parameters if p.name == CHANGED)
        true = _friction(number, step)
        inside = own.low <= true <= own.high
        right += inside
        print(f'{number:5d}  {own.value:24.4f}  {true:6.4f}  {inside!s:6s}  {entry.sentence}')
        for row in entry.drift.parameters if entry.drift is not None else ():
            if row.changed:
                seen[f'{row.name} {"before" if number < ONSET else "after"}'] += 1
    others = sum(count for name, count in seen.items() if not name.startswith(CHANGED))
    tests = sum(len(e.drift.parameters) for e in entries if e.drift is not None)
    accepted = sum(entry.standing is not Standing.REJECTED for entry in entries)
    print(f'\n{accepted} of {len(entries)} accepted; the friction lies inside {right} intervals')
    print(
        f'{CHANGED} was named {seen[CHANGED + " after"]} times after refit {ONSET - 1} and '
        f'{seen[CHANGED + " before"]} times before; others {others} times in {tests} comparisons'
    )


if __name__ == '__main__':
    run(__doc__, drift, power, sequential, history)
