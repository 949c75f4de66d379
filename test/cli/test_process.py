# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid process``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with two raw logs of 3 s in the folder raw."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'raw').mkdir()
    for name, rate in (('lift', 80), ('drop', 90)):
        entries = [
            {
                'position': 0.0,
                'goal_position': 0.0,
                'torque_enable': True,
                'timestamp': (number + 0.5) / rate,
            }
            for number in range(3 * rate + 1)
        ]
        log = {'mass': 1.0, 'length': 0.1, 'kp': 32, 'entries': entries}
        (tmp_path / 'raw' / f'{name}.json').write_text(json.dumps(log))
    return tmp_path


def _periods(folder: Path) -> dict[str, float]:
    return {path.name: json.loads(path.read_text())['dt'] for path in folder.iterdir()}


@pytest.mark.parametrize('arguments', [['raw', 'logs'], ['--raw', 'raw', '--logdir', 'logs']])
def test_every_log_is_a_line(folder: Path, sysid: Callable[..., Any], arguments: list[str]):
    done = sysid('process', *arguments)
    assert (done.code, done.err) == (0, '')
    assert done.out.splitlines() == [
        'wrote logs/drop.json: 602 samples, 3.00 s',
        'wrote logs/lift.json: 602 samples, 3.00 s',
    ]
    assert _periods(folder / 'logs') == {'drop.json': 0.005, 'lift.json': 0.005}


def test_the_period_can_be_chosen(folder: Path, sysid: Callable[..., Any]):
    logs = json.loads(sysid('process', 'raw', 'logs', '--dt', '.01', '--json').out)['logs']
    assert [log['file'] for log in logs] == ['logs/drop.json', 'logs/lift.json']
    assert _periods(folder / 'logs') == {'drop.json': 0.01, 'lift.json': 0.01}


@pytest.mark.parametrize(
    ('arguments', 'complaint'),
    [
        (['rwa', 'logs'], "There is no folder 'rwa'; nearest: raw."),
        (['.', 'logs'], "Expected logs *.json in '.', found raw."),
        (['raw', 'raw'], "Expected another folder than 'raw' for processed logs"),
        (['raw', 'logs', '--dt', '0'], 'Expected a time between samples of more than 0 s, found 0'),
        (['raw', 'raw/lift.json'], "Cannot write 'raw/lift.json/drop.json'"),
        (['raw'], 'One of the arguments OUTPUT --logdir is required; see `sysid process --help`'),
        (['raw', 'logs', '--raw', 'raw'], 'Argument --raw: not allowed with argument RAW'),
    ],
)
def test_what_cannot_be_done_is_one_line_and_changes_nothing(
    folder: Path, sysid: Callable[..., Any], arguments: list[str], complaint: str
):
    done = sysid('process', *arguments)
    assert (done.code, done.out) == (2, '')
    assert complaint in done.err
    assert done.err.count('\n') == 1
    assert [path.name for path in folder.iterdir()] == ['raw']
    assert len(list((folder / 'raw').iterdir())) == 2
