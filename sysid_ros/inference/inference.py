# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How sure the fit is of each parameter, and what the data cannot say."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.special
from numpy.typing import NDArray

from sysid_ros.config.calibration import Loss
from sysid_ros.estimation.differences import (
    ResidualLike,
    have_jumps,
    leave_jumps_out,
    scales,
)
from sysid_ros.estimation.residuals import Samples
from sysid_ros.estimation.solver import Solution
from sysid_ros.inference.combinations import Combination
from sysid_ros.inference.covariance import (
    ENOUGH,
    LEVEL,
    QUANTILE,
    TAKES_PART,
    Disagreement,
    Noise,
    at_bounds,
    bounds_of,
    covariance,
    linearised,
    threshold,
    triangle,
)
from sysid_ros.inference.drift import JointEstimate
from sysid_ros.inference.model_errors import Lacking, Term, lacking
from sysid_ros.inference.verdicts import Interval, model_limited, verdicts
from sysid_ros.model.unknown import Unknown

Array = NDArray[np.float64]

#: Farther from the optimum than this, in standard errors, a fit has not converged: intervals hold
#: the truth in less than 94 % of cases then instead of 95 %.
_SETTLED = 0.25
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


def infer(
    solution: Solution,
    jacobian: Array,
    parameters: Sequence[Unknown],
    samples: Samples,
    *,
    loss: Loss = 'linear',
    terms: Sequence[Term] = (),
) -> Inference:
    """Return intervals and verdicts of all parameters.

    What terms that the model lacks would change counts as a standard deviation beside the others,
    and what makes few recordings disagree widens all of them. Of a value that noise put at its
    bound, the interval is the inner part of its normal distribution, and the others are as
    uncertain as with that value free.

    Args:
        solution: Where the solver ended.
        jacobian: (n, p) derivative of the residuals there, per unit of each parameter.
        parameters: The unknowns, p of them.
        samples: What each residual is.
        loss: The loss of the fit; robust losses weight residuals.
        terms: What the model may lack.
    """
    x = solution.x
    held = linearised(solution, jacobian, parameters, samples, loss)
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
            lacks,
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


def data_only(
    solution: Solution, unknowns: Sequence[Unknown], samples: Samples, loss: Loss = 'linear'
) -> DataOnly:
    """Take the priors of the parameters and the bounds away from a fit.

    One Gauss-Newton step without them leads from where the fit ended to the data's own optimum.
    It may be outside of the bounds: friction that the data cannot tell from none is as often found
    below zero as above, and stopping there would bend whatever correlates with it. What is known
    of single runs, as that a clock's offset is near zero, stays.
    """
    kept = ~linearised(solution, solution.jacobian, unknowns, samples, loss).robot_priors
    variance = None if samples.variance is None else samples.variance[kept]
    linear = linearised(
        dataclasses.replace(solution, residual=solution.residual[kept]),
        solution.jacobian[kept],
        [dataclasses.replace(unknown, min_value=-np.inf, max_value=np.inf) for unknown in unknowns],
        dataclasses.replace(
            samples,
            sequence=samples.sequence[kept],
            time=samples.time[kept],
            sensor=samples.sensor[kept],
            variance=variance,
        ),
        loss,
    )
    x = np.array(solution.x, dtype=np.float64)
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


#: Directions with singular values above this, of columns of length 1, are left as they are: errors
#: of the columns are far below it; of those where residuals jump, below the second.
_WEAK, _WEAK_OF_JUMPS = 0.02, 0.2
#: Largest step along a direction, in units of the parameters' scales, where residuals jump, and
#: smallest.
_LONGEST, _LONGEST_OF_JUMPS, _SHORTEST = 1e-3, 0.2, 1e-5


def sharpened(residuals: ResidualLike, solution: Solution) -> Array:
    """Return the (n, p) Jacobian of a solution, made right along its weakest directions.

    Columns that a residual or two make by a jump are differenced anew over longer steps. A jump
    would pass for most of what the data say of a parameter.

    Where parameters nearly cancel, the sum of their columns is mostly the columns' errors: those
    would pass for information. So along each weak right singular vector v of the scaled Jacobian
    the derivative is differenced directly, over about one standard error, and the Jacobian changed
    by the rank-one update that gives J v that value (Broyden, Math. Comp. 19, 1965). A vector that
    the errors had tilted is nearly right the second time.
    """
    jacobian: Array = solution.jacobian.copy()
    jumps = np.flatnonzero(have_jumps(jacobian) & ~residuals.exact)
    if len(jumps):
        each = np.eye(jacobian.shape[1])[jumps]
        measured, found = _along(residuals, solution, each, np.zeros(len(jumps)), _LONGEST)
        jacobian[:, jumps[found]] = measured
    norms = np.linalg.norm(jacobian, axis=0)
    live = np.flatnonzero(norms > 0)
    if len(live) < 2:  # noqa: PLR2004 (nothing cancels)
        return jacobian
    scaled = jacobian[:, live] / norms[live]
    # What an unknown does not act on, as other sequences and priors, it never does.
    untouched = scaled == 0
    least, longest = (_WEAK_OF_JUMPS, _LONGEST_OF_JUMPS) if solution.jumps else (_WEAK, _LONGEST)
    # What is left of the error falls quadratically from one round to the next.
    for _ in range(3):
        _, singular, right = np.linalg.svd(triangle(scaled))
        weak = singular < least
        if not weak.any():
            break
        moves = np.zeros((int(weak.sum()), len(norms)))
        moves[:, live] = right[weak] / norms[live]
        measured, found = _along(residuals, solution, moves, singular[weak], longest)
        # Noise of a difference must not be taken for more than columns that cancel say.
        lengths, most = np.linalg.norm(measured, axis=0), threshold(len(live))
        told = (lengths < singular[weak][found]) | (lengths > most)
        directions = right[weak][found][told]
        change = measured[:, told] - scaled @ directions.T
        scaled += change @ directions
        scaled[untouched] = 0.0
        if not len(directions) or np.linalg.norm(change, axis=0).max() <= most:
            break
    jacobian[:, live] = scaled * norms[live]
    return jacobian


def _along(
    residuals: ResidualLike, solution: Solution, moves: Array, singular: Array, longest: float
) -> tuple[Array, NDArray[np.bool_]]:
    """Return (n, f) derivatives along (k, p) moves, and (k,) which of them could be had.

    Second-order differences over about a standard error, which changes the residuals by 1, to one
    side where there is a bound on the other. Where both sides differ, noise of simulations is what
    they tell; its part of the length is taken off (W. A. Fuller, Measurement Error Models, 1987).
    """
    unit = 1 / np.max(np.abs(moves) / scales(residuals.unknowns), axis=1)
    steps = np.clip(1 / np.maximum(singular, threshold(1)), _SHORTEST * unit, longest * unit)
    low, high = bounds_of(residuals.unknowns)
    candidates, places = [], []
    for place, (move, step) in enumerate(zip(moves, steps, strict=True)):
        for near, far in ((1.0, -1.0), (1.0, 2.0), (-1.0, -2.0)):
            pair = solution.x + step * np.outer((near, far), move)
            if np.all((pair >= low) & (pair <= high)):
                candidates.extend(pair)
                places.append((place, near * step, far))
                break
    known, slopes = np.zeros(len(moves), dtype=bool), []
    if not candidates:
        return np.zeros((len(solution.residual), 0)), known
    values = residuals(np.stack(candidates)) - solution.residual[:, None]
    unstable = np.asarray(residuals.unstable, dtype=bool)
    for number, (place, step, far) in enumerate(places):
        pair = slice(2 * number, 2 * number + 2)
        if not np.isfinite(values[:, pair]).all() or unstable[pair].any():
            continue
        near_change, far_change = values[:, pair].T
        central = far == -1.0
        one, other = near_change.copy(), -far_change if central else far_change - near_change
        leave_jumps_out(one[:, None], other[:, None])
        slope = ((one + other) if central else (3 * one - other)) / (2 * step)
        skew = float(np.linalg.norm(one - other)) / (2 * abs(step))
        length = max(float(np.linalg.norm(slope)), np.finfo(np.float64).tiny)
        slopes.append(slope * np.sqrt(max(1 - (skew / length) ** 2, 0.0)))
        known[place] = True
    return np.reshape(slopes, (len(slopes), len(solution.residual))).T, known
