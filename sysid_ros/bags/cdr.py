# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of messages in plain CDR, the encoding of ROS 2, by the thousand.

One message is walked through with its definition, which is that in the bag, or the one that ROS 2
ships. Messages of one topic nearly always have one layout: as long, with sequences and strings of
the same lengths. Then their numbers are columns of the table that the messages form below each
other, and only one of them has to be walked through. In plain CDR (OMG formal/02-06-51, 15.3), a
number stands at a multiple of its size from the start of the body. The end of a message is not
checked to the byte: middlewares pad messages to a multiple of four or eight.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore
from rosbags.typesys.msg import normalize_msgtype
from rosbags.typesys.store import Typestore

from sysid_ros.errors import BagError
from sysid_ros.vocabulary import SECOND_NS

#: Bytes of the encapsulation header; alignment is counted from behind it.
_ENCAPSULATION = 4
#: First two bytes of the encapsulation header to byte order.
_ORDERS = {b'\0\0': '>', b'\0\1': '<'}
#: A middleware pads to 8 bytes at most, and Fast DDS counts the alignment of 8-byte numbers in for
#: each empty sequence of them, too: a point of a trajectory has four.
_MOST_PADDING = 4 * 4 + 7
#: rosbag2's separator between the IDL definitions of a type and of the types inside it.
_IDL_SEPARATOR = '=' * 80 + '\n'
#: Primitive types to NumPy's codes without byte order; ``byte`` is signed for rosbags.
_CODES = {
    'bool': '?',
    'byte': 'i1',
    'char': 'u1',
    'int8': 'i1',
    'uint8': 'u1',
    'int16': 'i2',
    'uint16': 'u2',
    'int32': 'i4',
    'uint32': 'u4',
    'int64': 'i8',
    'uint64': 'u8',
    'float32': 'f4',
    'float64': 'f8',
}
#: A longer sequence is data (an image, a laser scan), not a column for each of its numbers.
MOST_NUMBERS = 256
#: No message has this many structures or numbers that somebody wants to see one by one.
MOST_PARTS = 65_536
#: Steps through messages of a topic that are like none before them: a minute of one's time is not
#: spent on a topic whose messages are all different.
MOST_STEPS = 1_000_000
_HEADER = 'std_msgs/msg/Header'
_STAMP = 'header.stamp'
#: How fields end that say how good others are.
_COVARIANCE = 'covariance'
#: What stands in a structure without members, as in std_msgs/Empty.
_NOTHING = 'structure_needs_at_least_one_member'


class CdrError(BagError):
    """The bytes of a message do not fit its type."""


class NoColumnsError(CdrError):
    """The messages are read, but what they hold makes no sensible columns."""


@functools.lru_cache(maxsize=1)
def known_types() -> Typestore:
    """Return the message definitions of ROS 2 Jazzy's common interfaces."""
    return get_typestore(Stores.ROS2_JAZZY)


class MessageType(NamedTuple):
    """A message type, and definitions in the bag, in the words of rosbags, by names of types."""

    name: str
    own: Mapping[str, Any]

    def members(self, structure: str) -> Sequence[tuple[str, tuple[Nodetype, Any]]]:
        """Return name and type of each member of a structure.

        Raises:
            CdrError: It is not defined.
        """
        # ROS 2's own are many: they are loaded when something is missing.
        found = self.own.get(structure) or known_types().fielddefs.get(structure)
        if found is None and not structure:
            raise CdrError('it has no schema, so that nobody knows what its messages are')
        if found is None:
            where = '' if structure == self.name else f' (in {self.name!r})'
            raise CdrError(f'there is no readable definition of message type {structure!r}{where}')
        members: Sequence[tuple[str, tuple[Nodetype, Any]]] = found[1]
        return members


@functools.lru_cache(maxsize=256)
def message_type(name: str, text: str = '', language: str = '') -> MessageType:
    """Return a type by its definition, or else by ROS 2 Jazzy's common interfaces.

    A text that cannot be read counts as absent; ``sensor_msgs/JointState`` means the same as with
    ``msg``.
    """
    name = normalize_msgtype(name) if name else ''
    own: dict[str, Any] = {}
    try:
        if text and language == 'ros2msg':
            own.update(get_types_from_msg(text, name))
        elif text.startswith(f'{_IDL_SEPARATOR}IDL: '):
            for part in text.split(_IDL_SEPARATOR)[1:]:
                own.update(get_types_from_idl(part.partition('\n')[2]))
        elif text:
            own.update(get_types_from_idl(text))
    # The parsers let through whatever a text that is no definition makes them stumble over.
    except Exception:  # noqa: BLE001
        own = {}
    return MessageType(name, own)


class NumberRun(NamedTuple):
    """Numbers of a message that stand one after the other."""

    field: str  # path of the field
    labels: tuple[str, ...]  # k labels, one per number
    start: int  # first byte in the message
    code: str  # NumPy's type of each number, with byte order

    @property
    def itemsize(self) -> int:
        """Bytes of one number."""
        return np.dtype(self.code).itemsize


class Layout(NamedTuple):
    """Where things are in messages that are alike."""

    parts: tuple[NumberRun, ...]  # the numbers, without those of the header
    #: Seconds and nanoseconds of the header's stamp; nothing without header.
    stamp: tuple[NumberRun, ...]
    texts: dict[str, tuple[str, ...]]  # path to the strings there; of a single string it has one
    #: First byte, and what must stand there in messages of this layout.
    fixed: tuple[tuple[int, bytes], ...]
    steps: int  # in how many steps the message was walked through


class _Walk:
    """One way through a message; what is met is collected."""

    def __init__(self, kind: MessageType, data: bytes, *, texts_matter: bool) -> None:
        order = _ORDERS.get(data[:2]) if len(data) >= _ENCAPSULATION else None
        if order is None:
            raise CdrError(f'Expected plain CDR, found a message that begins with {data[:4].hex()}')
        self.parts: list[NumberRun] = []
        self.header: list[NumberRun] = []
        self.texts: dict[str, list[str]] = {}
        # The encapsulation's second half is options that nobody reads.
        self.fixed = [(0, 2)]
        self._kind = kind
        self._data = data
        self._order = order
        self._position = _ENCAPSULATION
        self._texts_matter = texts_matter
        self._in_header = False
        self.steps = self._visited = 0

    def structure(self, name: str, path: str) -> None:
        """Walk through a structure."""
        # Those without numbers are counted, too: types inside types twice each grow without end.
        self._visited += 1
        if self._visited > MOST_PARTS or len(self.parts) > MOST_PARTS:
            raise NoColumnsError(f'it has more than {MOST_PARTS} parts, which are data')
        for member, (kind, detail) in self._kind.members(name):
            place = f'{path}.{member}' if path else member
            if kind == Nodetype.NAME:
                self._in_header |= not path and member == 'header' and detail == _HEADER
                self.structure(detail, place)
                self._in_header &= bool(path)
            elif kind == Nodetype.BASE and detail[0] == 'string':
                self._text(place)
            elif kind == Nodetype.BASE:
                where, label = (path, member) if path else (member, '')
                self._numbers(where, detail[0], (label,))
            else:
                self._several(kind, detail, place)

    def finish(self) -> None:
        """Check that nothing but padding is left."""
        left = len(self._data) - self._position
        if left > _MOST_PADDING:
            raise CdrError(f'The message has {left} bytes more than its type')

    def _several(self, kind: Nodetype, detail: Any, path: str) -> None:
        (inner_kind, inner), count = detail
        if kind == Nodetype.SEQUENCE:
            count = self._uint32()
            # Every element has one byte or more.
            if count > len(self._data) - self._position:
                raise CdrError(
                    f'A sequence of {count} elements does not fit into {len(self._data)} bytes'
                )
        if inner_kind == Nodetype.NAME:
            for index in range(count):
                self.structure(inner, f'{path}[{index}]')
        elif inner[0] == 'string':
            self.texts[path] = []
            for _ in range(count):
                self._text(path)
        elif count:
            if count > MOST_NUMBERS:
                raise NoColumnsError(f'{path} has {count} elements, which are data, not columns')
            self._numbers(path, inner[0], tuple(map(str, range(count))))

    def _uint32(self) -> int:
        """Read a length, which messages of this layout have in common."""
        start = self._skip(4, 1)
        self.fixed.append((start, start + 4))
        return int(struct.unpack_from(f'{self._order}I', self._data, start)[0])

    def _text(self, path: str) -> None:
        size = self._uint32()
        start = self._skip(1, size)
        if self._in_header:
            return
        text = self._data[start : start + max(size - 1, 0)].decode('utf-8', 'replace')
        self.texts.setdefault(path, []).append(text)
        if self._texts_matter:
            self.fixed.append((start, start + size))

    def _numbers(self, field: str, name: str, labels: tuple[str, ...]) -> None:
        if name not in _CODES:
            raise NoColumnsError(f'numbers of type {name} are not read')
        code = _CODES[name]
        start = self._skip(np.dtype(code).itemsize, len(labels))
        # How good values are is none, and drivers seldom know it.
        if _NOTHING in (field, *labels) or field.endswith(_COVARIANCE):
            return
        parts = self.header if self._in_header else self.parts
        # What stands side by side in one field, as the members of a vector, is one run.
        last = parts[-1] if parts else None
        if (
            last
            and (last.field, last.code) == (field, self._order + code)
            and last.start + len(last.labels) * last.itemsize == start
        ):
            parts[-1] = last._replace(labels=last.labels + labels)
        else:
            parts.append(NumberRun(field, labels, start, self._order + code))

    def _skip(self, size: int, count: int) -> int:
        """Move behind items of ``size`` bytes each and return where the first one begins."""
        self.steps += 1
        start = self._position + -(self._position - _ENCAPSULATION) % size
        if size * count > len(self._data) - start:
            raise CdrError(
                f'The message ends after {len(self._data)} bytes, in the middle of a field'
            )
        self._position = start + size * count
        return start


def find_layout(kind: MessageType, data: bytes, *, texts_matter: bool) -> Layout:
    """Walk through a message; where texts matter, messages with other strings have another layout.

    Raises:
        NoColumnsError: The message holds too much for columns.
        CdrError: The message does not fit its type, or there is no definition of it.
    """
    walk = _Walk(kind, data, texts_matter=texts_matter)
    try:
        walk.structure(kind.name, '')
    except RecursionError as err:
        raise CdrError(f'message type {kind.name!r} is nested without end') from err
    walk.finish()
    stamp = tuple(run for run in walk.header if run.field == _STAMP)
    fixed: list[list[int]] = []
    for start, end in walk.fixed:
        if fixed and fixed[-1][1] == start:
            fixed[-1][1] = end
        else:
            fixed.append([start, end])
    return Layout(
        parts=tuple(walk.parts),
        stamp=stamp,
        texts={path: tuple(texts) for path, texts in walk.texts.items()},
        fixed=tuple((start, data[start:end]) for start, end in fixed if end > start),
        steps=walk.steps,
    )


def text_of(data: bytes) -> str:
    """Return the text of a ``std_msgs/String``.

    Raises:
        CdrError: The message is not one.
    """
    layout = find_layout(message_type('std_msgs/msg/String'), data, texts_matter=True)
    return layout.texts['data'][0]


class Batch(NamedTuple):
    """Messages of one topic, somewhere in one buffer."""

    receive_ns: NDArray[np.int64]  # (n,) int64, ns
    buffer: NDArray[np.uint8]  # (bytes,) uint8
    starts: NDArray[np.int64]  # (n,) int64, first byte of each message in the buffer
    sizes: NDArray[np.int64]  # (n,) int64, bytes of each message
    #: (n,) int64, ns, 0 where the file does not say; None where it never does.
    sent_ns: NDArray[np.int64] | None = None
    file: int = 0  # number of the bag's file that they are from; messages are sorted within one

    @classmethod
    def of(
        cls,
        receive_ns: Sequence[int] | NDArray[np.int64],
        messages: Sequence[bytes],
        sent_ns: NDArray[np.int64] | None = None,
    ) -> Batch:
        """Put single messages, received and sent at (n,) ns, into one batch."""
        sizes = np.fromiter(map(len, messages), np.int64, len(messages))
        buffer = np.frombuffer(b''.join(messages), np.uint8)
        stamps = np.asarray(receive_ns, dtype=np.int64)
        return cls(stamps, buffer, np.cumsum(sizes) - sizes, sizes, sent_ns)

    def message(self, row: int) -> bytes:
        """Return one message."""
        start = int(self.starts[row])
        return self.buffer[start : start + int(self.sizes[row])].tobytes()


class MessageTable(NamedTuple):
    """Messages of one layout below each other."""

    rows: NDArray[np.int64]  # (m,) int64, which messages of the batch these are, increasing
    bytes: NDArray[np.uint8]  # (m, size) uint8
    layout: Layout  # where things are in each

    def numbers(self, run: NumberRun) -> NDArray[np.generic]:
        """Return the (m, k) numbers of a run in the type that they have in the message."""
        found = self.bytes[:, run.start : run.start + run.itemsize * len(run.labels)]
        # Any byte but zero is true.
        return found != 0 if run.code.endswith('?') else found.view(run.code)

    def stamps_ns(self) -> NDArray[np.int64] | None:
        """Return the (m,) stamps of the headers, ns, or None without header."""
        if not self.layout.stamp:
            return None
        seconds, nanoseconds = np.hstack(
            [self.numbers(run).astype(np.int64) for run in self.layout.stamp]
        ).T
        stamps: NDArray[np.int64] = seconds * SECOND_NS + nanoseconds
        return stamps


def split(found: Batch, kind: MessageType, *, texts_matter: bool) -> Iterator[MessageTable]:
    """Cut a batch of one message type into tables that together hold every message once.

    Raises:
        CdrError: A message does not fit the type.
    """
    for size in np.unique(found.sizes).tolist():
        rows = np.flatnonzero(found.sizes == size)
        table = sliding_window_view(found.buffer, size)[found.starts[rows]]
        while len(rows):
            layout = find_layout(kind, table[0].tobytes(), texts_matter=texts_matter)
            fits = np.ones(len(rows), dtype=bool)
            for start, content in layout.fixed:
                expected = np.frombuffer(content, np.uint8)
                fits &= (table[:, start : start + len(content)] == expected).all(axis=1)
            yield MessageTable(rows[fits], table[fits], layout)
            rows, table = rows[~fits], table[~fits]
