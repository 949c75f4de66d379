# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How much the files of a bag may become: a few bytes can announce, or unpack to, any number."""

from __future__ import annotations

import bz2
from collections.abc import Callable, Iterator
from typing import Any

import lz4.frame
import zstandard

#: No recorder writes a chunk or a message of more bytes.
LARGEST_PIECE = 256 << 20
#: What a bag unpacks to and becomes as columns has at most so many bytes, and ...
MOST_BYTES = 512 << 20
#: ... so many more for each byte of its files: joint states of a robot that stands still compress
#: to a thirtieth.
MOST_PER_BYTE = 200
#: A topic or a table with more columns than this is none.
MOST_COLUMNS = 2048


class DamagedFileError(Exception):
    """What is wrong with a file, in words that follow "The bag is damaged:"."""


class Budget:
    """What is left of the bytes that a bag may become; all who unpack and keep them share it."""

    def __init__(self, size: int) -> None:
        """Begin with files of so many bytes in all."""
        self._most = self._left = MOST_BYTES + MOST_PER_BYTE * size

    def take(self, count: int) -> None:
        """Count bytes that were, or are to be, unpacked or kept.

        Raises:
            DamagedFileError: It is more than is left, or than any piece of a bag has.
        """
        if count > self._left:
            raise DamagedFileError(
                f'its files become more than {self._most / 1e6:.0f} MB, {MOST_PER_BYTE} times '
                f'their size and {MOST_BYTES / 1e6:.0f} MB'
            )
        self._left -= count

    def unpacked(self, compression: str, data: bytes) -> bytes:
        """Decompress one piece, such as a chunk or a message.

        Args:
            compression: ``zstd``, ``lz4`` or ``bz2``; ``none`` or empty where it is not compressed.
            data: The piece.

        Raises:
            DamagedFileError: There is no such compression, or it is too much.
        """
        found, size = [], 0
        for part in unpack(compression, iter([data])):
            self.take(len(part))
            size += len(part)
            check_piece(size)
            found.append(part)
        return found[0] if len(found) == 1 else b''.join(found)


def check_piece(size: int) -> None:
    """Refuse a piece that announces more bytes than any has."""
    if size > LARGEST_PIECE:
        raise DamagedFileError(f'a piece of it has more than {LARGEST_PIECE / 1e6:.0f} MB')


def unpack(compression: str, parts: Iterator[bytes]) -> Iterator[bytes]:
    """Decompress parts of a stream into parts of limited size, each when it is asked for."""
    if compression in {'', 'none'}:
        yield from parts
        return
    if compression not in _DECOMPRESSORS:
        known = ', '.join(_DECOMPRESSORS)
        raise DamagedFileError(f'its compression {compression!r} is none of {known}')
    decompressor: Any = None
    # A block of zstd with one value has four bytes and 2**17 values: 2**27 in a step. Those of bz2
    # have no such limit, but their decompressors take one.
    limit = {} if compression == 'zstd' else {'max_length': _LARGEST_PART}
    for part in parts:
        for start in range(0, len(part), _STEP):
            data = part[start : start + _STEP]
            while data:
                if decompressor is None or decompressor.eof:
                    decompressor = _DECOMPRESSORS[compression]()
                yield decompressor.decompress(data, **limit)
                while limit and not (decompressor.needs_input or decompressor.eof):
                    yield decompressor.decompress(b'', **limit)
                data = decompressor.unused_data or b''
    if decompressor is None or not decompressor.eof:
        raise DamagedFileError('what is compressed ends in the middle')


#: Bytes that are decompressed at a time, and that they become, where that can be said.
_STEP, _LARGEST_PART = 4096, 1 << 20
_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    'zstd': lambda: zstandard.ZstdDecompressor().decompressobj(),
    'lz4': lz4.frame.LZ4FrameDecompressor,
    'bz2': bz2.BZ2Decompressor,
}
