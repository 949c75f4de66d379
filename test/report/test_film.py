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
from sysid_ros.report.film import FITTED, MEASURED, NOMINAL, Copy, Film, Frame, draw_film, lit
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
    """Return a cart each that begins at zero and is at its place in the last of three states."""
    model = lit(mujoco.MjSpec.from_string(CART)).compile()
    copies = []
    for name, place in zip((NOMINAL, FITTED, MEASURED), places, strict=False):
        states = np.zeros((3, mujoco.mj_stateSize(model, FULLPHYSICS)))
        states[:, 0] = 0.0, 0.1, 0.2
        states[2, 1] = place
        copies.append(Copy(name, model, states))
    return copies


def _whole(film: Film, number: int) -> Image.Image:
    """Return a frame with the ground around it."""
    frame = film.frames[number]
    picture = Image.open(io.BytesIO(film.ground))
    moved = Image.open(io.BytesIO(frame.picture))
    assert frame.width == moved.width < picture.width
    picture.paste(moved, (frame.left, frame.top))
    return picture


def _columns(whole: Image.Image) -> tuple[float, float]:
    """Return the columns around which a picture is orange and blue, in widths from its left."""
    picture = np.asarray(whole.convert('RGB'), dtype=float)
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

    assert (len(film.frames), film.still, film.start) == (3, 2, 0.0)
    assert film.seconds == pytest.approx(0.3)
    assert film.shown == (('nominal', '#c2570c'), ('fitted', '#0b5cad'))
    orange, blue = _columns(_whole(film, 2))
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
    pictures = []
    for number in range(FRAMES):
        stream = io.BytesIO()
        Image.new('RGB', SIZE, (8 * number,) * 3).save(stream, format='WEBP')
        pictures.append(stream.getvalue())
    frames = tuple(Frame(0, 0, SIZE[0], picture) for picture in pictures)
    shown = (('nominal', '#c2570c'), ('fitted', '#0b5cad'), ('measured', '#9aa0a9'))
    return Film('held', pictures[0], frames, RATE, START, STILL, shown, 'Held out.', *SIZE)


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


def _wait_for_grey(page: Page, number: float) -> None:
    """Wait until a frame is seen, which is known by how light it is."""
    page.wait_for_function(
        """async (light) => {
          const seen = document.querySelector('.film canvas')
            || document.querySelector('.film .moved');
          if (seen.decode) await seen.decode();
          const canvas = document.createElement('canvas').getContext('2d');
          canvas.drawImage(seen, 0, 0);
          return Math.abs(canvas.getImageData(5, 5, 1, 1).data[0] - light) < 4;
        }""",
        arg=8 * number,
        timeout=10_000,
    )


@needs_chromium
@pytest.mark.slow
def test_the_film_stands_still_until_it_is_played_and_can_be_scrubbed(opened: Page):
    button, slider = opened.locator('.player button'), opened.locator('.player input')
    clock = opened.locator('.player span')

    assert clock.inner_text() == '3.2 s'
    _wait_for_grey(opened, STILL)
    slider.focus()
    slider.press('Home')
    slider.press('ArrowRight')
    assert clock.inner_text() == slider.get_attribute('aria-valuetext') == '2.1 s'
    _wait_for_grey(opened, 1)
    slider.press('End')
    assert clock.inner_text() == '4.9 s'

    button.click()
    assert button.inner_text() == 'Pause'
    expect(clock).not_to_have_text('4.9 s')
    button.click()
    assert button.inner_text() == 'Play'
    stopped = clock.inner_text()
    _wait_for_grey(opened, (float(stopped[:-2]) - START) * RATE)
    assert clock.inner_text() == stopped


@needs_chromium
@pytest.mark.slow
def test_the_player_is_for_everybody_and_paper_shows_one_picture(opened: Page):
    assert (scrolls_sideways(opened), violations(opened)) == ([], [])
    assert opened.locator('.film img').first.get_attribute('alt') == (
        'Film of held: nominal, fitted, measured.'
    )

    opened.emulate_media(media='print')

    assert opened.locator('.film img').first.is_visible()
    assert not opened.locator('.player').is_visible()
