# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The report says how sure the numbers are, and what was checked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import lxml.html
import pytest

from sysid_ros.report import pictures, render_report
from sysid_ros.report.numbers import MISSING
from sysid_ros.results.result import HorizonJoint, HorizonPoint

if TYPE_CHECKING:
    from sysid_ros.results.result import CalibrationResult

pytestmark = pytest.mark.slow


def _section(result: CalibrationResult, name: str) -> str:
    page = lxml.html.document_fromstring(render_report(result.model_copy(update={'plots': ()})))
    for opportunity in page.xpath('//wbr'):
        opportunity.drop_tag()
    (found,) = page.xpath(f'//section[@aria-labelledby="{name}"]')
    return ' '.join(' '.join(found.itertext()).split())


def test_what_the_data_cannot_say_is_explained(rich_result: CalibrationResult) -> None:
    text = _section(rich_result, 'parameters')
    assert 'body/tool/mass : The data ask for more than the upper bound of 1.2 kg.' in text
    assert 'actuator/elbow/kp + joint/elbow/stiffness 531.2 [529.9, 532.5]' in text


def test_the_method_and_the_effective_size_stand_beside_the_intervals(
    rich_result: CalibrationResult,
) -> None:
    text = _section(rich_result, 'parameters')
    assert 'Method: cluster-robust over 8 bags. The 270000 residuals say as much as 1840' in text
    assert 'Residuals are alike over 0.08 s.' in text


def test_correlations_are_listed_by_strength_and_drawn_where_they_are_seen(
    rich_result: CalibrationResult,
) -> None:
    pairs = pictures.strong_pairs(rich_result)
    assert {pairs[0].first, pairs[0].second} == {
        rich_result.parameters[2].name,
        rich_result.parameters[3].name,
    }
    strengths = [abs(pair.correlation) for pair in pairs]
    assert strengths == sorted(strengths, reverse=True)
    count = len(rich_result.parameters)
    cells = pictures.correlations(rich_result)
    assert rich_result.inference is not None
    rows = rich_result.inference.correlation
    left_out = {(i, j) for i in range(count) for j in range(i)} - {cell[:2] for cell in cells}
    assert len(left_out) > 5
    assert all(abs(rows[i][j]) < 0.05 for i, j in left_out)
    unknown = [cell for cell in cells if cell.tone == 'none']
    assert len(unknown) == count - 1


def test_conditions_say_what_passed_and_what_did_not(rich_result: CalibrationResult) -> None:
    first, second = rich_result.gate
    told = first.model_copy(update={'measured': 0.057, 'limit': 0.98, 'unit': 'of nominal'})
    text = _section(rich_result.model_copy(update={'gate': (told, second)}), 'gate')
    assert 'held-out error ✓ met 0.057 ≤ 0.98 0.92 of nominal 17.4 to 1.07 times the noise.' in text
    assert f'verdicts ✕ not met {" ".join(MISSING * 3)} geom/foot/friction[0] not' in text


def test_the_drift_names_what_changed(rich_result: CalibrationResult) -> None:
    text = _section(rich_result, 'drift')
    assert 'joint/elbow/frictionloss 3.5 5.1 9.1 changed' in text
    assert 'joint/elbow/damping 7 7.05 0.6' in text


def test_folds_windows_and_horizon_are_in_the_validation(rich_result: CalibrationResult) -> None:
    text = _section(rich_result, 'validation')
    assert 'bags/train_slow 17.4 1.10 \N{MULTIPLICATION SIGN}0.063' in text
    assert '5 held out 21.5 1.65' in text
    assert 'Parameters over the length of windows' in text


@pytest.mark.parametrize('name', ['gate', 'drift', 'validation'])
def test_what_was_not_asked_for_has_no_section(bare_result: CalibrationResult, name: str) -> None:
    page = lxml.html.document_fromstring(render_report(bare_result))
    assert page.xpath(f'//section[@aria-labelledby="{name}"]') == []
    assert page.xpath(f'//nav/a[@href="#{name}"]') == []


def test_errors_that_grow_tenfold_rise_in_the_picture(rich_result: CalibrationResult) -> None:
    points = tuple(
        HorizonPoint(seconds=s, role='validate', before=10 * s, after=s) for s in (0.1, 1.0)
    )
    (picture,) = pictures.horizons(rich_result.model_copy(update={'horizon': points}))
    assert picture.axis == 'error in units of the noise'
    before, after = picture.lines
    assert before.points == '0.00,50.00 100.00,0.00'
    assert after.points == '0.00,100.00 100.00,50.00'
    assert [tick.label for tick in picture.seconds] == ['0.1', '1']


def test_a_single_or_diverged_horizon_has_no_picture(rich_result: CalibrationResult) -> None:
    one = HorizonPoint(seconds=1.0, role='train', before=2.0, after=1.0)
    lost = HorizonPoint(seconds=2.0, role='train', before=math.nan, after=math.nan)
    result = rich_result.model_copy(update={'horizon': (one, lost)})
    assert pictures.horizons(result) == ()


def test_positions_ahead_are_drawn_in_their_own_units(rich_result: CalibrationResult) -> None:
    def joint(unit: str, before: float, after: float) -> HorizonJoint:
        return HorizonJoint(sensor=unit, unit=unit, before=before, after=after, coasting=1.0)

    points = tuple(
        HorizonPoint(
            seconds=seconds,
            role='validate',
            before=9.0,
            after=1.0,
            joints=(joint('rad', 0.03, 0.003), joint('rad', 0.04, 0.004), joint('m', 0.1, 0.001)),
        )
        for seconds in (0.1, 1.0)
    )
    result = rich_result.model_copy(update={'horizon': points})
    turned, moved = pictures.horizons(result)
    assert (turned.axis, moved.axis) == ('error of positions in mrad', 'error of positions in mm')
    # The root mean squares of 30 and 40 mrad, and of 3 and 4, lie at the ends of the axis.
    assert [line.points for line in turned.lines] == [
        '0.00,0.00 100.00,0.00',
        '0.00,100.00 100.00,100.00',
    ]
    assert [tick.label for tick in turned.errors] == ['5', '10', '20']
    text = _section(result, 'validation')
    assert 'nominal, held out fitted, held out' in text
    assert 'time since the start in s (logarithmic) error of positions in mrad' in text
