# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where the numbers of a message are, found by walking through one message with its definition.

The definition is that in the bag, or the one that ROS 2 ships. Messages of one topic nearly always
have one layout: as long, with sequences and strings of the same lengths. Then their numbers are
columns of the table that the messages form below each other. The encoding is plain CDR (OMG
formal/02-06-51, 15.3): a number stands at a multiple of its size from the start of the body. A
message may end with a few bytes more than its type has: middlewares pad.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from rosbags.interfaces import Nodetype
from rosbags.typesys import get_types_from_idl, get_types_from_msg
from rosbags.typesys.msg import normalize_msgtype

from sysid_ros.bags.messages.cdr import CdrError, Cursor
from sysid_ros.bags.output.files import known_types

if TYPE_CHECKING:
    from collections.abc import Mapping

#: rosbag2's separator between the IDL definitions of a type and of the types inside it.
_IDL_SEPARATOR = '=' * 80 + '\n'
_IDL_TITLE = 'IDL: '

#: A field's name and its type in the words of rosbags: a node type and what belongs to it.
Member = tuple[str, tuple[Nodetype, Any]]
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
#: A sequence of more bytes than this is data (an image, a cloud), not a column for each byte.
MOST_BYTES = 64
#: Nor is there a column for each number of a longer sequence (a laser scan).
MOST_NUMBERS = 256
#: No message has this many numbers that somebody wants to see one by one.
_MOST_PARTS = 65_536
#: No message type that somebody wrote is nested deeper.
_DEEPEST = 50
_HEADER = 'std_msgs/msg/Header'
_STAMP = 'header.stamp'
#: What stands in a structure without members, as in std_msgs/Empty.
_NOTHING = 'structure_needs_at_least_one_member'


class DefinitionError(CdrError):
    """There is no usable definition of a message type."""


class MessageType(NamedTuple):
    """A message type and all types inside it.

    Attributes:
        name: As ``sensor_msgs/msg/JointState``.
        structures: Name of each structure to its members, in order.
    """

    name: str
    structures: Mapping[str, tuple[Member, ...]]


@functools.lru_cache(maxsize=1024)
def message_type(name: str, text: str = '', encoding: str = '') -> MessageType:
    """Return a type by its definition, or else by ROS 2 Jazzy's common interfaces.

    Args:
        name: Name of the type; ``sensor_msgs/JointState`` means the same as with ``msg``.
        text: Definitions of the type and the types inside it, as bags embed them.
        encoding: Language of the text, ``ros2msg`` or ``ros2idl``; empty for no text.

    Raises:
        DefinitionError: The type or one inside it is not defined, or contains itself.
    """
    name = normalize_msgtype(name)
    own = _parsed(name, text, encoding)
    return MessageType(name, _collected(name, own))


def _parsed(name: str, text: str, encoding: str) -> dict[str, Any]:
    """Return the definitions in a text, or none where it cannot be read."""
    if not text:
        return {}
    try:
        if encoding == 'ros2msg':
            return dict(get_types_from_msg(text, name))
        if not text.startswith(_IDL_SEPARATOR + _IDL_TITLE):
            return dict(get_types_from_idl(text))
        types: dict[str, Any] = {}
        for part in text.split(_IDL_SEPARATOR)[1:]:
            types.update(get_types_from_idl(part.partition('\n')[2]))
    # The parsers let through whatever a text that is no definition makes them stumble over.
    except Exception:  # noqa: BLE001
        return {}
    return types


def _collected(name: str, own: Mapping[str, Any]) -> dict[str, tuple[Member, ...]]:
    found: dict[str, tuple[Member, ...]] = {}

    def collect(item: str, around: tuple[str, ...]) -> None:
        if item in around:
            msg = f'message type {item!r} contains itself'
            raise DefinitionError(msg)
        if len(around) > _DEEPEST:
            msg = f'message type {around[0]!r} is nested more than {_DEEPEST} deep'
            raise DefinitionError(msg)
        if item in found:
            return
        # ROS 2's own are many: they are loaded when something is missing.
        definition = own.get(item) or known_types().fielddefs.get(item)
        if definition is None:
            where = f' (in {around[0]!r})' if around else ''
            msg = f'there is no readable definition of message type {item!r}{where}'
            raise DefinitionError(msg)
        members = tuple(definition[1])
        for _, (kind, detail) in members:
            several = kind in (Nodetype.ARRAY, Nodetype.SEQUENCE)
            inner_kind, inner = detail[0] if several else (kind, detail)
            if inner_kind == Nodetype.NAME:
                collect(inner, (*around, item))
        found[item] = members

    collect(name, ())
    return found


class NoColumnsError(CdrError):
    """The messages are read, but what they hold makes no sensible columns."""


class NumberRun(NamedTuple):
    """Numbers of a message that stand one after the other.

    Attributes:
        field: Path of the field.
        labels: k labels, one per number.
        start: First byte in the message.
        code: NumPy's type of each number, with byte order.
    """

    field: str
    labels: tuple[str, ...]
    start: int
    code: str


class Layout(NamedTuple):
    """Where things are in messages that are alike.

    Attributes:
        size: Bytes of a message.
        parts: The numbers, without those of the header.
        stamp: Seconds and nanoseconds of the header's stamp; None without header.
        texts: Path to the strings there; of a single string it has one.
        fixed: First byte and end of what must be equal in messages of this layout.
    """

    size: int
    parts: tuple[NumberRun, ...]
    stamp: tuple[NumberRun, NumberRun] | None
    texts: dict[str, tuple[str, ...]]
    fixed: tuple[tuple[int, int], ...]


def find_layout(kind: MessageType, data: bytes, *, texts_matter: bool) -> Layout:
    """Walk through a message.

    Args:
        kind: Its type.
        data: The message in CDR.
        texts_matter: Messages with other strings have another layout; those of the header never
            matter.

    Raises:
        NoColumnsError: The message holds too much for columns.
        CdrError: The message does not fit its type.
    """
    walk = _Walk(kind, data, texts_matter=texts_matter)
    walk.structure(kind.name, '')
    walk.cursor.finish()
    stamp = [part for part in walk.header if part.field == _STAMP]
    return Layout(
        size=len(data),
        parts=_merged(walk.parts),
        stamp=(stamp[0], stamp[1]) if len(stamp) == 2 else None,  # noqa: PLR2004 (sec, nanosec)
        texts={path: tuple(texts) for path, texts in walk.texts.items()},
        fixed=_ranges(walk.fixed),
    )


class _Walk:
    """One way through a message; what is met is collected."""

    def __init__(self, kind: MessageType, data: bytes, *, texts_matter: bool) -> None:
        self.cursor = Cursor(data)
        self.parts: list[NumberRun] = []
        self.header: list[NumberRun] = []
        self.texts: dict[str, list[str]] = {}
        # The encapsulation's second half is options that nobody reads.
        self.fixed = [(0, 2)]
        self._structures = kind.structures
        self._texts_matter = texts_matter
        self._in_header = False
        self._visited = 0

    def structure(self, name: str, path: str) -> None:
        """Walk through a structure."""
        # Those without numbers are counted, too: types inside types twice each grow without end.
        self._visited += 1
        if self._visited > _MOST_PARTS:
            msg = f'it has more than {_MOST_PARTS} structures, which are data, not columns'
            raise NoColumnsError(msg)
        for member, (kind, detail) in self._structures[name]:
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

    def _several(self, kind: Nodetype, detail: Any, path: str) -> None:
        (inner_kind, inner), count = detail
        if kind == Nodetype.SEQUENCE:
            self.cursor.align(4)
            start = self.cursor.position
            count = self.cursor.count()
            self.fixed.append((start, start + 4))
        if inner_kind == Nodetype.NAME:
            for index in range(count):
                self.structure(inner, f'{path}[{index}]')
        elif inner[0] == 'string':
            self.texts[path] = []
            for _ in range(count):
                self._text(path)
        elif count:
            code = _code(inner[0])
            most = MOST_BYTES if code in {'i1', 'u1'} else MOST_NUMBERS
            if count > most:
                msg = f'{path} has {count} elements, which are data, not columns'
                raise NoColumnsError(msg)
            self._numbers(path, inner[0], tuple(map(str, range(count))))

    def _text(self, path: str) -> None:
        self.cursor.align(4)
        start = self.cursor.position
        text = self.cursor.string()
        if self._in_header:
            self.fixed.append((start, start + 4))
            return
        self.texts.setdefault(path, []).append(text)
        self.fixed.append((start, self.cursor.position if self._texts_matter else start + 4))

    def _numbers(self, field: str, name: str, labels: tuple[str, ...]) -> None:
        code = _code(name)
        start = self.cursor.skip_numbers(_size(code), len(labels))
        if _NOTHING in (field, *labels):
            return
        part = NumberRun(field, labels, start, self.cursor.order + code)
        (self.header if self._in_header else self.parts).append(part)
        if len(self.parts) > _MOST_PARTS:
            msg = f'it has more than {_MOST_PARTS} numbers, which are data, not columns'
            raise NoColumnsError(msg)


def _code(name: str) -> str:
    if name not in _CODES:
        msg = f'numbers of type {name} are not read'
        raise NoColumnsError(msg)
    return _CODES[name]


def _size(code: str) -> int:
    return 1 if code.endswith('?') else int(code[-1])


def _merged(parts: list[NumberRun]) -> tuple[NumberRun, ...]:
    """Join what stands side by side in one field: the members of a vector."""
    merged: list[NumberRun] = []
    for part in parts:
        if merged:
            last = merged[-1]
            end = last.start + len(last.labels) * itemsize(last)
            if (last.field, last.code, end) == (part.field, part.code, part.start):
                merged[-1] = last._replace(labels=last.labels + part.labels)
                continue
        merged.append(part)
    return tuple(merged)


def itemsize(part: NumberRun) -> int:
    """Return the bytes of one number of a part."""
    return _size(part.code)


def _ranges(pieces: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Join ranges that touch."""
    joined: list[tuple[int, int]] = []
    for start, end in pieces:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return tuple(joined)
