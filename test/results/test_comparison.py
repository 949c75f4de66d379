# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a new result agrees with a baseline."""

from __future__ import annotations

import math
from typing import Any

import pytest

from builders.bare_results import bare_result
from sysid_ros.errors import ResultError
from sysid_ros.results.comparison import ComparedQuantity, compare
from sysid_ros.results.result import CalibrationResult, ParameterResult

NAN = float('nan')


def parameter(name: str, value: float, low: float, high: float, **changes: Any) -> ParameterResult:
    fields: dict[str, Any] = {
        'name': name,
        'targets': (name,),
        'unit': 'N·m',
        'initial': 0.0,
        'value': value,
        'low': low,
        'high': high,
        'bounds': (0.0, 100.0),
        'verdict': 'identified',
    }
    return ParameterResult(**{**fields, **changes})


def make(*parameters: ParameterResult, **changes: Any) -> CalibrationResult:
    return bare_result(parameters=parameters, **changes)


BASELINE = make(parameter('a', 2.0, 1.5, 2.5), parameter('b', 5.0, 4.0, 6.0))


def rows(
    result: CalibrationResult,
    baseline: CalibrationResult = BASELINE,
    tolerance: dict[str, float] | None = None,
    factor: float = 1.1,
) -> dict[str, ComparedQuantity]:
    return {row.name: row for row in compare(result, baseline, tolerance or {}, factor)}


def with_a(value: float, **changes: Any) -> CalibrationResult:
    return make(
        parameter('a', value, value - 0.1, value + 0.1, **changes), parameter('b', 5.0, 4.9, 5.1)
    )


def test_a_result_agrees_with_itself() -> None:
    found = rows(BASELINE)
    assert list(found) == ['a', 'b', 'held-out error']
    assert all(row.agrees and not row.note for row in found.values())


@pytest.mark.parametrize('value', [1.5, 1.9, 2.5])
def test_a_value_within_the_interval_agrees(value: float) -> None:
    row = rows(with_a(value))['a']
    assert row.agrees
    assert (row.baseline, row.value, row.allowed, row.unit) == (2.0, value, 0.5, 'N·m')


@pytest.mark.parametrize('value', [1.49, 2.51])
def test_a_value_that_left_the_interval_does_not_agree(value: float) -> None:
    found = rows(with_a(value))
    assert not found['a'].agrees
    assert found['b'].agrees
    assert found['held-out error'].agrees


@pytest.mark.parametrize(('value', 'agrees'), [(0.0, True), (3.4, True), (3.6, False)])
def test_an_interval_that_ends_at_a_bound_allows_what_lies_in_it(
    value: float, agrees: bool
) -> None:
    baseline = make(parameter('a', 0.5, 0.0, 3.5))
    row = rows(make(parameter('a', value, 0.0, 9.0)), baseline)['a']
    assert row.agrees is agrees
    assert row.allowed == (3.0 if value > 0.5 else 0.5)


def test_what_the_model_lacks_hides_no_change() -> None:
    baseline = make(parameter('a', 2.0, 0.5, 3.5, noise_low=1.9, noise_high=2.1))
    assert rows(make(parameter('a', 2.05, 0.5, 3.5)), baseline)['a'].agrees
    row = rows(make(parameter('a', 2.2, 0.5, 3.5)), baseline)['a']
    assert not row.agrees
    assert row.allowed == pytest.approx(0.1)


def test_a_wider_tolerance_counts_instead_of_the_interval() -> None:
    assert rows(with_a(2.9), tolerance={'a': 1.0})['a'].agrees
    assert rows(with_a(2.9), tolerance={'a': 1.0})['a'].allowed == 1.0
    assert not rows(with_a(3.1), tolerance={'a': 1.0})['a'].agrees


def test_a_pattern_is_a_tolerance_for_all_its_matches() -> None:
    found = rows(with_a(2.9), tolerance={'*': 1.0, 'b': 3.0})
    assert found['a'].allowed == 1.0
    assert found['b'].allowed == 3.0


def test_a_tolerance_for_nothing_is_an_error() -> None:
    with pytest.raises(
        ResultError, match=r"tolerance for 'c\*' matches no parameter; available: a, b"
    ):
        rows(BASELINE, tolerance={'a': 1.0, 'c*': 1.0})


def test_a_parameter_that_is_gone_does_not_agree() -> None:
    row = rows(make(parameter('b', 5.0, 4.9, 5.1)))['a']
    assert not row.agrees
    assert math.isnan(row.value)
    assert row.note == 'no longer identified'


def test_a_parameter_that_is_new_does_not_agree() -> None:
    row = rows(make(*BASELINE.parameters, parameter('c', 1.0, 0.9, 1.1)))['c']
    assert not row.agrees
    assert math.isnan(row.baseline)
    assert row.note == 'not in the baseline'


def test_without_an_interval_only_the_same_value_agrees() -> None:
    baseline = make(parameter('a', 2.0, NAN, NAN))
    assert rows(make(parameter('a', 2.0, NAN, NAN)), baseline)['a'].agrees
    # A rerun elsewhere rounds differently.
    assert rows(make(parameter('a', 2.0 + 1e-12, NAN, NAN)), baseline)['a'].agrees
    assert not rows(make(parameter('a', 2.0001, NAN, NAN)), baseline)['a'].agrees
    assert rows(make(parameter('a', 2.0001, NAN, NAN)), baseline, {'a': 0.001})['a'].agrees
    assert rows(make(parameter('a', 2.0, NAN, NAN)), baseline)['a'].allowed == 0.0


@pytest.mark.parametrize(
    ('after', 'agrees'), [(0.2, True), (1.2, True), (1.21, False), (NAN, False)]
)
def test_held_out_error_may_grow_by_the_factor(after: float, agrees: bool) -> None:
    result = make(*BASELINE.parameters, held_out_after=after, training_after=99.0)
    row = rows(result, factor=1.2)['held-out error']
    assert row.agrees is agrees
    assert row.baseline == 1.0
    assert row.allowed == pytest.approx(0.2)


@pytest.mark.parametrize(('after', 'agrees'), [(2.1, True), (2.3, False)])
def test_where_nothing_is_held_out_training_error_counts(after: float, agrees: bool) -> None:
    baseline = make(held_out_after=NAN, training_after=2.0)
    found = rows(make(held_out_after=0.0, training_after=after), baseline)
    assert list(found) == ['training error']
    assert found['training error'].agrees is agrees


def test_a_result_that_is_rejected_now_does_not_agree() -> None:
    row = rows(make(*BASELINE.parameters, accepted=False))['held-out error']
    assert not row.agrees
    assert row.note == 'the result is rejected'
