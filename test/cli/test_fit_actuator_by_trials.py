# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid fit-actuator --method``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from builders.recordings import M1, record
from sysid_ros.servos.formats.logs import write_log
from sysid_ros.servos.laws.servo import Servo

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow


USUAL = ('fit-actuator', '--actuator', 'xl330', '--logdir', 'logs', '--model', 'm1')


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with two logs of 1.5 s in the folder logs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'logs').mkdir()
    for log in record(Servo.named('xl330', 'm1'), M1, motions=('up_and_down',), seconds=1.5):
        write_log(Path('logs') / f'{log.name}.json', log)
    return tmp_path


def test_trials_and_what_follows_are_told_with_both_errors(
    folder: Path, sysid: Callable[..., Any]
) -> None:
    done = sysid(*USUAL, '--method', 'nsgaii', '--trials', '100', '-o', 'out/servo.json')
    assert done.code == 0
    assert re.search(
        r'the best of 100 trials of nsgaii, with a mean absolute error of [\d.]+ mrad; least '
        r'squares from there led to [\d.]+ mrad\.',
        ' '.join(done.out.split()),
    )
    assert {path.name for path in (folder / 'out').iterdir()} == {
        'servo.json',
        'servo.report.html',
        'servo.result.json',
        'study.journal',
    }
    [name] = re.findall(r'--load-study (\S+)', done.out + done.err)
    again = sysid(
        *USUAL, '--method', 'cmaes', '--trials', '120', '-o', 'out/servo.json', '--load_study', name
    )
    assert again.code == 0
    assert 'the best of 120 trials of cmaes' in ' '.join(again.out.split())


@pytest.mark.parametrize(
    ('arguments', 'said'),
    [
        (('--method', 'cma'), "unknown --method 'cma'; nearest: cmaes"),
        (('--trials', '10'), 'cmaes, random or nsgaii with trials, found least-squares'),
        (('--workers', '2'), 'cmaes, random or nsgaii with workers, found least-squares'),
        (('--load-study', 'x'), 'cmaes, random or nsgaii with load_study, found least-squares'),
        (('--method', 'cmaes', '--trials', '0'), 'expected at least 1'),
        (('--method', 'cmaes', '--workers', '0'), 'expected at least 1'),
        (('--method', 'cmaes', '--resume'), 'load_study to go on with trials of cmaes'),
        (('--method', 'cmaes', '--load-study', 'x'), "no study 'x' in 'study.journal'; there are"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    folder: Path, sysid: Callable[..., Any], arguments: tuple[str, ...], said: str
) -> None:
    done = sysid(*USUAL, *arguments, '--quiet')
    assert done.code == 2
    assert said.lower() in done.err.lower()
    assert done.err.count('\n') == 1
    assert [path.name for path in folder.iterdir()] == ['logs']


def test_without_optuna_least_squares_still_work(
    folder: Path, sysid: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, 'optuna', None)
    done = sysid(*USUAL, '--method', 'cmaes')
    assert done.code == 2
    assert "pip install 'sysid_ros[servo]'" in done.err
    assert [path.name for path in folder.iterdir()] == ['logs']
    assert sysid(*USUAL, '--starts', '1').code == 0
