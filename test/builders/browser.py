# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium without a network: what a reader of a page sees and can do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser')
#: Of a window, in pixels.
HEIGHT = 900

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get('CI'), reason='chromium is not installed'
)


class Opened(NamedTuple):
    """A page, and what the browser has had to say about it so far."""

    page: Page
    log: list[str]


@contextmanager
def headless() -> Iterator[Browser]:
    """Run the system's Chromium, in which no host name resolves."""
    assert CHROMIUM is not None, 'CI must have chromium'
    with sync_playwright() as driver:
        offline = ['--host-resolver-rules=MAP * ~NOTFOUND', '--disable-quic']
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=offline)
        yield browser
        browser.close()


def open_page(browser: Browser, path: Path, width: int, *, dark: bool = False) -> Opened:
    """Open a file in a window of its own, so many pixels wide."""
    page = browser.new_page(
        viewport={'width': width, 'height': HEIGHT},
        color_scheme='dark' if dark else 'light',
        reduced_motion='reduce',  # the page scrolls at once
    )
    log: list[str] = []
    page.on('console', lambda message: log.append(message.text))
    page.on('pageerror', lambda error: log.append(str(error)))
    page.on('requestfailed', lambda request: log.append(f'asked for {request.url}'))
    page.goto(path.as_uri())
    return Opened(page, log)


def scrolls_sideways(page: Page) -> list[str]:
    """Return what is wider than a page; nothing where the page does not scroll sideways."""
    found: list[str] = page.evaluate(
        """() => {
          const root = document.documentElement, width = root.clientWidth;
          if (root.scrollWidth <= width) return [];
          const inside = (each) => each
            && (getComputedStyle(each).overflowX !== 'visible' || inside(each.parentElement));
          const found = Array.from(document.querySelectorAll('body *'))
            .filter((each) => each.getBoundingClientRect().right > width)
            .filter((each) => !inside(each.parentElement))
            .map((each) => `${each.tagName} ${each.className}`);
          // What is positioned need not be inside of what scrolls around it.
          return found.length ? found : [`by ${root.scrollWidth - width} pixels`];
        }"""
    )
    return found


def violations(page: Page, *rules: str) -> list[str]:
    """Return what some or all rules of axe find hard for people who see or point badly."""
    options: dict[str, object] = {'resultTypes': ['violations']}
    if rules:
        options['runOnly'] = list(rules)
    found = Axe().run(page, options=options).response['violations']
    return [f'{each["id"]}: {node["html"]}' for each in found for node in each['nodes']]
