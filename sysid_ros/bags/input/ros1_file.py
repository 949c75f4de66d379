# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""ROS 1 bags, read with rosbags; messages are brought into the encoding of ROS 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rosbags.highlevel import AnyReader
from rosbags.serde import SerdeError

from sysid_ros.bags.input.files import (
    BATCH_BYTES,
    BATCH_MESSAGES,
    DamagedFileError,
    Stream,
    decompressed,
)
from sysid_ros.bags.messages.batch import batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rosbags.interfaces import Connection

    from sysid_ros.bags.messages.batch import Batch


class Ros1Input:
    """A ROS 1 bag; see :class:`~sysid_ros.bags.input.files.InputFile`."""

    def __init__(self, path: Path) -> None:
        """Read topics."""
        self.facts: dict[str, str] = {}
        self._reader = AnyReader([path])
        self._reader.open()

    def counts(self) -> dict[Stream, int]:
        """Return what the bag's index says."""
        found: dict[Stream, int] = {}
        for connection in self._reader.connections:
            stream = _stream(connection)
            found[stream] = found.get(stream, 0) + connection.msgcount
        return found

    def batches(self, is_needed: Callable[[Stream], bool]) -> Iterator[tuple[Stream, Batch]]:
        """Yield the messages."""
        streams = {connection.id: _stream(connection) for connection in self._reader.connections}
        needed = [item for item in self._reader.connections if is_needed(streams[item.id])]
        rows: dict[Stream, tuple[list[int], list[bytes]]] = {}
        size = count = 0
        for connection, stamp, data in self._reader.messages(needed) if needed else ():
            stream = streams[connection.id]
            if not is_needed(stream):
                continue
            try:
                # ros1_to_cdr() would drop the header's number, which is in the definition.
                content = self._reader.typestore.deserialize_ros1(data, connection.msgtype)
                message = bytes(self._reader.typestore.serialize_cdr(content, connection.msgtype))
            except SerdeError as err:
                msg = f'a message on {connection.topic} does not fit its type'
                raise DamagedFileError(msg) from err
            stamps, messages = rows.setdefault(stream, ([], []))
            stamps.append(stamp)
            messages.append(message)
            size, count = size + len(message), count + 1
            if size >= BATCH_BYTES or count >= BATCH_MESSAGES:
                yield from _batches(rows)
                rows, size, count = {}, 0, 0
        yield from _batches(rows)

    def close(self) -> None:
        """Let go of the file."""
        self._reader.close()


def _batches(
    rows: dict[Stream, tuple[list[int], list[bytes]]],
) -> Iterator[tuple[Stream, Batch]]:
    for stream, (stamps, messages) in rows.items():
        yield stream, decompressed(batch(stamps, messages))


def _stream(connection: Connection) -> Stream:
    # ROS 1 writes definitions nearly as ROS 2 does; rosbags reads both.
    return Stream(connection.topic, connection.msgtype, connection.msgdef.data, 'ros2msg')
