# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Spread of the estimates from how much recordings disagree, whatever happens inside of them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.estimation.layout import PRIOR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.inference.linear import Linear

#: Share of a recording in the information is kept below this, so that it can be left out.
_LARGEST_SHARE = 0.999


@dataclass(frozen=True)
class Recordings:
    """Scores of each recording, what belongs to it alone taken out, and how far these disagree.

    Attributes:
        columns: (k,) columns of the Jacobian that they are about: free, and not of one recording.
        scale: (k,) what those columns are divided by.
        information: (g, k, k) of each recording.
        scores: (g, k) of each, as the residuals of the fit give them.
        roots: (g, k, k) what puts back the part of the scores that the fit has taken out.
        inverse: (k, k) of the information of all recordings and priors.
        prior: (k, k) expected products of the scores of priors.
    """

    columns: NDArray[np.int64]
    scale: NDArray[np.float64]
    information: NDArray[np.float64]
    scores: NDArray[np.float64]
    roots: NDArray[np.float64]
    inverse: NDArray[np.float64]
    prior: NDArray[np.float64]

    @property
    def corrected(self) -> NDArray[np.float64]:
        """(g, k) scores as they are without a fit."""
        found: NDArray[np.float64] = np.einsum('gij,gj->gi', self.roots, self.scores)
        return found

    @functools.cached_property
    def covariance(self) -> NDArray[np.float64]:
        """(k, k) of the estimates, cluster-robust, a cluster being a recording."""
        meat = self.prior + self.corrected.T @ self.corrected
        scales = np.outer(self.scale, self.scale)
        found: NDArray[np.float64] = self.inverse @ meat @ self.inverse / scales
        return found

    @functools.cached_property
    def freedom(self) -> NDArray[np.float64]:
        """(k,) degrees of freedom of each variance: the effective number of recordings less one.

        That is Σ_g 1/w_g² - 1 for shares w_g of the information on a parameter (Carter, Schnepel
        and Steigerwald, Review of Economics and Statistics 99, 2017).
        """
        shares = np.array(
            [np.diag(self.inverse @ part @ self.inverse) for part in self.information]
        )
        weights = shares / np.maximum(np.sum(shares, axis=0), 1e-300)
        effective: NDArray[np.float64] = 1.0 / np.maximum(np.sum(weights**2, axis=0), 1e-300)
        return np.maximum(effective - 1.0, 1.0)


def recordings(linear: Linear) -> Recordings:
    """Return the scores of each recording.

    The scores of a recording are those of its residuals, corrected for the part that the fit has
    taken out of them: J_gᵀ (I - H_gg)^-½ r_g (CR2; Bell and McCaffrey, Survey Methodology 28,
    2002), which is (I - M_g A)^-½ J_gᵀ r_g with M_g = J_gᵀ J_g and A the inverse of their sum. What
    belongs to one recording only, as its start, is taken out beforehand.
    """
    single = np.array([linear.unknowns[c].of_single_runs for c in linear.free], dtype=bool)
    columns, passing = linear.free[~single], linear.free[single]
    scale = linear.scale[columns]
    own = linear.jacobian[:, columns] / scale
    group = linear.recording
    local = linear.jacobian[:, passing] / linear.scale[passing]
    everywhere = (linear.samples.sensor == PRIOR) & np.any(own != 0, axis=1)
    parts, scores = [], []
    for g in np.unique(group):
        rows = (group == g) & ~everywhere
        information, score = _reduced(own[rows], local[rows], linear.residual[rows])
        parts.append(information)
        scores.append(score)
    prior = own[everywhere]
    variance = linear.samples.variance
    expected = prior if variance is None else prior * np.sqrt(variance[everywhere, None])
    inverse = np.linalg.pinv(sum(parts) + prior.T @ prior, hermitian=True)
    roots = np.array([_inverse_root(information @ inverse) for information in parts])
    return Recordings(
        columns,
        scale,
        np.array(parts),
        np.array(scores),
        roots,
        inverse,
        expected.T @ expected,
    )


def _reduced(
    own: NDArray[np.float64], local: NDArray[np.float64], residual: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return information and score of one recording, its own unknowns taken out."""
    live = np.any(local != 0, axis=0)
    local = local[:, live]
    cross = own.T @ local
    removed = cross @ np.linalg.pinv(local.T @ local, hermitian=True)
    information = own.T @ own - removed @ cross.T
    return information, own.T @ residual - removed @ (local.T @ residual)


def _inverse_root(share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (I - S)^-½ of the share of one recording; its eigenvalues are real, 0 to 1."""
    values, vectors = np.linalg.eig(share)
    kept = np.clip(values.real, 0.0, _LARGEST_SHARE)
    found: NDArray[np.float64] = ((vectors / np.sqrt(1.0 - kept)) @ np.linalg.pinv(vectors)).real
    return found
