# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The page and the tables of results side by side."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest

from builders.browser import needs_chromium, open_page, scrolls_sideways, violations
from builders.histories import NAMES, make_result
from sysid_ros.report.side_by_side import (
    print_side_by_side,
    render_side_by_side,
    write_side_by_side,
)
from sysid_ros.report.tables import LiteralConsole
from sysid_ros.results.side_by_side import SideBySide, side_by_side

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

WORN = (0.05, 0.7, 4.2)


@pytest.fixture
def found() -> SideBySide:
    """Return two results: one with more friction, and one that was rejected."""
    return side_by_side(
        ('out/<b>old', 'out/current', 'out/rejected'),
        (make_result(), make_result(*WORN), make_result(accepted=False)),
    )


def test_the_page_runs_nothing_and_has_values_differences_and_standing(found: SideBySide):
    page = render_side_by_side(found)

    assert '<script' not in page
    assert '<b>old' not in page
    assert "default-src 'none'" in page
    for text in ('3.50</data></b> <small>[3.30, 3.70]<', '4.20</data></b> <small>[4.00', '>4.9 <'):
        assert text in page
    assert page.count('differs</span>') == 1
    assert page.count('agrees</span>') == 2 * len(NAMES) - 1
    assert re.findall(r'</span> (Accepted|Rejected)</span>', page) == [
        'Accepted',
        'Accepted',
        'Rejected',
    ]


@needs_chromium
@pytest.mark.slow
def test_the_page_is_for_everybody_and_never_wider_than_the_window(
    found: SideBySide, browser: Browser, tmp_path: Path
):
    write_side_by_side(found, tmp_path / 'page.html')

    for width, dark in ((1280, False), (390, True)):
        page, log = open_page(browser, tmp_path / 'page.html', width, dark=dark)
        assert (log, scrolls_sideways(page), violations(page)) == ([], [], [])


def test_the_console_says_the_same(found: SideBySide):
    stream = io.StringIO()

    print_side_by_side(LiteralConsole(stream, 200), found)

    lines = stream.getvalue().splitlines()
    [friction] = [line for line in lines if line.startswith(NAMES[2])]
    assert friction.split() == [
        *(
            NAMES[2],
            '3.50',
            '[3.30,',
            '3.70]',
            '4.20',
            '[4.00,',
            '4.40]',
            '3.50',
            '[3.30,',
            '3.70]',
        ),
        *('4.9', 'differs', '0', 'agrees', 'N·m'),
    ]
    assert any(re.match(r'elbow_position +0.0200 → 0.00200 ', line) for line in lines)
    assert lines[-2].startswith('out/current against out/<b>old: joint/elbow/frictionloss from 3.5')
