# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Residual functions, and their derivatives by differences whose steps fit their noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.schema import ACCURACY
from sysid_ros.errors import FitError
from sysid_ros.model.targets import Unknown

#: The first step, in units of a parameter's value: both the curvature and the noise of smooth
#: simulations are then below 1e-5 of the derivative.
STEP = float(np.finfo(np.float64).eps) ** (1 / 3)
#: A part that makes little difference: a parameter's scale is at least this part of its bounds,
#: a value near zero counts as this part of its scale, and no step is a larger part of a value, …
SMALL = 0.02
#: … but for this one where residuals jump.
_LONGEST = 0.2
#: Later steps are the solve's tolerance in standard errors, and columns as accurate as this part of
#: it: a relative error of a column moves the optimum by about so many standard errors.
_PART = 0.5
#: Columns share simulations where each changes what the others do by less than this part.
_SHARED = 0.05
#: A logarithmic value that may be zero is linear below this part of its start.
_OFFSET = 0.1
#: Less than this part of the largest eigenvalue or square is rounding.
NEGLIGIBLE = 1e-12
#: Where residuals jump, slopes hold over so many standard errors. They jump where short steps
#: change them by the second part more, or otherwise, than long ones say.
_WIDE, _APART = 3.0, 0.3
#: What is so many times as large is clearly larger: the change of a residual that jumps than the
#: root mean square of all, motion than noise.
CLEARLY = 10.0
_TINY = float(np.finfo(np.float64).tiny)

FORWARD, CENTRAL = 'forward', 'central'
#: In place of a sensor's index: the residual is not of a measurement but of a prior.
PRIOR = -1
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Samples:
    """What each residual is."""

    # (n,) index of the sequence; for the prior of what belongs to one sequence, that.
    sequence: NDArray[np.int64]
    time: Array  # (n,) seconds from the sequence's start
    # (n,) index into 'sensors'; 'PRIOR' for what is not a measurement.
    sensor: NDArray[np.int64]
    sensors: tuple[str, ...]  # names of the sensors
    # (n,) what is expected of the square of a residual that is not of a measurement; None where
    # that is 1 for each.
    variance: Array | None = None
    # For each sequence, the recording that it is from; empty where each is one.
    bags: tuple[str, ...] = ()
    # Sensor to the step of its encoder, in units of its noise; empty where they are not known.
    encoder_steps: Mapping[str, float] = field(default_factory=dict)
    forces: bool = False  # whether one of the sensors reads forces or torques


class StepChanges(NamedTuple):
    """Residuals at a point and their changes by a step of each unknown."""

    residual: Array  # (n,) at the point
    # (n, p) r(x + step_j e_j) - r(x); a column known as a formula holds the step times the
    # derivative, one that was not asked for zeros.
    changes: Array
    diverged: NDArray[np.bool_]  # (p,) whether the moved candidate's simulation became unstable
    unstable: bool  # whether that of the point did
    # (p, s) norms of the changes of each sensor's residuals; None where residuals have no sensors.
    reach: Array | None = None


class Sharing(NamedTuple):
    """Which steps may be made in one simulation, as columns of sparse Jacobians may.

    A. R. Curtis, M. J. D. Powell and J. K. Reid, "On the estimation of sparse Jacobian matrices",
    IMA J. Appl. Math. 13, 1974. Here entries are not zero but small.
    """

    apart: NDArray[np.bool_]  # (p, p) which may not
    own: NDArray[np.bool_]  # (p, s) on which sensors an unknown's changes are not negligible


class ResidualLike(Protocol):
    """What a solver needs of a residual function."""

    unknowns: tuple[Unknown, ...]  # what the values are

    @property
    def unstable(self) -> NDArray[np.bool_]:
        """Return (m,) whether each candidate of the last call became unstable."""

    @property
    def diverged(self) -> int:
        """Return the number of simulations that became unstable so far."""

    @property
    def evaluations(self) -> int:
        """Return the number of simulations so far: candidates times sequences."""

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Return which of the (p,) columns have no noise of a difference."""

    def __call__(self, candidates: Array) -> Array:
        """Return the (n, m) residuals of (m, p) candidates, finite also where they diverge."""

    def step_changes(
        self,
        x: Array,
        steps: Array,
        columns: NDArray[np.bool_] | None = None,
        base: Array | None = None,
        sharing: Sharing | None = None,
    ) -> StepChanges:
        """Evaluate a point and one step of each unknown in one batch.

        Args:
            x: (p,) values.
            steps: (p,) signed, in the unknowns' units.
            columns: (p,) which steps are wanted; all unless given.
            base: (n,) residuals at ``x`` where they are known.
            sharing: Which steps may share a simulation, where that is known.
        """


@runtime_checkable
class CurvedResiduals(ResidualLike, Protocol):
    """Residuals whose curvature is known, too: derivatives anywhere cost hardly anything.

    Attributes:
        more: How many samples they stand for beyond their own number.
    """

    more: int

    def bending(self, x: Array, residual: Array) -> Array:
        """Return the (p, p) sum of (n,) residuals times second derivatives at (p,) values."""

    def followed(self, x: Array, move: Array, free: NDArray[np.bool_]) -> Array:
        """Return (p,) values whose residuals are what a straight move would leave of straight ones.

        Only the (p,) free ones differ from where the move leads.
        """


class FunctionResiduals:
    """A plain vectorised function as residuals; not finite ones count as diverged.

    Attributes are those of `ResidualLike`; every column is a difference.
    """

    def __init__(self, function: Callable[[Array], Array], unknowns: Sequence[Unknown]) -> None:
        """Wrap a function that maps (m, p) candidates to (n, m) residuals."""
        self._function = function
        self.unknowns = tuple(unknowns)
        self.evaluations = self.diverged = 0
        self.unstable = np.zeros(0, dtype=bool)
        self.exact = np.zeros(len(self.unknowns), dtype=bool)

    def __call__(self, candidates: Array) -> Array:
        """Return the (n, m) residuals of (m, p) candidates."""
        residual = np.asarray(self._function(candidates), dtype=np.float64)
        if residual.ndim != 2 or residual.shape[1] != len(candidates):  # noqa: PLR2004
            raise FitError(
                f'Expected residuals of shape (n, {len(candidates)}) for {len(candidates)} '
                f'candidates, got {residual.shape}.'
            )
        self.unstable = np.asarray(~np.isfinite(residual).all(axis=0))
        self.evaluations += len(candidates)
        self.diverged += int(self.unstable.sum())
        return residual

    def step_changes(
        self,
        x: Array,
        steps: Array,
        columns: NDArray[np.bool_] | None = None,
        base: Array | None = None,
        sharing: Sharing | None = None,  # noqa: ARG002 (there are no sensors)
    ) -> StepChanges:
        """Evaluate a point and one step of each unknown in one call of the function."""
        wanted = np.arange(len(x)) if columns is None else np.flatnonzero(columns)
        moved = np.tile(x, (len(wanted), 1))
        moved[np.arange(len(wanted)), wanted] += steps[wanted]
        first = 1 if base is None else 0
        values = self(np.concatenate([x[None, :], moved]) if first else moved)
        residual = values[:, 0] if base is None else base
        changes = np.zeros((len(residual), len(x)))
        changes[:, wanted] = values[:, first:] - residual[:, None]
        diverged = np.zeros(len(x), dtype=bool)
        diverged[wanted] = self.unstable[first:]
        return StepChanges(residual, changes, diverged, unstable=bool(first and self.unstable[0]))


class Linearisation(NamedTuple):
    """Residuals at a point and their derivative."""

    x: Array  # (p,) values there
    residual: Array  # (n,) residuals
    jacobian: Array  # (n, p) derivative by the values, per unit of each; it may be mended in place
    unstable: bool = False  # whether the simulation became unstable there


def scales(unknowns: Sequence[Unknown]) -> Array:
    """Return the (p,) magnitudes of unknowns, in their units, never zero."""
    nominal = np.array([abs(unknown.nominal) for unknown in unknowns])
    spans = np.array([unknown.max_value - unknown.min_value for unknown in unknowns])
    scale = np.maximum(nominal, np.where(np.isfinite(spans), SMALL * spans, 0.0))
    return np.where(scale > 0, scale, 1.0)


class Variables:
    """The scaled variables, in which a solver makes its steps.

    That of a linear parameter is the value over its scale, that of a logarithmic one its logarithm.
    Where a logarithmic one may be zero, it is the logarithm of the value and an offset, which is
    linear near zero. The (p,) bounds of the variables are ``lower`` and ``upper``.
    """

    def __init__(self, unknowns: Sequence[Unknown]) -> None:
        self._log = np.array([unknown.scale == 'log' for unknown in unknowns], dtype=bool)
        self._low = np.array([unknown.min_value for unknown in unknowns])
        self._high = np.array([unknown.max_value for unknown in unknowns])
        nominal = np.array([unknown.nominal for unknown in unknowns])
        offset = _OFFSET * np.maximum(nominal, SMALL * scales(unknowns))
        self._offset = np.where(self._log & (self._low == 0), offset, 0.0)
        self._scale = np.where(self._log, 1.0, scales(unknowns))
        self.lower, self.upper = self.of(self._low), self.of(self._high)

    def of(self, x: Array) -> Array:
        """Return the (p,) variables of values."""
        with np.errstate(divide='ignore', invalid='ignore'):
            return np.where(self._log, np.log(x + self._offset), x / self._scale)

    def start(self, x: Array) -> Array:
        """Return the (p,) variables of values that are moved into the bounds."""
        z = self.of(np.clip(x, self._low, self._high))
        inside: Array = np.clip(z, self.lower, self.upper)
        return inside

    def values(self, z: Array) -> Array:
        """Return the (p,) values, inside the bounds, of variables."""
        with np.errstate(over='ignore'):
            raised = np.exp(np.where(self._log, z, 0.0)) - self._offset
        x = np.where(self._log, raised, z * self._scale)
        clipped: Array = np.clip(x, self._low, self._high)
        return clipped

    def slope(self, z: Array) -> Array:
        """Return the (p,) derivative of the values by the variables."""
        return np.where(self._log, self.values(z) + self._offset, self._scale)

    def bending(self, z: Array, bending: Array, gradient: Array) -> Array:
        """Return a (p, p) second derivative by values as that by the variables.

        The (p,) gradient is that by the variables.
        """
        slope = self.slope(z)
        return np.asarray(np.outer(slope, slope) * bending + np.diag(self._log * gradient))


def column_norms(matrix: Array) -> Array:
    """Return the (p,) norms of the columns of an (n, p) matrix, without a copy of it."""
    found: Array = np.sqrt(np.einsum('ij,ij->j', matrix, matrix))
    return found


def have_jumps(columns: Array) -> NDArray[np.bool_]:
    """Return (k,) whether one residual makes so much of a column as a jump does."""
    largest = np.max(np.abs(columns), axis=0, initial=0.0)
    found: NDArray[np.bool_] = largest > CLEARLY * column_norms(columns) / np.sqrt(len(columns))
    return found


def leave_jumps_out(one: Array, other: Array) -> None:
    """Give both sides of differences the smaller change where they differ as by a jump.

    A joint that breaks away a sample sooner for the smallest step changes a few residuals by more
    than anything else does, and would pass for most of what the data say of a parameter. The (n, k)
    slopes to both sides are changed in place.
    """
    apart = np.abs(one - other)
    jumps = apart > CLEARLY * np.sqrt(np.mean(apart**2, axis=0))
    smaller = np.where(np.abs(one[jumps]) < np.abs(other[jumps]), one[jumps], other[jumps])
    one[jumps] = other[jumps] = smaller


class Differences:
    """Steps of the differences, chosen once per parameter and kept for a solve.

    Two-point differences that point away from the nearer bound, all columns in one batch. A column
    whose neighbour diverged is differenced towards the other side.

    Attributes:
        size: (p,) steps in units of the values, or of a part of the scales for values near zero.
        central: (p,) which columns are central differences.
        checked: (p,) which columns were found to be right, or made so.
        wide: (p,) which columns are slopes over standard errors, for residuals that jump.
        shared: Whether the last Jacobian is of simulations that columns shared.
    """

    def __init__(
        self, residuals: ResidualLike, tolerance: float = ACCURACY, *, sharing: bool = True
    ) -> None:
        """Begin with the steps of a smooth problem; columns may share simulations, or not."""
        unknowns = residuals.unknowns
        self._residuals = residuals
        self._lower = np.array([unknown.min_value for unknown in unknowns])
        self._upper = np.array([unknown.max_value for unknown in unknowns])
        self._scale = scales(unknowns)
        log = np.array([unknown.scale == 'log' for unknown in unknowns], dtype=bool)
        self._never_zero = log & (self._lower > 0)
        self.size = np.full(len(unknowns), STEP)
        self.central = np.zeros(len(unknowns), dtype=bool)
        self.checked = residuals.exact.copy()
        self.wide = np.zeros(len(unknowns), dtype=bool)
        self._tolerance = tolerance
        self._slopes = np.zeros(len(unknowns))
        self._noise = 1.0
        #: How many residuals say as much as one that is independent of others.
        self.alike = 1.0
        #: Whether the last Jacobian is of longer steps than this tolerance asks for.
        self.rough = False
        self._rough_size = np.full(len(unknowns), np.nan)
        self._expected = np.full(len(unknowns), np.inf)
        self._sensors = getattr(getattr(residuals, 'samples', None), 'sensors', ())
        self._reach: Array | None = None  # (p, s) slopes of each sensor's residuals, once known
        self._may_share, self.shared = sharing, False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the unknowns that are differenced centrally."""
        named = zip(self._residuals.unknowns, self.central, strict=True)
        return tuple(unknown.name for unknown, central in named if central)

    def take_steps(self, other: Differences) -> None:
        """Take over what was found for other residuals of unknowns with the same names."""
        names = [unknown.name for unknown in self._residuals.unknowns]
        known = [unknown.name for unknown in other._residuals.unknowns]
        _, own, theirs = np.intersect1d(names, known, return_indices=True)
        self.checked[own] |= other.checked[theirs]
        for name in ('size', 'central', 'wide', '_slopes'):
            getattr(self, name)[own] = getattr(other, name)[theirs]
        self._noise, self.alike = other._noise, other.alike
        longer = other._tolerance > self._tolerance
        self.rough = other.rough or longer
        self._rough_size[own] = (other.size if longer else other._rough_size)[theirs]
        if other._reach is not None and other._sensors == self._sensors:
            # What is not known is apart from all others.
            self._reach = np.full((len(names), len(self._sensors)), np.inf)
            self._reach[own] = other._reach[theirs]
        self.shared = other.shared

    def expect(self, jacobian: Array) -> None:
        """Take the next columns for those of jumps where they are larger than a rough solve's."""
        if self.rough:
            self._expected = column_norms(jacobian)

    def apart(self, found: Linearisation) -> None:
        """Let no columns share simulations any more, and mend those that did."""
        self._may_share = self.shared = self.rough = False
        narrow = ~self.wide
        jacobian = self.at(found.x, found.residual, narrow).jacobian
        found.jacobian[:, narrow] = jacobian[:, narrow]

    def _sharing(self, steps: Array) -> Sharing | None:
        """Return which columns may share simulations, as far as it is known."""
        if self._reach is None or not self._may_share:
            return None
        with np.errstate(invalid='ignore', over='ignore'):
            changes = self._reach * np.abs(steps)[:, None]
            norms = np.linalg.norm(changes, axis=1)
            told = np.isfinite(norms) & (norms > 0)
            own = ~told[:, None] | (changes > _SHARED * changes.max(axis=1, keepdims=True))
            # For each unknown, what each other one changes where it acts.
            others = np.sqrt(own @ np.where(told[:, None], changes, 0.0).T ** 2)
        apart = ~told | ~told[:, None] | (others > _SHARED * norms[:, None])
        apart |= apart.T
        return None if apart.all() else Sharing(apart, own)

    def at(
        self, x: Array, base: Array | None = None, columns: NDArray[np.bool_] | None = None
    ) -> Linearisation:
        """Linearise at a point, all columns in one batch.

        Args:
            x: (p,) values.
            base: (n,) residuals there where they are known.
            columns: (p,) which unknowns; all unless given, and else the others' are zero.
        """
        self._size_by_slopes(x)
        steps = self._steps(x)
        sharing = self._sharing(steps)
        around = self._residuals.step_changes(x, steps, columns, base, sharing)
        residual, jacobian = around.residual, around.changes
        jacobian /= steps
        if around.reach is not None:
            self._reach = np.full_like(around.reach, np.inf) if self._reach is None else self._reach
            new = np.ones(len(x), dtype=bool) if columns is None else columns
            self.shared = sharing is not None and bool(new.sum() > 1)
            # What is not known had no share in a simulation. Of the changes by first steps, which
            # are short, most may be jumps.
            new &= ~np.isfinite(self._reach).all(axis=1) | (sharing is None)
            new &= self._slopes > 0
            self._reach[new] = (around.reach / np.abs(steps)[:, None])[new]
        unstable = around.unstable or not np.all(np.isfinite(residual))
        found = Linearisation(x, residual, jacobian, unstable=unstable)
        if unstable:
            return found
        wild = around.diverged & ~self._residuals.exact
        if wild.any():
            other = self._residuals.step_changes(x, -steps, wild, residual)
            jacobian[:, wild] = other.changes[:, wild] / -steps[wild]
        central = self.central if columns is None else self.central & columns
        if central.any():
            central, middle, _ = self._sides(x, steps, central, residual, jacobian)
            jacobian[:, central] = middle
        norms = column_norms(jacobian)
        jumping = (norms > (1 + _APART) * self._expected) & ~self.wide
        if jumping.any():
            self.widen(found, jumping)
        if columns is None:
            self.rough, self._expected = False, np.full(len(x), np.inf)
        self._slopes = np.where(norms, norms, self._slopes)
        self._noise = max(float(np.sqrt(np.mean(residual**2))), _TINY)
        return found

    def check(self, found: Linearisation) -> bool:
        """Replace columns that a difference to one side does not give by central differences.

        All parameters move at once by their steps to the other side, or by half of them at a
        bound. For residuals that are smooth at this scale, that changes them by the sum of the
        columns; what is left over is curvature and noise. Columns that this could have spoilt are
        moved alone. The Jacobian of what ``at`` returned is mended in place; return whether it was.
        """
        x, residual, jacobian, _ = found
        steps = self._steps(x)
        changes = column_norms(jacobian) * np.abs(steps)
        judged = ~self.checked & ~self.central & (changes > 0)
        self.checked[:] = True
        if not judged.any():
            return False
        move = np.where(judged, np.where(self._is_inside(x - steps), -steps, steps / 2), 0.0)
        moved = self._residuals((x + move)[None, :])[:, 0]
        # What a column does not act on is left over by others.
        left = np.sqrt((moved - residual - jacobian @ move) ** 2 @ (jacobian != 0))
        limit = _PART * self._tolerance * changes * np.sqrt(judged.sum())
        doubted = judged & ((left > limit) | bool(self._residuals.unstable[0]))
        columns, middle, skew = self._sides(x, steps, doubted, residual, jacobian)
        wrong = skew > _PART * self._tolerance * column_norms(middle)
        jacobian[:, columns[wrong]] = middle[:, wrong]
        self.central[columns[wrong]] = True
        return bool(wrong.any())

    def widen(self, found: Linearisation, columns: NDArray[np.bool_] | None = None) -> bool:
        """Take slopes over standard errors where those of short steps say something else.

        Where a joint that sticks breaks away a sample earlier, residuals change by as much as they
        ever do for the smallest step. Slopes are then those between points on both sides; a solve
        stands at a point that happens to be better than those around it, which must not count. The
        Jacobian of what ``at`` returned is mended in place, in some columns or all; return whether
        it was.
        """
        x, residual, jacobian, _ = found
        if columns is None:
            columns = jacobian.any(axis=0) & ~(self._residuals.exact | self.wide)
        known = np.isfinite(self._rough_size)
        longer = np.where(known, _WIDE * self._rough_size, self._sized(x, _WIDE))
        longer = np.minimum(longer, _LONGEST)
        size, wide, self.wide = self.size, self.wide, self.wide | columns  # longer units near zero
        steps = self._steps(x, longer)
        ahead = self._residuals.step_changes(x, steps, columns, residual)
        columns = columns & ~ahead.diverged
        places, middle, skew = self._sides(x, steps, columns, residual, ahead.changes / steps)
        # Of jumps little is left over such steps, but of a curved valley more.
        told = _apart(middle, jacobian[:, places]) & (skew < (1 - _APART) * column_norms(middle))
        wide[places[told]] = True
        jacobian[:, places[told]] = middle[:, told]
        self.wide, self.size = wide, np.where(wide & columns, longer, size)
        self.central |= wide
        self.checked |= wide
        return bool(told.any())

    def _size_by_slopes(self, x: Array) -> None:
        """Choose steps by the slopes at the last point, values near zero by their scales."""
        known = (self._slopes > 0) & ~(self.wide | self._residuals.exact)
        size = self._sized(x, self._tolerance)
        longest = SMALL * np.maximum(self._scale / self._unit(x), 1.0)
        size = np.clip(size, np.minimum(self.size, STEP), longest)
        self.size = np.where(known, size, self.size)

    def _sized(self, x: Array, errors: float) -> Array:
        """Return the (p,) sizes of steps of so many standard errors, by the last slopes."""
        change = errors * self._noise * np.sqrt(self.alike)
        with np.errstate(over='ignore'):  # without an effect, a step is as long as it may be
            return np.asarray(change / np.maximum(self._slopes * self._unit(x), _TINY))

    def _steps(self, x: Array, size: Array | None = None) -> Array:
        """Return the (p,) signed steps, in the unknowns' units."""
        with np.errstate(invalid='ignore'):
            middle = (self._lower + self._upper) / 2
        # Half of the bounds' distance is there for a step away from the nearer one.
        room = (self._upper - self._lower) / 2
        length = np.minimum((self.size if size is None else size) * self._unit(x), room)
        # Without two finite bounds there is no middle: away from the one there is.
        down = np.where(np.isfinite(middle), x > middle, np.isfinite(self._upper))
        signed: Array = np.where(down, -length, length)
        # What is added in floating point is the step.
        return (x + signed) - x

    def _is_inside(self, x: Array) -> NDArray[np.bool_]:
        """Return (p,) whether values are inside the bounds."""
        inside: NDArray[np.bool_] = (x >= self._lower) & (x <= self._upper)
        return inside

    def _unit(self, x: Array) -> Array:
        """Return the (p,) values that steps are relative to; wide ones stay where values shrink."""
        least = np.where(self.wide, self._scale, SMALL * self._scale)
        unit: Array = np.maximum(np.abs(x), np.where(self._never_zero, 0.0, least))
        return unit

    def _sides(
        self, x: Array, steps: Array, columns: NDArray[np.bool_], residual: Array, ahead: Array
    ) -> tuple[NDArray[np.int64], Array, Array]:
        """Return mean slopes between both sides of values, without jumps.

        Where there is no room behind a value, the sides are those of the point a step ahead of it.
        """
        beside = self._is_inside(x - steps)
        away = np.where(beside, -steps, 2 * steps)
        found = columns & self._is_inside(x + away)
        if not found.any():
            return np.flatnonzero(found), ahead[:, :0], np.zeros(0)
        more = self._residuals.step_changes(x, away, found, residual, self._sharing(away))
        places = np.flatnonzero(found & ~more.diverged)
        one = ahead[:, places]
        other = more.changes[:, places] / steps[places]
        other = np.where(beside[places], -other, other - one)
        leave_jumps_out(one, other)
        middle = (one + other) / 2
        return places, middle, column_norms(one - middle)


def _apart(one: Array, other: Array) -> NDArray[np.bool_]:
    """Return (k,) whether columns differ by more than a part of the first."""
    apart: NDArray[np.bool_] = column_norms(one - other) > _APART * column_norms(one)
    return apart
