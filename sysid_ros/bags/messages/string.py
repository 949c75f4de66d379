# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""std_msgs/String: a text that is published once, as a robot description, or markers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.bags.columns import TextColumn
from sysid_ros.bags.messages.cdr import Cursor

if TYPE_CHECKING:
    from sysid_ros.bags.messages.batch import Batch

MSGTYPE = 'std_msgs/msg/String'


class TextReader:
    """Collects the texts of one topic; equal ones are kept once."""

    def __init__(self, topic: str) -> None:
        """Begin without messages."""
        self._topic = topic
        self._stamps: list[int] = []
        self._texts: list[str] = []
        self._known: dict[str, str] = {}
        self._file_start = 0

    def add(self, messages: Batch) -> None:
        """Append messages.

        Raises:
            CdrError: A message is not a String.
        """
        self._stamps += messages.receive_ns.tolist()
        for row in range(len(messages.sizes)):
            text = decode(messages.message(row))
            self._texts.append(self._known.setdefault(text, text))

    def end_file(self) -> None:
        """Sort what came since the last call by its receive stamps."""
        start, self._file_start = self._file_start, len(self._stamps)
        order = sorted(range(start, self._file_start), key=self._stamps.__getitem__)
        self._texts[start:] = [self._texts[row] for row in order]
        self._stamps[start:] = [self._stamps[row] for row in order]

    def finish(self) -> TextColumn:
        """Return the texts."""
        stamps = np.array(self._stamps, dtype=np.int64)
        return TextColumn(self._topic, stamps, tuple(self._texts))


def decode(message: bytes) -> str:
    """Return the text.

    Raises:
        CdrError: The message is not a String.
    """
    cursor = Cursor(message)
    text = cursor.string()
    cursor.finish()
    return text
