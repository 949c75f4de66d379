# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A position in plain CDR, the encoding of ROS 2 messages, little or big endian.

The message's end is not checked to the byte: middlewares pad messages to a multiple of four or
eight, and such messages are genuine.
"""

from __future__ import annotations

import struct

from sysid_ros.errors import BagError

#: Bytes of the encapsulation header; alignment is counted from behind it.
HEADER = 4
#: First two bytes of the encapsulation header to byte order.
_ORDERS = {b'\0\0': '>', b'\0\1': '<'}
#: A middleware pads to 8 bytes at most, and Fast DDS counts the alignment of 8-byte numbers in for
#: each empty sequence of them, too: a point of a trajectory has four.
_MOST_PADDING = 4 * 4 + 7
_UINT32 = {order: struct.Struct(order + 'I') for order in _ORDERS.values()}


class CdrError(BagError):
    """The bytes of a message do not fit its type."""


class Cursor:
    """A position in one CDR message.

    Attributes:
        position: Byte that is read next.
        order: Byte order, '<' or '>', as in ``struct`` and in NumPy's type names.
    """

    def __init__(self, data: bytes) -> None:
        """Stand behind the encapsulation header.

        Raises:
            CdrError: The message is not in plain CDR.
        """
        order = _ORDERS.get(bytes(data[:2])) if len(data) >= HEADER else None
        if order is None:
            msg = f'Expected plain CDR, found a message that begins with {data[:HEADER].hex()!r}'
            raise CdrError(msg)
        self._data = data
        self._uint32 = _UINT32[order]
        self.position = HEADER
        self.order = order

    def align(self, size: int) -> None:
        """Move on to a multiple of ``size`` bytes from the start of the body."""
        self.position += -(self.position - HEADER) % size

    def uint32(self) -> int:
        """Read a uint32."""
        start = self.skip_numbers(4, 1)
        return int(self._uint32.unpack_from(self._data, start)[0])

    def skip_numbers(self, size: int, count: int) -> int:
        """Move behind numbers of ``size`` bytes each and return where the first one begins."""
        self.align(size)
        return self._skip(size * count)

    def string(self) -> str:
        """Read a string."""
        size = self.uint32()
        start = self._skip(size)
        return self._data[start : start + max(size - 1, 0)].decode('utf-8', 'replace')

    def count(self) -> int:
        """Read the length of a sequence, whose elements have one byte or more."""
        count = self.uint32()
        if count > len(self._data) - self.position:
            msg = f'A sequence of {count} elements does not fit into {len(self._data)} bytes'
            raise CdrError(msg)
        return count

    def finish(self) -> None:
        """Check that nothing but padding is left.

        Raises:
            CdrError: More bytes are left than a middleware pads.
        """
        left = len(self._data) - self.position
        if left > _MOST_PADDING:
            msg = f'The message has {left} bytes more than its type'
            raise CdrError(msg)

    def _skip(self, size: int) -> int:
        start = self.position
        if size > len(self._data) - start:
            msg = f'The message ends after {len(self._data)} bytes, in the middle of a field'
            raise CdrError(msg)
        self.position += size
        return start
