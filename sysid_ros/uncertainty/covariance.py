# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Covariance of the estimates, and differences between estimates.

It is from the noise within recordings, or from how recordings disagree: both are sandwiches around
the linearised problem.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from sysid_ros.errors import listed
from sysid_ros.fit.differences import PRIOR
from sysid_ros.fit.linear import Linear, bounds_of
from sysid_ros.fit.noise import JointPrior

Array = NDArray[np.float64]

#: Level of all intervals, and their half-width in standard errors.
LEVEL = 0.95
QUANTILE = float(scipy.special.ndtri((1 + LEVEL) / 2))
#: From so many recordings on, their disagreement is known well enough, for parameters of which
#: most of so many say something.
ENOUGH = 8
#: Recordings disagree, and residuals follow a term, if noise would make them do so with less than
#: this probability.
CHANCE = 0.01
#: What has less than this share takes no part: a parameter in a direction that no residual sees,
#: as it may come from the error of the columns, or the last harmonics of a sawtooth.
TAKES_PART = 0.01
#: More than this share of something is most of it.
MOSTLY = 0.5
#: Largest order of the autoregression of a sensor's noise, and samples for each coefficient.
_LARGEST_ORDER, _SAMPLES_PER_COEFFICIENT = 8, 25
#: The memory of noise is followed over so many samples at most, also where they are more than there
#: are: noise that keeps swinging says little in a short recording.
_LONGEST_MEMORY = 20_000
#: Reflection coefficients stay below this, as noise of a longer memory is a trend; so do shares of
#: a recording in the information, so that it can be left out.
_BELOW_ONE = 0.998
#: A standard error needs so many differences.
FEWEST_PARTS = 2
#: Variances are compared down to this.
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Noise:
    """Noise of one sensor, as an autoregression."""

    sensor: str
    samples: int  # number of residuals
    innovation: float  # variance of what is new in each, dimensionless
    coefficients: Array  # (q,) the rest is their sum over the q samples before
    correlation: Array  # (k,) autocorrelation, from lag 0 until it has faded

    @property
    def autocorrelation(self) -> float:
        """Correlation of neighbouring samples."""
        return float(self.correlation[1]) if len(self.correlation) > 1 else 0.0

    @property
    def effective(self) -> float:
        """Number of independent samples whose mean is as exact."""
        return float(self.samples / max(1.0 + 2.0 * self.correlation[1:].sum(), 1.0))

    @property
    def freedom(self) -> float:
        """Number of independent samples whose variance is as exact (Bartlett, 1946)."""
        return float(self.samples / (1.0 + 2.0 * np.sum(self.correlation[1:] ** 2)))

    @property
    def slow(self) -> bool:
        """Whether it stays alike from sample to sample."""
        return self.effective < MOSTLY * self.samples

    def summed(self, influence: Array) -> Array:
        """Return the (f, f) covariance of the sum of the noise, weighted by (n, f) numbers.

        With the response g of the autoregression the noise is e_t = Σ_k g_k ε_{t-k}; so Σ_t ψ_t e_t
        = Σ_s ε_s Σ_k g_k ψ_{s+k}: the influence is filtered backwards, beyond its first sample.
        """
        tail = np.zeros((len(self.correlation), influence.shape[1]))
        poles = np.append(1.0, -self.coefficients)
        backwards = np.concatenate([influence[::-1], tail])
        carried = scipy.signal.lfilter([1.0], poles, backwards, axis=0)
        return np.asarray(self.innovation * (carried.T @ carried))


def channel_noises(linear: Linear, residual: Array) -> dict[int, Noise]:
    """Describe the noise of each sensor by an autoregression of its (n,) residuals.

    A fit takes out of the residuals what its unknowns can follow: of all independent samples, one
    for each unknown.
    """
    samples = linear.samples
    noises = {
        c: _autoregression(samples.sensors[c], residual, parts)
        for c, parts in sorted(linear.channels.items())
    }
    freedom = sum(noise.freedom for noise in noises.values())
    growth = freedom / max(freedom - len(linear.free), 1.0)
    return {
        c: dataclasses.replace(noise, innovation=noise.innovation * growth)
        for c, noise in noises.items()
    }


def _autoregression(sensor: str, residual: Array, parts: list[NDArray[np.int64]]) -> Noise:
    """Fit the autoregression of the order with the least information criterion (Akaike, 1974)."""
    lengths = np.array([len(rows) for rows in parts])
    count = int(lengths.sum())
    most = max(min(_LARGEST_ORDER, count // _SAMPLES_PER_COEFFICIENT, int(lengths.max()) - 1), 0)
    # As many zeros keep the sequences apart.
    series = np.concatenate([np.append(residual[rows], np.zeros(most)) for rows in parts])
    variance = max(float(series @ series) / count, _TINY)
    correlation = np.ones(most + 1)
    coefficients, left = np.zeros(0), 1.0
    best, least = (coefficients, left), 0.0
    for order in range(1, most + 1):
        pairs = np.maximum(lengths - order, 0).sum()
        correlation[order] = series[order:] @ series[:-order] / pairs / variance
        # Levinson and Durbin: one more coefficient, and the others corrected by it.
        reflection = (correlation[order] - coefficients @ correlation[order - 1 : 0 : -1]) / left
        reflection = float(np.clip(reflection, -_BELOW_ONE, _BELOW_ONE))
        coefficients = np.append(coefficients - reflection * coefficients[::-1], reflection)
        left *= 1.0 - reflection**2
        criterion = count * np.log(left) + 2 * order
        if criterion < least:
            best, least = (coefficients, left), criterion
    coefficients, left = best
    poles = np.append(1.0, -coefficients)
    slowest = np.clip(np.abs(np.roots(poles)).max(initial=0.0), 1e-3, 1 - 1e-6)
    length = min(int(np.log(TAKES_PART**2) / np.log(slowest)) + len(coefficients), _LONGEST_MEMORY)
    response = scipy.signal.lfilter([1.0], poles, np.eye(1, 2 * length)[0])
    faded = scipy.signal.correlate(response, response, method='fft')[2 * length - 1 :][: length + 1]
    return Noise(sensor, count, variance * left, coefficients, faded / faded[0])


def smoothed(series: Array, alike: float) -> Array:
    """Return (n, k) sums of (n, k) series over their neighbours, weighted by Bartlett's kernel.

    ``series.T @ smoothed(series, alike)`` is the covariance of the sums of the series (Newey and
    West, Econometrica 55, 1987).
    """
    reach = int(min(alike, len(series) - 1))
    if reach < 1:
        return series
    kernel = scipy.signal.windows.triang(2 * reach + 1)[:, None]
    return np.asarray(scipy.signal.fftconvolve(series, kernel, mode='same', axes=0))


def sawtooth(residual: Array, influence: Array, step: float) -> Array:
    """Return (f,) variances of the estimates from one encoder, over where its zero may be.

    Its error is a sawtooth of the position, with period Δ: over a zero that can be anywhere, errors
    at two positions have the covariance Σ_m Δ²/(2π²m²) cos(2πm (q - q')/Δ). So a joint that comes
    back has the same error again, however much later, which no correlation in time tells. Noise
    that reaches the encoder blurs the m-th harmonic by exp(-(2πmσ/Δ)²/2); what it takes away is
    white (Widrow, IRE Transactions on Circuit Theory 3, 1956). The (n,) residuals say where between
    two steps the joint was; all is in units of the noise.
    """
    total = float(np.mean(residual**2))
    blur = max(total - step**2 / 12.0, 0.0)
    white, variance = total, np.zeros(influence.shape[1])
    # Those beyond hold 6/π² over their number of the variance.
    for order in range(1, int(6 / np.pi**2 / TAKES_PART) + 1):
        weight = step**2 / (2.0 * np.pi**2 * order**2)
        weight *= np.exp(-((2.0 * np.pi * order / step) ** 2) * blur)
        phase = 2.0 * np.pi * order / step * residual
        variance += weight * ((np.cos(phase) @ influence) ** 2 + (np.sin(phase) @ influence) ** 2)
        white -= weight
    return np.asarray(variance + max(white, 0.0) * np.sum(influence**2, axis=0))


def longest_memory(noises: dict[int, Noise]) -> float:
    """Return how many neighbouring residuals say as much as one, of the sensor where it is most."""
    return max(1.0 + 2.0 * float(np.abs(n.correlation[1:]).sum()) for n in noises.values())


def within(
    linear: Linear,
    residual: Array,
    noises: dict[int, Noise],
    columns: NDArray[np.int64] | slice = slice(None),
) -> tuple[Array, Array]:
    """Return the covariance of the free columns by the noise within recordings, and its freedom.

    It is that of some ``columns`` of them where these are given.

    As an autoregression of each sensor's residuals, and from the sums of the influences of all
    residuals of one instant, which sees noise that changes with the motion or is common to sensors;
    the wider of both counts.
    """
    influence, parts = linear.influence[:, columns], []
    for c, own in linear.channels.items():
        part = sum(noises[c].summed(influence[rows]) for rows in own)
        if c in linear.steps:
            rows = np.concatenate(own)
            repeating = sawtooth(residual[rows], influence[rows], linear.steps[c])
            growth = np.sqrt(np.maximum(repeating / np.maximum(np.diag(part), _TINY), 1.0))
            part = part * np.outer(growth, growth)
        parts.append(part)
    # Not the residuals of priors themselves but what their squares are expected to be.
    unmeasured, variance = linear.samples.sensor < 0, linear.samples.variance
    expected = influence[unmeasured]
    if variance is not None:
        expected = expected * np.sqrt(variance[unmeasured, None])
    covariance = sum(parts) + expected.T @ expected
    shares = np.array([np.diag(part) for part in parts])
    own_freedom = np.array([noise.freedom for noise in noises.values()])
    # What priors add is known: it has no part in the doubt about variances (Satterthwaite, 1946).
    doubt = np.maximum(np.sum(shares**2 / own_freedom[:, None], axis=0), _TINY)
    freedom = np.maximum(np.diag(covariance) ** 2 / doubt, 1.0)
    # A bandwidth that the products themselves choose is of no use: those of slow noise and fast
    # motion have a memory that is not the noise's.
    alike = longest_memory(noises)
    changing = np.sum(expected**2, axis=0)
    for instants in linear.instants:
        sums = instants @ (influence * residual[:, None])
        changing += np.maximum(np.sum(sums * smoothed(sums, alike), axis=0), 0.0)
    growth = np.sqrt(np.maximum(changing / np.maximum(np.diag(covariance), _TINY), 1.0))
    return covariance * np.outer(growth, growth), freedom


def between(linear: Linear, residual: Array) -> tuple[Array, Array]:
    """Return the covariance of lasting free columns by how recordings disagree, and its freedom.

    The scores of a recording are those of its residuals, corrected for the part that the fit has
    taken out of them: J_gᵀ (I - H_gg)^-½ r_g (CR2; Bell and McCaffrey, Survey Methodology 28,
    2002), which is (I - M_g A)^-½ J_gᵀ r_g with M_g = J_gᵀ J_g and A the inverse of their sum. What
    belongs to one recording only, as its start, is taken out beforehand. Degrees of freedom are the
    effective number of recordings less one, Σ_g 1/w_g² - 1 for shares w_g of the information
    (Carter, Schnepel and Steigerwald, Review of Economics and Statistics 99, 2017).
    """
    samples, group = linear.samples, linear.recording
    lasting = linear.lasting[linear.free]
    columns = linear.free[lasting]
    own, passing = linear.unit[:, columns], linear.unit[:, linear.free[~lasting]]
    priors = (samples.sensor == PRIOR) & np.any(own != 0, axis=1)
    informations, scores = [], []
    for recording in np.unique(group):
        rows = (group == recording) & ~priors
        local = passing[rows][:, np.any(passing[rows] != 0, axis=0)]
        cross = own[rows].T @ local
        removed = cross @ np.linalg.pinv(local.T @ local, hermitian=True)
        informations.append(own[rows].T @ own[rows] - removed @ cross.T)
        scores.append(own[rows].T @ residual[rows] - removed @ (local.T @ residual[rows]))
    known = own[priors]
    inverse = np.linalg.pinv(sum(informations) + known.T @ known, hermitian=True)
    if samples.variance is not None:
        known = known * np.sqrt(samples.variance[priors, None])
    meat = known.T @ known
    for information, score in zip(informations, scores, strict=True):
        values, vectors = np.linalg.eig(information @ inverse)
        roots = vectors / np.sqrt(1.0 - np.clip(values.real, 0.0, _BELOW_ONE))
        corrected = (roots @ np.linalg.pinv(vectors)).real @ score
        meat = meat + np.outer(corrected, corrected)
    shares = np.array([np.diag(inverse @ each @ inverse) for each in informations])
    shares /= np.maximum(shares.sum(axis=0), _TINY)
    effective = 1.0 / np.maximum(np.sum(shares**2, axis=0), _TINY)
    return inverse @ meat @ inverse, np.maximum(effective - 1.0, 1.0)


@dataclass(frozen=True)
class Disagreement:
    """A few recordings differ by more than the noise inside of them explains."""

    recordings: int  # how many
    times: float  # how many times as far apart as noise has them, in the root mean square
    most: str  # name of the parameter about which they disagree most
    growth: Array  # (p,) what half-widths are to be multiplied by

    def __str__(self) -> str:
        """Return the sentence for a reader of the intervals."""
        return (
            f'The {self.recordings} recordings disagree, most of all about {self.most}, by more '
            f'than the noise inside of them explains: {self.times:.2g} times as much over all '
            f'parameters. Intervals allow for that; record {ENOUGH} or more, or find what differs.'
        )


@dataclass(frozen=True)
class Covariance:
    """Covariance of the estimates."""

    #: (p, p) in the parameters' units; rows of parameters without interval are NaN. Directions that
    #: the data do not see are left out of it.
    matrix: Array
    freedom: Array  # (p,) degrees of freedom of each variance
    method: str  # how it was found, in words
    noises: dict[int, Noise]  # by index of the sensor
    #: (p,) half-widths that noise alone would have: within recordings where many of them disagree,
    #: white where residuals stay alike; infinite elsewhere.
    narrow: Array
    apart: NDArray[np.bool_]  # (p,) whether many recordings disagree about a parameter
    disagreement: Disagreement | None = None  # of few recordings; it is not in the matrix

    @property
    def half(self) -> Array:
        """(p,) half-widths of the 95 % intervals; NaN where there is none."""
        return np.asarray(np.sqrt(np.diag(self.matrix)) * student(self.freedom))

    @property
    def effective(self) -> float:
        """Number of independent samples that say as much as the residuals do."""
        return float(sum(noise.effective for noise in self.noises.values())) or np.nan


def student(freedom: ArrayLike) -> Array:
    """Return half-widths of 95 % intervals in standard errors."""
    return np.asarray(scipy.special.stdtrit(freedom, (1 + LEVEL) / 2))


def covariance(linear: Linear, residual: Array | None = None) -> Covariance:
    """Return the covariance of the estimates.

    From ``ENOUGH`` recordings on, their disagreement says it, whatever the model lacks. With fewer,
    and for parameters of which few recordings say most, the noise inside of them has to, unless
    recordings disagree by more than it explains about any. Noise is the (n,) residuals given, or
    the problem's.
    """
    residual = linear.residual if residual is None else residual
    count, free, recordings = len(linear.x), linear.free, linear.recordings
    matrix, freedom = np.full((count, count), np.nan), np.full(count, np.inf)
    narrow, apart = np.full(count, np.inf), np.zeros(count, dtype=bool)
    if not len(free):
        return Covariance(matrix, freedom, 'nothing to find', {}, narrow, apart)
    noises = channel_noises(linear, residual)
    inside, freedom[free] = within(linear, residual, noises)
    matrix[np.ix_(free, free)] = inside / np.outer(linear.scale[free], linear.scale[free])
    if any(noise.slow for noise in noises.values()):
        narrow[free] = QUANTILE * np.sqrt(linear.white_variance[free])
    one = 'one recording' if recordings == 1 else f'{recordings} recordings'
    method, disagreement = f'from the noise inside of {one}, with its correlation in time', None
    columns = free[linear.lasting[free]]
    if recordings > 1 and len(columns):
        outside, telling_freedom = between(linear, residual)
        outside /= np.outer(linear.scale[columns], linear.scale[columns])
        ratio = np.diag(outside) / np.maximum(np.diag(matrix)[columns], _TINY)
        chance = scipy.special.chdtrc(telling_freedom, telling_freedom * ratio)
        if recordings < ENOUGH:
            disagreement = _disagreement(linear, matrix, columns, outside, telling_freedom, chance)
        else:
            method = f'from the disagreement of {recordings} recordings'
            telling = telling_freedom + 1 > MOSTLY * ENOUGH
            telling |= (chance * len(columns)).min() < CHANCE
            own, unlike = columns[telling], columns[telling & (chance < CHANCE)]
            apart[unlike] = True
            narrow[unlike] = (np.sqrt(np.diag(matrix)) * student(freedom))[unlike]
            growth = np.ones(count)
            growth[own] = np.sqrt(ratio[telling])
            matrix *= np.outer(growth, growth)
            matrix[np.ix_(own, own)] = outside[np.ix_(telling, telling)]
            freedom[own] = telling_freedom[telling]
            if not telling.all():
                names = listed(linear.unknowns[j].name for j in columns[~telling])
                method += f', but from the noise inside of the few that say most of {names}'
    return Covariance(matrix, freedom, method, noises, narrow, apart, disagreement)


def _disagreement(
    linear: Linear,
    matrix: Array,
    columns: NDArray[np.int64],
    outside: Array,
    freedom: Array,
    chance: Array,
) -> Disagreement | None:
    """Return how a few recordings disagree, if by more than the noise inside of them explains.

    If they do over all parameters together, all half-widths grow by the ratio: what makes them
    disagree about some is likely to do so about others (the scale factor of R. T. Birge, Physical
    Review 40, 1932). Those about which they disagree by themselves grow by their own ratio, with
    Student's quantile: two or three recordings say little of how far they may be apart.
    """
    sizes = np.sqrt(np.maximum(np.diag(matrix)[columns], _TINY))
    scales = np.outer(sizes, sizes)
    whitened = np.linalg.pinv(matrix[np.ix_(columns, columns)] / scales, hermitian=True)
    ratio, every = float(np.sum(whitened * outside / scales)) / len(columns), freedom.sum()
    growth = np.ones(len(linear.x))
    together = scipy.special.chdtrc(every, every * ratio) < CHANCE
    if together:
        growth *= np.sqrt(ratio) * student(every) / QUANTILE
    alone = chance * len(columns) < CHANCE
    if not together and not alone.any():
        return None
    own = np.sqrt(np.diag(outside)) / sizes * student(freedom) / QUANTILE
    growth[columns[alone]] = np.maximum(growth[columns[alone]], own[alone])
    most = linear.unknowns[columns[int(np.argmin(chance))]].name
    return Disagreement(linear.recordings, float(np.sqrt(ratio)), most, growth)


class AtBounds(NamedTuple):
    """What the data say of the k values at bounds that have an effect."""

    columns: NDArray[np.int64]  # (k,) of the Jacobian
    inwards: Array  # (k,) 1 at a lower bound, -1 at an upper one
    beyond: Array  # (k,) where the data would have each, others staying; NaN where they do not tell
    pushed: NDArray[np.bool_]  # (k,) which ones the data, and not noise, push outwards
    told: NDArray[np.bool_]  # (k,) of which ones the data tell how far inside they may be


def at_bounds(linear: Linear) -> AtBounds:
    """Return what the data say of values at their bounds.

    Noise puts a value there as often as as far to the other side. Held there, the others would look
    as certain as if it were known; so what the data do not push outwards is to be let free.
    """
    columns = np.flatnonzero(linear.at_bound & (np.diag(linear.gram) > 0))
    low, high = (ends[columns] for ends in bounds_of(linear.unknowns))
    x, count = linear.x[columns], len(columns)
    inwards = np.where(x - low <= high - x, 1.0, -1.0)
    beyond, pushed = np.full(count, np.nan), np.zeros(count, dtype=bool)
    freed = linear.freed(columns)
    told = np.all(np.abs(freed.null[np.isin(freed.free, columns)]) < TAKES_PART, axis=1)
    if told.any():
        freed = linear.freed(columns[told])
        own = columns[told]
        # What the data push beyond the bounds is no noise.
        matrix = covariance(freed, freed.left).matrix[np.ix_(own, own)]
        size = np.sqrt(np.diag(matrix))
        precision = np.linalg.inv(matrix / np.outer(size, size)) / np.outer(size, size)
        # With the others at their bounds, each would be so far off its own.
        off = -(precision @ freed.step[np.isin(freed.free, own)]) / np.diag(precision)
        beyond[told] = x[told] + off
        pushed[told] = -inwards[told] * off * np.sqrt(np.diag(precision)) >= QUANTILE
    return AtBounds(columns, inwards, beyond, pushed, told)


@dataclass(frozen=True)
class JointEstimate:
    """Values of parameters, and how sure those are."""

    x: Array  # (p,) values
    covariance: Array  # (p, p) of the values; NaN rows for what is not determined
    freedom: float  # degrees of freedom of the covariance

    def of(self, places: ArrayLike) -> JointEstimate:
        """Return the estimate of some of the parameters, whatever the others are."""
        chosen = np.asarray(places, dtype=np.int64)
        return JointEstimate(self.x[chosen], self.covariance[np.ix_(chosen, chosen)], self.freedom)


@dataclass(frozen=True)
class Known:
    """Earlier estimates of k parameters: their names, values, and how sure those are."""

    names: tuple[str, ...]
    estimate: JointEstimate

    def prior(self, kept: Iterable[int] | None = None) -> JointPrior:
        """Return the distribution of all parameters or, whatever the others are, of some."""
        places = list(range(len(self.names)) if kept is None else kept)
        some = self.estimate.of(places)
        return JointPrior.of([self.names[place] for place in places], some.x, some.covariance)


@dataclass(frozen=True)
class Difference:
    """How two estimates differ."""

    compared: NDArray[np.bool_]  # (p,) whether both estimates determine a parameter
    statistic: float  # squared Mahalanobis distance over those
    p_value: float  # of the hypothesis that nothing changed; NaN where nothing is compared
    changed: NDArray[np.bool_]  # (p,) the parameters whose change explains the difference
    #: (p,) change in its standard errors of each parameter, given that of the others only those
    #: that are named may have changed; NaN where it is not compared.
    deviations: Array


def difference(before: JointEstimate, after: JointEstimate, level: float) -> Difference:
    """Test each parameter for a change, while the others that may have changed are free.

    The change of one parameter, given that the others did not change, over its standard error has
    Student's distribution, with the fewer degrees of freedom of both covariances. The p-value is
    that of the largest, with Bonferroni's correction for their number. While it is below the level,
    that parameter is named as changed and no longer compared, so that one that did not change is
    named by chance with no more than this probability. The estimates are independent.
    """
    total = before.covariance + after.covariance
    compared = np.isfinite(np.diag(total)) & (np.diag(total) > 0)
    changed = np.zeros(len(before.x), dtype=bool)
    deviations = np.full(len(before.x), np.nan)
    places = np.flatnonzero(compared)
    if not len(places):
        return Difference(compared, np.nan, np.nan, changed, deviations)
    delta = after.x - before.x
    freedom = min(before.freedom, after.freedom)

    def given(places: NDArray[np.int64]) -> Array:
        """Return each change in standard errors, given that nothing else here changed."""
        inverse = np.linalg.inv(total[np.ix_(places, places)])
        return np.asarray(inverse @ delta[places] / np.sqrt(np.diag(inverse)))

    left, chances = places, []
    while len(left):
        pulls = np.abs(given(left))
        single = 2 * float(scipy.special.stdtr(freedom, -pulls.max()))
        chances.append(min(len(pulls) * single, 1.0))
        if chances[-1] >= level:
            break
        changed[left[np.argmax(pulls)]] = True
        left = np.delete(left, np.argmax(pulls))
    for place in places:
        others = np.flatnonzero(compared & ~changed)
        own = np.union1d(others, [place])
        deviations[place] = given(own)[np.searchsorted(own, place)]
    inverse = np.linalg.inv(total[np.ix_(places, places)])
    statistic = float(delta[places] @ inverse @ delta[places])
    return Difference(compared, statistic, chances[0], changed, deviations)


def paired(errors: Array, best: int) -> tuple[Array, Array]:
    """Return the mean of the differences to the best on each part, and its standard error."""
    models, count = errors.shape
    differences = errors - errors[best]
    if count < FEWEST_PARTS:
        mean = differences.mean(axis=1) if count else np.full(models, np.nan)
        return mean, np.full(models, np.nan)
    return differences.mean(axis=1), differences.std(axis=1, ddof=1) / math.sqrt(count)
