# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Residuals of simulations in which commands stay where they are, whatever the delay says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.model.targets import Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.estimation.residuals import Residuals
    from sysid_ros.estimation.solver.problem import StepChanges
    from sysid_ros.model.unknown import Unknown
    from sysid_ros.rollout.runs import Run


class Standing:
    """Residuals without what a delay does that is common to a sequence's commands.

    Each sequence has an arrival offset among the unknowns, which takes back the others' part.

    Attributes:
        bare: The residuals as they are.
        reference: (p,) candidate by whose delays the commands always act.
        common: (number of sequences, p) derivative of the common delay, that is of the mean.
        still: (p,) unknowns that are nothing but such a delay: they move nothing here.
    """

    def __init__(self, bare: Residuals) -> None:
        """Find which unknowns move the commands.

        Args:
            bare: The residuals as they are.
        """
        self.bare = bare
        self.reference = np.zeros(len(bare.unknowns))
        self.common = bare.common_delays()
        self.still = np.array([_only_delays(unknown) for unknown in bare.unknowns], dtype=bool)
        self.still &= np.all(np.isin(self.common, (0.0, 1.0)), axis=0)
        self._offsets = [
            next(j for j, unknown in enumerate(bare.unknowns) if _is_offset(unknown, run))
            for run in bare.runs
        ]
        self._partial = np.any(self.common != 0, axis=0) & ~self.still

    def __call__(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (n, m) residuals of (m, p) candidates."""
        values = self.bare(self._taken_back(candidates))
        values[self.bare.prior_rows] = self.bare.priors.residual(candidates).T
        return values

    def step_changes(
        self,
        x: NDArray[np.float64],
        steps: NDArray[np.float64],
        wanted: NDArray[np.bool_],
        base: NDArray[np.float64] | None,
    ) -> StepChanges:
        """Evaluate a candidate and its neighbours in one batch, as the bare residuals do."""
        columns = wanted & ~self.still
        columns[self._offsets] |= bool(np.any(columns & self._partial))
        around = self.bare.step_changes(self._taken_back(x[None])[0], steps, columns, base)
        changes = around.changes
        for run, offset in enumerate(self._offsets):
            rows = self.bare.rows(run)
            for column in np.flatnonzero((self.common[run] != 0) & self._partial & wanted):
                share = self.common[run, column] * steps[column] / steps[offset]
                changes[rows, column] -= share * changes[rows, offset]
        changes[:, self.still] = 0.0
        priors = self.bare.priors
        changes[self.bare.prior_rows] = -priors.matrix * np.where(wanted, steps, 0.0)
        around.residual[self.bare.prior_rows] = priors.residual(x[None])[0]
        return around

    def later(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (number of sequences, m) by how much later commands would act by the delays, s."""
        found: NDArray[np.float64] = self.common @ (candidates - self.reference).T
        return found

    def _taken_back(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = candidates.copy()
        found[:, self._offsets] -= self.later(candidates).T
        return found


def _only_delays(unknown: Unknown) -> bool:
    return all(
        target.attribute == 'arrival_offset'
        or (target.attribute == 'delay' and target.role is Role.COMMAND)
        for target in unknown.targets
    )


def _is_offset(unknown: Unknown, run: Run) -> bool:
    return any(
        target.attribute == 'arrival_offset' and target.name == run.sequence.name
        for target in unknown.targets
    )
