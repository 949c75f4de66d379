# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which sensors and bags carry the information on each parameter."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.estimation.layout import PRIOR
from sysid_ros.inference.dependence import threshold

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sysid_ros.estimation.layout import Samples
    from sysid_ros.inference.linear import Linear

#: What widens no interval by more than this factor when it is left out adds nothing.
NOTHING = 1.05
#: A parameter is lost with a source when more than this part of it is in directions unseen then.
_LOST = 1e-6


class Source(NamedTuple):
    """A sensor or a bag, and what would be lost without it.

    Attributes:
        kind: ``sensor`` or ``bag``.
        name: Which.
        growth: (p,) factor by which the interval of each parameter would be wider without it;
            infinite where it alone tells, NaN for parameters without an interval.
    """

    kind: str
    name: str
    growth: tuple[float, ...]

    @property
    def adds_nothing(self) -> bool:
        """Whether no interval would be visibly wider without it."""
        known = np.array([g for g in self.growth if not np.isnan(g)])
        return len(known) > 0 and bool(np.all(known < NOTHING))


def condensed(
    jacobian: NDArray[np.float64], samples: Samples
) -> tuple[NDArray[np.float64], Samples]:
    """Replace the rows of each sensor in each sequence by their triangle, at most p of them.

    Rows of independent samples of one deviation may be rotated: an orthogonal matrix times them
    holds the same information, whatever is asked of it later, at a hundredth of the length.

    Args:
        jacobian: (n, p) derivative of the residuals.
        samples: What each residual is.

    Returns:
        The shorter derivative, priors last and as they were, and what its rows are; times are 0.
    """
    prior = samples.sensor == PRIOR
    group = samples.sequence * len(samples.sensors) + samples.sensor
    order = np.argsort(np.where(prior, -1, group), kind='stable')[np.count_nonzero(prior) :]
    borders = np.flatnonzero(np.diff(group[order])) + 1
    parts, sequence, sensor = [], [], []
    for rows in np.split(order, borders):
        triangle = np.linalg.qr(jacobian[rows], mode='r')
        parts.append(triangle)
        sequence.append(np.full(len(triangle), samples.sequence[rows[0]]))
        sensor.append(np.full(len(triangle), samples.sensor[rows[0]]))
    shorter = np.concatenate([*parts, jacobian[prior]])
    count = len(shorter) - np.count_nonzero(prior)
    variance = samples.variance
    if variance is not None:
        variance = np.concatenate([np.ones(count), variance[prior]])
    return shorter, dataclasses.replace(
        samples,
        sequence=np.concatenate([*sequence, samples.sequence[prior]]),
        time=np.zeros(len(shorter)),
        sensor=np.concatenate([*sensor, samples.sensor[prior]]),
        variance=variance,
    )


def sources(linear: Linear, count: int) -> tuple[Source, ...]:
    """Return what each sensor and each bag tells, by leaving it out.

    The information of independent samples adds up, so leaving a source out takes its own share
    away; what is known of starts and clocks beforehand stays.

    Args:
        linear: The linearised problem, whose samples have names of sensors and bags.
        count: So many of its first unknowns are parameters.
    """
    samples, scaled = linear.samples, linear.scaled
    measured = samples.sensor >= 0
    groups: dict[tuple[str, str], NDArray[np.bool_]] = {}
    for number, sensor in enumerate(samples.sensors):
        groups['sensor', sensor] = measured & (samples.sensor == number)
    if samples.bags:
        bag = np.array(samples.bags)[samples.sequence]
        for name in dict.fromkeys(samples.bags):
            groups['bag', name] = measured & (bag == name)
    return _left_out(linear, scaled, groups, count)


def _left_out(
    linear: Linear,
    scaled: NDArray[np.float64],
    groups: Mapping[tuple[str, str], NDArray[np.bool_]],
    count: int,
) -> tuple[Source, ...]:
    whole = scaled.T @ scaled
    full = _variances(whole)
    # Variances are compared where there is one.
    full[~np.isfinite(full)] = np.nan
    found = []
    for (kind, name), rows in groups.items():
        growth = np.full(len(linear.unknowns), np.nan)
        part = scaled[rows]
        growth[linear.free] = np.sqrt(_variances(whole - part.T @ part) / full)
        found.append(Source(kind, name, tuple(np.maximum(growth[:count], 1.0).tolist())))
    return tuple(found)


def _variances(information: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the (f,) variances that go with an information, infinite where it sees nothing."""
    values, vectors = np.linalg.eigh(information)
    seen = values > threshold(len(values)) ** 2
    variance: NDArray[np.float64] = np.sum(vectors[:, seen] ** 2 / values[seen], axis=1)
    variance[np.sum(vectors[:, ~seen] ** 2, axis=1) > _LOST] = np.inf
    return variance
