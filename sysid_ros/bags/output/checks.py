# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Checksums of the messages in a SQLite file, which has none of its own.

They are in a table beside rosbag2's: one row per transaction, with the number of its first message
and a CRC-32 of each message.
"""

from __future__ import annotations

import bisect
import struct
import zlib
from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CHECKS = 'sysid_ros_checks'
CHECKS_SCHEMA = f'CREATE TABLE {CHECKS}(first_id INTEGER PRIMARY KEY, crcs BLOB NOT NULL);'
_CRC_SIZE = 4
_FIELDS = struct.Struct('<qqq')


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
