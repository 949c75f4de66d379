# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""MCAP files, read chunk by chunk.

What the format is: https://mcap.dev/spec. The ``mcap`` package and rosbags make an object of every
message, which takes longer than everything else; here, messages are cut out by their offsets.
"""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import TYPE_CHECKING

import lz4.frame
import numpy as np
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.reader import make_reader
from mcap.records import Channel, Chunk, Metadata, Schema
from numpy.lib.stride_tricks import sliding_window_view
from rosbags.typesys.msg import normalize_msgtype

from sysid_ros.bags.input.files import (
    BATCH_BYTES,
    DamagedFileError,
    Onward,
    Stream,
    decompress,
    decompressed,
)
from sysid_ros.bags.messages.batch import Batch
from sysid_ros.bags.output.files import FACTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

MAGIC = b'\x89MCAP0\r\n'
#: Opcode and length before every record.
_HEAD = struct.Struct('<BQ')
#: Bytes of a message's record before the message, and what of them the record's length counts.
_MESSAGE = 31
_MESSAGE_FIELDS = _MESSAGE - _HEAD.size
#: Where in a message's record the channel and the stamps of receipt and of sending are, and their
#: types.
_CHANNEL = (9, 'u2')
_LOG_TIME = (15, 'i8')
_PUBLISH_TIME = (23, 'i8')
#: How schemas name the languages of definitions.
_LANGUAGES = {'ros2msg': 'ros2msg', 'ros2idl': 'ros2idl', 'omgidl': 'ros2idl'}
#: Opcodes from here on are free for other programs.
_PRIVATE = 0x80
_READ = {Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE, Opcode.CHUNK, Opcode.METADATA}


def is_closed(path: Path) -> bool:
    """Tell whether a file that begins as MCAP also ends as such; other files count as closed."""
    with path.open('rb') as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            return True
        stream.seek(-len(MAGIC), 2)
        return stream.tell() > 0 and stream.read() == MAGIC


class McapInput:
    """An MCAP file; see :class:`~sysid_ros.bags.input.files.InputFile`."""

    def __init__(self, path: Path, onward: Onward) -> None:
        """Read the summary, where there is one."""
        self._onward = onward
        self.facts: dict[str, str] = {}
        self._schemas: dict[int, Schema] = {}
        self._streams: dict[int, Stream] = {}
        self._found = 0
        self._file = path.open('rb')
        try:
            self._statistics = self._read_summary()
        except BaseException:
            self._file.close()
            raise

    def counts(self) -> dict[Stream, int]:
        """Return what the summary announces."""
        found = dict.fromkeys(self._streams.values(), 0)
        for channel, stream in self._streams.items():
            found[stream] += self._statistics.get(channel, 0)
        return found

    def batches(self, is_needed: Callable[[Stream], bool]) -> Iterator[tuple[Stream, Batch]]:
        """Yield the messages, several chunks at a time."""
        self._file.seek(len(MAGIC))
        self._found = 0
        waiting: list[bytes] = []
        size = 0
        for opcode, head, content in self._records():
            if opcode == Opcode.CHUNK:
                data = _content(Chunk.read(ReadDataStream(BytesIO(content))))
            elif opcode == Opcode.MESSAGE:
                data = head + content
            else:
                self._take(opcode, content)
                continue
            waiting.append(data)
            size += len(data)
            if size >= BATCH_BYTES:
                yield from self._cut(b''.join(waiting), is_needed)
                waiting, size = [], 0
        yield from self._cut(b''.join(waiting), is_needed)
        announced = sum(self._statistics.values())
        if self._statistics and self._found != announced:
            msg = f'its summary announces {announced} messages, it holds {self._found}'
            raise DamagedFileError(msg)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _read_summary(self) -> dict[int, int]:
        """Read topics and return the number of messages by channel."""
        if self._file.read(len(MAGIC)) != MAGIC:
            msg = 'it does not begin as an MCAP file'
            raise DamagedFileError(msg)
        self._file.seek(0)
        summary = make_reader(self._file).get_summary()
        if summary is None:
            return {}
        self._schemas.update(summary.schemas)
        for channel in summary.channels.values():
            self._add(channel)
        return dict(summary.statistics.channel_message_counts) if summary.statistics else {}

    def _records(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield opcode, head and content of the records that matter, up to the end of the data."""
        read, seek = self._file.read, self._file.seek
        while True:
            head = read(_HEAD.size)
            if len(head) < _HEAD.size:
                msg = 'it ends without an end of its data'
                raise DamagedFileError(msg)
            opcode, length = _HEAD.unpack(head)
            if opcode in {Opcode.DATA_END, Opcode.FOOTER}:
                return
            if not opcode or Opcode.DATA_END < opcode < _PRIVATE:
                msg = f'there is no record of kind {opcode}'
                raise DamagedFileError(msg)
            if opcode not in _READ:
                seek(length, 1)
                continue
            content = read(length)
            if len(content) < length:
                msg = 'a record is longer than the file'
                raise DamagedFileError(msg)
            yield opcode, head, content

    def _take(self, opcode: int, content: bytes) -> None:
        stream = ReadDataStream(BytesIO(content))
        if opcode == Opcode.SCHEMA:
            schema = Schema.read(stream)
            self._schemas[schema.id] = schema
        elif opcode == Opcode.CHANNEL:
            self._add(Channel.read(stream))
        elif opcode == Opcode.METADATA:
            metadata = Metadata.read(stream)
            if metadata.name == FACTS:
                self.facts.update(metadata.metadata)

    def _add(self, channel: Channel) -> None:
        if channel.id in self._streams:
            return
        schema = self._schemas.get(channel.schema_id)
        name = normalize_msgtype(schema.name) if schema else 'unknown'
        language = _LANGUAGES.get(schema.encoding, '') if schema else ''
        text = schema.data.decode('utf-8', 'replace') if schema and language else ''
        self._streams[channel.id] = Stream(
            channel.topic,
            name,
            text,
            language,
            channel.message_encoding,
            channel.metadata.get('offered_qos_profiles', ''),
        )

    def _cut(
        self, data: bytes, is_needed: Callable[[Stream], bool]
    ) -> Iterator[tuple[Stream, Batch]]:
        """Cut records into the messages of each topic."""
        starts, sizes = self._messages(data)
        self._found += len(starts)
        buffer = np.frombuffer(data, np.uint8)
        channels = _gathered(buffer, starts, *_CHANNEL)
        stamps = _gathered(buffer, starts, *_LOG_TIME)
        received = self._onward.stamps(stamps, self._streams, channels)
        sent = _gathered(buffer, starts, *_PUBLISH_TIME)
        # Recorders that do not know when a message was sent repeat when they received it.
        sent[sent == stamps] = 0
        for channel in np.unique(channels).tolist():
            stream = self._streams.get(channel)
            if stream is None:
                msg = f'there are messages of a channel {channel} that is not described'
                raise DamagedFileError(msg)
            if not is_needed(stream):
                continue
            own = channels == channel
            found = Batch(received[own], buffer, starts[own] + _MESSAGE, sizes[own], sent[own])
            yield stream, decompressed(found)

    def _messages(self, data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the records of messages begin, and the sizes of the messages."""
        starts: list[int] = []
        lengths: list[int] = []
        unpack, head = _HEAD.unpack_from, _HEAD.size
        position, end = 0, len(data)
        while position + head <= end:
            opcode, length = unpack(data, position)
            if opcode == Opcode.MESSAGE:
                starts.append(position)
                lengths.append(length)
            elif position + head + length <= end:
                self._take(opcode, data[position + head : position + head + length])
            position += head + length
        sizes = np.array(lengths, dtype=np.int64) - _MESSAGE_FIELDS
        if position != end or (sizes < 0).any():
            msg = 'a record does not fit into its chunk'
            raise DamagedFileError(msg)
        return np.array(starts, dtype=np.int64), sizes


def _gathered(
    buffer: NDArray[np.uint8], starts: NDArray[np.int64], offset: int, code: str
) -> NDArray[np.int64]:
    """Return the little-endian integers at an offset of each record."""
    kind = np.dtype('<' + code)
    if not len(starts):
        return np.empty(0, dtype=np.int64)
    found = sliding_window_view(buffer, kind.itemsize)[starts + offset]
    return found.view(kind)[:, 0].astype(np.int64)


def _content(chunk: Chunk) -> bytes:
    """Return a chunk's records.

    Raises:
        DamagedFileError: Size or checksum is wrong, or the compression is unknown.
    """
    if chunk.compression == 'zstd':
        data = decompress(chunk.data, chunk.uncompressed_size)
    elif chunk.compression == 'lz4':
        if lz4.frame.get_frame_info(chunk.data)['content_size'] > chunk.uncompressed_size:
            msg = 'a chunk is larger than it says'
            raise DamagedFileError(msg)
        data = lz4.frame.decompress(chunk.data)
    elif chunk.compression:
        msg = f'chunks are compressed as {chunk.compression!r}, expected zstd or lz4'
        raise DamagedFileError(msg)
    else:
        data = chunk.data
    if len(data) != chunk.uncompressed_size:
        msg = f'a chunk has {len(data)} bytes, expected {chunk.uncompressed_size}'
        raise DamagedFileError(msg)
    if chunk.uncompressed_crc and zlib.crc32(data) != chunk.uncompressed_crc:
        msg = 'the checksum of a chunk is wrong'
        raise DamagedFileError(msg)
    return data
