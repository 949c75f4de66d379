# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""MCAP files that hold whole records at any time.

What the format is: https://mcap.dev/spec; how rosbag2 uses it:
https://github.com/ros2/rosbag2/tree/jazzy/rosbag2_storage_mcap.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from typing import TYPE_CHECKING

from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.records import (
    Channel,
    Chunk,
    ChunkIndex,
    DataEnd,
    Footer,
    Header,
    McapRecord,
    Metadata,
    MetadataIndex,
    Schema,
    Statistics,
    SummaryOffset,
)
from mcap.writer import MCAP0_MAGIC

from sysid_ros.bags.output.files import FACTS, Extent, sync_file
from sysid_ros.bags.output.metadata import qos_text
from sysid_ros.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from sysid_ros.bags.output.files import Topic

#: A chunk is closed when its messages are so many bytes; rosbag2's own default.
_CHUNK = 786_432
#: Record of a message before its data: opcode, length, channel, sequence, log and publish time.
_MESSAGE = struct.Struct('<BQHIQQ')
#: What the length of a message's record counts beside the data.
_MESSAGE_FIELDS = _MESSAGE.size - 9


class McapFile:
    """An MCAP file being written; see :class:`~sysid_ros.bags.output.files.StorageFile`.

    Messages go into chunks with a checksum; topics and facts stand between the chunks, so that a
    damaged chunk takes none of them along.
    """

    def __init__(self, path: Path, *, compress: Callable[[bytes], bytes] | None = None) -> None:
        """Create the file.

        Args:
            path: The new file.
            compress: Applied to each chunk, as zstd does it; None leaves chunks as they are.

        Raises:
            OSError: The disk refuses.
        """
        self.path = path
        self.extent = Extent()
        self._compress = compress
        self._compression = 'zstd' if compress else ''
        self._end = 0
        self._schemas: dict[str, Schema] = {}
        self._channels: list[Channel] = []
        # As bytes: a day of recording has half a million chunks.
        self._chunk_indexes = bytearray()
        self._chunk_count = 0
        self._metadata: list[MetadataIndex] = []
        self._facts: dict[str, str] = {}
        self._parts: list[bytes | memoryview] = []
        self._index: dict[int, list[int]] = {}
        self._waiting = 0
        self._closing = threading.Lock()
        self._file = path.open('xb', buffering=0)
        self._append(MCAP0_MAGIC + _bytes(Header('ros2', f'sysid_ros {__version__}')))

    @property
    def size(self) -> int:
        """Bytes in the file and waiting for it."""
        return self._end + self._waiting

    def add_topic(self, topic: Topic) -> None:
        """Write the topic's channel, and its schema if it is the first of its type."""
        definition = topic.definition
        records: list[McapRecord] = []
        schema = self._schemas.get(definition.msgtype)
        if schema is None:
            schema = Schema(
                id=len(self._schemas) + 1,
                name=definition.msgtype,
                encoding=definition.encoding,
                data=definition.text.encode(),
            )
            records.append(schema)
        channel = Channel(
            id=topic.number,
            topic=topic.name,
            message_encoding='cdr',
            metadata={
                'offered_qos_profiles': qos_text(topic.qos),
                'topic_type_hash': definition.digest,
            },
            schema_id=schema.id,
        )
        self._append(_bytes(*records, channel))
        self._schemas[schema.name] = schema
        self._channels.append(channel)
        self.extent.add(topic.number, ())

    def set_facts(self, facts: Mapping[str, str]) -> None:
        """Put facts in with the next flush; a later record's values replace an earlier's."""
        self._facts.update(facts)

    def write(
        self, number: int, receive_ns: int, cdr: bytes | memoryview, sent_ns: int = 0
    ) -> None:
        """Take one message; a chunk is written when it is full."""
        length = len(cdr)
        self._parts.append(
            _MESSAGE.pack(5, _MESSAGE_FIELDS + length, number, 0, receive_ns, sent_ns or receive_ns)
        )
        self._parts.append(cdr)
        index = self._index.get(number)
        if index is None:
            index = self._index[number] = []
        index.append(receive_ns)
        index.append(self._waiting)
        self._waiting += _MESSAGE.size + length
        if self._waiting >= _CHUNK:
            self._flush_chunk()

    def flush(self) -> None:
        """Finish the chunk and write the facts that have changed."""
        self._flush_chunk()
        if self._facts:
            self._append_metadata(FACTS, self._facts)
            self._facts = {}

    def discard(self) -> None:
        """Forget the messages of the unfinished chunk, and facts that were not written."""
        self._parts, self._index, self._waiting = [], {}, 0
        self._facts = {}

    def sync(self) -> None:
        """Wait until what was flushed is on the disk; any thread may call this."""
        with self._closing:
            if self._file.closed:
                return
            descriptor = os.dup(self._file.fileno())
        try:
            sync_file(descriptor)
        finally:
            os.close(descriptor)

    def close(self, information: str) -> None:
        """Write rosbag2's metadata, the index and the footer, and wait for the disk."""
        self.flush()
        self._append_metadata('rosbag2', {'serialized_metadata': information})
        data_end = _bytes(DataEnd(0))
        self._append(data_end + self._summary(self._end + len(data_end)) + MCAP0_MAGIC)
        self.sync()
        self.abort()

    def abort(self) -> None:
        """Let go of the file as it is."""
        with self._closing:
            self._file.close()

    def _flush_chunk(self) -> None:
        if not self._parts:
            return
        records = b''.join(self._parts)
        stamps = {number: index[::2] for number, index in self._index.items()}
        start = min(min(values) for values in stamps.values())
        end = max(max(values) for values in stamps.values())
        data = self._compress(records) if self._compress else records
        builder = RecordBuilder()
        Chunk(
            compression=self._compression,
            data=data,
            message_start_time=start,
            message_end_time=end,
            uncompressed_crc=zlib.crc32(records),
            uncompressed_size=len(records),
        ).write(builder)
        chunk_length = builder.count
        offsets: dict[int, int] = {}
        for number, index in self._index.items():
            offsets[number] = self._end + builder.count
            builder.write(_message_index(number, index))
        index_length = builder.count - chunk_length
        found = ChunkIndex(
            message_start_time=start,
            message_end_time=end,
            chunk_start_offset=self._end,
            chunk_length=chunk_length,
            message_index_offsets=offsets,
            message_index_length=index_length,
            compression=self._compression,
            compressed_size=len(data),
            uncompressed_size=len(records),
        )
        self._append(_built(builder))
        self._chunk_indexes += _bytes(found)
        self._chunk_count += 1
        for number, values in stamps.items():
            self.extent.add(number, values)
        self._parts, self._index, self._waiting = [], {}, 0

    def _append(self, records: bytes) -> None:
        """Write whole records; if that fails, the file is as it was before."""
        left = memoryview(records)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError:
            self._file.truncate(self._end)
            self._file.seek(self._end)
            raise
        self._end += len(records)

    def _append_metadata(self, name: str, values: Mapping[str, str]) -> None:
        record = _bytes(Metadata(name=name, metadata=dict(values)))
        index = MetadataIndex(offset=self._end, length=len(record), name=name)
        self._append(record)
        self._metadata.append(index)

    def _summary(self, start: int) -> bytes:
        """Return the summary section and the footer.

        Args:
            start: Where the summary section begins in the file.
        """
        extent = self.extent
        statistics = Statistics(
            message_count=extent.messages,
            schema_count=len(self._schemas),
            channel_count=len(self._channels),
            attachment_count=0,
            metadata_count=len(self._metadata),
            chunk_count=self._chunk_count,
            message_start_time=extent.start_ns or 0,
            message_end_time=extent.end_ns or 0,
            channel_message_counts=dict(extent.counts),
        )
        groups = (
            _bytes(*self._schemas.values()),
            _bytes(*self._channels),
            bytes(self._chunk_indexes),
            _bytes(*self._metadata),
            _bytes(statistics),
        )
        summary = b''
        offsets: list[SummaryOffset] = []
        for group in groups:
            if group:
                # A record begins with its opcode.
                offsets.append(SummaryOffset(group[0], start + len(summary), len(group)))
                summary += group
        offset_start = start + len(summary)
        summary += _bytes(*offsets)
        # The checksum goes over the footer, too, as far as it stands before the checksum.
        footer = _bytes(Footer(start, offset_start, 0))[:-4]
        return summary + footer + struct.pack('<I', zlib.crc32(summary + footer))


def _message_index(number: int, index: Sequence[int]) -> bytes:
    """Return the record that says where in a chunk a channel's messages are.

    Args:
        number: Number of the channel.
        index: Stamp, ns, and offset of each message, one after the other.
    """
    size = 8 * len(index)
    return struct.pack(f'<BQHI{len(index)}Q', Opcode.MESSAGE_INDEX, 6 + size, number, size, *index)


def _bytes(*records: McapRecord) -> bytes:
    builder = RecordBuilder()
    for record in records:
        record.write(builder)
    return _built(builder)


def _built(builder: RecordBuilder) -> bytes:
    return bytes(builder.end())  # type: ignore[no-untyped-call]
