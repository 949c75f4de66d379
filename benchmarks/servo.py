# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A servo's coefficients from logs of its pendulum.

``compare``: least squares beside CMA-ES. The logs were simulated at 200 Hz from coefficients that
BAM publishes for the xl330 (its files params/xl330/m1.json and m6.json), positions in whole steps
of the encoder: 12 logs of 6 s, four motions with three loads and gains. They are not part of the
project: --data has a folder bam_xl330. "floor" is the mean absolute error of the very coefficients
that made them, what the encoder leaves. A fit may be a little below it, above all one that
minimises this very measure, as CMA-ES does here. CMA-ES is Optuna's, in its own storage, on the
same simulator; its time is that of the fits beside it, which include intervals and verdicts, and
five times that. Nothing follows its trials here; `sysid servo fit --method cmaes` goes on with
least squares. Then it is counted how many of --seeds end at the floor.

``intervals``: the truth is drawn around a published servo, the standard motions are recorded with
three loads and gains, with a shaken encoder of 4096 counts, and fitted; again and again. Per
coefficient: in how many draws it is called identified, and the coverage of those.

``raw``: logs as a recorder writes them, fitted as they are. A servo is simulated in steps of .1 ms
while a loop of 8 ms with jitter and stalls writes goals, reads a shaken encoder up to 4 ms later,
and stamps that: loads to fit, and others to predict. The floor is the mean absolute error that the
true motion leaves there. Printed are, over that floor, what the fit to raw logs and the true
coefficients in the same steps leave of the other loads; the command delay that was found and the
true one; and processor seconds.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from shared.common import (
    CORES,
    DATA,
    AnyOf,
    Floats,
    OneOf,
    Table,
    coverage,
    ends,
    in_processes,
    run,
    verdict,
)
from shared.servo_logs import FITTED, PREDICTED, TRUTH, near, record

from sysid_ros.errors import ConfigError
from sysid_ros.servos.fit import fit_servo, values_of
from sysid_ros.servos.logs import ServoLog, read_logs
from sysid_ros.servos.pendulum import errors_by_log, mean_error, servo_for
from sysid_ros.servos.trials import import_optuna, open_study, sample_servo
from sysid_ros.simulation.servo import Servo

#: Coefficients that made BAM's logs.
_PUBLISHED = {
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
_MODELS, _LAWS, _COUNTED = AnyOf(_PUBLISHED), AnyOf(TRUTH), OneOf(('m1', 'm4'))
#: Fits with a mean absolute error up to this are at the floor, rad.
_AT_FLOOR = {'m1': 0.36e-3, 'm6': 0.39e-3}
#: A coefficient below this part of its bounds is nearly 0.
_SMALL = 1e-3
_THREADS = 'OPENBLAS_NUM_THREADS'


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

    def fitted(self, **settings: Any) -> Outcome:
        """Fit by least squares."""
        began = time.monotonic()
        found = fit_servo(self.servo, self.logs, **settings)
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
            study = open_study(Path(folder, 'study.journal'), None, 'cmaes', self.servo, seed=seed)
            found = sample_servo(self.servo, self.logs, study, trials=10**9, seconds=seconds)
        return Outcome(found.seconds, found.error, found.values, trials=found.trials)


def compare(*, data: Path = DATA, model: AnyOf = _MODELS, runs: int = 3, seeds: int = 5) -> None:
    """Fit BAM's logs by least squares and by CMA-ES."""
    if not (data / 'bam_xl330').is_dir():
        print(f'Left out: there is no folder bam_xl330 in {data}.')
        return
    factors: tuple[int, ...] = (1, 5)
    try:
        import_optuna('cmaes')
    except ConfigError as err:
        print(f'CMA-ES is left out: {err}')
        factors = ()
    table = Table(
        'law:3s', 'method:28s', 'seconds:7.2f', 'mrad:8.4g', 'from:8.4g', 'to:8.4g', 'trials:7.0f'
    )
    said = []
    for law in model:
        servo = Servo.named('xl330', law)
        problem = Problem(servo, read_logs(data / 'bam_xl330' / law))
        problem.fitted(starts=1)  # imports and caches
        fits = [problem.fitted(seed=seed) for seed in range(runs)]
        rows = {'least squares': fits}
        for factor in factors:
            rows[f'CMA-ES, {factor} times as long'] = [
                problem.sampled(factor * fit.seconds, seed) for seed, fit in enumerate(fits)
            ]
        floor = problem.error(_PUBLISHED[law])
        table.row(law, 'floor', None, 1e3 * floor, None, None, None)
        for name, found in rows.items():
            errors = [1e3 * one.error for one in found]
            table.row(
                law,
                name,
                statistics.median(one.seconds for one in found),
                statistics.median(errors),
                min(errors),
                max(errors),
                statistics.median(one.trials for one in found) or None,
            )
        said.append(_deviations(law, servo, fits))
        if seeds:
            said.append(_ends(law, problem, seeds))
    print('\n'.join(said))


def _deviations(law: str, servo: Servo, fits: list[Outcome]) -> str:
    """Say how far identified coefficients are from what made the logs."""
    truth = _PUBLISHED[law]
    called = [(name, fit) for fit in fits for name in fit.intervals]
    held = [fit.intervals[name][0] <= truth[name] <= fit.intervals[name][1] for name, fit in called]
    largest, name = max(
        (
            (abs(fit.values[name] / truth[name] - 1), name)
            for name, fit in called
            if truth[name] > _SMALL * servo.coefficients[name][2]
        ),
        default=(np.nan, 'none'),
    )
    return (
        f'{law}: {len(called) / len(fits):.3g} of {len(truth)} coefficients are called identified, '
        f'{100 * sum(held) / max(len(held), 1):.0f} % of their intervals hold the truth; at most '
        f'{100 * largest:.2f} % off ({name}), but for those that are nearly 0.'
    )


def _ends(law: str, problem: Problem, seeds: int) -> str:
    """Say how many seeds end at the floor, and how many with no start near the usual one."""
    counts, slowest = [], 0.0
    for scattered in (False, True):
        reached = 0
        for seed in range(seeds):
            draw = np.random.default_rng(seed)
            coefficients = problem.servo.coefficients.items()
            first = {name: draw.uniform(low, high) for name, (_, low, high) in coefficients}
            outcome = problem.fitted(seed=seed, first=first if scattered else None)
            reached += outcome.error <= _AT_FLOOR[law]
            slowest = max(slowest, outcome.seconds)
        counts.append(reached)
    return (
        f'{law}: at most {1e3 * _AT_FLOOR[law]:.2f} mrad with {counts[0]} of {seeds} seeds, '
        f'{counts[1]} of {seeds} where the first start is random as well; the slowest took '
        f'{slowest:.1f} s.'
    )


def _draw(law: str, seed: int) -> tuple[Floats, Floats, Floats, Floats, list[bool], float]:
    """Return (p,) truth, estimates, ends of the intervals, whether identified, and seconds."""
    servo, rng = Servo.named('xl330', law), np.random.default_rng(seed)
    truth = near(servo, rng)
    logs, _ = record(servo, truth, rng)
    began = time.monotonic()
    found = fit_servo(servo, logs)
    seconds = time.monotonic() - began
    called = [interval.verdict == 'identified' for interval in found.intervals]
    true = np.array(list(truth.values()))
    return true, found.solution.x, *ends(found.intervals), called, seconds


def intervals(
    *, model: OneOf = _COUNTED, draws: int = 100, seed: int = 0, processes: int = CORES
) -> bool:
    """Count how often intervals hold the truth."""
    servo = Servo.named('xl330', str(model))
    jobs = [(str(model), 1000 * seed + number) for number in range(draws)]
    *parts, seconds = (np.array(p) for p in zip(*in_processes(_draw, jobs, processes), strict=True))
    print(f'{servo.name}, {draws} sets of logs, {np.median(seconds):.1f} s each')
    table = Table('coefficient:32s', 'identified:10d', 'held:6.0%', 'width:6.2f', 'bias/sd:7.2f')
    good = True
    for column, name in enumerate(servo.coefficients):
        called = parts[4][:, column]
        if called.sum() < 2:  # noqa: PLR2004 (no deviation of one)
            table.row(name, int(called.sum()), None, None, None)
            continue
        own = coverage(*(part[called, column] for part in parts[:4]))
        missed = not 0.90 <= own.held <= 0.98  # noqa: PLR2004
        good &= not missed
        row = (int(called.sum()), own.held, own.width, own.bias)
        table.row(name, *row, mark='<' if missed else '')
    return verdict(good, '(90 to 98 %)')


def _clock(rng: np.random.Generator) -> Floats:
    """Return the turns of a recorder's loop, s: 7.5 ms, jitter, and rare stalls of 15 ms."""
    turn = 0.0075 + rng.exponential(0.0005, 800)
    return np.cumsum(turn + 0.015 * (rng.uniform(size=800) < 0.005))  # noqa: PLR2004


def raw(*, models: AnyOf = _LAWS, draws: int = 3, seed: int = 1) -> bool:
    """Fit raw logs."""
    worst = 0.0
    table = Table(
        'law:3s', 'draw:4d', 'floor/mrad:8.3f', 'raw:6.2f', 'truth:6.2f', 'delay/ms:7.2f',
        'true:7.2f', 'seconds:7.1f',
    )  # fmt: skip
    for law in models:
        for number in range(draws):
            rng = np.random.default_rng([seed, number])
            even = Servo.named('xl330', law)
            # Longest time from writing a goal to reading the encoder: 4 ms.
            truth, lead = near(even, rng), rng.uniform(0, 0.004)
            (train, _), (other, floors) = (
                record(even, truth, rng, loads=loads, clock=_clock(rng), lead=lead)
                for loads in (FITTED, PREDICTED)
            )
            servo, floor = servo_for(even, train), floors.mean()
            began = time.process_time()
            values = values_of(servo, fit_servo(servo, train), {})
            took = time.process_time() - began
            error, own = (
                mean_error(errors_by_log(servo, known, other)) / floor
                for known in (values, {**truth, 'command_delay': -lead})
            )
            worst = max(worst, error)
            delay = values['command_delay']
            table.row(law, number, 1e3 * floor, error, own, 1e3 * delay, -1e3 * lead, took)
    return verdict(worst <= 1.2, f'worst {worst:.2f} (1.2)')  # noqa: PLR2004


if __name__ == '__main__':
    if _THREADS not in os.environ:  # which is read when NumPy is imported; as in `sysid`
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, _THREADS: '1'})  # noqa: S606
    run(__doc__, compare, intervals, raw)
