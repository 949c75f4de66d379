# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How often 95 % intervals hold the truth, with a right model and with wrong ones.

A two-joint arm is recorded, spoilt and fitted again and again. ``right``: per parameter, the
share of draws whose interval holds the truth, the mean half-width over 1.96 standard deviations of
the estimates, the bias in standard deviations, the share of the estimates within 1.96 standard
deviations of their mean (95 % if they are normal, more if their scatter is bounded), and the share
that the textbook's formula for white noise holds.

Cases: (a) equal white noise, (b) channels 20 times apart, (c) noise with a correlation of .98
between neighbours, (d) a 12-bit encoder and nothing else, (e) outliers and a robust loss, (f)
friction that the model lacks, 8 recordings; there the interval has to hold the mean of all
estimates, which infinitely many recordings would give.

``wrong``: the arm does what its model does not, with other motions and noise in each draw. Per
fault and number of recordings: in how many draws the model is said to lack something, in how many
of those the term that is named first is the right one, the share of all intervals that hold the
truth, the least of one parameter, and the share of values called identified that are within their
interval and within three standard errors of the truth. Draws are kept in --folder.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from shared import noisy
from shared.common import (
    CORES,
    QUANTILE,
    AnyOf,
    Floats,
    Table,
    coverage,
    ends,
    in_processes,
    kept,
    run,
    verdict,
)

from sysid_ros.config.schema import Loss
from sysid_ros.fit.fit import FitOptions
from sysid_ros.fit.solver import SolverSettings
from sysid_ros.identification import calculate_intervals
from sysid_ros.uncertainty.inference import identify

_WIDE = (0.9, 1.3)


class Case(NamedTuple):
    """One kind of data.

    Attributes:
        text: What it is.
        spoil: From the (n, 4) clean samples to the measured ones.
        bags: Recordings of a data set.
        loss: Loss of the fit.
        velocities: Whether velocities are measured.
        plant: What the robot is; with a wrong model, motions differ between data sets.
        share: Smallest and largest share that passes.
    """

    text: str
    spoil: Callable[[Floats, Any], Floats]
    bags: int = 2
    loss: Loss = 'linear'
    velocities: bool = True
    plant: str = 'clean'
    share: tuple[float, float] = (0.91, 0.98)


def _white(clean: Floats, rng: np.random.Generator, scales: Any = noisy.NOISE) -> Floats:
    return np.asarray(clean + rng.normal(size=clean.shape) * scales)


def _correlated(clean: Floats, rng: np.random.Generator, rho: float = 0.98) -> Floats:
    fresh = rng.normal(size=clean.shape)
    noise = np.empty_like(clean)
    noise[0] = fresh[0]
    for row in range(1, len(clean)):
        noise[row] = rho * noise[row - 1] + np.sqrt(1 - rho**2) * fresh[row]
    return np.asarray(clean + noise * noisy.NOISE)


def _encoded(clean: Floats, rng: Any) -> Floats:
    step = 2 * np.pi / 4096
    return np.asarray(step * (np.round(clean / step + rng) - rng))


def _with_outliers(clean: Floats, rng: np.random.Generator) -> Floats:
    noise = rng.normal(size=clean.shape)
    hit = rng.uniform(size=clean.shape) < 0.01  # noqa: PLR2004 (1 % of samples, 20 times as far)
    return np.asarray(clean + noisy.NOISE * np.where(hit, 20.0 * noise, noise))


_APART = np.array([1e-3, 2e-2, 2e-2, 4e-1])
CASES = {
    'a': Case('white, equal', functools.partial(_white, scales=5e-3)),
    'b': Case('white, 20 times apart', functools.partial(_white, scales=_APART)),
    'c': Case('correlated by .98', _correlated),
    'd': Case('12-bit encoder', _encoded, velocities=False),
    'e': Case('1 % outliers, huber', _with_outliers, loss='huber'),
    'f': Case('unmodelled friction, 8 bags', _white, 8, plant='stribeck', share=(0.88, 0.99)),
}
_CASES, _FAULTS = AnyOf(CASES), AnyOf(noisy.PLANTS)


class Draw(NamedTuple):
    """One data set: (p,) estimates, ends of the intervals, half-widths of the toolbox's."""

    values: Floats
    low: Floats
    high: Floats
    textbook: Floats
    seconds: float


@functools.cache
def _clean(plant: str, seed: int, number: int) -> noisy.Clean:
    rng = np.random.default_rng([seed, number])
    return noisy.as_modelled(rng) if plant == 'clean' else noisy.happen(noisy.PLANTS[plant], rng)


def _fit_one(name: str, seed: int, draw: int) -> Draw:
    case = CASES[name]
    began = time.perf_counter()
    rng: Any = np.random.default_rng([seed, 1, draw])
    if case.spoil is _encoded:
        # Where the encoder's zero is differs from one mounting to the next.
        rng = rng.uniform(size=(1, 4))
    # With a right model, the motion is the same in every draw, and only the noise differs.
    first = 0 if case.plant == 'clean' else draw * case.bags
    runs = []
    for bag in range(case.bags):
        clean = _clean(case.plant, seed, first + bag)
        values = case.spoil(clean.values, rng)
        runs.append(noisy.record(clean, values, f'bag_{bag}', velocities=case.velocities))
    settings = SolverSettings(loss=case.loss)
    found = identify(
        noisy.model(),
        noisy.unknowns(),
        runs,
        options=FitOptions(settings=settings, start='nominal', threads=1),
    )
    count = len(noisy.TRUTH)
    textbook = calculate_intervals([found.solution.residual], found.solution.jacobian)[1]
    return Draw(
        found.solution.x[:count],
        *ends(found.intervals),
        textbook[:count],
        time.perf_counter() - began,
    )


def right(*, case: AnyOf = _CASES, draws: int = 200, seed: int = 0, processes: int = CORES) -> bool:
    """Fit with a right model, but for case f."""
    passed = [_right(name, draws, seed, processes) for name in case]
    return all(passed)


def _right(name: str, draws: int, seed: int, processes: int) -> bool:
    case = CASES[name]
    found = in_processes(_fit_one, [(name, seed, draw) for draw in range(draws)], processes)
    values, low, high, textbook = (
        np.array([getattr(draw, word) for draw in found])
        for word in ('values', 'low', 'high', 'textbook')
    )
    # With the wrong model, infinitely many recordings give the mean of many estimates, to a
    # fraction of an interval.
    judged = case.plant == 'clean'
    truth = np.array(list(noisy.TRUTH.values())) if judged else values.mean(axis=0)
    own = coverage(truth, values, low, high)
    normal = np.mean(np.abs(values - values.mean(axis=0)) <= QUANTILE * own.deviation, axis=0)
    by_textbook = np.mean(np.abs(values - truth) <= textbook, axis=0)
    seconds = np.median([draw.seconds for draw in found])
    print(f'\n({name}) {case.text}: {draws} data sets, {seconds:.2f} s each')
    table = Table(
        'parameter:28s', 'truth:8.4f', 'sd:9.2g', 'bias/sd:7.2f', 'held:7.1%', 'width:6.2f',
        'within:7.1%', 'textbook:8.1%',
    )  # fmt: skip
    good = (case.share[0] <= own.held) & (own.held <= case.share[1])
    if judged:
        good &= (_WIDE[0] <= own.width) & (own.width <= _WIDE[1])
    columns = (truth, own.deviation, own.bias, own.held, own.width, normal, by_textbook)
    for place, label in enumerate(noisy.TRUTH):
        table.row(label, *(column[place] for column in columns), mark='' if good[place] else '<')
    wide = f'width {_WIDE[0]} to {_WIDE[1]}' if judged else 'width not judged'
    return verdict(bool(good.all()), f'({case.share[0]:.0%} to {case.share[1]:.0%}, {wide})')


def _wrong(name: str, bags: int, number: int, seed: int, folder: Path) -> dict[str, Any]:
    """Record and fit once; return ends of intervals, verdicts, and what is said to be lacking."""

    def make() -> dict[str, Any]:
        runs = []
        for bag in range(bags):
            rng = np.random.default_rng([seed, number, bag])
            clean = noisy.happen(noisy.PLANTS[name], rng)
            runs.append(noisy.record(clean, _white(clean.values, rng), f'bag_{bag}'))
        found = identify(
            noisy.model(), noisy.unknowns(), runs, options=FitOptions(start='nominal', threads=1)
        )
        return {
            'values': found.solution.x[: len(noisy.TRUTH)].tolist(),
            'low': [interval.low for interval in found.intervals],
            'high': [interval.high for interval in found.intervals],
            'verdicts': [str(interval.verdict_kind) for interval in found.intervals],
            'lacking': [each.title for each in found.inference.lacking],
        }

    return kept(folder / f'{name}_{bags}_{seed}_{number}.json', make)


def wrong(
    *,
    faults: AnyOf = _FAULTS,
    bags: list[int] = [2, 8],  # noqa: B006 (is only read)
    draws: int = 50,
    seed: int = 0,
    folder: Path = Path('coverage'),
    processes: int = CORES,
) -> None:
    """Fit robots that do what their model does not."""
    folder.mkdir(parents=True, exist_ok=True)
    table = Table(
        'the robot has:33s', 'bags:4d', 'draws:5d', 'lacking:7.0%', 'right:5.0%', 'held:5.0%',
        'least:5.0%', 'identified:10.0%', 'held:5.0%', 'within 3:8.0%',
    )  # fmt: skip
    truth = np.array(list(noisy.TRUTH.values()))
    for count in bags:
        for name in faults:
            jobs = [(name, count, number, seed, folder) for number in range(draws)]
            found = in_processes(_wrong, jobs, processes)
            values, low, high = (
                np.array([each[word] for each in found], np.float64)
                for word in ('values', 'low', 'high')
            )
            held = (low <= truth) & (truth <= high)
            said = [each['lacking'] for each in found if each['lacking']]
            lack = noisy.PLANTS[name].lack
            first = [own[0].startswith(lack) for own in said] if lack else []
            identified = np.array([each['verdicts'] for each in found]) == 'identified'
            reach = 3 / QUANTILE * np.maximum(high - values, values - low)
            near = np.abs(values - truth) <= reach
            table.row(
                noisy.PLANTS[name].title,
                count,
                draws,
                len(said) / draws,
                np.mean(first) if first else None,
                held[np.isfinite(low)].mean(),
                held.mean(axis=0).min(),
                identified.mean(),
                *(part[identified].mean() if identified.any() else None for part in (held, near)),
            )


if __name__ == '__main__':
    run(__doc__, right, wrong)
