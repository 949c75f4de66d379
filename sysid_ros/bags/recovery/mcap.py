# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What can be saved from an MCAP file that was not finished, was cut or was changed.

The file is walked record by record. A chunk counts when its checksum is right; without a checksum,
and at the cut end of a file, a message counts when the record after it begins where it should and
the chunk's index, if there is one, names it. Where records do not follow each other, the walk goes
on at the next place that can only be one.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from mcap.opcode import Opcode
from mcap.records import Footer, Metadata, Statistics
from mcap.writer import MCAP0_MAGIC

from sysid_ros.bags.output.files import FACTS
from sysid_ros.bags.recovery.parts import Skipped
from sysid_ros.bags.recovery.records import (
    CANDIDATE,
    CHECKED,
    CHUNK_CANDIDATE,
    DAMAGED,
    HEAD,
    INSIDE_CHUNKS,
    LAYOUTS,
    OUTSIDE,
    PRIVATE,
    UNCHECKED,
    Definitions,
    McapBytes,
    message,
    parsed,
    records_in,
    walked,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from sysid_ros.bags.recovery.parts import StoredMessage
    from sysid_ros.bags.recovery.records import ChunkHead, Record

#: Messages outside of chunks are sought with at least so many records in a row.
_ROW = 4


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
        elif opcode >= PRIVATE:
            self._skip(position, end, f'records of kind {opcode:#x} are not known')
        else:
            self._definitions.add(opcode, self._file.data[start:end], OUTSIDE)

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
                record.opcode, self._file.data[record.start : record.end], CHECKED
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
            self._look_into(content.data, DAMAGED)
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
        self._look_into(content, CHECKED if checked else UNCHECKED)
        self._regions.append(
            _Region(head.start, end, head.compression, checked=checked, places=places or {})
        )

    def _look_into(self, content: bytes, doubt: int) -> None:
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
        _, outer = HEAD.unpack_from(self._file.data, position)
        for end in (position + HEAD.size + int(outer), head.start + head.length):
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
            is_cut = opcode in LAYOUTS or opcode == Opcode.MESSAGE
            reason = 'the file ends in the middle of a record' if is_cut else 'there is no record'
            self._skip(position, self._size, reason)
        return following

    def _next_record(self, position: int) -> int:
        """Return where the next record begins that is certain, or the end of the file."""
        if position + HEAD.size <= self._size:
            _, length = HEAD.unpack_from(self._file.data, position)
            claimed = position + HEAD.size + int(length)
            if claimed < self._size and self._is_certain(claimed):
                return claimed
        place = position + 1
        while (match := CANDIDATE.search(self._file.data, place)) is not None:
            if self._is_certain(match.start()):
                return match.start()
            place = match.start() + 1
        return self._size

    def _is_certain(self, position: int) -> bool:
        """Tell whether what is at a place can be nothing but a record."""
        record = self._file.record(position)
        if record is None or record.opcode >= PRIVATE:
            return False
        if record.opcode not in INSIDE_CHUNKS:
            return True
        if self._has_chunks is None:
            self._has_chunks = CHUNK_CANDIDATE.search(self._file.data) is not None
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
