# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Thresholds files as tests of pytest, which runs in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
import yaml

from builders.cli_project import REPOSITORY, Project

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

NAMES = ['model', 'validate', 'calibration', 'joint/shoulder/damping', 'joint/elbow/damping']


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a quick calibration of the recorded pendulum with a thresholds file."""
    found = Project(tmp_path / 'robot')
    found.make_quick()
    keys = {
        'model': 'arm.xml',
        'bags': ['validate'],
        'calibration': 'calibration.yaml',
        'baseline': 'base',
    }
    (found.folder / 'arm.sysid.yaml').write_text(yaml.safe_dump(keys))
    return found


def run(project: Project, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, '-m', 'pytest', *_plugin(), '-v', '-p', 'no:xdist', *options],
        capture_output=True,
        text=True,
        cwd=project.folder,
        env={**os.environ, 'PYTHONPATH': str(REPOSITORY)},
        check=False,
        timeout=300,
    )


def _plugin() -> list[str]:
    """Return how pytest is told of the plugin where no entry point does."""
    from importlib.metadata import entry_points  # noqa: PLC0415

    known = any(e.value == 'sysid_ros.pytest_plugin' for e in entry_points(group='pytest11'))
    return [] if known else ['-p', 'sysid_ros.pytest_plugin']


def outcomes(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    return dict(re.findall(r'^arm.sysid.yaml::(\S+) (\w+)', done.stdout, re.MULTILINE))


def test_a_file_is_an_item_for_each_recording_and_parameter(project: Project):
    assert run(project, '--sysid-update').returncode == 0

    done = run(project, '--junitxml=out.xml')

    assert outcomes(done) == dict.fromkeys([*NAMES, 'body/tip/mass'], 'PASSED')
    cases = ET.parse(project.folder / 'out.xml').getroot().iter('testcase')  # noqa: S314
    case = next(case for case in cases if case.get('name') == 'body/tip/mass')
    numbers = {p.get('name'): p.get('value') or '' for p in case.iter('property')}
    assert numbers['unit'] == 'kg'
    assert float(numbers['low']) < float(numbers['value']) < float(numbers['high'])
    assert float(numbers['limit']) > 0

    # Nothing is computed again: what was kept decides.
    found = (project.folder / '.pytest_cache/v/sysid').glob('parameters-*')
    kept = max(found, key=lambda path: path.stat().st_mtime_ns)
    findings, notes = json.loads(kept.read_text())
    assert findings[0][0] == 'joint/shoulder/damping'
    findings[0][1], findings[0][2] = False, 'kept from before'
    kept.write_text(json.dumps([findings, notes]))
    again = run(project)
    assert outcomes(again)['joint/shoulder/damping'] == 'FAILED'
    assert 'kept from before' in again.stdout

    # Any change of what it rests on computes it again.
    project.replace_in_model('pos="0 0 -.25"', 'pos="0 0 -.26"')
    changed = run(project, '-k', 'model')
    assert outcomes(changed)['model'] == 'FAILED'
    assert 'body/tip/pos: is 0 0 -.26, was 0 0 -.25' in changed.stdout
    assert 'Traceback' not in changed.stdout


def test_predictions_wait_for_no_fit_and_want_a_baseline(project: Project):
    new = run(project, '-k', 'model or validate')
    assert outcomes(new) == {'model': 'FAILED', 'validate': 'PASSED'}
    assert 'there is no baseline of predictions yet; pytest --sysid-update writes it' in new.stdout

    assert run(project, '--sysid-update', '-k', 'model').returncode == 0

    assert sorted(path.name for path in (project.folder / 'base').iterdir()) == ['evaluation.json']


def test_what_is_wrong_with_a_file_is_one_sentence(project: Project):
    (project.folder / 'arm.sysid.yaml').write_text('modle: arm.xml')
    done = run(project)

    assert done.returncode == 2
    assert "Unknown key 'modle' in " in done.stdout
    assert 'nearest: model' in done.stdout
    assert 'Traceback' not in done.stdout

    (project.folder / 'arm.sysid.yaml').write_text('model: arn.xml\nbags: [validate]')
    done = run(project)
    assert done.returncode == 1
    assert 'nearest: arm.xml' in done.stdout
    assert 'Traceback' not in done.stdout
