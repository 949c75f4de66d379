# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Files that are there whole or not at all, and the JSON objects in them."""

from __future__ import annotations

import errno
import glob
import hashlib
import io
import json
import math
import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ConfigError, ResultError, SysidError, nearest, short


def replace_file(path: Path, content: bytes) -> None:
    """Write a file under a temporary name beside its place, then rename it there.

    Raises:
        ResultError: The folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f'.{path.name}.')
        try:
            with os.fdopen(handle, 'wb') as stream:
                stream.write(content)
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as err:
        raise ResultError(f'Cannot write {str(path)!r}: {err.strerror}.') from err


def check_new(path: Path | None) -> None:
    """Refuse to write where something is.

    Raises:
        ConfigError: The path exists.
    """
    if path is not None and path.exists():
        raise ConfigError(f'{str(path)!r} exists already and may be edited; choose another name.')


#: A file that is read at once (a model, a configuration, a result) has at most so many bytes:
#: results of large fits have a tenth of it.
LARGEST_TEXT = 64 << 20


def check_file(path: Path, most: float = LARGEST_TEXT) -> None:
    """Check, before anything opens it, that a path is a file of a size that can be read.

    A device or a pipe may go on without end, or wait for somebody without end.

    Args:
        path: What a user named.
        most: Bytes that it may have; ``math.inf`` for what is read piece by piece.

    Raises:
        OSError: It is not there, no file, or too large; ``strerror`` says what.
    """
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(
            errno.EINVAL, 'expected a file, found a device, a pipe or a socket', str(path)
        )
    if found.st_size > most:
        said = f'expected at most {most / 1e6:.0f} MB, found {found.st_size / 1e6:.0f} MB'
        raise OSError(errno.EFBIG, said, str(path))


def read_bytes(path: Path) -> bytes:
    """Read a file at once; see `check_file`."""
    check_file(path)
    return path.read_bytes()


def read_text(path: Path, encoding: str = 'utf-8', errors: str = 'strict') -> str:
    """Read the text of a file at once; see `check_file`. Line breaks become those of Python."""
    check_file(path)
    return path.read_text(encoding, errors)


def beside(path: Path, otherwise: str = '') -> str:
    """Say which files of its kind are where one is not, for the end of an error message.

    Args:
        path: That file.
        otherwise: What to do where there are none at all, a clause.
    """
    folder = path.parent
    names = (
        sorted(entry.name for entry in folder.glob(f'*{path.suffix}')) if folder.is_dir() else []
    )
    if names:
        return nearest(path.name, names)
    kind = f'*{path.suffix} in' if folder.is_dir() else 'folder'
    found = f'there is no {kind} {str(folder.absolute())!r}'
    return f'{found}; {otherwise}' if otherwise else found


def files_in(path: Path) -> list[Path]:
    """Return a file, or the files of a folder by name; none where there is neither.

    A recording is one or the other.
    """
    inside = sorted(path.iterdir()) if path.is_dir() else [path]
    return [file for file in inside if file.is_file()]


def matching(pattern: str) -> list[str]:
    """Return the paths that a pattern such as ``bags/train_*`` matches, in alphabetical order.

    A path that is no pattern stands for itself, whether it is there or not.
    """
    if not any(character in pattern for character in '*?['):
        return [pattern]
    return sorted(glob.glob(pattern))  # noqa: PTH207 (the pattern may be absolute)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    check_file(path, math.inf)
    digest = hashlib.sha256()
    with path.open('rb') as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def check_writable(folder: Path) -> None:
    """Check, before any work, that a folder can be made or written to.

    Raises:
        ResultError: It cannot.
    """
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise ResultError(f'Cannot write into {str(folder)!r}: {str(existing)!r} is not a folder.')
    try:
        Path(tempfile.mkdtemp(dir=existing)).rmdir()
    except OSError as err:
        raise ResultError(
            f'Cannot write into {str(folder)!r}: {err.strerror} in {str(existing)!r}.'
        ) from err


def write_arrays(path: str | PathLike[str], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays whole or not at all; ``.npz`` is appended to a name without it.

    Raises:
        ResultError: The folder cannot be written.
    """
    path = Path(path)
    stream = io.BytesIO()
    content: dict[str, Any] = dict(arrays)
    np.savez(stream, **content)
    if not path.name.endswith('.npz'):
        path = path.with_name(f'{path.name}.npz')
    replace_file(path, stream.getvalue())


def read_object(path: Path, error: type[SysidError], what: str = 'file') -> dict[str, Any]:
    """Read a JSON file that holds one object.

    Args:
        path: The file.
        error: Raised when there is none, or it holds something else.
        what: What it is, for people.
    """
    try:
        text = read_text(path, 'utf-8-sig')
        document = json.loads(text)
        if '\\ud' in text.lower():
            # Half of a pair of surrogates could not be written again.
            json.dumps(document, ensure_ascii=False).encode()
    except FileNotFoundError as err:
        raise error(f'There is no {what} {str(path)!r}; {beside(path)}.') from err
    except OSError as err:
        raise error(f'Cannot read the {what} {str(path)!r}: {err.strerror}.') from err
    except json.JSONDecodeError as err:
        place = f'{err.msg} in line {err.lineno}, column {err.colno}'
        raise error(f'{str(path)!r} is not valid JSON: {place}.') from err
    except (ValueError, RecursionError) as err:
        # It is not UTF-8, has a number without end, or is nested without end.
        reason = str(err).partition(';')[0]
        raise error(f'{str(path)!r} is not valid JSON: {reason}.') from err
    if not isinstance(document, dict):
        raise error(f'Expected keys and values in {str(path)!r}, found {shown(document)}.')
    return document


def is_number(value: object) -> bool:
    """Tell whether a value of a file is a finite number; true and false are 1 and 0."""
    # Whole numbers may be larger than any float.
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max


def bad_value(path: Path, place: str, value: object, expected: str) -> str:
    """Return a sentence about a value that is not what it must be."""
    return f'Bad value {shown(value)} for {place!r} in {str(path)!r}: expected {expected}.'


def shown(value: object) -> str:
    """Return a value as JSON has it, cut where it is long."""
    return short(json.dumps(value))
