# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The report says everything, in order, and its text cannot become markup."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any

import lxml.html
import numpy as np
import pytest

from builders.hostile import EVERY, HARMLESS, poisoned, unseen
from sysid_ros.errors import short
from sysid_ros.report.figures import curves_json, limits, packed, sequences
from sysid_ros.report.html import model_diff, render_report, strong_pairs, write_report
from sysid_ros.report.numbers import MISSING
from sysid_ros.results.result import (
    BaseParameter,
    CalibrationResult,
    HorizonJoint,
    HorizonPoint,
    LinkNumber,
    LinkResult,
    ModelChange,
    StartEntry,
)

pytestmark = pytest.mark.slow

LIMIT = 1_600_000  # bytes


@pytest.fixture(scope='session')
def few(rich_result: CalibrationResult) -> CalibrationResult:
    """The result with the plots of one sensor."""
    return _changed(rich_result, plots=[p for p in rich_result.plots if p.sensor == 'elbow_vel'])


@pytest.fixture(scope='session')
def page(few: CalibrationResult) -> lxml.html.HtmlElement:
    return _page(few)


def _changed(result: CalibrationResult, **fields: Any) -> CalibrationResult:
    return result.model_copy(
        update={k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
    )


def _page(result: CalibrationResult, **options: Any) -> lxml.html.HtmlElement:
    page = lxml.html.document_fromstring(render_report(result, **options))
    for opportunity in page.xpath('//wbr'):
        opportunity.drop_tag()
    return page


def _text(element: lxml.html.HtmlElement) -> str:
    return ' '.join(' '.join(element.itertext()).split())


def _section(page: lxml.html.HtmlElement, name: str) -> str:
    (found,) = page.xpath(f'//section[@aria-labelledby="{name}"]')
    return _text(found)


def _row(page: lxml.html.HtmlElement, section: str, name: str) -> str:
    rows = page.xpath(f'//section[@aria-labelledby="{section}"]//tbody/tr[th]')
    return next(_text(row) for row in rows if _text(row.find('th')) == name)


def test_a_page_of_54_signals_is_small_loads_nothing_and_runs_its_two_scripts_only(
    rich_result: CalibrationResult, tmp_path: Path
) -> None:
    write_report(rich_result, tmp_path / 'report.html')
    text = (tmp_path / 'report.html').read_text('utf-8')
    assert len(rich_result.plots) == 54
    assert len(text.encode()) < LIMIT
    page = lxml.html.document_fromstring(text)
    links = [link for _, _, link, _ in page.iterlinks()]
    assert all(link.startswith(('#', 'data:image/svg+xml;base64,')) for link in links)
    assert 'url(' not in page.xpath('string(//style)')
    policy = page.xpath('string(//meta[@http-equiv="Content-Security-Policy"]/@content)')
    assert policy.startswith("default-src 'none'; ")
    scripts = re.findall(r'<script>(.*?)</script>', text, re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_the_outcome_comes_first_and_links_lead_to_all_sections(
    page: lxml.html.HtmlElement,
) -> None:
    (headline,) = page.xpath('//p[@class="headline"]')
    assert _text(headline) == '19 of 22 parameters identified. ✓ Accepted'
    (facts,) = page.xpath('//dl[@class="facts"]')
    assert _text(facts).startswith('Held out: positions 237 → 13.6 mrad nominal → fitted')
    for said in ('training error 1.06', '19 identified, 1 at bound, 1 not excited, 1 confounded'):
        assert said in _text(facts)
    ids = page.xpath('//h2/@id')
    assert (ids[0], ids[-1], len(ids)) == ('parameters', 'provenance', 11)
    assert [link[1:] for link in page.xpath('//nav/a/@href')] == ids
    assert '17.4 → 1.07 times the noise (from differences of' in _section(page, 'errors')


def test_a_parameter_row_has_value_interval_unit_bounds_and_verdict(
    page: lxml.html.HtmlElement,
) -> None:
    row = _row(page, 'parameters', 'actuator/elbow/delay')
    assert row.endswith(
        'delay 0.01183 [0.01142, 0.01224] bounds [0, 0.1] s ✓ identified +492 % nominal 0.002'
    )
    assert ' 0 → 2.' in _row(page, 'parameters', 'joint/shoulder_pan/frictionloss')
    assert '0.011834' in page.xpath('//td[contains(@class, "value")]/data/@value')
    row = _row(page, 'parameters', 'actuator/elbow/kp')
    assert '⇄ confounded with actuator/elbow/kp, joint/elbow/stiffness' in row


def test_true_values_make_a_column_only_where_given(few: CalibrationResult) -> None:
    named = few.parameters[0].model_copy(update={'name': 'pan'})
    truth = {'actuator/elbow/delay': 0.012, 'body/tool/mass': 1.5, named.targets[0]: 0.025}
    page = _page(_changed(few, parameters=[named, *few.parameters[1:]]), truth=truth)
    assert '0.01200 inside' in _row(page, 'parameters', 'actuator/elbow/delay')
    assert '1.500 outside' in _row(page, 'parameters', 'body/tool/mass')
    assert 'true value (diamond)' in _section(page, 'parameters')
    assert ' 0.0250 ' in _row(page, 'parameters', f'pan {named.targets[0]}')
    assert 'True value' not in render_report(few, truth={'unrelated': 1.0})


def test_what_the_data_cannot_say_and_how_sure_they_are_stands_below(
    few: CalibrationResult, page: lxml.html.HtmlElement
) -> None:
    text = _section(page, 'parameters')
    for said in (
        'body/tool/mass : The data ask for more than the upper bound of 1.2 kg.',
        'kp + stiffness 531.2 [529.9, 532.5]',
        'Method: cluster-robust over 8 bags. The 270000 residuals say as much as 1840',
        'Residuals are alike over 0.08 s.',
        '+1.00 joint/shoulder_lift/armature and joint/shoulder_pan/frictionloss: they rise ',
    ):
        assert said in text
    strengths = [abs(correlation) for *_, correlation in strong_pairs(few)]
    assert strengths == sorted(strengths, reverse=True)


def test_links_begin_with_what_is_known_and_base_parameters_have_all_terms(
    few: CalibrationResult,
) -> None:
    known = LinkNumber(name='mass', unit='kg', value=1.5, initial=1.0, low=1.4, high=1.6)
    wide = known.model_copy(update={'name': 'moment 1', 'low': 0.1, 'high': 9.0})
    link = LinkResult(body='tip', parameters=(), numbers=(wide, known))
    terms = ('Izz(tip)', '+ m·cx(tip)', '- Ixx(tip)', '+ 0.25·m(tip)')
    base = BaseParameter(
        parameters=(), terms=terms, unit='kg·m²', value=0.5, low=0.49, high=0.51, largest=0.5
    )
    vague = base.model_copy(update={'terms': ('Ixy(tip)',), 'low': 0.0, 'high': 1.0})
    page = _page(_changed(few, links=[link], bases=[vague, base]))
    texts = [_text(row) for row in page.xpath('//table[@class="cards"]//tbody/tr')]
    places = [
        next(i for i, text in enumerate(texts) if text.startswith(start))
        for start in ('tip mass', 'tip moment 1', ' '.join(terms), 'Ixy(tip)')
    ]
    assert places == sorted(places)
    summaries = [_text(each) for each in page.xpath('//details/summary')]
    assert 'Base parameters: 1 of 2 sums known to 10 % of their largest term' in summaries
    assert '1 masses, centres and moments of links whose intervals stay wide' in summaries


def test_conditions_and_drift_say_what_was_seen(few: CalibrationResult) -> None:
    first, second = few.gate
    told = first.model_copy(update={'measured': 0.057, 'limit': 0.98, 'unit': 'of nominal'})
    wrong = second.model_copy(update={'passed': False, 'text': 'friction[0] is not excited.'})
    page = _page(_changed(few, checks=[told, wrong]))
    gate = _section(page, 'gate')
    assert 'held-out error ✓ met 0.057 ≤ 0.98 0.92 of nominal 17.4 to 1.07.' in gate
    assert f'times ✕ not met {" ".join(MISSING * 3)} friction[0] is not' in gate
    assert 'joint/elbow/frictionloss 3.5 5.1 9.1 changed' in _section(page, 'drift')
    assert 'joint/elbow/damping 7 7.05 0.6' in _section(page, 'drift')


def test_folds_and_horizon_are_in_the_validation(few: CalibrationResult) -> None:
    joint = HorizonJoint(sensor='elbow', unit='rad', before=0.03, after=0.003, coasting=0.5)
    points = [
        HorizonPoint(seconds=s, role='validate', before=21.5, after=1.65, joints=(joint,))
        for s in (0.1, 5.0)
    ]
    page = _page(_changed(few, horizon=points))
    text = _section(page, 'validation')
    assert 'bags/train_slow 17.4 1.10 \N{MULTIPLICATION SIGN}0.063' in text
    assert '5 held out 21.5 1.65' in text
    assert 'elbow 0.1 0.5 0.03 0.003 rad' in text
    assert page.xpath('//section[@aria-labelledby="validation"]//img')
    moved = [
        abs(value - p.value) > p.half_width  # of no interval, none is
        for fold in few.folds
        for p, value in zip(few.parameters, fold.values, strict=True)
    ]
    assert len(page.xpath('//td[contains(@class, "outside")]')) == sum(moved) > 0
    single = _page(_changed(few, horizon=points[:1]))
    assert not single.xpath('//section[@aria-labelledby="validation"]//img')


def test_errors_have_bars_where_they_are_known_and_worse_ones_are_called_worse(
    few: CalibrationResult, page: lxml.html.HtmlElement
) -> None:
    worse = {name: 'worse' in _row(page, 'errors', f'wrist_3_{name}') for name in ('vel', 'pos')}
    assert worse == {'vel': True, 'pos': False}
    unknown = few.errors[0].model_copy(update={'before': math.nan})
    assert _page(_changed(few, errors=[unknown])).xpath('//*[contains(@class, "bar")]') == []


def test_topics_findings_noise_and_files_are_listed(
    few: CalibrationResult, page: lxml.html.HtmlElement
) -> None:
    health = _section(page, 'health')
    row = _row(page, 'health', 'gap')
    assert row.startswith('gap ! caution 2 /joint_states in bags/train_fast (2): longest 0.011 s')
    assert 'A command that is lost in a gap is not simulated. Record on the robot itself' in row
    event = 'bags/train_fast training, 15 s ! caution gap in /joint_states 4.00 to 4.01 s, 9.00 to'
    assert all(said in health for said in ('2 cautions.', event, 'every sample is 0'))
    noise = _section(page, 'noise')
    assert all(said in noise for said in ('From mapping file', 'elbow_torque 0.120 N·m'))
    provenance = _section(page, 'provenance')
    assert all(file.sha256 in provenance for file in few.provenance.files)


def test_a_configuration_is_what_differs_from_the_defaults_and_all_of_it_folded(
    few: CalibrationResult,
) -> None:
    config = few.provenance.config | {
        'parameters': [{'target': 'joint/*/damping', 'bounds': [0.0, 3.0], 'shared': False}]
    }
    result = _changed(few, provenance=few.provenance.model_copy(update={'config': config}))
    (section,) = _page(result).xpath('//section[@aria-labelledby="provenance"]')
    command, settings, whole = (pre.text_content() for pre in section.xpath('.//pre'))
    assert command == few.provenance.command
    assert '- target: joint/*/damping\n  bounds: [0.0, 3.0]\n' in settings
    assert 'max_iterations' not in settings
    assert 'max_iterations: 200' in whole


def test_the_solver_says_how_derivatives_were_found_and_what_became_of_starts(
    few: CalibrationResult,
) -> None:
    starts = tuple(StartEntry(start_cost=50.0, cost=c, status='') for c in (12.5, 10.0, math.nan))
    entry = few.solver.trace[1].model_copy(update={'jacobian': 'central', 'regulariser': 0.25})
    update = {'trace': (few.solver.trace[0], entry), 'central': ('kp',), 'starts': starts}
    page = _page(_changed(few, solver=few.solver.model_copy(update=update)))
    (section,) = page.xpath('//section[@aria-labelledby="solver"]')
    rows = [[_text(cell) for cell in row][3:5] for row in section.xpath('.//table//tr')]
    assert rows == [['Jacobian', 'Regulariser'], [MISSING, MISSING], ['central', '0.25']]
    assert 'Central differences kp' in _text(section)
    assert '3 over the bounds; 2 were solved, to the costs 10, 12.5' in _text(section)


def test_every_plot_and_table_is_described_and_held_out_sequences_are_open(
    page: lxml.html.HtmlElement,
) -> None:
    plots = page.xpath('//div[contains(@class, "plot")]')
    assert len(plots) == 3
    described = plots[0].get('aria-label')
    assert 'elbow_vel in the held out sequence bags/held, 1500 of 7500 samples' in described
    assert 'its autocorrelation, 0.98 after 0.01 s.' in described
    assert all(picture.get('alt') for picture in page.xpath('//img'))
    assert all(table.find('caption') is not None for table in page.xpath('//table'))
    assert page.xpath('//th[not(@scope)]') == []
    sections = page.xpath('//details[@class="sequence"]')
    names = [_text(section.find('summary')).split(' ')[0] for section in sections]
    assert names == ['bags/held', 'bags/train_slow', 'bags/train_fast']
    assert [section.get('open') is not None for section in sections] == [True, False, False]


def _unpacked(values: Any) -> np.ndarray:
    middle, step, text = values
    counts = np.frombuffer(base64.b64decode(text), dtype='<i2')
    return np.where(counts == -32768, math.nan, middle + step * counts)


@pytest.mark.parametrize(
    'values', [(), (math.nan,), (2.5, 2.5), (1.0, math.nan, 3.0, math.inf), (-1e300, 0.0, 1e300)]
)
def test_packed_values_come_back_within_half_a_step(values: tuple[float, ...]) -> None:
    found = packed(values)
    back, known = _unpacked(found), np.isfinite(values)
    np.testing.assert_array_equal(np.isfinite(back), known)
    error = np.abs(back[known] - np.array(values)[known])
    assert np.all(error <= found.step / 2 * (1 + 1e-6) + 1e-15 * abs(found.middle))


def test_samples_arrive_with_their_gaps_and_what_is_alike_is_stored_once(
    rich_result: CalibrationResult,
) -> None:
    stamps = rich_result.plots[-18].times
    plots = [plot.model_copy(update={'times': stamps}) for plot in rich_result.plots[-18:]]
    result = _changed(rich_result, plots=plots)
    groups = sequences(result)
    document = json.loads(curves_json(result, groups))
    plot, found = groups[0].figures[3].plot, document['plots'][3]
    curves = {'measured': plot.measured, 'fitted': plot.after, 'nominal': plot.before}
    for name, own in curves.items():
        np.testing.assert_allclose(_unpacked(found[name]), own, atol=1e-4, rtol=0)
    # What the fit left, by itself: the noise is 0.01.
    left = _unpacked(found['residual'])
    np.testing.assert_allclose(left, np.subtract(plot.measured, plot.after), atol=1e-5, rtol=0)
    assert np.isnan(left).sum() == 20
    np.testing.assert_allclose(_unpacked(document['shared'][found['times']]), stamps, atol=2e-4)
    assert {each['times'] for each in document['plots']} == {0}
    assert len({each['command'] for each in document['plots']}) == 6
    assert [each['strip'] for each in document['plots'][:3]] == [False, True, True]
    assert [each['residualUnit'][1] for each in document['plots'][:3]] == ['mrad', 'mrad/s', 'N·m']


def test_a_prediction_that_diverges_hides_nothing_and_takes_no_steps_from_the_others(
    rich_result: CalibrationResult,
) -> None:
    given = {'times': (0.0, 1.0, 2.0), 'measured': (0.0, 1.0, 0.5), 'band': ()}
    given |= {'before': (0.5, 1.4, 1.2), 'after': (0.1, 0.9, 0.5)}
    calm = rich_result.plots[0].model_copy(update=given)
    wild = calm.model_copy(update={'before': (0.5, 1e30, -math.inf), 'after': (0.1, 1e30, 0.5)})
    assert limits(calm) is None
    assert limits(wild.model_copy(update={'measured': (2.0, 2.0, 2.0)})) is None
    result = _changed(rich_result, plots=[wild])
    (found,) = json.loads(curves_json(result, sequences(result)))['plots']
    assert found['range'] == [-0.05, 3.0]
    first, far, _ = _unpacked(found['nominal'])
    assert (first, far > 3.0) == (pytest.approx(0.5, abs=1e-3), True)
    assert _unpacked(found['residual'])[0] == pytest.approx(-0.1, abs=1e-3)


def _structure(html: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the elements of a page and their attributes' names, but for breaks inside of names.

    The parser puts each such break into the one before it, and gives up 256 levels below.
    """
    page = lxml.html.document_fromstring(html.replace('<wbr>', ''))
    return [(str(element.tag), tuple(element.keys())) for element in page.iter()]


def test_no_name_becomes_a_part_of_a_page(few: CalibrationResult) -> None:
    def named(name: str) -> str:
        return render_report(CalibrationResult.model_validate(poisoned(few.model_dump(), name)))

    page = named(HARMLESS + ''.join(short(name, 99) for name in EVERY))
    page.encode()
    assert not unseen(page)
    assert _structure(page) == _structure(named(HARMLESS))


def test_a_rejected_result_with_nothing_in_it_is_a_page(bare_result: CalibrationResult) -> None:
    page = _page(bare_result)
    said = _text(page.xpath('//p[@class="headline"]')[0])
    assert said == '0 of 0 parameters identified. ✕ Rejected Not met: better than nominal.'
    assert page.xpath('string(//title)').startswith('Rejected')
    assert 'The result holds no parameters.' in _text(page)
    assert page.xpath('//div[contains(@class, "plot")] | //img') == []
    for name in ('drift', 'validation'):
        assert page.xpath(f'//section[@aria-labelledby="{name}"] | //a[@href="#{name}"]') == []


def test_without_held_out_data_the_training_error_decides(few: CalibrationResult) -> None:
    plots = [plot for plot in few.plots if plot.role == 'train']
    solver = few.solver.model_copy(update={'window': 0.5})
    unknown = {'held_out_before': math.nan, 'held_out_after': math.nan}
    page = _page(_changed(few, **unknown, plots=plots, solver=solver))
    facts = _text(page.xpath('//dl[@class="facts"]')[0])
    assert facts.startswith('Training: positions 210 → 12 mrad')
    assert 'nothing is held out' in facts
    assert 'nominal → fitted over windows of 0.5 s' in facts
    assert page.xpath('//details[@class="sequence"]')[0].get('open') is not None


# What changed in a model's text


def _edit(element: str, attribute: str, old: str, new: str, **place: object) -> ModelChange:
    fields = {'file': 'arm.xml', 'line': 3, 'element': element, 'attribute': attribute}
    return ModelChange(**(fields | {'old': old, 'new': new} | place))


def test_attributes_of_an_element_are_one_change_and_files_are_apart(
    few: CalibrationResult,
) -> None:
    changes = [
        _edit('joint/elbow', 'damping', '2', '0.123456789'),
        _edit('joint/elbow', 'class', '', 'big'),
        _edit('joint/wrist', 'damping', '2', '', line=7),
        # Only new numbers are rounded.
        _edit('geom/foot', 'friction', '0.00512345', '7.0735529 0.00512345', file='b.xml', line=0),
    ]
    files = model_diff(_changed(few, changes=changes))
    assert list(files) == ['arm.xml', 'b.xml']
    assert files['arm.xml'] == [
        ('joint/elbow', 3, 'damping="2"', 'damping="0.1235" class="big"'),
        ('joint/wrist', 7, 'damping="2"', ''),
    ]
    assert files['b.xml'][0].new == 'friction="7.074 0.00512345"'
