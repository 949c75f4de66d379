# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The problem as it is at the optimum: linear in the parameters, weighted and scaled."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.calibration import Loss
from sysid_ros.estimation.layout import PRIOR, Samples
from sysid_ros.estimation.solver.differences import (
    ResidualLike,
    have_jumps,
    leave_jumps_out,
    scales,
)
from sysid_ros.estimation.solver.losses import curvature, rho
from sysid_ros.estimation.solver.solver import Solution
from sysid_ros.inference.dependence import split, threshold, triangle
from sysid_ros.model.unknown import Unknown

#: A value within this fraction of the bounds' distance from one of them is at the bound.
_AT_BOUND = 1e-6
#: Directions with singular values above this, of columns of length 1, are left as they are: errors
#: of the columns are far below it; of those where residuals jump, below the second.
_WEAK, _WEAK_OF_JUMPS = 0.02, 0.2
#: Largest step along a direction, in units of the parameters' scales, where residuals jump, and
#: smallest.
_LONGEST, _LONGEST_OF_JUMPS, _SHORTEST = 1e-3, 0.2, 1e-5
#: Sides of a difference differ by more than this part of it where it tells noise: a step that is so
#: many times as long, or more, is tried, and so many of them.
_SKEWED, _LONGER, _LENGTHENINGS = 0.1, 1.5, 3
#: What is left of the error falls quadratically from one round to the next.
_ROUNDS = 3


@dataclass(frozen=True)
class Linear:
    """The linearised problem at the optimum.

    Attributes:
        unknowns: The parameters, p of them.
        x: (p,) their values.
        residual: (n,) pull of each residual on the fit: the residual itself in units of the noise,
            with a robust loss half its derivative, over the root of the loss's mean curvature.
        unit: (n, c) derivative of the residuals times that root, its columns scaled to length 1
            and one after the other in memory. So with ``jacobian = unit * scale`` the curvature of
            the cost is ``jacobian.T @ jacobian``, its gradient ``jacobian.T @ residual``. The first
            p columns are the parameters', further ones what was put `beside` them.
        gram: (c, c) products of its columns.
        samples: What each residual is.
        at_bound: (p,) whether a value is at one of its bounds.
        root: (n,) that root, which weights what else changes the residuals.
        scale: (c,) length of the Jacobian's columns; 1 for those that are zero.
        free: (f,) columns that are not held and have an effect.
        inverse: (f, f) pseudo-inverse of the information of the free columns scaled to length 1.
        null: (f, k) unit vectors, in the scaled free parameters, that change no residual.
        steps: Index of the sensor to the step of its encoder, in units of its noise.
    """

    unknowns: tuple[Unknown, ...]
    x: NDArray[np.float64]
    residual: NDArray[np.float64]
    unit: NDArray[np.float64]
    gram: NDArray[np.float64]
    samples: Samples
    at_bound: NDArray[np.bool_]
    root: NDArray[np.float64]
    scale: NDArray[np.float64]
    free: NDArray[np.int64]
    inverse: NDArray[np.float64]
    null: NDArray[np.float64]
    steps: Mapping[int, float] = field(default_factory=dict)

    @functools.cached_property
    def scaled(self) -> NDArray[np.float64]:
        """(n, f) Jacobian of the free columns, scaled to length 1."""
        if len(self.free) == self.unit.shape[1]:
            return self.unit
        chosen: NDArray[np.float64] = self.unit.T[self.free].T
        return chosen

    @functools.cached_property
    def influence(self) -> NDArray[np.float64]:
        """(n, f) change of the scaled free parameters by each residual."""
        return self.scaled @ self.inverse

    @functools.cached_property
    def triangle(self) -> NDArray[np.float64]:
        """(c, c) factor of the columns: few rows say what all of them do."""
        return triangle(self.unit)

    @property
    def unmeasured(self) -> NDArray[np.float64]:
        """(r, f) scaled rows of what is not measured, times the deviations expected of it."""
        rows, variance = self.samples.sensor < 0, self.samples.variance
        expected = 1.0 if variance is None else variance[rows, None]
        weighted: NDArray[np.float64] = self.unit[np.ix_(rows, self.free)] * np.sqrt(expected)
        return weighted

    @property
    def white_variance(self) -> NDArray[np.float64]:
        """(p,) variances for white residuals of variance 1; NaN for what is not free."""
        found = np.full(len(self.x), np.nan)
        found[self.free] = np.diag(self.inverse) / self.scale[self.free] ** 2
        return found

    @functools.cached_property
    def step(self) -> NDArray[np.float64]:
        """(f,) how far the free parameters are above their optimum, to first order."""
        found: NDArray[np.float64] = self.inverse @ (self.scaled.T @ self.residual)
        return found / self.scale[self.free]

    @functools.cached_property
    def left(self) -> NDArray[np.float64]:
        """(n,) residuals that are left after that step."""
        found: NDArray[np.float64] = self.residual - self.scaled @ (
            self.step * self.scale[self.free]
        )
        return found

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

    def freed(self, columns: NDArray[np.int64]) -> Linear:
        """Return the problem with some columns that are held as free as the others."""
        if not len(columns):
            return self
        free = np.union1d(self.free, columns)
        inverse, null = _information(self.unit, self.gram, free, self.samples)
        return dataclasses.replace(self, free=free, inverse=inverse, null=null)

    def beside(self, changes: Sequence[NDArray[np.float64]]) -> Linear:
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


def robot_priors(
    unknowns: Sequence[Unknown], samples: Samples, jacobian: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return (n,) which residuals are priors on the robot; those on single runs are measurements.

    That a clock's offset is near zero is known from its jitter, which was measured.
    """
    rows = samples.sensor == PRIOR
    lasting = np.array([not unknown.of_single_runs for unknown in unknowns], dtype=bool)
    priors: NDArray[np.bool_] = rows.copy()
    priors[rows] = np.any(jacobian[rows][:, lasting] != 0, axis=1)
    return priors


def linearised(
    solution: Solution,
    jacobian: NDArray[np.float64],
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
    low = np.array([unknown.min_value for unknown in unknowns])
    high = np.array([unknown.max_value for unknown in unknowns])
    distance = np.minimum(solution.x - low, high - solution.x)
    at_bound = np.asarray(distance <= _AT_BOUND * (high - low))
    norms = np.linalg.norm(unit, axis=0)
    scale = np.where(norms > 0, norms, 1.0)
    unit /= scale
    gram = unit.T @ unit
    free = np.flatnonzero(~at_bound & (norms > 0))
    inverse, null = _information(unit, gram, free, samples)
    return Linear(
        unknowns=tuple(unknowns),
        x=solution.x,
        residual=solution.residual * rho(solution.residual, loss)[1] / root,
        unit=unit,
        gram=gram,
        samples=samples,
        at_bound=at_bound,
        root=root,
        scale=scale,
        free=free,
        inverse=inverse,
        null=null,
    )


def with_encoders(linear: Linear) -> Linear:
    """Return a problem that knows of the steps of its sensors' encoders."""
    samples = linear.samples
    steps = {
        place: samples.encoder_steps[name]
        for place, name in enumerate(samples.sensors)
        if name in samples.encoder_steps
    }
    return dataclasses.replace(linear, steps=steps)


def _information(
    unit: NDArray[np.float64],
    gram: NDArray[np.float64],
    free: NDArray[np.int64],
    samples: Samples,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the pseudo-inverse of the information of free columns and what it cannot see.

    Args:
        unit: (n, c) columns of length 1.
        gram: (c, c) products of them.
        free: (f,) which of them are free.
        samples: What each row is.
    """
    _, singular, right = np.linalg.svd(gram[np.ix_(free, free)], hermitian=True)
    if not len(singular):
        return np.zeros((0, 0)), np.zeros((0, 0))
    seen = singular > threshold(len(singular)) ** 2
    inverse = (right[seen].T / singular[seen]) @ right[seen]
    unseen = right[~seen]
    priors = unit[np.ix_(samples.sensor == PRIOR, free)]
    if len(unseen) and len(priors):
        known, unseen = split(unseen, priors)
        root = np.linalg.pinv(triangle(unit[:, free] @ known.T)).T @ known
        inverse = inverse + root.T @ root
    return inverse, unseen.T


def sharpened(residuals: ResidualLike, solution: Solution) -> NDArray[np.float64]:
    """Return the (n, p) Jacobian of a solution, made right along its weakest directions.

    Columns that a residual or two make by a jump are differenced anew over longer steps. A jump
    would pass for most of what the data say of a parameter.

    Where parameters nearly cancel, the sum of their columns is mostly the columns' errors: those
    would pass for information. So along each weak right singular vector v of the scaled Jacobian
    the derivative is differenced directly, over about one standard error, and the Jacobian changed
    by the rank-one update that gives J v that value (Broyden, Math. Comp. 19, 1965). A vector that
    the errors had tilted is nearly right the second time.
    """
    jacobian: NDArray[np.float64] = solution.jacobian.copy()
    jumps = np.flatnonzero(have_jumps(jacobian) & ~residuals.exact)
    if len(jumps):
        each = np.eye(jacobian.shape[1])[jumps]
        measured, found = _along(residuals, solution, each, np.zeros(len(jumps)))
        jacobian[:, jumps[found]] = measured
    norms = np.linalg.norm(jacobian, axis=0)
    live = np.flatnonzero(norms > 0)
    if len(live) < 2:  # noqa: PLR2004 (nothing cancels)
        return jacobian
    scaled = jacobian[:, live] / norms[live]
    # What an unknown does not act on, as other sequences and priors, it never does.
    untouched = scaled == 0
    least, longest = (_WEAK_OF_JUMPS, _LONGEST_OF_JUMPS) if solution.jumps else (_WEAK, _LONGEST)
    for _ in range(_ROUNDS):
        triangle = np.linalg.qr(scaled, mode='r')
        _, singular, right = np.linalg.svd(triangle)
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
    residuals: ResidualLike,
    solution: Solution,
    moves: NDArray[np.float64],
    singular: NDArray[np.float64],
    longest: float = _LONGEST,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return (n, f) derivatives along (k, p) moves, and (k,) which of them could be had.

    Where both sides of a difference differ, noise of simulations is what they tell, or curvature:
    a step of a standard error serves if they differ less over it. What is left of that would pass
    for information, and is taken off (W. A. Fuller, Measurement Error Models, 1987).
    """
    unit = 1 / np.max(np.abs(moves) / scales(residuals.unknowns), axis=1)
    # A standard error changes the residuals by 1: so far differences mean what intervals do.
    steps = np.clip(1 / np.maximum(singular, threshold(1)), _SHORTEST * unit, longest * unit)
    slopes, skews = _differenced(residuals, solution, moves, steps)
    settled = np.zeros(len(moves), dtype=bool)
    for _ in range(_LENGTHENINGS):
        lengths = np.linalg.norm(slopes, axis=0)
        # What a direction without information tells is noise, too: no standard error is a step.
        longer = 1 / np.maximum(lengths, 1 / (_LONGEST_OF_JUMPS * unit))
        settled |= ~((skews > _SKEWED * lengths) & (longer > _LONGER * steps))
        again = np.flatnonzero(~settled)
        if not len(again):
            break
        found, apart = _differenced(residuals, solution, moves[again], longer[again])
        better = apart < skews[again]
        kept = again[better]
        slopes[:, kept], skews[kept], steps[kept] = found[:, better], apart[better], longer[kept]
        settled[again[~better]] = True
    # The square of a noisy vector's length is too large by that of the noise.
    lengths = np.maximum(np.linalg.norm(slopes, axis=0), np.finfo(np.float64).tiny)
    slopes *= np.sqrt(np.maximum(1 - (skews / lengths) ** 2, 0.0))
    known: NDArray[np.bool_] = np.asarray(np.isfinite(slopes).all(axis=0))
    return slopes[:, known], known


def _differenced(
    residuals: ResidualLike,
    solution: Solution,
    moves: NDArray[np.float64],
    steps: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (n, k) derivatives along (k, p) moves, NaN where there are none, and their (k,) skews.

    Second-order differences over (k,) steps, to one side where there is a bound on the other; a
    skew is the norm by which that to each side differs from the mean.
    """
    unknowns = residuals.unknowns
    low = np.array([unknown.min_value for unknown in unknowns])
    high = np.array([unknown.max_value for unknown in unknowns])
    slopes = np.full((len(solution.residual), len(moves)), np.nan)
    skews = np.full(len(moves), np.nan)
    candidates, places = [], []
    for place, (move, step) in enumerate(zip(moves, steps, strict=True)):
        for near, far in ((1.0, -1.0), (1.0, 2.0), (-1.0, -2.0)):
            pair = solution.x + step * np.outer((near, far), move)
            if np.all((pair >= low) & (pair <= high)):
                candidates.extend(pair)
                places.append((place, near * step, far))
                break
    if not candidates:
        return slopes, skews
    values = residuals(np.stack(candidates)) - solution.residual[:, None]
    unstable = np.asarray(residuals.unstable, dtype=bool)
    for number, (place, step, far) in enumerate(places):
        near_change, far_change = values[:, 2 * number], values[:, 2 * number + 1]
        sound = np.all(np.isfinite(near_change)) and np.all(np.isfinite(far_change))
        if not sound or unstable[2 * number : 2 * number + 2].any():
            continue
        central = far == -1.0
        one, other = near_change.copy(), -far_change if central else far_change - near_change
        leave_jumps_out(one[:, None], other[:, None])
        slopes[:, place] = ((one + other) if central else (3 * one - other)) / (2 * step)
        skews[place] = float(np.linalg.norm(one - other)) / (2 * abs(step))
    return slopes, skews
