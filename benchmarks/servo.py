# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A servo's coefficients from logs of its pendulum: least squares beside CMA-ES.

The logs were simulated at 200 Hz from coefficients that BAM publishes for the xl330 (its files
params/xl330/m1.json and m6.json), positions in whole steps of the encoder: 12 logs of 6 s, four
motions with three loads and gains. They are not part of the project. "floor" is the mean absolute
error of the very coefficients that made them, what the encoder leaves. A fit may be a
little below it, above all one that minimises this very measure, as CMA-ES does here.

CMA-ES is Optuna's, in its own storage, on the same simulator; its time is that of the fits beside
it, which include intervals and verdicts, and five times that. Nothing follows its trials here;
`sysid servo fit --method cmaes` goes on with least squares.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sysid_ros.errors import ConfigError
from sysid_ros.servos.bench.fit import ServoFitSettings, fit_servo, values_of
from sysid_ros.servos.bench.pendulum import errors_by_log, mean_error
from sysid_ros.servos.bench.trials import import_optuna, open_study, sample_servo
from sysid_ros.servos.formats.logs import ServoLog, read_logs
from sysid_ros.servos.laws.servo import Servo

DATA = Path(os.environ.get('SYSID_SHARED_DATA', Path(__file__).parents[2] / 'shared' / 'data'))
TRUTH = {
    'm1': {
        'kt': 0.386696,
        'R': 4.01713,
        'armature': 0.00181417,
        'q_offset': 0.030871,
        'friction_base': 0.0128327,
        'friction_viscous': 0.00366167,
    },
    'm6': {
        'kt': 0.366013,
        'R': 2.81139,
        'armature': 0.00180774,
        'q_offset': 0.0271133,
        'friction_base': 0.00477118,
        'friction_stribeck': 0.00467635,
        'load_friction_motor': 0.266786,
        'load_friction_external': 8.51587e-06,
        'load_friction_motor_stribeck': 1.07229e-05,
        'load_friction_external_stribeck': 0.0807793,
        'load_friction_motor_quad': 0.00997247,
        'load_friction_external_quad': 0.00490257,
        'dtheta_stribeck': 2.89037,
        'alpha': 8.68326,
        'friction_viscous': 0.00535967,
    },
}
#: Fits with a mean absolute error up to this are at the floor, rad.
AT_FLOOR = {'m1': 0.36e-3, 'm6': 0.39e-3}
#: CMA-ES may also take so many times as long.
_LONGER = 5
#: A coefficient below this part of its bounds is nearly 0.
_SMALL = 1e-3
_ENDLESS = 10**9
_THREADS = 'OPENBLAS_NUM_THREADS'
_MILLI = 1e3
_ROW = '{:7s}{:34s}{:>9s}{:>10s}{:>22s}{:>8s}'


class Outcome(NamedTuple):
    """What a fit took and found: seconds, mean absolute error in rad, values, and trials if any.

    Intervals are those of coefficients that are called identified.
    """

    seconds: float
    error: float
    values: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]] = {}
    trials: int = 0


class Problem(NamedTuple):
    """A servo and its logs."""

    servo: Servo
    logs: tuple[ServoLog, ...]

    def error(self, values: Mapping[str, float]) -> float:
        """Return the mean over logs of the mean absolute error, rad."""
        return mean_error(errors_by_log(self.servo, values, self.logs))

    def fitted(self, settings: ServoFitSettings) -> Outcome:
        """Fit by least squares."""
        began = time.monotonic()
        found = fit_servo(self.servo, self.logs, settings=settings)
        seconds = time.monotonic() - began
        values = values_of(self.servo, found, {})
        intervals = {
            unknown.name: (interval.low, interval.high)
            for unknown, interval in zip(found.parameters, found.intervals, strict=True)
            if interval.verdict == 'identified'
        }
        return Outcome(seconds, self.error(values), values, intervals)

    def sampled(self, seconds: float, seed: int) -> Outcome:
        """Fit by CMA-ES for so long."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, 'study.journal')
            study = open_study(path, None, 'cmaes', self.servo, seed=seed)
            found = sample_servo(self.servo, self.logs, study, trials=_ENDLESS, seconds=seconds)
        return Outcome(found.seconds, found.error, found.values, trials=found.trials)


def problem_of(model: str, data: Path) -> Problem:
    """Read the logs of a friction law."""
    return Problem(Servo.named('xl330', model), read_logs(data / 'bam_xl330' / model))


def beside(model: str, problem: Problem, runs: int, *, trials: bool) -> list[Outcome]:
    """Print what both find in the same time, and return the fits by least squares."""
    fits = [problem.fitted(ServoFitSettings(seed=seed)) for seed in range(runs)]
    floor = _MILLI * problem.error(TRUTH[model])
    print(_row(f'{model}', f'least squares; floor {floor:.4f} mrad', fits))
    for factor in (1, _LONGER) if trials else ():
        rows = [problem.sampled(factor * fit.seconds, seed) for seed, fit in enumerate(fits)]
        name = 'the same time' if factor == 1 else f'{factor} times the time'
        print(_row('', f'CMA-ES, {name}', rows), flush=True)
    return fits


def _row(model: str, name: str, outcomes: list[Outcome]) -> str:
    errors = [_MILLI * outcome.error for outcome in outcomes]
    tried = statistics.median(outcome.trials for outcome in outcomes)
    return _ROW.format(
        model,
        name,
        f'{statistics.median(outcome.seconds for outcome in outcomes):.2f}',
        f'{statistics.median(errors):.4g}',
        f'{min(errors):.4g} to {max(errors):.4g}',
        f'{tried:.0f}' if tried else '',
    )


def deviations(model: str, problem: Problem, fits: list[Outcome]) -> str:
    """Say how far identified coefficients are from what made the logs."""
    truth = TRUTH[model]
    most = {name: high for name, (_, _, high) in problem.servo.coefficients.items()}
    worst = [
        (abs(fit.values[name] / truth[name] - 1), name)
        for fit in fits
        for name in fit.intervals
        if truth[name] > _SMALL * most[name]
    ]
    largest, name = max(worst, default=(np.nan, 'none'))
    called = [name for fit in fits for name in fit.intervals]
    held = sum(
        low <= truth[name] <= high for fit in fits for name, (low, high) in fit.intervals.items()
    )
    return (
        f'{model}: {len(called) / len(fits):.3g} of {len(truth)} coefficients are called '
        f'identified, {100 * held / max(len(called), 1):.0f} % of their intervals hold the truth; '
        f'at most {100 * largest:.2f} % off ({name}), but for those that are nearly 0.'
    )


def at_floor(model: str, problem: Problem, seeds: int) -> str:
    """Say how many seeds end at the floor, and how many with no start near the usual one."""
    coefficients = problem.servo.coefficients
    counts, slowest = [], 0.0
    for scattered in (False, True):
        reached = 0
        for seed in range(seeds):
            draw = np.random.default_rng(seed)
            first = {name: draw.uniform(low, high) for name, (_, low, high) in coefficients.items()}
            settings = ServoFitSettings(seed=seed, first=first if scattered else None)
            outcome = problem.fitted(settings)
            reached += outcome.error <= AT_FLOOR[model]
            slowest = max(slowest, outcome.seconds)
        counts.append(reached)
    return (
        f'{model}: at most {_MILLI * AT_FLOOR[model]:.2f} mrad with {counts[0]} of {seeds} seeds, '
        f'{counts[1]} of {seeds} where the first start is random as well; the slowest took '
        f'{slowest:.1f} s.'
    )


def _with_optuna() -> bool:
    try:
        import_optuna('cmaes')
    except ConfigError as err:
        print(f'CMA-ES is left out: {err}')
        return False
    return True


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('--data', type=Path, default=DATA, help='folder with bam_xl330')
    parser.add_argument('--runs', type=int, default=3, help='seeds of the first table')
    parser.add_argument('--seeds', type=int, default=5, help='of the second; 0 leaves it out')
    parser.add_argument('--model', choices=list(TRUTH), action='append', help='default both')
    args = parser.parse_args()
    if not (args.data / 'bam_xl330').is_dir():
        print(f'Left out: there is no folder bam_xl330 in {args.data}.')
        return
    trials = _with_optuna()
    print(f'{os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}')
    problems = {model: problem_of(model, args.data) for model in args.model or TRUTH}
    for problem in problems.values():  # imports and caches
        problem.fitted(ServoFitSettings(starts=1))
    print(_ROW.format('law', 'method', 'seconds', 'mrad', 'from to', 'trials'))
    found = {
        model: beside(model, problem, args.runs, trials=trials)
        for model, problem in problems.items()
    }
    for model, fits in found.items():
        print(deviations(model, problems[model], fits))
    if args.seeds:
        print()
        for model, problem in problems.items():
            print(at_floor(model, problem, args.seeds), flush=True)
    print('\n' + '\n\n'.join((__doc__ or '').split('\n\n')[1:]))


if __name__ == '__main__':
    if _THREADS not in os.environ:  # which is read when NumPy is imported; as in `sysid`
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, _THREADS: '1'})  # noqa: S606
    main()
