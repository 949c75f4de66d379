# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The problem at the optimum, linear in the unknowns, and the derivatives that it is made of."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

from sysid_ros.config.schema import Loss
from sysid_ros.fit.differences import (
    PRIOR,
    ResidualLike,
    Samples,
    have_jumps,
    leave_jumps_out,
    scales,
)
from sysid_ros.fit.solver import Solution, curvature, rho
from sysid_ros.model.targets import Unknown

Array = NDArray[np.float64]

#: Relative error that a column of differences may have (see ``solver.differences``).
COLUMN_ERROR = 3e-5
#: A value within this fraction of the bounds' distance from one of them is at the bound.
_AT_BOUND = 1e-6
#: Directions with singular values above this, of columns of length 1, are left as they are: errors
#: of the columns are far below it.
_WEAK = 0.02
#: Largest step along a direction, in units of the parameters' scales.
_LONGEST = 1e-3
#: Both are this where residuals jump.
_WHERE_JUMPS = 0.2
#: The smallest step is the one at which rounding of a second-order difference is least.
_SHORTEST = float(np.cbrt(np.finfo(np.float64).eps))
#: Whether slopes hold is tried so many standard errors away.
_NEARBY = 0.1


def threshold(columns: int) -> float:
    """Return the singular value below which columns of length 1 may be dependent.

    Their errors change no singular value by more than their norm (Weyl).
    """
    return COLUMN_ERROR * float(np.sqrt(columns))


def triangle(jacobian: Array) -> Array:
    """Return the factor R of a QR decomposition, which has the same dependences and lengths."""
    return np.asarray(np.linalg.qr(jacobian, mode='r'), dtype=np.float64)


def split(unseen: Array, priors: Array) -> tuple[Array, Array]:
    """Split (k, p) unit vectors that measurements do not see into those priors know, and others.

    What measurements see of a direction may be errors of the columns. The (r, p) priors have none:
    the more was measured, the shorter they are beside the columns, and they are as good as before.
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
    solution: Solution, unknowns: Sequence[Unknown], samples: Samples, loss: Loss = 'linear'
) -> Linear:
    """Weight and scale the derivative of the residuals at a solution.

    With a robust loss the curvature of the cost is Σ ψ' J Jᵀ with ψ' the derivative of the pull ψ.
    Its mean over each sensor stands for ψ' (Huber, Annals of Statistics 1, 1973, section 6): that
    of single residuals is noise.
    """
    each = curvature(solution.residual, loss)
    place = samples.sensor - samples.sensor.min(initial=0)
    root = np.sqrt((np.bincount(place, each) / np.maximum(np.bincount(place), 1))[place])
    unit = np.multiply(solution.jacobian, root[:, None], order='F')
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


def sharpened(residuals: ResidualLike, solution: Solution) -> Solution:
    """Return a solution with a Jacobian that is right along its weakest directions.

    Columns of parameters that a residual or two make by a jump are differenced anew over longer
    steps. A jump would pass for most of what the data say of one.

    Where parameters nearly cancel, the sum of their columns is mostly the columns' errors: those
    would pass for information. So along each weak right singular vector v of the scaled Jacobian
    the derivative is differenced directly, over about one standard error, and the Jacobian changed
    by the rank-one update that gives J v that value (Broyden, Math. Comp. 19, 1965). A vector that
    the errors had tilted is nearly right the second time.
    """
    jacobian: Array = solution.jacobian.copy()
    # What a start changes soon fades, which looks like a jump.
    lasting = np.array([not unknown.of_single_runs for unknown in residuals.unknowns], dtype=bool)
    jumps = np.flatnonzero(have_jumps(jacobian) & lasting & ~residuals.exact)
    if len(jumps):
        each = np.eye(jacobian.shape[1])[jumps]
        measured, found = _along(residuals, solution, each, np.zeros(len(jumps)), _LONGEST)
        jacobian[:, jumps[found]] = measured
    norms = np.linalg.norm(jacobian, axis=0)
    live = np.flatnonzero(norms > 0)
    if len(live) < 2:  # noqa: PLR2004 (nothing cancels)
        return dataclasses.replace(solution, jacobian=jacobian)
    scaled = jacobian[:, live] / norms[live]
    # What an unknown does not act on, as other sequences and priors, it never does.
    untouched = scaled == 0
    least, longest = (_WHERE_JUMPS,) * 2 if solution.jumps else (_WEAK, _LONGEST)
    # What is left of the error falls quadratically from one round to the next, but not of jumps.
    for _ in range(1 if solution.jumps else 3):
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
    return dataclasses.replace(solution, jacobian=jacobian)


def unevenness(residuals: ResidualLike, solution: Solution) -> Array:
    """Return for each of (p,) unknowns how much of what it changes nearby is not what slopes say.

    An unknown is moved by a tenth of its standard error to either side, and with it the others as
    they make up for it. The sum of squares that slopes leave of the change, over that of what they
    say, is far below 1 where residuals are smooth. Where contacts open and close, slopes say
    nothing of the next point, and intervals that rest on them nothing of the truth. Of what belongs
    to single runs it is 0.
    """
    norms = np.linalg.norm(solution.jacobian, axis=0)
    live = np.flatnonzero(norms > 0)
    _, singular, right = np.linalg.svd(triangle(solution.jacobian[:, live] / norms[live]))
    seen = singular > threshold(len(singular))
    covariance = (right[seen].T / singular[seen] ** 2) @ right[seen]
    lasting = [not residuals.unknowns[column].of_single_runs for column in live]
    moved = live[lasting]
    moves = np.zeros((len(moved), len(norms)))
    deviations = np.sqrt(np.diag(covariance))[lasting, None]
    moves[:, live] = (
        _NEARBY * covariance[lasting] / np.where(deviations > 0, deviations, 1.0) / norms[live]
    )
    values = np.clip(solution.x + np.concatenate([moves, -moves]), *bounds_of(residuals.unknowns))
    changes = residuals(values) - solution.residual[:, None]
    said = solution.jacobian @ (values - solution.x).T
    sizes = np.maximum(np.sum(said**2, axis=0), np.finfo(np.float64).tiny)
    found = np.zeros(len(norms))
    left = np.sum((changes - said) ** 2, axis=0) / sizes
    found[moved] = left.reshape(2, -1).max(axis=0)
    return found


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
        length = float(np.linalg.norm(slope))
        if skew >= length > 0:  # noise is all that they tell
            continue
        length = max(length, np.finfo(np.float64).tiny)
        slopes.append(slope * np.sqrt(max(1 - (skew / length) ** 2, 0.0)))
        known[place] = True
    return np.reshape(slopes, (len(slopes), len(solution.residual))).T, known
