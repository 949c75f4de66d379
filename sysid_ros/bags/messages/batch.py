# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Messages by the thousand: cut into tables whose rows have one layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from sysid_ros.bags.messages.cdr import CdrError
from sysid_ros.bags.messages.layout import find_layout, itemsize

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from sysid_ros.bags.messages.layout import Layout, MessageType, NumberRun

#: Layouts that are tried on messages of one size before one of the messages is walked through.
_REMEMBERED = 32
_WORD = 8
_SECOND_NS = 1_000_000_000


class Batch(NamedTuple):
    """Messages of one topic, somewhere in one buffer.

    Attributes:
        receive_ns: (n,) int64, ns.
        buffer: (bytes,) uint8.
        starts: (n,) int64, first byte of each message in the buffer.
        sizes: (n,) int64, bytes of each message.
        sent_ns: (n,) int64, ns, 0 where the file does not say; None where it never does.
    """

    receive_ns: NDArray[np.int64]
    buffer: NDArray[np.uint8]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    sent_ns: NDArray[np.int64] | None = None

    def message(self, row: int) -> bytes:
        """Return one message."""
        start = int(self.starts[row])
        return self.buffer[start : start + int(self.sizes[row])].tobytes()


def batch(
    receive_ns: Sequence[int] | NDArray[np.int64],
    messages: Sequence[bytes],
    sent_ns: NDArray[np.int64] | None = None,
) -> Batch:
    """Put single messages, received and sent at (n,) ns, into one batch."""
    sizes = np.fromiter(map(len, messages), np.int64, len(messages))
    buffer = np.frombuffer(b''.join(messages), np.uint8)
    stamps = np.asarray(receive_ns, dtype=np.int64)
    return Batch(stamps, buffer, np.cumsum(sizes) - sizes, sizes, sent_ns)


class MessageTable(NamedTuple):
    """Messages of one layout below each other.

    Attributes:
        rows: (m,) int64, which messages of the batch these are, increasing.
        bytes: (m, layout.size) uint8.
        layout: Where things are in each.
    """

    rows: NDArray[np.int64]
    bytes: NDArray[np.uint8]
    layout: Layout

    def numbers(self, part: NumberRun) -> NDArray[np.generic]:
        """Return the (m, k) numbers of a part in the type that they have in the message."""
        end = part.start + itemsize(part) * len(part.labels)
        found = self.bytes[:, part.start : end]
        # Any byte but zero is true.
        return found != 0 if part.code.endswith('?') else found.view(part.code)

    def stamps_ns(self) -> NDArray[np.int64] | None:
        """Return the (m,) stamps of the headers, ns, or None without header."""
        if self.layout.stamp is None:
            return None
        seconds, nanoseconds = (
            self.numbers(part)[:, 0].astype(np.int64) for part in self.layout.stamp
        )
        return seconds * _SECOND_NS + nanoseconds


class _Known(NamedTuple):
    """A layout, and how its messages are recognised.

    Attributes:
        layout: The layout.
        checks: First and last column of bytes that are compared, the words that must be there and
            which of their bits matter.
    """

    layout: Layout
    checks: tuple[tuple[slice, NDArray[np.unsignedinteger], NDArray[np.unsignedinteger]], ...]


class Splitter:
    """Cuts batches of one message type into tables; it remembers the layouts that it has seen."""

    def __init__(self, kind: MessageType, *, texts_matter: bool) -> None:
        """Begin without layouts; see :func:`find_layout` for the arguments."""
        self._kind = kind
        self._before = 0
        self._texts_matter = texts_matter
        self._known: dict[int, list[_Known]] = {}

    def split(self, found: Batch) -> list[MessageTable]:
        """Return tables that together hold every message once, in the order of their first ones.

        Raises:
            CdrError: A message does not fit the type; the error begins with ``message 3:``.
        """
        sizes = found.sizes
        tables: list[MessageTable] = []
        if (sizes == sizes[:1]).all():
            tables += self._alike(found, np.arange(len(sizes)))
        else:
            for size in np.unique(sizes):
                tables += self._alike(found, np.flatnonzero(sizes == size))
        self._before += len(sizes)
        return sorted(tables, key=lambda table: int(table.rows[0]))

    def _alike(self, found: Batch, rows: NDArray[np.int64]) -> Iterator[MessageTable]:
        """Split messages of one size."""
        if not len(rows):
            return
        size = int(found.sizes[rows[0]])
        table = _table(found, rows, size)
        known = self._known.setdefault(size, [])
        candidates = iter(tuple(known))
        while len(rows):
            candidate = next(candidates, None)
            if candidate is None:
                candidate = self._walk(found, int(rows[0]))
                known.insert(0, candidate)
                del known[_REMEMBERED:]
            fits = _fits(table, candidate)
            if fits.all():
                yield MessageTable(rows, table, candidate.layout)
                return
            if fits.any():
                yield MessageTable(rows[fits], table[fits], candidate.layout)
                rows, table = rows[~fits], table[~fits]

    def _walk(self, found: Batch, row: int) -> _Known:
        data = found.message(row)
        try:
            layout = find_layout(self._kind, data, texts_matter=self._texts_matter)
        except CdrError as err:
            msg = f'message {self._before + row + 1}: {err}'
            raise type(err)(msg) from err
        return _Known(layout, tuple(_checks(layout, data)))


def _table(found: Batch, rows: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    """Return the (m, size) bytes of messages of one size, as a view where they are evenly apart."""
    starts = found.starts if len(rows) == len(found.starts) else found.starts[rows]
    windows = sliding_window_view(found.buffer, size)
    if len(starts) > 1:
        step = int(starts[1] - starts[0])
        if step > 0 and (np.diff(starts) == step).all():
            return windows[starts[0] : starts[-1] + 1 : step]
    return windows[starts]


def _fits(table: NDArray[np.uint8], known: _Known) -> NDArray[np.bool_]:
    fits = np.ones(len(table), dtype=bool)
    for place, expected, mask in known.checks:
        words = table[:, place].view(expected.dtype)
        fits &= ~((words ^ expected) & mask).any(axis=1)
    return fits


def _checks(
    layout: Layout, data: bytes
) -> Iterator[tuple[slice, NDArray[np.unsignedinteger], NDArray[np.unsignedinteger]]]:
    """Yield what is compared: neighbouring pieces together, in words of eight bytes."""
    mask = np.zeros(layout.size, dtype=np.uint8)
    groups: list[list[int]] = []
    for start, end in layout.fixed:
        mask[start:end] = 0xFF
        if groups and start - groups[-1][1] <= _WORD:
            groups[-1][1] = end
        else:
            groups.append([start, end])
    content = np.frombuffer(data, np.uint8)
    for start, end in groups:
        width = -(-(end - start) // _WORD) * _WORD
        begin = min(start, layout.size - width)
        whole = begin >= 0
        place = slice(begin, begin + width) if whole else slice(start, end)
        code = np.dtype(np.uint64 if whole else np.uint8)
        yield place, content[place].view(code), mask[place].view(code)
