# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The commands about servos, on small logs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import mujoco
import pytest
from PIL import Image

from builders.cli_project import Sysid
from builders.recordings import M1, record
from sysid_ros.servos.logs import write_log
from sysid_ros.simulation.servo import Servo, write_parameters

pytestmark = pytest.mark.slow

LOGS = ('--actuator', 'xl330', '--logdir', 'logs')
FIT = ('servo', 'fit', *LOGS, '--model', 'm1', '--starts', '1')
M3 = {**M1, 'load_friction_base': 0.2}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with four logs of two periods in logs, and two files."""
    monkeypatch.chdir(tmp_path)
    servo = Servo.named('xl330', 'm1')
    for log in record(servo, M1, motions=('sin_time_square', 'lift_and_drop'), seconds=2.5):
        write_log(Path('logs') / f'{log.name}.json', log)
    write_parameters(Path('m1.json'), servo, M1)
    write_parameters(Path('m3.json'), Servo.named('xl330', 'm3'), M3)
    return tmp_path


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob('*') if path.is_file()}


def test_a_fit_ends_with_the_table_the_error_and_the_files(folder: Path, sysid: Sysid):
    done = sysid(*FIT, '-o', 'servo.json')
    assert done.code == 0
    for said in ('friction_viscous', 'identified', 'Mean absolute error of 4 logs', 'servo.json'):
        assert said in done.out
    written = json.loads((folder / 'servo.json').read_text())
    assert list(written) == [*M1, 'model', 'actuator']


@pytest.mark.usefixtures('folder')
def test_a_file_of_coefficients_is_evaluated(sysid: Sysid):
    lines = sysid(*FIT, '--eval', 'm1.json').out.splitlines()
    assert len(lines) == 5
    mean = float(lines[-1].split()[-2])
    assert 0.3 < mean < 0.5  # mrad, of an encoder with 4096 counts and some noise
    found = json.loads(sysid(*FIT, '--eval', 'm1.json', '--json').out)
    assert 1e3 * found['mean'] == pytest.approx(mean, abs=1e-4)
    assert len(found['errors']) == 4


def test_trials_are_kept(folder: Path, sysid: Sysid):
    tried = (*FIT, '--method', 'nsgaii', '--trials', '20', '--workers', '2')
    done = sysid(*tried, '-o', 'out/servo.json')
    assert done.code == 0
    assert 'the best of 20 trials of nsgaii' in ' '.join(done.out.split())
    assert (folder / 'out' / 'study.journal').is_file()


@pytest.mark.parametrize(
    ('arguments', 'said'),
    [
        (('--model', 'm8'), "no friction model 'm8'"),
        (('--fix', 'kt'), 'name=number'),
        (('--reset-period', '-1'), 'reset_period'),
        (('--method', 'cma'), "'cma' is not one of 'least-squares', 'cmaes'"),
        (('--trials', '10'), 'with trials, found least-squares'),
        (('--method', 'cmaes', '--load-study', 'x'), "no study 'x'"),
    ],
)
def test_a_bad_fit_is_one_sentence_and_exit_code_2(
    folder: Path, sysid: Sysid, arguments: tuple[str, ...], said: str
):
    before = _files(folder)
    done = sysid(*FIT, *arguments, '--quiet')
    assert done.code == 2
    assert said in done.err.lower()
    assert done.err.count('\n') == 1
    assert _files(folder) == before


def test_without_optuna_least_squares_still_work(
    folder: Path, sysid: Sysid, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, 'optuna', None)
    done = sysid(*FIT, '--method', 'cmaes')
    assert done.code == 2
    assert "pip install 'sysid_ros[servo]'" in done.err
    assert sysid(*FIT).code == 0
    assert (folder / 'params.json').is_file()


def test_errors_of_laws_are_side_by_side(folder: Path, sysid: Sysid):
    known = tuple(f'--fix={name}={M1[name]}' for name in ('R', 'q_offset', 'armature', 'kt'))
    usual = ('servo', 'compare', *LOGS, *known, '--models', 'm1, m3', '--validation-kp', '200')
    done = sysid(*usual, '-o', 'laws')
    assert done.code == 0
    rows = [line.split() for line in done.out.splitlines()]
    assert [row[:2] for row in rows if row[:1] in (['m1'], ['m3'])] == [['m1', '2'], ['m3', '3']]
    assert {'laws/m1.json', 'laws/m3.json'} <= _files(folder)
    found = json.loads(sysid(*usual, '--json', '-q').out)
    assert [law['held_out'] < 1e-3 for law in found['models']] == [True, True]


def test_predictions_are_drawn_over_the_logs_and_their_errors_told(folder: Path, sysid: Sysid):
    usual = ('servo', 'plot', '--logdir', 'logs', '--params', 'm1.json', '--params', 'm3.json')
    done = sysid(*usual, '-o', 'new')
    assert (done.code, done.err) == (0, '')
    assert len(_files(folder / 'new')) == 4
    with Image.open(next((folder / 'new').iterdir())) as image:
        colours = {colour for _, colour in image.convert('RGB').getcolors(1 << 24)}
    assert {(11, 92, 173), (194, 87, 12)} <= colours
    (means,) = [line.split()[1:] for line in done.out.splitlines() if line.startswith('mean')]
    m1, m3 = map(float, means)
    assert m1 < 0.5 < m3
    errors = json.loads(sysid(*usual, '-o', 'new', '--json').out)['errors']['m1'].values()
    assert 1e3 * sum(errors) / len(errors) == pytest.approx(m1, rel=0.01)


@pytest.mark.parametrize(
    ('arguments', 'said'),
    [
        (['--params', 'm1.json', '--reset-period', '0'], 'a positive --reset-period'),
        (['--params', 'empty'], "'empty', found none"),
        (['--params', 'm7.json'], "'m7.json'"),
        (['--params', 'mx.json'], 'servo mx106, found xl330'),
    ],
)
def test_what_cannot_be_drawn_is_one_line_and_nothing_is_written(
    folder: Path, sysid: Sysid, arguments: list[str], said: str
):
    (folder / 'empty').mkdir()
    servo = Servo.named('mx106', 'm1')
    write_parameters(Path('mx.json'), servo, dict.fromkeys(servo.coefficients, 0.1))
    before = _files(folder)
    done = sysid('servo', 'plot', '--logdir', 'logs', *arguments)
    assert (done.code, done.out) == (2, '')
    assert said in done.err
    assert _files(folder) == before


def test_a_servo_is_exported_with_what_is_lost(folder: Path, sysid: Sysid):
    done = sysid('servo', 'export', '--params', 'm3.json', '-o', 'servo.xml')
    assert (done.code, done.err) == (0, '')
    joint, drive, note, last = done.out.splitlines()
    text = (folder / 'servo.xml').read_text()
    assert joint in text
    assert drive in text
    assert note.startswith('note: Of the friction of xl330 m3 only ')
    assert last == 'wrote servo.xml'
    assert mujoco.MjModel.from_xml_string(text).dof_armature[0] == 0.0018
    done = sysid('servo', 'export', '--params', 'm1.json', '--kp', '-1', '-o', 'other.xml')
    assert (done.code, done.out) == (2, '')
    assert not (folder / 'other.xml').exists()
