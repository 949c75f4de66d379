# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where the packages are that a URDF or xacro refers to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from sysid_ros.files import read_text


def find_package(name: str, near: Path, given: Sequence[Path]) -> Path | None:
    """Find the folder of a package; None where there is none.

    Folders that are given or in ``ROS_PACKAGE_PATH``, and those inside of them, win. Then come
    folders around the file that names it, and ``share`` of each folder in ``AMENT_PREFIX_PATH``.
    """
    return next((folder for folder in _candidates(name, near, given) if folder.is_dir()), None)


def _candidates(name: str, near: Path, given: Sequence[Path]) -> Iterator[Path]:
    for folder in (*given, *_listed('ROS_PACKAGE_PATH')):
        yield from _called(name, folder)
        # A workspace has repositories, and these packages, which may have another name than theirs.
        for depth in ('*', '*/*'):
            for manifest in sorted(folder.glob(f'{depth}/package.xml')):
                yield from _called(name, manifest.parent)
        yield folder / name
    for folder in (near.resolve(), *near.resolve().parents):
        yield from _called(name, folder)
        # Packages of a workspace are side by side.
        if (folder / name / 'package.xml').is_file():
            yield folder / name
    for prefix in _listed('AMENT_PREFIX_PATH'):
        yield prefix / 'share' / name


def _called(name: str, folder: Path) -> Iterator[Path]:
    """Yield a folder that is called so, or whose manifest says that its package is."""
    manifest = folder / 'package.xml'
    if folder.resolve().name == name or (
        manifest.is_file() and f'<name>{name}</name>' in read_text(manifest, errors='replace')
    ):
        yield folder


def _listed(variable: str) -> list[Path]:
    return [Path(entry) for entry in os.environ.get(variable, '').split(os.pathsep) if entry]
