# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The last seconds of messages, kept in memory until somebody asks for a bag of them."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from sysid_ros.bags.recording import Recording
from sysid_ros.errors import BagError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from sysid_ros.bags.recording import Summary, TopicSpec
    from sysid_ros.config import Storage

#: Memory that the messages take at most, bytes; a recording's queue holds as much and more.
MOST_BYTES = 256 << 20
#: Memory of a message beside its data, bytes.
_OVERHEAD = 250


class _Message(NamedTuple):
    at: float
    topic: str
    receive_ns: int
    cdr: bytes
    sent_ns: int


class Snapshot:
    """Keeps the messages of the last seconds.

    Any thread may call the methods.
    """

    def __init__(
        self,
        seconds: float,
        *,
        most_bytes: int = MOST_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin without any message.

        Args:
            seconds: How long a message is kept.
            most_bytes: Memory that messages take at most; the oldest go first.
            clock: Tells the time by which messages grow old, seconds.
        """
        self.seconds = seconds
        self._most_bytes = most_bytes
        self._clock = clock
        self._messages: deque[_Message] = deque()
        self._bytes = 0
        self._losses: deque[tuple[float, str, int]] = deque()
        self._lock = threading.Lock()

    def put(self, topic: str, receive_ns: int, cdr: bytes, sent_ns: int = 0) -> None:
        """Take a message; stamps are ns since the epoch, ``sent_ns`` is 0 where it is not known."""
        with self._lock:
            self._messages.append(_Message(self._clock(), topic, receive_ns, cdr, sent_ns))
            self._bytes += len(cdr) + _OVERHEAD
            self._forget()

    def count_lost(self, topic: str, messages: int) -> None:
        """Take note of messages that the middleware lost."""
        with self._lock:
            self._losses.append((self._clock(), topic, messages))
            self._forget()

    def write(
        self,
        path: Path,
        topics: Iterable[TopicSpec],
        latched: Iterable[tuple[str, bytes]] = (),
        *,
        storage: Storage = 'mcap',
        compression: str = 'none',
        facts: Mapping[str, str] | None = None,
    ) -> Summary:
        """Write what is kept into a new bag; it is kept on.

        Args:
            path: Folder of the bag.
            topics: The topics in it.
            latched: Topic and last message of each latched publisher, which belong into every bag:
                those that are not kept any more come first, with the time of the oldest message.
            storage: Format of the bag.
            compression: ``none``, or ``zstd`` for chunks of mcap.
            facts: What else the bag says.

        Raises:
            BagError: Nothing is kept, the bag exists, or the disk refuses.
        """
        with self._lock:
            self._forget()
            messages, losses = list(self._messages), list(self._losses)
        if not messages:
            msg = f'Expected messages in the last {self.seconds:g} s, found none to write.'
            raise BagError(msg)
        begin = min(message.receive_ns for message in messages)
        texts = list(latched)
        named = {topic for topic, _ in texts}
        kept = {(message.topic, message.cdr) for message in messages if message.topic in named}
        recording = Recording(path, topics, storage=storage, compression=compression, facts=facts)
        for topic, cdr in texts:
            if (topic, cdr) not in kept:
                recording.put(topic, begin, cdr)
        for message in messages:
            recording.put(message.topic, message.receive_ns, message.cdr, message.sent_ns)
        for _, topic, number in losses:
            recording.count_lost(topic, number)
        return recording.close()

    def _forget(self) -> None:
        oldest = self._clock() - self.seconds
        messages = self._messages
        while messages and (messages[0].at < oldest or self._bytes > self._most_bytes):
            self._bytes -= len(messages.popleft().cdr) + _OVERHEAD
        while self._losses and self._losses[0][0] < oldest:
            self._losses.popleft()
