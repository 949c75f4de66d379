# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The command line, run on a copy of the recorded pendulum."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders.cli_project import Outcome, Project, Sysid
from builders.recorded_pendulum import calibration
from sysid_ros.cli import main
from sysid_ros.workflows.calibrate import identify
from sysid_ros.workflows.writing import Identified


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a copy of the recorded pendulum, whose folder is the working directory."""
    project = Project(tmp_path / 'project')
    monkeypatch.chdir(project.folder)
    return project


@pytest.fixture(scope='session')
def identified(tmp_path_factory: pytest.TempPathFactory) -> Identified:
    """Return what a calibration of few parameters finds; nobody changes it."""
    return identify(calibration(tmp_path_factory.mktemp('identified')))


@pytest.fixture
def quick(project: Project, identified: Identified) -> Project:
    """Return a copy whose fit takes a second, and whose baseline is what that fit finds."""
    project.make_quick()
    identified.result.save(project.folder / 'baseline.json')
    return project


@pytest.fixture
def sysid(capsys: pytest.CaptureFixture[str]) -> Sysid:
    """Return a function that runs the command in this process; a document has no NaN."""

    def run(*arguments: str | Path) -> Outcome:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        done = Outcome(code, *capsys.readouterr())
        assert '\x1b' not in done.out + done.err
        if '--json' in arguments and done.out:
            # No number of a document is NaN or infinite.
            json.loads(done.out, parse_constant=pytest.fail)
        return done

    return run
