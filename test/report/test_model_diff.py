# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What changed in a model's text has the digits that intervals support."""

from __future__ import annotations

from sysid_ros.report.html import model_diff
from sysid_ros.results.result import CalibrationResult, ModelChange


def _change(element: str, attribute: str, old: str, new: str, **place: object) -> ModelChange:
    fields = {'file': 'arm.xml', 'line': 3, 'element': element, 'attribute': attribute}
    return ModelChange(**(fields | {'old': old, 'new': new} | place))


def _changed(result: CalibrationResult, *changes: ModelChange) -> CalibrationResult:
    parameter = result.parameters[0].model_copy(
        update={
            'name': 'elbow',
            'targets': ('joint/elbow/ref', 'geom/foot/friction[0]'),
            'value': 0.123456789,
            'low': 0.121,
            'high': 0.125,
        }
    )
    return result.model_copy(update={'parameters': (parameter,), 'changes': changes})


def test_attributes_of_an_element_are_one_change_and_files_are_apart(
    rich_result: CalibrationResult,
) -> None:
    changes = (
        _change('joint/elbow', 'damping', '2', '0.123456789'),
        _change('joint/elbow', 'class', '', 'big'),
        _change('joint/wrist', 'damping', '2', '', line=7),
        _change('option', 'gravity', '', '0 0 -9.8000001', file='world.xml', line=0),
    )
    files = model_diff(_changed(rich_result, *changes))
    assert list(files) == ['arm.xml', 'world.xml']
    assert files['arm.xml'] == [
        ('joint/elbow', 3, 'damping="2"', 'damping="0.1235" class="big"'),
        ('joint/wrist', 7, 'damping="2"', ''),
    ]
    assert files['world.xml'][0].new == 'gravity="0 0 \N{MINUS SIGN}9.8"'


def test_only_the_numbers_that_are_new_are_rounded(rich_result: CalibrationResult) -> None:
    change = _change('geom/foot', 'friction', '1 0.00512345 .1', '0.123456789 0.00512345 .1')
    ((hunk,),) = model_diff(_changed(rich_result, change)).values()
    assert hunk.new == 'friction="0.1235 0.00512345 .1"'


def test_a_value_in_other_units_keeps_its_relative_digits(rich_result: CalibrationResult) -> None:
    degrees = _change('joint/elbow', 'ref', '0', '7.073552937')
    other = _change('joint/wrist', 'ref', '0', '7.073552937', line=9)
    (hunks,) = model_diff(_changed(rich_result, degrees, other)).values()
    # ± 0.002 of 0.1235 rad are ± 0.11°; of the other nothing is known.
    assert [hunk.new for hunk in hunks] == ['ref="7.07"', 'ref="7.074"']
