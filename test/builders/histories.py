# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Small results with chosen values, and folders of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from builders.bare_results import bare_result, parameter, sensor_error, verdict
from sysid_ros.results import store
from sysid_ros.results.result import CalibrationResult, InferenceSummary

#: Parameters of a joint, their usual values, and standard errors of those.
NAMES = ('joint/elbow/armature', 'joint/elbow/damping', 'joint/elbow/frictionloss')
UNITS = ('kg·m²', 'N·m·s/rad', 'N·m')
VALUES = (0.05, 0.7, 3.5)
ERRORS = (0.001, 0.01, 0.1)
#: Independent samples: the distribution of a mean of so many is normal.
_MANY = 1e6


def make_result(
    *values: float, accepted: bool = True, correlation: float = 0.0, **changes: Any
) -> CalibrationResult:
    """Return a result of an elbow, in which the last two estimates are correlated."""
    mixed = np.eye(len(NAMES))
    mixed[1, 2] = mixed[2, 1] = correlation
    covariance = mixed * np.outer(ERRORS, ERRORS)
    fields: dict[str, Any] = {
        'parameters': tuple(
            parameter(name, value, 1.96 * error, unit=unit, bounds=(0.0, 10.0))
            for name, unit, value, error in zip(NAMES, UNITS, values or VALUES, ERRORS, strict=True)
        ),
        'inference': InferenceSummary(
            method='chosen',
            samples=1000,
            effective_samples=_MANY,
            covariance=tuple(map(tuple, covariance.tolist())),
            correlation=tuple(map(tuple, mixed.tolist())),
        ),
        'checks': verdict('It fell.' if accepted else 'It did not fall.', accepted=accepted),
        'held_out_after': 1.25,
        'errors': (sensor_error('elbow_position', 'rad', 'validate', 0.02, 0.002),),
    }
    return bare_result(**{**fields, **changes})


def keep(output: Path, result: CalibrationResult) -> Path:
    """Put a result alone into a folder of its own, and return that."""
    with store.draft(output) as begun:
        result.save(begun.folder / store.RESULT)
        return begun.keep(accepted=result.accepted)
