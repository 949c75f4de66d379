# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Results of robots of which only values and errors matter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from builders.bare_results import bare_result, parameter, verdict
from sysid_ros.config.schema import VerdictKind
from sysid_ros.results.result import CalibrationResult, InferenceSummary


def robot_result(
    values: Mapping[str, tuple[float, float]],
    *,
    verdicts: Mapping[str, VerdictKind] | None = None,
    accepted: bool = True,
) -> CalibrationResult:
    """Return a result with values and standard errors by name, which do not hang together."""
    kinds = verdicts or {}
    parameters = tuple(
        parameter(name, value, 1.96 * error, verdict_kind=kinds.get(name, VerdictKind.IDENTIFIED))
        for name, (value, error) in values.items()
    )
    covariance = np.diag([error**2 for _, error in values.values()]).tolist()
    return bare_result(
        parameters=parameters,
        inference=InferenceSummary(
            method='', samples=100, effective_samples=100, covariance=covariance, correlation=()
        ),
        checks=verdict('It fell.' if accepted else 'It rose.', accepted=accepted),
    )
