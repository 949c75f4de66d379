# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Films: drawn in a process of their own, and played where somebody asks for it."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

import mujoco
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from builders.browser import needs_chromium, open_page, scrolls_sideways, violations
from sysid_ros.errors import ModelError
from sysid_ros.report.film import FITTED, MEASURED, NOMINAL, Copy, Film, draw_film, lit
from sysid_ros.report.html import render_report, write_report
from sysid_ros.report.rendering import FULLPHYSICS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from sysid_ros.results.result import CalibrationResult

CART = """
<mujoco>
  <worldbody>
    <geom type="plane" size="9 9 .1"/>
    <body name="cart">
      <joint name="slide" type="slide" axis="1 0 0"/>
      <geom type="box" size=".2 .2 .2"/>
    </body>
  </worldbody>
</mujoco>
"""
#: Pixels.
SIZE = (64, 48)
FRAMES, RATE, START, STILL = 30, 10.0, 2.0, 12


def _copies(*places: float) -> list[Copy]:
    """Return a cart each that begins at zero and is at its place in the second of two states."""
    model = lit(mujoco.MjSpec.from_string(CART)).compile()
    copies = []
    for name, place in zip((NOMINAL, FITTED, MEASURED), places, strict=False):
        states = np.zeros((2, mujoco.mj_stateSize(model, FULLPHYSICS)))
        states[1, :2] = 0.1, place
        copies.append(Copy(name, model, states))
    return copies


def _columns(frame: bytes) -> tuple[float, float]:
    """Return the columns around which a frame is orange and blue, in widths from its left."""
    picture = np.asarray(Image.open(io.BytesIO(frame)).convert('RGB'), dtype=float)
    warm = picture[:, :, 0] - picture[:, :, 2]
    places = np.linspace(0, 1, picture.shape[1])
    orange, blue = (np.where(side > 0.7 * side.max(), 1, 0).sum(axis=0) for side in (warm, -warm))
    return float(orange @ places / orange.sum()), float(blue @ places / blue.sum())


@pytest.mark.slow
def test_copies_are_drawn_where_their_states_say_in_their_colours():
    try:
        film = draw_film('drive', _copies(1.0, 0.0), size=SIZE, note='All of it.')
    except ModelError as err:
        if 'CI' in os.environ:
            raise
        pytest.skip(str(err))

    assert (len(film.frames), film.still, film.start, film.seconds) == (2, 1, 0.0, 0.2)
    assert film.shown == (('nominal', '#c2570c'), ('fitted', '#0b5cad'))
    assert {Image.open(io.BytesIO(frame)).size for frame in film.frames} == {SIZE}
    orange, blue = _columns(film.frames[1])
    assert orange > blue + 0.2


@pytest.mark.slow
def test_a_driver_that_ends_the_process_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    python = tmp_path / 'python'
    python.write_text('#!/bin/sh\nkill -ABRT $$\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, 'executable', str(python))

    with pytest.raises(ModelError, match=r'^OpenGL ended the process .* MUJOCO_GL=osmesa'):
        draw_film('drive', _copies(1.0), size=SIZE)


@pytest.mark.slow
def test_a_driver_that_hangs_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    python = tmp_path / 'python'
    python.write_text('#!/bin/sh\nexec sleep 60\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, 'executable', str(python))
    monkeypatch.setattr('sysid_ros.report.film._PATIENCE', 0.1)

    with pytest.raises(ModelError, match=r'^Drawing took longer than 0\.1 s; .*osmesa'):
        draw_film('drive', _copies(1.0), size=SIZE)


def test_without_a_film_the_report_says_what_to_install_in_one_sentence(
    bare_result: CalibrationResult,
):
    page = render_report(bare_result, no_film='Rendering needs <OpenGL>; apt install libegl1.')

    assert '<p>There is no film. Rendering needs &lt;OpenGL&gt;; apt install libegl1.</p>' in page
    assert '<a href="#motion">' in page


def test_a_report_without_a_film_has_no_section_for_it(bare_result: CalibrationResult):
    page = render_report(bare_result)

    assert '#motion' not in page
    assert 'class="film"' not in page


@pytest.fixture(scope='module')
def film() -> Film:
    """A film whose frames are grey, each lighter than the one before."""
    frames = []
    for number in range(FRAMES):
        stream = io.BytesIO()
        Image.new('RGB', SIZE, (8 * number,) * 3).save(stream, format='WEBP')
        frames.append(stream.getvalue())
    shown = (('nominal', '#c2570c'), ('fitted', '#0b5cad'), ('measured', '#9aa0a9'))
    return Film('held', tuple(frames), RATE, START, STILL, shown, 'Held out.', *SIZE)


@pytest.fixture
def opened(
    browser: Browser, film: Film, bare_result: CalibrationResult, tmp_path: Path
) -> Iterator[Page]:
    """The report with the film in a window, which has nothing to complain about in the end."""
    write_report(bare_result, tmp_path / 'report.html', films=[film])
    page, log = open_page(browser, tmp_path / 'report.html', 390)
    yield page
    assert log == []
    page.close()


def _grey(page: Page) -> float:
    """Return the number of the frame that is seen, by how light it is."""
    light: float = page.evaluate(
        """async () => {
          const image = document.querySelector('.film img');
          await image.decode();
          const canvas = document.createElement('canvas').getContext('2d');
          canvas.drawImage(image, 0, 0);
          return canvas.getImageData(5, 5, 1, 1).data[0];
        }"""
    )
    return light / 8


@needs_chromium
@pytest.mark.slow
def test_the_film_stands_still_until_it_is_played_and_can_be_scrubbed(opened: Page):
    button, slider = opened.locator('.player button'), opened.locator('.player input')
    clock = opened.locator('.player span')

    assert clock.inner_text() == '3.2 s'
    assert _grey(opened) == pytest.approx(STILL, abs=0.5)
    slider.focus()
    slider.press('Home')
    slider.press('ArrowRight')
    assert clock.inner_text() == slider.get_attribute('aria-valuetext') == '2.1 s'
    assert _grey(opened) == pytest.approx(1, abs=0.5)
    slider.press('End')
    assert clock.inner_text() == '4.9 s'

    button.click()
    assert button.inner_text() == 'Pause'
    expect(clock).not_to_have_text('4.9 s')
    button.click()
    assert button.inner_text() == 'Play'
    stopped = clock.inner_text()
    assert _grey(opened) == pytest.approx((float(stopped[:-2]) - START) * RATE, abs=0.5)
    assert clock.inner_text() == stopped


@needs_chromium
@pytest.mark.slow
def test_the_player_is_for_everybody_and_paper_shows_one_picture(opened: Page):
    assert (scrolls_sideways(opened), violations(opened)) == ([], [])
    assert opened.locator('.film img').get_attribute('alt') == (
        'Film of held: nominal, fitted, measured.'
    )

    opened.emulate_media(media='print')

    assert opened.locator('.film img').is_visible()
    assert not opened.locator('.player').is_visible()
