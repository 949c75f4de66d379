# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What speaks against relying on an accepted result is said, and nothing on an honest one."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sysid_ros.alignment.health import FindingKind, HealthFinding
from sysid_ros.config.calibration import VerdictKind
from sysid_ros.results.reservations import reservations
from sysid_ros.results.result import (
    CalibrationResult,
    Disagreement,
    Fold,
    HorizonJoint,
    HorizonPoint,
    InferenceSummary,
    Likeness,
    SolverStatus,
    Standing,
)

NAN = math.nan
BASELINE = CalibrationResult.load(Path(__file__).parents[1] / 'data' / 'pendulum' / 'baseline.json')
HONEST = BASELINE.model_copy(
    update={'training_after': 1.0, 'held_out_after': 1.3, 'health': (), 'reservations': ()}
)


def names(**update: Any) -> list[str]:
    return [check.name for check in reservations(HONEST.model_copy(update=update))]


def narrow_band() -> dict[str, Any]:
    *others, last = HONEST.errors
    errors = (*others, last.model_copy(update={'inside': 0.7}))
    return {'errors': errors, 'training_after': 2.0, 'held_out_after': 2.5}


def unidentified() -> dict[str, Any]:
    parameters = [
        parameter.model_copy(update={'verdict_kind': VerdictKind.CONFOUNDED})
        for parameter in HONEST.parameters
    ]
    return {'parameters': tuple(parameters)}


def limited() -> dict[str, Any]:
    first, *others = HONEST.parameters
    return {
        'parameters': (
            first.model_copy(update={'verdict_kind': VerdictKind.MODEL_LIMITED}),
            *others,
        )
    }


def apart() -> dict[str, Any]:
    found = Disagreement(recordings=2, times=3.1, most='joint/elbow/damping')
    summary = InferenceSummary(
        method='',
        samples=1,
        effective_samples=1.0,
        covariance=(),
        correlation=(),
        disagreement=found,
    )
    return {'inference': summary}


def worse_sensor() -> dict[str, Any]:
    first, *others = HONEST.errors
    grown = first.model_copy(update={'after': 1.2 * first.before, 'role': 'validate'})
    return {'errors': (grown, *others)}


def ahead(before: float, after: float, coasting: float, seconds: float = 0.5) -> dict[str, Any]:
    joint = HorizonJoint(sensor='q', unit='rad', before=before, after=after, coasting=coasting)
    point = HorizonPoint(seconds=seconds, role='validate', before=2.0, after=1.0, joints=(joint,))
    return {'horizon': (point,)}


def out_of_time() -> dict[str, Any]:
    solver = HONEST.solver.model_copy(update={'status': SolverStatus.TIME, 'left': 0.4})
    return {'solver': solver}


def out_of_iterations() -> dict[str, Any]:
    solver = HONEST.solver.model_copy(update={'status': SolverStatus.ITERATIONS})
    return {'solver': solver}


def stepped(change: float) -> dict[str, Any]:
    update = {'timestep': 5e-4, 'timestep_change': change}
    return {'solver': HONEST.solver.model_copy(update=update)}


def jumping_clock() -> dict[str, Any]:
    finding = HealthFinding('train_1', '/joint_states', FindingKind.SPIKES, 1, '.244 s')
    return {'health': (finding,)}


def coloured(after: float, autocorrelation: float) -> dict[str, Any]:
    """Return errors of a sensor that itself errs by .001 rad."""
    first, *others = HONEST.errors
    update = {'usual': after, 'scatter': 1e-3, 'autocorrelation': autocorrelation, 'role': 'train'}
    return {'errors': (first.model_copy(update=update), *others)}


def assumed(second: float, kind: FindingKind = FindingKind.ASSUMED_ORDER) -> dict[str, Any]:
    """Return a joint whose command was guessed, and how much another one moves like it."""
    like = Likeness(own=0.99, best='q', correlation=0.99, second=second)
    first, *others = HONEST.errors
    sensor = first.model_copy(update={'likeness': like, 'role': 'train'})
    finding = HealthFinding('train_1', '/goals', kind, 1, 'taken in the order of the model')
    return {'errors': (sensor, *others), 'health': (finding,)}


def test_an_honest_result_has_none() -> None:
    assert names() == []
    assert HONEST.standing is Standing.ACCEPTED


@pytest.mark.parametrize(
    ('expected', 'change'),
    [
        ('held out', lambda: {'held_out_after': math.nan, 'folds': ()}),
        ('bands', narrow_band),
        ('generalises', lambda: {'held_out_after': 5.36, 'training_after': 1.01}),
        ('each sensor', worse_sensor),
        ('identified', unidentified),
        ('model', limited),
        ('agreement', apart),
        ('optimum', out_of_iterations),
        ('optimum', out_of_time),
        ('time step', lambda: stepped(2.0)),
        ('recordings', jumping_clock),
        ('residuals', lambda: coloured(0.003, 0.9)),
        ('mapping', lambda: assumed(0.98)),
    ],
)
def test_each_reason_is_found(expected: str, change: Callable[[], dict[str, Any]]) -> None:
    assert names(**change()) == [expected]


def test_a_step_at_which_the_model_is_unstable_is_said_of_a_stored_result_too(
    tmp_path: Path,
) -> None:
    HONEST.model_copy(update=stepped(math.inf)).save(tmp_path / 'result.json')
    stored = CalibrationResult.load(tmp_path / 'result.json')
    (check,) = reservations(stored)
    assert (check.name, 'becomes unstable' in check.detail) == ('time step', True)


def test_a_step_that_changes_little_is_none() -> None:
    assert names(**stepped(0.1)) == []


def test_a_band_that_misses_where_a_recording_starts_is_none() -> None:
    assert names(**{**narrow_band(), 'held_out_after': 1.8}) == []


@pytest.mark.parametrize(('after', 'autocorrelation'), [(0.0013, 0.9), (0.003, 0.1), (0.003, NAN)])
def test_residuals_that_are_small_or_white_are_noise(after: float, autocorrelation: float) -> None:
    assert names(**coloured(after, autocorrelation)) == []


def test_a_mapping_without_a_rival_or_by_names_is_none() -> None:
    assert names(**assumed(0.5)) == []
    assert names(**assumed(0.98, FindingKind.NOT_MEASURED)) == []


def test_what_was_left_out_in_turn_is_held_out() -> None:
    fold = Fold(name='train_1', before=3.0, after=1.0, values=(1.0,))
    assert names(held_out_after=math.nan, folds=(fold,)) == []


def test_what_windows_learnt_by_heart_is_seen() -> None:
    solver = HONEST.solver.model_copy(update={'window': 0.5})
    assert names(solver=solver, held_out_after=50.0) == ['generalises']


def test_a_rejected_result_stays_rejected_and_an_older_one_has_no_reservations() -> None:
    found = reservations(HONEST.model_copy(update={'held_out_after': 9.0}))
    reserved = HONEST.model_copy(update={'reservations': found})
    assert reserved.standing is Standing.RESERVED
    assert reserved.model_copy(update={'accepted': False}).standing is Standing.REJECTED
    assert BASELINE.standing is Standing.ACCEPTED


@pytest.mark.parametrize(
    ('errors', 'said'),
    [
        ((0.03, 0.01, 0.02), []),
        ((0.01, 0.02, 0.03), ['the nominal model predicts better: q (0.01 to 0.02 rad at 0.5 s).']),
        ((0.03, 0.02, 0.01), ['keeping its velocity predicts better: q (0.01 to 0.02 rad']),
        ((0.0100, 0.0104, 0.0100), []),  # no more than chance
        ((0.01, 0.02, 0.03, 1.0), []),  # small errors have grown
    ],
)
def test_a_model_that_loses_against_a_baseline_is_said(
    errors: tuple[float, ...], said: list[str]
) -> None:
    found = reservations(HONEST.model_copy(update=ahead(*errors)))
    assert len(found) == len(said)
    for check, text in zip(found, said, strict=True):
        assert check.name == 'motion ahead'
        assert text in check.detail
