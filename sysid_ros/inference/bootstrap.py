# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Ends of the intervals from noise that is drawn anew from the residuals, again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used: signal alone takes most of a second

from sysid_ros.inference.spread import ENOUGH, LEVEL, Ends, recordings
from sysid_ros.inference.stationary import channels_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.inference.linear import Linear
    from sysid_ros.inference.spread import Spread
    from sysid_ros.inference.stationary import ChannelNoise

#: A sequence is cut into so many blocks at least.
_FEWEST_BLOCKS = 8
#: Webb's six weights of recordings, which stay different draws where there are few.
_WEBB = np.sqrt([0.5, 1.0, 1.5])
#: Standard errors are compared down to this.
_TINY = 1e-300


def bootstrap(linear: Linear, found: Spread, *, draws: int, seed: int) -> Ends:
    """Return the ends of intervals from draws of noise, for each of which the fit is repeated.

    The fit is one Gauss-Newton step. The quantiles of the errors say how far, and to which side,
    the estimate may be off; the interval is their mirror image (basic bootstrap: Davison and
    Hinkley, Bootstrap Methods and their Application, 1997, section 5.2).
    """
    rng = np.random.default_rng(seed)
    low = linear.x - found.half
    high = linear.x + found.half
    if not len(linear.free):
        return Ends(low, high, '')
    if linear.recordings >= ENOUGH:
        columns, errors = _of_recordings(linear, draws, rng)
        said = f'studentised by {draws} draws of weights of whole recordings'
    else:
        columns = linear.free
        errors, length = _of_blocks(linear, found.noises, draws, rng)
        errors *= _widening(errors, found, columns)
        said = f'with the percentiles of {draws} draws of that noise, in blocks of {length:.2g} s'
    first, last = np.quantile(errors, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    low[columns] = linear.x[columns] - np.maximum(last, 0.0)
    high[columns] = linear.x[columns] - np.minimum(first, 0.0)
    return Ends(low, high, said)


def _widening(
    errors: NDArray[np.float64], found: Spread, columns: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return (k,) how many times farther off the estimates may be than the draws are.

    Noise that changes with the motion is not alike where blocks are moved to, but products of
    neighbouring influences see it. The variance of the noise is itself estimated: Student's t.
    """
    known = np.sqrt(np.diag(found.covariance)[columns])
    seen = np.sqrt(np.mean(errors**2, axis=0))
    student = found.half[columns] / np.maximum(known, _TINY) / scipy.special.ndtri((1 + LEVEL) / 2)
    wider: NDArray[np.float64] = np.maximum(known / np.maximum(seen, _TINY), 1.0)
    wider *= np.maximum(student, 1.0)
    return wider


def _of_recordings(
    linear: Linear, draws: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return columns, and their (draws, k) errors were recordings weighted otherwise.

    A draw multiplies the scores of each recording by a random weight of mean 0 and variance 1 (wild
    cluster bootstrap: Cameron, Gelbach and Miller, Review of Economics and Statistics 90, 2008;
    weights of Webb, Canadian Journal of Economics 56, 2023). Its errors are divided by the standard
    errors that it would give itself, and multiplied by those of the data.
    """
    found = recordings(linear)
    scores, inverse = found.corrected, found.inverse
    values, vectors = np.linalg.eigh(found.prior)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    carried = found.information @ inverse
    fixed = np.diag(inverse @ found.prior @ inverse)

    def deviations(own: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return standard errors from the (g, k) scores that a fit has left."""
        corrected = np.einsum('gij,gj->gi', found.roots, own) @ inverse
        deviation: NDArray[np.float64] = np.sqrt(np.sum(corrected**2, axis=0) + fixed)
        return deviation

    weights = rng.choice(np.concatenate([-_WEBB, _WEBB]), (draws, len(scores)))
    errors = np.empty((draws, len(found.columns)))
    for draw, weight in enumerate(weights):
        own = weight[:, None] * scores
        total = own.sum(axis=0) + root @ rng.standard_normal(len(root))
        left = deviations(own - carried @ total)
        errors[draw] = -(inverse @ total) / np.maximum(left, _TINY)
    return found.columns, errors * deviations(found.scores) / found.scale


def _of_blocks(
    linear: Linear, noises: dict[int, ChannelNoise], draws: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], float]:
    """Return (draws, f) errors from noise that is moved in time, and the length of its blocks, s.

    Blocks of what is new in the noise at each sample move within their sequence, all sensors
    together, round its ends (circular blocks: Politis and Romano, 1992); the autoregression of each
    sensor then makes noise of it, so that nothing is lost where blocks meet (post-blackening:
    Davison and Hinkley, 1997, section 8.2.3). Its variance is that of the noise before the fit.
    The influence is filtered once, see `ChannelNoise.carried`; a draw only gathers what is new.
    """
    samples = linear.samples
    influence = linear.influence
    length = 0.0
    series: dict[int, list[_Channel]] = {}
    for c, parts in channels_of(linear).items():
        fresh = [_innovations(linear.residual[rows], noises[c]) for rows in parts]
        power = sum(float(new @ new) for new in fresh) / max(sum(map(len, fresh)), 1)
        growth = np.sqrt(noises[c].innovation / max(power, _TINY))
        for rows, new in zip(parts, fresh, strict=True):
            times = samples.time[rows]
            step = float(np.ptp(times)) / max(len(times) - 1, 1)
            filtered = influence[rows]
            if len(noises[c].coefficients):
                filtered = noises[c].carried(filtered)[::-1]
            earlier = times[0] + step * np.arange(len(rows) - len(filtered), 0)
            series.setdefault(int(samples.sequence[rows[0]]), []).append(
                _Channel(np.concatenate([earlier, times]), step, growth * new, filtered)
            )
            memory = noises[c].samples / max(noises[c].effective, 1.0)
            wanted = max(len(rows) ** (1 / 3), memory)
            length = max(length, step * min(wanted, len(rows) / _FEWEST_BLOCKS))
    priors = (linear.unmeasured @ linear.inverse).T
    errors = -(priors @ rng.standard_normal((priors.shape[1], draws))).T
    for own in series.values():
        start = min(channel.times[0] for channel in own)
        blocks = [((ch.times - start) / max(length, _TINY)).astype(np.int64) for ch in own]
        count = 1 + max(int(block[-1]) for block in blocks)
        around = max(channel.step * len(channel.fresh) for channel in own)
        for draw in range(draws):
            moves = rng.uniform(0.0, max(around, _TINY), count)
            for channel, block in zip(own, blocks, strict=True):
                errors[draw] -= channel.moved(moves[block]) @ channel.influence
    return errors / linear.scale[linear.free], length


class _Channel(NamedTuple):
    """What is new in the noise of one sensor in one sequence, and what it does.

    Attributes:
        times: (m,) of its effects; before the first sample it acts by the memory of the noise.
        step: Between samples, s.
        fresh: (n,) of the samples.
        influence: (m, f) on the estimates.
    """

    times: NDArray[np.float64]
    step: float
    fresh: NDArray[np.float64]
    influence: NDArray[np.float64]

    def moved(self, moves: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (m,) what is new so many seconds later, round the ends."""
        shift = np.rint(moves / max(self.step, _TINY)).astype(np.int64)
        place = np.arange(len(self.fresh) - len(self.times), len(self.fresh)) + shift
        found: NDArray[np.float64] = self.fresh[place % len(self.fresh)]
        return found


def _innovations(residual: NDArray[np.float64], noise: ChannelNoise) -> NDArray[np.float64]:
    """Return what is new in each residual, of mean 0.

    The first ones, of which the past is not known, are as others are.
    """
    order = len(noise.coefficients)
    new = scipy.signal.lfilter(np.concatenate(([1.0], -noise.coefficients)), [1.0], residual)
    if order and len(new) > 2 * order:
        new[:order] = new[order : 2 * order]
    centred: NDArray[np.float64] = new - new.mean()
    return centred
