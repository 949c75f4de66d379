# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a model's path stands for: MJCF, URDF, xacro, or the description in a recording."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sysid_ros.errors import ModelError, nearest
from sysid_ros.files import sha256
from sysid_ros.model.mjcf.text import Document, decode
from sysid_ros.model.urdf.convert import convert, find_package

_URDF, _XACRO, _MJCF = '.urdf', '.xacro', '.xml'
_BAGS = ('.mcap', '.db3', '.bag', '.zstd')
#: Where robots say what they are.
_TOPIC = '*/robot_description'


class Description(NamedTuple):
    """The texts of a model."""

    path: Path  # what was read
    mjcf: str | None = None  # what is simulated; None where the path is an MJCF file itself
    urdf: str | None = None  # what that was made from; None where there is none
    notes: tuple[str, ...] = ()  # what a reader has to know, a sentence each

    @property
    def name(self) -> str:
        """How the MJCF is called."""
        name = self.path.name
        if self.mjcf is None:
            return name
        if _is_bag(self.path):
            return 'robot_description.xml'
        return name.removesuffix(_XACRO).removesuffix(_URDF).removesuffix(_MJCF) + _MJCF

    @property
    def sha256(self) -> str:
        """Of the file, or of the description in a recording."""
        if _is_bag(self.path):
            return hashlib.sha256((self.urdf or self.mjcf or '').encode()).hexdigest()
        return sha256(self.path)


def read_description(path: Path, packages: Sequence[Path] = ()) -> Description:
    """Read what a path says about a robot.

    Args:
        path: An MJCF file, a URDF, a xacro file, or a bag with a ``robot_description``.
        packages: Folders of packages that a URDF or xacro may refer to, or that hold such folders.

    Raises:
        ModelError: There is no such file, or it cannot be converted.
        BagError: It is a bag that cannot be read.
    """
    if _is_bag(path):
        return _converted(_in_bag(path), path, packages)
    if not path.is_file():
        ends = (_MJCF, _URDF, _XACRO)
        near = [entry.name for entry in path.parent.glob('*') if entry.suffix in ends]
        raise ModelError(f'No model file {str(path)!r}; {nearest(path.name, sorted(near))}.')
    if path.suffix == _XACRO:
        found = _converted(_expanded(path, packages), path, packages)
        note = 'The URDF is what xacro makes of its file without arguments.'
        return found._replace(notes=(note, *found.notes))
    try:
        text = decode(path.read_bytes())
    except OSError as err:
        raise ModelError(f'Cannot read the model {str(path)!r}: {err.strerror}.') from err
    is_urdf = path.suffix == _URDF or '<robot' in text
    return _converted(text, path, packages) if is_urdf else Description(path)


def _is_bag(path: Path) -> bool:
    return path.is_dir() or path.suffix in _BAGS


def _converted(text: str, path: Path, packages: Sequence[Path]) -> Description:
    elements = Document(text).elements
    if elements and elements[0].tag == 'mujoco':
        # The simulated robot describes itself so, and as a file MuJoCo reads it best itself.
        in_file = path.is_file() and path.suffix in {_MJCF, _URDF}
        return Description(path, None if in_file else text)
    found = convert(text, path, packages)
    return Description(path, found.mjcf, text, found.notes)


def _in_bag(path: Path) -> str:
    """Return the description in a recording."""
    from sysid_ros.bags import read_bag  # noqa: PLC0415 (who has a model's file waits for no reader)

    bag = read_bag(path, [_TOPIC])
    noted = bag.facts.get('robot_description')
    # Who records may note what a latched topic says without recording it.
    texts = dict(bag.texts) or ({'noted by the recorder': noted} if noted else {})
    if len(set(texts.values())) > 1:
        raise ModelError(
            f'Expected one robot_description in {str(path)!r}, found {", ".join(texts)}; save the '
            'one you mean as a file and name it as the model.'
        )
    if not texts:
        raise ModelError(
            f'Expected a robot_description in {str(path)!r}, found none; name a model file.'
        )
    return next(iter(texts.values()))


def _expanded(path: Path, packages: Sequence[Path]) -> str:
    """Let xacro make a URDF."""
    by_hand = f'`xacro {path.name} > {path.name.removesuffix(_XACRO)}`'
    try:
        import xacro  # noqa: PLC0415 (optional)
        from xacro import substitution_args  # noqa: PLC0415
    except ImportError as err:
        raise ModelError(
            f'Cannot read {str(path)!r} without the Python package xacro; `pip install xacro`, or '
            f'make the URDF with {by_hand} and name that as the model.'
        ) from err
    by_ament = substitution_args._eval_find  # noqa: SLF001 (it has no hook for other places)
    absent = []

    def find(package: str) -> str:
        folder = find_package(package, path.parent, packages)
        if folder is None:
            absent.append(package)
            raise LookupError(package)
        return str(folder.resolve())

    substitution_args._eval_find = find  # noqa: SLF001
    substitution_args._eval_dict['find'] = find  # noqa: SLF001
    try:
        text: str = xacro.process_file(str(path)).toprettyxml(indent='  ')
    except Exception as err:
        # Whatever the expressions of the file raise.
        if absent:
            raise ModelError(
                f'Cannot find the ROS package {absent[0]!r} for {str(path)!r}; name its folder '
                'with --package-path, or package_path in calibration.yaml.'
            ) from err
        reason = ' '.join(str(err).split()).rstrip('.') or type(err).__name__
        raise ModelError(
            f'xacro refuses {str(path)!r}: {reason}; where it needs arguments, make the URDF with '
            f'{by_hand.replace(" >", " NAME:=VALUE >")}.'
        ) from err
    finally:
        substitution_args._eval_find = by_ament  # noqa: SLF001
        substitution_args._eval_dict['find'] = by_ament  # noqa: SLF001
    return text
