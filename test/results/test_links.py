# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Ten log-Cholesky numbers are told as mass, centre of mass and moments with their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from sysid_ros.config.calibration import VerdictKind
from sysid_ros.model.inertia import body_from_theta, theta_from_body
from sysid_ros.results.links import links
from sysid_ros.results.result import InferenceSummary, ParameterResult

THETA = theta_from_body(3.0, [0.01, -0.02, 0.15], [1, 0, 0, 0], [0.05, 0.04, 0.02])
#: So small that the first order is all.
DEVIATIONS = 0.1 * np.array([0.01, 0.02, 0.02, 0.02, 0.01, 0.01, 0.01, 0.02, 0.03, 0.04])
QUANTILE = 1.96


def parameters() -> tuple[ParameterResult, ...]:
    return tuple(
        ParameterResult(
            name=f'body/link/inertia[{index}]',
            targets=(f'body/link/inertia[{index}]',),
            unit='1',
            initial=float(value),
            value=float(value),
            low=float(value - QUANTILE * deviation),
            high=float(value + QUANTILE * deviation),
            bounds=(-10.0, 10.0),
            verdict_kind=VerdictKind.IDENTIFIED,
        )
        for index, (value, deviation) in enumerate(zip(THETA, DEVIATIONS, strict=True))
    )


def summary(covariance: np.ndarray) -> InferenceSummary:
    rows = tuple(map(tuple, covariance.tolist()))
    return InferenceSummary(
        method='', samples=1, effective_samples=1.0, covariance=rows, correlation=rows
    )


def test_intervals_are_those_of_draws_from_the_covariance() -> None:
    correlation = 0.5 * np.eye(10) + 0.5
    covariance = correlation * np.outer(DEVIATIONS, DEVIATIONS)
    (link,) = links(parameters(), summary(covariance))
    draws = np.random.default_rng(0).multivariate_normal(THETA, covariance, 20_000)
    bodies = body_from_theta(draws)
    spread = np.std(np.column_stack([bodies.mass, bodies.ipos, bodies.inertia]), axis=0)
    values = [number.value for number in link.numbers]
    assert values == pytest.approx([3.0, 0.01, -0.02, 0.15, 0.05, 0.04, 0.02])
    halves = [(number.high - number.low) / 2 for number in link.numbers]
    np.testing.assert_allclose(halves, QUANTILE * spread, rtol=0.05)


def test_what_has_no_interval_leaves_the_rest_alone() -> None:
    covariance = np.diag(DEVIATIONS**2)
    covariance[8] = covariance[:, 8] = np.nan
    (link,) = links(parameters(), summary(covariance))
    known = {number.name: np.isfinite(number.low) for number in link.numbers}
    assert known['mass']
    assert known['centre x']
    assert not known['centre y']


def test_links_of_which_only_some_numbers_were_fitted_are_left_out() -> None:
    assert links(parameters()[:7], None) == ()
