# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures and films of motions: the right moment in each frame, several models, no display."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

import lxml.html
import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray
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
    render_rollout,
)
from sysid_ros.results.result import CalibrationResult

SLIDER = """
<mujoco>
  <option timestep="{timestep}" gravity="0 0 0"/>
  <worldbody>
    <light pos="0 0 3" castshadow="false"/>
    <camera name="side" pos="0 -4 0" xyaxes="1 0 0 0 0 1"/>
    <body name="cart">
      <joint name="slide" type="slide" axis="1 0 0"/>
      <geom type="box" size=".2 .2 .2" rgba="{rgba}" group="{group}"/>
    </body>
  </worldbody>
</mujoco>
"""
SIZE = (48, 96)  # rows, columns
WHITE = '1 1 1 1'
LOOK = {'width': SIZE[1], 'height': SIZE[0], 'camera': 'side'}


def _text(timestep: float = 0.01, rgba: str = WHITE, group: int = 0) -> str:
    return SLIDER.format(timestep=timestep, rgba=rgba, group=group)


def _model(**changes: Any) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(_text(**changes))


def _states(times: NDArray[np.float64], positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (1, steps, 3) states of a slider: time, position, velocity 0."""
    return np.stack([times, positions, np.zeros_like(times)], axis=1)[None]


def _column(frame: NDArray[np.uint8]) -> float:
    """Return the column around which a picture is lit, from -1 at its left to 1 at its right."""
    weight = frame.sum(axis=(0, 2)).astype(float)
    return float(weight @ np.linspace(-1, 1, frame.shape[1]) / weight.sum())


@pytest.fixture(scope='module', autouse=True)
def _gl() -> None:
    """Skip where there is no OpenGL, but not in CI."""
    try:
        render_rollout(_model(), None, _states(np.zeros(1), np.zeros(1)), 1, width=8, height=8)
    except ModelError as err:
        if 'CI' in os.environ:
            raise
        pytest.skip(str(err))


@pytest.mark.slow
@pytest.mark.parametrize('start', [0.01, 0.3, 1.7e9])
@pytest.mark.parametrize('framerate', [7, 30, 120])
def test_a_frame_shows_the_state_of_its_time(start: float, framerate: int):
    clock = np.arange(101) * 0.01
    states = _states(start + clock, np.where(clock < 0.5 - 1e-6, -0.8, 0.8))
    frames = render_rollout(_model(), None, states, framerate, **LOOK)
    assert len(frames) == framerate + 1
    first_right = next(k for k, frame in enumerate(frames) if _column(frame) > 0)
    # the nearest of the rows at 0.49 s, on the left, and at 0.50 s
    assert first_right == np.ceil(0.495 * framerate - 1e-6)


@pytest.mark.slow
def test_motions_with_different_steps_stay_in_time():
    models = [_model(rgba='1 0 0 1'), _model(timestep=0.02, rgba='0 0 1 1')]
    slow, fast = np.arange(51) * 0.02, np.arange(51) * 0.01
    states = np.concatenate([_states(fast, fast - 0.5), _states(slow, slow - 0.5)])
    frames = render_rollout(models, None, states, 10, **LOOK)
    assert len(frames) == 11
    for k in range(6):  # until the faster one stops, both are in one place
        red, blue = frames[k].copy(), frames[k].copy()
        red[..., 2], blue[..., 0] = 0, 0
        assert _column(red) == pytest.approx(_column(blue), abs=0.08)


@pytest.mark.slow
def test_copies_of_one_model_are_tinted_apart_and_coloured_models_keep_their_colours():
    times = np.zeros(1)
    both = np.concatenate([_states(times, np.array([x])) for x in (-0.8, 0.8)])
    [tinted] = render_rollout(_model(), None, both, 1, **LOOK)
    [own] = render_rollout([_model(rgba='1 1 0 1'), _model(rgba='0 1 1 1')], None, both, 1, **LOOK)
    [given] = render_rollout(_model(), None, both, 1, colors=[(0, 1, 0, 1), (0, 0, 1, 1)], **LOOK)
    left, right = np.split(np.arange(SIZE[1]), 2)
    for frame, columns, channels in (
        (tinted, left, [0]),
        (tinted, right, [1]),
        (own, left, [0, 1]),
        (own, right, [1, 2]),
        (given, left, [1]),
        (given, right, [2]),
    ):
        others = [channel for channel in range(3) if channel not in channels]
        strong, weak = (frame[:, columns][..., c].max(axis=(0, 1)) for c in (channels, others))
        assert strong.min() > 1.4 * weak.max()


@pytest.mark.slow
def test_the_geoms_of_the_collision_group_are_drawn_only_where_there_are_no_others():
    states = _states(np.zeros(1), np.zeros(1))
    visual = _text(group=2).replace(
        '</body>', '<geom type="box" size=".9 .9 .9" group="3"/></body>'
    )
    [hulls_only] = render_rollout(_model(group=3), None, states, 1, **LOOK)
    [usual] = render_rollout(_model(), None, states, 1, **LOOK)
    [both] = render_rollout(mujoco.MjModel.from_xml_string(visual), None, states, 1, **LOOK)
    assert np.array_equal(hulls_only, usual)
    assert np.array_equal(both, usual)


@pytest.mark.slow
def test_a_picture_may_be_larger_than_the_buffer_and_the_data_stay_as_they_are():
    model = _model()
    data = mujoco.MjData(model)
    data.qpos[:] = 0.123
    states = _states(np.zeros(1), np.zeros(1))
    [frame] = render_rollout(model, data, states, 1, width=800, height=500)
    assert frame.shape == (500, 800, 3)
    assert frame.max() > 0
    assert (model.vis.global_.offwidth, data.qpos[0]) == (640, 0.123)


@pytest.mark.slow
def test_a_copy_that_is_not_finite_is_left_out():
    good = _states(np.array([0.0, 0.01]), np.zeros(2))
    bad = good.copy()
    bad[0, 1] = np.nan
    frames = render_rollout(_model(), None, bad, 100, **LOOK)
    both = render_rollout(_model(), None, np.concatenate([good, bad]), 100, **LOOK)
    assert frames[0].max() > 0
    assert frames[1].max() == 0
    assert both[1].max() > 0


@pytest.mark.slow
def test_the_free_camera_keeps_the_whole_motion_in_the_picture():
    clock = np.arange(11) * 0.1
    states = _states(clock, 3 * clock)
    frames = render_rollout(_model(), None, states, 10, width=64, height=48)
    assert all(frame.max() > 0 for frame in frames)
    assert _column(frames[-1]) - _column(frames[0]) > 0.2


@pytest.mark.slow
def test_a_spotlight_brightens_what_is_below_it():
    model = _model(rgba='.3 .3 .3 1')
    states = _states(np.zeros(1), np.zeros(1))
    [without] = render_rollout(model, None, states, 1, width=64, height=48)
    [lit] = render_rollout(model, None, states, 1, width=64, height=48, light_pos=[0, 0, 2])
    assert lit.astype(int).sum() > 1.1 * without.astype(int).sum()


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'camera': 'sidd'}, "No camera is named 'sidd'; nearest: side."),
        ({'camera': 3}, 'Expected a camera from -1 (free) to 0, got 3.'),
        ({'framerate': 0}, 'Expected a framerate above 0 Hz, got 0.'),
        ({'state': np.zeros((2, 4, 9))}, 'Model 0 has states of 3 numbers, got states of 9.'),
        ({'state': np.zeros((3, 4, 3))}, 'Expected one model or one per motion (3), got 2.'),
        ({'state': np.zeros(3)}, 'Expected states of shape (motions, steps, states), got (3,).'),
        ({'colors': [(1, 1, 1, 1)]}, 'Expected one colour per motion (2), got 1.'),
    ],
)
def test_what_does_not_fit_is_told_in_one_sentence(change: dict[str, object], message: str):
    arguments = {
        'model': [_model(), _model()],
        'data': None,
        'state': np.zeros((2, 4, 3)),
        'framerate': 30,
        **change,
    }
    with pytest.raises(ModelError) as error:
        render_rollout(**arguments)
    assert str(error.value) == message


def test_without_opengl_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as switched:
        switched.setenv('MUJOCO_GL', 'off')
        with pytest.raises(ModelError, match="got 'off'"):
            render_rollout(_model(), None, np.zeros((1, 1, 3)), 30)
    monkeypatch.setattr('sysid_ros.report.rendering._backends', lambda: ('missing',))
    with pytest.raises(ModelError, match=r'^Rendering needs OpenGL .* apt install libegl1 libgl1'):
        render_rollout(_model(), None, np.zeros((1, 1, 3)), 30)


# Films


def _copies(*places: float) -> list[Copy]:
    """Return a cart each that begins at zero and is at its place in the last of three states."""
    model = lit(mujoco.MjSpec.from_string(_text())).compile()
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
    film = draw_film('drive', _copies(1.0, 0.0), note='All of it.')
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
