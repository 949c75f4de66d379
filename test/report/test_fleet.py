# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The page of a fleet: every plot has a table with the same numbers, and no text is markup."""

from __future__ import annotations

import re

import lxml.html
import pytest

from builders.fleet_results import robot_result
from sysid_ros.report.fleet import forests, render_fleet
from sysid_ros.results.fleet import FleetResult, RobotOutcome, summarise_fleet

VALUES = (1.0, 1.1, 0.9, 1.05, 0.95, 1.02, 9.0)


@pytest.fixture(scope='module')
def fleet() -> FleetResult:
    outcomes = {
        f'r{number}': RobotOutcome(
            robot_result({'joint/a/damping': (value, 0.02)}), report=f'robots/r{number}/report.html'
        )
        for number, value in enumerate(VALUES)
    }
    outcomes['lost'] = RobotOutcome(None, 'No bag matches <b>"x*"</b>.')
    return summarise_fleet(outcomes, 'sysid fleet <fleet.yaml>', {'sysid_ros': '0.1.0'})


@pytest.fixture(scope='module')
def page(fleet: FleetResult) -> lxml.html.HtmlElement:
    return lxml.html.fromstring(render_fleet(fleet))


def _tables(page: lxml.html.HtmlElement) -> dict[str, str]:
    """Return the text of each table by its label."""
    return {
        region.get('aria-label'): ' '.join(
            ' '.join(cell.text_content().split()) for cell in region.iter('th', 'td')
        )
        for region in page.xpath('//div[@role="region"]')
    }


def test_every_plot_has_a_table_with_the_same_numbers(
    fleet: FleetResult, page: lxml.html.HtmlElement
):
    plots = [plot.get('aria-label') for plot in page.xpath('//figure//svg[@role="img"]')]
    table = _tables(page)['joint/a/damping']
    exact = {data.get('value') for data in page.xpath('//details//data')}

    assert len(plots) == len(VALUES)
    for robot in fleet.robots[:-1]:
        (value,) = robot.values
        assert f'{robot.name} ' in table
        assert {repr(value.value), repr(value.shrunken), repr(value.deviation)} <= exact
    (parameter,) = fleet.parameters
    assert repr(parameter.mean) in exact


def test_the_headline_and_tables_name_who_is_odd_and_who_failed(page: lxml.html.HtmlElement):
    headline = ' '.join(page.find_class('headline')[0].text_content().split())
    tables = _tables(page)

    assert headline == '✕ Incomplete 7 of 8 robots are calibrated; r6 is odd.'
    assert re.search(r'r6 joint/a/damping 9\.000 \[', tables['Odd robots'])
    assert 'lost ✕ Failed \N{EN DASH} No bag matches <b>"x*"</b>.' in tables['Robots']
    assert 'odd: r6' in tables['Population']


def test_texts_of_the_user_are_no_markup(page: lxml.html.HtmlElement):
    assert not page.xpath('//td//b')
    assert page.xpath('//pre')[0].text_content() == 'sysid fleet <fleet.yaml>'


def test_robots_link_to_their_reports_and_nothing_is_loaded(page: lxml.html.HtmlElement):
    links = [a.get('href') for a in page.xpath('//section//a') if a.get('href')[0] != '#']

    assert links == [f'robots/r{number}/report.html' for number in range(len(VALUES))]
    assert not page.xpath('//script | //link | //img')
    (policy,) = page.xpath('//meta[@http-equiv]')
    assert policy.get('content') == "default-src 'none'; style-src 'unsafe-inline'"


def test_links_inside_the_page_lead_somewhere(page: lxml.html.HtmlElement):
    targets = {a.get('href')[1:] for a in page.xpath('//a') if a.get('href')[0] == '#'}

    assert targets <= {element.get('id') for element in page.xpath('//*[@id]')}


def test_an_axis_holds_all_points_and_cuts_intervals_that_are_much_wider():
    values = {'a': (1.0, 0.02), 'b': (1.1, 50.0), 'c': (0.9, 0.02)}
    outcomes = {
        name: RobotOutcome(robot_result({'p': (value, error)}))
        for name, (value, error) in values.items()
    }

    (forest,) = forests(summarise_fleet(outcomes, '', {}))

    assert all(0 < row.value < 1 for row in forest.rows)
    assert [(row.cut_low, row.cut_high) for row in forest.rows] == [
        (False, False),
        (True, True),
        (False, False),
    ]
    assert all(0 <= tick.position <= 1 for tick in forest.ticks)


def test_a_fleet_of_failures_is_a_page():
    page = render_fleet(summarise_fleet({'a': RobotOutcome(None, 'No.')}, '', {}))

    assert 'No robot has a result that may be used.' in page
