# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""trajectory_msgs/JointTrajectory: setpoints by joint name, as a controller executes them.

A trajectory begins at its header stamp, or when it was received where that is zero ("now"). Each
point is reached its ``time_from_start`` later; between points the controller interpolates, and a
message replaces what is left of the one before it for the same joints
(:mod:`~sysid_ros.signals.setpoints`). Rows are the corners of that path, and samples of what is
bent; both stamps of a row are shifted, and a header stamp of zero stays zero. Where every message
acts at once, there is one row per message and it holds until the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.bags.cdr import Batch, MessageTable
from sysid_ros.bags.columns import Field, TopicColumns
from sysid_ros.bags.message_types import JOINT_TRAJECTORY, labels_for
from sysid_ros.signals.setpoints import SetpointPath

#: Arrays of a point to the fields that they become: each but the last is the derivative of the one
#: before; efforts are interpolated by themselves.
FIELDS = {
    'positions': 'position',
    'velocities': 'velocity',
    'accelerations': 'acceleration',
    'effort': 'effort',
}
_MOTION = list(FIELDS.values())[:3]
_POINT = re.compile(r'points\[(\d+)\]\.(\w+)')
_UNIT_NS = {'sec': 1_000_000_000, 'nanosec': 1}


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
    """The path that the messages of a topic ask for."""

    def __init__(self, topic: str) -> None:
        """Begin without messages."""
        self._topic = topic
        self._messages: list[tuple[int, _Message]] = []
        self._count = 0

    def add(self, messages: Batch, tables: Iterable[MessageTable]) -> None:
        """Append messages; see :class:`~sysid_ros.bags.topic.MessageRows`."""
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
        parts = [item.rows(held=held) for item in paths]
        nothing = np.empty(0, dtype=np.int64)
        received = np.concatenate([nothing, *(part.receive_ns for part in parts)])
        stamped = np.concatenate([nothing, *(part.stamp_ns for part in parts)])
        order = np.lexsort((received, np.where(stamped, stamped, received)))
        fields = []
        for name in FIELDS.values():
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

    def rows(self, *, held: bool) -> _Rows:
        """Return the corners of the path, and samples of what is bent."""
        rows = self.path.rows(held=held)
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
        if match[2] in FIELDS:
            found.setdefault(FIELDS[match[2]], {})[point] = numbers
        else:
            units = np.array([_UNIT_NS[label] for label in part.labels])
            after[point] = after.get(point, 0) + (numbers.astype(np.int64) * units).sum(axis=1)
    if not after or not found:
        return []
    values = {}
    for name in filter(found.__contains__, FIELDS.values()):
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
