# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Writing a bag that survives its writer."""

from __future__ import annotations

import functools
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from rosbags.interfaces import (
    Qos,
    QosDurability,
    QosHistory,
    QosLiveliness,
    QosReliability,
    QosTime,
)
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.rosbag2.errors import WriterError
from rosbags.rosbag2.storage_mcap import McapWriter
from rosbags.rosbag2.storage_sqlite3 import Sqlite3Writer
from rosbags.typesys import Stores, get_typestore

from sysid_ros.config import Storage
from sysid_ros.errors import BagError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

    from rosbags.interfaces import Connection
    from rosbags.typesys.store import Typestore
    from typing_extensions import Self

_PLUGINS = {'mcap': StoragePlugin.MCAP, 'sqlite3': StoragePlugin.SQLITE3}
_VERSION: Literal[9] = 9
#: How ROS writes "no limit" into a QoS profile.
_FOREVER = QosTime(9_223_372_036, 854_775_807)


class TopicQos(NamedTuple):
    """What players need to know about how a topic was offered."""

    reliable: bool = True
    transient_local: bool = False
    depth: int = 10


@functools.lru_cache(maxsize=1)
def known_types() -> Typestore:
    """Return the message definitions of ROS 2 Jazzy's common interfaces."""
    return get_typestore(Stores.ROS2_JAZZY)


class BagWriter:
    """A new bag.

    The folder appears with the first topic, under its final name. One thread at a time may use
    the writer. Leaving the context closes the bag even after an exception: what was written until
    then is a valid bag.
    """

    def __init__(self, path: Path, storage: Storage = 'mcap') -> None:
        """Check the arguments; nothing is created yet.

        Raises:
            BagError: The path exists already, or the storage is unknown.
        """
        if storage not in _PLUGINS:
            known = get_args(Storage)
            msg = f'Expected storage {" or ".join(known)}, found {storage!r}.'
            raise BagError(msg)
        if path.exists() or path.is_symlink():
            msg = f'The bag {str(path)!r} exists already; choose another name or remove it.'
            raise BagError(msg)
        self.path = path
        self._storage = storage
        self._writer: Writer | None = None
        self._connections: dict[str, Connection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def add_topic(self, topic: str, msgtype: str, qos: TopicQos | None = None) -> None:
        """Announce a topic before its first message.

        Args:
            topic: Name of the topic.
            msgtype: Its type, as ``sensor_msgs/msg/JointState``.
            qos: How it is offered; default reliable and volatile.

        Raises:
            BagError: The type is not known, the topic is there already, or the disk refuses.
        """
        types = known_types()
        if msgtype not in types.fielddefs:
            msg = (
                f'Topic {topic!r} cannot be recorded: no definition of message type {msgtype!r}; '
                f'{nearest(msgtype, types.fielddefs)}.'
            )
            raise BagError(msg)
        if topic in self._connections:
            msg = f'Topic {topic!r} is in the bag {str(self.path)!r} already.'
            raise BagError(msg)
        with self._writing():
            writer = self._open()
            self._connections[topic] = writer.add_connection(
                topic,
                msgtype,
                typestore=types,
                offered_qos_profiles=[_profile(qos or TopicQos())],
            )

    def write(self, topic: str, receive_ns: int, cdr: bytes | memoryview) -> None:
        """Write one message.

        Args:
            topic: A topic that was added.
            receive_ns: When it was received, ns since the epoch.
            cdr: The serialised message.

        Raises:
            BagError: The topic was not added, the bag is closed, or the disk refuses.
        """
        if self._writer is None or topic not in self._connections:
            hint = nearest(topic, self._connections)
            msg = f'Topic {topic!r} was not added to the open bag {str(self.path)!r}; {hint}.'
            raise BagError(msg)
        with self._writing():
            self._writer.write(self._connections[topic], receive_ns, cdr)

    def flush(self) -> None:
        """Hand all messages so far to the operating system: they survive the end of the process.

        MCAP: the pending chunk is finished. sqlite3: the transaction is committed.

        Raises:
            BagError: The disk refuses.
        """
        storage = self._writer.storage if self._writer else None
        with self._writing():
            if isinstance(storage, McapWriter):
                if storage.chunk.msgs:
                    storage.close_chunk()
                storage.bio.flush()
            elif isinstance(storage, Sqlite3Writer):
                storage.conn.commit()

    def close(self) -> None:
        """Write index and metadata; a second call does nothing.

        Raises:
            BagError: The disk refuses.
        """
        writer, self._writer = self._writer, None
        self._connections.clear()
        if writer is not None:
            with self._writing():
                writer.close()

    def _open(self) -> Writer:
        if self._writer is None:
            writer = Writer(self.path, version=_VERSION, storage_plugin=_PLUGINS[self._storage])
            writer.open()
            storage = writer.storage
            if isinstance(storage, Sqlite3Writer):
                # A recorder adds topics in one thread and writes in another; sqlite3 refuses
                # that unless it is told that somebody else takes care.
                storage.conn.close()
                storage.conn = sqlite3.connect(storage.path, check_same_thread=False)
                storage.cursor = storage.conn.cursor()
            self._writer = writer
        return self._writer

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, WriterError, sqlite3.Error) as err:
            reason = getattr(err, 'strerror', None) or str(err).rstrip('.')
            msg = f'Cannot write the bag {str(self.path)!r}: {reason}.'
            raise BagError(msg) from err


def _profile(qos: TopicQos) -> Qos:
    return Qos(
        history=QosHistory.KEEP_LAST,
        depth=qos.depth,
        reliability=QosReliability.RELIABLE if qos.reliable else QosReliability.BEST_EFFORT,
        durability=(
            QosDurability.TRANSIENT_LOCAL if qos.transient_local else QosDurability.VOLATILE
        ),
        deadline=_FOREVER,
        lifespan=_FOREVER,
        liveliness=QosLiveliness.AUTOMATIC,
        liveliness_lease_duration=_FOREVER,
        avoid_ros_namespace_conventions=False,
    )
