# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of a SQLite file that SQLite itself refuses, page by page.

Tables of a bag are told by the shape of their rows, so that neither the schema nor the pages above
the leaves are needed. The format: https://www.sqlite.org/fileformat2.html, section numbers below.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterator

    Value = int | str | bytes | None

#: Type of a leaf page of a table, and of all pages of trees (1.6).
_LEAF = 0x0D
_TREE_PAGES = frozenset({0x02, 0x05, 0x0A, _LEAF})
#: Bytes before the places of the cells, and before the content of each, in pages of an index.
_INDEX_PAGES = {0x0A: (8, 0), 0x02: (12, 4)}
#: The file's header stands in front of the first page's own.
_FILE_HEADER = 100
_PAGE_SIZES = tuple(1 << power for power in range(9, 17))
#: Bytes at the end of a page that extensions of SQLite may take, at most.
_MOST_RESERVED = 32
#: Bytes of an integer of variable length below this are its last.
_MORE = 0x80
_USUAL_PAGE_SIZE = 4096
#: Values that serial types are themselves, and sizes of values by serial type (2.1).
_CONSTANTS: dict[int, int | None] = {0: None, 8: 0, 9: 1}
_INTEGERS = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 0, 9: 0}
#: Serial types from here are blobs where even and texts where odd.
_BLOB = 12
#: Columns of rows that are looked at: more has no table of a bag.
_MOST_COLUMNS = 12


class Cell(NamedTuple):
    """Where a row is.

    Attributes:
        rowid: Its number in its table.
        offset: Where its cell begins in the file, bytes.
    """

    rowid: int
    offset: int


class Pages:
    """The leaves of a damaged database.

    Attributes:
        page_size: Bytes of a page.
        count: Whole pages in the file.
        announced: Pages that there should be.
    """

    def __init__(self, data: mmap.mmap | bytes) -> None:
        """Find out the size of the pages."""
        self._data = data
        self.page_size = self._find_page_size()
        reserved = data[20] if len(data) > _FILE_HEADER else 0
        self._usable = self.page_size - (reserved if reserved <= _MOST_RESERVED else 0)
        self.count = len(data) // self.page_size
        self.announced = int.from_bytes(data[28:32], 'big')
        self._overflow: set[int] = set()

    def cells(self) -> Iterator[Cell]:
        """Yield the rows of all tables, page by page."""
        for page in range(self.count):
            start, kind = self._page(page)
            if kind == _LEAF:
                for offset in self._cells(start, 8):
                    _, after = self._varint(offset)
                    rowid, _ = self._varint(after)
                    yield Cell(rowid, offset)

    def stamps(self) -> Iterator[tuple[int, int]]:
        """Yield the pairs of integers in an index: a receive time, and the number of its row."""
        for page in range(self.count):
            start, kind = self._page(page)
            if kind not in _INDEX_PAGES:
                continue
            before_cells, before_content = _INDEX_PAGES[kind]
            page_end = page * self.page_size + self._usable
            for offset in self._cells(start, before_cells):
                size, place = self._varint(offset + before_content)
                if not 0 < size <= page_end - place:
                    continue
                entry = _decoded(self._data[place : place + size])
                if entry is not None and [type(value) for value in entry] == [int, int]:
                    stamp, rowid = entry
                    yield cast('int', stamp), cast('int', rowid)

    def _page(self, page: int) -> tuple[int, int]:
        """Return where a page's header is, and its type."""
        start = page * self.page_size + (_FILE_HEADER if page == 0 else 0)
        return start, self._data[start]

    def _cells(self, header: int, size: int) -> set[int]:
        """Return where the cells of a page may be; damage may name a place twice."""
        start = header // self.page_size * self.page_size
        end = start + self._usable
        (count,) = struct.unpack_from('>H', self._data, header + 3)
        first = header + size + 2 * count
        if first > end:
            return set()
        offsets = struct.unpack_from(f'>{count}H', self._data, header + size)
        return {start + offset for offset in offsets if first <= start + offset < end - 3}

    def values(self, offset: int) -> tuple[Value, ...] | None:
        """Return the values of a row by its place, or None where they make no sense."""
        page_end = offset // self.page_size * self.page_size + self._usable
        size, place = self._varint(offset)
        _, place = self._varint(place)
        payload = self._payload(place, size, page_end)
        return None if payload is None else _decoded(payload)

    def unreadable(self) -> Iterator[int]:
        """Yield the numbers, from 0, of pages that are nothing that a database has in use.

        To be asked after all values were read: pages that continue a row look like nothing, too.
        """
        for page in range(1, self.count):
            if page not in self._overflow and self._data[page * self.page_size] not in _TREE_PAGES:
                yield page

    def _find_page_size(self) -> int:
        data = self._data
        if len(data) >= _FILE_HEADER:
            (size,) = struct.unpack_from('>H', data, 16)
            size = 65536 if size == 1 else size
            if size in _PAGE_SIZES:
                return int(size)
        return _USUAL_PAGE_SIZE

    def _varint(self, position: int) -> tuple[int, int]:
        """Return an integer of variable length, and where it ends (1.6)."""
        value = 0
        for byte in self._data[position : position + 8]:
            position += 1
            value = value << 7 | byte & 0x7F
            if byte < _MORE:
                return value, position
        if position < len(self._data):
            value = value << 8 | self._data[position]
        value = value - (1 << 64) if value >= 1 << 63 else value
        return value, position + 1

    def _payload(self, start: int, size: int, page_end: int) -> bytes | None:
        """Return the bytes of a row, also those on overflow pages (1.6)."""
        if not 0 < size <= len(self._data):
            return None
        most = self._usable - 35
        if size <= most:
            return self._data[start : start + size] if start + size <= page_end else None
        least = (self._usable - 12) * 32 // 255 - 23
        local = least + (size - least) % (self._usable - 4)
        local = local if local <= most else least
        if start + local + 4 > page_end:
            return None
        parts = [self._data[start : start + local]]
        left = size - local
        (page,) = struct.unpack_from('>I', self._data, start + local)
        visited: list[int] = []
        while left > 0:
            if not 1 < page <= self.count or page - 1 in visited[-1:]:
                return None
            visited.append(page - 1)
            begin = (page - 1) * self.page_size
            (page,) = struct.unpack_from('>I', self._data, begin)
            part = self._data[begin + 4 : begin + min(self._usable, left + 4)]
            parts.append(part)
            left -= len(part)
        # A page belongs to one row only, and the last one to nothing else.
        if page != 0 or len(set(visited)) < len(visited):
            return None
        self._overflow.update(visited)
        return b''.join(parts)


def _decoded(payload: bytes) -> tuple[Value, ...] | None:
    """Return the values of a record, or None where it is none (2)."""
    header, place = _small_varint(payload, 0)
    if not 0 < header <= len(payload):
        return None
    kinds: list[int] = []
    while place < header and len(kinds) <= _MOST_COLUMNS:
        kind, place = _small_varint(payload, place)
        kinds.append(kind)
    sizes = [_INTEGERS.get(kind, (kind - _BLOB) // 2) for kind in kinds]
    if place != header or min(sizes, default=0) < 0 or header + sum(sizes) != len(payload):
        return None
    values: list[Value] = []
    for kind, size in zip(kinds, sizes, strict=True):
        part = payload[place : place + size]
        place += size
        try:
            values.append(_value(kind, part))
        except UnicodeDecodeError:
            return None
    return tuple(values)


def _value(kind: int, part: bytes) -> Value:
    """Return a value by its serial type."""
    if kind >= _BLOB:
        return part.decode() if kind % 2 else part
    if kind in _CONSTANTS:
        return _CONSTANTS[kind]
    return int.from_bytes(part, 'big', signed=True)


def _small_varint(payload: bytes, position: int) -> tuple[int, int]:
    value = 0
    for byte in payload[position : position + 8]:
        position += 1
        value = value << 7 | byte & 0x7F
        if byte < _MORE:
            break
    return value, position
