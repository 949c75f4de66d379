# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""rosbag2's SQLite files, read row by row in the order in which they were written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
from rosbags.typesys.msg import normalize_msgtype

from sysid_ros.bags.input.files import (
    BATCH_BYTES,
    BATCH_MESSAGES,
    DamagedFileError,
    Onward,
    Stream,
    decompressed,
)
from sysid_ros.bags.messages.batch import batch
from sysid_ros.bags.output.files import FACTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sysid_ros.bags.messages.batch import Batch

#: Rows that are fetched first, before it is known how large they are.
_FIRST_ROWS = 64


def is_closed(path: Path) -> bool | None:
    """Tell whether a database was closed by its recorder, or None where that cannot be seen.

    A recorder that is killed leaves a journal with something in it, or rosbag2's metadata out.
    Before ROS 2 Iron, rosbag2 never put them into the database.
    """
    for suffix in ('-wal', '-journal'):
        journal = path.with_name(path.name + suffix)
        if journal.exists() and journal.stat().st_size:
            return False
    try:
        with closing(_connect(path)) as connection:
            tables = _tables(connection)
            if 'metadata' in tables and connection.execute('SELECT 1 FROM metadata').fetchone():
                return True
            return False if FACTS in tables else None
    except sqlite3.Error:
        # It is damaged: reading it says how.
        return True


class SqliteInput:
    """A SQLite file; see :class:`~sysid_ros.bags.input.files.InputFile`."""

    def __init__(self, path: Path, onward: Onward) -> None:
        """Read topics and facts."""
        self._onward = onward
        self.facts: dict[str, str] = {}
        self._connection = _connect(path)
        try:
            self._streams = self._read_topics()
        except BaseException:
            self._connection.close()
            raise

    def counts(self) -> dict[Stream, int]:
        """Count messages by topic, which takes going through the file."""
        found = dict.fromkeys(self._streams.values(), 0)
        rows = self._connection.execute('SELECT topic_id, count(*) FROM messages GROUP BY topic_id')
        for number, count in rows:
            if number in self._streams:
                found[self._streams[number]] += count
        return found

    def batches(self, is_needed: Callable[[Stream], bool]) -> Iterator[tuple[Stream, Batch]]:
        """Yield the messages; topics that are no longer is_needed are not even fetched."""
        last, limit = -1, _FIRST_ROWS
        while True:
            numbers = [number for number, stream in self._streams.items() if is_needed(stream)]
            marks = ', '.join('?' * len(numbers))
            rows = self._connection.execute(
                'SELECT rowid, topic_id, timestamp, data FROM messages '  # noqa: S608
                f'WHERE rowid > ? AND topic_id IN ({marks}) ORDER BY rowid LIMIT ?',
                (last, *numbers, limit),
            ).fetchall()
            if not rows:
                return
            if rows[-1][0] <= last:
                msg = 'its rows are not in order'
                raise DamagedFileError(msg)
            last = rows[-1][0]
            size = 0
            for stream, messages in self._batches(rows):
                size += len(messages.buffer)
                yield stream, decompressed(messages)
            limit = min(max(BATCH_BYTES * len(rows) // max(size, 1), 1), 2 * limit, BATCH_MESSAGES)

    def _batches(self, rows: list[tuple[int, int, int, bytes]]) -> Iterator[tuple[Stream, Batch]]:
        _, numbers, logged, data = zip(*rows, strict=True)
        stamps = self._onward.stamps(
            np.array(logged, dtype=np.int64), self._streams, np.array(numbers, dtype=np.int64)
        )
        which = set(numbers)
        if len(which) == 1:
            yield self._streams[numbers[0]], batch(stamps, data)
            return
        for number in sorted(which):
            own = [row for row, item in enumerate(numbers) if item == number]
            yield (
                self._streams[number],
                batch(stamps[own], [data[row] for row in own]),
            )

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _read_topics(self) -> dict[int, Stream]:
        execute = self._connection.execute
        tables = _tables(self._connection)
        if not {'topics', 'messages'} <= tables:
            msg = 'it has no tables of topics and messages'
            raise DamagedFileError(msg)
        definitions: dict[str, tuple[str, str]] = {}
        if 'message_definitions' in tables:
            columns = 'topic_type, encoded_message_definition, encoding'
            for name, text, language in execute(f'SELECT {columns} FROM message_definitions'):  # noqa: S608
                definitions[str(name)] = (str(text), str(language))
        if FACTS in tables:
            rows = execute(f'SELECT key, value FROM {FACTS}')  # noqa: S608
            self.facts = {str(key): str(value) for key, value in rows}
        # Before ROS 2 Foxy there was no quality of service.
        known = {row[1] for row in execute('PRAGMA table_info(topics)')}
        qos = 'offered_qos_profiles' if 'offered_qos_profiles' in known else "''"
        columns = f'id, name, type, serialization_format, {qos}'
        rows = execute(f'SELECT {columns} FROM topics ORDER BY id')  # noqa: S608
        return {
            number: Stream(
                str(topic),
                normalize_msgtype(str(kind)),
                *definitions.get(str(kind), ('', '')),
                serialization=str(serialization),
                qos=str(offered),
            )
            for number, topic, kind, serialization, offered in rows
        }


def _connect(path: Path) -> sqlite3.Connection:
    # Immutable: nothing is written beside the file either, as a reader of a journal would.
    return sqlite3.connect(f'{path.absolute().as_uri()}?immutable=1', uri=True)


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {
        row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
    }
