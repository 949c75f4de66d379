# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""sensor_msgs/JointState: joints by name.

Messages of one topic nearly always have one layout, so that they are cut out of a joined array;
where names, their order or the arrays that are filled change, each layout is a block of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.bags.columns import TopicColumns
from sysid_ros.bags.messages.cdr import HEADER, CdrError, Cursor
from sysid_ros.bags.messages.labels import Block, join, labels_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MSGTYPE = 'sensor_msgs/msg/JointState'
FIELDS = ('position', 'velocity', 'effort')

_STAMP = slice(HEADER, HEADER + 8)


class _Layout(NamedTuple):
    """Where things are in a message.

    Attributes:
        names: The joints.
        arrays: First byte and number of elements of each array, in the order of FIELDS.
        fixed: (length,) which bytes are the same in all messages of this layout.
        order: Byte order.
    """

    names: tuple[str, ...]
    arrays: tuple[tuple[int, int], ...]
    fixed: NDArray[np.bool_]
    order: str


def _layout(data: bytes) -> _Layout:
    cursor = Cursor(data)
    cursor.nanoseconds()
    size = cursor.uint32()
    frame = slice(cursor.position, cursor.position + size)
    cursor.position += size
    names = cursor.strings()
    arrays = tuple(cursor.doubles_at() for _ in FIELDS)
    cursor.finish()
    fixed = np.ones(len(data), dtype=bool)
    for free in (_STAMP, frame, slice(cursor.position, None), *cursor.padding):
        fixed[free] = False
    for start, count in arrays:
        fixed[start : start + 8 * count] = False
    return _Layout(names, arrays, fixed, cursor.order)


def _same_layout(
    messages: Sequence[bytes], rows: NDArray[np.int64], layout: _Layout
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the rows that have a layout, and their bytes, (m, length)."""
    first = messages[rows[0]]
    alike = np.array([row for row in rows if len(messages[row]) == len(first)], dtype=np.int64)
    table = np.frombuffer(b''.join([messages[row] for row in alike]), np.uint8)
    table = table.reshape(len(alike), len(first))
    equal = (table[:, layout.fixed] == table[0, layout.fixed]).all(axis=1)
    return alike[equal], table[equal]


def _numbers(table: NDArray[np.uint8], start: int, code: str, count: int) -> NDArray[np.generic]:
    size = np.dtype(code).itemsize
    return np.ascontiguousarray(table[:, start : start + size * count]).view(code)


def decode(topic: str, receive_ns: NDArray[np.int64], messages: Sequence[bytes]) -> TopicColumns:
    """Turn JointStates into columns by joint name.

    Args:
        topic: Name of the topic.
        receive_ns: (n,) ns.
        messages: n messages in CDR.

    Raises:
        CdrError: A message is not a JointState.
    """
    count = len(messages)
    header_ns = np.zeros(count, dtype=np.int64)
    blocks: dict[str, list[Block]] = {name: [] for name in FIELDS}
    left = np.arange(count)
    while len(left):
        try:
            layout = _layout(messages[left[0]])
        except CdrError as err:
            msg = f'message {left[0] + 1} of {count}: {err}'
            raise CdrError(msg) from err
        rows, table = _same_layout(messages, left, layout)
        seconds = _numbers(table, _STAMP.start, layout.order + 'i4', 1)[:, 0].astype(np.int64)
        rest = _numbers(table, _STAMP.start + 4, layout.order + 'u4', 1)[:, 0].astype(np.int64)
        header_ns[rows] = seconds * 1_000_000_000 + rest
        for name, (start, width) in zip(FIELDS, layout.arrays, strict=True):
            values = _numbers(table, start, layout.order + 'f8', width).astype(np.float64)
            blocks[name].append(Block(rows, labels_for(layout.names, width), values))
        left = np.setdiff1d(left, rows, assume_unique=True)
    fields = (join(name, blocks[name], count) for name in FIELDS)
    found = tuple(field for field in fields if field is not None)
    return TopicColumns(topic, MSGTYPE, receive_ns, header_ns, found)
