# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Errors of a model against limits and a baseline."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from sysid_ros.config.schema import ThresholdsConfig
from sysid_ros.errors import ConfigError
from sysid_ros.results.comparison import CaseKind
from sysid_ros.workflows.evaluation import (
    Evaluation,
    ModelValue,
    PredictionError,
    differences,
    judge_evaluation,
)

VALUES = (
    ModelValue(key='joint/elbow/damping', value='2.0', file=Path('arm.xml'), line=7),
    ModelValue(key='joint/wrist/damping', value='1', file=Path('arm.xml'), line=9),
)


def error(value: float, **changes: Any) -> PredictionError:
    fields = {'bag': 'run', 'sensor': 'elbow_position', 'unit': 'rad', 'subject': 'joint/elbow'}
    return PredictionError.model_validate({**fields, 'error': value, **changes})


def make(*errors: PredictionError, **changes: Any) -> Evaluation:
    fields = {'model': 'arm.xml', 'values': VALUES, 'bags': {'run': '1'}, 'errors': errors}
    return Evaluation.model_validate({**fields, 'versions': {'mujoco': '4.0.1'}, **changes})


def moved(key: str, value: str) -> tuple[ModelValue, ...]:
    return tuple(v.model_copy(update={'value': value}) if v.key == key else v for v in VALUES)


def said(found: Evaluation) -> str:
    before = make(error(0.01))
    cases = judge_evaluation(found, ThresholdsConfig(), before)
    return ' '.join(differences(found, before, cases))


def test_the_least_limit_decides_and_its_place_is_the_joint():
    limits = ThresholdsConfig(limits={'*_position': 0.02, 'elbow_*': 0.01})
    (right,) = judge_evaluation(make(error(0.01)), limits)
    (wrong,) = judge_evaluation(make(error(0.0101)), limits)
    assert (right.passed, right.limit) == (True, 0.01)
    assert (wrong.passed, str(wrong.place)) == (False, 'arm.xml:7')


def test_a_horizon_has_limits_of_its_own():
    limits = ThresholdsConfig.model_validate({'horizon': {0.5: {'*': 0.01}}})
    found = make(error(9.0), error(0.02, seconds=0.5))
    assert [case.passed for case in judge_evaluation(found, limits)] == [True, False]


def test_without_limits_nothing_fails_but_a_simulation_that_ran_away():
    assert all(case.passed for case in judge_evaluation(make(error(9.0)), ThresholdsConfig()))
    stored = Evaluation.model_validate_json(make(error(math.nan)).to_json())
    cases = judge_evaluation(stored, ThresholdsConfig())
    assert [(case.name, case.passed) for case in cases] == [
        ('simulation', False),
        ('elbow_position, whole recording', True),
    ]


def test_errors_may_grow_by_a_factor_over_those_of_the_same_recording():
    before = make(error(0.01), error(0.01, bag='other'))
    found = make(error(0.0119), error(0.0121, bag='other'), error(5.0, bag='new'))
    cases = judge_evaluation(found, ThresholdsConfig(growth=1.2), before)
    assert [case.passed for case in cases if case.kind is CaseKind.ERROR] == [True, False, True]


def test_a_number_of_the_model_that_is_another_is_named_with_its_line():
    found = make(error(0.01), values=moved('joint/elbow/damping', '2.4'))
    cases = judge_evaluation(found, ThresholdsConfig(), make(error(0.01)))
    (wrong,) = (case for case in cases if not case.passed)
    assert (wrong.name, wrong.sentence) == ('joint/elbow/damping', 'is 2.4, was 2.0 (+20 %)')
    assert str(wrong.place) == 'arm.xml:7'


@pytest.mark.parametrize(
    ('found', 'sentence'),
    [
        (make(error(0.01), values=moved('joint/elbow/damping', '2.')), ''),
        (
            make(error(0.01), values=VALUES[:1]),
            'Model changed: joint/wrist/damping was 1, is gone.',
        ),
        (
            make(error(0.02), versions={'mujoco': '4.1.0'}),
            'Code changed (mujoco 4.0.1 → 4.1.0): elbow_position, whole recording in run.',
        ),
        (
            make(error(0.02)),
            'Code changed (the versions are the same): elbow_position, whole recording in run.',
        ),
        (make(error(0.01), versions={'mujoco': '4.1.0'}), ''),
        (make(error(0.02), bags={'run': '2'}), 'Recordings changed: run.'),
        (make(error(0.01), bags={'new': '1'}), 'Recordings changed: new, run.'),
    ],
)
def test_what_changed_is_said(found: Evaluation, sentence: str):
    assert said(found) == sentence


@pytest.mark.parametrize(
    ('limits', 'complaint'),
    [
        (
            {'limits': {'elbow_positoin': 1.0}},
            "The limit for 'elbow_positoin' in limits is for no error; nearest: elbow_position.",
        ),
        (
            {'horizon': {2.0: {'*': 1.0}}},
            "The limit for '*' in horizon 2 is for no error; there are none.",
        ),
    ],
)
def test_a_limit_for_nothing_is_an_error(limits: dict[str, Any], complaint: str):
    with pytest.raises(ConfigError) as caught:
        judge_evaluation(make(error(0.01)), ThresholdsConfig.model_validate(limits))
    assert str(caught.value) == complaint
