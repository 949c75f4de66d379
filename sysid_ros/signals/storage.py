# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Arrays on disk, in the form of MuJoCo's sysid toolbox: ``.npz`` without pickle."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import SignalError, nearest
from sysid_ros.files import replace_file
from sysid_ros.signals.mapping import SignalMapping, decode_signal_mapping

_SUFFIX = '.npz'


def stored_mapping(arrays: Mapping[str, NDArray[Any]], prefix: str = '') -> SignalMapping:
    """Read the mapping of a stored series; it is empty where the file has none.

    Raises:
        SignalError: It is malformed.
    """
    encoded = arrays.get(f'{prefix}signal_mapping')
    return {} if encoded is None else decode_signal_mapping(str(encoded))


def write_arrays(path: str | PathLike[str], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays whole or not at all; ``.npz`` is appended to a name without it.

    Raises:
        ResultError: The folder cannot be written.
    """
    path = Path(path)
    stream = io.BytesIO()
    content: dict[str, Any] = dict(arrays)
    np.savez(stream, **content)
    replace_file(_with_suffix(path), stream.getvalue())


def read_arrays(path: str | PathLike[str], needed: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Read the arrays of a file, without unpickling anything.

    Args:
        path: The file; as in ``write_arrays``, its suffix may be left out.
        needed: Names that have to be there.

    Raises:
        SignalError: There is no such file, it is not of this kind, or an array is missing.
    """
    path = Path(path)
    if not path.is_file():
        path = _with_suffix(path)
    if not path.is_file():
        siblings = sorted(entry.name for entry in path.parent.glob(f'*{_SUFFIX}'))
        raise SignalError(f'No file {str(path)!r}; {nearest(path.name, siblings)}.')
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, AttributeError, EOFError, zipfile.BadZipFile) as err:
        raise SignalError(
            f'Expected a {_SUFFIX} file of numeric arrays, found something else in {str(path)!r}.'
        ) from err
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise SignalError(
            f'Expected {", ".join(missing)} in {str(path)!r}, found {", ".join(arrays) or "none"}.'
        )
    return arrays


def _with_suffix(path: Path) -> Path:
    return path if path.name.endswith(_SUFFIX) else path.with_name(path.name + _SUFFIX)
