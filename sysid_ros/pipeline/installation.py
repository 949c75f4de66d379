# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is installed here, whether it is new enough, and what to type for what is missing."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packaging.requirements import Requirement

from sysid_ros.errors import ResultError
from sysid_ros.files import check_writable
from sysid_ros.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKAGE = 'sysid_ros'
#: What each extra is for, those that developers need left out.
_EXTRAS = {
    'ros': 'nodes, without ROS from apt',
    'viewer': 'films of a fit',
    'parquet': 'Parquet files and LeRobot datasets',
    'xacro': 'xacro files as models',
    'servo': 'fitting servos by trials',
    'fleet': 'sysid fleet',
    'wandb': 'watching such trials from elsewhere',
}
#: Packages of which the version is worth a line.
_SHOWN = ('mujoco-core', 'numpy', 'scipy', 'rosbags', 'mcap', 'pydantic', 'rich', 'matplotlib')
#: A platform that draws nothing by then draws nothing, s.
_DRAWS_S = 20.0
_DRAW = """
from sysid_ros.report.rendering import gl_context
with gl_context(16, 16):
    print("drawn")
"""


class State(StrEnum):
    """Whether something is as it has to be."""

    OK = 'ok'
    OPTIONAL = 'optional'
    MISSING = 'missing'


class Check(NamedTuple):
    """One thing that was looked at.

    Attributes:
        subject: What it is.
        state: Whether it is as it has to be; ``optional`` is missing, and needed for some only.
        found: What was found.
        remedy: What to do; empty where all is well.
    """

    subject: str
    state: State
    found: str
    remedy: str = ''


def check_installation(folder: Path) -> Iterator[Check]:
    """Yield what was found, one after the other; nothing waits for long.

    Args:
        folder: Where results would be written.
    """
    needed = _requirements()
    yield _python()
    own = [item for item in needed if _is_of(item, '')]
    for item in own:
        check = _package(item)
        if check.state is not State.OK or item.name in _SHOWN:
            yield check
    for extra, purpose in _EXTRAS.items():
        more = [item for item in needed if item not in own and _is_of(item, extra)]
        if more:
            lacking = [item.name for item in more if _package(item).state is not State.OK]
            yield _extra(extra, purpose, lacking)
    yield _rendering()
    yield _command()
    try:
        check_writable(folder)
        yield Check('folder', State.OK, f'{folder.absolute()} can be written')
    except ResultError as err:
        yield Check('folder', State.MISSING, str(err), 'change to a folder of your own')


def _requirements() -> list[Requirement]:
    """Return what this installation says that it needs; nothing where it was not installed."""
    try:
        return [Requirement(line) for line in metadata.requires(_PACKAGE) or []]
    except metadata.PackageNotFoundError:
        return []


def _is_of(item: Requirement, extra: str) -> bool:
    """Whether a package is needed with an extra, of which the empty one is none, on this Python."""
    return item.marker is None or item.marker.evaluate({'extra': extra})


def _python() -> Check:
    found = platform.python_version()
    new_enough = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return Check(
        'Python',
        State.OK if new_enough else State.MISSING,
        f'{found} ({sys.executable}), {_PACKAGE} {__version__}',
        '' if new_enough else 'Python 3.11 to 3.13: python3.12 -m venv .venv, and install again',
    )


def _package(item: Requirement) -> Check:
    asked = f"pip install '{item.name}{item.specifier}'"
    try:
        found = metadata.version(item.name)
    except metadata.PackageNotFoundError:
        return Check(item.name, State.MISSING, 'not installed', asked)
    if not item.specifier.contains(found, prereleases=True):
        return Check(item.name, State.MISSING, f'{found}, expected {item.specifier}', asked)
    return Check(item.name, State.OK, found)


def _extra(extra: str, purpose: str, lacking: list[str]) -> Check:
    if not lacking:
        return Check(f'extra {extra}', State.OK, purpose)
    remedy = f"pip install '{_PACKAGE}[{extra}]', from a clone pip install '.[{extra}]'"
    return Check(
        f'extra {extra}', State.OPTIONAL, f'for {purpose}; without {", ".join(lacking)}', remedy
    )


def _rendering() -> Check:
    """Draw on each platform in a process of its own: some drivers end the process that asks."""
    asked = os.environ.get('MUJOCO_GL', '')
    reason = ''
    for name in (asked,) if asked else ('egl', 'osmesa'):
        try:
            done = subprocess.run(
                [sys.executable, '-c', _DRAW],
                env={**os.environ, 'MUJOCO_GL': name},
                capture_output=True,
                text=True,
                timeout=_DRAWS_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            reason = f'{name} does not answer'
            continue
        if done.stdout.strip() == 'drawn':
            return Check('rendering', State.OK, f'{name.upper()} draws without a display')
        reason = done.stderr.strip().rpartition('\n')[2] or f'{name} ended'
    return Check(
        'rendering',
        State.OPTIONAL,
        f'for films only; {reason.rpartition("Error: ")[2]}',
        "pip install 'sysid_ros[viewer]' and apt install libegl1 libgl1, or libosmesa6",
    )


def _command() -> Check:
    found = shutil.which('sysid')
    here = Path(sys.executable).parent / 'sysid'
    if found is None:
        remedy = (
            f'. {here.with_name("activate")}'
            if here.exists()
            else 'python -m sysid_ros.cli instead'
        )
        return Check('command sysid', State.OPTIONAL, 'not on the PATH', remedy)
    if here.exists() and Path(found).resolve() != here.resolve():
        remedy = f'. {here.with_name("activate")}, or type {here}'
        return Check('command sysid', State.OPTIONAL, f'{found} is of another Python', remedy)
    return Check('command sysid', State.OK, found)
