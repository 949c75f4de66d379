# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A real browser without a network draws the whole report, wide and narrow."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from html import unescape
from typing import TYPE_CHECKING, NamedTuple

import matplotlib.image as mpimg
import numpy as np
import pytest

from sysid_ros.report import write_report

if TYPE_CHECKING:
    from pathlib import Path

    from sysid_ros.results.result import CalibrationResult

CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser')
WIDE, NARROW, HEIGHT = 1280, 390, 9000  # pixels
TIMEOUT = 180  # seconds

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get('CI'), reason='chromium is not installed'
)

#: Shows the report in two frames side by side and writes down what a reader of each would see.
FRAMES = f"""<!DOCTYPE html>
<style>body {{ margin: 0; display: flex }} iframe {{ border: 0 }}</style>
<iframe width={WIDE} height={HEIGHT} src="report.html#all"></iframe>
<iframe width={NARROW} height={HEIGHT} src="report.html"></iframe>
<pre id="measured" hidden></pre>
<script>
function measure(frame) {{
  const page = frame.contentDocument, root = page.documentElement;
  const plots = Array.from(page.querySelectorAll('.plot'));
  const tooWide = Array.from(page.querySelectorAll('main > section > *, header > *'))
    .filter((e) => e.getBoundingClientRect().right > root.clientWidth + 1).map((e) => e.className);
  return {{
    width: root.clientWidth, needed: root.scrollWidth, tooWide,
    plots: plots.length,
    drawn: plots.filter((e) => e.querySelector('.main-svg')).length,
    lines: plots.map((e) => Array.from(e.querySelectorAll('.scatterlayer .trace'))
      .filter((trace) => trace.querySelector('.js-line').getAttribute('d').length > 50).length),
    overflowing: plots.filter((e) => e.clientWidth > 0
      && e.querySelector('.main-svg').getBoundingClientRect().width > e.clientWidth + 1).length,
  }};
}}
const wait = setInterval(() => {{
  const frames = Array.from(document.querySelectorAll('iframe'));
  if (!frames.every((frame) => frame.contentDocument.documentElement?.dataset.drawn)) return;
  clearInterval(wait);
  document.getElementById('measured').textContent = JSON.stringify(frames.map(measure));
}}, 100);
</script>
"""


class Seen(NamedTuple):
    """What the browser made of the report: measurements per frame, its log, its picture."""

    wide: dict[str, object]
    narrow: dict[str, object]
    log: str
    picture: np.ndarray


def _browse(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            str(CHROMIUM),
            '--headless',
            '--no-sandbox',
            '--disable-gpu',
            '--disable-quic',
            '--no-first-run',
            '--disable-background-networking',
            '--disable-component-update',
            '--disable-sync',
            '--hide-scrollbars',
            '--enable-logging=stderr',
            '--allow-file-access-from-files',
            '--host-resolver-rules=MAP * ~NOTFOUND',
            '--virtual-time-budget=20000',
            f'--window-size={WIDE + NARROW},{HEIGHT}',
            f'--user-data-dir={folder / "profile"}',
            '--dump-dom',
            f'--screenshot={folder / "report.png"}',
            (folder / 'frames.html').as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )


@pytest.fixture(scope='module')
def seen(rich_result: CalibrationResult, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Open the report in both widths at once, with every host name unresolvable."""
    assert CHROMIUM is not None, 'CI must have chromium'
    folder = tmp_path_factory.mktemp('report')
    name = '<script>alert(1)</script>'
    evil = rich_result.parameters[0].model_copy(update={'name': name})
    result = rich_result.model_copy(update={'parameters': (evil, *rich_result.parameters[1:])})
    write_report(result, folder / 'report.html', truth={'joint/elbow/damping': 0.7})
    (folder / 'frames.html').write_text(FRAMES)
    page = _browse(folder)
    text = page.stdout.partition('<pre id="measured" hidden="">')[2].partition('</pre>')[0]
    wide, narrow = json.loads(unescape(text))
    return Seen(wide, narrow, page.stderr, mpimg.imread(folder / 'report.png')[..., :3])


@pytest.mark.slow
@pytest.mark.parametrize('frame', ['wide', 'narrow'])
def test_every_plot_is_drawn_with_its_three_lines_and_a_band(seen: Seen, frame: str) -> None:
    found = getattr(seen, frame)
    assert found['plots'] == found['drawn'] == 55
    # The band has two edges, and is of what was held out.
    assert found['lines'] == [5] * 18 + [3] * 36 + [1]


@pytest.mark.slow
@pytest.mark.parametrize(('frame', 'width'), [('wide', WIDE), ('narrow', NARROW)])
def test_the_page_does_not_scroll_sideways(seen: Seen, frame: str, width: int) -> None:
    found = getattr(seen, frame)
    assert found['width'] == found['needed'] == width
    assert found['tooWide'] == []
    assert found['overflowing'] == 0


@pytest.mark.slow
def test_the_browser_has_nothing_to_complain_about(seen: Seen) -> None:
    assert [line for line in seen.log.splitlines() if 'CONSOLE' in line] == []


@pytest.mark.slow
@pytest.mark.parametrize('columns', [slice(0, WIDE), slice(WIDE, WIDE + NARROW)])
def test_a_screenshot_shows_all_three_colours(seen: Seen, columns: slice) -> None:
    pixels = seen.picture[:, columns]
    for colour in ('#9aa0a9', '#c2570c', '#0b5cad'):
        wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        near = np.abs(pixels - wanted).max(axis=2) < 0.02
        assert near.sum() > 500, colour
