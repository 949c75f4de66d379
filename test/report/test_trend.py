# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The page of results over time."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from builders.histories import NAMES, keep, make_result
from sysid_ros.report.trend import charts, render_trend
from sysid_ros.results.history import Entry, read_history

if TYPE_CHECKING:
    from pathlib import Path

WORN = (0.05, 0.7, 4.2)


@pytest.fixture
def entries(tmp_path: Path) -> tuple[Entry, ...]:
    """Return three results, of which the second is rejected and the third has more friction."""
    for result in (make_result(), make_result(accepted=False), make_result(*WORN)):
        keep(tmp_path, result)
    return read_history(tmp_path)


def test_each_parameter_has_a_chart_in_which_higher_is_more_and_later_is_right(
    entries: tuple[Entry, ...],
):
    found = charts(entries)

    assert [chart.name for chart in found] == list(NAMES)
    points = found[2].points
    assert points[0].x < points[1].x < points[2].x
    assert points[2].y < points[0].y == points[1].y
    for point in points:
        assert point.high is not None
        assert point.low is not None
        assert 0 <= point.high < point.y < point.low <= 100
    assert [point.changed for point in points] == [False, False, True]
    # The line leaves rejected results out.
    assert found[2].line.count(',') == 2


def test_the_page_runs_nothing_and_has_every_number_in_a_table(entries: tuple[Entry, ...]):
    page = render_trend(entries, 'out')

    assert '<script' not in page
    assert "default-src 'none'" in page
    tables = page.partition('id="numbers"')[2]
    for value in ('4.20', '[4.00, 4.40]', '4.9 <span class="tag warn">changed</span>'):
        assert value in tables
    for entry in entries:
        assert page.count(f'>{entry.name}') >= 1 + len(NAMES)
    assert '(+20 %), 4.9 standard errors' in page


def test_what_users_name_is_escaped(entries: tuple[Entry, ...]):
    hostile = '<script>alert(1)</script>'
    result = entries[0].result
    first = result.parameters[0].model_copy(update={'name': hostile})
    own = result.model_copy(update={'parameters': (first,)})

    page = render_trend([Entry('now', current=True, result=own, drift=None)], hostile)

    assert '<script' not in page
    HTMLParser().feed(page)


def test_values_that_never_move_and_wild_intervals_can_be_drawn():
    result = make_result(0.0, 0.0, 1.0)
    wild = result.parameters[2].model_copy(update={'low': -1e6, 'high': float('inf')})
    own = result.model_copy(update={'parameters': (*result.parameters[:2], wild)})

    found = charts([Entry('now', current=True, result=own, drift=None)])

    assert all(0 < point.y < 100 for chart in found for point in chart.points)
    assert found[2].points[0].low == 100.0
