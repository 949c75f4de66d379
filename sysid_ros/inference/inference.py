# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How sure the fit is of each parameter, and what the data cannot say."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.calibration import Loss, VerdictKind
from sysid_ros.errors import some
from sysid_ros.estimation.layout import Samples
from sysid_ros.estimation.solver.solver import Solution
from sysid_ros.estimation.terms import Term
from sysid_ros.inference.at_bounds import at_bounds
from sysid_ros.inference.combinations import plus_minus
from sysid_ros.inference.drift import JointEstimate
from sysid_ros.inference.granted import granted
from sysid_ros.inference.lacking import lacking
from sysid_ros.inference.linear import linearised, robot_priors, with_encoders
from sysid_ros.inference.spread import ENOUGH, LEVEL, QUANTILE, Ends, spread
from sysid_ros.inference.verdicts import Verdict, verdicts, widest
from sysid_ros.model.unknown import Unknown

if TYPE_CHECKING:
    from sysid_ros.inference.combinations import Combination
    from sysid_ros.inference.lacking import Lacking, Lacks
    from sysid_ros.inference.linear import Linear
    from sysid_ros.inference.spread import Disagreement, Spread


#: Farther from the optimum than this, in standard errors, a fit has not converged: intervals hold
#: the truth in less than 94 % of cases then instead of 95 %.
_SETTLED = 0.25
#: Draws of all errors together.
_DRAWS = 20_000


@dataclass(frozen=True)
class Interval:
    """95 % interval and verdict of one parameter; the limits are NaN where there is none.

    ``noise_low`` and ``noise_high`` are its ends if the model lacked nothing and few recordings
    agreed. ``asked`` is the value that the data ask for far beyond a bound, if any.
    """

    low: float
    high: float
    verdict_kind: VerdictKind
    confounded_with: tuple[str, ...] = ()
    explanation: str = ''
    noise_low: float = math.nan
    noise_high: float = math.nan
    asked: float | None = None

    @property
    def verdict(self) -> str:
        """The verdict in words: its kind, and what the parameter is confounded with."""
        return self.verdict_kind.among(self.confounded_with)


class SensorNoise(NamedTuple):
    """How alike neighbouring residuals of a sensor are, and how many are independent."""

    sensor: str
    samples: int
    effective: float
    autocorrelation: float


@dataclass(frozen=True)
class Inference:
    """What the data say about all parameters.

    Attributes:
        intervals: Interval and verdict of each parameter.
        covariance: (p, p) of the estimates, in the parameters' units; rows of parameters without
            interval are NaN.
        method: How the intervals were found, in words.
        effective: Number of independent samples that say as much as the residuals do.
        notes: What a reader of the intervals has to know, a sentence each.
        combinations: What is determined of parameters that cannot be told apart.
        noises: Of each sensor's residuals.
        all_at_once: What the half-widths are to be multiplied by to hold all parameters at once.
        left: How far the fit ended from the optimum, in standard errors of that parameter of which
            it is most.
        lacking: What the model lacks and residuals follow, the most certain first.
        disagreement: Of few recordings, if it is more than noise explains; intervals allow for it.
    """

    intervals: tuple[Interval, ...]
    covariance: NDArray[np.float64]
    method: str
    effective: float
    notes: tuple[str, ...] = ()
    combinations: tuple[Combination, ...] = ()
    noises: tuple[SensorNoise, ...] = ()
    all_at_once: float = 1.0
    left: float = 0.0
    lacking: tuple[Lacking, ...] = ()
    disagreement: Disagreement | None = None


def infer(
    solution: Solution,
    jacobian: NDArray[np.float64],
    parameters: Sequence[Unknown],
    samples: Samples,
    *,
    loss: Loss = 'linear',
    terms: Sequence[Term] = (),
) -> Inference:
    """Return intervals and verdicts of all parameters.

    What terms that the model lacks would change counts as a standard deviation beside the others,
    and what makes few recordings disagree widens all of them.

    Args:
        solution: Where the solver ended.
        jacobian: (n, p) derivative of the residuals there, per unit of each parameter.
        parameters: The unknowns, p of them.
        samples: What each residual is.
        loss: The loss of the fit; robust losses weight residuals.
        terms: What the model may lack.
    """
    bare = linearised(solution, jacobian, parameters, samples, loss)
    linear = with_encoders(bare) if loss == 'linear' else bare
    found = spread(linear)
    ends = Ends(solution.x - found.half, solution.x + found.half)
    bounds = at_bounds(linear)
    ends, covariance = bounds.widened(ends, solution.x), bounds.covariance(found.covariance)
    judged = verdicts(linear, found, bounds, ends, covariance)
    blind = np.array([verdict.blind for verdict in judged.each], dtype=bool)
    covariance = np.where(blind | blind[:, None], np.nan, covariance)
    ends = Ends(np.where(blind, np.nan, ends.low), np.where(blind, np.nan, ends.high))
    left = _left(linear, found)
    lacks = lacking(bare, terms)
    apart = found.disagreement
    growth = np.ones(len(parameters)) if apart is None else apart.growth
    covariance = covariance * np.outer(growth, growth) + np.outer(lacks.shift, lacks.shift)
    out = QUANTILE * lacks.shift
    bottom = np.array([unknown.min_value for unknown in parameters])
    top = np.array([unknown.max_value for unknown in parameters])
    # np.maximum passes NaN on: no interval stays no interval.
    low = np.maximum(solution.x - np.hypot(growth * (solution.x - ends.low), out), bottom)
    high = np.minimum(solution.x + np.hypot(growth * (ends.high - solution.x), out), top)
    inner = np.stack([np.maximum(ends.low, bottom), np.minimum(ends.high, top)], axis=1).tolist()
    reach = np.maximum(high - solution.x, solution.x - low)
    each = _widened(_unlike(judged.each, linear, found), linear, lacks, apart, reach)
    notes = (*_lacks(lacks), *_granted(linear, terms, found.half, judged.each), *found.notes)
    if apart is not None:
        notes = (*notes, str(apart))
    return Inference(
        tuple(
            Interval(
                float(low[index]),
                float(high[index]),
                verdict.kind,
                verdict.confounded_with,
                verdict.explanation,
                inner[index][0],
                inner[index][1],
                verdict.asked,
            )
            for index, verdict in enumerate(each)
        ),
        covariance,
        found.method,
        found.effective,
        (*notes, *_unsettled(left)),
        judged.combinations,
        tuple(
            SensorNoise(samples.sensors[c], noise.samples, noise.effective, noise.neighbours)
            for c, noise in sorted(found.noises.items())
        ),
        all_at_once(covariance, parameters),
        left,
        lacks.terms,
        apart,
    )


def _widened(
    each: Sequence[Verdict],
    linear: Linear,
    lacks: Lacks,
    disagreement: Disagreement | None,
    reach: NDArray[np.float64],
) -> list[Verdict]:
    """Say of what noise alone would identify if what the model lacks makes it too uncertain.

    Args:
        each: The verdicts without model error.
        linear: The problem.
        lacks: What residuals follow.
        disagreement: Of few recordings, if any.
        reach: (p,) how far the ends of the intervals are from the values.
    """
    found = list(each)
    if not lacks.terms and disagreement is None:
        return found
    for index, verdict in enumerate(each):
        value = float(linear.x[index])
        known = reach[index] <= widest(value, linear.unknowns[index])
        if known or verdict.kind is not VerdictKind.IDENTIFIED:
            continue
        shift = lacks.shift[index]
        if disagreement is None or QUANTILE * abs(shift) > reach[index] / math.sqrt(2):
            why = (
                f'With {lacks.whose[index]} it would be about {value + shift:.3g} ({shift:+.2g}): '
                f'{lacks.remedies[index]}.'
            )
        else:
            why = (
                f'The {disagreement.recordings} recordings disagree about it by more than noise '
                f'explains: record {ENOUGH} or more, or find what differs between them.'
            )
        found[index] = Verdict(VerdictKind.MODEL_LIMITED, explanation=why)
    return found


def _unlike(each: Sequence[Verdict], linear: Linear, found: Spread) -> list[Verdict]:
    """Say of what model error hides if noise alone would leave it determined.

    Model error is what many recordings disagree about by more than the noise inside of them
    explains, and what makes residuals alike from sample to sample.
    """
    verdicts = list(each)
    with np.errstate(invalid='ignore'):
        white = QUANTILE * np.sqrt(linear.white_variance)
    for index, verdict in enumerate(each):
        narrow = found.apart.get(index, white[index] if found.slow else math.inf)
        hidden = narrow <= widest(float(linear.x[index]), linear.unknowns[index])
        if not hidden or verdict.blind or verdict.kind is not VerdictKind.NOT_EXCITED:
            continue
        why = (
            f'The {linear.recordings} recordings disagree about it by more than noise explains: '
            'find what differs between them, or what the model lacks'
            if index in found.apart
            else 'Residuals stay alike from sample to sample, which noise seldom does, and leave '
            f'it {plus_minus(float(linear.x[index]), found.half[index])}: find what the model lacks'
        )
        verdicts[index] = Verdict(VerdictKind.MODEL_LIMITED, explanation=f'{why}.')
    return verdicts


def _lacks(lacks: Lacks) -> tuple[str, ...]:
    """Say what the residuals follow."""
    if not lacks.terms:
        return ()
    told = '; '.join(f'{each.title} ({each.sigmas:.2g} standard errors)' for each in lacks.terms)
    instead = ''
    if lacks.instead:
        instead = f' Instead of the first, it may be {some(lacks.instead)}.'
    note = (
        f'The model lacks something; residuals follow {told}.{instead} Intervals allow for what '
        'any of that would change.'
    )
    return (note, *(each.clock for each in lacks.terms if each.clock))


def _granted(
    linear: Linear, terms: Sequence[Term], half: NDArray[np.float64], each: Sequence[Verdict]
) -> tuple[str, ...]:
    """Say what would move parameters without a trace in the residuals."""
    wanted = np.where([verdict.blind for verdict in each], np.nan, half)
    told = [
        f'with {found.assumed}, {linear.unknowns[found.column].name} would be about '
        f'{linear.x[found.column] + found.shift:.3g} ({found.widths:.3g} half-widths off)'
        for found in granted(linear, terms, wanted)
    ]
    if not told:
        return ()
    return (
        f'Taken for granted, as parameters would follow and residuals not tell: {"; ".join(told)}.',
    )


def all_at_once(covariance: NDArray[np.float64], parameters: Sequence[Unknown]) -> float:
    """Return what intervals are to be multiplied by to hold all parameters at once.

    95 % is said of each by itself: of many, one or another misses the truth more often. So much
    farther out is the 95 % quantile of the largest of their errors, which are taken for normal and
    correlated as the estimates are (max-t intervals: T. Hothorn, F. Bretz and P. Westfall,
    "Simultaneous inference in general parametric models", Biometrical Journal 50, 2008).

    Args:
        covariance: (p, p) of the estimates; NaN for those without an interval.
        parameters: The unknowns; those of single runs do not count.
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


def _left(linear: Linear, found: Spread) -> float:
    """Return the largest step to the optimum, in standard errors."""
    free = linear.free
    with np.errstate(invalid='ignore', divide='ignore'):
        share = np.abs(linear.step) / np.sqrt(np.diag(found.covariance)[free])
    # Starts of recordings interest nobody: joints that stick there make them hard to settle.
    lasting = np.array([not linear.unknowns[column].of_single_runs for column in free], dtype=bool)
    return float(np.max(share[lasting & np.isfinite(share)], initial=0.0))


def _unsettled(left: float) -> tuple[str, ...]:
    """Say so where the fit ended off the optimum: intervals around another point do not hold."""
    if left <= _SETTLED:
        return ()
    note = (
        f'The fit ended about {left:.1g} standard errors from the optimum: verdicts and '
        'intervals may not hold; let it run longer, or leave out what makes the motion rough.'
    )
    return (note,)


#: A parameter with more than this share in a direction that changes no residual is not determined.
_LARGEST_SHARE = 0.1


@dataclass(frozen=True)
class DataOnly(JointEstimate):
    """What the data say without what was known before.

    Values that the data do not determine are where the fit ended.

    Attributes:
        inflation: How many times wider than for white residuals the variances are, on average.
    """

    inflation: float


def data_only(
    solution: Solution, unknowns: Sequence[Unknown], samples: Samples, loss: Loss = 'linear'
) -> DataOnly:
    """Take the priors of the parameters and the bounds away from a fit.

    One Gauss-Newton step without them leads from where the fit ended to the data's own optimum.
    It may be outside of the bounds: friction that the data cannot tell from none is as often found
    below zero as above, and stopping there would bend whatever correlates with it. What is known
    of single runs, as that a clock's offset is near zero, stays.
    """
    lasting = np.array([not unknown.of_single_runs for unknown in unknowns], dtype=bool)
    kept = ~robot_priors(unknowns, samples, solution.jacobian)
    bare = dataclasses.replace(
        solution, residual=solution.residual[kept], jacobian=solution.jacobian[kept]
    )
    free_of_bounds = []
    for unknown in unknowns:
        low, high = unknown.min_value, unknown.max_value
        wide = dataclasses.replace(
            unknown, min_value=low - (high - low), max_value=high + (high - low)
        )
        free_of_bounds.append(wide)
    linear = linearised(
        bare,
        bare.jacobian,
        free_of_bounds,
        dataclasses.replace(
            samples,
            sequence=samples.sequence[kept],
            time=samples.time[kept],
            sensor=samples.sensor[kept],
            variance=None if samples.variance is None else samples.variance[kept],
        ),
        loss,
    )
    x = np.array(solution.x, dtype=np.float64)
    free = linear.free
    x[free] -= linear.step
    found = spread(linear)
    covariance = found.covariance.copy()
    if found.disagreement is not None:
        covariance *= np.outer(found.disagreement.growth, found.disagreement.growth)
    unseen = free[np.any(np.abs(linear.null) > _LARGEST_SHARE, axis=1)]
    covariance[unseen] = covariance[:, unseen] = np.nan
    ratios = np.diag(covariance)[lasting] / linear.white_variance[lasting]
    ratios = ratios[np.isfinite(ratios) & (ratios > 0)]
    inflation = float(np.exp(np.mean(np.log(ratios)))) if len(ratios) else 1.0
    return DataOnly(x, covariance, max(found.effective - 1.0, 1.0), inflation)
