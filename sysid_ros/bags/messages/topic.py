# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From the messages of one topic to its columns, block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sysid_ros.bags.messages import (
    controller_state,
    dynamic_joint_state,
    float64_multi_array,
    joint_state,
    joint_trajectory,
    tf_message,
)
from sysid_ros.bags.messages.batch import Splitter, batch
from sysid_ros.bags.messages.columns import Columns
from sysid_ros.bags.messages.definitions import message_type
from sysid_ros.bags.messages.layout import NoColumnsError
from sysid_ros.bags.messages.not_numbers import REASONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from sysid_ros.bags.columns import TopicColumns
    from sysid_ros.bags.messages.batch import Batch, Table
    from sysid_ros.bags.messages.labels import Labeller

_MODULES = (controller_state, dynamic_joint_state, float64_multi_array, joint_state, tf_message)
#: Message type to what names its columns; other types are named by their definition alone.
#: A new type is a new module and a word in the line above.
LABELLERS: Mapping[str, Labeller] = {
    msgtype: module.label for module in _MODULES for msgtype in module.MSGTYPES
}


class _Rows(Protocol):
    """What collects the rows of a topic: one per message, or others."""

    def add(self, receive_ns: NDArray[np.int64], tables: Iterable[Table], /) -> None:
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
        self._by_point = msgtype == joint_trajectory.MSGTYPE
        self._rows: _Rows = (
            joint_trajectory.Setpoints(topic, msgtype)
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
            if self._msgtype in REASONS:
                raise NoColumnsError(REASONS[self._msgtype])
            kind = message_type(self._msgtype, definition, encoding)
            splitter = Splitter(kind, texts_matter=self._by_point or self._label is not None)
            self._splitters[definition, encoding] = splitter
        self._rows.add(messages.receive_ns, splitter.split(messages))

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
