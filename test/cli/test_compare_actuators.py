# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid compare-actuators``, and ``sysid fit-actuator --model all``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from builders.recordings import M1, record
from sysid_ros.servos.formats.logs import write_log
from sysid_ros.servos.laws.servo import Servo

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow


USUAL = ('--actuator', 'xl330', '--logdir', 'logs')
#: Fits of few coefficients are quick.
FIXED = tuple(f'--fix={name}={M1[name]}' for name in ('R', 'q_offset', 'armature', 'kt'))

#: Some laws have these, others do not.
MORE_FIXED = ('--fix=dtheta_stribeck=0.2', '--fix=alpha=1.35', '--fix=friction_viscous=0.0037')


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with two short logs of two loads in the folder logs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'logs').mkdir()
    for log in record(Servo.named('xl330', 'm1'), M1, motions=('sin_sin',), seconds=1.5):
        write_log(Path('logs') / f'{log.name}.json', log)
    return tmp_path


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in this process only, as on a machine with one core."""
    monkeypatch.setattr(os, 'cpu_count', lambda: 1)


def test_models_groups_and_the_recommendation_are_shown(folder: Path, sysid: Callable[..., Any]):
    done = sysid('compare-actuators', *USUAL, *FIXED, '--models', 'm1, m3', '-o', 'out/servo.json')
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines()]
    assert 'fitting xl330 with m1, m3 to 2 logs' in done.err
    assert ['model', 'coefficients', 'training', 'held', 'out'] in [line[:5] for line in lines]
    table = [line for line in lines if line[:1] in (['m1'], ['m3'])]
    assert [line[:2] for line in table] == [['m1', '2'], ['m3', '3']]
    groups = [line for line in lines if line[1:2] == ['kg·m']]
    assert [(line[0], line[2]) for line in groups] == [('0.016', '1'), ('0.0465', '1')]
    assert 'warning: There are only two loads' in done.out
    assert 'recommended: m1, as it ' in done.out
    written = json.loads((folder / 'out' / 'servo.json').read_text())
    assert list(written) == [*M1, 'model', 'actuator']
    assert written['model'] == 'm1'
    compared = json.loads((folder / 'out' / 'servo.comparison.json').read_text())
    assert compared['recommended'] == 'm1'


@pytest.mark.usefixtures('folder', 'alone')
def test_the_same_is_there_as_json(sysid: Callable[..., Any]):
    done = sysid(
        'compare-actuators', *USUAL, *FIXED, '--models', 'm1,m3', '--by', 'kp', '--json', '-q'
    )
    assert (done.code, done.err) == (0, '')
    found = json.loads(done.out)
    assert (found['by'], found['why']) == ('kp', 'as asked for')
    assert [part['group'] for part in found['models'][0]['groups']] == ['kp 200', 'kp 400']
    assert found['recommended'] == 'm1'


@pytest.mark.usefixtures('alone')
def test_all_models_are_fitted_and_written(folder: Path, sysid: Callable[..., Any]):
    known = (*FIXED, *MORE_FIXED)
    done = sysid(
        *('fit-actuator', *USUAL, *known, '--model', 'all', '--starts', '1'),
        *('-o', 'out/servo.json', '--quiet', '--json'),
    )
    assert (done.code, done.err) == (0, '')
    chosen = json.loads((folder / 'out' / 'servo.comparison.json').read_text())['recommended']
    assert json.loads((folder / 'out' / 'servo.json').read_text())['model'] == chosen
    for number in range(1, 7):
        for end in ('json', 'result.json', 'report.html'):
            assert (folder / 'out' / f'servo_m{number}.{end}').is_file()
    found = json.loads(done.out)
    assert found['comparison']['recommended'] == chosen
    assert found['reports'][chosen] == f'out/servo_{chosen}.report.html'


@pytest.mark.parametrize(
    ('arguments', 'said'),
    [
        (('--models', 'm1,m7'), "no friction model 'm7'; nearest: m"),
        (('--models', 'm4'), 'Expected two friction models or more to compare'),
        (('--by', 'mass'), "Unknown --by 'mass'"),
        (('--by', 'trajectory'), 'found only sin_sin; by load (2 groups) or kp (2 groups)'),
        (('--fix', 'load_friction=0'), "no coefficient 'load_friction'; nearest: load_friction_"),
        (('-o', 'logs'), 'found the folder'),
        (('--validation-kp', '200'), 'at least two loads, gains kp or trajectories'),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    folder: Path, sysid: Callable[..., Any], arguments: tuple[str, ...], said: str
):
    done = sysid('compare-actuators', *USUAL, *arguments, '--quiet')
    assert done.code == 2
    assert done.err.startswith('sysid: ')
    assert done.err.count('\n') == 1
    assert said in done.err
    assert [path.name for path in folder.iterdir()] == ['logs']


@pytest.mark.usefixtures('folder')
def test_all_models_cannot_be_resumed(sysid: Callable[..., Any]):
    done = sysid('fit-actuator', *USUAL, '--model', 'all', '--resume')
    assert done.code == 2
    assert 'Expected one friction model with resume' in done.err
