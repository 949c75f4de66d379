# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From the messages of a bag to its columns, topic by topic and batch by batch."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.bags import BagColumns, Field, TextColumn, TopicColumns, UnreadTopic
from sysid_ros.bags.budget import MOST_COLUMNS, DamagedFileError
from sysid_ros.bags.cdr import (
    MOST_STEPS,
    Batch,
    CdrError,
    Layout,
    MessageTable,
    NoColumnsError,
    NumberRun,
    message_type,
    split,
    text_of,
)
from sysid_ros.bags.message_types import (
    JOINT_STATE,
    JOINT_TRAJECTORY,
    NOT_NUMBERS,
    TEXT,
    Labeller,
    canonical,
    is_interpolated,
    labeller,
    labels_for,
)
from sysid_ros.bags.storage import BagMessages, Topic
from sysid_ros.bags.tables import read_tables, table_files
from sysid_ros.errors import BagError, nearest
from sysid_ros.signals.setpoints import SetpointPath
from sysid_ros.vocabulary import SECOND_NS

#: Arrays of a point to the fields that they become: each but the last is the derivative of the one
#: before; efforts are interpolated by themselves.
_FIELDS = {
    'positions': 'position',
    'velocities': 'velocity',
    'accelerations': 'acceleration',
    'effort': 'effort',
}
_MOTION = list(_FIELDS.values())[:3]
_POINT = re.compile(r'points\[(\d+)\]\.(\w+)')
_UNIT_NS = {'sec': SECOND_NS, 'nanosec': 1}


class _Message(NamedTuple):
    """A trajectory with p points."""

    #: Number of the file, and receive stamp, ns.
    order: tuple[int, int]
    #: Stamp of the header; zero means the time of receipt.
    stamp_ns: int
    joints: tuple[str, ...]
    #: (p,) times from the start.
    after_ns: NDArray[np.int64]
    #: Field to labels and (p, k) values; NaN where a point does not have them.
    values: dict[str, tuple[tuple[str, ...], NDArray[np.float64]]]

    @property
    def begin_ns(self) -> int:
        """When it begins, ns."""
        return self.stamp_ns or self.order[1]


class Setpoints:
    """The path that the JointTrajectory messages of a topic ask for, as a controller executes it.

    A trajectory begins at its header stamp, or when it was received where that is zero ("now").
    Each point is reached its ``time_from_start`` later; between points the controller interpolates,
    and a message replaces what is left of the one before it for the same joints. Rows are the
    corners of that path, and samples of what is bent; both stamps of a row are shifted, and a
    header stamp of zero stays zero. Where every message acts at once, there is one row per message
    and it holds until the next.
    """

    def __init__(self, topic: str, take: Take) -> None:
        """Begin without messages."""
        self._topic = topic
        self._take = take
        self._messages: list[tuple[int, _Message]] = []
        self._count = 0

    def add(self, messages: Batch, tables: Iterable[MessageTable]) -> None:
        """Append messages; see :class:`~sysid_ros.bags.reader.MessageRows`."""
        for table in tables:
            numbers = (self._count + table.rows).tolist()
            self._messages += zip(numbers, _messages(messages, table), strict=False)
        self._count += len(messages.receive_ns)

    def finish(self) -> TopicColumns:
        """Return what was asked for, in the order of the times."""
        in_order = sorted(self._messages, key=lambda item: (item[1].order, item[0]))
        groups: dict[tuple[str, ...], list[_Message]] = {}
        for _, message in in_order:
            groups.setdefault(tuple(sorted(message.joints)), []).append(message)
        paths = [_PointPath(group) for group in groups.values()]
        held = all(item.path.only_jumps for item in paths)
        parts = [item.rows(held=held, take=self._take) for item in paths]
        nothing = np.empty(0, dtype=np.int64)
        received = np.concatenate([nothing, *(part.receive_ns for part in parts)])
        stamped = np.concatenate([nothing, *(part.stamp_ns for part in parts)])
        order = np.lexsort((received, np.where(stamped, stamped, received)))
        fields = []
        for name in _FIELDS.values():
            found = [(part.columns.get(name, {}), len(part.receive_ns)) for part in parts]
            labels = tuple(dict.fromkeys(label for columns, _ in found for label in columns))
            if labels:
                values = [
                    np.stack([columns.get(label, np.full(n, np.nan)) for label in labels], axis=1)
                    for columns, n in found
                ]
                fields.append(Field(name, labels, np.concatenate(values)[order], not held))
        # Messages for other joints do not replace what is left of one.
        legs = None if held or len(parts) > 1 else parts[0].legs[order]
        return TopicColumns(
            self._topic, JOINT_TRAJECTORY, received[order], stamped[order], tuple(fields), legs
        )


class _Rows(NamedTuple):
    """Rows of a path: (n,) stamps, ns, field to label to (n,) values, (n, 2) messages and legs."""

    receive_ns: NDArray[np.int64]
    stamp_ns: NDArray[np.int64]
    columns: dict[str, dict[str, NDArray[np.float64]]]
    legs: NDArray[np.int64]


class _PointPath:
    """What messages for the same joints ask for."""

    def __init__(self, messages: Sequence[_Message]) -> None:
        """Follow them in their order."""
        self._messages = messages
        self._present = {name for message in messages for name in message.values}
        # What is interpolated, then its derivatives.
        first = next((n for n, name in enumerate(_MOTION) if name in self._present), 3)
        self._chain = _MOTION[first:]
        self._labels = tuple(
            dict.fromkeys(
                label for message in messages for own, _ in message.values.values() for label in own
            )
        )
        self.path = SetpointPath()
        for message in messages:
            self.path.follow(message.begin_ns, message.after_ns.tolist(), self._points(message))

    def rows(self, *, held: bool, take: Take) -> _Rows:
        """Return the corners of the path, and samples of what is bent."""
        rows = self.path.rows(held=held, take=take)
        times = [(item.begin_ns, item.order[1], item.stamp_ns) for item in self._messages]
        begin, received, stamps = np.array(times, dtype=np.int64)[rows.trajectory].T
        after = rows.times_ns - begin
        columns = {
            name: dict(zip(self._labels, rows.states[:, order].T, strict=False))
            for order, name in enumerate(self._chain)
            if name in self._present
        }
        if 'effort' in self._present:
            efforts = rows.states[:, 0, -len(self._labels) :]
            columns['effort'] = dict(zip(self._labels, efforts.T, strict=True))
        whole = {
            name: {label: column for label, column in found.items() if np.isfinite(column).any()}
            for name, found in columns.items()
        }
        legs = np.stack([rows.trajectory, rows.leg], axis=1)
        return _Rows(received + after, np.where(stamps, stamps + after, 0), whole, legs)

    def _points(self, message: _Message) -> NDArray[np.float64]:
        """Return (p, 3, k) points: k joints, and once more for their efforts."""
        count = len(self._labels)
        width = count * (1 + ('effort' in self._present))
        points = np.full((len(message.after_ns), 3, width), np.nan)
        for name, (labels, values) in message.values.items():
            columns = [self._labels.index(label) for label in labels]
            if name == 'effort':
                points[:, 0, [count + column for column in columns]] = values
            else:
                points[:, self._chain.index(name), columns] = values
        return points


def _messages(batch: Batch, table: MessageTable) -> list[_Message]:
    """Return messages of one layout; none where they have no points, or points without values."""
    joints = table.layout.texts.get('joint_names', ())
    after: dict[int, NDArray[np.int64]] = {}
    found: dict[str, dict[int, NDArray[np.generic]]] = {}
    for part in table.layout.parts:
        match = _POINT.fullmatch(part.field)
        if match is None:
            continue
        point, numbers = int(match[1]), table.numbers(part)
        if match[2] in _FIELDS:
            found.setdefault(_FIELDS[match[2]], {})[point] = numbers
        else:
            units = np.array([_UNIT_NS[label] for label in part.labels])
            after[point] = after.get(point, 0) + (numbers.astype(np.int64) * units).sum(axis=1)
    if not after or not found:
        return []
    values = {}
    for name in filter(found.__contains__, _FIELDS.values()):
        width = max(numbers.shape[1] for numbers in found[name].values())
        filled = np.full((len(table.rows), len(after), width), np.nan)
        for point, numbers in found[name].items():
            filled[:, point, : numbers.shape[1]] = numbers
        values[name] = (labels_for(joints, width), filled)
    received = batch.receive_ns[table.rows].tolist()
    stamps = table.stamps_ns()
    after_ns = np.stack([after[point] for point in sorted(after)], axis=1)
    return [
        _Message(
            (batch.file, received[row]),
            0 if stamps is None else int(stamps[row]),
            joints,
            after_ns[row],
            {name: (labels, filled[row]) for name, (labels, filled) in values.items()},
        )
        for row in range(len(received))
    ]


#: Told how many bytes are to be kept; raises where that is too much.
Take = Callable[[int], object]
_NONE: NDArray[np.int64] = np.empty(0, dtype=np.int64)


class MessageRows:
    """One row per message."""

    def __init__(self, topic: str, msgtype: str, label: Labeller | None, take: Take) -> None:
        """Begin without messages; ``label`` names the columns beyond the definition."""
        self._take, self._taken = take, 0
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
        self._names = 'name' if canonical(msgtype) == JOINT_STATE else ''
        self._unlike_names: dict[str, int] = {}

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
            names = table.layout.texts.get(self._names, ())
            for run in self._runs(table.layout):
                if any(names) and len(run.labels) != len(names):
                    already = self._unlike_names.get(run.field, 0)
                    self._unlike_names[run.field] = already + len(rows)
                values = table.numbers(run).astype(np.float64)
                self._values.setdefault(run.field, []).append((rows, run.labels, values))
        self._count += count
        # A message may carry one of many labels, and has a place for each.
        size = self._count * sum(map(len, self._labels.values())) * np.dtype(np.float64).itemsize
        self._take(size - self._taken)
        self._taken = size

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
            interpolated = is_interpolated(self._msgtype, name)
            unlike = self._unlike_names.get(name, 0)
            fields.append(Field(name, tuple(labels), values, interpolated, unlike_names=unlike))
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
            if sum(map(len, self._labels.values())) > MOST_COLUMNS:
                raise NoColumnsError(
                    f'its messages have more than {MOST_COLUMNS} different numbers'
                )
        self._labelled[id(layout)] = (layout, runs)
        return runs


class TextReader:
    """Collects the texts of one topic; equal ones are kept once."""

    def __init__(self, topic: str, _: str, take: Take) -> None:
        """Begin without messages."""
        self._topic = topic
        self._take = take
        self._found: list[tuple[int, int, str]] = []
        self._known: dict[str, str] = {}

    def add(self, messages: Batch, *_: str) -> None:
        """Append messages.

        Raises:
            CdrError: A message is not a String.
        """
        for row, stamp in enumerate(messages.receive_ns.tolist()):
            text = text_of(messages.message(row))
            self._take(len(text))
            self._found.append((messages.file, stamp, self._known.setdefault(text, text)))

    def finish(self) -> TextColumn:
        """Return the texts, sorted by receive stamps within each file."""
        found = sorted(self._found, key=lambda item: item[:2])
        stamps = np.array([stamp for _, stamp, _ in found], dtype=np.int64)
        return TextColumn(self._topic, stamps, tuple(text for *_, text in found))


class TopicReader:
    """Makes columns of one topic's messages."""

    def __init__(self, topic: str, msgtype: str, take: Take = lambda _: None) -> None:
        """Begin without messages; ``take`` is told how many bytes are to be kept, and may raise."""
        self._msgtype = msgtype
        self._steps = 0
        label = labeller(msgtype)
        by_point = msgtype == JOINT_TRAJECTORY
        self._texts_matter = by_point or label is not None
        self._rows: Setpoints | MessageRows = (
            Setpoints(topic, take) if by_point else MessageRows(topic, msgtype, label, take)
        )

    def add(self, messages: Batch, definition: str = '', language: str = '') -> None:
        """Append messages.

        Raises:
            CdrError: A message does not fit its type, or the type makes no columns.
        """
        if self._msgtype in NOT_NUMBERS:
            raise NoColumnsError(NOT_NUMBERS[self._msgtype])
        kind = message_type(self._msgtype, definition, language)
        tables = []
        for table in split(messages, kind, texts_matter=self._texts_matter):
            tables.append(table)
            self._steps += table.layout.steps
            if self._steps > MOST_STEPS:
                raise NoColumnsError('its messages are too different from each other')
        self._rows.add(messages, sorted(tables, key=lambda table: int(table.rows[0])))

    def finish(self) -> TopicColumns:
        """Return the columns; nothing may be added afterwards."""
        return self._rows.finish()


def read_bag(path: Path, topics: Collection[str] | None = None) -> BagColumns:
    """Read the numbers and texts of a bag.

    Args:
        path: A rosbag2 folder with or without metadata, one of its storage files (``.mcap`` or
            ``.db3``, also compressed as ``.zstd``), or a ROS 1 ``.bag``; a CSV file, a folder of
            such, or an episode of a LeRobot dataset, see `tables`. An unfinished MCAP file is
            read up to its last whole chunk.
        topics: Topics to read, or patterns such as ``*/robot_description``, which may match none;
            all by default.

    Returns:
        Columns by topic. Rows are in the order of the receive stamps within each file, files in the
        order of the recording; where the recorder's clock was set back, receive times go on.

    Raises:
        BagError: There is no bag, or it is damaged or empty, or it has none of a topic.
    """
    path = Path(path)
    if table_files(path):
        return read_tables(path, topics)

    def is_asked(topic: str) -> bool:
        return topics is None or any(fnmatchcase(topic, name) for name in topics)

    def is_needed(topic: Topic) -> bool:
        return is_asked(topic.name) and (topic.name, topic.msgtype) not in refused

    bag = BagMessages(path)
    counts: dict[tuple[str, str], int] = {}
    readers: dict[tuple[str, str], TopicReader | TextReader] = {}
    refused: dict[tuple[str, str], str] = {}
    for topic, messages in bag.batches(is_needed):
        key = topic.name, topic.msgtype
        counts[key] = counts.get(key, 0) + len(messages.sizes)
        if not topic.is_cdr:
            refused[key] = f'messages are serialized as {topic.serialization!r}, expected cdr'
            continue
        try:
            if key not in readers:
                kind = TextReader if topic.msgtype == TEXT else TopicReader
                readers[key] = kind(*key, bag.budget.take)
            readers[key].add(messages, topic.definition, topic.language)
        except (CdrError, DamagedFileError) as err:
            refused[key] = str(err)
            readers.pop(key, None)
    _check_topics(bag, topics, empty=not counts)
    columns = _finish(readers, refused)
    made = {key for key in counts if key not in refused}
    unread = []
    for key in sorted({(topic.name, topic.msgtype) for topic in bag.topics} - made):
        absent = 'no messages' if is_asked(key[0]) else 'it was not asked for'
        unread.append(UnreadTopic(*key, counts.get(key, 0), refused.get(key, absent)))
    return BagColumns(
        path,
        tuple(item for item in columns if not isinstance(item, TextColumn)),
        tuple(unread),
        bag.facts,
        tuple(item for item in columns if isinstance(item, TextColumn)),
        tuple(bag.onward.set_back),
        tuple(bag.unfinished),
        tuple(bag.unlisted),
    )


def _finish(
    readers: dict[tuple[str, str], TopicReader | TextReader], refused: dict[tuple[str, str], str]
) -> list[TopicColumns | TextColumn]:
    """Return the columns of all topics, sorted by name; say of which they would be too much."""
    columns = []
    for key in sorted(readers):
        try:
            # A reader is let go as its columns are made: a long bag fills much of the memory.
            columns.append(readers.pop(key).finish())
        except DamagedFileError as err:
            refused[key] = str(err)
    return columns


def _check_topics(bag: BagMessages, asked: Collection[str] | None, *, empty: bool) -> None:
    """Complain about topics that are not in a bag, and about one without messages."""
    known = sorted({topic.name for topic in bag.topics})
    for name in asked or ():
        if '*' not in name and name not in known:
            raise BagError(
                f'The bag {str(bag.path)!r} has no topic {name!r}; {nearest(name, known)}.'
            )
    if empty and asked is None:
        names = ', '.join(known) or 'none'
        raise BagError(f'The bag {str(bag.path)!r} holds no messages; its topics: {names}.')
