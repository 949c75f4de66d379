# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid compare``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.cli_project import Sysid
from builders.histories import keep, make_result

FEW = [{'target': 'joint/*/damping'}, {'target': 'body/tip/mass'}]


@pytest.mark.slow
def test_models_are_compared_and_one_is_recommended(project: Any, sysid: Callable[..., Any]):
    project.change(parameters=FEW)
    done = sysid('compare', project.config, '--drop', 'body/tip/mass', '--json', '--quiet')
    assert (done.code, done.err) == (0, '')
    found = json.loads(done.out)
    assert [model['name'] for model in found['models']] == [
        'calibration',
        'calibration without body/tip/mass',
    ]
    assert [model['parameters'] for model in found['models']] == [3, 2]
    assert found['models'][0]['parts'][0]['bag'] == 'validate'
    assert found['models'][0]['standard_error'] is None
    assert found['recommended'] == 'calibration'


@pytest.mark.slow
def test_bags_have_to_be_the_same(project: Any, sysid: Callable[..., Any]):
    project.change(parameters=FEW[:1])
    other = project.folder / 'other.yaml'
    shutil.copy(project.config, other)
    project.change(bags=[{'path': 'train'}])
    done = sysid('compare', project.config, other, '--quiet')
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert line.startswith('sysid: Models can be compared on the same bags only')
    assert 'validate (validate)' in line


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Return the folders of two results below the working directory."""
    monkeypatch.chdir(tmp_path)
    keep(Path('old'), make_result())
    keep(Path('new'), make_result(0.05, 0.7, 4.2))
    return 'old', 'new/current'


def test_results_are_compared_without_fitting(results: tuple[str, str], sysid: Sysid):
    done = sysid('compare', *results)

    assert (done.code, done.err) == (0, '')
    assert 'new/current against old: joint/elbow/frictionloss from 3.5 to 4.2' in done.out


def test_results_side_by_side_are_json_too(results: tuple[str, str], sysid: Sysid):
    found = json.loads(sysid('compare', *results, '--json').out)

    assert [entry['name'] for entry in found['results']] == list(results)
    assert [entry['parameters'][2]['value'] for entry in found['results']] == [3.5, 4.2]
    friction = found['results'][1]['drift']['parameters'][2]
    assert (friction['before'], friction['after'], friction['changed']) == (3.5, 4.2, True)
    assert friction['deviations'] == pytest.approx(4.95, abs=0.01)


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (('old', 'calibration.yaml'), "the result 'old' among 2 paths"),
        (('old',), 'Expected two results or more'),
        (('old', 'new', '--set', 'solver.loss=huber'), 'are for configurations, found results'),
    ],
)
@pytest.mark.usefixtures('results')
def test_what_does_not_go_with_results_is_one_sentence(
    sysid: Sysid, arguments: tuple[str, ...], words: str
):
    done = sysid('compare', *arguments)

    assert (done.code, done.out, done.err.count('\n')) == (2, '', 1)
    assert words in done.err
