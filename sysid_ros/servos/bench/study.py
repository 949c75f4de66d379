# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Studies of Optuna in a file that processes share.

The file is Optuna's journal, which its dashboard shows as well: with 15 coefficients, a trial costs
3 ms there and 60 ms in SQLite. As everywhere in Optuna, the state of CMA-ES in it is a pickle: go
on with studies of your own only.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import importlib
import os
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from sysid_ros.errors import ConfigError, ResultError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Method = Literal['cmaes', 'random', 'nsgaii']
METHODS: tuple[Method, ...] = get_args(Method)

#: So many studies are named where the one that was asked for is not there.
_HINTS = 5
#: Every line of a journal begins so.
_HEAD = b'{"op_code":'
#: So many bytes at a time are searched for the last whole line.
_BLOCK = 4096


class StudyFile(NamedTuple):
    """A study in a file.

    Attributes:
        path: The file; it may hold several.
        name: Of the study.
    """

    path: Path
    name: str


def import_optuna(method: str) -> Any:
    """Return Optuna, which is an extra.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        optuna = importlib.import_module('optuna')
        importlib.import_module('cmaes')
    except ImportError as err:
        msg = (
            f'Expected the Python packages optuna and cmaes for the method {method}, found no '
            f"{err.name}; get them with `pip install 'sysid_ros[servo]'`, or choose least-squares."
        )
        raise ConfigError(msg) from err
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def new_study(path: Path, method: Method, about: Mapping[str, str]) -> StudyFile:
    """Begin a study, named after the time as in BAM.

    Args:
        path: The file, which may hold others.
        method: Of its trials.
        about: What they are of, by name.

    Raises:
        ConfigError: Optuna is not installed.
        ResultError: The file cannot be written, or is none of studies.
    """
    optuna = import_optuna(method)
    _make_file(path)
    storage = storage_of(optuna, path)
    stem = name = f'study_{dt.datetime.now().astimezone():%Y%m%d_%H%M%S}'
    known = optuna.get_all_study_names(storage)
    number = 1
    while name in known:
        number += 1
        name = f'{stem}_{number}'
    study = optuna.create_study(storage=storage, study_name=name)
    for key, text in about.items():
        study.set_user_attr(key, text)
    return StudyFile(path, name)


def loaded_study(path: Path, name: str, method: Method, about: Mapping[str, str]) -> StudyFile:
    """Go on with a study.

    Args:
        path: The file.
        name: Of the study.
        method: Of further trials.
        about: What they will be of; the same as the study's.

    Raises:
        ConfigError: Optuna is not installed.
        ResultError: There is no such study, or it is about something else.
    """
    optuna = import_optuna(method)
    storage = storage_of(optuna, path) if path.is_file() else None
    known = optuna.get_all_study_names(storage) if storage is not None else []
    if name not in known:
        msg = f'There is no study {name!r} in {str(path)!r}; {nearest(name, known, _HINTS)}.'
        raise ResultError(msg)
    attributes = optuna.load_study(study_name=name, storage=storage).user_attrs
    for key, text in about.items():
        if attributes.get(key, text) != text:
            msg = (
                f'Expected the study {name!r} to be about the {key} {text}, found '
                f'{attributes[key]}: begin a new one.'
            )
            raise ResultError(msg)
    return StudyFile(path, name)


class _Lock:
    """Keeps other processes from writing; the system releases it when its process is killed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = -1

    def acquire(self) -> bool:
        """Wait for it."""
        self._handle = os.open(self._path, os.O_RDWR)
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        return True

    def release(self) -> None:
        """Let others write."""
        os.close(self._handle)


def _make_file(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError as err:
        msg = f'Cannot write {str(path)!r}: {err.strerror}.'
        raise ResultError(msg) from err


def storage_of(optuna: Any, path: Path) -> Any:
    """Open a file of studies.

    Raises:
        ResultError: It is none.
    """
    journal = importlib.import_module('optuna.storages.journal')
    lock = _Lock(path)
    try:
        lock.acquire()
        try:
            _mend(path)
        finally:
            lock.release()
        return optuna.storages.JournalStorage(journal.JournalFileBackend(str(path), lock_obj=lock))
    except (OSError, ValueError, KeyError, TypeError) as err:
        msg = f'Cannot read studies from {str(path)!r}: {" ".join(str(err).split())}.'
        raise ResultError(msg) from err


def _mend(path: Path) -> None:
    """Cut off a line that a process was writing when it was killed.

    Raises:
        ValueError: The file holds something else.
    """
    with path.open('rb+') as stream:
        head = stream.read(len(_HEAD))
        if head not in {b'', _HEAD}:
            msg = f'expected a line that begins with {_HEAD.decode()}, found {head!r}'
            raise ValueError(msg)
        size = stream.seek(0, os.SEEK_END)
        end = size
        while end > 0:
            first = max(end - _BLOCK, 0)
            stream.seek(first)
            found = stream.read(end - first).rfind(b'\n')
            if found >= 0:
                end = first + found + 1
                break
            end = first
        if end < size:
            stream.truncate(end)
