# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The derivative of residuals by differences whose steps fit the noise of the function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.estimation.solver.problem import ResidualLike
from sysid_ros.model.unknown import Unknown

#: Step in units of a parameter's value. Rollouts without constraints repeat to rounding, those
#: with friction and contacts to some 1e-13 of the state: at this step both the curvature and the
#: noise of smooth problems are below 1e-5 of the derivative.
_STEP = 2e-6
#: A value near zero counts as this part of the parameter's scale.
_LEAST_UNIT = 0.01
#: A step that changes the residuals by more than the first, root mean square and in units of the
#: noise, is made shorter, down to the third, unless even then they change by more than the second.
_LARGEST_CHANGE = 0.1
_JUMP = 0.2
_SMALLEST_STEP = 1e-9
#: A change below so many roundings of the largest residual is made larger by a longer step.
_ROUNDINGS = 1e5
_LONGEST_STEP = 1e-2
#: The scale of a parameter is its magnitude, or this fraction of its bounds where it is near zero.
_SCALE_OF_BOUNDS = 0.02
#: Steps are this part of the tolerance of the solve, in standard errors, and at most the second:
#: far above what simulations repeat to, and so short that few slopes change over them.
_PART, _LONGEST = 0.5, 0.05
#: Of residuals that are smaller than their noise, as those of exact data, the steps are as much
#: shorter, but no shorter than this part.
_EXACT = 1e-12
#: A relative error of a column moves the optimum by about so many standard errors: accurate
#: enough is a column with this part of the tolerance of the solve, at most the first, as intervals
#: rest on it, too. The second can be had, and less where the tolerance itself is near it.
_TOLERANCES = 0.3
_LEAST_ACCURATE, _ACCURATE, _ACCURATE_TOLERANCES = 3e-3, 3e-5, 3.0
#: Where a column is not accurate, a step is tried that would make it so many times as accurate as
#: it needs to be, if noise is what spoils it, or that of a standard error if that is shorter.
_DROWNED = 3.0
#: What noise made of a slope says little of its standard error: so many steps are tried at most,
#: each so many times longer than the one before.
_LENGTHENINGS, _LONGER = 4, 1.5
#: A step is found anew with columns that were wrong by so many times what is accurate enough.
_CHANGED = 30.0
#: Where residuals jump, as with every breakaway of a joint that sticks, slopes hold over so many
#: standard errors, and at most over this part of a value.
_WIDE, _LONGEST_COARSE = 3.0, 0.2
#: They count where those of short steps are apart from them by this part, and change the residuals
#: by so many times what short steps do. The steps are found in so many attempts, each at most so
#: many times longer than the one before.
_APART, _CLEAR, _WIDENINGS, _FASTEST = 0.3, 6.0, 6, 30.0
#: They do not where the sides differ by more than this part of their mean.
_BENT = 0.7
#: A residual jumps where its change to one side differs from that to the other by so many times
#: what is usual.
_JUMPS_APART = 8.0
#: Where there are many residuals, no single one is that part of the squares of a smooth column.
_MANY, _ONE_OF_MANY = 5000, 0.02

FORWARD = 'forward'
CENTRAL = 'central'


class Linearisation(NamedTuple):
    """Residuals at a point and their derivative.

    Attributes:
        x: (p,) values there.
        residual: (n,) residuals.
        jacobian: (n, p) derivative by the values, per unit of each; it may be mended in place.
        unstable: Whether the simulation became unstable there.
    """

    x: NDArray[np.float64]
    residual: NDArray[np.float64]
    jacobian: NDArray[np.float64]
    unstable: bool = False


class Probe(NamedTuple):
    """A move of all parameters at once that tells whether their columns add up.

    Attributes:
        move: (p,) by which the values are moved.
        changes: (p,) change of the residuals by each; infinite for columns that are not judged.
    """

    move: NDArray[np.float64]
    changes: NDArray[np.float64]


def scales(unknowns: Sequence[Unknown]) -> NDArray[np.float64]:
    """Return the (p,) magnitudes of unknowns, in their units, never zero."""
    nominal = np.array([abs(unknown.nominal) for unknown in unknowns])
    spans = np.array([unknown.max_value - unknown.min_value for unknown in unknowns])
    scale = np.maximum(nominal, np.where(np.isfinite(spans), _SCALE_OF_BOUNDS * spans, 0.0))
    return np.where(scale > 0, scale, 1.0)


def column_norms(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the (p,) norms of the columns of an (n, p) matrix, without a copy of it."""
    found: NDArray[np.float64] = np.sqrt(np.einsum('ij,ij->j', matrix, matrix))
    return found


def have_jumps(columns: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return (k,) whether one of many residuals makes so much of a column as a jump does."""
    largest = np.max(np.abs(columns), axis=0, initial=0.0)
    found: NDArray[np.bool_] = largest**2 > _ONE_OF_MANY * column_norms(columns) ** 2
    return found if len(columns) > _MANY else np.zeros_like(found)


def leave_jumps_out(one: NDArray[np.float64], other: NDArray[np.float64]) -> None:
    """Give both sides of differences the smaller change where they differ as by a jump.

    A joint that breaks away a sample sooner for the smallest step changes a few residuals by more
    than anything else does, and would pass for most of what the data say of a parameter.

    Args:
        one: (n, k) slopes to one side, changed in place.
        other: (n, k) to the other.
    """
    apart = np.abs(one - other)
    jumps = apart > _JUMPS_APART * np.sqrt(np.mean(apart**2, axis=0))
    smaller = np.where(np.abs(one[jumps]) < np.abs(other[jumps]), one[jumps], other[jumps])
    one[jumps] = other[jumps] = smaller


class _Sides(NamedTuple):
    """Differences to both sides.

    Attributes:
        columns: (k,) of which unknowns.
        middle: (n, k) mean of the slopes to both sides.
        skew: (k,) norm by which that to each side differs from it.
    """

    columns: NDArray[np.int64]
    middle: NDArray[np.float64]
    skew: NDArray[np.float64]


class Differences:
    """Steps of the differences, chosen once per parameter and kept for a solve.

    Two-point differences that point away from the nearer bound, all columns in one batch. A column
    whose neighbour diverged is differenced towards the other side. A step that changes the
    residuals by a visible part of the noise is too coarse for a derivative, its scale having come
    from wide bounds; shorter ones replace it from there on.

    Attributes:
        size: (p,) steps in units of the values, or of a part of the scales for values near zero.
        central: (p,) which columns are central differences.
        checked: (p,) which columns were found to be right, or made so.
        wide: (p,) which columns are slopes over standard errors.
        repairs: How often a column was differenced again with another step.
    """

    def __init__(self, residuals: ResidualLike, tolerance: float = 1.0) -> None:
        """Begin with the steps of a smooth problem.

        Args:
            residuals: The residual function.
            tolerance: How near to the optimum a solve is to end, in standard errors.
        """
        self._accurate = min(
            max(_TOLERANCES * tolerance, _ACCURATE),
            _ACCURATE_TOLERANCES * tolerance,
            _LEAST_ACCURATE,
        )
        unknowns = residuals.unknowns
        self._residuals = residuals
        self._lower = np.array([unknown.min_value for unknown in unknowns])
        self._upper = np.array([unknown.max_value for unknown in unknowns])
        self._scale = scales(unknowns)
        self._log = np.array([unknown.scale == 'log' for unknown in unknowns], dtype=bool)
        self.size = np.full(len(unknowns), _STEP)
        self.central = np.zeros(len(unknowns), dtype=bool)
        self.checked = residuals.exact.copy()
        self.wide = np.zeros(len(unknowns), dtype=bool)
        self._least = np.zeros(len(unknowns))
        self._slopes = np.zeros(len(unknowns))
        self._change = np.full(len(unknowns), min(_PART * tolerance, _LONGEST))
        self._noise = 1.0
        self.repairs = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the unknowns that are differenced centrally."""
        return tuple(
            unknown.name
            for unknown, central in zip(self._residuals.unknowns, self.central, strict=True)
            if central
        )

    def take_steps(self, other: Differences) -> None:
        """Take over what was found for other residuals of the same, or the first, unknowns."""
        count = len(other.size)
        self.size[:count], self.central[:count] = other.size, other.central
        self.checked[:count] |= other.checked
        self.wide[:count], self._least[:count] = other.wide, other._least
        self._slopes[:count], self._noise = other._slopes, other._noise
        self._change[:count] = other._change

    def at(
        self,
        x: NDArray[np.float64],
        base: NDArray[np.float64] | None = None,
        columns: NDArray[np.bool_] | None = None,
    ) -> Linearisation:
        """Linearise at a point, all columns in one batch.

        Args:
            x: (p,) values.
            base: (n,) residuals there where they are known.
            columns: (p,) which unknowns; all unless given, and else the others' are zero.
        """
        self._lengthen(x)
        steps = self._steps(x)
        around = self._residuals.step_changes(x, steps, columns, base)
        residual = around.residual
        jacobian = around.changes
        jacobian /= steps
        unstable = around.unstable or not np.all(np.isfinite(residual))
        found = Linearisation(x, residual, jacobian, unstable=unstable)
        if unstable:
            return found
        wild = around.diverged & ~self._residuals.exact
        if wild.any():
            other = self._residuals.step_changes(x, -steps, wild, residual)
            jacobian[:, wild] = other.changes[:, wild] / -steps[wild]
        self._adjust(found, steps)
        if self.central.any():
            self._centre(found)
        norms = column_norms(jacobian)
        self._slopes = np.where(norms > 0, norms, self._slopes)
        self._noise = float(np.clip(np.sqrt(np.mean(residual**2)), _EXACT, 1.0))
        return found

    def check(self, found: Linearisation) -> bool:
        """Look for columns that a difference of this step does not give; mend them.

        All parameters move at once by their steps to the other side, or by half of them at a
        bound. For residuals that are smooth at this scale, that changes them by the sum of the
        columns; what is left over is curvature and noise, or a jump.
        Columns that this could have spoilt are moved alone. Of those whose sides differ, central
        differences serve, over longer steps where these say something else: over steps in which
        noise is lost, but no longer than a standard error, over which jumps are lost as well.

        Args:
            found: What ``at`` returned; its Jacobian is mended in place.

        Returns:
            Whether a column was changed by much.
        """
        probe = self.probe(found)
        if probe is None:
            return False
        moved = self._residuals((found.x + probe.move)[None, :])[:, 0]
        return self.judge(found, probe, moved, unstable=bool(self._residuals.unstable[0]))

    def widen(self, found: Linearisation, alike: float = 1.0) -> bool:
        """Take slopes over standard errors where those of short steps say something else.

        Where a joint that sticks breaks away a sample earlier, residuals change by as much as they
        ever do for the smallest step. Slopes are then those between points on both sides, as far
        away as the change by the parameter is well above that; a solve stands at a point that
        happens to be better than those around it, which must not count.

        Args:
            found: What ``at`` returned; its Jacobian is mended in place.
            alike: How many neighbouring residuals say as much as one.

        Returns:
            Whether a column was changed.
        """
        x, residual, jacobian, _ = found
        norms = column_norms(jacobian)
        left = ~self._residuals.exact & (norms > 0)
        self._least = _CLEAR * norms * np.abs(self._steps(x)) / np.sqrt(len(residual))
        self.wide, wide = left.copy(), np.zeros(len(x), dtype=bool)
        worth, size = self._worth(found, left, alike)
        wider = np.zeros_like(jacobian)
        for _ in range(_WIDENINGS):
            if not left.any():
                break
            steps = self._steps(x, size)
            ahead = self._residuals.step_changes(x, steps, left, residual)
            # Where one side goes on as the slope has it, the other does so, too.
            apart = column_norms(ahead.changes - jacobian * steps)
            left &= ~ahead.diverged & (apart > _APART * column_norms(ahead.changes))
            sides = self._sides(x, steps, left, residual, ahead.changes / steps)
            length, places = np.abs(steps[sides.columns]), sides.columns
            across = column_norms(sides.middle) * length
            apart = column_norms(sides.middle - jacobian[:, places]) * length
            told = apart > _APART * across
            places, across, slopes = places[told], across[told], sides.middle[:, told]
            # Of jumps little is left over such steps, but of a curved valley more.
            wide[places] = sides.skew[told] * length[told] < _BENT * across
            wider[:, places] = slopes
            self.size[places] = np.where(wide[places], size[places], self.size[places])
            longer = (across < worth[places] / 2) & (size[places] < _LONGEST_COARSE)
            places, across, goal = places[longer], across[longer], worth[places[longer]]
            left[:] = False
            left[places] = True
            # What short steps change, too, tells nothing of how far the next one has to go.
            told = np.maximum(across - goal / _CLEAR, goal / _FASTEST)
            size[places] = np.minimum(size[places] * goal / told, _LONGEST_COARSE)
        self.wide = wide
        jacobian[:, wide] = wider[:, wide]
        self.central |= wide
        self.checked |= wide
        self.repairs += int(wide.sum())
        return bool(wide.any())

    def lengthen(self, found: Linearisation, alike: float) -> None:
        """Keep steps at their standard errors where slopes are over these.

        Args:
            found: What ``at`` returned.
            alike: How many neighbouring residuals say as much as one.
        """
        columns = self.wide & np.any(found.jacobian != 0, axis=0)
        _, size = self._worth(found, columns, alike)
        self.size[columns] = size[columns]

    def clear(self, count: int) -> float:
        """Return the norm of a change of so many residuals that jumps alone do not make."""
        return float(self._least[self.wide].max(initial=0.0) * np.sqrt(count))

    def _worth(
        self, found: Linearisation, columns: NDArray[np.bool_], alike: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (p,) norms by which wide steps change the residuals, and these steps."""
        norms = np.where(columns, column_norms(found.jacobian), 1.0)
        worth = np.maximum(_WIDE * np.sqrt(alike), self._least * np.sqrt(len(found.residual)))
        size = np.clip(worth / (norms * self._unit(found.x)), _SMALLEST_STEP, _LONGEST_COARSE)
        return worth, size

    def probe(self, found: Linearisation) -> Probe | None:
        """Return where `check` looks; None where no column is a difference to one side."""
        x, steps = found.x, self._steps(found.x)
        changes = column_norms(found.jacobian) * np.abs(steps)
        judged = ~self.checked & ~self.central & (changes > 0)
        self.checked[:] = True
        if not judged.any():
            return None
        inside = self._is_inside(x - steps)
        move = np.where(judged, np.where(inside, -steps, steps / 2), 0.0)
        return Probe(move, np.where(judged, changes, np.inf))

    def judge(
        self, found: Linearisation, probe: Probe, moved: NDArray[np.float64], *, unstable: bool
    ) -> bool:
        """Do the same as `check`, the probe being evaluated already.

        Args:
            found: What ``at`` returned; its Jacobian is mended in place.
            probe: From `probe`.
            moved: (n,) residuals after the probe's move.
            unstable: Whether the simulation became unstable after the probe's move.
        """
        judged = np.isfinite(probe.changes)
        left = moved - found.residual - found.jacobian @ probe.move
        # What a column does not act on is left over by others.
        left = np.sqrt(left**2 @ (found.jacobian != 0))
        limit = self._accurate * probe.changes * np.sqrt(judged.sum())
        doubted = judged & ((left > limit) | unstable)
        if not doubted.any():
            return False
        self.repairs += int(doubted.sum())
        before = found.jacobian[:, doubted]
        self._mend(found, doubted)
        changed = column_norms(found.jacobian[:, doubted] - before)
        return bool(np.any(changed > _CHANGED * self._accurate * column_norms(before)))

    def _mend(self, found: Linearisation, columns: NDArray[np.bool_]) -> None:
        """Replace columns whose sides differ by central differences.

        Args:
            found: What ``at`` returned; its Jacobian is mended in place.
            columns: (p,) which are doubted.
        """
        x, residual, jacobian, _ = found
        steps = self._steps(x)
        sides = self._sides(x, steps, columns, residual, jacobian)
        left, middle, skew = sides.columns, sides.middle, sides.skew
        norms = column_norms(middle)
        apart = skew > self._accurate * norms
        left, skew, norms = left[apart], skew[apart], norms[apart]
        jacobian[:, left], self._slopes[left] = middle[:, apart], norms
        self.central[left] = True
        unit = self._unit(x)
        # A value near zero may be moved by a part of its scale.
        most = _LONGEST_STEP * np.maximum(self._scale / unit, 1.0)
        for _ in range(_LENGTHENINGS):
            size = self.size.copy()
            norms = np.maximum(norms, np.finfo(np.float64).tiny)
            drowned = _DROWNED * skew / (self._accurate * norms) * size[left]
            size[left] = np.minimum(np.minimum(drowned, 1.0 / (norms * unit[left])), most[left])
            steps = self._steps(x, size)
            longer = size > _LONGER * self.size
            if not longer[left].any():
                return
            ahead = self._residuals.step_changes(x, steps, longer, residual)
            longer &= ~ahead.diverged
            sides = self._sides(x, steps, longer, residual, ahead.changes / steps)
            kept = np.isin(left, sides.columns)
            before, norms = skew[kept], norms[kept]
            left, middle, skew = sides.columns, sides.middle, sides.skew
            apart = column_norms(middle - jacobian[:, left]) > self._accurate * norms
            norms = column_norms(middle)
            # Sides that come apart do so by curvature, not by noise.
            kept = apart & (skew < before)
            left, skew, norms = left[kept], skew[kept], norms[kept]
            jacobian[:, left] = middle[:, kept]
            self.size[left], self._slopes[left] = size[left], norms
            self._change[left] = norms * np.abs(steps[left]) / self._noise
            # Where noise was all that the sides differed by, one of them serves.
            self.central[left] = skew >= self._accurate * norms

    def _lengthen(self, x: NDArray[np.float64]) -> None:
        """Lengthen steps that hardly change the residuals, by the slopes at the last point."""
        known = (self._slopes > 0) & ~(self.wide | self._residuals.exact)
        unit = self._unit(x)
        most = _LONGEST_STEP * np.maximum(self._scale / unit, 1.0)
        with np.errstate(divide='ignore', invalid='ignore'):
            size = self._change * self._noise / (self._slopes * unit)
        size = np.minimum(np.maximum(size, np.minimum(self.size, _STEP)), most)
        self.size = np.where(known, size, self.size)

    def _steps(
        self, x: NDArray[np.float64], size: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return the (p,) signed steps, in the unknowns' units."""
        with np.errstate(invalid='ignore'):
            middle = (self._lower + self._upper) / 2
        # Half of the bounds' distance is there for a step away from the nearer one.
        room = (self._upper - self._lower) / 2
        length = np.minimum((self.size if size is None else size) * self._unit(x), room)
        # Without two finite bounds there is no middle: away from the one there is.
        down = np.where(np.isfinite(middle), x > middle, np.isfinite(self._upper))
        signed: NDArray[np.float64] = np.where(down, -length, length)
        # What is added in floating point is the step.
        return (x + signed) - x

    def _is_inside(self, x: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return (p,) whether values are inside the bounds."""
        inside: NDArray[np.bool_] = (x >= self._lower) & (x <= self._upper)
        return inside

    def _unit(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (p,) values that steps are relative to; wide ones stay where values shrink."""
        least = np.where(self.wide, self._scale, _LEAST_UNIT * self._scale)
        unit: NDArray[np.float64] = np.maximum(np.abs(x), np.where(self._log, 0.0, least))
        return unit

    def _adjust(self, found: Linearisation, steps: NDArray[np.float64]) -> None:
        """Difference columns again whose change was too large or lost in rounding."""
        x, residual, jacobian, _ = found
        root = np.sqrt(len(residual))
        change = column_norms(jacobian) * np.abs(steps) / root
        free = ~self._residuals.exact & (change > 0)
        coarse = free & (change > _LARGEST_CHANGE) & (self.size > _SMALLEST_STEP)
        rounding = np.finfo(np.float64).eps * np.sqrt(np.mean(residual**2))
        fine = free & (change < _ROUNDINGS * rounding) & (self.size < _LONGEST_STEP)
        again = coarse | (fine & ~coarse)
        if not again.any():
            return
        target = np.where(coarse, _LARGEST_CHANGE, _ROUNDINGS * rounding)
        size = self.size * target / np.where(again, change, 1.0)
        low = np.where(coarse, _SMALLEST_STEP, self.size)
        high = np.where(coarse, self.size, _LONGEST_STEP)
        size = np.where(again, np.clip(size, low, high), self.size)
        renewed = self._steps(x, size)
        other = self._residuals.step_changes(x, renewed, again, residual)
        # A jump is as large for a short step: that would pass for a steep slope.
        shorter = column_norms(other.changes) / root
        jump = coarse & (shorter > np.sqrt(change * _LARGEST_CHANGE)) & (shorter > _JUMP)
        good = again & ~other.diverged & ~jump
        self.size = np.where(again & ~jump, size, self.size)
        jacobian[:, good] = other.changes[:, good] / renewed[good]
        self.repairs += int(again.sum())

    def _centre(self, found: Linearisation) -> None:
        """Turn two-point columns into means of both sides."""
        x, residual, jacobian, _ = found
        steps = self._steps(x)
        sides = self._sides(x, steps, self.central, residual, jacobian)
        jacobian[:, sides.columns] = sides.middle

    def _sides(
        self,
        x: NDArray[np.float64],
        steps: NDArray[np.float64],
        columns: NDArray[np.bool_],
        residual: NDArray[np.float64],
        ahead: NDArray[np.float64],
    ) -> _Sides:
        """Return slopes to both sides of values, without jumps, where they can be had.

        Where there is no room behind a value, the sides are those of the point a step ahead of it.

        Args:
            x: (p,) values.
            steps: (p,) signed steps ahead.
            columns: (p,) which unknowns.
            residual: (n,) residuals at ``x``.
            ahead: (n, p) slopes over the steps ahead.
        """
        beside = self._is_inside(x - steps)
        away = np.where(beside, -steps, 2 * steps)
        found = columns & self._is_inside(x + away)
        if not found.any():
            return _Sides(np.flatnonzero(found), ahead[:, found], np.zeros(0))
        more = self._residuals.step_changes(x, away, found, residual)
        places = np.flatnonzero(found & ~more.diverged)
        one = ahead[:, places]
        other = more.changes[:, places] / steps[places]
        other = np.where(beside[places], -other, other - one)
        leave_jumps_out(one, other)
        middle = (one + other) / 2
        return _Sides(places, middle, column_norms(one - middle))
