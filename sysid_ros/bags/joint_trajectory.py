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
from sysid_ros.bags.message_types import labels_for
from sysid_ros.signals.setpoints import SetpointPath

#: Arrays of a point to the fields that they become.
FIELDS = {
    'positions': 'position',
    'velocities': 'velocity',
    'accelerations': 'acceleration',
    'effort': 'effort',
}
_POINT = re.compile(r'points\[(\d+)\]\.(\w+)')
_UNIT_NS = {'sec': 1_000_000_000, 'nanosec': 1}


class _Block(NamedTuple):
    """Messages for the same joints, with the same number p of points.

    Attributes:
        joints: The joints.
        order: (m, 3) int64: sorted by these columns, messages are in the order of their receipt.
        receive_ns: (m,) int64, ns.
        stamp_ns: (m,) int64, ns; zero means the time of receipt.
        after_ns: (m, p) int64, each point's time from the start, ns.
        values: Field to labels and (m, p, k) values; NaN where a point does not have them.
    """

    joints: tuple[str, ...]
    order: NDArray[np.int64]
    receive_ns: NDArray[np.int64]
    stamp_ns: NDArray[np.int64]
    after_ns: NDArray[np.int64]
    values: dict[str, tuple[tuple[str, ...], NDArray[np.float64]]]


class Setpoints:
    """The path that the messages of a topic ask for."""

    def __init__(self, topic: str, msgtype: str) -> None:
        """Begin without messages."""
        self._topic = topic
        self._msgtype = msgtype
        self._blocks: list[_Block] = []
        self._count = 0

    def add(self, messages: Batch, tables: Iterable[MessageTable]) -> None:
        """Append messages; see :class:`~sysid_ros.bags.topic.MessageRows`."""
        for table in tables:
            received = messages.receive_ns[table.rows]
            numbers = self._count + table.rows
            order = np.stack([np.full_like(received, messages.file), received, numbers], axis=1)
            self._blocks.append(_block(table, received, order))
        self._count += len(messages.receive_ns)

    def finish(self) -> TopicColumns:
        """Return what was asked for, in the order of the times."""
        blocks = [block for block in self._blocks if block.after_ns.size and block.values]
        ranks = _ranks(blocks)
        paths = []
        for joints in {tuple(sorted(block.joints)): None for block in blocks}:
            members = [n for n, b in enumerate(blocks) if tuple(sorted(b.joints)) == joints]
            paths.append(_PointPath([blocks[n] for n in members], [ranks[n] for n in members]))
        held = all(path.only_jumps for path in paths)
        parts = [path.rows(held=held) for path in paths]
        nothing = np.empty(0, dtype=np.int64)
        received = np.concatenate([nothing, *(part[0] for part in parts)])
        stamped = np.concatenate([nothing, *(part[1] for part in parts)])
        order = np.lexsort((received, np.where(stamped, stamped, received)))
        fields = []
        for name in FIELDS.values():
            found = [(part[2].get(name, {}), len(part[0])) for part in parts]
            labels = tuple(dict.fromkeys(label for columns, _ in found for label in columns))
            if labels:
                values = [
                    np.stack([columns.get(label, np.full(n, np.nan)) for label in labels], axis=1)
                    for columns, n in found
                ]
                fields.append(Field(name, labels, np.concatenate(values)[order], not held))
        # Messages for other joints do not replace what is left of one.
        legs = None if held or len(parts) > 1 else parts[0][3][order]
        return TopicColumns(
            self._topic, self._msgtype, received[order], stamped[order], tuple(fields), legs
        )


class _PointPath:
    """What messages for the same joints ask for."""

    def __init__(self, blocks: Sequence[_Block], ranks: Sequence[NDArray[np.int64]]) -> None:
        """Follow them in the order of their ranks."""
        self._present = present = {name for block in blocks for name in block.values}
        # What is interpolated, then its derivatives; efforts are interpolated by themselves.
        motion = [name for name in FIELDS.values() if name != 'effort']
        self._chain = motion[next((n for n, name in enumerate(motion) if name in present), 3) :]
        self._labels = tuple(
            dict.fromkeys(at for block in blocks for own, _ in block.values.values() for at in own)
        )
        where, points = [], []
        for number, block in enumerate(blocks):
            where += [(number, row) for row in range(len(block.receive_ns))]
            points.append(self._points(block))
        self._receive_ns, self._stamp_ns, begin = (
            np.concatenate(parts)[np.argsort(np.concatenate(ranks))]
            for parts in (
                [block.receive_ns for block in blocks],
                [block.stamp_ns for block in blocks],
                [np.where(block.stamp_ns, block.stamp_ns, block.receive_ns) for block in blocks],
            )
        )
        self._begin_ns = begin
        self._path = SetpointPath()
        for time, index in zip(begin.tolist(), np.argsort(np.concatenate(ranks)), strict=True):
            number, row = where[index]
            self._path.follow(time, blocks[number].after_ns[row].tolist(), points[number][row])

    @property
    def only_jumps(self) -> bool:
        """Whether every message acts at once."""
        return self._path.only_jumps

    def rows(
        self, *, held: bool
    ) -> tuple[
        NDArray[np.int64],
        NDArray[np.int64],
        dict[str, dict[str, NDArray[np.float64]]],
        NDArray[np.int64],
    ]:
        """Return (n,) receive and header stamps, ns, field to label to its (n,) values, legs."""
        rows = self._path.rows(held=held)
        after = rows.times_ns - self._begin_ns[rows.trajectory]
        stamps = self._stamp_ns[rows.trajectory]
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
        received = self._receive_ns[rows.trajectory] + after
        return (
            received,
            np.where(stamps, stamps + after, 0),
            whole,
            np.stack([rows.trajectory, rows.leg], axis=1),
        )

    def _points(self, block: _Block) -> NDArray[np.float64]:
        """Return (m, p, 3, k) points: k joints, and once more for their efforts."""
        count = len(self._labels)
        shape = (*block.after_ns.shape, 3, count * (1 + ('effort' in self._present)))
        points = np.full(shape, np.nan)
        for name, (labels, values) in block.values.items():
            columns = [self._labels.index(label) for label in labels]
            if name == 'effort':
                points[:, :, 0, [count + column for column in columns]] = values
            else:
                points[:, :, self._chain.index(name), columns] = values
        return points


def _block(table: MessageTable, receive_ns: NDArray[np.int64], order: NDArray[np.int64]) -> _Block:
    """Take the points out of messages of one layout."""
    joints = table.layout.texts.get('joint_names', ())
    points: dict[int, NDArray[np.int64]] = {}
    found: dict[tuple[str, int], NDArray[np.generic]] = {}
    for part in table.layout.parts:
        match = _POINT.fullmatch(part.field)
        if match is None:
            continue
        point, numbers = int(match[1]), table.numbers(part)
        if match[2] in FIELDS:
            found[FIELDS[match[2]], point] = numbers
        else:
            units = np.array([_UNIT_NS[label] for label in part.labels])
            time = (numbers.astype(np.int64) * units).sum(axis=1)
            points[point] = points.get(point, 0) + time
    values = {}
    for name in FIELDS.values():
        width = max((found[key].shape[1] for key in found if key[0] == name), default=0)
        if width:
            filled = np.full((len(receive_ns), len(points), width), np.nan)
            for point in points:
                if (name, point) in found:
                    numbers = found[name, point]
                    filled[:, point, : numbers.shape[1]] = numbers
            values[name] = (labels_for(joints, width), filled)
    stamps = table.stamps_ns()
    after = [points[point] for point in sorted(points)]
    return _Block(
        joints,
        order,
        receive_ns,
        np.zeros_like(receive_ns) if stamps is None else stamps,
        np.stack(after, axis=1) if after else np.empty((len(receive_ns), 0), dtype=np.int64),
        values,
    )


def _ranks(blocks: Sequence[_Block]) -> list[NDArray[np.int64]]:
    """Return the place of each block's messages among all messages, (m,) each."""
    if not blocks:
        return []
    order = np.concatenate([block.order for block in blocks])
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[np.lexsort(order.T[::-1])] = np.arange(len(order))
    ends = np.cumsum([len(block.order) for block in blocks])
    return np.split(ranks, ends[:-1])
