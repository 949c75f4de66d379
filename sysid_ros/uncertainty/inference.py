# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How sure a fit is of each parameter, and what the data cannot say."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
import scipy.special
from numpy.typing import NDArray

from sysid_ros.config.schema import VerdictKind
from sysid_ros.fit.fit import Fit, FitOptions, fit
from sysid_ros.fit.linear import Linear, bounds_of, linearised
from sysid_ros.fit.noise import JointPrior
from sysid_ros.fit.observer import Observer
from sysid_ros.fit.terms import Term
from sysid_ros.model.targets import Unknown
from sysid_ros.signals import Trajectory
from sysid_ros.uncertainty.covariance import (
    ENOUGH,
    LEVEL,
    QUANTILE,
    TAKES_PART,
    Disagreement,
    JointEstimate,
    Noise,
    at_bounds,
    covariance,
)
from sysid_ros.uncertainty.model_errors import Lacking, lacking
from sysid_ros.uncertainty.verdicts import (
    Combination,
    Interval,
    model_limited,
    verdicts,
)

Array = NDArray[np.float64]

#: Farther from the optimum than this, in standard errors, a fit has not converged: intervals hold
#: the truth in less than 94 % of cases then instead of 95 %.
_SETTLED = 0.25
#: Where slopes leave more than this part of what nearby values change, intervals do not hold. Of
#: smooth fits they leave less than a hundredth, of balls and boxes that bounce .04 to 3000.
_SMOOTH = 0.03
_UNEVEN = (
    'Contacts open and close otherwise when it changes by a tenth of a standard error, so that its '
    'interval says little: record motion that touches more gently.'
)
#: Draws of all errors together.
_DRAWS = 20_000


@dataclass(frozen=True)
class Inference:
    """What the data say about all parameters."""

    intervals: tuple[Interval, ...]
    covariance: Array  # (p, p) of the estimates, in their units; NaN rows without an interval
    method: str  # how the intervals were found, in words
    effective: float  # number of independent samples that say as much as the residuals do
    notes: tuple[str, ...] = ()  # what a reader of the intervals has to know, a sentence each
    combinations: tuple[Combination, ...] = ()  # what is determined of confounded parameters
    noises: tuple[Noise, ...] = ()  # of each sensor's residuals
    all_at_once: float = 1.0  # what half-widths are multiplied by to hold all at once
    left: float = 0.0  # how far the fit ended from the optimum at most, in standard errors
    lacking: tuple[Lacking, ...] = ()  # what residuals follow, the most certain first
    disagreement: Disagreement | None = None  # of few recordings; intervals allow for it


@dataclass(frozen=True, kw_only=True)
class Identification(Fit):
    """A fit, and how sure it is.

    Attributes:
        inference: Intervals, verdicts and covariance of the parameters, then of the other unknowns.
    """

    inference: Inference

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """Interval and verdict of each parameter."""
        return self.inference.intervals[: len(self.parameters)]


def identify(
    model: mujoco.MjModel | mujoco.MjSpec,
    parameters: Sequence[Unknown],
    trajectories: Sequence[Trajectory],
    *,
    options: FitOptions | None = None,
    prior: JointPrior | None = None,
    begun: Fit | None = None,
    observer: Observer | None = None,
    cancel: threading.Event | None = None,
) -> Identification:
    """Fit parameters, and say how sure of them the fit is; arguments are those of `fit`."""
    return inferred(
        fit(
            model,
            parameters,
            trajectories,
            options=options,
            prior=prior,
            begun=begun,
            observer=observer,
            cancel=cancel,
        )
    )


def inferred(found: Fit) -> Identification:
    """Return a fit with its inference, and without what that alone is made of."""
    inference = infer(found.linearised(), found.terms)
    rough = set(np.flatnonzero(found.uneven > _SMOOTH).tolist())
    intervals = [
        dataclasses.replace(own, verdict_kind=VerdictKind.MODEL_LIMITED, explanation=_UNEVEN)
        if place in rough and not np.isnan(own.low)
        else own
        for place, own in enumerate(inference.intervals)
    ]
    notes = (*inference.notes, *found.notes)
    inference = dataclasses.replace(inference, notes=notes, intervals=tuple(intervals))
    return Identification(**{**vars(found), 'terms': (), 'inference': inference})


def infer(held: Linear, terms: Sequence[Term] = ()) -> Inference:
    """Return intervals and verdicts of all unknowns of a problem that may lack terms.

    What terms that the model lacks would change counts as a standard deviation beside the others,
    and what makes few recordings disagree widens all of them. Of a value that noise put at its
    bound, the interval is the inner part of its normal distribution, and the others are as
    uncertain as with that value free.
    """
    x, parameters = held.x, held.unknowns
    bounds = at_bounds(held)
    open_ = bounds.told & ~bounds.pushed
    linear = held.freed(bounds.columns[open_])
    found = covariance(linear)
    low, high = x - found.half, x + found.half
    deviation = np.sqrt(np.diag(found.matrix))
    steps = np.zeros(len(x))
    steps[linear.free] = -linear.step
    bottom, top = bounds_of(parameters)
    for column, inwards in zip(bounds.columns[open_], bounds.inwards[open_], strict=True):
        # The 95 % quantile of the part of a normal distribution that is inside of the bound.
        mean, size = inwards * steps[column], deviation[column]
        outside = scipy.special.ndtri((1 - LEVEL) * scipy.special.ndtr(mean / size))
        end = np.clip(x[column] + inwards * (mean - size * outside), bottom[column], top[column])
        low[column], high[column] = sorted((x[column], end))
    each, told = verdicts(linear, found, bounds, low, high)
    ends = np.array([(own.low, own.high) for own in each]).T.reshape(2, -1)
    blind = np.isnan(ends[0])
    lacks = lacking(held, terms, np.where(blind, np.nan, found.half))
    apart = found.disagreement
    growth = np.ones(len(x)) if apart is None else apart.growth
    matrix = np.where(blind | blind[:, None], np.nan, found.matrix)
    matrix = matrix * np.outer(growth, growth) + np.outer(lacks.shift, lacks.shift)
    # np.clip passes NaN on: no interval stays no interval.
    reach = np.hypot(growth * (ends - x), QUANTILE * lacks.shift)
    outer = np.clip(x + reach * [[-1.0], [1.0]], bottom, top)
    inner = np.clip(ends, bottom, top)
    intervals = [
        model_limited(
            index,
            dataclasses.replace(own, low=low, high=high, noise_low=own_low, noise_high=own_high),
            linear,
            found,
            float(lacks.shift[index]),
            lacks.why[index],
        )
        for index, (own, low, high, own_low, own_high) in enumerate(
            zip(each, *outer.tolist(), *inner.tolist(), strict=True)
        )
    ]
    with np.errstate(invalid='ignore', divide='ignore'):
        off = np.abs(held.step) / deviation[held.free]
    # Starts of recordings interest nobody: joints that stick there make them hard to settle.
    left = float(np.max(off[held.lasting[held.free] & np.isfinite(off)], initial=0.0))
    notes = [*lacks.notes]
    slow = sum(noise.slow for noise in found.noises.values())
    if slow and linear.recordings < ENOUGH:
        notes.append(
            f'Residuals of {slow} of {len(found.noises)} sensors stay alike from sample to sample, '
            'which noise seldom does: the model lacks something. How much that differs between '
            f'recordings, fewer than {ENOUGH} cannot say; record more.'
        )
    if apart is not None:
        notes.append(str(apart))
    if left > _SETTLED:
        notes.append(
            f'The fit ended about {left:.1g} standard errors from the optimum: verdicts and '
            'intervals may not hold; let it run longer, or leave out what makes the motion rough.'
        )
    return Inference(
        intervals=tuple(intervals),
        covariance=matrix,
        method=found.method,
        effective=found.effective,
        notes=tuple(notes),
        combinations=told,
        noises=tuple(found.noises.values()),
        all_at_once=all_at_once(matrix, parameters),
        left=left,
        lacking=lacks.terms,
        disagreement=apart,
    )


def all_at_once(covariance: Array, parameters: Sequence[Unknown]) -> float:
    """Return what intervals are to be multiplied by to hold all lasting parameters at once.

    So much farther out is the 95 % quantile of the largest of their errors, which are normal with
    the (p, p) covariance (max-t intervals: T. Hothorn, F. Bretz and P. Westfall, "Simultaneous
    inference in general parametric models", Biometrical Journal 50, 2008).
    """
    deviation = np.sqrt(np.diag(covariance))
    lasting = np.array([not unknown.of_single_runs for unknown in parameters], dtype=bool)
    chosen = np.flatnonzero(lasting & np.isfinite(deviation) & (deviation > 0))
    if not len(chosen):
        return 1.0
    scaled = covariance[np.ix_(chosen, chosen)] / np.outer(deviation[chosen], deviation[chosen])
    values, vectors = np.linalg.eigh(scaled)
    draws = np.random.default_rng(0).standard_normal((_DRAWS, len(chosen)))
    errors = draws @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    largest = np.abs(errors).max(axis=1)
    return max(float(np.quantile(largest, LEVEL) / QUANTILE), 1.0)


@dataclass(frozen=True)
class DataOnly(JointEstimate):
    """What the data say without what was known before.

    Values that the data do not determine are where the fit ended.
    """

    inflation: float  # how many times wider than for white residuals the variances are, on average


def data_only(fit: Fit) -> DataOnly:
    """Take the priors of the parameters and the bounds away from a fit.

    One Gauss-Newton step without them leads from where the fit ended to the data's own optimum.
    It may be outside of the bounds: friction that the data cannot tell from none is as often found
    below zero as above, and stopping there would bend whatever correlates with it. What is known
    of single runs, as that a clock's offset is near zero, stays.
    """
    samples, kept = fit.samples, ~fit.linearised().robot_priors
    linear = linearised(
        dataclasses.replace(
            fit.solution,
            x=fit.values,
            residual=fit.solution.residual[kept],
            jacobian=fit.solution.jacobian[kept],
        ),
        [dataclasses.replace(own, min_value=-np.inf, max_value=np.inf) for own in fit.unknowns],
        dataclasses.replace(
            samples,
            sequence=samples.sequence[kept],
            time=samples.time[kept],
            sensor=samples.sensor[kept],
            variance=None if samples.variance is None else samples.variance[kept],
        ),
        fit.loss,
    )
    x = fit.values.copy()
    x[linear.free] -= linear.step
    found = covariance(linear)
    growth = np.ones(len(x)) if found.disagreement is None else found.disagreement.growth
    matrix = found.matrix * np.outer(growth, growth)
    unseen = linear.free[np.any(np.abs(linear.null) > TAKES_PART, axis=1)]
    matrix[unseen] = matrix[:, unseen] = np.nan
    ratios = (np.diag(matrix) / linear.white_variance)[linear.lasting]
    ratios = ratios[np.isfinite(ratios) & (ratios > 0)]
    inflation = float(np.exp(np.mean(np.log(ratios)))) if len(ratios) else 1.0
    return DataOnly(x, matrix, max(found.effective - 1.0, 1.0), inflation)
