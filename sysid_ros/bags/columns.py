# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a bag holds, as columns of numbers with their stamps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Field:
    """One numeric field of a message type, over all messages of a topic.

    Attributes:
        name: Field of the message: ``position``, ``velocity``, ``effort``, ``data`` …
        labels: k labels, one per column: joint names, or ``'0'``, ``'1'`` … where the message
            carries none.
        values: (n, k) float64; NaN where a message did not carry the value.
    """

    name: str
    labels: tuple[str, ...]
    values: NDArray[np.float64]


@dataclass(frozen=True)
class TopicColumns:
    """All messages of one topic.

    Attributes:
        topic: Name of the topic.
        msgtype: Its type, as ``sensor_msgs/msg/JointState``.
        receive_ns: (n,) int64, when the recorder received each message, ns since the epoch.
        header_ns: (n,) int64, ``header.stamp`` of each message, or None when the type has no
            header. A stamp of zero stays zero here.
        fields: The numeric fields that messages of this topic carry.
    """

    topic: str
    msgtype: str
    receive_ns: NDArray[np.int64]
    header_ns: NDArray[np.int64] | None
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class UnreadTopic:
    """A topic that was not turned into columns, and why."""

    topic: str
    msgtype: str
    count: int
    reason: str


@dataclass(frozen=True)
class BagColumns:
    """A bag's numeric content.

    Attributes:
        path: Folder or file that was read.
        topics: Topics with columns, sorted by name.
        unread: Topics without, sorted by name.
        texts: Topic and text of each ``std_msgs/String`` latched in the bag
            (``/robot_description`` …), the first message of each topic.
    """

    path: Path
    topics: tuple[TopicColumns, ...]
    unread: tuple[UnreadTopic, ...]
    texts: tuple[tuple[str, str], ...] = ()
