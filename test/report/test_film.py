# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Films are drawn in a process of their own and lie in the page as animated pictures."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import lxml.html
import mujoco
import numpy as np
import pytest
from PIL import Image, ImageSequence

from sysid_ros.errors import ModelError
from sysid_ros.report import render_report
from sysid_ros.report.rendering import (
    FITTED,
    FULLPHYSICS,
    HEIGHT,
    NOMINAL,
    WIDTH,
    Copy,
    Film,
    draw_film,
    lit,
)
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


def _copies(*places: float) -> list[Copy]:
    """Return a cart each that begins at zero and is at its place in the last of three states."""
    model = lit(mujoco.MjSpec.from_string(CART)).compile()
    copies = []
    for name, place in zip((NOMINAL, FITTED), places, strict=False):
        states = np.zeros((3, mujoco.mj_stateSize(model, FULLPHYSICS)))
        states[:, 0] = 0.0, 0.1, 0.2
        states[1:, 1] = place / 2, place
        copies.append(Copy(name, model, states))
    return copies


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
        film = draw_film('drive', _copies(1.0, 0.0), note='All of it.')
    except ModelError as err:
        if 'CI' in os.environ:
            raise
        pytest.skip(str(err))

    assert film.shown == (('nominal', '#c2570c'), ('fitted', '#0b5cad'))
    with Image.open(io.BytesIO(film.webp)) as picture:
        frames = [frame.copy() for frame in ImageSequence.Iterator(picture)]
        assert (picture.size, picture.info['loop']) == ((WIDTH, HEIGHT), 0)
    assert len(frames) == 3
    orange, blue = _columns(frames[2])
    assert orange > blue + 0.2


@pytest.mark.slow
@pytest.mark.parametrize(
    ('script', 'sentence'),
    [
        ('kill -ABRT $$', r'^OpenGL ended the process .* MUJOCO_GL=osmesa'),
        ('exec sleep 60', r'^Drawing took longer than 0\.1 s; .*osmesa'),
    ],
)
def test_a_driver_that_aborts_or_hangs_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, sentence: str
):
    python = tmp_path / 'python'
    python.write_text(f'#!/bin/sh\n{script}\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, 'executable', str(python))
    if 'sleep' in script:
        monkeypatch.setattr('sysid_ros.report.rendering._PATIENCE', 0.1)

    with pytest.raises(ModelError, match=sentence):
        draw_film('drive', _copies(1.0))


def test_the_page_holds_the_film_or_says_why_there_is_none(bare_result: CalibrationResult):
    film = Film('held', b'webp', (('nominal', '#c2570c'),), 'Held out.')
    page = lxml.html.document_fromstring(render_report(bare_result, films=[film]))
    (picture,) = page.xpath('//details[not(@open)]//img')
    assert picture.get('src') == 'data:image/webp;base64,d2VicA=='
    assert picture.get('alt') == 'Film of held: nominal.'

    missing = render_report(bare_result, no_film='Rendering needs <OpenGL>.')
    assert '<p>There is no film. Rendering needs &lt;OpenGL&gt;.</p>' in missing
    assert '#motion' not in render_report(bare_result)
