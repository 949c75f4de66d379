# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Covariance of the estimates: from the noise within recordings, or from how recordings disagree.

Both are sandwiches around the problem as it is at the optimum, linear in the parameters.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used: signal alone takes most of a second
from numpy.typing import ArrayLike, NDArray

from sysid_ros.config.calibration import Loss
from sysid_ros.errors import listed
from sysid_ros.estimation.residuals import PRIOR, Samples
from sysid_ros.estimation.solver import Solution, curvature, rho
from sysid_ros.model.unknown import Unknown

Array = NDArray[np.float64]

#: Level of all intervals, and their half-width in standard errors.
LEVEL = 0.95
QUANTILE = float(scipy.special.ndtri((1 + LEVEL) / 2))
#: From so many recordings on, their disagreement is known well enough.
ENOUGH = 8
#: Of those, so many have to say something of a parameter: with fewer Student's quantile is beyond
#: 2.6, and the noise within them says more.
_ENOUGH_TELLING = 6.0
#: Recordings disagree, and residuals follow a term, if noise would make them do so with less than
#: this probability.
CHANCE = 0.01
#: Relative error that a column of differences may have (see ``solver.differences``).
COLUMN_ERROR = 3e-5
#: A parameter takes part in a direction that no residual sees when its share is more than this:
#: what is smaller may come from the error of the columns.
TAKES_PART = 0.01
#: A value within this fraction of the bounds' distance from one of them is at the bound.
_AT_BOUND = 1e-6
#: Largest order of the autoregression of a sensor's noise, and samples for each coefficient.
_LARGEST_ORDER, _SAMPLES_PER_COEFFICIENT = 8, 25
#: Reflection coefficients stay below this, as noise of a longer memory is a trend; so do shares of
#: a recording in the information, so that it can be left out.
_BELOW_ONE = 0.998
#: The memory of noise is followed until this part of it is left, and over so many samples at most.
_FADED, _LONGEST_MEMORY = 1e-4, 20_000
#: Harmonics of an encoder's sawtooth; those beyond hold a hundredth of its variance.
_HARMONICS = 64
#: Noise whose effective samples are below this share of all is correlated.
_SLOW = 0.5
#: Variances are compared down to this.
_TINY = 1e-300


def threshold(columns: int) -> float:
    """Return the singular value below which columns of length 1 cannot be told from dependent ones.

    Their errors change no singular value by more than their norm (Weyl).
    """
    return COLUMN_ERROR * float(np.sqrt(columns))


def triangle(jacobian: Array) -> Array:
    """Return the factor R of a QR decomposition, which has the same dependences and lengths."""
    return np.asarray(np.linalg.qr(jacobian, mode='r'), dtype=np.float64)


def split(unseen: Array, priors: Array) -> tuple[Array, Array]:
    """Split (k, p) unit vectors that measurements do not see into those that (r, p) priors know.

    What measurements see of a direction may be errors of the columns. Priors have none: the more
    was measured, the shorter a prior is beside the columns, and it is as good as before.

    Returns:
        Unit vectors that span the same space: those known by priors, and the others.
    """
    _, found, turned = np.linalg.svd(priors @ unseen.T)
    known = np.zeros(len(unseen), dtype=bool)
    known[: len(found)] = found > np.sqrt(np.finfo(np.float64).eps)
    directions = turned @ unseen
    return directions[known], directions[~known]


@dataclass(frozen=True)
class Linear:
    """The linearised problem at the optimum."""

    unknowns: tuple[Unknown, ...]  # p of them
    x: Array  # (p,) their values
    #: (n,) pull of each residual on the fit: the residual itself in units of the noise, with a
    #: robust loss half its derivative, over the root of the loss's mean curvature.
    residual: Array
    #: (n, c) derivative of the residuals times that root, its columns scaled to length 1 and one
    #: after the other in memory: those of the parameters, then what was put `beside` them.
    unit: Array
    gram: Array  # (c, c) products of its columns
    samples: Samples  # what each residual is
    #: Index of each sensor to its rows in the order of time, an array for each sequence.
    channels: dict[int, list[NDArray[np.int64]]]
    #: For each sequence, an (m, n) sparse matrix that adds up the rows of its instants.
    instants: list[scipy.sparse.csr_array]
    at_bound: NDArray[np.bool_]  # (p,) whether a value is at one of its bounds
    root: Array  # (n,) root of the mean curvature of the loss
    scale: Array  # (c,) length of the Jacobian's columns; 1 for those that are zero
    free: NDArray[np.int64]  # (f,) columns that are not held and have an effect
    inverse: Array  # (f, f) pseudo-inverse of the information of the scaled free columns
    null: Array  # (f, k) unit vectors, in the scaled free parameters, that change no residual
    steps: Mapping[int, float]  # index of the sensor to its encoder's step, in units of its noise

    @functools.cached_property
    def scaled(self) -> Array:
        """(n, f) Jacobian of the free columns, scaled to length 1."""
        if len(self.free) == self.unit.shape[1]:
            return self.unit
        return np.asarray(self.unit.T[self.free].T)

    @functools.cached_property
    def influence(self) -> Array:
        """(n, f) change of the scaled free parameters by each residual."""
        return np.asarray(self.scaled @ self.inverse)

    @property
    def white_variance(self) -> Array:
        """(p,) variances for white residuals of variance 1; NaN for what is not free."""
        found = np.full(len(self.x), np.nan)
        found[self.free] = np.diag(self.inverse) / self.scale[self.free] ** 2
        return found

    @functools.cached_property
    def step(self) -> Array:
        """(f,) how far the free parameters are above their optimum, to first order."""
        found = self.inverse @ (self.scaled.T @ self.residual)
        return np.asarray(found / self.scale[self.free])

    @functools.cached_property
    def left(self) -> Array:
        """(n,) residuals that are left after that step."""
        return np.asarray(self.residual - self.scaled @ (self.step * self.scale[self.free]))

    @property
    def lasting(self) -> NDArray[np.bool_]:
        """(p,) which parameters describe the robot and not single runs."""
        return np.array([not unknown.of_single_runs for unknown in self.unknowns], dtype=bool)

    @property
    def recording(self) -> NDArray[np.int64]:
        """(n,) index of the recording that each residual is from."""
        if not self.samples.bags:
            return self.samples.sequence
        return np.unique(self.samples.bags, return_inverse=True)[1][self.samples.sequence]

    @property
    def recordings(self) -> int:
        """How many recordings the measurements are from."""
        return len(np.unique(self.recording[self.samples.sensor >= 0]))

    @property
    def robot_priors(self) -> NDArray[np.bool_]:
        """(n,) which residuals are priors on the robot; those on single runs are measurements.

        That a clock's offset is near zero is known from its jitter, which was measured.
        """
        lasting = np.flatnonzero(self.lasting)
        return np.asarray((self.samples.sensor == PRIOR) & self.unit[:, lasting].any(axis=1))

    def freed(self, columns: NDArray[np.int64]) -> Linear:
        """Return the problem with some columns that are held as free as the others."""
        if not len(columns):
            return self
        free = np.union1d(self.free, columns)
        _, singular, right = np.linalg.svd(self.gram[np.ix_(free, free)], hermitian=True)
        seen = singular > threshold(len(singular)) ** 2
        inverse = (right[seen].T / singular[seen]) @ right[seen]
        unseen = right[~seen]
        priors = self.unit[np.ix_(self.samples.sensor == PRIOR, free)]
        if len(unseen) and len(priors):
            known, unseen = split(unseen, priors)
            root = np.linalg.pinv(triangle(self.unit[:, free] @ known.T)).T @ known
            inverse = inverse + root.T @ root
        return dataclasses.replace(self, free=free, inverse=inverse, null=unseen.T)

    def beside(self, changes: Sequence[Array]) -> Linear:
        """Return the problem with (n,) changes of the residuals as further columns, all held."""
        count = len(self.scale)
        unit = np.empty((len(self.residual), count + len(changes)), order='F')
        unit[:, :count] = self.unit
        scale = np.append(self.scale, np.ones(len(changes)))
        for column, change in enumerate(changes, count):
            unit[:, column] = self.root * change
            scale[column] = np.linalg.norm(unit[:, column]) or 1.0
            unit[:, column] /= scale[column]
        return dataclasses.replace(self, unit=unit, gram=unit.T @ unit, scale=scale)


def linearised(
    solution: Solution,
    jacobian: Array,
    unknowns: Sequence[Unknown],
    samples: Samples,
    loss: Loss = 'linear',
) -> Linear:
    """Weight and scale the derivative of the residuals at the optimum.

    With a robust loss the curvature of the cost is Σ ψ' J Jᵀ with ψ' the derivative of the pull ψ.
    Its mean over each sensor stands for ψ' (Huber, Annals of Statistics 1, 1973, section 6): that
    of single residuals is noise.
    """
    each = curvature(solution.residual, loss)
    place = samples.sensor - samples.sensor.min(initial=0)
    root = np.sqrt((np.bincount(place, each) / np.maximum(np.bincount(place), 1))[place])
    unit = np.multiply(jacobian, root[:, None], order='F')
    low, high = bounds_of(unknowns)
    at_bound = np.minimum(solution.x - low, high - solution.x) < _AT_BOUND * (high - low)
    norms = np.linalg.norm(unit, axis=0)
    scale = np.where(norms > 0, norms, 1.0)
    unit /= scale
    steps: dict[int, float] = {}
    if loss == 'linear':
        known = samples.encoder_steps
        steps = {c: known[name] for c, name in enumerate(samples.sensors) if name in known}
    channels: dict[int, list[NDArray[np.int64]]] = {}
    instants = []
    for sequence in np.unique(samples.sequence[samples.sensor >= 0]):
        rows = np.flatnonzero((samples.sequence == sequence) & (samples.sensor >= 0))
        rows = rows[np.argsort(samples.time[rows], kind='stable')]
        for sensor in np.unique(samples.sensor[rows]).tolist():
            channels.setdefault(sensor, []).append(rows[samples.sensor[rows] == sensor])
        instant = np.unique(samples.time[rows], return_inverse=True)[1]
        shape = int(instant.max()) + 1, len(samples.time)
        instants.append(scipy.sparse.csr_array((np.ones(len(rows)), (instant, rows)), shape))
    held = Linear(
        unknowns=tuple(unknowns),
        x=solution.x,
        residual=solution.residual * rho(solution.residual, loss)[1] / root,
        unit=unit,
        gram=unit.T @ unit,
        samples=samples,
        channels=channels,
        instants=instants,
        at_bound=at_bound,
        root=root,
        scale=scale,
        free=np.zeros(0, dtype=np.int64),
        inverse=np.zeros((0, 0)),
        null=np.zeros((0, 0)),
        steps=steps,
    )
    return held.freed(np.flatnonzero(~at_bound & (norms > 0)))


def bounds_of(unknowns: Sequence[Unknown]) -> tuple[Array, Array]:
    """Return the (p,) lower and upper bounds."""
    low, high = np.array([(u.min_value, u.max_value) for u in unknowns]).reshape(-1, 2).T
    return low, high


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
        return self.effective < _SLOW * self.samples

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
    length = min(int(np.log(_FADED) / np.log(slowest)) + len(coefficients), _LONGEST_MEMORY)
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
    for order in range(1, _HARMONICS + 1):
        weight = step**2 / (2.0 * np.pi**2 * order**2)
        weight *= np.exp(-((2.0 * np.pi * order / step) ** 2) * blur)
        phase = 2.0 * np.pi * order / step * residual
        variance += weight * ((np.cos(phase) @ influence) ** 2 + (np.sin(phase) @ influence) ** 2)
        white -= weight
    return np.asarray(variance + max(white, 0.0) * np.sum(influence**2, axis=0))


def longest_memory(noises: dict[int, Noise]) -> float:
    """Return how many neighbouring residuals say as much as one, of the sensor where it is most."""
    return max(1.0 + 2.0 * float(np.abs(n.correlation[1:]).sum()) for n in noises.values())


def within(linear: Linear, residual: Array, noises: dict[int, Noise]) -> tuple[Array, Array]:
    """Return the covariance of the free columns by the noise within recordings, and its freedom.

    As an autoregression of each sensor's residuals, and from the sums of the influences of all
    residuals of one instant, which sees noise that changes with the motion or is common to sensors;
    the wider of both counts.
    """
    influence, parts = linear.influence, []
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
            telling = telling_freedom + 1 >= _ENOUGH_TELLING
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

    Noise puts a value at its bound as often as it puts it as far to the other side. Held there, the
    others would look as certain as if it were known; so what the data do not push beyond its bound
    is to be let free.
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
