# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is known of the unknowns before the fit, as rows of the residual vector."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sysid_ros.model.targets import Unknown

#: Eigenvalues of a correlation matrix below this fraction of the largest are rounding errors.
_SMALLEST_EIGENVALUE = 1e-12


@dataclass(frozen=True)
class JointPrior:
    """A normal distribution of some parameters together.

    Attributes:
        names: Of the parameters, p of them.
        mean: (p,) most likely values, in the parameters' units.
        root: (p, r) matrix L with the inverse covariance L Lᵀ; the residuals are Lᵀ (mean - x).
        variance: What is expected of the square of each of these residuals. More than 1 where the
            data, whose residuals resemble their neighbours, count as more than they say: the prior
            then counts as more by the same factor, and is not surer for it.
    """

    names: tuple[str, ...]
    mean: NDArray[np.float64]
    root: NDArray[np.float64]
    variance: float = 1.0

    @classmethod
    def of(
        cls, names: Sequence[str], mean: NDArray[np.float64], covariance: NDArray[np.float64]
    ) -> JointPrior:
        """Return the distribution with a (p,) mean and a (p, p) covariance, positive definite."""
        deviation = np.sqrt(np.diag(covariance))
        values, vectors = np.linalg.eigh(covariance / np.outer(deviation, deviation))
        kept = values > _SMALLEST_EIGENVALUE * values.max(initial=0.0)
        root = (vectors[:, kept] / np.sqrt(values[kept])) / deviation[:, None]
        return cls(tuple(names), np.asarray(mean, dtype=np.float64), root)

    def weighted(self, factor: float, *, variance: float = 1.0) -> JointPrior:
        """Return the prior with another weight.

        Args:
            factor: On its information.
            variance: What is then expected of the square of its residuals.
        """
        return dataclasses.replace(self, root=np.sqrt(factor) * self.root, variance=variance)


@dataclass(frozen=True)
class PriorRows:
    """Residuals of priors, linear in the unknowns: ``offset - matrix @ x``.

    Attributes:
        matrix: (r, p).
        offset: (r,).
        variance: (r,) what is expected of the square of each.
        unknown: (r,) an unknown that each is about.
    """

    matrix: NDArray[np.float64]
    offset: NDArray[np.float64]
    variance: NDArray[np.float64]
    unknown: NDArray[np.int64]

    def residual(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (m, r) residuals of (m, p or more) candidates."""
        found: NDArray[np.float64] = (
            self.offset - candidates[:, : self.matrix.shape[1]] @ self.matrix.T
        )
        return found


def prior_rows(unknowns: Sequence[Unknown], memory: JointPrior | None = None) -> PriorRows:
    """Return a row for the prior of each unknown that has one, and then those of a joint prior.

    Args:
        unknowns: All of them, p in number.
        memory: Of some of the unknowns, by name.
    """
    own = [(j, unknown.prior) for j, unknown in enumerate(unknowns) if unknown.prior is not None]
    matrix = np.zeros((len(own), len(unknowns)))
    offset = np.zeros(len(own))
    for row, (j, (mean, deviation)) in enumerate(own):
        matrix[row, j] = 1.0 / deviation
        offset[row] = mean / deviation
    variance = np.ones(len(own))
    about = np.array([j for j, _ in own], dtype=np.int64)
    if memory is not None:
        joint = np.zeros((memory.root.shape[1], len(unknowns)))
        places = {unknown.name: j for j, unknown in enumerate(unknowns)}
        columns = np.array([places[name] for name in memory.names], dtype=np.int64)
        joint[:, columns] = memory.root.T
        matrix = np.concatenate([matrix, joint])
        offset = np.concatenate([offset, memory.root.T @ memory.mean])
        variance = np.concatenate([variance, np.full(len(joint), memory.variance)])
        about = np.concatenate([about, np.full(len(joint), columns[0] if len(columns) else 0)])
    return PriorRows(matrix, offset, variance, about)
