# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Results on disk: a dated folder for each, which never changes, and links to those that count.

::

    output/2026-11-25T23-47-29Z/    result.json, report.html, mjcf/, servos/
    output/2026-11-26T07-12-03Z/
    output/current                  a link to the last accepted one
    output/rejected                 a link to the last rejected one

A folder is filled under a hidden name, comes to be on disk, and gets its own name; then its link is
switched. A process that is killed at any moment leaves the links where they were or where they
should be, each to a folder that is whole, and perhaps a hidden folder, which the next one removes.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import itertools
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sysid_ros.errors import ResultError, nearest
from sysid_ros.files import sha256
from sysid_ros.results.result import (
    CURRENT,
    REJECTED,
    RESULT,
    CalibrationResult,
    FileHash,
    Provenance,
)

#: Who writes holds this file's lock, which ends with the process; the others wait.
_LOCK = '.lock'
#: What only who holds the lock has: a folder, and a link, that do not have their names yet.
_DRAFT, _LINK = '.new', '.link'
#: Time in UTC, to the second, in an order that is that of the names; colons are not for all disks.
_NAME = '%Y-%m-%dT%H-%M-%SZ'
_PATTERN = re.compile(r'(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ)(?:-(\d+))?')


@dataclass(frozen=True)
class Stored:
    """A result in its dated folder, and whether it is the one in use."""

    folder: Path
    current: bool

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.folder.name

    def load(self) -> CalibrationResult:
        """Read the result."""
        return CalibrationResult.load(self.folder / RESULT)


class Draft:
    """A ``folder`` that is being filled; without :meth:`keep` nothing remains of it."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self.folder = output / _DRAFT

    def keep(self, *, accepted: bool) -> Path:
        """Give the folder its name, switch the link, and return the folder.

        Results of one second are numbered.
        """
        for place, _, files in os.walk(self.folder):
            for path in (*files, ''):
                _flush(Path(place) / path)
        name = dt.datetime.now(dt.UTC).strftime(_NAME)
        numbered = (f'{name}-{number}' for number in itertools.count(2))
        names = (self._output / each for each in itertools.chain([name], numbered))
        kept = next(folder for folder in names if not os.path.lexists(folder))
        self.folder.rename(kept)
        _flush(self._output)
        _switch(self._output, CURRENT if accepted else REJECTED, kept.name)
        return kept


@contextlib.contextmanager
def draft(output: Path) -> Iterator[Draft]:
    """Begin a folder for a new result; another process that writes into the output is awaited."""
    with _writing(output):
        begun = Draft(output)
        begun.folder.mkdir()
        try:
            yield begun
        finally:
            shutil.rmtree(begun.folder, ignore_errors=True)


def find(place: Path) -> Path:
    """Return the ``result.json`` that a path means; it may not exist.

    It is the file itself, that in a folder, or the current one in a folder of results.
    """
    if not place.is_dir():
        return place
    return (linked(place) or place) / RESULT


def linked(output: Path, link: str = CURRENT) -> Path | None:
    """Return the folder that a link leads to; None where there is none."""
    return named(output / link) if (output / link).is_dir() else None


def named(folder: Path) -> Path:
    """Return a folder by the name that it keeps: where it is a link, what that leads to."""
    return folder.parent / folder.readlink() if folder.is_symlink() else folder


def history(output: Path) -> tuple[Stored, ...]:
    """Return the results in a folder, at least one, in order of time."""
    folders = [entry.parent for entry in output.glob(f'*/{RESULT}')]
    dated = [
        (found[1], int(found[2] or 1), folder)
        for folder in folders
        if (found := _PATTERN.fullmatch(folder.name))
    ]
    if not dated:
        what = 'found none' if output.is_dir() else 'there is no such folder'
        raise ResultError(
            f'Expected folders such as 2026-11-25T23-47-29Z in {str(output)!r}, {what}.'
        )
    current = linked(output)
    return tuple(Stored(folder, folder == current) for *_, folder in sorted(dated))


def use_again(output: Path, name: str) -> tuple[Stored, Stored]:
    """Make an earlier accepted result current; return the one that was, and the one that is now."""
    stored = {entry.name: entry for entry in history(output)}
    before = next((entry for entry in stored.values() if entry.current), None)
    if before is None:
        raise ResultError(
            f'Expected a current result in {str(output)!r} to go back from, found none.'
        )
    if name not in stored:
        raise ResultError(
            f'There is no result {name!r} in {str(output)!r}; {nearest(name, reversed(stored))}.'
        )
    result = stored[name].load()
    if not result.accepted:
        reason = result.acceptance.rstrip('.')
        raise ResultError(
            f'Expected an accepted result to go back to, but {name} was rejected: {reason}.'
        )
    with _writing(output):
        _switch(output, CURRENT, name)
    return before, Stored(stored[name].folder, current=True)


def prune(output: Path, keep: int) -> tuple[str, ...]:
    """Remove the oldest results but ``keep``, never those in use, and return their names."""
    with _writing(output):
        linked_to = {linked(output, link) for link in (CURRENT, REJECTED)}
        stored = [entry.folder for entry in history(output)]
        others = [folder for folder in stored if folder not in linked_to]
        removed = others[: max(0, len(stored) - keep)]
        for folder in removed:
            # Under the name of what is not whole, so that no half of a result is left in sight.
            folder.rename(output / _DRAFT)
            shutil.rmtree(output / _DRAFT)
    return tuple(folder.name for folder in removed)


@contextlib.contextmanager
def _writing(output: Path) -> Iterator[None]:
    """Be the only one who writes into an output, and remove what a killed one left there."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        with (output / _LOCK).open('w') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                if (output / _DRAFT).exists():
                    shutil.rmtree(output / _DRAFT)
                (output / _LINK).unlink(missing_ok=True)
                yield
            finally:
                # Not by closing it: a process that was forked meanwhile has it open, too.
                fcntl.flock(lock, fcntl.LOCK_UN)
    except OSError as err:
        raise ResultError(f'Cannot write into {str(output)!r}: {err.strerror or err}.') from err


def _switch(output: Path, link: str, name: str) -> None:
    """Let a link lead to a folder from now on."""
    (output / _LINK).symlink_to(name)
    (output / _LINK).replace(output / link)
    _flush(output)


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(frozen=True)
class Memory:
    """An earlier result that a fit continues, and the file that it is in."""

    path: Path
    result: CalibrationResult

    @property
    def place(self) -> str:
        """The folder that it is in; the file, where that has another name than usual."""
        return str(self.path.parent if self.path.name == RESULT else self.path)

    @property
    def trained(self) -> tuple[FileHash, ...]:
        """Every file that it, or what it continued, learned from."""
        return tuple(f for f in self.result.provenance.files if f.role in {'train', 'memory'})

    def provenance(self, own: Provenance) -> Provenance:
        """Return where a result comes from, given what it was made from itself."""
        before = [file.model_copy(update={'role': 'memory'}) for file in self.trained]
        previous = FileHash(path=str(self.path), role='previous', sha256=sha256(self.path))
        return own.model_copy(update={'files': (*own.files, previous, *before)})
