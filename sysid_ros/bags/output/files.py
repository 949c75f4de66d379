# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the storage files of a bag have in common."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from sysid_ros.bags.output.topics import Topic

#: Name of the MCAP metadata record and of the SQLite table that hold the session's facts.
FACTS = 'sysid_ros'
#: Kept free on the disk while a bag is written, bytes: what closing it takes when it is full.
_RESERVE = 2 << 20
#: The reserve is at most this part of what is free.
_RESERVE_PART = 4


@dataclass
class Extent:
    """What is in a file, as far as it was handed to the operating system.

    Attributes:
        counts: Messages by number of the topic.
        start_ns: Earliest receive stamp, ns; None without messages.
        end_ns: Latest receive stamp, ns; None without messages.
    """

    counts: dict[int, int] = field(default_factory=dict)
    start_ns: int | None = None
    end_ns: int | None = None

    @property
    def messages(self) -> int:
        """Messages of all topics."""
        return sum(self.counts.values())

    def add(self, number: int, stamps: Iterable[int]) -> None:
        """Count messages of one topic by their receive stamps, ns."""
        stamps = tuple(stamps)
        self.counts[number] = self.counts.get(number, 0) + len(stamps)
        if stamps:
            first, last = min(stamps), max(stamps)
            self.start_ns = first if self.start_ns is None else min(self.start_ns, first)
            self.end_ns = last if self.end_ns is None else max(self.end_ns, last)


class StorageFile(Protocol):
    """One file of a bag while it is written, by one thread at a time.

    Messages wait in memory until :meth:`flush`, which puts all of them into the file or none:
    a file never ends in the middle of something. Methods raise OSError or sqlite3.Error.
    """

    path: Path
    extent: Extent

    @property
    def size(self) -> int:
        """Bytes in the file and waiting for it."""

    def add_topic(self, topic: Topic) -> None:
        """Announce a topic."""

    def set_facts(self, facts: Mapping[str, str]) -> None:
        """Put facts in with the next flush; values replace earlier ones of the same keys."""

    def write(self, number: int, receive_ns: int, cdr: bytes | memoryview) -> None:
        """Take one message; it is flushed when enough are waiting."""

    def flush(self) -> None:
        """Hand what waits to the operating system: it survives the end of the process."""

    def discard(self) -> None:
        """Forget what waits."""

    def sync(self) -> None:
        """Wait until what was flushed is on the disk; any thread may call this."""

    def close(self, information: str) -> None:
        """Finish the file with rosbag2's metadata of it, in YAML."""

    def abort(self) -> None:
        """Let go of the file as it is."""


class Reserve:
    """Space on a disk that is held until it is needed; it has no name and ends with the process."""

    def __init__(self, folder: Path) -> None:
        """Take the space, or none where the disk does not give any."""
        self._file: IO[bytes] | None = None
        # Without a reserve a bag is as good, until the disk is full.
        with suppress(OSError):
            size = min(_RESERVE, shutil.disk_usage(folder).free // _RESERVE_PART)
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (held)
            try:
                if hasattr(os, 'posix_fallocate'):
                    os.posix_fallocate(self._file.fileno(), 0, max(size, 1))
                else:
                    self._file.write(bytes(size))
                    self._file.flush()
            except OSError:
                self.release()

    def release(self) -> None:
        """Give the space back; a second call does nothing."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


def sync_file(descriptor: int) -> None:
    """Wait until the content of a file is on the disk."""
    # macOS has fsync only.
    getattr(os, 'fdatasync', os.fsync)(descriptor)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where folders can be opened."""
    if os.name != 'posix':
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
