# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The front door: a calibration in five lines of Python, as a script and as a notebook."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import mujoco
import nbformat
import pytest
from matplotlib.figure import Figure
from nbclient import NotebookClient

import sysid_ros as so
from builders.bare_results import rejected
from sysid_ros.errors import ConfigError, ParameterError, ResultError
from sysid_ros.model.loading import differing_fields
from sysid_ros.results.result import CalibrationResult

pytestmark = pytest.mark.usefixtures('undrawn')

ROOT = Path(__file__).resolve().parents[1]
ARM = ROOT / 'test' / 'data' / 'pendulum'
#: What test/data/pendulum/truth.yaml hides.
TRUE_TIP_MASS = 0.45
PARAMETERS = (
    'joint/*/armature',
    'joint/*/damping',
    'joint/*/frictionloss',
    {'name': 'tip_mass', 'target': 'body/tip/mass', 'bounds': (0.05, 2.0)},
    {'name': 'delay', 'target': 'actuator/*/delay', 'shared': True, 'bounds': (0.0, 0.05)},
)


@pytest.fixture(scope='module')
def result() -> so.Result:
    beginnings = {'times': {'train': [[0.0, 3.0]], 'validate': [[0.0, 2.0]]}}
    options = {'validate': ARM / 'validate', 'segments': beginnings}
    return so.calibrate(ARM / 'arm.xml', ARM / 'train', PARAMETERS, **options)


@pytest.mark.slow
def test_parameters_are_found_by_name_and_by_place(result: so.Result):
    tip = result.parameters['tip_mass']

    assert tip is result.parameters[6]
    assert tip.low <= TRUE_TIP_MASS <= tip.high
    assert len(result.parameters) == len(result.parameters.names) == 8
    assert 'tip_mass' in result.parameters
    assert result.parameters[:2].names == ('joint/shoulder/armature', 'joint/elbow/armature')
    with pytest.raises(ParameterError, match=r"no parameter 'tip_mas'; nearest: tip_mass"):
        result.parameters['tip_mas']


@pytest.mark.slow
def test_a_result_prints_as_the_command_line_does_and_escapes_in_html(result: so.Result):
    text, html = str(result), result._repr_html_()

    assert 'accepted, 8 parameters' in repr(result)
    for name in ('tip_mass', 'elbow_effort', 'Held-out error'):
        assert name in text
        assert name in html
    assert text.splitlines()[1].startswith('parameter')
    hostile = result.parameters[0].model_copy(update={'name': '<script>'})
    assert '<script>' not in so.Parameters([hostile])._repr_html_()


@pytest.mark.slow
def test_nothing_is_written_until_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(ARM.rglob('*'))

    once = {'max_iterations': 1}
    so.calibrate(ARM / 'arm.xml', ARM / 'train', 'joint/elbow/damping', solver=once)
    assert list(tmp_path.iterdir()) == []
    assert sorted(ARM.rglob('*')) == before


@pytest.mark.slow
def test_the_identified_spec_is_what_is_written_and_stays_when_it_is_saved_again(
    result: so.Result, tmp_path: Path
):
    written = result.save(tmp_path / 'out')
    assert written.mjcf_path is not None

    loaded = so.Result.load(tmp_path / 'out')

    on_disk = mujoco.MjModel.from_xml_path(str(written.mjcf_path))
    assert differing_fields(result.model().compile(), on_disk) == ()
    assert differing_fields(loaded.model().compile(), on_disk) == ()
    assert loaded.parameters['tip_mass'] == result.parameters['tip_mass']
    assert (tmp_path / 'out' / 'current' / 'report.html').is_file()
    again = loaded.save(tmp_path / 'again')
    assert again.mjcf_path is not None
    assert again.result_path.read_bytes() == written.result_path.read_bytes()
    assert again.mjcf_path.read_bytes() == written.mjcf_path.read_bytes()


@pytest.mark.slow
def test_a_rejected_result_is_saved_beside_the_accepted_one(result: so.Result, tmp_path: Path):
    written = so.Result(rejected(result.record)).save(tmp_path)

    assert written.mjcf_path is None
    assert (tmp_path / 'rejected').resolve() == written.folder
    assert not (tmp_path / 'current').exists()
    assert not CalibrationResult.load(written.result_path).accepted


@pytest.mark.slow
def test_plots_are_figures(result: so.Result):
    every = result.plot()

    assert isinstance(every, Figure)
    assert len([axes for axes in every.axes if axes.get_visible()]) == 6
    assert len(result.plot('elbow_position').axes) == 1
    assert isinstance(result.plot('parameters'), Figure)
    with pytest.raises(ResultError, match=r"Cannot plot 'elbow': nearest: elbow_"):
        result.plot('elbow')


def test_settings_are_those_of_the_configuration_file():
    with pytest.raises(ConfigError, match=r"Unknown key 'sovler' in sysid_ros.calibrate"):
        so.calibrate(ARM / 'arm.xml', ARM / 'train', 'joint/*/damping', sovler={})
    with pytest.raises(ConfigError, match=r'at least one entry in parameters'):
        so.calibrate(ARM / 'arm.xml', ARM / 'train')


def test_a_bag_is_read_under_the_names_of_the_model():
    bag = so.read(ARM / 'train', ARM / 'arm.xml')

    (sequence,) = bag.sequences
    assert {name for series in sequence.measurements for name in series.names} >= {
        'elbow_position',
        'elbow_velocity',
    }
    assert repr(bag).startswith('<Bag train: 1 sequences, ')
    assert str(bag).startswith('Mapped in train')
    assert '<pre>' in bag._repr_html_()


def test_importing_the_package_loads_no_engine():
    code = "import sys, sysid_ros; print([m for m in ('mujoco', 'numpy') if m in sys.modules])"

    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)

    assert done.stdout == '[]\n'
    assert set(dir(so)) >= {'calibrate', 'read', 'Result'}
    with pytest.raises(AttributeError, match='calibrat'):
        _ = so.calibrat


@pytest.mark.slow
def test_the_notebook_runs():
    path = ROOT / 'examples' / 'quickstart.ipynb'
    notebook = nbformat.read(path, as_version=4)

    NotebookClient(notebook, timeout=120, resources={'metadata': {'path': path.parent}}).execute()

    outputs = [out for cell in notebook.cells for out in cell.get('outputs', [])]
    shown = {mime for out in outputs for mime in out.get('data', {})}
    assert 'text/html' in shown
    assert 'image/png' in shown
