# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The report says everything, in order, and its text cannot become markup."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import lxml.html
import numpy as np
import pytest

from sysid_ros.errors import ResultError
from sysid_ros.report import render_report, write_report
from sysid_ros.report.pictures import CorrelatedPair
from sysid_ros.report.signals import curves_json, limits, packed, sequences
from sysid_ros.results.result import (
    BaseParameter,
    CalibrationResult,
    LinkNumber,
    LinkResult,
    StartEntry,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.slow


EVIL = '</script><script>evil()</script><img src=x onerror=evil()> & "quoted" {{ 7 * 7 }} '
LIMIT = 1_600_000  # bytes


def _few_plots(result: CalibrationResult) -> CalibrationResult:
    return result.model_copy(
        update={'plots': tuple(plot for plot in result.plots if plot.sensor == 'elbow_vel')}
    )


def _page(result: CalibrationResult, **options: object) -> lxml.html.HtmlElement:
    page = lxml.html.document_fromstring(render_report(result, **options))
    for opportunity in page.xpath('//wbr'):
        opportunity.drop_tag()
    return page


def _text(element: lxml.html.HtmlElement) -> str:
    return ' '.join(' '.join(element.itertext()).split())


def _row(page: lxml.html.HtmlElement, section: str, name: str) -> str:
    rows = page.xpath(f'//section[@aria-labelledby="{section}"]//tbody/tr')
    return next(_text(row) for row in rows if _text(row.find('th')) == name)


def _poisoned(value: object, key: str = '') -> object:
    """Put markup in front of every free text of a result."""
    if isinstance(value, dict):
        return {k: _poisoned(v, k) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_poisoned(v, key) for v in value)
    free = isinstance(value, str) and not isinstance(value, StrEnum) and key != 'role'
    return f'{EVIL}{value}' if free else value


def test_a_page_of_18_sensors_in_3_sequences_stays_below_8_mb(
    rich_result: CalibrationResult, tmp_path: Path
) -> None:
    write_report(rich_result, tmp_path / 'report.html')
    assert len(rich_result.plots) == 54
    assert (tmp_path / 'report.html').stat().st_size < LIMIT


def test_nothing_is_loaded_from_anywhere(rich_result: CalibrationResult) -> None:
    page = _page(_few_plots(rich_result))
    links = [link for _, _, link, _ in page.iterlinks()]
    assert links
    assert all(link.startswith('#') for link in links)
    assert page.xpath('//link | //img | //iframe | //script[@src]') == []
    assert '@import' not in page.xpath('string(//style)')
    assert 'url(' not in page.xpath('string(//style)')


def test_the_policy_allows_only_the_two_scripts_of_the_page(
    rich_result: CalibrationResult,
) -> None:
    text = render_report(_few_plots(rich_result))
    page = lxml.html.document_fromstring(text)
    policy = page.xpath('string(//meta[@http-equiv="Content-Security-Policy"]/@content)')
    assert policy.startswith("default-src 'none'; ")
    scripts = re.findall(r'<script>(.*?)</script>', text, re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_links_inside_the_page_have_a_place_to_go(rich_result: CalibrationResult) -> None:
    page = _page(_few_plots(rich_result))
    anchors = [link[1:] for link in page.xpath('//nav/a/@href')]
    assert anchors == page.xpath('//h2/@id')


def test_the_outcome_comes_first_and_provenance_last(rich_result: CalibrationResult) -> None:
    page = _page(_few_plots(rich_result))
    headline = _text(page.xpath('//p[@class="headline"]')[0])
    counted, said = '19 of 22 parameters identified.', "positions: 5.7 % of the nominal model's."
    assert headline == f'{counted} ✓ Accepted Held-out error of {said}'
    facts = _text(page.xpath('//dl[@class="facts"]')[0])
    assert facts.startswith('Held out: positions 237 → 13.6 mrad nominal → fitted')
    assert 'Held-out over training error 1.06' in facts
    assert '19 identified, 1 at bound, 1 not excited, 1 confounded' in facts
    beside = _text(page.xpath('//p[@class="soft beside"]')[0])
    assert beside.startswith('Beside the noise: 17.4 → 1.07 times the noise (from differences of')
    assert 'position commands of 6 actuators, zero-order held' in beside
    ids = page.xpath('//h2/@id')
    assert ids == [
        'parameters',
        'drift',
        'gate',
        'errors',
        'validation',
        'health',
        'signals',
        'noise',
        'solver',
        'provenance',
    ]
    body = render_report(_few_plots(rich_result))
    assert body.index('class="headline"') < body.index('class="warnings"') < body.index('<h2')


def test_a_rejected_result_says_so_in_words(rich_result: CalibrationResult) -> None:
    result = _few_plots(rich_result).model_copy(
        update={'accepted': False, 'acceptance': 'held-out error rose from 1.2 to 3.4'}
    )
    page = _page(result)
    headline = _text(page.xpath('//p[@class="headline"]')[0])
    assert headline == '19 of 22 parameters identified. ✕ Rejected Not met: verdicts.'
    without = _page(result.model_copy(update={'gate': ()}))
    said = _text(without.xpath('//p[@class="headline"]')[0])
    assert said.endswith(' ✕ Rejected Held-out error rose from 1.2 to 3.4.')
    assert page.xpath('string(//title)').startswith('Rejected')


def test_a_parameter_row_has_value_interval_unit_bounds_and_verdict(
    rich_result: CalibrationResult,
) -> None:
    page = _page(_few_plots(rich_result))
    row = _row(page, 'parameters', 'actuator/elbow/delay')
    assert row.endswith(
        'delay 0.01183 [0.01142, 0.01224] bounds [0, 0.1] s +492 % nominal 0.002 ✓ identified'
    )
    assert ' 0 → 2.' in _row(page, 'parameters', 'joint/shoulder_pan/frictionloss')
    exact = page.xpath('//td[contains(@class, "value")]/data/@value')
    assert '0.011834' in exact
    row = _row(page, 'parameters', 'actuator/elbow/kp')
    assert '⇄ confounded with actuator/elbow/kp, joint/elbow/stiffness' in row


def test_true_values_make_a_column_only_where_given(rich_result: CalibrationResult) -> None:
    result = _few_plots(rich_result)
    truth = {'actuator/elbow/delay': 0.012, 'body/tool/mass': 1.5}
    page = _page(result, truth=truth)
    assert '0.01200 inside' in _row(page, 'parameters', 'actuator/elbow/delay')
    assert '1.500 outside' in _row(page, 'parameters', 'body/tool/mass')
    assert 'True value' not in render_report(result)
    assert 'True value' not in render_report(result, truth={'unrelated': 1.0})


def test_a_sensor_that_became_worse_is_called_worse(rich_result: CalibrationResult) -> None:
    page = _page(_few_plots(rich_result))
    assert 'worse' in _row(page, 'errors', 'wrist_3_vel')
    assert 'worse' not in _row(page, 'errors', 'wrist_3_pos')


def test_held_out_sequences_come_first_and_are_open(rich_result: CalibrationResult) -> None:
    page = _page(_few_plots(rich_result))
    sections = page.xpath('//details[@class="sequence"]')
    names = [_text(section.find('summary')).split(' ')[0] for section in sections]
    assert names == ['bags/held', 'bags/train_slow', 'bags/train_fast']
    assert [section.get('open') is not None for section in sections] == [True, False, False]


def test_every_plot_and_table_is_described(rich_result: CalibrationResult) -> None:
    page = _page(_few_plots(rich_result))
    plots = page.xpath('//div[contains(@class, "plot")]')
    assert len(plots) == 4
    assert all(plot.get('role') == 'img' and plot.get('aria-label') for plot in plots)
    described = plots[0].get('aria-label')
    assert 'elbow_vel in the held out sequence bags/held, 1500 of 7500 samples' in described
    assert 'measured, nominal and fitted, with the command' in described
    assert 'its autocorrelation, 0.98 after 0.01 s.' in described
    assert all(table.find('caption') is not None for table in page.xpath('//table'))
    assert page.xpath('//th[not(@scope)]') == []


def test_topics_findings_noise_and_files_are_listed(rich_result: CalibrationResult) -> None:
    page = _page(_few_plots(rich_result))
    health = _text(page.xpath('//section[@aria-labelledby="health"]')[0])
    assert '2 cautions.' in health
    row = _row(page, 'health', 'gap')
    assert row.startswith('gap ! caution 2 /joint_states in bags/train_fast (2): longest 0.011 s')
    assert 'A command that is lost in a gap is not simulated. Record on the robot itself' in row
    assert 'every sample is 0' in _row(page, 'health', 'dead channel')
    assert 'bags/train_fast training, 15 s' in health
    assert '! caution gap in /joint_states 4.00 to 4.01 s, 9.00 to 9.01 s' in health
    assert health.count('Nothing was found at a certain time.') == 2
    noise = _text(page.xpath('//section[@aria-labelledby="noise"]')[0])
    assert 'From mapping file' in noise
    assert 'elbow_torque 0.120 N·m' in noise
    provenance = _text(page.xpath('//section[@aria-labelledby="provenance"]')[0])
    for file in rich_result.provenance.files:
        assert file.sha256 in provenance
    assert 'sysid calibrate calibration.yaml' in provenance
    assert 'max_iterations: 200' in provenance


def test_a_configuration_is_what_differs_from_the_defaults_and_all_of_it_folded(
    rich_result: CalibrationResult,
) -> None:
    provenance = rich_result.provenance
    config = provenance.config | {
        'parameters': [{'target': 'joint/*/damping', 'bounds': [0.0, 3.0], 'shared': False}]
    }
    result = rich_result.model_copy(
        update={'provenance': provenance.model_copy(update={'config': config})}
    )
    section = _page(_few_plots(result)).xpath('//section[@aria-labelledby="provenance"]')[0]
    command, settings, whole = (pre.text_content() for pre in section.xpath('.//pre'))
    assert command == provenance.command
    assert '- target: joint/*/damping\n  bounds: [0.0, 3.0]\n' in settings
    assert 'max_iterations' not in settings
    assert 'max_iterations: 200' in whole
    folded = [_text(summary) for summary in section.xpath('.//details/summary')]
    assert folded == ['The whole configuration', '4 files that went in, with their SHA-256']


def test_correlated_pairs_are_named_and_explained(rich_result: CalibrationResult) -> None:
    page = _page(_few_plots(rich_result))
    (items,) = page.xpath('//ol[contains(@class, "pairs-of")]')
    (only,) = items
    assert _text(only) == (
        '+1.00 joint/shoulder_lift/armature and joint/shoulder_pan/frictionloss: they rise '
        'together; only their ratio or weighted difference is known well.'
    )
    opposite = CorrelatedPair('a', 'b', -0.6)
    assert opposite.meaning == (
        'one rises as the other falls; a weighted sum of them is known better than each'
    )


def test_samples_arrive_with_their_gaps(rich_result: CalibrationResult) -> None:
    groups = sequences(rich_result)
    document = json.loads(curves_json(rich_result, groups))
    plot = groups[0].figures[3].plot
    found = document['plots'][3]
    fitted = _unpacked(found['fitted'])
    np.testing.assert_allclose(fitted, plot.after, atol=4e-4)
    assert found['measured'] is None
    # What the fit left, by itself: the noise is 0.01.
    left = np.subtract(plot.measured, plot.after)
    unpacked = _unpacked(found['left'])
    np.testing.assert_allclose(unpacked, left, atol=8e-4)
    assert np.isnan(unpacked).sum() == 20
    times = _unpacked(document['shared'][found['times']])
    assert times[[0, -1]] == pytest.approx([plot.times[0], plot.times[-1]], abs=1e-12)
    np.testing.assert_allclose(times, plot.times, atol=2e-4)
    command = _unpacked(document['shared'][found['command']])
    np.testing.assert_allclose(command, plot.command, atol=2.8e-4)
    np.testing.assert_allclose(_unpacked(found['band']), plot.band)
    assert document['plots'][-1]['band'] is None
    assert [plot['strip'] for plot in document['plots'][:3]] == [False, True, True]
    assert [plot['leftUnit'] for plot in document['plots'][:3]] == [
        [1e3, 'mrad'],
        [1e3, 'mrad/s'],
        [1.0, 'N·m'],
    ]


@pytest.mark.parametrize(
    'values',
    [
        (),
        (math.nan,),
        (2.5, 2.5),
        (1.0, math.nan, 3.0, math.inf),
        (-1e300, 0.0, 1e300),
        (1e9, 1e9 + 1e-6, 1e9 + 2e-6),
    ],
)
def test_packed_values_come_back_within_a_step(values: tuple[float, ...]) -> None:
    found = packed(values, 1000)
    back = _unpacked(found)
    known = np.isfinite(values)
    np.testing.assert_array_equal(np.isfinite(back), known)
    error = np.abs(back[known] - np.array(values)[known])
    assert np.all(error <= found.step / 2 + 1e-15 * abs(found.origin))
    if known.any():
        assert found.step == pytest.approx(np.ptp(np.array(values)[known]) / 1000, rel=1e-4)


def test_smooth_curves_and_noise_take_less_than_a_byte_for_each_sample() -> None:
    times = np.linspace(0, 10, 1000)
    assert len(base64.b64decode(packed(np.sin(times)).text)) < 700
    assert len(base64.b64decode(packed(times).text)) < 400
    noise = np.random.default_rng(1).standard_normal(1000)
    assert len(base64.b64decode(packed(noise, 200).text)) < 1000


def _unpacked(values: Sequence[Any]) -> np.ndarray:
    origin, step, order, bits, count, text = values
    stream = ''.join(f'{byte:08b}' for byte in base64.b64decode(text))
    codes = []
    for _ in range(count):
        zeros = len(stream) - len(stream.lstrip('0'))
        end = 2 * zeros + 1 + bits
        codes.append(int(stream[:end], 2) - (1 << bits))
        stream = stream[end:]
    found = np.full(len(codes), math.nan)
    known = [k for k, code in enumerate(codes) if code]
    counts = np.array([codes[k] // 2 * (1 if codes[k] % 2 else -1) for k in known], dtype=float)
    for _ in range(order):
        counts = np.cumsum(counts)
    found[known] = origin + step * counts
    return found


def test_a_wild_prediction_takes_no_steps_from_the_others(rich_result: CalibrationResult) -> None:
    wild = rich_result.plots[0].model_copy(
        update={
            'times': (0.0, 1.0, 2.0),
            'measured': (0.0, 1.0, 0.5),
            'before': (0.5, 1e30, -math.inf),
            'after': (0.1, 1e30, 0.5),
            'band': (),
        }
    )
    result = rich_result.model_copy(update={'plots': (wild,)})
    (found,) = json.loads(curves_json(result, sequences(result)))['plots']
    nominal, left = _unpacked(found['nominal']), _unpacked(found['left'])
    assert found['range'] == [-0.05, 3.0]
    np.testing.assert_allclose(_unpacked(found['measured']), wild.measured, atol=2e-4)
    assert _unpacked(found['fitted'])[0] == pytest.approx(0.1, abs=1e-3)
    assert nominal[0] == pytest.approx(0.5, abs=1e-3)
    assert nominal[1] > 3.0
    assert nominal[2] < -0.05
    assert left[0] == pytest.approx(-0.1, abs=1e-3)
    assert 1.0 - left[1] > 3.0


def test_a_prediction_that_diverges_does_not_hide_what_was_measured(
    rich_result: CalibrationResult,
) -> None:
    calm = rich_result.plots[0].model_copy(
        update={'measured': (0.0, 1.0, math.nan), 'before': (0.5, 1.4, 1.2), 'after': (0.1, 0.9, 1)}
    )
    wild = calm.model_copy(update={'before': (0.5, 1e30, math.inf)})
    flat = wild.model_copy(update={'measured': (2.0, 2.0, 2.0)})
    assert limits(calm) is None
    assert limits(wild) == (-0.05, 3.0)
    assert limits(flat) is None


def test_an_unknown_error_has_no_bar(rich_result: CalibrationResult) -> None:
    error = rich_result.errors[0].model_copy(update={'before': math.nan})
    result = _few_plots(rich_result).model_copy(update={'errors': (error,)})
    assert _page(result).xpath('//*[contains(@class, "bar")]') == []


def test_sensors_with_the_same_stamps_share_them(rich_result: CalibrationResult) -> None:
    plots = tuple(
        plot.model_copy(update={'times': rich_result.plots[0].times})
        for plot in rich_result.plots[:5]
    )
    result = rich_result.model_copy(update={'plots': plots})
    document = json.loads(curves_json(result, sequences(result)))
    assert {plot['times'] for plot in document['plots']} == {0}
    assert len({plot['command'] for plot in document['plots']}) == 2
    assert len(document['plots']) == 5


def test_markup_in_any_text_stays_text(rich_result: CalibrationResult) -> None:
    fields = _few_plots(rich_result).model_dump(mode='python')
    text = render_report(CalibrationResult.model_validate(_poisoned(fields)))
    page = lxml.html.document_fromstring(text)
    assert len(page.xpath('//script')) == 3
    assert page.xpath('//img | //*[@onerror]') == []
    assert page.xpath('//h1')[0].text_content().count('<img src=x onerror=evil()>') == 1
    assert '{{ 7 * 7 }}' in page.xpath('string(//h1)')
    curves = json.loads(page.xpath('string(//script[@id="curves"])'))
    assert len(curves['plots']) == 3


def test_a_result_with_nothing_in_it_is_a_page(bare_result: CalibrationResult) -> None:
    page = _page(bare_result)
    headline = _text(page.xpath('//p[@class="headline"]')[0])
    assert headline == '0 of 0 parameters identified. ✕ Rejected Nothing was identified.'
    assert 'The result holds no parameters.' in _text(page)
    assert 'Nothing was found to be wrong with the recordings.' in _text(page)
    assert page.xpath('//div[contains(@class, "plot")]') == []


def test_without_held_out_data_the_training_error_decides(
    rich_result: CalibrationResult,
) -> None:
    result = _few_plots(rich_result).model_copy(
        update={
            'held_out_before': float('nan'),
            'held_out_after': float('nan'),
            'plots': rich_result.plots[:2],
        }
    )
    page = _page(result)
    facts = _text(page.xpath('//dl[@class="facts"]')[0])
    assert facts.startswith('Training: positions 210 → 12 mrad')
    assert 'nothing is held out' in facts
    assert page.xpath('//details[@class="sequence"]')[0].get('open') is not None


def test_a_report_that_cannot_be_written_leaves_the_old_one(
    bare_result: CalibrationResult, tmp_path: Path
) -> None:
    (tmp_path / 'file').write_text('old')
    with pytest.raises(ResultError, match='Cannot write'):
        write_report(bare_result, tmp_path / 'file' / 'report.html')
    assert (tmp_path / 'file').read_text() == 'old'


def test_the_trace_says_how_derivatives_were_found(rich_result: CalibrationResult) -> None:
    solver = rich_result.solver
    trace = tuple(
        entry.model_copy(update={'jacobian': kind, 'regulariser': mu})
        for entry, kind, mu in zip(
            solver.trace[:3], ('forward', 'central', ''), (0.0, 0.25, math.nan), strict=True
        )
    )
    told = solver.model_copy(update={'trace': trace, 'central': ('geom/foot/friction[0]',)})
    page = _page(_few_plots(rich_result).model_copy(update={'solver': told}))
    section = page.xpath('//section[@aria-labelledby="solver"]')[0]
    rows = [[_text(cell) for cell in row] for row in section.xpath('.//table//tr')]
    assert rows[0][3:5] == ['Jacobian', 'Regulariser']
    assert [row[3] for row in rows[1:]] == ['forward', 'central', '\u2013']
    assert [row[4] for row in rows[1:]] == ['0', '0.25', '\u2013']
    assert 'Central differences geom/foot/friction[0]' in _text(section)
    assert 'Starts' not in _text(section)


def test_the_report_says_what_became_of_several_starts(rich_result: CalibrationResult) -> None:
    starts = (
        StartEntry(initial_cost=50.0, final_cost=12.5, status='step'),
        StartEntry(initial_cost=60.0, final_cost=10.0, status='cost'),
        StartEntry(initial_cost=1e9, final_cost=math.nan, status='not solved'),
    )
    solver = rich_result.solver.model_copy(update={'starts': starts})
    page = _page(_few_plots(rich_result).model_copy(update={'solver': solver}))
    section = page.xpath('//section[@aria-labelledby="solver"]')[0]
    assert '3 over the bounds; 2 were solved, to the costs 10, 12.5' in _text(section)


def test_links_begin_with_what_is_known_and_base_parameters_have_all_terms(
    rich_result: CalibrationResult,
) -> None:
    known = LinkNumber(name='mass', unit='kg', value=1.5, initial=1.0, low=1.4, high=1.6)
    wide = known.model_copy(update={'name': 'moment 1', 'low': 0.1, 'high': 9.0})
    link = LinkResult(body='tip', parameters=(), numbers=(wide, known))
    terms = ('Izz(tip)', '+ m·cx(tip)', '- Ixx(tip)', '+ 0.25·m(tip)')
    base = BaseParameter(
        parameters=(), terms=terms, unit='kg·m²', value=0.5, low=0.49, high=0.51, largest=0.5
    )
    vague = base.model_copy(update={'terms': ('Ixy(tip)',), 'low': 0.0, 'high': 1.0})
    page = _page(rich_result.model_copy(update={'links': (link,), 'bases': (vague, base)}))
    texts = [_text(row) for row in page.xpath('//table[@class="cards"]//tbody/tr')]
    places = [
        next(i for i, text in enumerate(texts) if text.startswith(start))
        for start in ('tip mass', 'tip moment 1', ' '.join(terms), 'Ixy(tip)')
    ]
    assert places == sorted(places)
    summaries = [_text(each) for each in page.xpath('//details/summary')]
    assert 'Base parameters: 1 of 2 sums known to 10 % of their largest term' in summaries
    assert '1 masses, centres and moments of links whose intervals stay wide' in summaries


def test_names_may_be_broken_and_numbers_may_not(rich_result: CalibrationResult) -> None:
    expression = 'a_b/c - 0.489·d'
    combination = rich_result.combinations[0].model_copy(update={'expression': expression})
    page = render_report(rich_result.model_copy(update={'combinations': (combination,)}))
    assert 'a_<wbr>b/<wbr>c - 0.489·d' in page


def test_errors_over_windows_are_called_so(rich_result: CalibrationResult, tmp_path: Path) -> None:
    solver = rich_result.solver.model_copy(update={'window': 0.5})
    path = tmp_path / 'report.html'
    write_report(rich_result.model_copy(update={'solver': solver}), path)
    text = path.read_text(encoding='utf-8')
    assert 'error over windows of 0.5 s' in text
    assert 'measured minus predicted over windows of 0.5 s' in text
