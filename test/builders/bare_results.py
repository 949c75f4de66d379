# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Results that hold nothing but what a test is about."""

from __future__ import annotations

from typing import Any

from sysid_ros.results.result import CalibrationResult, Check, Level, Provenance, SolverSummary


def verdict(text: str = '', *, accepted: bool = True) -> tuple[Check, ...]:
    """Return the one check of a result that is accepted or not."""
    name = 'better than nominal'
    return (Check(name=name, level=Level.FAIL, passed=accepted, text=text),)


def rejected(result: CalibrationResult, text: str = 'It is worse.') -> CalibrationResult:
    """Return a result as it would be if it had been rejected."""
    return result.model_copy(update={'checks': verdict(text, accepted=False)})


def bare_result(**changes: Any) -> CalibrationResult:
    """Return an accepted result without parameters, whose errors fell.

    Args:
        **changes: Fields that are others.
    """
    fields: dict[str, Any] = {
        'model': 'arm.xml',
        'parameters': (),
        'checks': verdict(),
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
        'provenance': Provenance(
            created='', versions={}, files=(), command='', config={}, input_mode=''
        ),
    }
    return CalibrationResult(**{**fields, **changes})
