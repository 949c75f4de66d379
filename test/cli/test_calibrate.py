# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid calibrate`` on recorded bags."""

from __future__ import annotations

import fnmatch
import os
import shutil
import signal
import subprocess
import sys
from typing import Any

import mujoco
import pytest
import yaml

from builders.cli_project import Outcome, Project, Sysid, run_process
from sysid_ros.results.comparison import agreement
from sysid_ros.results.result import CalibrationResult, SolverStatus
from sysid_ros.workflows import resuming

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('undrawn')]


def _hidden(project: Project, target: str) -> float:
    truth = yaml.safe_load((project.folder / 'truth.yaml').read_text())
    return next(value for pattern, value in truth.items() if fnmatch.fnmatchcase(target, pattern))


@pytest.fixture(scope='module')
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Outcome]:
    """Return the whole project after a process calibrated it, and what it printed."""
    project = Project(tmp_path_factory.mktemp('finished') / 'project')
    return project, run_process('calibrate', 'calibration.yaml', folder=project.folder)


def test_a_process_finds_the_hidden_values_and_writes_all_its_files(
    finished: tuple[Project, Outcome],
):
    project, done = finished
    assert done.code == 0
    stages = [line.partition(' ')[0] for line in done.err.splitlines()]
    assert stages.index('reading') < stages.index('iteration') < stages.index('writing')
    assert not any(f'\n{stage} ' in f'\n{done.out}' for stage in set(stages))
    assert '\x1b' not in done.out + done.err
    out = project.folder / 'out' / 'current'
    result = CalibrationResult.load(out / 'result.json')
    for parameter in result.parameters:
        assert parameter.value == pytest.approx(_hidden(project, parameter.targets[0]), rel=0.02)
        assert parameter.verdict == 'identified'
        (row,) = [line for line in done.out.splitlines() if line.startswith(parameter.name)]
        assert parameter.unit in row
        assert 'identified' in row
    baseline = CalibrationResult.load(project.folder / 'baseline.json')
    assert all(case.passed for case in agreement(result, baseline, {}, 1.05))
    assert result.accepted
    assert result.held_out_after < 0.02 * result.held_out_before
    assert (out / 'report.html').read_text().startswith('<!DOCTYPE html>')
    for place in ('out/current/mjcf/arm.xml', 'out/current/result.json', 'out/current/report.html'):
        assert f' {place}\n' in done.out
    model = mujoco.MjModel.from_xml_path(str(out / 'mjcf' / 'arm.xml'))
    assert model.joint('elbow').armature[0] == result.parameter('joint/elbow/armature').value
    # No folder of the machine is in what may be given away.
    assert str(project.folder.parent) not in (out / 'result.json').read_text()


def test_values_given_on_the_command_line_replace_the_files(quick: Project, sysid: Sysid):
    values = (
        'solver.loss=huber',
        'solver.max_iterations=30',
        'parameters=[{target: joint/elbow/armature}]',
    )
    given = [word for value in values for word in ('--set', value)]
    done = sysid('calibrate', 'calibration.yaml', *given, '--output', 'elsewhere/deep')
    assert done.code == 0
    result = CalibrationResult.load(quick.folder / 'elsewhere/deep/current/result.json')
    assert [parameter.name for parameter in result.parameters] == ['joint/elbow/armature']
    assert result.solver.loss == 'huber'
    assert '--set solver.max_iterations=30' in result.provenance.command
    assert not (quick.folder / 'out').exists()


def test_a_limit_of_time_is_kept_and_said(quick: Project, sysid: Sysid):
    done = sysid('calibrate', 'calibration.yaml', '--time', '.01', '--output', 'hasty', '--json')
    assert done.code in (0, 1)
    assert 'limit of time' in ' '.join(done.out.split())
    link = 'current' if done.code == 0 else 'rejected'
    path = quick.folder / 'hasty' / link / 'result.json'
    solver = CalibrationResult.load(path).solver
    assert solver.status is SolverStatus.TIME
    assert solver.left > 0


def test_quiet_says_where_the_result_is_and_the_verdict(quick: Project, sysid: Sysid):
    done = sysid('calibrate', 'calibration.yaml', '--quiet', '-o', 'small')
    assert (done.code, done.err) == (0, '')
    *files, kept, verdict = done.out.splitlines()
    assert [line.partition(':')[0] for line in files] == ['identified MJCF', 'result', 'report']
    folder = (quick.folder / 'small' / 'current').resolve().relative_to(quick.folder)
    assert kept.split()[-1] == str(folder)
    assert verdict.startswith('ACCEPTED')


@pytest.mark.usefixtures('quick')
def test_the_file_of_the_model_is_parsed_once(sysid: Sysid, monkeypatch: pytest.MonkeyPatch):
    parsed = []
    real = mujoco.MjSpec.from_file

    def counting(path: str, *others: object, **options: object) -> mujoco.MjSpec:
        parsed.append(path)
        return real(path, *others, **options)

    monkeypatch.setattr(mujoco.MjSpec, 'from_file', counting)
    done = sysid('calibrate', 'calibration.yaml')
    assert done.code == 0
    # What is written is parsed to be verified: once as a trial before the fit, once after it.
    assert parsed.count('arm.xml') == 1
    assert len(parsed) == 3


def test_a_rejected_fit_changes_no_file_of_an_accepted_one_and_exits_1(
    finished: tuple[Project, Outcome], quick: Project, sysid: Sysid
):
    out = quick.folder / 'out'
    shutil.copytree(finished[0].folder / 'out', out, symlinks=True)
    before = {path: path.read_bytes() for path in out.rglob('*') if path.is_file()}
    assert before
    quick.change(gate={'margin': 0.9999})
    done = sysid('calibrate', 'calibration.yaml')
    assert done.code == 1
    assert done.out.splitlines()[-1] == 'REJECTED: no model is written.'
    assert 'identified MJCF' not in done.out
    assert ' out/rejected/result.json' in done.out
    assert {path: path.read_bytes() for path in before} == before
    result = CalibrationResult.load(out / 'rejected/result.json')
    assert not result.accepted
    assert (out / 'rejected/report.html').is_file()


def test_ctrl_c_ends_a_fit_with_130_and_nothing_written(project: Project):
    # A recording ten times as long as the others: there is time to interrupt the fit.
    project.replace_in_model('timestep="0.002"', 'timestep="0.00005"')
    before = project.files()
    process = subprocess.Popen(
        [sys.executable, '-m', 'sysid_ros.cli', 'calibrate', 'calibration.yaml'],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path), 'PYTHONUNBUFFERED': '1'},
        # A shell without job control, as in CI, lets its children ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )
    assert process.stderr is not None
    while not (line := process.stderr.readline()).startswith('fitting'):
        assert line
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, '')
    assert err.endswith('sysid: interrupted; what was not finished is not written.\n')
    assert project.files() == before
    assert not (project.folder / 'out').exists()


#: Keeps the values of every iteration, not one of each second.
KEEP_EACH = """
import sys
from sysid_ros.cli import main
from sysid_ros.workflows import resuming

resuming._SECONDS = 0.0
sys.exit(main(['calibrate', 'calibration.yaml', '--set', 'report.film=false']))
"""


def test_a_fit_that_is_killed_goes_on_from_its_last_values(
    finished: tuple[Project, Outcome], project: Project, sysid: Sysid
):
    whole = CalibrationResult.load(finished[0].folder / 'out/current/result.json')
    process = subprocess.Popen(
        [sys.executable, '-c', KEEP_EACH],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path), 'PYTHONUNBUFFERED': '1'},
    )
    assert process.stderr is not None
    last = whole.solver.iterations // 2
    while not (line := process.stderr.readline()).startswith(f'iteration {last}:'):
        assert line
    process.kill()
    process.wait()
    process.stderr.close()

    # Of another fit it says nothing.
    for change in ('solver.loss=huber', 'parameters=[{target: joint/elbow/armature}]'):
        done = sysid('calibrate', 'calibration.yaml', '--resume', '--set', change)
        assert done.code == 2
        assert 'found those of another configuration' in done.err
    project.replace_in_model('timestep="0.002"', 'timestep="0.0020001"')
    done = sysid('calibrate', 'calibration.yaml', '--resume')
    assert done.code == 2
    assert 'another model' in done.err
    project.replace_in_model('timestep="0.0020001"', 'timestep="0.002"')
    # It may be started in another folder, and with another limit of time.
    os.chdir(project.folder.parent)
    config = f'{project.folder.name}/calibration.yaml'
    done = sysid('calibrate', config, '--resume', '--time', '1000')

    assert done.code == 0, done.err
    out = project.folder / 'out'
    result = CalibrationResult.load(out / 'current/result.json')
    assert not any(path.name.startswith('.iterate') for path in out.iterdir())
    assert result.solver.iterations < whole.solver.iterations
    assert 'interrupted' in result.solver.start_sentence
    assert '--resume' in result.provenance.command
    assert [check.name for check in result.checks] == [check.name for check in whole.checks]
    for found, known in zip(result.parameters, whole.parameters, strict=True):
        assert abs(found.value - known.value) < 0.1 * (known.high - known.low) / 4
        assert (found.verdict, found.initial) == (known.verdict, known.initial)
        assert found.high - found.low == pytest.approx(known.high - known.low, rel=0.1)
    done = sysid('calibrate', config, '--resume')
    assert done.code == 2
    assert done.err.startswith("sysid: Expected a fit to go on with in 'project/out', found none: ")


def test_a_fit_that_a_limit_stopped_can_go_on(quick: Project, sysid: Sysid, monkeypatch: Any):
    monkeypatch.setattr(resuming, '_SECONDS', 0.0)
    limited = ('--time', '.01', '--set', 'report.film=false')
    assert sysid('calibrate', 'calibration.yaml', *limited).code in (0, 1)
    assert (quick.folder / 'out' / '.iterate.json').is_file()
    assert sysid('calibrate', 'calibration.yaml', '--resume').code == 0
    assert not (quick.folder / 'out' / '.iterate.json').exists()
