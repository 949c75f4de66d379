# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A folder with a calibration in it, and the command line run there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import yaml

from builders.recorded_pendulum import FEW, FOLDER, TIMES

REPOSITORY = Path(__file__).resolve().parents[2]


class Outcome(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str


class Sysid(Protocol):
    """Runs ``sysid`` with some arguments."""

    def __call__(self, *arguments: str | Path) -> Outcome:
        """Return what it did."""


class Project:
    """A calibration of the recorded pendulum in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(FOLDER, folder)
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

    def make_quick(self) -> None:
        """Leave few parameters and the first seconds, as in `builders.recorded_pendulum`."""
        times = {bag: [list(span) for span in spans] for bag, spans in TIMES.items()}
        targets = [{'target': parameter.target} for parameter in FEW]
        self.change(parameters=targets, segments={'times': times}, check=None)

    def replace_in_model(self, old: str, new: str) -> None:
        """Edit the MJCF."""
        text = (self.folder / 'arm.xml').read_text()
        assert old in text
        (self.folder / 'arm.xml').write_text(text.replace(old, new))

    def files(self) -> dict[str, bytes]:
        """Return everything in the folder."""
        paths = (path for path in self.folder.rglob('*') if path.is_file())
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in paths}


def run_process(
    *arguments: str | Path, folder: Path | None = None, env: Mapping[str, str] | None = None
) -> Outcome:
    """Run ``sysid`` in a process of its own, in a folder, with more in its environment."""
    done = subprocess.run(
        [sys.executable, '-m', 'sysid_ros.cli', *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, 'PYTHONPATH': str(REPOSITORY), **(env or {})},
        timeout=300,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)
