# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""SQLite files of rosbag2's schema that are whole after every flush."""

from __future__ import annotations

import bisect
import sqlite3
import struct
import zlib
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING

from rosbags.rosbag2.storage_sqlite3 import Sqlite3Writer

from sysid_ros.bags.output.files import FACTS, Extent
from sysid_ros.bags.output.metadata import VERSION, qos_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sysid_ros.bags.output.files import Topic

CHECKS = 'sysid_ros_checks'
CHECKS_SCHEMA = f'CREATE TABLE {CHECKS}(first_id INTEGER PRIMARY KEY, crcs BLOB NOT NULL);'
_CRC_SIZE = 4
_FIELDS = struct.Struct('<qqq')
#: Messages are committed when they are so many bytes, if not before.
_WAITING = 8 << 20
#: How long somebody who reads the database may keep it from changing, seconds; messages wait.
_BUSY_SECONDS = 60.0


def message_crc(rowid: int, number: int, receive_ns: int, data: bytes | memoryview) -> int:
    """Return the checksum of a message.

    Args:
        rowid: Its number in the file.
        number: Number of its topic.
        receive_ns: When it was received, ns since the epoch.
        data: The serialised message.
    """
    return zlib.crc32(data, zlib.crc32(_FIELDS.pack(rowid, number, receive_ns)))


def packed(crcs: Sequence[int]) -> bytes:
    """Return checksums as the table holds them: 4 bytes each, little endian."""
    return struct.pack(f'<{len(crcs)}I', *crcs)


class Checks:
    """The checksums in a file."""

    def __init__(self) -> None:
        self._blocks: dict[int, array[int]] = {}
        self._firsts: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._blocks)

    @property
    def last(self) -> int:
        """Number of the last message that has a checksum; 0 where none has."""
        return max((first + len(crcs) - 1 for first, crcs in self._blocks.items()), default=0)

    def add(self, first: int, content: bytes) -> None:
        """Take a row of the table."""
        crcs = array('I', struct.unpack_from(f'<{len(content) // _CRC_SIZE}I', content))
        self._blocks[first] = crcs
        bisect.insort(self._firsts, first)

    def get(self, rowid: int) -> int | None:
        """Return the checksum of a message by its number, or None where it has none."""
        place = bisect.bisect_right(self._firsts, rowid) - 1
        if place < 0:
            return None
        first = self._firsts[place]
        crcs = self._blocks[first]
        return crcs[rowid - first] if rowid - first < len(crcs) else None


class SqliteFile:
    """A SQLite file being written; see :class:`~sysid_ros.bags.output.files.StorageFile`.

    Messages wait in memory and go in by one short transaction with a rollback journal: between
    two of them the file alone is the whole database, also for readers that know of no journal.
    """

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        """Create the file.

        Args:
            path: The new file.
            durable: Let every transaction wait for the disk: without that, losing power may
                leave a database that is malformed.

        Raises:
            sqlite3.Error: The disk refuses.
        """
        self.path = path
        self.extent = Extent()
        # One thread adds topics, another writes; who calls takes care that they take turns.
        self._connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, check_same_thread=False, isolation_level=None
        )
        self._types: set[str] = set()
        self._topics: list[Topic] = []
        self._facts: dict[str, str] = {}
        self._written = 0
        self._rows: list[tuple[int, int, bytes | memoryview]] = []
        self._waiting = 0
        execute = self._connection.execute
        execute(f'PRAGMA synchronous = {"FULL" if durable else "OFF"}')
        # Else large transactions change the file before they are committed.
        execute('PRAGMA cache_spill = OFF')
        self._connection.executescript(
            f'BEGIN; {Sqlite3Writer.SQLITE_SCHEMA}'
            f'CREATE TABLE {FACTS}(key TEXT PRIMARY KEY, value TEXT NOT NULL);'
            f'{CHECKS_SCHEMA} COMMIT;'
        )
        self._measure()

    @property
    def size(self) -> int:
        """Bytes in the file and waiting for it."""
        return self._written + self._waiting

    def add_topic(self, topic: Topic) -> None:
        """Announce the topic with the next flush."""
        self._topics.append(topic)

    def set_facts(self, facts: Mapping[str, str]) -> None:
        """Put facts in with the next flush; values replace earlier ones of the same keys."""
        self._facts.update(facts)

    def write(
        self,
        number: int,
        receive_ns: int,
        cdr: bytes | memoryview,
        sent_ns: int = 0,  # noqa: ARG002 (rosbag2's tables have no column for it)
    ) -> None:
        """Take one message; they are committed when they are many."""
        self._rows.append((number, receive_ns, cdr))
        self._waiting += len(cdr)
        if self._waiting >= _WAITING:
            self.flush()

    def flush(self) -> None:
        """Commit what waits."""
        if not (self._rows or self._topics or self._facts):
            return
        execute, insert = self._connection.execute, self._connection.executemany
        execute('BEGIN IMMEDIATE')
        try:
            self._insert_topics()
            insert('INSERT INTO messages(topic_id, timestamp, data) VALUES(?, ?, ?)', self._rows)
            # SQLite numbers messages from 1.
            first = self.extent.messages + 1
            crcs = [message_crc(rowid, *row) for rowid, row in enumerate(self._rows, first)]
            if crcs:
                execute(f'INSERT INTO {CHECKS} VALUES(?, ?)', (first, packed(crcs)))
            insert(f'INSERT OR REPLACE INTO {FACTS} VALUES(?, ?)', self._facts.items())
            execute('COMMIT')
        except BaseException:
            # SQLite may have rolled back by itself, and what failed is what is worth telling.
            with suppress(sqlite3.Error):
                execute('ROLLBACK')
            raise
        self._types.update(topic.definition.msgtype for topic in self._topics)
        for topic in self._topics:
            self.extent.add(topic.number, ())
        stamps: dict[int, list[int]] = {}
        for number, stamp, _ in self._rows:
            stamps.setdefault(number, []).append(stamp)
        for number, received in stamps.items():
            self.extent.add(number, received)
        self._topics, self._facts = [], {}
        self._rows, self._waiting = [], 0
        self._measure()

    def discard(self) -> None:
        """Forget messages and facts that were not committed."""
        self._rows, self._waiting = [], 0
        self._facts = {}

    def sync(self) -> None:
        """Do nothing: every transaction waits for the disk itself."""

    def close(self, information: str) -> None:
        """Add rosbag2's metadata and end the database."""
        self.flush()
        self._connection.execute(
            'INSERT INTO metadata(metadata_version, metadata) VALUES(?, ?)', (VERSION, information)
        )
        self.abort()

    def abort(self) -> None:
        """Let go of the file as it is."""
        self._connection.close()

    def _insert_topics(self) -> None:
        execute = self._connection.execute
        types = set(self._types)
        for number, name, definition, qos in self._topics:
            msgtype, text, encoding, digest = definition
            if msgtype not in types:
                types.add(msgtype)
                execute(
                    'INSERT INTO message_definitions (topic_type, encoding,'
                    ' encoded_message_definition, type_description_hash) VALUES(?, ?, ?, ?)',
                    (msgtype, encoding, text, digest),
                )
            execute(
                'INSERT INTO topics VALUES(?, ?, ?, ?, ?, ?)',
                (number, name, msgtype, 'cdr', qos_text(qos), digest),
            )

    def _measure(self) -> None:
        self._written = self.path.stat().st_size
