# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""std_msgs/Float64MultiArray: elements by index."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.bags.columns import TopicColumns
from sysid_ros.bags.messages.cdr import Cursor, parse_each
from sysid_ros.bags.messages.labels import Block, join, labels_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MSGTYPE = 'std_msgs/msg/Float64MultiArray'


def _data(message: bytes) -> NDArray[np.float64]:
    cursor = Cursor(message)
    for _ in range(cursor.count()):
        cursor.string()
        cursor.uint32()
        cursor.uint32()
    cursor.uint32()
    values = cursor.doubles()
    cursor.finish()
    return values


def decode(topic: str, receive_ns: NDArray[np.int64], messages: Sequence[bytes]) -> TopicColumns:
    """Turn arrays into columns '0', '1' …; the layout's dimensions and offset do not matter.

    Args:
        topic: Name of the topic.
        receive_ns: (n,) ns.
        messages: n messages in CDR.

    Raises:
        CdrError: A message is not a Float64MultiArray.
    """
    arrays = parse_each(_data, messages)
    widths = np.array([len(array) for array in arrays])
    blocks = []
    for width in np.unique(widths):
        rows = np.flatnonzero(widths == width)
        values = np.array([arrays[row] for row in rows])
        blocks.append(Block(rows, labels_for((), int(width)), values))
    field = join('data', blocks, len(messages))
    return TopicColumns(topic, MSGTYPE, receive_ns, None, (field,) if field else ())
