# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From callbacks to a bag: a bounded queue, a writer thread, and honest counts."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sysid_ros.bags.writer import BagWriter, TopicQos, known_types
from sysid_ros.errors import BagError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from sysid_ros.config import Storage

#: Messages are handed to the operating system this often, seconds: what a killed recorder loses.
FLUSH_SECONDS = 1.0
#: The writer thread looks into the queue this often, seconds. Waking it for every message would
#: cost the receiving thread more than the writing does.
_TICK_SECONDS = 0.05


class TopicSpec(NamedTuple):
    """A topic that goes into a bag."""

    topic: str
    msgtype: str
    qos: TopicQos = TopicQos()


class TopicCount(NamedTuple):
    """What became of the messages of one topic.

    Attributes:
        topic: Name of the topic.
        messages: Messages that were written.
        rate: Messages per second between the first and the last, Hz; 0 below two messages.
        lost: Messages that were not written, because the queue was full or because the
            middleware reported them lost.
    """

    topic: str
    messages: int
    rate: float
    lost: int


@dataclass
class _Tally:
    """Counts of one topic; each field is written by one thread only."""

    written: int = 0
    first_ns: int = 0
    last_ns: int = 0
    dropped: int = 0
    lost_before: int = 0


class Recording:
    """One bag being recorded.

    One thread calls :meth:`put`, :meth:`add` and :meth:`count_lost`; a thread of the recording's
    own writes. What does not fit into the queue is dropped and counted.
    """

    def __init__(
        self,
        path: Path,
        topics: Iterable[TopicSpec],
        *,
        storage: Storage = 'mcap',
        queue_size: int = 100_000,
        on_failure: Callable[[BagError], None] | None = None,
    ) -> None:
        """Create the bag with its topics and start writing.

        Args:
            path: Folder of the new bag.
            topics: The topics in it; :meth:`add` takes more.
            storage: Format of the bag.
            queue_size: Messages that wait for the writer at most.
            on_failure: Called once, from the writing thread, when the bag cannot be written any
                more.

        Raises:
            BagError: The bag exists, a message type is not known, or the disk refuses.
        """
        self.path = path
        self.failure: BagError | None = None
        self._queue_size = queue_size
        self._wake_level = max(1, queue_size // 2)
        self._on_failure = on_failure
        self._queue: deque[tuple[str, int, bytes]] = deque()
        self._wake = threading.Event()
        self._ending = False
        self._writer = BagWriter(path, storage)
        self._added: set[str] = set()
        self._specs: dict[str, TopicSpec] = {}
        self._tallies: dict[str, _Tally] = {}
        known = known_types().fielddefs
        try:
            # A type that is not known raises; first, so that no bag was created for it.
            for spec in sorted(topics, key=lambda spec: (spec.msgtype in known, spec.topic)):
                self.add(spec)
                self._announce(spec.topic)
        except BaseException:
            self._writer.close()
            raise
        self._thread = threading.Thread(target=self._run, name='bag writer', daemon=True)
        self._thread.start()

    def add(self, spec: TopicSpec) -> None:
        """Take another topic; it appears in the bag with its first message."""
        self._tallies.setdefault(spec.topic, _Tally())
        self._specs.setdefault(spec.topic, spec)

    def put(self, topic: str, receive_ns: int, cdr: bytes) -> None:
        """Hand over one message of a topic that was added, or count it as lost.

        Args:
            topic: Name of the topic.
            receive_ns: When it was received, ns since the epoch.
            cdr: The serialised message.
        """
        waiting = len(self._queue)
        if waiting >= self._queue_size or self._ending or self.failure is not None:
            self._tallies[topic].dropped += 1
            return
        self._queue.append((topic, receive_ns, cdr))
        if waiting >= self._wake_level:
            self._wake.set()

    def count_lost(self, topic: str, messages: int) -> None:
        """Count messages that the middleware lost before they came here."""
        self._tallies[topic].lost_before += messages

    def counts(self) -> tuple[TopicCount, ...]:
        """Return what has become of the messages so far, by topic."""
        return tuple(
            TopicCount(
                topic,
                tally.written,
                _rate(tally),
                tally.dropped + tally.lost_before,
            )
            for topic, tally in sorted(self._tallies.copy().items())
        )

    def close(self) -> tuple[TopicCount, ...]:
        """Write what waits, finish the bag, and return the final counts.

        Why the bag could not be written, if so, is in ``failure``.
        """
        self._ending = True
        self._wake.set()
        self._thread.join()
        return self.counts()

    def _run(self) -> None:
        try:
            self._write_until_closed()
            self._writer.close()
        except BagError as err:
            self.failure = err
            for topic, _, _ in self._queue.copy():
                self._tallies[topic].dropped += 1
            # The first failure is the one to report; closing fails for the same reason.
            with suppress(BagError):
                self._writer.close()
            if self._on_failure is not None:
                self._on_failure(err)

    def _write_until_closed(self) -> None:
        next_flush = time.monotonic() + FLUSH_SECONDS
        ending = False
        while not ending:
            self._wake.wait(_TICK_SECONDS)
            self._wake.clear()
            ending = self._ending
            # Not more than waits now, so that a fast publisher cannot keep the flush from coming.
            for _ in range(len(self._queue)):
                self._write(*self._queue.popleft())
            if time.monotonic() >= next_flush:
                next_flush = time.monotonic() + FLUSH_SECONDS
                self._flush()

    def _write(self, topic: str, receive_ns: int, cdr: bytes) -> None:
        if topic not in self._added:
            self._announce(topic)
        self._writer.write(topic, receive_ns, cdr)
        tally = self._tallies[topic]
        tally.first_ns = tally.first_ns if tally.written else receive_ns
        tally.last_ns = receive_ns
        tally.written += 1

    def _announce(self, topic: str) -> None:
        self._writer.add_topic(*self._specs[topic])
        self._added.add(topic)

    def _flush(self) -> None:
        self._writer.flush()
        # Writing to a file that was unlinked succeeds on every POSIX system.
        if self._added and not self.path.is_dir():
            msg = f'The bag {str(self.path)!r} was removed while it was recorded.'
            raise BagError(msg)


def _rate(tally: _Tally) -> float:
    span = (tally.last_ns - tally.first_ns) * 1e-9
    return (tally.written - 1) / span if tally.written > 1 and span > 0 else 0.0


def free_name(path: Path) -> Path:
    """Return the path itself, or with the first of ``_1``, ``_2`` … that does not exist."""
    number = 0
    candidate = path
    while candidate.exists() or candidate.is_symlink():
        number += 1
        candidate = path.with_name(f'{path.name}_{number}')
    return candidate


def summary(counts: Iterable[TopicCount]) -> str:
    """Return the counts as a table of plain text, one line per topic, with a line of totals."""
    rows = [(c.topic, str(c.messages), f'{c.rate:.1f}', str(c.lost)) for c in counts]
    messages, lost = (sum(int(row[column]) for row in rows) for column in (1, 3))
    table = [
        ('topic', 'messages', 'rate/Hz', 'lost'),
        *rows,
        ('total', str(messages), '', str(lost)),
    ]
    widths = [max(len(row[column]) for row in table) for column in range(4)]
    return '\n'.join(
        '  '.join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in table
    )
