# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Files that a URDF refers to: ``package://NAME/…``, as ROS finds it, and paths."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote
from xml.sax.saxutils import quoteattr

import mujoco

#: What MuJoCo reads.
_FORMATS = ('.stl', '.obj', '.msh')


def find_package(name: str, near: Path, given: Sequence[Path]) -> Path | None:
    """Find a package.

    Args:
        name: Its name.
        near: Folder of the file that names it: often inside of the package.
        given: Folders of packages, or that hold such folders; they win.

    Returns:
        Its folder: one of the given, one around the file, or in ``ROS_PACKAGE_PATH`` or the ament
        index (``share`` of each folder in ``AMENT_PREFIX_PATH``); None where it is in none.
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
        manifest.is_file() and f'<name>{name}</name>' in manifest.read_text('utf-8', 'replace')
    ):
        yield folder


def _listed(variable: str) -> list[Path]:
    return [Path(entry) for entry in os.environ.get(variable, '').split(os.pathsep) if entry]


def find_mesh(uri: str, near: Path, given: Sequence[Path]) -> Path | str:
    """Find the file of a mesh; a sentence's part that says why not where it is of no use.

    Args:
        uri: As the URDF has it: ``package://``, ``file://``, or a path relative to the URDF.
        near: Folder of the URDF.
        given: See `find_package`.
    """
    scheme, separator, rest = uri.partition('://')
    if not separator:
        path = near / uri
    elif scheme in {'package', 'model'}:
        package, _, inside = unquote(rest).partition('/')
        folder = find_package(package, near, given)
        if folder is None:
            return f'no package {package!r}'
        path = folder / inside
    else:
        path = Path(unquote(rest))
    if not path.is_file():
        return 'no such file'
    if path.suffix.lower() not in _FORMATS:
        return f'MuJoCo reads {", ".join(_FORMATS)}'
    path = path.resolve()
    return 'MuJoCo refuses it' if not _readable(path, path.stat().st_mtime_ns) else path


@functools.cache
def _readable(path: Path, _changed_ns: int) -> bool:
    """Whether MuJoCo compiles a mesh: one bad file must not cost the model."""
    asset = f'<mesh name="mesh" file={quoteattr(str(path))} inertia="shell"/>'
    try:
        mujoco.MjModel.from_xml_string(f'<mujoco><asset>{asset}</asset></mujoco>')
    except ValueError:
        return False
    return True
