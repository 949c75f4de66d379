# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From the messages of one topic to its columns, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sysid_ros.bags.cdr import (
    Batch,
    Layout,
    MessageTable,
    NoColumnsError,
    NumberRun,
    message_type,
    split,
    text_of,
)
from sysid_ros.bags.columns import Field, TextColumn, TopicColumns
from sysid_ros.bags.joint_trajectory import Setpoints
from sysid_ros.bags.message_types import (
    JOINT_TRAJECTORY,
    NOT_NUMBERS,
    Labeller,
    is_interpolated,
    labeller,
)

#: A topic with more columns than this is not a table.
_MOST_COLUMNS = 2048
_NONE: NDArray[np.int64] = np.empty(0, dtype=np.int64)


class MessageRows:
    """One row per message."""

    def __init__(self, topic: str, msgtype: str, label: Labeller | None) -> None:
        """Begin without messages; ``label`` names the columns beyond the definition."""
        self._topic = topic
        self._msgtype = msgtype
        self._label = label
        self._count = 0
        self._receive: list[NDArray[np.int64]] = []
        self._sent: list[NDArray[np.int64]] = []
        self._files: list[NDArray[np.int64]] = []
        self._headers: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        # Field to its labels in the order of their appearance, and to rows, labels, and values.
        self._labels: dict[str, dict[str, int]] = {}
        self._values: dict[
            str, list[tuple[NDArray[np.int64], tuple[str, ...], NDArray[np.float64]]]
        ] = {}
        # The layout stands beside its runs: without it, its id might come again.
        self._labelled: dict[int, tuple[Layout, tuple[NumberRun, ...]]] = {}

    def add(self, messages: Batch, tables: Iterable[MessageTable]) -> None:
        """Append messages; together, the tables have each of them once."""
        count = len(messages.receive_ns)
        self._receive.append(messages.receive_ns)
        self._sent.append(
            np.zeros(count, np.int64) if messages.sent_ns is None else messages.sent_ns
        )
        self._files.append(np.full(count, messages.file))
        for table in tables:
            rows = self._count + table.rows
            stamps = table.stamps_ns()
            if stamps is not None:
                self._headers.append((rows, stamps))
            for run in self._runs(table.layout):
                values = table.numbers(run).astype(np.float64)
                self._values.setdefault(run.field, []).append((rows, run.labels, values))
        self._count += count

    def finish(self) -> TopicColumns:
        """Return the columns, sorted by receive stamps within each file."""
        received = np.concatenate([_NONE, *self._receive])
        order = np.lexsort((received, np.concatenate([_NONE, *self._files])))
        place = np.empty_like(order)
        place[order] = np.arange(self._count)
        header = np.zeros(self._count, dtype=np.int64)
        for rows, stamps in self._headers:
            header[place[rows]] = stamps
        sent = np.concatenate([_NONE, *self._sent])[order]
        fields = []
        for name, labels in self._labels.items():
            values = np.full((self._count, len(labels)), np.nan)
            # Values are let go as they are taken: a long bag fills much of the memory.
            for rows, own, found in self._values.pop(name):
                columns = [labels[label] for label in own]
                one_run = columns == list(range(columns[0], columns[0] + len(columns)))
                if one_run:
                    values[place[rows], columns[0] : columns[-1] + 1] = found
                else:
                    values[place[rows][:, None], columns] = found
            fields.append(Field(name, tuple(labels), values, is_interpolated(self._msgtype, name)))
        return TopicColumns(
            self._topic,
            self._msgtype,
            received[order],
            header if self._headers else None,
            tuple(fields),
            sent_ns=sent if sent.any() else None,
        )

    def _runs(self, layout: Layout) -> tuple[NumberRun, ...]:
        """Return the numbers of a layout with the fields and labels of their columns."""
        known = self._labelled.get(id(layout))
        if known is not None:
            return known[1]
        runs = tuple(self._label(layout.parts, layout.texts) if self._label else layout.parts)
        for run in runs:
            labels = self._labels.setdefault(run.field, {})
            for label in run.labels:
                labels.setdefault(label, len(labels))
            if sum(map(len, self._labels.values())) > _MOST_COLUMNS:
                raise NoColumnsError(
                    f'its messages have more than {_MOST_COLUMNS} different numbers'
                )
        self._labelled[id(layout)] = (layout, runs)
        return runs


class TextReader:
    """Collects the texts of one topic; equal ones are kept once."""

    def __init__(self, topic: str, _: str) -> None:
        """Begin without messages."""
        self._topic = topic
        self._found: list[tuple[int, int, str]] = []
        self._known: dict[str, str] = {}

    def add(self, messages: Batch, *_: str) -> None:
        """Append messages.

        Raises:
            CdrError: A message is not a String.
        """
        for row, stamp in enumerate(messages.receive_ns.tolist()):
            text = text_of(messages.message(row))
            self._found.append((messages.file, stamp, self._known.setdefault(text, text)))

    def finish(self) -> TextColumn:
        """Return the texts, sorted by receive stamps within each file."""
        found = sorted(self._found, key=lambda item: item[:2])
        stamps = np.array([stamp for _, stamp, _ in found], dtype=np.int64)
        return TextColumn(self._topic, stamps, tuple(text for *_, text in found))


class TopicReader:
    """Makes columns of one topic's messages."""

    def __init__(self, topic: str, msgtype: str) -> None:
        """Begin without messages."""
        self._msgtype = msgtype
        label = labeller(msgtype)
        by_point = msgtype == JOINT_TRAJECTORY
        self._texts_matter = by_point or label is not None
        self._rows: Setpoints | MessageRows = (
            Setpoints(topic) if by_point else MessageRows(topic, msgtype, label)
        )

    def add(self, messages: Batch, definition: str = '', language: str = '') -> None:
        """Append messages.

        Args:
            messages: The next messages.
            definition: Definition of their type, where the bag has one.
            language: Its language, ``ros2msg`` or ``ros2idl``.

        Raises:
            CdrError: A message does not fit its type, or the type makes no columns.
        """
        if self._msgtype in NOT_NUMBERS:
            raise NoColumnsError(NOT_NUMBERS[self._msgtype])
        kind = message_type(self._msgtype, definition, language)
        tables = [*split(messages, kind, texts_matter=self._texts_matter)]
        self._rows.add(messages, sorted(tables, key=lambda table: int(table.rows[0])))

    def finish(self) -> TopicColumns:
        """Return the columns; nothing may be added afterwards."""
        return self._rows.finish()
