# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the film of a calibration shows: which recording, which part, and where the robots are."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from sysid_ros.config.files import validate
from sysid_ros.config.schema import CalibrationConfig
from sysid_ros.report.rendering import FITTED, LONGEST, MEASURED, NOMINAL
from sysid_ros.workflows.calibrate import identify
from sysid_ros.workflows.film import Motion, motion_of

#: A cart, its damping, and a pendulum that nobody measures.
CART = """<mujoco><option timestep=".005" integrator="implicitfast"/><worldbody>
  <body name="cart"><joint name="slide" type="slide" axis="1 0 0" damping="{}"/>
    <geom type="box" size=".1 .1 .1" mass="1"/>
    <body name="bob"><joint name="swing" axis="0 1 0" damping=".02"/>
      <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".02" mass=".05"/></body></body>
  </worldbody><actuator><motor name="push" joint="slide"/></actuator></mujoco>"""
NOMINAL_DAMPING, TRUE_DAMPING = 2.0, 4.0
NOISE = 1e-4
#: Nothing pushes the cart before, s.
PUSHED = 7.0


def _record(path: Path, seconds: float, begin: float) -> NDArray[np.float64]:
    """Write a table of the cart and return its true positions, a row for each step."""
    model = mujoco.MjModel.from_xml_string(CART.format(TRUE_DAMPING))
    data, rows, places = mujoco.MjData(model), ['t,slide_pos,cmd_slide_effort'], []
    rng = np.random.default_rng(3)
    for step in range(round(seconds / model.opt.timestep)):
        now = step * model.opt.timestep
        data.ctrl[0] = 3 * np.sin(4 * (now - begin)) if now >= begin else 0.0
        places.append(data.qpos.copy())
        noisy = data.qpos[0] + NOISE * rng.standard_normal()
        rows.append(f'{now:.9g},{noisy:.9g},{data.ctrl[0]:.9g}')
        mujoco.mj_step(model, data)
    path.write_text('\n'.join(rows) + '\n', encoding='utf-8')
    return np.array(places)


@pytest.fixture(scope='module')
def filmed(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[partial[Any], Motion, NDArray[np.float64]]:
    """Return what films two recordings, that, and the true positions in the held-out one."""
    folder = tmp_path_factory.mktemp('cart')
    _record(folder / 'short.csv', 2.0, 0.0)
    truth = _record(folder / 'late.csv', PUSHED + 3.0, PUSHED)
    (folder / 'cart.xml').write_text(CART.format(NOMINAL_DAMPING), encoding='utf-8')
    document = {
        'model': folder / 'cart.xml',
        'bags': [
            {'path': str(folder / 'short.csv')},
            {'path': str(folder / 'late.csv'), 'role': 'validate'},
        ],
        'parameters': [{'target': 'joint/slide/damping'}],
        'estimator': 'simulation',
        'solver': {'threads': 1},
        'validation': {'horizon': [], 'leave_out': 'none'},
        'output': folder / 'out',
    }
    drawn = identify(validate(CalibrationConfig, document, 'test')).film
    assert isinstance(drawn, partial)
    return drawn, motion_of(*drawn.args), truth


@pytest.mark.slow
def test_the_held_out_recording_is_filmed_where_the_robots_are_farthest_apart(
    filmed: tuple[partial[Any], Motion, NDArray[np.float64]],
):
    _, motion, _ = filmed
    begin = PUSHED + 3.0 - LONGEST
    assert motion.sequence == 'late.csv'
    assert [copy.name for copy in motion.copies] == [NOMINAL, FITTED, MEASURED]
    assert motion.copies[0].states[0, 0] == pytest.approx(begin, abs=0.11)
    assert motion.note.startswith('Held out, ')
    assert motion.note.endswith(' s, where they are farthest apart.')


@pytest.mark.slow
def test_robots_are_where_was_measured_and_where_the_models_say(
    filmed: tuple[partial[Any], Motion, NDArray[np.float64]],
):
    _, motion, truth = filmed
    nominal, fitted, measured = (copy.states for copy in motion.copies)
    rows = np.round(measured[:, 0] / 0.005).astype(int)
    assert np.abs(measured[:, 1] - truth[rows, 0]).max() < 5 * NOISE
    # The pendulum is not measured: it is where the fitted model has it.
    assert np.array_equal(measured[:, 2], fitted[:, 2])
    # Its start is as uncertain as the noise makes it, and nothing pulls the cart back.
    assert np.abs(fitted[:, 1:3] - truth[rows]).max() < 0.05 * np.ptp(truth[:, 0])
    assert np.abs(nominal[:, 1] - truth[rows, 0]).max() > 0.1 * np.ptp(truth[:, 0])


@pytest.mark.slow
def test_where_nothing_can_be_drawn_a_sentence_says_so(
    filmed: tuple[partial[Any], Motion, NDArray[np.float64]], monkeypatch: pytest.MonkeyPatch
):
    drawn, *_ = filmed
    monkeypatch.setenv('MUJOCO_GL', 'off')
    films, why = drawn()
    assert films == ()
    assert why.startswith('Rendering is switched off')
    fitted, table, diagnostics = drawn.args
    nothing = dataclasses.replace(table, trajectories=())
    assert drawn.func(fitted, nothing, diagnostics) == ((), 'No recording holds a motion.')
