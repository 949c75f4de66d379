# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""trajectory_msgs/JointTrajectory: setpoints by joint name.

Each point is one row, at the time of its message plus the point's ``time_from_start``; both stamps
of the row are shifted, and a header stamp of zero ("now") stays zero. A message replaces what is
left of the one before it, as in joint_trajectory_controller: points of earlier messages at or after
the first point of a later one for the same joints never came into force and are left out.
Between points, commands are held: what a controller interpolates is not in the message.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.bags.columns import Field, TopicColumns
from sysid_ros.bags.messages.message_types import labels_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from sysid_ros.bags.messages.batch import MessageTable

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

    def times_ns(self) -> NDArray[np.int64]:
        """Return when each point is to be reached, (m, p), ns."""
        return np.where(self.stamp_ns, self.stamp_ns, self.receive_ns)[:, None] + self.after_ns


class Setpoints:
    """One row per point that came into force."""

    def __init__(self, topic: str, msgtype: str) -> None:
        """Begin without messages."""
        self._topic = topic
        self._msgtype = msgtype
        self._blocks: list[_Block] = []
        self._count = 0
        self._files = 0

    def add(self, receive_ns: NDArray[np.int64], tables: Iterable[MessageTable]) -> None:
        """Append messages; see :class:`~sysid_ros.bags.messages.topic.Columns`."""
        for table in tables:
            received = receive_ns[table.rows]
            numbers = self._count + table.rows
            order = np.stack([np.full_like(received, self._files), received, numbers], axis=1)
            self._blocks.append(_block(table, received, order))
        self._count += len(receive_ns)

    def sort(self) -> None:
        """Begin the next file: what is added from now on comes after what is there."""
        self._files += 1

    def finish(self) -> TopicColumns:
        """Return the points that came into force, in the order of their times."""
        blocks = [block for block in self._blocks if block.after_ns.size]
        ranks = _ranks(blocks)
        kept = _in_force(blocks, ranks)
        received = _rows(kept, [block.receive_ns[:, None] + block.after_ns for block in blocks])
        stamped = _rows(
            kept,
            [
                np.where(block.stamp_ns[:, None], block.stamp_ns[:, None] + block.after_ns, 0)
                for block in blocks
            ],
        )
        rank = _rows(
            kept, [np.broadcast_to(r[:, None], k.shape) for r, k in zip(ranks, kept, strict=True)]
        )
        point = _rows(kept, [np.broadcast_to(np.arange(k.shape[1]), k.shape) for k in kept])
        order = np.lexsort((point, rank, np.where(stamped, stamped, received)))
        fields = (_field(name, blocks, kept, order) for name in FIELDS.values())
        return TopicColumns(
            self._topic,
            self._msgtype,
            received[order],
            stamped[order],
            tuple(field for field in fields if field is not None),
        )


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


def _in_force(
    blocks: Sequence[_Block], ranks: Sequence[NDArray[np.int64]]
) -> list[NDArray[np.bool_]]:
    """Tell which points came into force, (m, p) per block."""
    times = [block.times_ns() for block in blocks]
    kept: list[NDArray[np.bool_]] = [np.empty((0, 0), dtype=bool)] * len(blocks)
    for joints in {block.joints: None for block in blocks}:
        members = [index for index, block in enumerate(blocks) if block.joints == joints]
        rank = np.concatenate([ranks[index] for index in members])
        order = np.argsort(rank)
        first = np.concatenate([times[index][:, 0] for index in members])[order]
        # The earliest beginning among all later messages.
        limit = np.full(len(first), np.iinfo(np.int64).max)
        limit[:-1] = np.minimum.accumulate(first[::-1])[::-1][1:]
        limits = np.empty_like(limit)
        limits[order] = limit
        ends = np.cumsum([len(times[index]) for index in members])
        for index, part in zip(members, np.split(limits, ends[:-1]), strict=True):
            kept[index] = times[index] < part[:, None]
    return kept


def _rows(
    kept: Sequence[NDArray[np.bool_]], values: Sequence[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Return what is kept of (m, p) values of all blocks, one after the other."""
    parts = [value[mask] for mask, value in zip(kept, values, strict=True)]
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def _field(
    name: str,
    blocks: Sequence[_Block],
    kept: Sequence[NDArray[np.bool_]],
    order: NDArray[np.int64],
) -> Field | None:
    """Join a field of all blocks; a block without it is NaN."""
    labels = dict.fromkeys(
        label for block in blocks if name in block.values for label in block.values[name][0]
    )
    if not labels:
        return None
    column = {label: index for index, label in enumerate(labels)}
    values = np.full((len(order), len(labels)), np.nan)
    start = 0
    for block, mask in zip(blocks, kept, strict=True):
        end = start + int(mask.sum())
        if name in block.values:
            own, numbers = block.values[name]
            values[start:end, [column[label] for label in own]] = numbers[mask]
        start = end
    return Field(name, tuple(labels), values[order])
