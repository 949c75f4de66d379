# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Residuals as a function of all unknowns but one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.estimation.solver.problem import Around

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.estimation.solver.problem import ResidualLike
    from sysid_ros.model.unknown import Unknown


class Held:
    """Residuals of which one unknown is held at a value.

    Attributes:
        unknowns: The others.
    """

    def __init__(self, residuals: ResidualLike, index: int, value: float) -> None:
        """Hold an unknown.

        Args:
            residuals: The residual function of all unknowns.
            index: Which.
            value: Its value.
        """
        self._residuals = residuals
        self._index = index
        self._value = value
        unknowns = residuals.unknowns
        self.unknowns: tuple[Unknown, ...] = (*unknowns[:index], *unknowns[index + 1 :])

    @property
    def unstable(self) -> NDArray[np.bool_]:
        """Whether each candidate of the last call became unstable."""
        return self._residuals.unstable

    @property
    def diverged(self) -> int:
        """Number of simulations that became unstable so far."""
        return self._residuals.diverged

    @property
    def evaluations(self) -> int:
        """Number of simulations so far."""
        return self._residuals.evaluations

    @property
    def exact(self) -> NDArray[np.bool_]:
        """(p - 1,) which columns have no noise of a difference."""
        return np.delete(self._residuals.exact, self._index)

    def __call__(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (n, m) residuals of (m, p - 1) candidates."""
        return self._residuals(np.insert(candidates, self._index, self._value, axis=1))

    def around(
        self,
        x: NDArray[np.float64],
        steps: NDArray[np.float64],
        columns: NDArray[np.bool_] | None = None,
        base: NDArray[np.float64] | None = None,
    ) -> Around:
        """Evaluate a point and one step of each of the others in one batch."""
        wanted = np.ones(len(x), dtype=bool) if columns is None else columns
        found = self._residuals.around(
            np.insert(x, self._index, self._value),
            np.insert(steps, self._index, 1.0),
            np.insert(wanted, self._index, False),
            base,
        )
        return Around(
            found.residual,
            np.delete(found.changes, self._index, axis=1),
            np.delete(found.wild, self._index),
            found.unstable,
        )
