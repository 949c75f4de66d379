# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Results that hold nothing but what a test is about."""

from __future__ import annotations

from typing import Any

from sysid_ros.config.schema import VerdictKind
from sysid_ros.results.result import (
    CalibrationResult,
    Check,
    Level,
    ParameterResult,
    Provenance,
    SensorError,
    SolverSummary,
)


def verdict(text: str = '', *, accepted: bool = True) -> tuple[Check, ...]:
    """Return the one check of a result that is accepted or not."""
    name = 'better than nominal'
    return (Check(name=name, level=Level.FAIL, passed=accepted, text=text),)


def rejected(result: CalibrationResult, text: str = 'It is worse.') -> CalibrationResult:
    """Return a result as it would be if it had been rejected."""
    return result.model_copy(update={'checks': verdict(text, accepted=False)})


def parameter(name: str, value: float, half_width: float = 0.0, **changes: Any) -> ParameterResult:
    """Return an identified parameter with an interval of some half width."""
    fields: dict[str, Any] = {
        'name': name,
        'targets': (name,),
        'unit': 'N·m',
        'initial': 1.0,
        'value': value,
        'low': value - half_width,
        'high': value + half_width,
        'bounds': (0.0, 100.0),
        'verdict_kind': VerdictKind.IDENTIFIED,
    }
    return ParameterResult.model_validate({**fields, **changes})


def sensor_error(
    sensor: str, unit: str, role: str, before: float, after: float, **changes: Any
) -> SensorError:
    """Return the errors of a sensor over a hundred samples."""
    fields = {'sensor': sensor, 'unit': unit, 'role': role, 'before': before, 'after': after}
    return SensorError.model_validate({'samples': 100, **fields, **changes})


def bare_result(**changes: Any) -> CalibrationResult:
    """Return an accepted result without parameters, whose errors fell, with some fields changed."""
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
