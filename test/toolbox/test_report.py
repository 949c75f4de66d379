# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A fit as a page and as files: complete, offline, with the identified model."""

from __future__ import annotations

import base64
import copy
import io
import os
import pickle
import re
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np
import pytest
import scipy.optimize
from PIL import Image, ImageSequence

from sysid_ros.errors import ParameterError
from sysid_ros.report.rendering import FRAMERATE
from sysid_ros.toolbox.optimize import calculate_intervals
from sysid_ros.toolbox.parameter import Parameter, ParameterDict
from sysid_ros.toolbox.report import ToolboxReport, default_report, save_results
from sysid_ros.toolbox.residual import build_residual_fn
from sysid_ros.toolbox.timeseries import TimeSeries
from sysid_ros.toolbox.trajectory import ModelSequences, create_initial_state, sysid_rollout

PENDULUM = """
<mujoco>
  <worldbody>
    <light pos="0 -1 1"/>
    <body name="bob">
      <joint name="hinge" axis="0 1 0" damping=".2"/>
      <geom type="capsule" fromto="0 0 0 0 0 -.5" size=".05" mass="1"/>
    </body>
  </worldbody>
  <actuator><motor name="motor" joint="hinge"/></actuator>
  <sensor>
    <jointpos name="angle" joint="hinge"/>
    <gyro name="rates" site="tip"/>
  </sensor>
</mujoco>
""".replace('size=".05" mass="1"/>', 'size=".05" mass="1"/><site name="tip" pos="0 0 -.5"/>')
TRUTH, INITIAL = 0.2, 0.9
DURATION = 1.0


def _params(damping: float) -> ParameterDict:
    def write(spec: mujoco.MjSpec, parameter: Parameter) -> None:
        spec.joint('hinge').damping[0] = parameter.value[0]

    params = ParameterDict()
    params.add(Parameter('damping', TRUTH, 0.0, 2.0, modifier=write, unit='N·m·s/rad'))
    params.add(Parameter('unused', 1.0, 0.0, 2.0, unit='kg'))
    params.add(Parameter('frozen', 1.0, 0.0, 2.0, frozen=True))
    params['damping'].value = damping
    return params


class Fit(NamedTuple):
    """What a report is made of."""

    groups: list[ModelSequences]
    before: ParameterDict
    after: ParameterDict
    residual: Any
    result: Any

    def report(self, **options: Any) -> ToolboxReport:
        """Make the report."""
        return default_report(
            self.groups, self.before, self.after, self.residual, self.result, **options
        )


@pytest.fixture(scope='module')
def fit() -> Fit:
    """A damping found from an angle and three rates, with a noise of .01."""
    spec = mujoco.MjSpec.from_string(PENDULUM)
    model = spec.compile()
    times = np.arange(round(DURATION / model.opt.timestep) + 1) * model.opt.timestep
    control = TimeSeries.from_control_names(times, np.sin(9 * times)[:, None], model)
    start = create_initial_state(model, np.array([1.0]))
    clean = sysid_rollout(model, mujoco.MjData(model), control, start)[0].sensordata
    noise = np.random.default_rng(1).normal(scale=0.01, size=clean.data.shape)
    measured = TimeSeries(clean.times, clean.data + noise, clean.signal_mapping)
    group = ModelSequences('pendulum', spec, 'swing', start, control, measured)
    residual = build_residual_fn(
        models_sequences=[group], noise={'angle': 0.01, 'rates': 0.01}, sensor_stamps='measured'
    )
    found = np.array([TRUTH, 1.0])
    step = np.array([1e-6, 0.0])
    column = (residual(found + step, _params(0))[0][0] - residual(found, _params(0))[0][0]) / 1e-6
    result = scipy.optimize.OptimizeResult(
        x=found, jac=np.stack([column, np.zeros_like(column)], axis=1), success=True, nfev=9
    )
    return Fit([group], _params(INITIAL), _params(TRUTH), residual, result)


def test_intervals_are_those_of_students_t():
    covariance, half = calculate_intervals([[0.2, -0.1, 0.0]], np.array([[1.0], [2.0], [2.0]]))
    # s² = .05 / 2, JᵀJ = 9, two degrees of freedom
    assert covariance[0, 0] == pytest.approx(0.025 / 9)
    assert half[0] == pytest.approx(4.302653 * np.sqrt(0.025 / 9), rel=1e-6)


@pytest.mark.slow
def test_what_is_saved_is_the_outcome_in_files_that_the_toolbox_reads(fit: Fit, tmp_path: Path):
    save_results(tmp_path / 'fit', fit.groups, fit.before, fit.after, fit.result, fit.residual)
    result, confidence = (
        pickle.loads((tmp_path / 'fit' / name).read_bytes())  # noqa: S301 (our own)
        for name in ('results.pkl', 'confidence.pkl')
    )
    assert np.array_equal(result.jac, fit.result.jac)
    assert (result.success, result.nfev) == (True, 9)
    assert 0 < confidence['intervals'][0] < 0.01
    assert b'sysid_ros' not in (tmp_path / 'fit' / 'results.pkl').read_bytes()
    before = ParameterDict.load_from_disk(tmp_path / 'fit' / 'params_x_0.yaml')
    after = ParameterDict.load_from_disk(tmp_path / 'fit' / 'params_x_hat.yaml')
    assert (before['damping'].value[0], after['damping'].value[0]) == (INITIAL, TRUTH)


@pytest.mark.slow
def test_each_model_is_written_with_the_identified_value_or_nothing_is(fit: Fit, tmp_path: Path):
    groups = [copy.copy(fit.groups[0]) for _ in range(2)]
    for group in groups:
        group.name = 'arm/one'
    rest = (fit.before, fit.after, fit.result, fit.residual)
    save_results(tmp_path / 'fit', groups, *rest)
    names = sorted(path.name for path in (tmp_path / 'fit').glob('*.xml'))
    assert names == ['arm_one.xml', 'arm_one_2.xml']
    model = mujoco.MjModel.from_xml_path(str(tmp_path / 'fit' / names[1]))
    assert model.dof_damping[0] == TRUTH

    def refuse(_: mujoco.MjSpec, __: Parameter) -> None:
        raise ValueError('no')

    refused = fit.after.copy()
    refused['damping'].modifier = refuse
    with pytest.raises(ParameterError, match='no'):
        save_results(tmp_path / 'none', groups, fit.before, refused, *rest[2:])
    assert not (tmp_path / 'none').exists()


@pytest.fixture(scope='module')
def filmed(fit: Fit) -> ToolboxReport:
    """The report with its film; skipped where there is no OpenGL, but not in CI."""
    report = fit.report(title='Pendulum & co')
    if not re.search('class="film"', report.build()) and 'CI' not in os.environ:
        pytest.skip('there is no OpenGL')
    return report


@pytest.mark.slow
def test_the_result_holds_free_parameters_and_every_channel(fit: Fit):
    result = fit.report(generate_videos=False).result
    damping, unused = result.parameters
    assert (damping.value, damping.initial, damping.unit) == (TRUTH, INITIAL, 'N·m·s/rad')
    assert damping.verdict == 'identified'
    assert 0 < damping.half_width < 0.01
    assert unused.verdict == 'not excited'
    assert np.isnan(unused.half_width)
    assert 'Not identified: unused.' in result.warnings
    names = ['angle', 'rates[0]', 'rates[1]', 'rates[2]']
    assert [plot.sensor for plot in result.plots] == names
    errors = [(error.sensor, error.unit) for error in result.errors]
    assert errors == list(zip(names, ['rad', 'rad/s', 'rad/s', 'rad/s'], strict=True))
    assert result.errors[0].after == pytest.approx(0.01, rel=0.1)
    assert result.errors[0].before > 0.1
    assert len(result.plots[0].times) == 500
    assert result.accepted
    assert fit.before['damping'].value[0] == INITIAL


@pytest.mark.slow
def test_the_page_is_saved_as_built_and_loads_nothing(fit: Fit, tmp_path: Path):
    report = fit.report(
        generate_videos=False,
        title='<b>Arm',
        save_path=tmp_path / 'new' / 'folder',
    )
    report.save(tmp_path / 'again.html')
    page = (tmp_path / 'new' / 'folder' / 'report.html').read_text('utf-8')
    assert page == report.build() == (tmp_path / 'again.html').read_text('utf-8')
    outside = re.findall(r'<(?:script|link|img|video|source)[^>]*(?:src|href)="(?!data:)', page)
    assert outside == []
    assert "default-src 'none'" in page
    assert '<h1>&lt;b&gt;Arm</h1>' in page


@pytest.mark.slow
def test_a_value_at_its_bound_has_no_interval_and_no_interval_leaves_the_bounds(fit: Fit):
    at_bound = fit.after.copy()
    at_bound['damping'].value = 0.0
    tight = fit.after.copy()
    tight['damping'].max_value = TRUTH + 1e-5
    [bounded, _] = fit._replace(after=at_bound).report(generate_videos=False).result.parameters
    [cut, _] = fit._replace(after=tight).report(generate_videos=False).result.parameters
    assert bounded.verdict == 'at bound'
    assert np.isnan(bounded.half_width)
    assert cut.high == TRUTH + 1e-5


@pytest.mark.slow
def test_the_film_runs_as_long_as_the_recording_and_moves(filmed: ToolboxReport):
    [film] = re.findall(r'<img src="data:image/webp;base64,([^"]+)"', filmed.build())
    with Image.open(io.BytesIO(base64.b64decode(film))) as picture:
        frames = [
            np.asarray(frame.convert('RGB'), dtype=int) for frame in ImageSequence.Iterator(picture)
        ]
    assert len(frames) / FRAMERATE == pytest.approx(DURATION, abs=1.5 / FRAMERATE)
    assert np.abs(frames[0] - frames[-1]).max() > 50


@pytest.mark.slow
def test_without_opengl_the_report_says_so(fit: Fit, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv('MUJOCO_GL', 'off')
    page = fit.report().build()
    assert 'There is no film. Rendering is switched off' in page
    assert 'class="film"' not in page
