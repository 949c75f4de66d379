# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Columns that grow while a bag is read.

They have room for as many messages as are announced; memory that is not written to is not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sysid_ros.bags.columns import Field, TopicColumns
from sysid_ros.bags.messages.layout import NoColumnsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from sysid_ros.bags.messages.batch import Table
    from sysid_ros.bags.messages.labels import Labeller
    from sysid_ros.bags.messages.layout import Layout, Part

#: A topic with more columns than this is not a table.
MOST_COLUMNS = 2048
_ROOM = 1024
_GROWTH = 1.5
#: Plans that are kept.
_REMEMBERED = 64
#: Where each part of a layout goes: field, columns there, part.
_Plan = list[tuple['_Growing', slice | list[int], 'Part']]


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
        self._fields: dict[str, _Growing] = {}
        # The layout stands beside its plan: without it, its id might come again.
        self._plans: dict[int, tuple[Layout, _Plan]] = {}
        self._sorted_from = 0
        self._in_order = True

    def add(self, receive_ns: NDArray[np.int64], tables: Iterable[Table]) -> None:
        """Append messages.

        Args:
            receive_ns: (n,) int64, ns.
            tables: The messages; together they have each row of n once.
        """
        start, end = self._count, self._count + len(receive_ns)
        self._make_room(end)
        self._receive[start:end] = receive_ns
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
        arrays: list[NDArray[Any]] = [self._receive, *(f.values for f in self._fields.values())]
        for array in arrays if self._header is None else [*arrays, self._header]:
            array[start : self._count] = array[start : self._count][order]

    def finish(self) -> TopicColumns:
        """Return the columns; nothing may be added afterwards."""
        self._resize(self._count)
        fields = tuple(
            Field(name, tuple(field.labels), field.values)
            for name, field in self._fields.items()
            if field.labels
        )
        return TopicColumns(self._topic, self._msgtype, self._receive, self._header, fields)

    def _put(self, table: Table, start: int, end: int) -> None:
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

    def _make_room(self, rows: int) -> None:
        if rows > self._room:
            self._resize(max(rows, int(self._room * _GROWTH)))

    def _resize(self, room: int) -> None:
        """Make room for so many rows, in place where the allocator can."""
        if room == self._room:
            return
        self._room = room
        self._receive.resize(room, refcheck=False)
        if self._header is not None:
            self._header.resize(room, refcheck=False)
        for field in self._fields.values():
            field.values.resize((room, field.values.shape[1]), refcheck=False)
