# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How often 95 % intervals hold the truth, and whether they are wider than they have to be.

A two-joint arm is recorded, spoilt and fitted again and again. Per parameter: the share of draws
whose interval holds the truth, the mean half-width over 1.96 standard deviations of the estimates,
the bias in standard deviations, and the share of the estimates within 1.96 standard deviations of
their mean: 95 % if they are normal, more if their scatter is bounded.

Cases: (a) equal white noise, (b) channels 20 times apart, (c) noise with a correlation of .98
between neighbours, (d) a 12-bit encoder and nothing else, (e) outliers and a robust loss, (f)
friction that the model lacks, 8 recordings; there the interval has to hold the mean of all
estimates, which infinitely many recordings would give.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from cases import noisy
from numpy.typing import NDArray

from sysid_ros.config.calibration import Loss
from sysid_ros.estimation.solver.least_squares import SolverSettings
from sysid_ros.identification import calculate_intervals
from sysid_ros.identification.fit import fit
from sysid_ros.signals.trajectory import Trajectory

Noise = Callable[[np.random.Generator], Callable[[NDArray[np.float64]], NDArray[np.float64]]]

DRAWS = 200
#: Standard deviation of the noise, rad and rad/s.
_POSITION, _VELOCITY = 1e-3, 2e-2
_CORRELATION = 0.98
#: Counts of the encoder's turn.
_COUNTS = 4096
#: Share of outliers, and their size in standard deviations.
_OUTLIERS, _OUTLIER = 0.01, 20.0
_WIDE = (0.9, 1.3)


class Case(NamedTuple):
    """One kind of data.

    Attributes:
        text: What it is.
        noise: What spoils the samples.
        bags: Recordings of a data set.
        loss: Loss of the fit.
        velocities: Whether velocities are measured.
        stribeck: Whether the truth has friction that the model lacks; motions then differ between
            data sets.
        share: Smallest and largest share that passes.
    """

    text: str
    noise: Noise
    bags: int = 2
    loss: Loss = 'linear'
    velocities: bool = True
    stribeck: bool = False
    share: tuple[float, float] = (0.91, 0.98)


class Draw(NamedTuple):
    """One data set: (p,) estimates, ends of the intervals, half-widths of the toolbox's."""

    values: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    textbook: NDArray[np.float64]
    seconds: float


def _white(scales: tuple[float, float, float, float]) -> Noise:
    def make(
        rng: np.random.Generator,
    ) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
        return lambda clean: clean + rng.normal(size=clean.shape) * scales

    return make


def _correlated(
    rng: np.random.Generator,
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    def spoil(clean: NDArray[np.float64]) -> NDArray[np.float64]:
        fresh = rng.normal(size=clean.shape)
        noise = np.empty_like(clean)
        noise[0] = fresh[0]
        for row in range(1, len(clean)):
            noise[row] = _CORRELATION * noise[row - 1] + np.sqrt(1 - _CORRELATION**2) * fresh[row]
        scales = np.array([_POSITION, _POSITION, _VELOCITY, _VELOCITY])
        spoilt: NDArray[np.float64] = clean + noise * scales
        return spoilt

    return spoil


def _quantised(
    rng: np.random.Generator,
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    # Where the encoder's zero is differs from one mounting to the next.
    zero = rng.uniform(size=(1, 4))
    step = 2 * np.pi / _COUNTS
    return lambda clean: step * (np.round(clean / step + zero) - zero)


def _with_outliers(
    rng: np.random.Generator,
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    scales = np.array([_POSITION, _POSITION, _VELOCITY, _VELOCITY])

    def spoil(clean: NDArray[np.float64]) -> NDArray[np.float64]:
        noise = rng.normal(size=clean.shape)
        hit = rng.uniform(size=clean.shape) < _OUTLIERS
        spoilt: NDArray[np.float64] = clean + scales * np.where(hit, _OUTLIER * noise, noise)
        return spoilt

    return spoil


_EQUAL = _white((_POSITION, _POSITION, _VELOCITY, _VELOCITY))
CASES = {
    'a': Case('white, equal', _white((5e-3,) * 4)),
    'b': Case(
        'white, 20 times apart', _white((_POSITION, 20 * _POSITION, _VELOCITY, 20 * _VELOCITY))
    ),
    'c': Case('correlated by .98', _correlated),
    'd': Case('12-bit encoder', _quantised, velocities=False),
    'e': Case('1 % outliers, huber', _with_outliers, loss='huber'),
    'f': Case('unmodelled friction, 8 bags', _EQUAL, bags=8, stribeck=True, share=(0.88, 0.99)),
}


@functools.cache
def _clean(stribeck: bool, seed: int, number: int) -> noisy.Clean:
    moved = noisy.motion(np.random.default_rng([seed, number]))
    return noisy.happen_with_stribeck(moved) if stribeck else noisy.happen(moved)


def recordings(case: Case, seed: int, draw: int, count: int) -> list[Trajectory]:
    """Return the recordings of one data set."""
    rng = np.random.default_rng([seed, 1, draw])
    spoil = case.noise(rng)
    # With a right model, the motion is the same in every draw, and only the noise differs.
    first = draw * count if case.stribeck else 0
    return [
        noisy.record(
            _clean(case.stribeck, seed, first + k), spoil, f'bag_{k}', velocities=case.velocities
        )
        for k in range(count)
    ]


def _fit_one(name: str, seed: int, draw: int) -> Draw:
    case = CASES[name]
    began = time.perf_counter()
    sequences = recordings(case, seed, draw, case.bags)
    _clean.cache_clear() if case.stribeck else None
    settings = SolverSettings(loss=case.loss)
    unknowns = noisy.unknowns()
    found = fit(
        noisy.model(),
        unknowns,
        sequences,
        settings=settings,
        start='nominal',
        threads=1,
    )
    textbook = calculate_intervals([found.solution.residual], found.solution.jacobian)[1]
    count = len(noisy.TRUTH)
    return Draw(
        found.solution.x[:count],
        np.array([interval.low for interval in found.intervals]),
        np.array([interval.high for interval in found.intervals]),
        textbook[:count],
        time.perf_counter() - began,
    )


def target(name: str, draws: list[Draw]) -> NDArray[np.float64]:
    """Return what the intervals have to hold: the truth, or what such recordings give on average.

    With the wrong model that is not the truth. Motions differ between data sets, so that the mean
    of many estimates is what infinitely many give, to a fraction of an interval.
    """
    if not CASES[name].stribeck:
        return noisy.truth()
    mean: NDArray[np.float64] = np.mean([draw.values for draw in draws], axis=0)
    return mean


def report(name: str, draws: list[Draw], held: NDArray[np.float64]) -> bool:
    """Print the figures of a case; return whether all are in the limits."""
    case = CASES[name]
    values = np.array([draw.values for draw in draws])
    low, high = np.array([draw.low for draw in draws]), np.array([draw.high for draw in draws])
    textbook = np.array([draw.textbook for draw in draws])
    deviation = values.std(axis=0, ddof=1)
    bias = (values.mean(axis=0) - held) / deviation
    inside = np.mean((low <= held) & (held <= high), axis=0)
    by_textbook = np.mean(np.abs(values - held) <= textbook, axis=0)
    width = np.nanmean(high - low, axis=0) / 2 / (1.96 * deviation)
    normal = np.mean(np.abs(values - values.mean(axis=0)) <= 1.96 * deviation, axis=0)
    seconds = np.median([draw.seconds for draw in draws])
    print(f'\n({name}) {case.text}: {len(draws)} data sets, {seconds:.2f} s each')
    print(
        f'{"":30s} {"truth":>8s} {"estimates":>9s} {"bias/sd":>8s} '
        f'{"held":>7s} {"width":>6s} {"within":>7s} {"textbook":>9s}'
    )
    passed = True
    for place, label in enumerate(noisy.TRUTH):
        good = case.share[0] <= inside[place] <= case.share[1]
        narrow = name == 'f' or _WIDE[0] <= width[place] <= _WIDE[1]
        passed &= bool(good and narrow)
        print(
            f'{label:30s} {held[place]:8.4f} {deviation[place]:9.2g} {bias[place]:8.2f} '
            f'{inside[place]:7.1%} {width[place]:6.2f} {normal[place]:7.1%} '
            f'{by_textbook[place]:9.1%}'
            f'{"" if good and narrow else "  <"}'
        )
    low_share, high_share = case.share
    print(f'{"PASS" if passed else "MISS"} ({low_share:.0%} to {high_share:.0%}', end='')
    print(', width not judged)' if name == 'f' else f', width {_WIDE[0]} to {_WIDE[1]})')
    return passed


def main() -> int:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('--case', choices=[*CASES, 'all'], default='all')
    parser.add_argument('--draws', type=int, default=DRAWS)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--processes', type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    passed = []
    with multiprocessing.get_context('spawn').Pool(arguments.processes) as pool:
        for name in CASES if arguments.case == 'all' else [arguments.case]:
            jobs = [(name, arguments.seed, draw) for draw in range(arguments.draws)]
            draws = pool.starmap(_fit_one, jobs, chunksize=5)
            passed.append(report(name, draws, target(name, draws)))
            sys.stdout.flush()
    return 0 if all(passed) else 1


if __name__ == '__main__':
    sys.exit(main())
