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

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.bags.columns import TopicColumns
from sysid_ros.bags.messages.cdr import Cursor, parse_each
from sysid_ros.bags.messages.labels import Block, join, labels_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MSGTYPE = 'trajectory_msgs/msg/JointTrajectory'
FIELDS = ('position', 'velocity', 'acceleration', 'effort')


class _Point(NamedTuple):
    """One point: ns after the start, and the four arrays in the order of FIELDS."""

    after_ns: int
    arrays: tuple[NDArray[np.float64], ...]


class _Message(NamedTuple):
    stamp_ns: int
    joints: tuple[str, ...]
    points: tuple[_Point, ...]


class _Row(NamedTuple):
    receive_ns: int
    header_ns: int
    joints: tuple[str, ...]
    point: _Point


def _message(data: bytes) -> _Message:
    cursor = Cursor(data)
    stamp = cursor.nanoseconds()
    cursor.string()
    joints = cursor.strings()
    points = []
    for _ in range(cursor.count()):
        arrays = tuple(cursor.doubles() for _ in FIELDS)
        points.append(_Point(cursor.nanoseconds(), arrays))
    cursor.finish()
    return _Message(stamp, joints, tuple(points))


def _rows(receive_ns: NDArray[np.int64], messages: Sequence[_Message]) -> list[_Row]:
    """Return the points that came into force, in the order of their times."""
    rows: list[_Row] = []
    superseded: dict[tuple[str, ...], int] = {}
    for received, message in zip(reversed(receive_ns.tolist()), reversed(messages), strict=True):
        base = message.stamp_ns or received
        limit = superseded.get(message.joints)
        kept = [point for point in message.points if limit is None or base + point.after_ns < limit]
        rows += [
            _Row(
                received + point.after_ns,
                message.stamp_ns + point.after_ns if message.stamp_ns else 0,
                message.joints,
                point,
            )
            for point in reversed(kept)
        ]
        if message.points:
            first = base + message.points[0].after_ns
            superseded[message.joints] = first if limit is None else min(limit, first)
    rows.reverse()
    return sorted(rows, key=lambda row: row.header_ns or row.receive_ns)


def decode(topic: str, receive_ns: NDArray[np.int64], messages: Sequence[bytes]) -> TopicColumns:
    """Turn trajectories into columns by joint name, one row per point.

    Args:
        topic: Name of the topic.
        receive_ns: (n,) ns.
        messages: n messages in CDR.

    Raises:
        CdrError: A message is not a JointTrajectory.
    """
    rows = _rows(receive_ns, parse_each(_message, messages))
    fields = []
    for index, name in enumerate(FIELDS):
        blocks = [
            Block(
                np.array([number]),
                labels_for(row.joints, len(row.point.arrays[index])),
                row.point.arrays[index][None],
            )
            for number, row in enumerate(rows)
        ]
        field = join(name, blocks, len(rows))
        if field is not None:
            fields.append(field)
    received = np.array([row.receive_ns for row in rows], dtype=np.int64)
    stamped = np.array([row.header_ns for row in rows], dtype=np.int64)
    return TopicColumns(topic, MSGTYPE, received, stamped, tuple(fields))
