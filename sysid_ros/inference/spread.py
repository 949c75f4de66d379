# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How far the estimates may be off: standard errors and half-widths of the intervals."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.fft
import scipy.special
from numpy.typing import NDArray

from sysid_ros.errors import listed
from sysid_ros.estimation.residuals import PRIOR
from sysid_ros.inference.stationary import (
    ChannelNoise,
    Series,
    by_channel,
    channel_noises,
    longest_memory,
    series_of,
)

if TYPE_CHECKING:
    from sysid_ros.inference.linear import Linear


#: Harmonics of the sawtooth that are followed; those beyond hold a hundredth of its variance.
_HARMONICS = 64
#: So many of them at once.
_SIDE_BY_SIDE = 8


def repeating(
    residual: NDArray[np.float64], influence: NDArray[np.float64], step: float
) -> NDArray[np.float64]:
    """Return (f,) variances of the estimates from one encoder, over where its zero may be.

    Its error is a sawtooth of the position, with period Δ: over a zero that can be anywhere, errors
    at two positions have the covariance Σ_m Δ²/(2π²m²) cos(2πm (q - q')/Δ). So a joint that
    comes back has the same error again, however much later, which no correlation in time tells.
    Readings are whole steps; where the joint was between two is what the residual says. Noise that
    reaches the encoder blurs the sawtooth: the m-th harmonic by exp(-(2πmσ/Δ)²/2); what it takes
    away is white (Widrow, IRE Transactions on Circuit Theory 3, 1956). How much noise there is says
    the variance of the residuals, which is no exact measure: where there is none, the result is
    too large rather than too small.

    Args:
        residual: (n,) residuals of the encoder, in units of its noise.
        influence: (n, f) of each of them on the estimates.
        step: Δ in units of the noise.
    """
    order = np.arange(1, _HARMONICS + 1)
    weight = step**2 / (2.0 * np.pi**2 * order**2)
    total = float(np.mean(residual**2))
    blur = max(total - step**2 / 12.0, 0.0)
    weight = weight * np.exp(-((2.0 * np.pi * order / step) ** 2) * blur)
    variance = max(total - float(weight.sum()), 0.0) * np.sum(influence**2, axis=0)
    for some in np.split(order, _HARMONICS // _SIDE_BY_SIDE):
        turned = np.exp(2j * np.pi / step * some[:, None] * residual)
        squares = (turned.real @ influence) ** 2 + (turned.imag @ influence) ** 2
        variance = variance + weight[some - 1] @ squares
    found: NDArray[np.float64] = variance
    return found


def smoothed(series: NDArray[np.float64], alike: float) -> NDArray[np.float64]:
    """Return (n, k) sums of (n, k) series over their neighbours, weighted by Bartlett's kernel.

    ``series.T @ smoothed(series, alike)`` is the covariance of the sums of the series.
    """
    reach = int(min(alike, len(series) - 1))
    if reach < 1:
        return series
    side = 1.0 - np.arange(1, reach + 1) / (reach + 1)
    kernel = np.concatenate([side[::-1], [1.0], side])
    size = scipy.fft.next_fast_len(len(series) + 2 * reach, real=True)
    product = scipy.fft.rfft(series, size, axis=0) * scipy.fft.rfft(kernel, size)[:, None]
    found: NDArray[np.float64] = scipy.fft.irfft(product, size, axis=0)[reach : reach + len(series)]
    return found


def bartlett(series: NDArray[np.float64], alike: float) -> NDArray[np.float64]:
    """Return the (k,) variances of the sums of series with Bartlett's kernel."""
    found: NDArray[np.float64] = np.sum(series * smoothed(series, alike), axis=0)
    return found


#: Level of all intervals.
LEVEL = 0.95
#: Their half-width in standard errors.
QUANTILE = float(scipy.special.ndtri((1 + LEVEL) / 2))
#: From so many recordings on, their disagreement is known well enough.
ENOUGH = 8
#: Noise whose effective samples are below this share of all is correlated.
_SLOW = 0.5
#: An encoder's steps are most of the noise up to so many times their own variance.
_MOSTLY = 2.0
#: Recordings disagree if noise would make them do so with less than this probability.
_CHANCE = 0.01
#: So many recordings, counted by what they say of a parameter, tell by themselves how far it may be
#: off: with fewer the quantile of Student's distribution is beyond 2.6.
_ENOUGH_TELLING = 6.0
#: Recordings that disagree about any parameter with less than this probability are not alike.
_DOUBT = 0.05
#: Variances are compared down to this.
_TINY = 1e-300
#: Share of a recording in the information is kept below this, so that it can be left out.
_LARGEST_SHARE = 0.999


@dataclass(frozen=True)
class Disagreement:
    """A few recordings differ by more than the noise inside of them explains.

    Attributes:
        recordings: How many.
        times: How many times as far apart they are as noise would have them, in the root mean
            square over all parameters.
        most: Name of the parameter about which they disagree most.
        growth: (p,) what half-widths are to be multiplied by.
    """

    recordings: int
    times: float
    most: str
    growth: NDArray[np.float64]

    def __str__(self) -> str:
        """Return the sentence for a reader of the intervals."""
        return (
            f'The {self.recordings} recordings disagree, most of all about {self.most}, by more '
            f'than the noise inside of them explains: {self.times:.2g} times as much over all '
            f'parameters. Intervals allow for that; record {ENOUGH} or more, or find what differs.'
        )


@dataclass(frozen=True)
class Spread:
    """How far estimates may be off.

    Attributes:
        half: (p,) half-widths of the 95 % intervals, in the parameters' units; NaN at bounds and
            without effect. Directions that the data do not see are left out of it.
        covariance: (p, p) of the estimates; rows of parameters without interval are NaN.
        method: How it was found, in words.
        effective: Number of independent samples that say as much as the residuals do.
        notes: What a reader of the intervals has to know, a sentence each.
        noises: Index of each sensor to the noise of its residuals.
        disagreement: Of few recordings, if any; it is not in the others.
        apart: Indices of parameters to the half-width that the noise inside of recordings alone
            says, where many recordings disagree by more than it explains.
    """

    half: NDArray[np.float64]
    covariance: NDArray[np.float64]
    method: str
    effective: float
    notes: tuple[str, ...] = ()
    noises: dict[int, ChannelNoise] = field(default_factory=dict)
    disagreement: Disagreement | None = None
    apart: dict[int, float] = field(default_factory=dict)

    @property
    def slow(self) -> list[ChannelNoise]:
        """The noises that stay alike from sample to sample."""
        return [n for n in self.noises.values() if n.effective < _SLOW * n.samples]


class Ends(NamedTuple):
    """Ends of the intervals.

    Attributes:
        low: (p,) in the parameters' units; NaN where there is no interval.
        high: (p,) likewise.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]


def spread(linear: Linear, left: NDArray[np.float64] | None = None) -> Spread:
    """Return how far the estimates may be off.

    From ``ENOUGH`` recordings on, their disagreement says it, whatever the model lacks. With fewer,
    and for parameters of which few recordings say most, the noise inside of them has to: as an
    autoregression of each sensor's residuals, and from the sums of the influences of all residuals
    of one instant, which sees noise that changes with the motion or is common to sensors; the wider
    of both counts.

    Args:
        linear: The problem.
        left: (n,) residuals that are taken for noise; the problem's unless given.
    """
    residual = linear.residual if left is None else left
    count = len(linear.unknowns)
    half = np.full(count, np.nan)
    covariance = np.full((count, count), np.nan)
    free, scale = linear.free, linear.scale[linear.free]
    if not len(free):
        return Spread(half, covariance, 'nothing to find', np.nan)
    series = series_of(linear.samples)
    noises = channel_noises(linear, series.channels, residual)
    errors, freedom = inside(linear, series, noises, residual)
    covariance[np.ix_(free, free)] = errors / np.outer(scale, scale)
    quantile = scipy.special.stdtrit(freedom, (1 + LEVEL) / 2)
    half[free] = np.sqrt(np.diag(errors)) * quantile / scale
    effective = float(sum(noise.effective for noise in noises.values()))
    count_of_recordings = linear.recordings
    method, notes = _said(count_of_recordings, noises)
    disagreement, apart = None, {}
    if count_of_recordings >= ENOUGH:
        between = recordings(linear, residual)
        telling = _telling(between, covariance)
        columns = between.columns[telling]
        unlike = between.columns[telling & (_chances(between, covariance) < _CHANCE)]
        apart = {int(column): float(half[column]) for column in unlike}
        deviation = np.sqrt(np.maximum(np.diag(between.covariance)[telling], 0.0))
        growth = np.ones(count)
        growth[columns] = deviation / np.sqrt(np.maximum(np.diag(covariance)[columns], _TINY))
        covariance *= np.outer(growth, growth)
        covariance[np.ix_(columns, columns)] = between.covariance[np.ix_(telling, telling)]
        half[columns] = deviation * scipy.special.stdtrit(between.freedom[telling], (1 + LEVEL) / 2)
        if not telling.all():
            names = listed(linear.unknowns[j].name for j in between.columns[~telling])
            method += f', but from the noise inside of the few that say most of {names}'
    elif count_of_recordings > 1:
        disagreement = _disagreement(linear, covariance, residual)
    return Spread(half, covariance, method, effective, notes, noises, disagreement, apart)


def _telling(between: Recordings, covariance: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return (c,) of which columns the recordings' disagreement says how far they may be off.

    How far two or three recordings are apart says little of how far they may be. Where no more than
    that say most of a parameter, the noise inside of them counts, unless recordings disagree by
    more than it explains about any: the model then lacks something.
    """
    enough = between.freedom + 1 >= _ENOUGH_TELLING
    if enough.all() or (_chances(between, covariance) * len(enough)).min() < _DOUBT:
        return np.ones_like(enough)
    return enough


def _chances(between: Recordings, covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (c,) how likely the noise inside of recordings makes them disagree as they do."""
    inside = np.maximum(np.diag(covariance)[between.columns], _TINY)
    ratio = np.diag(between.covariance) / inside
    found: NDArray[np.float64] = scipy.special.chdtrc(between.freedom, between.freedom * ratio)
    return found


def _disagreement(
    linear: Linear, covariance: NDArray[np.float64], residual: NDArray[np.float64]
) -> Disagreement | None:
    """Return how a few recordings disagree, if by more than the noise inside of them explains.

    If they do over all parameters together, all half-widths grow by the ratio: what makes them
    disagree about some is likely to do so about others (the scale factor of R. T. Birge, Physical
    Review 40, 1932). Those about which they disagree by themselves grow by their own ratio, with
    Student's quantile: two or three recordings say little of how far they may be apart.
    """
    between = recordings(linear, residual)
    columns = between.columns
    if not len(columns):
        return None
    inside = covariance[np.ix_(columns, columns)]
    sizes = np.sqrt(np.maximum(np.diag(inside), _TINY))
    scales = np.outer(sizes, sizes)
    whitened = np.linalg.pinv(inside / scales, hermitian=True)
    ratio = float(np.sum(whitened * between.covariance / scales)) / len(columns)
    freedom = float(between.freedom.sum())
    chances = _chances(between, covariance) * len(columns)
    growth = np.ones(len(linear.x))
    together = scipy.special.chdtrc(freedom, freedom * ratio) < _CHANCE
    if together:
        growth *= np.sqrt(ratio) * scipy.special.stdtrit(freedom, (1 + LEVEL) / 2) / QUANTILE
    alone = np.flatnonzero(chances < _CHANCE)
    own = np.sqrt(np.diag(between.covariance)[alone]) / sizes[alone]
    own *= scipy.special.stdtrit(between.freedom[alone], (1 + LEVEL) / 2) / QUANTILE
    growth[columns[alone]] = np.maximum(growth[columns[alone]], own)
    if not together and not len(alone):
        return None
    return Disagreement(
        linear.recordings,
        float(np.sqrt(ratio)),
        linear.unknowns[columns[int(np.argmin(chances))]].name,
        growth,
    )


@dataclass(frozen=True)
class Recordings:
    """Scores of each recording, what belongs to it alone taken out, and how far these disagree.

    Attributes:
        columns: (k,) columns of the Jacobian that they are about: free, and not of one recording.
        scale: (k,) what those columns are divided by.
        information: (g, k, k) of each recording.
        scores: (g, k) of each, as the residuals of the fit give them.
        roots: (g, k, k) what puts back the part of the scores that the fit has taken out.
        inverse: (k, k) of the information of all recordings and priors.
        prior: (k, k) expected products of the scores of priors.
    """

    columns: NDArray[np.int64]
    scale: NDArray[np.float64]
    information: NDArray[np.float64]
    scores: NDArray[np.float64]
    roots: NDArray[np.float64]
    inverse: NDArray[np.float64]
    prior: NDArray[np.float64]

    @property
    def corrected(self) -> NDArray[np.float64]:
        """(g, k) scores as they are without a fit."""
        found: NDArray[np.float64] = np.einsum('gij,gj->gi', self.roots, self.scores)
        return found

    @functools.cached_property
    def covariance(self) -> NDArray[np.float64]:
        """(k, k) of the estimates, cluster-robust, a cluster being a recording."""
        meat = self.prior + self.corrected.T @ self.corrected
        scales = np.outer(self.scale, self.scale)
        found: NDArray[np.float64] = self.inverse @ meat @ self.inverse / scales
        return found

    @functools.cached_property
    def freedom(self) -> NDArray[np.float64]:
        """(k,) degrees of freedom of each variance: the effective number of recordings less one.

        That is Σ_g 1/w_g² - 1 for shares w_g of the information on a parameter (Carter, Schnepel
        and Steigerwald, Review of Economics and Statistics 99, 2017).
        """
        shares = np.array(
            [np.diag(self.inverse @ part @ self.inverse) for part in self.information]
        )
        weights = shares / np.maximum(np.sum(shares, axis=0), _TINY)
        effective: NDArray[np.float64] = 1.0 / np.maximum(np.sum(weights**2, axis=0), _TINY)
        return np.maximum(effective - 1.0, 1.0)


def recordings(linear: Linear, residual: NDArray[np.float64]) -> Recordings:
    """Return the scores of each recording by (n,) residuals.

    The scores of a recording are those of its residuals, corrected for the part that the fit has
    taken out of them: J_gᵀ (I - H_gg)^-½ r_g (CR2; Bell and McCaffrey, Survey Methodology 28,
    2002), which is (I - M_g A)^-½ J_gᵀ r_g with M_g = J_gᵀ J_g and A the inverse of their sum. What
    belongs to one recording only, as its start, is taken out beforehand.
    """
    single = np.array([linear.unknowns[c].of_single_runs for c in linear.free], dtype=bool)
    columns, passing = linear.free[~single], linear.free[single]
    scale = linear.scale[columns]
    own = linear.unit[:, columns]
    group = linear.recording
    local = linear.unit[:, passing]
    everywhere = (linear.samples.sensor == PRIOR) & np.any(own != 0, axis=1)
    parts, scores = [], []
    for g in np.unique(group):
        rows = (group == g) & ~everywhere
        information, score = _reduced(own[rows], local[rows], residual[rows])
        parts.append(information)
        scores.append(score)
    prior = own[everywhere]
    variance = linear.samples.variance
    expected = prior if variance is None else prior * np.sqrt(variance[everywhere, None])
    inverse = np.linalg.pinv(sum(parts) + prior.T @ prior, hermitian=True)
    roots = np.array([_inverse_root(information @ inverse) for information in parts])
    return Recordings(
        columns,
        scale,
        np.array(parts),
        np.array(scores),
        roots,
        inverse,
        expected.T @ expected,
    )


def _reduced(
    own: NDArray[np.float64], local: NDArray[np.float64], residual: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return information and score of one recording, its own unknowns taken out."""
    live = np.any(local != 0, axis=0)
    local = local[:, live]
    cross = own.T @ local
    removed = cross @ np.linalg.pinv(local.T @ local, hermitian=True)
    information = own.T @ own - removed @ cross.T
    return information, own.T @ residual - removed @ (local.T @ residual)


def _inverse_root(share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (I - S)^-½ of the share of one recording; its eigenvalues are real, 0 to 1."""
    values, vectors = np.linalg.eig(share)
    kept = np.clip(values.real, 0.0, _LARGEST_SHARE)
    found: NDArray[np.float64] = ((vectors / np.sqrt(1.0 - kept)) @ np.linalg.pinv(vectors)).real
    return found


def _said(count: int, noises: dict[int, ChannelNoise]) -> tuple[str, tuple[str, ...]]:
    """Say in words how it was found from so many recordings, and what it does not cover."""
    if count >= ENOUGH:
        return f'from the disagreement of {count} recordings', ()
    how = 'one recording' if count == 1 else f'{count} recordings'
    method = f'from the noise inside of {how}, with its correlation in time'
    slow = [n for n in noises.values() if n.effective < _SLOW * n.samples]
    if not slow:
        return method, ()
    note = (
        f'Residuals of {len(slow)} of {len(noises)} sensors stay alike from sample to sample, '
        f'which noise seldom does: the model lacks something. How much that differs between '
        f'recordings, {how} cannot say; record {ENOUGH} or more.'
    )
    return method, (note,)


def inside(
    linear: Linear,
    series: Series,
    noises: dict[int, ChannelNoise],
    residual: NDArray[np.float64],
    last: int | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the scaled covariance from the noise inside of recordings, and degrees of freedom.

    Args:
        linear: The problem.
        series: Its residuals in the order of time.
        noises: Of each sensor.
        residual: (n,) residuals that are noise.
        last: Number of the last free columns that are asked for; all f unless given.

    Returns:
        (f, f) covariance of the free columns, scaled to length 1, and (f,) freedom of each.
    """
    inverse = linear.inverse if last is None else linear.inverse[:, -last:]
    influence = linear.influence if last is None else linear.scaled @ inverse
    parts = {
        c: _by_encoder(
            residual, np.concatenate(series.channels[c]), influence, part, linear.steps.get(c)
        )
        for c, part in by_channel(series.channels, noises, influence).items()
    }
    # Not the residuals of priors themselves but what their squares are expected to be.
    expected = linear.unmeasured @ inverse
    covariance = sum(parts.values()) + expected.T @ expected
    shares = np.array([np.diag(part) for part in parts.values()])
    own = np.array([noises[c].freedom for c in parts])
    # What priors add is known: it has no part in the doubt about variances (Satterthwaite, 1946).
    doubt = np.maximum(np.sum(shares**2 / own[:, None], axis=0), _TINY)
    freedom = np.diag(covariance) ** 2 / doubt
    # The influence of an instant on a parameter is ψ_t = H⁻¹ Σ J_r r over its residuals; Bartlett's
    # kernel sums the products of those that are as near as the slowest sensor's residuals are alike
    # (Newey and West, Econometrica 55, 1987). A bandwidth that the products themselves choose is of
    # no use: those of slow noise and fast motion have a memory that is not the noise's.
    alike = longest_memory(noises.values())
    weighted = influence * residual[:, None]
    changing = sum(bartlett(instants @ weighted, alike) for instants in series.instants)
    variance = np.maximum(changing, 0.0) + np.sum(expected**2, axis=0)
    stationary = np.maximum(np.sqrt(np.diag(covariance)), _TINY)
    growth = np.maximum(np.sqrt(variance) / stationary, 1.0)
    return covariance * np.outer(growth, growth), np.maximum(freedom, 1.0)


def _by_encoder(
    residual: NDArray[np.float64],
    rows: NDArray[np.int64],
    influence: NDArray[np.float64],
    part: NDArray[np.float64],
    step: float | None,
) -> NDArray[np.float64]:
    """Return the (f, f) covariance from one sensor, as its encoder makes it where it has one.

    Where its steps are most of the noise they are all that counts, else the wider does.
    """
    if step is None:
        return part
    variance = repeating(residual[rows], influence[rows], step)
    stationary = np.maximum(np.diag(part), _TINY)
    if float(np.mean(residual[rows] ** 2)) > _MOSTLY * step**2 / 12.0:
        variance = np.maximum(variance, stationary)
    growth = np.sqrt(variance / stationary)
    grown: NDArray[np.float64] = part * np.outer(growth, growth)
    return grown
