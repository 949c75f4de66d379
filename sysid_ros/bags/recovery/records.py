# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The records of an MCAP file whose bytes may be anything (https://mcap.dev/spec)."""

from __future__ import annotations

import mmap
import re
import struct
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import lz4.frame
import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import EndOfFile
from mcap.opcode import Opcode
from mcap.records import Channel, Schema
from mcap.writer import MCAP0_MAGIC

from sysid_ros.bags.recovery.parts import FoundTopic, StoredMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_R = TypeVar('_R')

HEAD = struct.Struct('<BQ')
MESSAGE = struct.Struct('<HIQQ')
_CHUNK = struct.Struct('<QQQII')
_INDEX = struct.Struct('<HI')
_INDEX_ENTRY = struct.Struct('<QQ')
_PLACE = struct.Struct('<Q')
#: A chunk that claims to be larger when it is decompressed is damaged, bytes; MCAP's own limit is
#: higher, but recorders stay below 16 MB.
_LARGEST_CHUNK = 1 << 30
#: Longest name of a compression.
_LONGEST_NAME = 4
#: Compressed data is decompressed in pieces of this size, bytes.
_PIECE = 1 << 20

#: Fields of records: a positive number is the size of fields of fixed size, a negative one the
#: size of the length before a field of that length. All of them together are the record.
_SHORT, _LONG = -4, -8
LAYOUTS: dict[int, tuple[int, ...]] = {
    Opcode.HEADER: (_SHORT, _SHORT),
    Opcode.FOOTER: (20,),
    Opcode.SCHEMA: (2, _SHORT, _SHORT, _SHORT),
    Opcode.CHANNEL: (4, _SHORT, _SHORT, _SHORT),
    Opcode.CHUNK: (28, _SHORT, _LONG),
    Opcode.MESSAGE_INDEX: (2, _SHORT),
    Opcode.CHUNK_INDEX: (32, _SHORT, 8, _SHORT, 16),
    Opcode.ATTACHMENT: (16, _SHORT, _SHORT, _LONG, 4),
    Opcode.ATTACHMENT_INDEX: (40, _SHORT, _SHORT),
    Opcode.STATISTICS: (42, _SHORT),
    Opcode.METADATA: (_SHORT, _SHORT),
    Opcode.METADATA_INDEX: (16, _SHORT),
    Opcode.SUMMARY_OFFSET: (17,),
    Opcode.DATA_END: (4,),
}
#: Opcodes that anybody may use for records of their own.
PRIVATE = 0x80
#: Where a record may begin: an opcode and a length below 1 TB.
CANDIDATE = re.compile(rb'[\x01-\x0f].{5}\x00\x00\x00', re.DOTALL)
#: Where a chunk may begin, by the names of the compressions.
CHUNK_CANDIDATE = re.compile(
    rb'\x06.{5}\x00{3}.{28}(?:\x00{4}|\x03\x00{3}lz4|\x04\x00{3}zstd).{5}\x00{3}', re.DOTALL
)
#: What also occurs inside of chunks, so that it cannot be told from their content.
INSIDE_CHUNKS = frozenset({Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE})


class Record(NamedTuple):
    """Where the content of a record is."""

    opcode: int
    start: int
    end: int


class ChunkHead(NamedTuple):
    """What stands before the content of a chunk.

    Attributes:
        first_ns: Receive time of its first message, ns since the epoch.
        last_ns: Receive time of its last message.
        size: Bytes of its content, decompressed.
        crc: Checksum of that; 0 where it has none.
        compression: Name of its compression.
        start: Where the content begins in the file.
        length: Bytes of the content as it is in the file.
    """

    first_ns: int
    last_ns: int
    size: int
    crc: int
    compression: str
    start: int
    length: int


class Content(NamedTuple):
    """A chunk's content; where it cannot be decompressed to the end, what comes before that."""

    data: bytes
    complete: bool


class McapBytes:
    """An MCAP file.

    Attributes:
        data: Its bytes.
        size: How many there are.
    """

    def __init__(self, path: Path) -> None:
        """Map the file.

        Raises:
            OSError: It cannot be opened.
        """
        with path.open('rb') as stream:
            self.size = stream.seek(0, 2)
            # An empty file cannot be mapped.
            self.data: mmap.mmap | bytes = (
                mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if self.size else b''
            )

    def close(self) -> None:
        """Let go of the file."""
        if isinstance(self.data, mmap.mmap):
            self.data.close()

    def is_end(self, position: int) -> bool:
        """Tell whether the closing magic and nothing else is at a place."""
        rest = self.size - position
        return rest == len(MCAP0_MAGIC) and self.data[position:] == MCAP0_MAGIC

    def record(self, position: int) -> Record | None:
        """Return the record at a place, or None where there cannot be one."""
        if position + HEAD.size > self.size:
            return None
        opcode, length = HEAD.unpack_from(self.data, position)
        start = position + HEAD.size
        found = Record(opcode, start, start + length)
        if found.end > self.size:
            return None
        if opcode == Opcode.MESSAGE:
            return found if length >= MESSAGE.size else None
        if opcode >= PRIVATE:
            return found
        layout = LAYOUTS.get(opcode)
        return found if layout is not None and self._fits(layout, found) else None

    def may_begin(self, position: int) -> bool:
        """Tell whether a record may begin here, be it one that the end of the file cuts."""
        if position == self.size or self.is_end(position) or self.record(position) is not None:
            return True
        opcode = self.data[position]
        length = int.from_bytes(self.data[position + 1 : position + HEAD.size], 'little')
        is_cut = position + HEAD.size + length > self.size
        return is_cut and (opcode in LAYOUTS or opcode == Opcode.MESSAGE)

    def chunk_head(self, position: int) -> ChunkHead | None:
        """Return what is known of the chunk at a place, or None where there is none."""
        start = position + HEAD.size + _CHUNK.size
        if start > self.size or self.data[position] != Opcode.CHUNK:
            return None
        fields = _CHUNK.unpack_from(self.data, start - _CHUNK.size)
        first_ns, last_ns, size, crc, name_length = fields
        begin = start + name_length + _PLACE.size
        if name_length > _LONGEST_NAME or begin > self.size:
            return None
        name = self.data[start : start + name_length].decode('latin1')
        (length,) = _PLACE.unpack_from(self.data, begin - _PLACE.size)
        return ChunkHead(first_ns, last_ns, size, crc, name, begin, length)

    def content(self, start: int, end: int, compression: str) -> Content:
        """Return what is in a chunk, never more than the largest chunk."""
        data = self.data[start:end]
        if compression == '':
            return Content(data, complete=True)
        if compression not in _PIECES:
            return Content(b'', complete=False)
        parts: list[bytes] = []
        size = 0
        try:
            for piece in _PIECES[compression](data):
                parts.append(piece)
                size += len(piece)
                if size > _LARGEST_CHUNK:
                    return Content(b'', complete=False)
        except (zstandard.ZstdError, RuntimeError):  # the latter is lz4's
            return Content(b''.join(parts), complete=False)
        return Content(b''.join(parts), complete=True)

    def index(self, position: int) -> dict[int, tuple[int, int]]:
        """Return stamp and channel by offset, as the index records after a chunk say."""
        index: dict[int, tuple[int, int]] = {}
        record = self.record(position)
        while record is not None and record.opcode == Opcode.MESSAGE_INDEX:
            channel, length = _INDEX.unpack_from(self.data, record.start)
            if length % _INDEX_ENTRY.size == 0:
                entries = self.data[record.start + _INDEX.size : record.end]
                for stamp, offset in _INDEX_ENTRY.iter_unpack(entries):
                    index[offset] = (stamp, channel)
            record = self.record(record.end)
        return index

    def _fits(self, layout: tuple[int, ...], record: Record) -> bool:
        position = record.start
        for part in layout:
            if part < 0:
                if position - part > record.end:
                    return False
                position += int.from_bytes(self.data[position : position - part], 'little')
            position += abs(part)
        return position == record.end


#: How much definitions are to be doubted, by where they are.
CHECKED, OUTSIDE, UNCHECKED, DAMAGED = range(4)
_UNKNOWN = (DAMAGED + 1, None)


@dataclass
class Definitions:
    """Schemas and channels by how much they are to be trusted: 0 is the most."""

    schemas: dict[int, tuple[int, Schema]] = field(default_factory=dict)
    channels: dict[int, tuple[int, Channel]] = field(default_factory=dict)

    def add(self, opcode: int, content: bytes, doubt: int) -> None:
        """Keep the definition in a record, if it is one and there is no better one."""
        if opcode == Opcode.SCHEMA:
            schema = parsed(Schema, content)
            if schema is not None and doubt < self.schemas.get(schema.id, _UNKNOWN)[0]:
                self.schemas[schema.id] = (doubt, schema)
        elif opcode == Opcode.CHANNEL:
            channel = parsed(Channel, content)
            if channel is not None and doubt < self.channels.get(channel.id, _UNKNOWN)[0]:
                self.channels[channel.id] = (doubt, channel)

    def topics(self) -> dict[int, FoundTopic]:
        """Return the topics whose channel and schema are known."""
        topics: dict[int, FoundTopic] = {}
        for number, (_, channel) in self.channels.items():
            _, schema = self.schemas.get(channel.schema_id, (0, None))
            if schema is None:
                continue
            topics[number] = FoundTopic(
                channel.topic,
                schema.name,
                schema.data.decode('utf8', 'replace'),
                schema.encoding,
                channel.metadata.get('topic_type_hash', ''),
                channel.metadata.get('offered_qos_profiles', ''),
                channel.message_encoding,
            )
        return topics


def walked(
    data: bytes | mmap.mmap, start: int, end: int, *, checked: bool
) -> Iterator[StoredMessage]:
    """Yield the messages in a row of records; arguments as of :func:`records_in`."""
    for opcode, first, last in records_in(data, start, end, checked=checked):
        if opcode == Opcode.MESSAGE:
            yield message(data, first, last)


def message(data: bytes | mmap.mmap, start: int, end: int) -> StoredMessage:
    """Return the message in a record by where its content begins and ends."""
    channel, _, stamp, _ = MESSAGE.unpack_from(data, start)
    return StoredMessage(channel, stamp, data[start + MESSAGE.size : end])


def records_in(
    data: bytes | mmap.mmap, position: int, size: int, *, checked: bool = True
) -> Iterator[tuple[int, int, int]]:
    """Yield opcode, begin and end of the records inside of a chunk, as far as they make sense.

    Args:
        data: Where the records are.
        position: Where the first begins.
        size: Where the last ends.
        checked: Without a checksum, a record counts only when another may begin at its end.
    """
    unpack = HEAD.unpack_from
    while position + HEAD.size <= size:
        opcode, length = unpack(data, position)
        start = position + HEAD.size
        position = start + length
        if opcode not in INSIDE_CHUNKS or position > size:
            return
        if opcode == Opcode.MESSAGE and length < MESSAGE.size:
            return
        if not checked and position < size and data[position] not in INSIDE_CHUNKS:
            return
        yield opcode, start, position


def _zstd_pieces(data: bytes) -> Iterator[bytes]:
    reader = zstandard.ZstdDecompressor().stream_reader(data)
    while piece := reader.read(_PIECE):
        yield piece


def _lz4_pieces(data: bytes) -> Iterator[bytes]:
    reader = lz4.frame.LZ4FrameDecompressor()
    piece = reader.decompress(data, max_length=_PIECE)
    while piece:
        yield piece
        piece = b'' if reader.eof else reader.decompress(b'', max_length=_PIECE)


_PIECES: dict[str, Callable[[bytes], Iterator[bytes]]] = {'zstd': _zstd_pieces, 'lz4': _lz4_pieces}


def parsed(kind: type[_R], content: bytes) -> _R | None:
    """Return a record by its content, or None where that makes no sense."""
    try:
        return kind.read(ReadDataStream(BytesIO(content)))  # type: ignore[attr-defined, no-any-return]
    except (EndOfFile, ValueError, struct.error):
        return None
