# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Spread of the estimates where each sensor's noise is alike all the time, if not white."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used: signal alone takes most of a second
from numpy.typing import NDArray

from sysid_ros.estimation.residuals import Samples

if TYPE_CHECKING:
    from sysid_ros.inference.linear import Linear

#: Largest order of the autoregression that describes a sensor's noise. It has so many samples for
#: each of its coefficients at least.
_LARGEST_ORDER, _SAMPLES_PER_COEFFICIENT = 8, 25
#: Reflection coefficients are kept below this: noise of a longer memory is a trend.
_LARGEST_REFLECTION = 0.998
#: The response of the autoregression is followed until it is below this.
_FADED = 1e-4
_LONGEST_RESPONSE = 20_000
#: Where all unknowns take more than this share of the independent samples, what the fit took out
#: of the residuals is put back; it converges in so many rounds.
_TAKEN = 0.01
_ROUNDS = 6


@dataclass(frozen=True)
class ChannelNoise:
    """Noise of one sensor, as an autoregression.

    Attributes:
        coefficients: (q,) the noise is their sum over the q samples before, plus something new.
        innovation: Variance of what is new, dimensionless.
        covariance: (k,) autocovariance, from lag 0 until it has faded.
        samples: Number of residuals.
    """

    coefficients: NDArray[np.float64]
    innovation: float
    covariance: NDArray[np.float64]
    samples: int

    @property
    def correlation(self) -> NDArray[np.float64]:
        """(k,) autocorrelation."""
        scaled: NDArray[np.float64] = self.covariance / max(self.covariance[0], 1e-300)
        return scaled

    @property
    def neighbours(self) -> float:
        """Correlation of neighbouring samples."""
        return float(self.correlation[1]) if len(self.covariance) > 1 else 0.0

    @property
    def effective(self) -> float:
        """Number of independent samples whose mean is as exact."""
        return float(self.samples / max(1.0 + 2.0 * self.correlation[1:].sum(), 1.0))

    @property
    def freedom(self) -> float:
        """Number of independent samples whose variance is as exact (Bartlett, 1946)."""
        return float(self.samples / (1.0 + 2.0 * np.sum(self.correlation[1:] ** 2)))

    def carried(self, influence: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (n + k, f) what something new at each sample does in all later ones, last first.

        With the response g of the autoregression the noise is e_t = Σ_k g_k ε_{t-k}; so Σ_t ψ_t e_t
        = Σ_s ε_s Σ_k g_k ψ_{s+k}: the influence is filtered backwards, beyond its first sample.
        """
        tail = np.zeros((len(self.covariance), influence.shape[1]))
        backwards = np.concatenate([influence[::-1], tail])
        if not len(self.coefficients):
            return backwards
        poles = np.concatenate(([1.0], -self.coefficients))
        found: NDArray[np.float64] = scipy.signal.lfilter([1.0], poles, backwards, axis=0)
        return found


class Series(NamedTuple):
    """Residuals in the order of time.

    Attributes:
        channels: Index of each sensor to its rows, one array for each sequence.
        instants: For each sequence, an (m, n) sparse matrix that adds up the rows of its instants.
    """

    channels: dict[int, list[NDArray[np.int64]]]
    instants: list[scipy.sparse.csr_array]


def series_of(samples: Samples) -> Series:
    """Return the residuals of measurements in the order of time."""
    order = np.lexsort((samples.time, samples.sequence, samples.sensor))
    keys = np.stack([samples.sensor[order], samples.sequence[order]])
    cuts = np.flatnonzero(np.any(np.diff(keys, axis=1) != 0, axis=0)) + 1
    channels: dict[int, list[NDArray[np.int64]]] = {}
    for rows in np.split(order, cuts):
        if len(rows) and samples.sensor[rows[0]] >= 0:
            channels.setdefault(int(samples.sensor[rows[0]]), []).append(rows)
    measured = samples.sensor >= 0
    instants = []
    for sequence in np.unique(samples.sequence[measured]):
        rows = np.flatnonzero((samples.sequence == sequence) & measured)
        place = np.unique(samples.time[rows], return_inverse=True)[1]
        shape = int(place.max()) + 1, len(samples.time)
        instants.append(scipy.sparse.csr_array((np.ones(len(rows)), (place, rows)), shape))
    return Series(channels, instants)


def channel_noises(
    linear: Linear, channels: dict[int, list[NDArray[np.int64]]], residual: NDArray[np.float64]
) -> dict[int, ChannelNoise]:
    """Describe the noise of each sensor by an autoregression of its (n,) residuals.

    A fit takes out of the residuals what its unknowns can follow, of slow noise more than of white.
    With H = J A Jᵀ the residuals of noise with covariance Γ have (I - H) Γ (I - H)ᵀ; their
    autocovariances are raised by what that lacks, until both agree.
    """
    sums = {c: _products(residual, parts) for c, parts in channels.items()}
    noises = {c: _noise(sums[c], channels[c]) for c in channels}
    effective = sum(noise.effective for noise in noises.values())
    if len(linear.free) < _TAKEN * effective:
        return noises
    jacobian, influence = linear.scaled, linear.influence
    for _ in range(_ROUNDS):
        spread = sum(by_channel(channels, noises, influence).values(), np.zeros(()))
        missing = {
            c: _missing(noises[c], parts, jacobian, influence, spread, len(sums[c]))
            for c, parts in channels.items()
        }
        noises = {c: _noise(sums[c] + missing[c], channels[c]) for c in channels}
    return noises


def longest_memory(noises: Iterable[ChannelNoise]) -> float:
    """Return how many neighbouring residuals say as much as one, of the sensor where it is most."""
    return max(1.0 + 2.0 * float(np.abs(noise.correlation[1:]).sum()) for noise in noises)


def by_channel(
    channels: dict[int, list[NDArray[np.int64]]],
    noises: dict[int, ChannelNoise],
    influence: NDArray[np.float64],
) -> dict[int, NDArray[np.float64]]:
    """Return index of each sensor to the (f, f) covariance of the sum of its noise, weighted."""
    found = {}
    for c, parts in channels.items():
        found[c] = np.zeros((influence.shape[1],) * 2)
        for rows in parts:
            carried = noises[c].carried(influence[rows])
            found[c] += noises[c].innovation * (carried.T @ carried)
    return found


def _products(residual: NDArray[np.float64], parts: list[NDArray[np.int64]]) -> NDArray[np.float64]:
    """Return the sums of products of residuals so many samples apart, for orders worth a try."""
    lengths = [len(rows) for rows in parts]
    order = max(min(_LARGEST_ORDER, sum(lengths) // _SAMPLES_PER_COEFFICIENT, max(lengths) - 1), 0)
    return np.array(
        [
            sum(
                float(residual[rows[lag:]] @ residual[rows[: len(rows) - lag]])
                for rows in parts
                if len(rows) > lag
            )
            for lag in range(order + 1)
        ]
    )


def _noise(sums: NDArray[np.float64], parts: list[NDArray[np.int64]]) -> ChannelNoise:
    """Fit the autoregression of the order with the least information criterion (Akaike, 1974)."""
    count = sum(map(len, parts))
    pairs = np.array([sum(max(len(rows) - lag, 0) for rows in parts) for lag in range(len(sums))])
    covariance = sums / np.maximum(pairs, 1)
    variance = max(float(covariance[0]), 1e-300)
    best, least = (np.zeros(0), variance), count * np.log(variance)
    coefficients, left = np.zeros(0), variance
    for order in range(1, len(sums)):
        # Levinson and Durbin: one more coefficient, and the others corrected by it.
        reflection = (covariance[order] - coefficients @ covariance[order - 1 : 0 : -1]) / left
        reflection = float(np.clip(reflection, -_LARGEST_REFLECTION, _LARGEST_REFLECTION))
        coefficients = np.append(coefficients - reflection * coefficients[::-1], reflection)
        left *= 1.0 - reflection**2
        criterion = count * np.log(left) + 2 * order
        if criterion < least:
            best, least = (coefficients, left), criterion
    return ChannelNoise(best[0], best[1], _autocovariance(*best), count)


def _autocovariance(coefficients: NDArray[np.float64], innovation: float) -> NDArray[np.float64]:
    """Return the autocovariance of an autoregression until it has faded."""
    if not len(coefficients):
        return np.array([innovation])
    largest = float(np.abs(np.roots(np.concatenate(([1.0], -coefficients)))).max())
    length = int(np.log(_FADED) / np.log(min(max(largest, 1e-3), 1 - 1e-6))) + len(coefficients)
    length = min(length, _LONGEST_RESPONSE)
    impulse = np.zeros(2 * length)
    impulse[0] = 1.0
    response = scipy.signal.lfilter([1.0], np.concatenate(([1.0], -coefficients)), impulse)
    full = scipy.signal.fftconvolve(response, response[::-1])[len(response) - 1 :]
    kept: NDArray[np.float64] = innovation * full[: length + 1]
    return kept


def _missing(
    noise: ChannelNoise,
    parts: list[NDArray[np.int64]],
    jacobian: NDArray[np.float64],
    influence: NDArray[np.float64],
    spread: NDArray[np.float64],
    lags: int,
) -> NDArray[np.float64]:
    """Return by how much the sums of products of residuals fall short of those of the noise.

    (H Γ + Γ Hᵀ - H Γ Hᵀ), summed along the diagonals of one channel: with ψ = J A the first is
    J (Γ ψ)ᵀ and the last J V Jᵀ, V being the covariance of the estimates.
    """
    found = np.zeros(lags)
    for rows in parts:
        own, count = jacobian[rows], len(rows)
        kernel = noise.covariance[:count]
        symmetric = np.concatenate([kernel[:0:-1], kernel])
        carried = scipy.signal.fftconvolve(influence[rows], symmetric[:, None], axes=0)
        carried = carried[len(kernel) - 1 : len(kernel) - 1 + count]
        spreads = own @ spread
        for lag in range(min(lags, count)):
            first, then = slice(0, count - lag), slice(lag, count)
            found[lag] += np.sum(own[first] * carried[then]) + np.sum(own[then] * carried[first])
            found[lag] -= np.sum(spreads[first] * own[then])
    return found
