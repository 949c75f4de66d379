# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid compare``."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

FEW = [{'target': 'joint/*/damping'}, {'target': 'body/tip/mass'}]


@pytest.mark.slow
def test_models_are_compared_and_one_is_recommended(project: Any, sysid: Callable[..., Any]):
    project.change(parameters=FEW)
    done = sysid('compare', project.config, '--drop', 'body/tip/mass', '--json')
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
    done = sysid('compare', project.config, other)
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert line.startswith('sysid: Models can be compared on the same bags only')
    assert 'validate (validate)' in line


@pytest.mark.slow
def test_a_pattern_that_matches_nothing_is_refused(project: Any, sysid: Callable[..., Any]):
    project.change(parameters=FEW)
    done = sysid('compare', project.config, '--drop', 'joint/*/dampin')
    assert (done.code, done.err.count('\n')) == (2, 1)
    assert 'No parameter to drop matches' in done.err


@pytest.mark.slow
def test_what_is_missing_is_said_and_can_be_written(project: Any, sysid: Callable[..., Any]):
    project.change(parameters=FEW)
    folder = project.folder / 'new'
    done = sysid('compare', project.config, '--missing', '--json', '-o', folder)
    assert (done.code, done.err) == (0, '')
    found = json.loads(done.out)
    assert found['screened'] == 12
    assert (found['named'] is None) == (not folder.exists())
    if found['named'] is not None:
        assert (folder / 'arm.xml').exists()


@pytest.mark.slow
def test_what_is_missing_is_asked_of_one_model_only(project: Any, sysid: Callable[..., Any]):
    for arguments, words in (
        (('--missing', '--drop', 'joint/*'), 'no --drop beside --missing'),
        (('--missing', '-o', project.folder), 'exists already'),
        (('-o', 'new'), 'expected both or neither'),
    ):
        done = sysid('compare', project.config, *arguments)
        assert (done.code, done.err.count('\n')) == (2, 1)
        assert words in done.err
