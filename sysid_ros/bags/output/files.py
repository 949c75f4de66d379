# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the storage files of a bag have in common: topics, extents, and how they reach the disk."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, NamedTuple, Protocol

from rosbags.interfaces import (
    Qos,
    QosDurability,
    QosHistory,
    QosLiveliness,
    QosReliability,
    QosTime,
)
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.base import TypesysError

from sysid_ros.errors import BagError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from rosbags.typesys.store import Typestore

#: How ROS writes "no limit" into a QoS profile.
_FOREVER = QosTime(9_223_372_036, 854_775_807)
#: How rosbag2 names the languages of message definitions.
ENCODINGS = ('ros2msg', 'ros2idl')
#: Name of the MCAP metadata record and of the SQLite table that hold the session's facts.
FACTS = 'sysid_ros'
#: Kept free on the disk while a bag is written, bytes: what closing it takes when it is full.
_RESERVE = 2 << 20
#: The reserve is at most this part of what is free.
_RESERVE_PART = 4


class TopicQos(NamedTuple):
    """What players need to know about how a topic was offered."""

    reliable: bool = True
    transient_local: bool = False
    depth: int = 10

    def profile(self) -> Qos:
        """Return the full profile, as bags hold it."""
        return Qos(
            history=QosHistory.KEEP_LAST,
            depth=self.depth,
            reliability=QosReliability.RELIABLE if self.reliable else QosReliability.BEST_EFFORT,
            durability=(
                QosDurability.TRANSIENT_LOCAL if self.transient_local else QosDurability.VOLATILE
            ),
            deadline=_FOREVER,
            lifespan=_FOREVER,
            liveliness=QosLiveliness.AUTOMATIC,
            liveliness_lease_duration=_FOREVER,
            avoid_ros_namespace_conventions=False,
        )


class Definition(NamedTuple):
    """A message type, so that it is read without its package.

    Attributes:
        msgtype: Name of the type, as ``sensor_msgs/msg/JointState``.
        text: Its definition and those of all types inside it, as rosbag2 joins them.
        encoding: Language of the text, ``ros2msg`` or ``ros2idl``.
        digest: REP-2011's hash of the type; empty where the text does not give it.
    """

    msgtype: str
    text: str
    encoding: str
    digest: str


class Topic(NamedTuple):
    """A topic in a bag; its number is the same in all files of the bag."""

    number: int
    name: str
    definition: Definition
    qos: TopicQos


@functools.lru_cache(maxsize=1)
def known_types() -> Typestore:
    """Return the message definitions of ROS 2 Jazzy's common interfaces."""
    return get_typestore(Stores.ROS2_JAZZY)


def define(
    topic: str, msgtype: str, text: str | None = None, encoding: str = 'ros2msg'
) -> Definition:
    """Return the definition of a topic's message type.

    Args:
        topic: Name of the topic, for the error.
        msgtype: Name of the type.
        text: Its definition, where it is not one of the common interfaces.
        encoding: Language of the text.

    Raises:
        BagError: There is no definition, or its language is none that bags hold.
    """
    if encoding not in ENCODINGS:
        msg = (
            f'Topic {topic!r} cannot be recorded: expected a message definition in '
            f'{" or ".join(ENCODINGS)}, found {encoding!r}.'
        )
        raise BagError(msg)
    if text is not None:
        return Definition(msgtype, text, encoding, _digest(msgtype, text, encoding))
    types = known_types()
    if msgtype not in types.fielddefs:
        msg = (
            f'Topic {topic!r} cannot be recorded: no definition of message type {msgtype!r}; '
            f'{nearest(msgtype, types.fielddefs)}.'
        )
        raise BagError(msg)
    generated, _ = types.generate_msgdef(msgtype, ros_version=2)
    return Definition(msgtype, generated, 'ros2msg', types.hash_rihs01(msgtype))


def _digest(msgtype: str, text: str, encoding: str) -> str:
    """Return the hash of a type, or nothing where its text is in IDL or not complete."""
    if encoding != 'ros2msg':
        return ''
    types = get_typestore(Stores.EMPTY)
    try:
        types.register(get_types_from_msg(text, msgtype))
        return types.hash_rihs01(msgtype)
    except (TypesysError, KeyError):
        return ''


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

    def write(
        self, number: int, receive_ns: int, cdr: bytes | memoryview, sent_ns: int = 0
    ) -> None:
        """Take one message; it is flushed when enough are waiting.

        When it was sent, 0 where that is not known, is kept where the format has room for it.
        """

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
