# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid fit-actuator``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders.documents import validator_of
from builders.recordings import M1, record
from sysid_ros.cli.main import main
from sysid_ros.servos.formats.logs import write_log
from sysid_ros.servos.laws.servo import Servo

pytestmark = pytest.mark.slow


SERVO = Servo.named('xl330', 'm1')


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with four logs of 3 s in the folder logs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'logs').mkdir()
    for log in record(SERVO, M1, motions=('sin_time_square', 'lift_and_drop'), seconds=3.0):
        write_log(Path('logs') / f'{log.name}.json', log)
    return tmp_path


def _run(*arguments: str) -> int:
    return main(['fit-actuator', '--actuator', 'xl330', '--logdir', 'logs', *arguments])


def test_a_fit_ends_with_the_table_the_error_and_the_files(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run('--model', 'm1', '--starts', '2', '-o', 'servo.json') == 0
    text = capsys.readouterr().out
    for said in ('friction_viscous', 'identified', 'Mean absolute error of 4 logs', 'servo.json'):
        assert said in text
    written = json.loads((folder / 'servo.json').read_text())
    assert list(written) == [*M1, 'model', 'actuator']
    assert (written['model'], written['actuator']) == ('m1', 'xl330')


def test_a_file_of_coefficients_is_evaluated(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth = {**M1, 'model': 'm1', 'actuator': 'xl330'}
    (folder / 'truth.json').write_text(json.dumps(truth))
    assert _run('--eval', '--output', 'truth.json') == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    mean = float(lines[-1].split()[-2])
    assert 0.3 < mean < 0.5  # mrad, of an encoder with 4096 counts and some noise
    assert _run('--eval', '--output', 'truth.json', '--json') == 0
    found = json.loads(capsys.readouterr().out)
    validator_of('fit-actuator').validate(found)
    assert 1e3 * found['mean'] == pytest.approx(mean, abs=1e-4)
    assert len(found['errors']) == 4


@pytest.mark.parametrize(
    ('arguments', 'said'),
    [
        (('--model', 'm8'), "no friction model 'm8'"),
        (('--fix', 'kt'), 'NAME=NUMBER'),
        (('--fix', 'kT=1'), "no coefficient 'kT'; nearest: kt"),
        (('--starts', '0'), 'starts'),
        (('--validation-kp', '3'), '200'),
        (('--reset-period', '-1'), 'reset_period'),
    ],
)
@pytest.mark.usefixtures('folder')
def test_bad_input_is_one_sentence_and_exit_code_2(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(*arguments, '--quiet') == 2
    error = capsys.readouterr().err
    assert error.startswith('sysid: ')
    assert error.count('\n') == 1
    assert said in error


def test_smaller_steps_are_told_in_the_file(folder: Path) -> None:
    assert _run('--model', 'm1', '--starts', '1', '--substeps', '2', '-o', 'fine.json') == 0
    assert json.loads((folder / 'fine.json').read_text())['substeps'] == 2
    assert _run('--eval', '-o', 'fine.json') == 0
