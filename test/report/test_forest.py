# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Unlike parameters share an axis without misleading."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from sysid_ros.report import pictures

if TYPE_CHECKING:
    from sysid_ros.results.result import CalibrationResult, ParameterResult


def _only(result: CalibrationResult, *parameters: ParameterResult) -> CalibrationResult:
    return result.model_copy(update={'parameters': parameters})


def _changed(result: CalibrationResult, **fields: object) -> ParameterResult:
    return result.parameters[0].model_copy(update=fields)


def test_every_parameter_is_drawn_once(rich_result: CalibrationResult) -> None:
    drawn = [mark.parameter.name for panel in pictures.panels(rich_result) for mark in panel.marks]
    assert sorted(drawn) == sorted(parameter.name for parameter in rich_result.parameters)


def test_values_initial_values_and_truths_lie_on_the_axis(rich_result: CalibrationResult) -> None:
    truth = {'joint/elbow/armature': 0.6}
    for panel in pictures.panels(rich_result, truth):
        for mark in panel.marks:
            ends = [mark.value, mark.initial]
            ends += [x for x in (mark.low, mark.high, mark.truth) if x is not None]
            assert all(0 <= x <= 1 for x in ends)


def test_ticks_of_a_linear_axis_are_where_ratios_are(rich_result: CalibrationResult) -> None:
    parameter = _changed(rich_result, initial=2.0, value=3.0, low=2.9, high=3.1)
    (panel,) = pictures.panels(_only(rich_result, parameter))
    positions = {tick.label: tick.position for tick in panel.ticks}
    assert not panel.logarithmic
    assert positions['1'] == pytest.approx(panel.marks[0].initial)
    assert 2 <= len(panel.ticks) <= 6


def test_a_wide_interval_is_cut_and_says_so(rich_result: CalibrationResult) -> None:
    parameter = _changed(rich_result, initial=1.0, value=1.5, low=-1e6, high=1e6)
    mark = pictures.panels(_only(rich_result, parameter))[0].marks[0]
    assert (mark.low, mark.high, mark.cut_low, mark.cut_high) == (0, 1, True, True)


def test_a_negative_initial_value_keeps_the_interval_in_order(
    rich_result: CalibrationResult,
) -> None:
    parameter = _changed(rich_result, initial=-9.0, value=-9.8, low=-10.0, high=-9.6)
    mark = pictures.panels(_only(rich_result, parameter))[0].marks[0]
    assert mark.low is not None
    assert mark.high is not None
    assert mark.initial < mark.low < mark.value < mark.high


def test_ratios_far_apart_go_on_a_logarithmic_axis(rich_result: CalibrationResult) -> None:
    parameters = [
        _changed(rich_result, name=name, initial=1.0, value=value, low=-math.inf, high=math.inf)
        for name, value in (('a', 1e-4), ('b', 3e5))
    ]
    (panel,) = pictures.panels(_only(rich_result, *parameters))
    assert panel.logarithmic
    assert 2 <= len(panel.ticks) <= 8
    assert panel.marks[0].value < panel.marks[0].initial < panel.marks[1].value


@pytest.mark.parametrize('value', [0.0, 1e-12, 1e9])
def test_a_parameter_from_zero_has_an_axis_whatever_its_size(
    rich_result: CalibrationResult, value: float
) -> None:
    parameter = _changed(rich_result, initial=0.0, value=value, low=math.nan, high=math.nan)
    (panel,) = pictures.panels(_only(rich_result, parameter))
    assert math.isfinite(panel.marks[0].value)
    assert panel.marks[0].low is None


def test_a_true_value_is_found_by_target_too(rich_result: CalibrationResult) -> None:
    parameter = _changed(rich_result, name='elbow inertia')
    assert pictures.true_value(parameter, {parameter.targets[0]: 0.25}) == 0.25
    assert pictures.true_value(parameter, {'elbow inertia': 0.5}) == 0.5
    assert pictures.true_value(parameter, {'other': 0.5}) is None
    assert pictures.true_value(parameter, None) is None
