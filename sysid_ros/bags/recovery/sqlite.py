# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What can be saved from a SQLite file that was not finished, was cut or was changed.

A journal or write-ahead log beside the file is applied by SQLite itself, to a copy. A database
that SQLite then finds in order is read by it, any other page by page. A message counts when it has
the checksum that the file holds for it; files of other recorders have none.
"""

from __future__ import annotations

import mmap
import shutil
import sqlite3
from array import array
from contextlib import closing
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.parse import quote

import numpy as np

from sysid_ros.bags.output.files import ENCODINGS, FACTS
from sysid_ros.bags.output.sqlite_file import CHECKS, Checks, message_crc
from sysid_ros.bags.recovery.pages import Pages
from sysid_ros.bags.recovery.parts import FoundTopic, Skipped, StoredMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from sysid_ros.bags.recovery.pages import Value

_MAGIC = b'SQLite format 3\0'
#: What SQLite leaves beside a database that was not closed.
_LEFTOVERS = ('-wal', '-journal')
#: The tables of a bag beside that of the messages; older ones lack some.
_TABLES = ('topics', 'message_definitions', 'metadata', FACTS, CHECKS)
#: Columns of topics: number, name, type, format, then quality of service, then hash of the type.
_TOPIC_COLUMNS = range(4, 7)
_DEFINITION_COLUMNS = 5


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
        leftovers = [name for name in _LEFTOVERS if _holds_something(path, name)]
        file = _copied(path, leftovers, scratch) if leftovers else path
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
        return {number: self._topic(*row) for number, row in self._topics.items()}

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

    def _topic(
        self, name: str, msgtype: str, form: str, qos: str = '', digest: str = ''
    ) -> FoundTopic:
        encoding, text = self._definitions.get(msgtype, (ENCODINGS[0], ''))
        return FoundTopic(name, msgtype, text, encoding, digest, qos, form)

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
        self._connection.text_factory = _text
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
            if _is_message(row):
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
            rows = {self._row(rowid, index) for index in indices}
            crc = self._checks.get(rowid)
            if crc is not None:
                rows = {row for row in rows if message_crc(*row) == crc}
            else:
                rows = {row for row in rows if self._stamps.agree(rowid, row.receive_ns)}
            if len(rows) == 1:
                yield rows.pop()

    def _row(self, rowid: int, index: int) -> _Row:
        values = self._pages.values(self._offsets[index]) or ()
        return _Row(rowid, *cast('tuple[int, int, bytes]', values[1:]))


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


def _is_message(row: tuple[Value, ...]) -> bool:
    key, *values = row
    return key is None and [type(value) for value in values] == [int, int, bytes]


def _text(content: bytes) -> str:
    return content.decode('utf8', 'replace')


def _holds_something(path: Path, suffix: str) -> bool:
    beside = path.with_name(path.name + suffix)
    return beside.is_file() and beside.stat().st_size > 0


def _copied(path: Path, leftovers: list[str], scratch: Path) -> Path:
    """Copy a database with what SQLite left beside it."""
    for suffix in ('', *leftovers):
        shutil.copyfile(path.with_name(path.name + suffix), scratch / (path.name + suffix))
    return scratch / path.name


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
