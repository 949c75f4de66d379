# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Results that hold nothing but what a test is about."""

from __future__ import annotations

from typing import Any

from sysid_ros.results.result import CalibrationResult, Provenance, SolverSummary


def bare_result(**changes: Any) -> CalibrationResult:
    """Return an accepted result without parameters, whose errors fell.

    Args:
        **changes: Fields that are others.
    """
    fields: dict[str, Any] = {
        'model': 'arm.xml',
        'parameters': (),
        'accepted': True,
        'acceptance': '',
        'held_out_before': 9.0,
        'held_out_after': 1.0,
        'training_before': 9.0,
        'training_after': 1.0,
        'errors': (),
        'noise': (),
        'plots': (),
        'topics': (),
        'health': (),
        'solver': SolverSummary(
            backend='mujoco',
            loss='linear',
            status='cost',
            message='',
            success=True,
            iterations=1,
            rollouts=1,
            diverged=0,
            initial_cost=1.0,
            final_cost=1.0,
            seconds=0.0,
            trace=(),
        ),
        'warnings': (),
        'provenance': Provenance(
            created='', versions={}, files=(), command='', config={}, input_mode=''
        ),
    }
    return CalibrationResult(**{**fields, **changes})
