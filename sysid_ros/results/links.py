# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Masses, centres of mass and moments of links, from the ten numbers that they were fitted by."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sysid_ros.model.inertia import body_from_theta
from sysid_ros.results.result import InferenceSummary, LinkNumber, LinkResult, ParameterResult

#: What a log-Cholesky inertia is written to: ``body/NAME/inertia[K]``, ten of them.
_TARGET = re.compile(r'body/(.+)/inertia\[(\d)\]')
_COUNT = 10
#: Step of the differences, in the numbers' own unit: they are logarithms, ratios and metres.
_STEP = 1e-5
_NAMES = ('mass', 'centre x', 'centre y', 'centre z', 'moment 1', 'moment 2', 'moment 3')
_PLACES = frozenset(_NAMES[1:4])
_UNITS = ('kg', 'm', 'm', 'm', 'kg·m²', 'kg·m²', 'kg·m²')


def links(
    parameters: Sequence[ParameterResult], inference: InferenceSummary | None
) -> tuple[LinkResult, ...]:
    """Return what a reader wants to know of the links whose ten numbers were all fitted.

    Intervals are those of the numbers' covariance in first order (the delta method). They are NaN
    where a number has none.

    Args:
        parameters: All of a result.
        inference: With the covariance of these parameters.
    """
    result = []
    for body, places in link_places([parameter.targets for parameter in parameters]).items():
        own = tuple(parameters[place] for place in places)
        covariance = np.full((_COUNT, _COUNT), np.nan)
        if inference is not None:
            covariance = np.array(inference.covariance)[np.ix_(places, places)]
        names = tuple(parameter.name for parameter in own)
        found_numbers = _numbers(own, covariance)
        result.append(LinkResult(body=body, parameters=names, numbers=found_numbers))
    return tuple(result)


def link_places(targets: Sequence[Sequence[str]]) -> dict[str, list[int]]:
    """Return body to the places of its ten numbers, of bodies that have all of them.

    Args:
        targets: The paths that each parameter is written to.
    """
    bodies: dict[str, dict[int, int]] = {}
    for place, paths in enumerate(targets):
        for path in paths:
            if found := _TARGET.fullmatch(path):
                bodies.setdefault(found[1], {})[int(found[2])] = place
    return {
        body: [numbers[index] for index in range(_COUNT)]
        for body, numbers in bodies.items()
        if len(numbers) == _COUNT
    }


def _numbers(
    parameters: Sequence[ParameterResult], covariance: NDArray[np.float64]
) -> tuple[LinkNumber, ...]:
    value, initial = (
        np.array([getattr(parameter, name) for parameter in parameters])
        for name in ('value', 'initial')
    )
    moves = _STEP * np.eye(_COUNT)
    slopes = (_physical(value + moves) - _physical(value - moves)) / (2 * _STEP)
    # A number without an interval leaves those alone that do not depend on it.
    deviations = [
        np.sqrt(slope[used] @ covariance[np.ix_(used, used)] @ slope[used])
        for slope, used in ((own, np.flatnonzero(own)) for own in slopes.T)
    ]
    halves = np.array(deviations) * half_per_deviation(parameters, np.diag(covariance))
    rows = zip(_NAMES, _UNITS, _physical(value), _physical(initial), halves, strict=True)
    found = []
    for name, unit, now, before, half in rows:
        ends = (now - half, now + half)
        if name not in _PLACES:  # what is positive has its interval on a logarithmic scale
            ends = (now * np.exp(-half / now), now * np.exp(half / now))
        found.append(
            LinkNumber(name=name, unit=unit, value=now, initial=before, low=ends[0], high=ends[1])
        )
    return tuple(found)


def half_per_deviation(
    parameters: Sequence[ParameterResult], variances: NDArray[np.float64]
) -> float:
    """Return the half-width of intervals in standard deviations; NaN where none has any."""
    ratios = [parameter.half_width for parameter in parameters] / np.sqrt(variances)
    known = ratios[np.isfinite(ratios)]
    # The median: an interval that a bound cuts is narrower than its deviation says.
    return float(np.median(known)) if len(known) else np.nan


def _physical(theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (…, 7) mass, centre of mass and principal moments of (…, 10) numbers."""
    inertial = body_from_theta(theta)
    return np.concatenate(
        [np.asarray(inertial.mass)[..., None], inertial.ipos, inertial.inertia], axis=-1
    )
