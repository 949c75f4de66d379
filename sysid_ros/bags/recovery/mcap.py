# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What can be saved from an MCAP file that was not finished, was cut or was changed.

The file is walked record by record. A chunk counts when its checksum is right; without a checksum,
and at the cut end of a file, a message counts when the record after it begins where it should and
the chunk's index, if there is one, names it. Where records do not follow each other, the walk goes
on at the next place that can only be one.
"""

from __future__ import annotations

import enum
import mmap
import re
import struct
import zlib
from collections import Counter
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import lz4.frame
import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import EndOfFile
from mcap.opcode import Opcode
from mcap.records import Channel, Footer, Metadata, Schema, Statistics
from mcap.writer import MCAP0_MAGIC

from sysid_ros.bags.output.files import FACTS
from sysid_ros.bags.recovery.parts import FoundTopic, Skipped, StoredMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

_R = TypeVar('_R')

_HEAD = struct.Struct('<BQ')
_MESSAGE = struct.Struct('<HIQQ')
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
_LAYOUTS: dict[int, tuple[int, ...]] = {
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
_PRIVATE = 0x80
#: Where a record may begin: an opcode and a length below 1 TB.
_CANDIDATE = re.compile(rb'[\x01-\x0f].{5}\x00\x00\x00', re.DOTALL)
#: Where a chunk may begin, by the names of the compressions.
_CHUNK_CANDIDATE = re.compile(
    rb'\x06.{5}\x00{3}.{28}(?:\x00{4}|\x03\x00{3}lz4|\x04\x00{3}zstd).{5}\x00{3}', re.DOTALL
)
#: What also occurs inside of chunks, so that it cannot be told from their content.
_INSIDE_CHUNKS = frozenset({Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE})
#: Messages outside of chunks are sought with at least so many records in a row.
_ROW = 4


class _Doubt(enum.IntEnum):
    """How much a definition is to be doubted, by where it is."""

    CHECKED = 0
    OUTSIDE = 1
    UNCHECKED = 2
    DAMAGED = 3
    UNKNOWN = 4


class _Region(NamedTuple):
    """Messages in the file: a chunk, or a row of messages outside of chunks.

    Attributes:
        start: Where it begins: the chunk's content or the first record.
        end: Where that ends.
        compression: The chunk's; None outside of chunks.
        checked: Whether a checksum vouches for it.
        places: Stamp and channel of the chunk's messages by offset; empty where there is no index.
    """

    start: int
    end: int
    compression: str | None
    checked: bool
    places: Mapping[int, tuple[int, int]]


class SalvagedMcap:
    """An MCAP file; see :class:`~sysid_ros.bags.recovery.parts.SalvagedFile`."""

    def __init__(self, path: Path) -> None:
        """Walk through the file.

        Raises:
            OSError: The file cannot be opened.
        """
        self.path = path
        self.compression = 'none'
        self.information = ''
        self.facts: dict[str, str] = {}
        self.announced: dict[int, int] = {}
        self.skipped: list[Skipped] = []
        self.unchecked = 0
        self.closed = False
        self._definitions = Definitions()
        self._regions: list[_Region] = []
        self._has_chunks: bool | None = None
        self._file = McapBytes(path)
        self._size = self._file.size
        self._walk()
        self.topics = self._definitions.topics()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    # The walk

    def _walk(self) -> None:
        position = len(MCAP0_MAGIC)
        if self._file.data[:position] != MCAP0_MAGIC:
            self._skip(0, min(position, self._size), 'it does not begin as MCAP files do')
        while position < self._size and not self._file.is_end(position):
            record = self._file.record(position)
            if record is not None:
                self._take(position, record)
                position = record.end
            else:
                position = self._mended_chunk(position) or self._mended(position)
        self.closed = self.closed and position < self._size

    def _take(self, position: int, record: Record) -> None:
        opcode, start, end = record
        if opcode == Opcode.CHUNK:
            head = self._file.chunk_head(position)
            if head is None:
                self._skip(position, end, 'the compression of a chunk is not known')
            else:
                self._take_chunk(position, end, head)
        elif opcode == Opcode.MESSAGE:
            self._take_message(position, end)
        elif opcode == Opcode.METADATA:
            self._take_metadata(self._file.data[start:end])
        elif opcode == Opcode.STATISTICS:
            statistics = parsed(Statistics, self._file.data[start:end])
            self.announced = dict(statistics.channel_message_counts) if statistics else {}
        elif opcode == Opcode.FOOTER:
            self._take_footer(position, start, end)
        elif opcode >= _PRIVATE:
            self._skip(position, end, f'records of kind {opcode:#x} are not known')
        else:
            self._definitions.add(opcode, self._file.data[start:end], _Doubt.OUTSIDE)

    def _take_metadata(self, content: bytes) -> None:
        metadata = parsed(Metadata, content)
        if metadata is not None and metadata.name == FACTS:
            self.facts.update(metadata.metadata)
        elif metadata is not None and metadata.name == 'rosbag2':
            self.information = metadata.metadata.get('serialized_metadata', '')

    def _take_footer(self, position: int, start: int, end: int) -> None:
        """See whether the file is closed and its summary is right."""
        footer = parsed(Footer, self._file.data[start:end])
        self.closed = footer is not None and self._file.is_end(end)
        if footer is None or not footer.summary_crc:
            return
        place = footer.summary_start
        # The checksum includes the footer up to itself.
        if zlib.crc32(self._file.data[place : end - 4]) != footer.summary_crc:
            self.announced = {}
            self._skip(min(place, position), position, 'the checksum of its summary is wrong')
            return
        while place < position and (record := self._file.record(place)) is not None:
            self._definitions.add(
                record.opcode, self._file.data[record.start : record.end], _Doubt.CHECKED
            )
            place = record.end

    def _skip(
        self,
        start: int,
        end: int,
        reason: str,
        lost: Mapping[int, int] | None = None,
        head: ChunkHead | None = None,
    ) -> None:
        span = (head.first_ns, head.last_ns) if head else (0, 0)
        self.skipped.append(
            Skipped(self.path.name, start, max(0, end - start), reason, lost or {}, *span)
        )

    # Chunks

    def _take_chunk(self, position: int, end: int, head: ChunkHead) -> None:
        """Take a chunk whose place is certain."""
        content = self._file.content(head.start, end, head.compression)
        places = self._file.index(end)
        if head.crc and content.complete and zlib.crc32(content.data) == head.crc:
            self._add_chunk(head, end, content.data, checked=True)
        elif not head.crc and content.complete and len(content.data) == head.size:
            self._add_chunk(head, end, content.data, places=places)
        else:
            right_size = content.complete and len(content.data) == head.size
            reason = 'the checksum of a chunk is wrong' if right_size else 'a chunk is damaged'
            lost = Counter(channel for _, channel in places.values())
            self._look_into(content.data, _Doubt.DAMAGED)
            self._skip(position, end, reason, lost, head)

    def _add_chunk(
        self,
        head: ChunkHead,
        end: int,
        content: bytes,
        *,
        checked: bool = False,
        places: Mapping[int, tuple[int, int]] | None = None,
    ) -> None:
        self._has_chunks = True
        if head.compression:
            self.compression = 'zstd'
        self._look_into(content, _Doubt.CHECKED if checked else _Doubt.UNCHECKED)
        self._regions.append(
            _Region(head.start, end, head.compression, checked=checked, places=places or {})
        )

    def _look_into(self, content: bytes, doubt: _Doubt) -> None:
        """Take the definitions inside of a chunk."""
        for opcode, start, end in records_in(content, 0, len(content)):
            if opcode != Opcode.MESSAGE:
                self._definitions.add(opcode, content[start:end], doubt)

    def _mended_chunk(self, position: int) -> int | None:
        """Take a chunk one of whose two lengths is wrong, as its checksum shows.

        Returns:
            Where it ends; None where there is no such chunk.
        """
        head = self._file.chunk_head(position)
        if head is None or not head.crc:
            return None
        _, outer = _HEAD.unpack_from(self._file.data, position)
        for end in (position + _HEAD.size + int(outer), head.start + head.length):
            if head.start <= end <= self._size:
                content = self._file.content(head.start, end, head.compression)
                if content.complete and zlib.crc32(content.data) == head.crc:
                    self._skip(position, head.start, 'a chunk has a wrong length; it is saved')
                    self._add_chunk(head, end, content.data, checked=True)
                    return end
        return None

    def _take_cut_chunk(self, position: int) -> bool:
        """Take what is there of a chunk that the end of the file cuts."""
        head = self._file.chunk_head(position)
        if head is None:
            return False
        content = self._file.content(head.start, self._size, head.compression)
        reason = 'the file ends in the middle of a chunk; the messages before are saved'
        self._skip(self._size, self._size, reason, head=head)
        self._add_chunk(head, self._size, content.data)
        return True

    # Messages outside of chunks

    def _take_message(self, position: int, end: int) -> None:
        if not self._file.may_begin(end):
            self._skip(position, end, 'no record follows a message')
            return
        last = self._regions[-1] if self._regions else None
        if last is not None and last.compression is None and last.end == position:
            self._regions[-1] = last._replace(end=end)
        else:
            self._regions.append(_Region(position, end, None, checked=False, places={}))

    # Damage

    def _mended(self, position: int) -> int:
        """Note that the record at a place is damaged, and return where to go on."""
        following = self._next_record(position)
        if following < self._size:
            places = self._file.index(following)
            # The index is of a chunk that was here if that was long enough.
            was_chunk = max(places, default=self._size) < following - position
            lost = Counter(channel for _, channel in places.values() if was_chunk)
            self._skip(position, following, 'no record begins where one should', lost)
        elif not self._take_cut_chunk(position):
            opcode = self._file.data[position]
            is_cut = opcode in _LAYOUTS or opcode == Opcode.MESSAGE
            reason = 'the file ends in the middle of a record' if is_cut else 'there is no record'
            self._skip(position, self._size, reason)
        return following

    def _next_record(self, position: int) -> int:
        """Return where the next record begins that is certain, or the end of the file."""
        if position + _HEAD.size <= self._size:
            _, length = _HEAD.unpack_from(self._file.data, position)
            claimed = position + _HEAD.size + int(length)
            if claimed < self._size and self._is_certain(claimed):
                return claimed
        place = position + 1
        while (match := _CANDIDATE.search(self._file.data, place)) is not None:
            if self._is_certain(match.start()):
                return match.start()
            place = match.start() + 1
        return self._size

    def _is_certain(self, position: int) -> bool:
        """Tell whether what is at a place can be nothing but a record."""
        record = self._file.record(position)
        if record is None or record.opcode >= _PRIVATE:
            return False
        if record.opcode not in _INSIDE_CHUNKS:
            return True
        if self._has_chunks is None:
            self._has_chunks = _CHUNK_CANDIDATE.search(self._file.data) is not None
        return not self._has_chunks and self._is_row(record)

    def _is_row(self, record: Record) -> bool:
        """Tell whether records follow each other: enough, or of known channels to the end."""
        known = True
        for _ in range(_ROW):
            if record.opcode == Opcode.MESSAGE:
                (channel,) = struct.unpack_from('<H', self._file.data, record.start)
                known = known and channel in self._definitions.channels
            following = self._file.record(record.end)
            if following is None:
                return known and self._file.may_begin(record.end)
            record = following
        return True

    # Reading

    def messages(self) -> Iterator[StoredMessage]:
        """Yield the messages that are right, in the order of the file."""
        unknown: Counter[int] = Counter()
        for region in self._regions:
            if region.compression is None:
                found = walked(self._file.data, region.start, region.end, checked=False)
            else:
                content = self._file.content(region.start, region.end, region.compression).data
                if region.places:
                    found = self._indexed(region, content)
                else:
                    found = walked(content, 0, len(content), checked=region.checked)
            for one in found:
                if one.number in self.topics:
                    self.unchecked += not region.checked
                    yield one
                else:
                    unknown[one.number] += 1
        for number, count in unknown.items():
            reason = f'nothing says which topic has the number {number}'
            self._skip(0, 0, reason, lost={number: count})

    def _indexed(self, region: _Region, content: bytes) -> Iterator[StoredMessage]:
        """Yield the messages of a chunk without checksum that its index agrees with."""
        offsets = sorted(region.places)
        lost: Counter[int] = Counter()
        for offset, following in zip(offsets, [*offsets[1:], len(content)], strict=True):
            stamp, channel = region.places[offset]
            _, start, end = next(
                records_in(content, offset, len(content), checked=False), (0, 0, 0)
            )
            # Between two messages there may be a definition.
            if start and end <= following and content[offset] == Opcode.MESSAGE:
                found = message(content, start, end)
                if found[:2] == (channel, stamp):
                    yield found
                    continue
            lost[channel] += 1
        if lost:
            reason = 'messages of a chunk without checksum are not what its index says'
            self._skip(region.start, region.end, reason, lost=lost)


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
        if position + _HEAD.size > self.size:
            return None
        opcode, length = _HEAD.unpack_from(self.data, position)
        start = position + _HEAD.size
        found = Record(opcode, start, start + length)
        if found.end > self.size:
            return None
        if opcode == Opcode.MESSAGE:
            return found if length >= _MESSAGE.size else None
        if opcode >= _PRIVATE:
            return found
        layout = _LAYOUTS.get(opcode)
        return found if layout is not None and self._fits(layout, found) else None

    def may_begin(self, position: int) -> bool:
        """Tell whether a record may begin here, be it one that the end of the file cuts."""
        if position == self.size or self.is_end(position) or self.record(position) is not None:
            return True
        opcode = self.data[position]
        length = int.from_bytes(self.data[position + 1 : position + _HEAD.size], 'little')
        is_cut = position + _HEAD.size + length > self.size
        return is_cut and (opcode in _LAYOUTS or opcode == Opcode.MESSAGE)

    def chunk_head(self, position: int) -> ChunkHead | None:
        """Return what is known of the chunk at a place, or None where there is none."""
        start = position + _HEAD.size + _CHUNK.size
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


@dataclass
class Definitions:
    """Schemas and channels by how much they are to be doubted."""

    schemas: dict[int, tuple[_Doubt, Schema]] = field(default_factory=dict)
    channels: dict[int, tuple[_Doubt, Channel]] = field(default_factory=dict)

    def add(self, opcode: int, content: bytes, doubt: _Doubt) -> None:
        """Keep the definition in a record, if it is one and there is no better one."""
        if opcode == Opcode.SCHEMA:
            schema = parsed(Schema, content)
            if schema is not None and doubt < self.schemas.get(schema.id, (_Doubt.UNKNOWN,))[0]:
                self.schemas[schema.id] = (doubt, schema)
        elif opcode == Opcode.CHANNEL:
            channel = parsed(Channel, content)
            if channel is not None and doubt < self.channels.get(channel.id, (_Doubt.UNKNOWN,))[0]:
                self.channels[channel.id] = (doubt, channel)

    def topics(self) -> dict[int, FoundTopic]:
        """Return the topics whose channel and schema are known."""
        topics: dict[int, FoundTopic] = {}
        for number, (_, channel) in self.channels.items():
            _, schema = self.schemas.get(channel.schema_id, (_Doubt.UNKNOWN, None))
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
    channel, _, received, sent = _MESSAGE.unpack_from(data, start)
    return StoredMessage(channel, received, data[start + _MESSAGE.size : end], sent)


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
    unpack = _HEAD.unpack_from
    while position + _HEAD.size <= size:
        opcode, length = unpack(data, position)
        start = position + _HEAD.size
        position = start + length
        if opcode not in _INSIDE_CHUNKS or position > size:
            return
        if opcode == Opcode.MESSAGE and length < _MESSAGE.size:
            return
        if not checked and position < size and data[position] not in _INSIDE_CHUNKS:
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
