# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A real browser without a network draws the plots of the report, on screens and on paper."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, Page

from builders.browser import Opened, needs_chromium, open_page, scrolls_sideways, violations
from sysid_ros.report import write_report
from sysid_ros.report.rendering import Film
from sysid_ros.results.result import CalibrationResult

WIDE, NARROW = 1280, 400  # pixels
#: Of the light palette, as red, green and blue.
COLOURS = {
    'measured': (154, 160, 169),
    'nominal': (194, 87, 12),
    'fitted': (11, 92, 173),
    'command': (11, 107, 79),
}

pytestmark = [pytest.mark.nightly, needs_chromium]


@pytest.fixture(scope='module')
def report(rich_result: CalibrationResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of one joint's training and all of the held-out data; a parameter is a script."""
    name = '<script>alert(1)</script>'
    evil = rich_result.parameters[0].model_copy(update={'name': name})
    result = rich_result.model_copy(
        update={
            'parameters': (evil, *rich_result.parameters[1:]),
            'plots': (*rich_result.plots[:3], *rich_result.plots[-18:]),
        }
    )
    path = tmp_path_factory.mktemp('report') / 'report.html'
    stream = io.BytesIO()
    Image.new('RGB', (400, 300)).save(stream, format='WEBP')
    film = Film('bags/held', stream.getvalue(), (('nominal', '#c2570c'),))
    write_report(result, path, truth={'joint/elbow/damping': 0.7}, films=[film])
    return path


@pytest.fixture(scope='module')
def opened(browser: Browser, report: Path) -> Opened:
    """The report on a wide screen."""
    return open_page(browser, report, WIDE)


@pytest.fixture
def page(opened: Opened) -> Iterator[Page]:
    """The same, scrolled to its signals, and as it was afterwards."""
    page = opened.page
    page.locator('#signals').evaluate('title => title.scrollIntoView()')
    page.locator('.plot canvas').first.wait_for()
    yield page
    for button in page.locator('button[data-curve][aria-pressed=false]').all():
        button.click()


def _lines(plot: Locator, curve: str) -> tuple[int, int]:
    """Return how many pixels of a plot's curves have a colour, and from how low to how high."""
    found = plot.locator('.chart-curves canvas').evaluate(
        """(canvas, colour) => {
          const { width, height } = canvas;
          const copy = new OffscreenCanvas(width, height);
          const context = copy.getContext('2d', { willReadFrequently: true });
          context.drawImage(canvas, 0, 0);
          const { data } = context.getImageData(0, 0, width, height);
          const rows = [];
          for (let i = 0; i < data.length; i += 4) {
            const near = colour.every((value, k) => Math.abs(data[i + k] - value) < 6);
            if (near && data[i + 3] > 100) rows.push(Math.floor(i / 4 / width));
          }
          return [rows.length, rows.length ? Math.max(...rows) - Math.min(...rows) : 0];
        }""",
        COLOURS[curve],
    )
    return int(found[0]), int(found[1])


def _pointed_at(plot: Locator, part: float) -> float:
    """Point at a part of the width of a plot's curves, and return the time that it then says."""
    area = plot.locator('.chart-curves .u-over').bounding_box()
    assert area is not None
    plot.page.mouse.move(area['x'] + part * area['width'], area['y'] + area['height'] / 2)
    return _said_time(plot)


def _said_time(plot: Locator) -> float:
    found = re.match(r'at ([\d.]+) s: ', plot.locator('.chart-residual .what').inner_text())
    assert found is not None
    return float(found[1])


def test_only_what_is_near_to_what_is_in_sight_is_drawn(page: Page) -> None:
    plots = page.locator('.plot')
    assert plots.count() == 21
    assert plots.first.locator('canvas').count() == 3
    assert plots.nth(17).locator('canvas').count() == 0


def test_a_plot_shows_three_curves_and_a_command_in_the_same_unit(page: Page) -> None:
    position, velocity = page.locator('.plot').nth(0), page.locator('.plot').nth(1)
    for curve in COLOURS:
        assert _lines(position, curve)[0] > 50, curve
    assert position.locator('.chart-strip').count() == 0
    assert velocity.locator('.chart-strip .what').inner_text() == 'command in rad'
    assert _lines(velocity, 'command')[0] == 0


def test_the_legend_hides_a_curve_and_shows_it_again(page: Page) -> None:
    plot = page.locator('.plot').first
    button = page.get_by_role('button', name='nominal')
    for pressed in ('false', 'true'):
        button.press('Enter')
        assert button.get_attribute('aria-pressed') == pressed
        page.wait_for_timeout(50)
        assert (_lines(plot, 'nominal')[0] > 50) is (pressed == 'true')


def test_pointing_and_dragging_are_for_all_plots_of_a_sequence(page: Page) -> None:
    first, other = page.locator('.plot').nth(0), page.locator('.plot').nth(2)
    time = _pointed_at(first, 0.5)
    assert time == pytest.approx(7.5, abs=0.1)
    assert _said_time(other) == pytest.approx(time, abs=0.02)
    said = other.locator('.chart-curves .what').inner_text()
    assert re.fullmatch(r'measured \S+  nominal \S+  fitted \S+', said)
    area = first.locator('.chart-curves .u-over').bounding_box()
    assert area is not None
    page.mouse.move(area['x'] + 0.4 * area['width'], area['y'] + 20)
    page.mouse.down()
    page.mouse.move(area['x'] + 0.42 * area['width'], area['y'] + 20)
    page.mouse.move(area['x'] + 0.44 * area['width'], area['y'] + 20)
    page.mouse.up()
    for plot in (first, other):
        assert _pointed_at(plot, 0.01) == pytest.approx(6.0, abs=0.1)
        assert _pointed_at(plot, 0.99) == pytest.approx(6.6, abs=0.1)
        # A twentieth of a swing fills the height, which it would not without new limits.
        assert _lines(plot, 'fitted')[1] > 80
    other.locator('.chart-curves .u-over').dblclick()
    assert _pointed_at(first, 0.01) == pytest.approx(0.15, abs=0.1)


def test_the_page_is_for_everybody_and_the_browser_has_nothing_to_complain_about(
    page: Page, opened: Opened
) -> None:
    page.locator('details:has(.film) > summary').click()
    assert page.locator('.film img').evaluate('image => image.decode().then(() => true)')
    for picture in page.locator('.drawn img').all():
        assert picture.evaluate('image => image.naturalWidth') > 400
    assert scrolls_sideways(page) == []
    assert violations(page) == []
    assert opened.log == []


def test_small_and_dark_screens_have_plots_that_fit_and_are_within_reach(
    browser: Browser, report: Path
) -> None:
    page, log = open_page(browser, report, NARROW, dark=True)
    assert scrolls_sideways(page) == []
    page.locator('#signals').evaluate('title => title.scrollIntoView()')
    plot = page.locator('.plot').first
    plot.locator('canvas').first.wait_for()
    own, area = plot.locator('canvas').first.bounding_box(), plot.bounding_box()
    assert own is not None
    assert area is not None
    assert own['width'] <= area['width']
    assert _lines(plot, 'fitted')[0] < 50, 'the colour is that of light pages'
    # The rest is as on a wide and light screen.
    assert violations(page, 'color-contrast', 'target-size') == []
    assert log == []


def test_paper_has_every_plot(browser: Browser, report: Path) -> None:
    page, _ = open_page(browser, report, WIDE)
    page.emulate_media(media='print')
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    plots = page.locator('.plot')
    assert plots.evaluate_all("all => all.every((plot) => plot.querySelector('canvas'))")
    assert not page.get_by_text('double-click').is_visible()
