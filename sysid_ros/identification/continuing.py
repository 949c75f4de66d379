# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Continue earlier estimates with new data, unless what they are of changed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.calibration import VerdictKind
from sysid_ros.errors import FitError
from sysid_ros.estimation.priors import JointPrior
from sysid_ros.identification.fit import Fit
from sysid_ros.inference import Inference
from sysid_ros.inference.drift import Difference, JointEstimate, difference
from sysid_ros.model.unknown import Unknown

Fitter = Callable[[tuple[Unknown, ...], JointPrior | None, Fit | None], Fit]

#: So much of the earlier information only keeps the new data's own fit from running away where
#: they say nothing; what they say is computed without it.
_ANCHOR = 1e-3


@dataclass(frozen=True)
class Known:
    """Earlier estimates of k parameters.

    Attributes:
        names: Of the parameters.
        estimate: Their (k,) values, and how sure those are.
    """

    names: tuple[str, ...]
    estimate: JointEstimate

    def prior(self, kept: Iterable[int] | None = None) -> JointPrior:
        """Return the distribution of all parameters or, whatever the others are, of some."""
        places = list(range(len(self.names)) if kept is None else kept)
        some = self.estimate.of(places)
        return JointPrior.of([self.names[place] for place in places], some.x, some.covariance)


@dataclass(frozen=True)
class Continued:
    """A fit that continues earlier estimates, and how the new data's own differ from those."""

    fit: Fit
    difference: Difference


def continue_from(
    known: Known,
    parameters: tuple[Unknown, ...],
    fit: Fitter,
    *,
    forgetting: float,
    level: float,
) -> Continued:
    """Fit to new data and earlier estimates.

    The new data are fitted alone first. Where what they say differs from the earlier estimates by
    more than chance, the earlier knowledge of the parameters that changed is dropped, so that it
    does not bend the new values. With the rest of it, N(x, Σ / forgetting), the fit goes on.

    Residuals resemble their neighbours, and least squares takes them for independent: the new data
    count as more than they say. The earlier knowledge is weighted up by the same factor.

    Args:
        known: The earlier estimates, at least one, of some of the parameters.
        parameters: The unknowns.
        fit: Fits the new data.
        forgetting: Weight of the earlier information, 0 to 1.
        level: Probability of seeing a change where there is none.

    Raises:
        FitError: There is nothing to fit, or no parameter has an effect.
    """
    columns = [[p.name for p in parameters].index(name) for name in known.names]
    before = known.estimate
    x = np.array([unknown.nominal for unknown in parameters])
    x[columns] = before.x
    first = fit(_starting(parameters, x), known.prior().weighted(_ANCHOR), None)
    found = first.data_only
    if found is None:
        raise FitError('Expected a fit with what the data alone say, found one without.')
    seen = difference(before, found.of(columns), level)
    kept = np.flatnonzero(~seen.changed)
    prior, forgotten = None, parameters
    if len(kept):
        weight = forgetting * found.inflation
        prior = known.prior(kept).weighted(weight, variance=found.inflation)
        forgotten = _forgetting(parameters, set(prior.names), forgetting)
    last = fit(_starting(forgotten, first.solution.x), prior, first)
    last = dataclasses.replace(
        last,
        parameters=parameters,
        inference=_judged(last, first),
        rollouts=first.rollouts + last.rollouts,
        diverged=first.diverged + last.diverged,
        seconds=first.seconds + last.seconds,
        attempts=first.attempts,
        start=first.start,
        start_sentence=first.start_sentence,
    )
    return Continued(last, seen)


def _starting(parameters: tuple[Unknown, ...], x: NDArray[np.float64]) -> tuple[Unknown, ...]:
    """Return parameters that start at (p,) values, as far as bounds allow."""
    return tuple(
        dataclasses.replace(p, nominal=float(np.clip(value, p.min_value, p.max_value)))
        for p, value in zip(parameters, x, strict=True)
    )


def _forgetting(
    parameters: tuple[Unknown, ...], names: set[str], forgetting: float
) -> tuple[Unknown, ...]:
    """Return parameters of whose own priors only as much counts as is forgotten.

    The earlier estimates knew them already. What is forgotten becomes the prior again, not nothing
    (stabilised forgetting: Kulhavy & Zarrop, International Journal of Control 58, 1993).
    """
    found = []
    for parameter in parameters:
        prior = parameter.prior
        if prior is not None and parameter.name in names:
            rest = math.sqrt(1.0 - forgetting)
            prior = (prior[0], prior[1] / rest) if rest > 0 else None
        found.append(dataclasses.replace(parameter, prior=prior))
    return tuple(found)


def _judged(last: Fit, first: Fit) -> Inference:
    """Return the inference, memory being no prior where the new data alone identify a parameter.

    After many recordings most of what is known is from the earlier ones, which were data, too.
    """
    intervals = list(last.inference.intervals)
    for place, (own, other) in enumerate(zip(last.intervals, first.intervals, strict=True)):
        known = other.verdict_kind is VerdictKind.IDENTIFIED
        if own.verdict_kind is VerdictKind.PRIOR_DOMINATED and known:
            intervals[place] = dataclasses.replace(
                own, verdict_kind=VerdictKind.IDENTIFIED, explanation=''
            )
    return dataclasses.replace(last.inference, intervals=tuple(intervals))
