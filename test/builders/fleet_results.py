# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Results of robots of which only values and errors matter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from builders.bare_results import bare_result, verdict
from sysid_ros.config.schema import VerdictKind
from sysid_ros.results.result import CalibrationResult, InferenceSummary, ParameterResult


def robot_result(
    values: Mapping[str, tuple[float, float]],
    *,
    verdicts: Mapping[str, VerdictKind] | None = None,
    accepted: bool = True,
) -> CalibrationResult:
    """Return a result with values and standard errors by name, which do not hang together."""
    parameters = tuple(
        ParameterResult.model_validate(
            {
                'name': name,
                'targets': (name,),
                'unit': 'N·m',
                'initial': 1.0,
                'value': value,
                'low': value - 1.96 * error,
                'high': value + 1.96 * error,
                'bounds': (0.0, 100.0),
                'verdict_kind': (verdicts or {}).get(name, VerdictKind.IDENTIFIED),
            }
        )
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
