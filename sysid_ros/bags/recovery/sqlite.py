# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What can be saved from a SQLite file that was not finished, was cut or was changed.

A journal or write-ahead log beside the file is applied by SQLite itself, to a copy. A database
that SQLite then finds in order is read by it, any other page by page. A message counts when it has
the checksum that the file holds for it; files of other recorders have none.

Page by page, tables of a bag are told by the shape of their rows, so that neither the schema nor
the pages above the leaves are needed. The format: https://www.sqlite.org/fileformat2.html, section
numbers below.
"""

from __future__ import annotations

import mmap
import shutil
import sqlite3
import struct
from array import array
from contextlib import closing
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.parse import quote

import numpy as np

from sysid_ros.bags.output.files import ENCODINGS, FACTS
from sysid_ros.bags.output.sqlite_file import CHECKS, Checks, message_crc
from sysid_ros.bags.recovery.parts import FoundTopic, Skipped, StoredMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    Value = int | str | bytes | None

#: What SQLite leaves beside a database that was not closed.
_LEFTOVERS = ('-wal', '-journal')
#: The tables of a bag beside that of the messages; older ones lack some.
_TABLES = ('topics', 'message_definitions', 'metadata', FACTS, CHECKS)
#: Columns of topics: number, name, type, format, then quality of service, then hash of the type.
_TOPIC_COLUMNS = range(4, 7)
_DEFINITION_COLUMNS = 5


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
#: What reading a database may raise; errors and columns have names that may be no text any more.
_ERRORS = (sqlite3.Error, UnicodeDecodeError)


class _Row(NamedTuple):
    rowid: int
    number: int
    receive_ns: int
    data: bytes


class SalvagedSqlite:
    """A SQLite file; see :class:`~sysid_ros.bags.recovery.parts.SalvagedFile`."""

    compression = 'none'

    def __init__(self, path: Path, scratch: Path) -> None:
        """Examine the file.

        Args:
            path: The file; it is only read.
            scratch: A folder for a copy, where one is needed.

        Raises:
            OSError: The file cannot be read, or the copy cannot be written.
        """
        self.path = path
        self.facts: dict[str, str] = {}
        self.announced: dict[int, int] = {}
        self.information = ''
        self.skipped: list[Skipped] = []
        self.unchecked = 0
        self._topics: dict[int, list[str]] = {}
        self._definitions: dict[str, tuple[str, str]] = {}
        self._checks = Checks()
        self._mapped: mmap.mmap | None = None
        beside = [path.with_name(path.name + suffix) for suffix in _LEFTOVERS]
        leftovers = [file for file in beside if file.is_file() and file.stat().st_size]
        file = scratch / path.name if leftovers else path
        for part in (path, *leftovers) if leftovers else ():
            shutil.copyfile(part, scratch / part.name)
        self._in_order = _is_in_order(file, immutable=not leftovers)
        self.closed = self._in_order and not leftovers
        self._rows: Callable[[], Iterator[_Row]]
        if self._in_order:
            try:
                self._open(file)
            except _ERRORS:
                self._connection.close()
                self._in_order = self.closed = False
        if not self._in_order:
            self._search(file)

    @property
    def topics(self) -> Mapping[int, FoundTopic]:
        """Topics by number."""
        found = {}
        for number, (name, msgtype, form, *more) in self._topics.items():
            qos, digest = (*more, '', '')[:2]
            encoding, text = self._definitions.get(msgtype, (ENCODINGS[0], ''))
            found[number] = FoundTopic(name, msgtype, text, encoding, digest, qos, form)
        return found

    def close(self) -> None:
        """Let go of the file."""
        if self._in_order:
            self._connection.close()
        if self._mapped is not None:
            self._mapped.close()

    def messages(self) -> Iterator[StoredMessage]:
        """Yield the messages that are right, in the order in which they were written."""
        last, last_ns = 0, 0
        for rowid, number, stamp, data in self._rows():
            crc = self._checks.get(rowid)
            right = crc is None or message_crc(rowid, number, stamp, data) == crc
            if not right or number not in self._topics:
                continue
            self._note_gap(last, rowid, last_ns, stamp)
            last, last_ns = rowid, stamp
            self.unchecked += crc is None
            yield StoredMessage(number, stamp, data)
        self._note_gap(last, max(last, self._checks.last) + 1, last_ns, 0)

    def _note_gap(self, last: int, rowid: int, last_ns: int, stamp: int) -> None:
        """Note that messages between two numbers were not saved.

        Numbers are without gaps when they are given; but a database in order may have been edited.
        """
        missing = rowid - last - 1
        if missing <= 0 or (self._in_order and not self._checks):
            return
        what = f'message {last + 1}' if missing == 1 else f'messages {last + 1} to {rowid - 1}'
        self.skipped.append(
            Skipped(self.path.name, 0, 0, f'{what} cannot be read', {0: missing}, last_ns, stamp)
        )

    def _take(self, rowid: int, row: tuple[Value, ...]) -> None:
        """Take a row of any table but that of the messages, which is told by its shape."""
        key, *values = row
        texts = [value for value in values if isinstance(value, str)]
        if isinstance(key, str) and len(row) == len(texts) + 1 == 2:  # noqa: PLR2004 (a pair)
            self.facts[key] = texts[0]
        elif key is not None:
            return
        elif len(values) == 1 and isinstance(values[0], bytes):
            self._checks.add(rowid, values[0])
        elif len(values) == 2 and isinstance(values[0], int) and texts:  # noqa: PLR2004 (as above)
            self.information = texts[0]
        elif len(texts) < len(values):
            return
        elif len(row) == _DEFINITION_COLUMNS and texts[1] in ENCODINGS:
            self._definitions[texts[0]] = (texts[1], texts[2])
        elif len(row) in _TOPIC_COLUMNS:
            self._topics[rowid] = texts

    # A database in order

    def _open(self, file: Path) -> None:
        self._connection = sqlite3.connect(_address(file, immutable=True), uri=True)
        self._connection.text_factory = lambda content: content.decode('utf8', 'replace')
        self._rows = self._selected
        existing = {name for (name,) in self._connection.execute('SELECT name FROM sqlite_master')}
        for table in _TABLES:
            if table not in existing:
                continue
            for rowid, key, *values in self._connection.execute(
                f'SELECT rowid, * FROM {table}'  # noqa: S608 (a name of ours)
            ):
                # SQLite shows the row's number as its first column, pages do not.
                own = key if isinstance(key, str) else None
                self._take(rowid, (own, *values))

    def _selected(self) -> Iterator[_Row]:
        query = 'SELECT id, topic_id, timestamp, data FROM messages ORDER BY id'
        for row in self._connection.execute(query):
            if isinstance(row[1], int) and isinstance(row[2], int) and isinstance(row[3], bytes):
                yield _Row(*row)

    # A database out of order

    def _search(self, file: Path) -> None:
        """Find the rows in the pages."""
        size = file.stat().st_size
        self._rows = self._found
        self._rowids, self._offsets = array('q'), array('q')
        if not size:
            self.skipped.append(Skipped(self.path.name, 0, 0, 'the file is empty'))
            return
        with file.open('rb') as stream:
            self._mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        self._pages = Pages(self._mapped)
        for rowid, offset in self._pages.cells():
            row = self._pages.values(offset)
            if row is None:
                continue
            if row[0] is None and [type(value) for value in row[1:]] == [int, int, bytes]:
                self._rowids.append(rowid)
                self._offsets.append(offset)
            else:
                self._take(rowid, row)
        self._stamps = _Stamps(() if self._checks else self._pages.stamps())
        self._skip_pages(size)

    def _skip_pages(self, size: int) -> None:
        page_size = self._pages.page_size
        # Pages side by side differ from their places among them by the same number.
        pages = enumerate(self._pages.unreadable())
        for _, side_by_side in groupby(pages, key=lambda place: place[1] - place[0]):
            numbers = [page for _, page in side_by_side]
            offset, extent = numbers[0] * page_size, len(numbers) * page_size
            self.skipped.append(
                Skipped(self.path.name, offset, extent, 'nothing readable is there')
            )
        whole = self._pages.count * page_size
        if whole < size:
            reason = 'the file ends in the middle of a page'
            self.skipped.append(Skipped(self.path.name, whole, size - whole, reason))
        elif self._pages.announced > self._pages.count:
            missing = (self._pages.announced - self._pages.count) * page_size
            self.skipped.append(Skipped(self.path.name, size, missing, 'the file ends too early'))

    def _found(self) -> Iterator[_Row]:
        """Yield the rows that were found, sorted, where only one has the number.

        Several have one where a page was damaged or is a stale copy of another.
        """
        order = np.argsort(np.frombuffer(self._rowids, dtype=np.int64), kind='stable')
        for rowid, indices in groupby(order.tolist(), key=self._rowids.__getitem__):
            found = (self._pages.values(self._offsets[index]) or () for index in indices)
            rows = {_Row(rowid, *cast('tuple[int, int, bytes]', row[1:])) for row in found}
            crc = self._checks.get(rowid)
            if crc is not None:
                rows = {row for row in rows if message_crc(*row) == crc}
            else:
                rows = {row for row in rows if self._stamps.agree(rowid, row.receive_ns)}
            if len(rows) == 1:
                yield rows.pop()


class _Stamps:
    """The index of a damaged database: receive times by the numbers of their rows."""

    def __init__(self, entries: Iterable[tuple[int, int]]) -> None:
        stamps, rowids = array('q'), array('q')
        for stamp, rowid in entries:
            stamps.append(stamp)
            rowids.append(rowid)
        order = np.argsort(np.frombuffer(rowids, dtype=np.int64), kind='stable')
        self._rowids = np.frombuffer(rowids, dtype=np.int64)[order]
        self._stamps = np.frombuffer(stamps, dtype=np.int64)[order]

    def agree(self, rowid: int, stamp: int) -> bool:
        """Tell whether the index has this time for a row, or none."""
        first, last = np.searchsorted(self._rowids, [rowid, rowid + 1])
        return bool(first == last or stamp in self._stamps[first:last])


def _address(file: Path, *, immutable: bool) -> str:
    # Immutable: SQLite neither locks the file nor looks for a journal.
    return f'file:{quote(str(file))}' + ('?immutable=1' if immutable else '')


def _is_in_order(file: Path, *, immutable: bool) -> bool:
    """Tell whether SQLite can read all of a database and its index agrees with it."""
    try:
        with closing(sqlite3.connect(_address(file, immutable=immutable), uri=True)) as connection:
            connection.execute('SELECT id, topic_id, timestamp, data FROM messages LIMIT 1')
            connection.execute('SELECT id, name, type, serialization_format FROM topics LIMIT 1')
            return connection.execute('PRAGMA integrity_check(1)').fetchall() == [('ok',)]
    except _ERRORS:
        return False


class RowPlace(NamedTuple):
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
        self.page_size = _USUAL_PAGE_SIZE
        if len(data) >= _FILE_HEADER:
            (size,) = struct.unpack_from('>H', data, 16)
            size = 65536 if size == 1 else int(size)
            self.page_size = size if size in _PAGE_SIZES else _USUAL_PAGE_SIZE
        reserved = data[20] if len(data) > _FILE_HEADER else 0
        self._usable = self.page_size - (reserved if reserved <= _MOST_RESERVED else 0)
        self.count = len(data) // self.page_size
        self.announced = int.from_bytes(data[28:32], 'big')
        self._overflow: set[int] = set()

    def cells(self) -> Iterator[RowPlace]:
        """Yield the rows of all tables, page by page."""
        for page in range(self.count):
            start, kind = self._page(page)
            if kind == _LEAF:
                for offset in self._cells(start, 8):
                    _, after = self._varint(offset)
                    rowid, _ = self._varint(after)
                    yield RowPlace(rowid, offset)

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
            if kind >= _BLOB:
                values.append(part.decode() if kind % 2 else part)
            elif kind in _CONSTANTS:
                values.append(_CONSTANTS[kind])
            else:
                values.append(int.from_bytes(part, 'big', signed=True))
        except UnicodeDecodeError:
            return None
    return tuple(values)


def _small_varint(payload: bytes, position: int) -> tuple[int, int]:
    value = 0
    for byte in payload[position : position + 8]:
        position += 1
        value = value << 7 | byte & 0x7F
        if byte < _MORE:
            break
    return value, position
