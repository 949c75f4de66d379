# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The shift in time of the measurements that leaves least for the parameters to explain."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    ResidualAt = Callable[[NDArray[np.float64]], NDArray[np.float64]]

#: A squared slope of the cost, in units of its variance, above this is worth a search.
_HINT = 3.0
#: The residuals at so many shifts are kept in case that they are asked for again.
_MOST_KNOWN = 8
#: The scan has about so many points on each side of zero, at multiples of half a time step.
_POINTS = 16
#: The common shift is found to this fraction of the scan's spacing.
_PRECISION = 1e-4
#: The shifts of the sequences are refined by at most so many Gauss-Newton steps.
_NEWTON_STEPS = 6
#: Curvature below this fraction of the largest does not say where a minimum is.
_SMALLEST_CURVATURE = 1e-9
#: The derivative by a shift is a difference over this fraction of the time step.
_NUDGE = 0.5
#: The search over one sequence after the other ends after so many rounds at the latest.
_ROUNDS = 10
#: A cost must fall by this fraction for a shift to be preferred over a smaller one.
_SMALLEST_GAIN = 1e-9
#: The variance of the score is estimated from the scores of about so many stretches of time, each
#: of at least so many residuals.
_BLOCKS, _BLOCK_SIZE = 24, 8
#: Squared singular values of the scaled Jacobian below this fraction of the largest carry no
#: information, or drown in rounding.
_SMALLEST_SINGULAR = 1e-12


class Sums(NamedTuple):
    """What the cost of any combination of shifts is made of, by sequence.

    ‖r⊥‖² = Σ ‖r_s‖² - ‖Σ Q_sᵀ r_s‖², with Q an orthonormal basis of the Jacobian's columns.
    """

    square: NDArray[np.float64]
    along: NDArray[np.float64]

    def cost(self) -> float:
        """Return the sum of the squares of what the parameters cannot absorb."""
        return max(float(self.square.sum() - np.sum(self.along.sum(axis=0) ** 2)), 0.0)


class MovedResiduals:
    """The residuals at moved stamps, in order of sequence, channel and time."""

    def __init__(
        self,
        residual_at: ResidualAt,
        jacobian: NDArray[np.float64],
        groups: NDArray[np.int64],
        limit: float,
        timestep: float,
        times: ArrayLike | None,
        channels: ArrayLike | None,
    ) -> None:
        n = len(groups)
        instants = np.arange(n, dtype=np.float64) if times is None else np.asarray(times, float)
        sensors = np.zeros(n, dtype=np.int64) if channels is None else np.asarray(channels)
        self.sequences = int(groups.max()) + 1
        self._residual_at = residual_at
        self._known: dict[bytes, NDArray[np.float64]] = {}
        self._limit = limit
        self._nudge = min(_NUDGE * timestep, limit)
        kept = np.ones(n, dtype=bool)
        for shift in (-limit, 0.0, limit):
            kept &= np.isfinite(self._all_at(np.full(self.sequences, shift)))
        order = np.lexsort((instants, sensors, groups))
        self.rows = order[kept[order]]
        self._groups = groups[self.rows]
        self._bounds = np.searchsorted(self._groups, np.arange(self.sequences + 1))
        self._sensors = sensors[self.rows]
        self._instants = instants[self.rows]
        self.basis = _basis(jacobian[self.rows])

    def at(self, shifts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the residuals with each sequence moved by its shift."""
        return self._all_at(shifts)[self.rows]

    def _all_at(self, shifts: NDArray[np.float64]) -> NDArray[np.float64]:
        key = shifts.tobytes()
        if key in self._known:
            return self._known[key]
        residual = self._residual_at(shifts)
        if len(self._known) < _MOST_KNOWN:
            self._known[key] = residual
        return residual

    def hint(self) -> bool:
        """Return whether a shift might explain anything, from few evaluations.

        One that does shows as a slope of the cost at zero, or as a lower cost at one of a few
        shifts over the range. The slope is judged as if residuals were independent, which cries
        wolf rather than being silent.
        """
        zero = np.zeros(self.sequences)
        here = self.at(zero)
        rest, slopes = self.projected(here), self.slopes(zero, here)
        cost = float(rest @ rest)
        if not cost > 0:
            return False
        variance = cost / max(len(rest) - self.basis.shape[1], 1)
        bare = self.projected(slopes)
        scores, powers = [float(bare @ rest)], [float(bare @ bare)]
        for sequence in range(self.sequences if self.sequences > 1 else 0):
            part = self.part(sequence)
            own = slopes[part] - self.basis[part] @ (slopes[part] @ self.basis[part])
            scores.append(float(own @ rest[part]))
            powers.append(float(own @ own))
        squares = np.square(scores) / np.maximum(np.array(powers) * variance, 1e-300)
        if squares.max() > _HINT + 2 * np.log(len(squares)):
            return True
        around = self._limit * np.array([-1.0, -0.5, 0.5, 1.0])
        costs = [self.sums(np.full(self.sequences, shift)).cost() for shift in around]
        return bool(min(costs) < cost - _HINT * variance)

    def part(self, sequence: int) -> slice:
        """Return where a sequence's residuals are."""
        return slice(self._bounds[sequence], self._bounds[sequence + 1])

    def slopes(self, shifts: NDArray[np.float64], here: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the derivatives of the residuals by their sequence's shift, 1/s.

        Args:
            shifts: (S,) where, s.
            here: Residuals there.
        """
        # Towards zero, where the predictions reach.
        nudges = np.where(shifts > 0, -self._nudge, self._nudge)
        slopes: NDArray[np.float64] = (self.at(shifts + nudges) - here) / nudges[self._groups]
        return slopes

    def newton_step(self, shifts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the Gauss-Newton step of the shifts of all sequences, s."""
        here = self.at(shifts)
        slopes, rest = self.slopes(shifts, here), self.projected(here)
        parts = [self.part(sequence) for sequence in range(self.sequences)]
        along = np.array([slopes[part] @ self.basis[part] for part in parts])
        curvature = np.diag([slopes[part] @ slopes[part] for part in parts]) - along @ along.T
        gradient = np.array([slopes[part] @ rest[part] for part in parts])
        step: NDArray[np.float64] = (
            -np.linalg.pinv(curvature, rcond=_SMALLEST_CURVATURE, hermitian=True) @ gradient
        )
        return step

    def sums(self, shifts: NDArray[np.float64]) -> Sums:
        """Return the sums that the cost is made of."""
        residual = self.at(shifts)
        parts = [self.part(sequence) for sequence in range(self.sequences)]
        square = np.array([residual[part] @ residual[part] for part in parts])
        along = np.array([residual[part] @ self.basis[part] for part in parts])
        wild = ~np.isfinite(square)
        square[wild], along[wild] = np.inf, 0.0
        return Sums(square, along)

    def projected(self, residual: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what the parameters cannot absorb of some residuals."""
        rest: NDArray[np.float64] = residual - self.basis @ (residual @ self.basis)
        return rest

    def follows(self, part: slice) -> NDArray[np.bool_]:
        """Return which residuals of a part follow another one of the same sensor."""
        groups, sensors = self._groups[part], self._sensors[part]
        follows = np.zeros(len(groups), dtype=bool)
        follows[1:] = (groups[1:] == groups[:-1]) & (sensors[1:] == sensors[:-1])
        return follows

    def blocks(self, part: slice) -> NDArray[np.int64]:
        """Return the stretch of time that each residual of a part belongs to."""
        groups, instants = self._groups[part], self._instants[part]
        stretch = np.zeros(len(groups), dtype=np.int64)
        total = min(_BLOCKS, len(groups) // _BLOCK_SIZE)
        first = 0
        for group in np.unique(groups):
            rows = np.flatnonzero(groups == group)
            count = max(round(total * len(rows) / len(groups)), 1)
            # Residuals of the same instant stay together.
            rank = np.searchsorted(np.sort(instants[rows]), instants[rows])
            stretch[rows] = first + rank * count // len(rows)
            first += count
        return stretch


def _basis(jacobian: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return an orthonormal (n, rank) basis of the columns."""
    norms = np.linalg.norm(jacobian, axis=0)
    seen = np.isfinite(norms) & (norms > 0)
    if not seen.any():
        return np.zeros((len(jacobian), 0))
    columns = jacobian if seen.all() else jacobian[:, seen]
    values, vectors = np.linalg.eigh(columns.T @ columns / np.outer(norms[seen], norms[seen]))
    kept = values > _SMALLEST_SINGULAR * values[-1]
    weights = vectors[:, kept] / np.sqrt(values[kept]) / norms[seen, None]
    basis: NDArray[np.float64] = columns @ weights
    return basis


def shifts_to_try(timestep: float, limit: float) -> NDArray[np.float64]:
    """Return the shifts to try first: zero, half a step, a step, and a spaced scan of the range."""
    spacing = timestep / 2 * max(np.ceil(2 * limit / timestep / _POINTS), 1)
    scan = spacing * np.arange(int(limit / spacing * (1 + 1e-12)) + 1)
    near = np.array([timestep / 2, timestep, limit])
    right = np.unique(np.round(np.concatenate([scan, near[near <= limit]]), 12))
    return np.concatenate([-right[:0:-1], right])


def best_common(moved: MovedResiduals, table: Sums, grid: NDArray[np.float64]) -> tuple[float, int]:
    """Return the best shift common to all sequences, and its place on the grid."""
    costs = np.array([Sums(*sums).cost() for sums in zip(*table, strict=True)])
    place = _least(costs, grid, costs[len(grid) // 2])
    low, high = grid[max(place - 1, 0)], grid[min(place + 1, len(grid) - 1)]
    found = scipy.optimize.minimize_scalar(
        lambda shift: moved.sums(np.full(moved.sequences, shift)).cost(),
        bounds=(low, high),
        method='bounded',
        options={'xatol': (high - low) * _PRECISION},
    )
    better = found.fun < costs[place] * (1 - _SMALLEST_GAIN)
    return float(found.x if better else grid[place]), place


def _least(costs: NDArray[np.float64], grid: NDArray[np.float64], scale: float) -> int:
    """Return the place of the least cost; of equal ones, that of the smallest shift."""
    near = np.flatnonzero(costs <= costs.min() + _SMALLEST_GAIN * scale)
    return int(near[np.argmin(np.abs(grid[near]))])


def best_separate(
    moved: MovedResiduals, table: Sums, grid: NDArray[np.float64], place: int
) -> NDArray[np.float64]:
    """Return the best shift of each sequence, first on the grid, then all at once between.

    A sequence that the others and the parameters leave free to move stays where it is.
    """
    every = np.arange(moved.sequences)
    places = np.full(moved.sequences, place)
    for _ in range(_ROUNDS):
        before = places.copy()
        for sequence in every:
            along = table.along[places, every].sum(axis=0) - table.along[places[sequence], sequence]
            sums = along + table.along[:, sequence]
            costs = table.square[:, sequence] - np.sum(sums**2, axis=-1)
            places[sequence] = _least(costs, grid, table.square[len(grid) // 2, sequence])
        if np.array_equal(places, before):
            break
    low, high = grid[np.maximum(places - 1, 0)], grid[np.minimum(places + 1, len(grid) - 1)]
    shifts: NDArray[np.float64] = grid[places]
    cost = Sums(table.square[places, every], table.along[places, every]).cost()
    for _ in range(_NEWTON_STEPS):
        trial = np.clip(shifts + moved.newton_step(shifts), low, high)
        found = moved.sums(trial).cost()
        if not found < cost * (1 - _SMALLEST_GAIN):
            break
        shifts, cost = trial, found
    return shifts
