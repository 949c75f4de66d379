# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Reading plain CDR, the encoding of ROS 2 messages.

Only what the decoders need: integers, strings and sequences, little or big endian. The message's
end is not checked to the byte: middlewares pad messages to a multiple of four or eight, and such
messages are genuine.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from sysid_ros.errors import BagError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

T = TypeVar('T')

#: Bytes of the encapsulation header; alignment is counted from behind it.
HEADER = 4
#: Second byte of the encapsulation header: 0 for big, 1 for little endian plain CDR.
_ORDERS = {0: '>', 1: '<'}
#: A middleware pads to 8 bytes at most.
_MOST_PADDING = 7


class CdrError(BagError):
    """The bytes of a message do not fit its type."""


class Cursor:
    """A position in one CDR message.

    Attributes:
        position: Byte that is read next.
        order: Byte order, '<' or '>', as in ``struct`` and in NumPy's type names.
        padding: Skipped so far for alignment; a writer may leave anything in these bytes.
    """

    def __init__(self, data: bytes) -> None:
        if len(data) < HEADER or data[0] != 0 or data[1] not in _ORDERS:
            msg = f'Expected plain CDR, found a message that begins with {data[:HEADER].hex()!r}'
            raise CdrError(msg)
        self._data = data
        self.position = HEADER
        self.order = _ORDERS[data[1]]
        self.padding: list[slice] = []

    def _number(self, code: str, size: int) -> int:
        self.align(size)
        try:
            (value,) = struct.unpack_from(self.order + code, self._data, self.position)
        except struct.error:
            msg = f'The message ends after {len(self._data)} bytes, in the middle of a field'
            raise CdrError(msg) from None
        self.position += size
        return int(value)

    def align(self, size: int) -> None:
        """Move on to a multiple of ``size`` bytes from the start of the body."""
        start = self.position
        self.position += -(start - HEADER) % size
        if self.position > start:
            self.padding.append(slice(start, self.position))

    def uint32(self) -> int:
        """Read a uint32."""
        return self._number('I', 4)

    def int32(self) -> int:
        """Read an int32."""
        return self._number('i', 4)

    def nanoseconds(self) -> int:
        """Read a Time or Duration and return it in ns."""
        seconds = self.int32()
        return seconds * 1_000_000_000 + self.uint32()

    def _skip(self, size: int) -> int:
        start = self.position
        if size > len(self._data) - start:
            msg = f'The message ends after {len(self._data)} bytes, {size} more are announced'
            raise CdrError(msg)
        self.position += size
        return start

    def string(self) -> str:
        """Read a string."""
        size = self.uint32()
        start = self._skip(size)
        text = self._data[start : start + max(size - 1, 0)]
        return text.decode('utf-8', 'replace')

    def strings(self) -> tuple[str, ...]:
        """Read a sequence of strings."""
        return tuple(self.string() for _ in range(self._count(4)))

    def _count(self, least: int) -> int:
        count = self.uint32()
        if count * least > len(self._data) - self.position:
            msg = f'A sequence of {count} elements does not fit into {len(self._data)} bytes'
            raise CdrError(msg)
        return count

    def doubles_at(self) -> tuple[int, int]:
        """Skip a sequence of float64 and return its first byte and its number of elements."""
        count = self._count(0)
        if not count:
            return self.position, 0
        self.align(8)
        return self._skip(8 * count), count

    def doubles(self) -> NDArray[np.float64]:
        """Read a sequence of float64, shape (count,)."""
        start, count = self.doubles_at()
        found = np.frombuffer(self._data, self.order + 'f8', count, start)
        return found.astype(np.float64)

    def count(self) -> int:
        """Read the length of a sequence of structures, each of four bytes or more."""
        return self._count(4)

    def finish(self) -> None:
        """Check that nothing but padding is left.

        Raises:
            CdrError: More bytes are left than a middleware pads.
        """
        left = len(self._data) - self.position
        if left > _MOST_PADDING:
            msg = f'The message has {left} bytes more than its type'
            raise CdrError(msg)


def parse_each(parse: Callable[[bytes], T], messages: Sequence[bytes]) -> list[T]:
    """Parse all messages of a topic.

    Raises:
        CdrError: One of them does not fit its type; the error says which.
    """
    parsed: list[T] = []
    try:
        for message in messages:
            parsed.append(parse(message))  # noqa: PERF401 - its length names the bad message
    except CdrError as err:
        msg = f'message {len(parsed) + 1} of {len(messages)}: {err}'
        raise CdrError(msg) from err
    return parsed
