# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From the messages of one topic to its columns, block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sysid_ros.bags.columns import Field, TextColumn, TopicColumns
from sysid_ros.bags.messages.batch import Splitter, batch
from sysid_ros.bags.messages.cdr import Cursor
from sysid_ros.bags.messages.joint_trajectory import Setpoints
from sysid_ros.bags.messages.layout import NoColumnsError, message_type
from sysid_ros.bags.messages.message_types import (
    JOINT_TRAJECTORY,
    LABELLERS,
    NOT_NUMBERS,
    is_interpolated,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from sysid_ros.bags.messages.batch import Batch, MessageTable
    from sysid_ros.bags.messages.layout import Layout, NumberRun
    from sysid_ros.bags.messages.message_types import Labeller

#: A topic with more columns than this is not a table.
MOST_COLUMNS = 2048
_ROOM = 1024
_GROWTH = 1.5
#: Plans that are kept.
_REMEMBERED = 64
#: Where each part of a layout goes: field, columns there, part.
_Plan = list[tuple['_Growing', slice | list[int], 'NumberRun']]


class _Growing:
    """The values of one field, (room, k), with labels in order of first appearance."""

    def __init__(self, room: int) -> None:
        self.labels: dict[str, int] = {}
        self.values: NDArray[np.float64] = np.empty((room, 0))

    def columns(self, labels: Sequence[str], rows: int) -> slice | list[int]:
        """Return the columns of labels; new ones are NaN in the first ``rows`` rows."""
        new = [label for label in labels if label not in self.labels]
        if new:
            for label in new:
                self.labels[label] = len(self.labels)
            before = self.values
            self.values = np.empty((len(before), len(self.labels)))
            self.values[:rows, : before.shape[1]] = before[:rows]
            self.values[:rows, before.shape[1] :] = np.nan
        found = [self.labels[label] for label in labels]
        one_run = found == list(range(found[0], found[0] + len(found)))
        return slice(found[0], found[0] + len(found)) if one_run else found


class Columns:
    """One row per message."""

    def __init__(self, topic: str, msgtype: str, announced: int, label: Labeller | None) -> None:
        """Make room.

        Args:
            topic: Name of the topic.
            msgtype: Its type.
            announced: Messages that are expected; more or fewer may come.
            label: What names the columns beyond the definition.
        """
        self._topic = topic
        self._msgtype = msgtype
        self._label = label
        self._room = announced or _ROOM
        self._count = 0
        self._receive: NDArray[np.int64] = np.empty(self._room, dtype=np.int64)
        self._header: NDArray[np.int64] | None = None
        self._sent: NDArray[np.int64] | None = None
        self._fields: dict[str, _Growing] = {}
        # The layout stands beside its plan: without it, its id might come again.
        self._plans: dict[int, tuple[Layout, _Plan]] = {}
        self._sorted_from = 0
        self._in_order = True

    def add(self, messages: Batch, tables: Iterable[MessageTable]) -> None:
        """Append messages.

        Args:
            messages: When each was received and sent.
            tables: What is in them; together they have each message once.
        """
        start, end = self._count, self._count + len(messages.receive_ns)
        if end > self._room:
            self._resize(max(end, int(self._room * _GROWTH)))
        self._receive[start:end] = messages.receive_ns
        if messages.sent_ns is not None and messages.sent_ns.any():
            if self._sent is None:
                self._sent = np.zeros(self._room, dtype=np.int64)
            self._sent[start:end] = messages.sent_ns
        before = self._receive[max(start - 1, self._sorted_from) : end]
        self._in_order = self._in_order and bool((before[1:] >= before[:-1]).all())
        for table in tables:
            self._put(table, start, end)
        self._count = end

    def sort(self) -> None:
        """Bring what was added since the last call into the order of the receive stamps."""
        start, self._sorted_from = self._sorted_from, self._count
        if self._in_order:
            return
        self._in_order = True
        order = np.argsort(self._receive[start : self._count], kind='stable')
        stamps = [known for known in (self._header, self._sent) if known is not None]
        arrays: list[NDArray[Any]] = [self._receive, *(f.values for f in self._fields.values())]
        for array in [*arrays, *stamps]:
            array[start : self._count] = array[start : self._count][order]

    def finish(self) -> TopicColumns:
        """Return the columns; nothing may be added afterwards."""
        self._resize(self._count)
        fields = tuple(
            Field(name, tuple(field.labels), field.values, is_interpolated(self._msgtype, name))
            for name, field in self._fields.items()
            if field.labels
        )
        return TopicColumns(
            self._topic, self._msgtype, self._receive, self._header, fields, sent_ns=self._sent
        )

    def _put(self, table: MessageTable, start: int, end: int) -> None:
        plan = self._plan(table.layout, end)
        whole = len(table.rows) == end - start
        rows = slice(start, end) if whole else start + table.rows
        stamps = table.stamps_ns()
        if stamps is not None:
            if self._header is None:
                self._header = np.zeros(self._room, dtype=np.int64)
            self._header[rows] = stamps
        filled: dict[int, int] = {}
        for field, _, part in plan:
            filled[id(field)] = filled.get(id(field), 0) + len(part.labels)
        for field in self._fields.values():
            if filled.get(id(field)) != len(field.labels):
                field.values[rows] = np.nan
        for field, columns, part in plan:
            if isinstance(rows, slice) or isinstance(columns, slice):
                field.values[rows, columns] = table.numbers(part)
            else:
                field.values[rows[:, None], columns] = table.numbers(part)

    def _plan(self, layout: Layout, rows: int) -> _Plan:
        known = self._plans.get(id(layout))
        if known is not None:
            return known[1]
        parts = layout.parts if self._label is None else self._label(layout.parts, layout.texts)
        plan: _Plan = []
        for part in parts:
            field = self._fields.setdefault(part.field, _Growing(self._room))
            plan.append((field, field.columns(part.labels, rows), part))
            if sum(len(item.labels) for item in self._fields.values()) > MOST_COLUMNS:
                msg = f'its messages have more than {MOST_COLUMNS} different numbers'
                raise NoColumnsError(msg)
        if len(self._plans) >= _REMEMBERED:
            self._plans.clear()
        self._plans[id(layout)] = (layout, plan)
        return plan

    def _resize(self, room: int) -> None:
        """Make room for so many rows, in place where the allocator can."""
        if room == self._room:
            return
        self._room = room
        self._receive.resize(room, refcheck=False)
        for stamps in (self._header, self._sent):
            if stamps is not None:
                stamps.resize(room, refcheck=False)
        for field in self._fields.values():
            field.values.resize((room, field.values.shape[1]), refcheck=False)


class TextReader:
    """Collects the texts of one topic; equal ones are kept once."""

    def __init__(self, topic: str) -> None:
        """Begin without messages."""
        self._topic = topic
        self._stamps: list[int] = []
        self._texts: list[str] = []
        self._known: dict[str, str] = {}
        self._file_start = 0

    def add(self, messages: Batch) -> None:
        """Append messages.

        Raises:
            CdrError: A message is not a String.
        """
        self._stamps += messages.receive_ns.tolist()
        for row in range(len(messages.sizes)):
            text = decode_text(messages.message(row))
            self._texts.append(self._known.setdefault(text, text))

    def end_file(self) -> None:
        """Sort what came since the last call by its receive stamps."""
        start, self._file_start = self._file_start, len(self._stamps)
        order = sorted(range(start, self._file_start), key=self._stamps.__getitem__)
        self._texts[start:] = [self._texts[row] for row in order]
        self._stamps[start:] = [self._stamps[row] for row in order]

    def finish(self) -> TextColumn:
        """Return the texts."""
        stamps = np.array(self._stamps, dtype=np.int64)
        return TextColumn(self._topic, stamps, tuple(self._texts))


def decode_text(message: bytes) -> str:
    """Return the text.

    Raises:
        CdrError: The message is not a String.
    """
    cursor = Cursor(message)
    text = cursor.string()
    cursor.finish()
    return text


class _Rows(Protocol):
    """What collects the rows of a topic: one per message, or others."""

    def add(self, messages: Batch, tables: Iterable[MessageTable], /) -> None:
        """Append messages."""

    def sort(self) -> None:
        """End what comes from one file."""

    def finish(self) -> TopicColumns:
        """Return the columns."""


class TopicReader:
    """Makes columns of one topic's messages."""

    def __init__(self, topic: str, msgtype: str, announced: int = 0) -> None:
        """Begin without messages.

        Args:
            topic: Name of the topic.
            msgtype: Its type.
            announced: Messages that are expected, to make room for.
        """
        self._msgtype = msgtype
        self._splitters: dict[tuple[str, str], Splitter] = {}
        self._label = LABELLERS.get(msgtype)
        self._by_point = msgtype == JOINT_TRAJECTORY
        self._rows: _Rows = (
            Setpoints(topic, msgtype)
            if self._by_point
            else Columns(topic, msgtype, announced, self._label)
        )

    def add(self, messages: Batch, definition: str = '', encoding: str = '') -> None:
        """Append messages.

        Args:
            messages: The next messages.
            definition: Definition of their type, where the bag has one.
            encoding: Its language, ``ros2msg`` or ``ros2idl``.

        Raises:
            CdrError: A message does not fit its type, or the type makes no columns.
        """
        splitter = self._splitters.get((definition, encoding))
        if splitter is None:
            if self._msgtype in NOT_NUMBERS:
                raise NoColumnsError(NOT_NUMBERS[self._msgtype])
            kind = message_type(self._msgtype, definition, encoding)
            splitter = Splitter(kind, texts_matter=self._by_point or self._label is not None)
            self._splitters[definition, encoding] = splitter
        self._rows.add(messages, splitter.split(messages))

    def end_file(self) -> None:
        """Sort what came since the last call by its receive stamps, as files are read by others."""
        self._rows.sort()

    def finish(self) -> TopicColumns:
        """Return the columns; nothing may be added afterwards."""
        return self._rows.finish()


def decode(
    topic: str,
    msgtype: str,
    receive_ns: Sequence[int] | NDArray[np.int64],
    messages: Sequence[bytes],
    definition: str = '',
    encoding: str = 'ros2msg',
) -> TopicColumns:
    """Turn messages into columns.

    Args:
        topic: Name of the topic.
        msgtype: Its type.
        receive_ns: (n,) ns.
        messages: n messages in CDR.
        definition: Definition of the type, where it is not one of the common interfaces.
        encoding: Language of the definition, ``ros2msg`` or ``ros2idl``.

    Raises:
        CdrError: A message does not fit its type, or the type makes no columns.
    """
    reader = TopicReader(topic, msgtype, len(messages))
    reader.add(batch(receive_ns, messages), definition, encoding)
    return reader.finish()
