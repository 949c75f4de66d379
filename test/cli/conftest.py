# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The command line, run on a copy of the recorded pendulum."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

from sysid_ros.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

REPOSITORY = Path(__file__).resolve().parents[2]
PENDULUM = REPOSITORY / 'test' / 'data' / 'pendulum'


class Outcome(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str


class Project:
    """A calibration in a folder of its own, which is the working directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / 'calibration.yaml'

    def change(self, **keys: Any) -> None:
        """Replace keys of the configuration; None removes one."""
        values = yaml.safe_load(self.config.read_text())
        values.update(keys)
        kept = {key: value for key, value in values.items() if value is not None}
        self.config.write_text(yaml.safe_dump(kept))

    def change_parameter(self, **keys: Any) -> None:
        """Replace keys of the first parameter."""
        first, *others = yaml.safe_load(self.config.read_text())['parameters']
        self.change(parameters=[{**first, **keys}, *others])

    def replace_in_model(self, old: str, new: str) -> None:
        """Edit the MJCF."""
        text = (self.folder / 'arm.xml').read_text()
        assert old in text
        (self.folder / 'arm.xml').write_text(text.replace(old, new))

    def files(self) -> dict[str, bytes]:
        """Return everything in the folder."""
        paths = (path for path in self.folder.rglob('*') if path.is_file())
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in paths}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a copy of the recorded pendulum."""
    folder = tmp_path / 'project'
    shutil.copytree(PENDULUM, folder)
    monkeypatch.chdir(folder)
    return Project(folder)


@pytest.fixture
def sysid(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Return a function that runs the command in this process."""

    def run(*arguments: str | Path) -> Outcome:
        capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as exit_:  # argparse leaves so
            code = int(exit_.code or 0)
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture
def sysid_process() -> Callable[..., Outcome]:
    """Return a function that runs the command as a user does, in a process of its own."""

    def run(*arguments: str | Path) -> Outcome:
        done = subprocess.run(
            [sys.executable, '-m', 'sysid_ros.cli', *map(str, arguments)],
            capture_output=True,
            text=True,
            env={**os.environ, 'PYTHONPATH': str(REPOSITORY)},
            timeout=300,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run
