# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A reader sorts and filters the parameters in a browser, by mouse or by keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builders.browser import needs_chromium, open_page, scrolls_sideways, violations
from sysid_ros.report import write_report

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

    from sysid_ros.results.result import CalibrationResult

pytestmark = [pytest.mark.slow, needs_chromium]
WIDE, NARROW = 1280, 390  # pixels


@pytest.fixture(scope='module')
def report(rich_result: CalibrationResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp('report') / 'report.html'
    write_report(rich_result.model_copy(update={'plots': ()}), path)
    return path


@pytest.fixture(scope='module')
def wide(report: Path, browser: Browser) -> Page:
    return open_page(browser, report, WIDE).page


@pytest.fixture
def table(wide: Page) -> Locator:
    wide.reload()
    return wide.get_by_role('table').first


def _column(table: Locator, number: int) -> list[str]:
    cells = table.locator(f'tbody tr:visible > :nth-child({number})')
    return [text.split('\n')[0] for text in cells.all_inner_texts()]


def test_a_header_sorts_up_down_and_back(table: Locator) -> None:
    given = _column(table, 1)
    header = table.locator('th', has_text='Value')
    header.get_by_role('button').click()
    assert header.get_attribute('aria-sort') == 'ascending'
    keys = [float(each.get_attribute('data-key') or '') for each in table.locator('td.value').all()]
    assert keys == sorted(keys)
    header.get_by_role('button').click()
    assert header.get_attribute('aria-sort') == 'descending'
    assert _column(table, 1)[0] == 'actuator/elbow/kp'
    header.get_by_role('button').click()
    assert header.get_attribute('aria-sort') is None
    assert _column(table, 1) == given


def test_what_has_no_number_is_last_in_both_directions(table: Locator) -> None:
    header = table.locator('th', has_text='95 % interval')
    for _ in range(2):
        header.get_by_role('button').click()
        assert _column(table, 1)[-1] == 'geom/foot/friction[0]'
    assert _column(table, 1)[0] == 'actuator/elbow/kp'


def test_another_header_takes_over(table: Locator) -> None:
    for name in ('Verdict', 'Parameter'):
        table.locator('th', has_text=name).get_by_role('button').click()
    assert table.locator('[aria-sort]').all_inner_texts() == ['Parameter']
    assert _column(table, 1) == sorted(_column(table, 1))


def test_verdicts_and_words_filter(table: Locator, wide: Page) -> None:
    identified, confounded = (
        wide.get_by_role('button', name=name) for name in ('identified 19', 'confounded 1')
    )
    confounded.click()
    assert confounded.get_attribute('aria-pressed') == 'true'
    assert _column(table, 1) == ['actuator/elbow/kp']
    assert wide.get_by_role('status').first.inner_text() == '1 of 22 shown'
    identified.click()
    assert len(_column(table, 1)) == 20
    wide.get_by_label('Find').first.fill('ELBOW/')
    assert len(_column(table, 1)) == 5
    confounded.click()
    identified.click()
    wide.get_by_label('Find').first.fill('')
    assert len(_column(table, 1)) == 22
    assert wide.get_by_role('status').first.inner_text() == ''


def test_the_keyboard_is_enough(table: Locator, wide: Page) -> None:
    wide.get_by_role('button', name='identified 19').focus()
    wide.keyboard.press('Space')
    assert len(_column(table, 1)) == 19
    wide.get_by_label('Find').first.focus()
    wide.keyboard.type('wrist_1')
    assert len(_column(table, 1)) == 3
    for _ in range(2):  # the table that scrolls, and its first header
        wide.keyboard.press('Tab')
    wide.keyboard.press('Enter')
    wide.keyboard.press('Enter')
    assert [name.rpartition('/')[2] for name in _column(table, 1)] == [
        'frictionloss',
        'damping',
        'armature',
    ]


def test_what_is_filtered_out_is_printed(table: Locator, wide: Page) -> None:
    wide.get_by_role('button', name='confounded 1').click()
    wide.emulate_media(media='print')
    shown = len(_column(table, 1)), wide.get_by_label('Find').first.is_visible()
    wide.emulate_media(media='screen')
    assert shown == (22, False)


def test_without_a_script_the_table_is_whole(report: Path, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    table = page.get_by_role('table').first
    assert table.locator('tbody tr:visible').count() == 22
    assert page.locator('.filter:visible, thead button').count() == 0
    context.close()


def test_cards_on_a_phone_sort_and_nothing_is_hard_to_reach(report: Path, browser: Browser) -> None:
    page, log = open_page(browser, report, NARROW, dark=True)
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert scrolls_sideways(page) == []
    assert violations(page) == []
    table = page.locator('table.cards').first
    table.get_by_role('button', name='Value').click()
    names = table.locator('tbody th').all_inner_texts()
    assert names[0] == 'actuator/elbow/delay'
    blank = '(row) => row.offsetHeight > 40 && !row.innerText.trim()'
    rows = page.locator('section[aria-labelledby=health] tr').evaluate_all(
        f'(rows) => rows.filter({blank}).length'
    )
    assert rows == 0
    assert log == []
    page.close()
