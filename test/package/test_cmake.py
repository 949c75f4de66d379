# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""`add_sysid_check` in a package of CMake, with what colcon reads of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from builders.cli_project import REPOSITORY, Project

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.nightly

BIN = Path(sys.executable).parent
LISTS = """cmake_minimum_required(VERSION 3.16)
project(robot NONE)
find_package(sysid_ros REQUIRED)
enable_testing()
add_sysid_check(arm {arguments})
"""


@pytest.fixture
def configure(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Return a function that configures a package with a check of the recorded pendulum."""
    project = Project(tmp_path / 'robot')
    keys = {'model': 'arm.xml', 'bags': ['validate'], 'limits': {'elbow_position': 1e-3}}
    (project.folder / 'arm.sysid.yaml').write_text(yaml.safe_dump(keys))
    command = tmp_path / 'sysid'
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m sysid_ros.cli "$@"\n')
    command.chmod(0o755)

    def run(arguments: str) -> subprocess.CompletedProcess[str]:
        (project.folder / 'CMakeLists.txt').write_text(LISTS.format(arguments=arguments))
        return _run(
            *('cmake', '-S', project.folder, '-B', tmp_path / 'build/robot'),
            *(f'-Dsysid_ros_DIR={REPOSITORY / "cmake"}', f'-DSYSID_EXECUTABLE={command}'),
        )

    return run


def _run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / program), *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, 'PYTHONPATH': str(REPOSITORY)},
        check=False,
        timeout=300,
    )


def test_a_check_is_a_test_whose_cases_colcon_shows(
    configure: Callable[[str], subprocess.CompletedProcess[str]], tmp_path: Path
):
    done = configure('THRESHOLDS arm.sysid.yaml TIMEOUT 120')
    assert done.returncode == 0, done.stderr

    tested = _run('ctest', '--test-dir', tmp_path / 'build/robot')
    assert '100% tests failed' in tested.stdout or '1 tests failed' in tested.stdout
    shown = _run(
        'colcon', 'test-result', '--test-result-base', tmp_path / 'build', '--all', '--verbose'
    )
    assert 'robot/arm.xunit.xml: ' in shown.stdout
    assert '1 failure' in shown.stdout
    assert 'elbow_position, whole recording in validate: error above its limit' in shown.stdout


@pytest.mark.parametrize(
    ('arguments', 'complaint'),
    [
        ('', 'expected THRESHOLDS, or CALIBRATION and BASELINE'),
        ('CALIBRATION calibration.yaml', 'expected THRESHOLDS, or CALIBRATION and BASELINE'),
        ('THRESHOLD arm.sysid.yaml', 'unknown arguments THRESHOLD;arm.sysid.yaml'),
    ],
)
def test_wrong_arguments_are_told_when_it_is_configured(
    configure: Callable[[str], subprocess.CompletedProcess[str]], arguments: str, complaint: str
):
    done = configure(arguments)

    assert done.returncode != 0
    assert complaint in ' '.join(done.stderr.split())
