# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Errors of arrival as a banded least-squares problem, beside the dense one."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray

from sysid_ros.estimation.arrivals.responses import System


@pytest.fixture
def responses() -> NDArray[np.float64]:
    """Return answers of 60 residuals to 12 errors, each for nine residuals."""
    rng = np.random.default_rng(3)
    found = np.zeros((60, 12))
    for column in range(12):
        found[4 * column : 4 * column + 9, column] = rng.standard_normal(9)
    return found


def dense(responses: NDArray[np.float64]) -> NDArray[np.float64]:
    return responses.T @ responses + np.eye(responses.shape[1])


def test_best_errors_are_those_of_the_dense_problem(responses: NDArray[np.float64]) -> None:
    rng = np.random.default_rng(4)
    residual, known = rng.standard_normal((60, 3)), rng.standard_normal((12, 3))
    moved = System(scipy.sparse.csr_array(responses)).best(residual, known)
    right = responses.T @ residual + known
    np.testing.assert_allclose(moved, -np.linalg.solve(dense(responses), right), atol=1e-12)
    # No other change leaves a smaller sum of squares.
    stacked = np.concatenate([residual + responses @ moved, known + moved])
    gradient = np.concatenate([responses, np.eye(12)]).T @ stacked
    np.testing.assert_allclose(gradient, 0.0, atol=1e-12)


def test_other_deviations_and_scales_are_a_system_built_anew(
    responses: NDArray[np.float64],
) -> None:
    rng = np.random.default_rng(5)
    residual = rng.standard_normal((60, 1))
    ratio, factor = rng.uniform(0.2, 5.0, 12), rng.uniform(0.2, 5.0, 60)
    system = System(scipy.sparse.csr_array(responses))
    for changed, built in (
        (system.times(ratio), responses * ratio),
        (system.scaled(factor), factor[:, None] * responses),
    ):
        expected = System(scipy.sparse.csr_array(built))
        np.testing.assert_allclose(changed.responses.toarray(), built, atol=1e-12)
        np.testing.assert_allclose(changed.best(residual), expected.best(residual), atol=1e-12)


def test_draws_have_the_variance_that_the_residuals_leave(responses: NDArray[np.float64]) -> None:
    system = System(scipy.sparse.csr_array(responses))
    rng = np.random.default_rng(6)
    drawn = np.concatenate([system.draws(rng) for _ in range(600)], axis=1)
    expected = np.linalg.inv(dense(responses))
    # 19200 draws know a variance to 1 %.
    np.testing.assert_allclose(np.diag(np.cov(drawn)), np.diag(expected), rtol=0.05)
