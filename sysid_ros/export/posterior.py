# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the data leave open: ranges of parameters, and models drawn from them.

Estimates are normal with the covariance of the result. A draw is one of that normal which physics
and the bounds of the calibration allow; others are refused and drawn anew. A positive parameter
whose interval comes near zero and that a normal would make negative is drawn from a lognormal with
the same mean, variance and covariances.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ResultError
from sysid_ros.export.stored import Stored
from sysid_ros.model.targets import Target, of_sequence
from sysid_ros.results.result import ParameterResult

Array = NDArray[np.float64]

#: A positive parameter is drawn as its logarithm if zero is nearer than so many standard errors, …
_NEAR_ZERO = 3.0
#: … and farther than this: nearer, it may well be zero, and a lognormal is no model of that.
_TOO_NEAR_ZERO = 1.0
#: Of a covariance, eigenvalues below zero by more than this part of the largest are no rounding.
_ROUNDING = 1e-6
#: So many are drawn at once.
_BLOCK = 1024


@dataclass(frozen=True)
class Posterior:
    """Parameters of a model and what the data leave open.

    Attributes:
        parameters: All that are no starts of recordings, p of them.
        columns: (k,) places of those with an interval.
        covariance: (k, k) in their units.
        log: (k,) whether one is drawn as its logarithm.
        bounds: (p, 2) what physics and the calibration allow.
        without: Names of starts of recordings, which are in no model.
    """

    parameters: tuple[ParameterResult, ...]
    columns: NDArray[np.int64]
    covariance: Array
    log: NDArray[np.bool_]
    bounds: Array
    without: tuple[str, ...] = ()

    @classmethod
    def of(cls, stored: Stored) -> Posterior:
        """Return what a result says.

        Raises:
            ResultError: It says nothing of how sure it is.
        """
        record = stored.record
        if record.inference is None:
            raise ResultError(
                f'Expected a result with a covariance, found none in {str(stored.path)!r}.'
            )
        whole = np.array(record.inference.covariance, dtype=np.float64)
        whole = whole.reshape(len(record.parameters), len(record.parameters))
        own = [i for i, p in enumerate(record.parameters) if not any(map(of_sequence, p.targets))]
        parameters = tuple(record.parameters[i] for i in own)
        variance = np.diag(whole)[own]
        known = [
            np.isfinite([p.low, p.high, variance[i]]).all() and variance[i] > 0
            for i, p in enumerate(parameters)
        ]
        columns = np.flatnonzero(known)
        if not len(columns):
            raise ResultError(f'No parameter of {str(stored.path)!r} has an interval to draw from.')
        rows = np.array(own)[columns]
        bounds = np.array([_bounds(parameter, stored) for parameter in parameters])
        mean = np.array([parameters[i].value for i in columns])
        covariance = whole[np.ix_(rows, rows)]
        log = _logarithmic(mean, covariance, bounds[columns, 0])
        without = tuple(p.name for p in record.parameters if any(map(of_sequence, p.targets)))
        return cls(parameters, columns, covariance, log, bounds, without)

    @property
    def mean(self) -> Array:
        """(p,) values."""
        return np.array([parameter.value for parameter in self.parameters])

    @property
    def correlation(self) -> Array:
        """(k, k) of those with an interval."""
        deviation = np.sqrt(np.diag(self.covariance))
        return np.asarray(self.covariance / np.outer(deviation, deviation))

    def draws(self, seed: int) -> Iterator[tuple[Array, NDArray[np.bool_]]]:
        """Yield (p,) values without end, and (p,) which of them are out of their bounds."""
        rng = np.random.default_rng(seed)
        mean, covariance = _as_drawn(self.mean[self.columns], self.covariance, self.log)
        root = _root(covariance)
        known = np.zeros(len(self.parameters), bool)
        known[self.columns] = True
        while True:
            block = mean + rng.standard_normal((_BLOCK, len(mean))) @ root.T
            block[:, self.log] = np.exp(block[:, self.log])
            values = np.tile(self.mean, (_BLOCK, 1))
            values[:, self.columns] = block
            out = known & ((values < self.bounds[:, 0]) | (values > self.bounds[:, 1]))
            yield from zip(values, out, strict=True)


def targets_of(parameter: ParameterResult, stored: Stored) -> list[Target]:
    """Return what a parameter writes; none for what is of recordings."""
    return [target for path in parameter.targets for target in stored.targets.get(path, ())]


def _bounds(parameter: ParameterResult, stored: Stored) -> tuple[float, float]:
    """Return what the calibration and physics allow."""
    pairs = [parameter.bounds, *(target.bounds for target in targets_of(parameter, stored))]
    return max(low for low, _ in pairs), min(high for _, high in pairs)


def _logarithmic(mean: Array, covariance: Array, low: Array) -> NDArray[np.bool_]:
    """Return which parameters are drawn as their logarithms."""
    errors = mean / np.sqrt(np.diag(covariance))
    log = (low >= 0) & (errors >= _TOO_NEAR_ZERO) & (errors < _NEAR_ZERO)
    try:
        _root(_as_drawn(mean, covariance, log)[1])
    except ResultError:
        return np.zeros_like(log)  # lognormals with these covariances there are none
    return np.asarray(log)


def _as_drawn(mean: Array, covariance: Array, log: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return mean and covariance of normals of which some exponentials have those that are given.

    The mean of ``exp(u)`` is ``exp(μ + s/2)``, its covariance with ``exp(v)`` is the product of
    both means times ``exp(cov(u, v)) - 1``, and that with ``v`` its mean times ``cov(u, v)``.
    """
    scale = np.where(log, mean, 1.0)
    drawn = covariance / np.outer(scale, scale)
    both = np.outer(log, log)
    with np.errstate(invalid='ignore', divide='ignore'):
        drawn = np.where(both, np.log1p(drawn), drawn)
        middle = np.where(log, np.log(np.where(log, mean, 1.0)) - 0.5 * np.diag(drawn), mean)
    return middle, drawn


def _root(covariance: Array) -> Array:
    """Return R with R Rᵀ = covariance.

    Raises:
        ResultError: It is no covariance.
    """
    deviation = np.sqrt(np.abs(np.diag(covariance)))
    scaled = covariance / np.outer(deviation, deviation)
    whole = np.isfinite(scaled).all()
    values, vectors = np.linalg.eigh(scaled) if whole else (np.full(1, -1.0), np.eye(1))
    if values[0] < -_ROUNDING * max(values[-1], 1.0):
        raise ResultError(
            'Expected a covariance of which no direction has a negative variance, found '
            f'{float(values[0]):.3g} of the correlations.'
        )
    return np.asarray(deviation[:, None] * vectors * np.sqrt(np.maximum(values, 0.0)))
