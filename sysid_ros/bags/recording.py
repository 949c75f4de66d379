# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From callbacks to a bag: a bounded queue, a writer thread, and counts of what became of it."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from sysid_ros.bags.storage import Topic
from sysid_ros.bags.writer import BagWriter, define
from sysid_ros.errors import BagError, one_line

#: The writer thread looks into the queue this often, seconds. Waking it for every message would
#: cost the receiving thread more than the writing does.
_TICK_SECONDS = 0.05


class Buffering(NamedTuple):
    """How long messages stay in memory on their way to the disk."""

    #: How long a message may wait for a disk that stalls before others are dropped.
    queue_seconds: float = 30.0
    queue_bytes: int = 512 << 20  # bytes of the messages that wait at most
    #: How often messages are handed to the operating system: what a killed recorder loses, together
    #: with the time that this takes.
    flush_seconds: float = 0.5
    #: How often to wait until what was handed over is on the disk, which is what losing power
    #: costs; 0 means never.
    sync_seconds: float = 5.0


@dataclass
class TopicStats:
    """What became of the messages of one topic.

    Until the writer has ended, ``dropped`` and ``lost`` belong to those who put, under the lock,
    and the rest to the writer.
    """

    topic: str  # name of the topic
    messages: int = 0  # messages that were written
    lost: int = 0  # messages that were lost before they came here
    #: Messages that came and were not written: the disk stalled for longer than the queue holds, or
    #: failed.
    dropped: int = 0
    first_ns: int = 0  # receive stamp of the first message that was written, ns …
    last_ns: int = 0  # … and of the last

    @property
    def rate(self) -> float:
        """Messages per second between the first and the last, Hz; 0 below two messages."""
        span = (self.last_ns - self.first_ns) * 1e-9
        return (self.messages - 1) / span if self.messages > 1 and span > 0 else 0.0


class Summary(NamedTuple):
    """What became of a recording."""

    path: Path  # folder of the bag
    counts: tuple[TopicStats, ...]  # what became of the messages of each topic
    size: int  # bytes of its file; 0 if that is gone
    seconds: float  # time from the first to the last message that was received
    failure: BagError | None  # why the bag could not be written to its end, if so


def summary(counts: Iterable[TopicStats]) -> str:
    """Return the counts as a table of plain text, one line per topic, with a line of totals."""
    rows = [
        (one_line(c.topic), str(c.messages), f'{c.rate:.1f}', str(c.lost), str(c.dropped))
        for c in counts
    ]
    messages, lost, dropped = (str(sum(int(row[k]) for row in rows)) for k in (1, 3, 4))
    table = [
        ('topic', 'messages', 'rate/Hz', 'lost', 'dropped'),
        *rows,
        ('total', messages, '', lost, dropped),
    ]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    aligned = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in table]
    return '\n'.join('  '.join(row) for row in aligned)


class Recording:
    """One bag being recorded.

    Any thread may call the methods; a thread of the recording's own writes, and another one waits
    for the disk now and then. What the queue does not hold is dropped and counted.
    """

    def __init__(
        self,
        path: Path,
        topics: Iterable[Topic],
        *,
        compression: str = 'none',
        buffering: Buffering | None = None,
        facts: Mapping[str, str] | None = None,
        on_failure: Callable[[BagError], None] | None = None,
    ) -> None:
        """Create the bag with its topics and start writing.

        Raises:
            BagError: The bag exists, a message type has no definition, or the disk refuses.
        """
        self.path = path
        self.failure: BagError | None = None
        self._buffering = buffering or Buffering()
        self._on_failure = on_failure
        self._queue: deque[tuple[str, int, bytes, int, float]] = deque()
        # Bytes that went in and out: each has one writer only, their difference is what waits.
        self._bytes_in = self._bytes_out = 0
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._sync_failure: BagError | None = None
        self._facts: dict[str, str] = {}
        self._announced: set[str] = set()
        self._topics: dict[str, Topic] = {}
        self._stats: dict[str, TopicStats] = {}
        # A type that is not known raises before a bag was created for it.
        for topic in topics:
            self.add(topic)
        self._writer = BagWriter(path, compression=compression)
        self._writer.set_facts({**(facts or {}), **self._losses()})
        try:
            for name in self._topics:
                self._announce(name)
            self._writer.flush()
        except BaseException:
            with suppress(BagError):
                self._writer.close()
            raise
        self._thread = threading.Thread(target=self._run, name='bag writer', daemon=True)
        self._thread.start()
        if self._buffering.sync_seconds > 0:
            threading.Thread(target=self._sync, name='bag sync', daemon=True).start()

    def add(self, topic: Topic) -> None:
        """Take another topic; it appears in the bag with its first message.

        Raises:
            BagError: Its type has no definition; the recording goes on without it.
        """
        if topic.name not in self._topics:
            self._stats[topic.name] = TopicStats(topic.name)
            self._topics[topic.name] = define(topic)

    def put(self, topic: str, receive_ns: int, cdr: bytes, sent_ns: int = 0) -> None:
        """Hand over one message of a topic that was added, or count it as dropped; in ns."""
        now = time.monotonic()
        with self._lock:
            waiting = self._bytes_in - self._bytes_out
            try:
                stalled = now - self._queue[0][4] > self._buffering.queue_seconds
            except IndexError:
                stalled = False
            if self._ending.is_set() or waiting >= self._buffering.queue_bytes or stalled:
                self._stats[topic].dropped += 1
                return
            self._queue.append((topic, receive_ns, cdr, sent_ns, now))
            self._bytes_in += len(cdr)

    def count_lost(self, topic: str, messages: int) -> None:
        """Count messages that the middleware lost before they came here."""
        with self._lock:
            self._stats[topic].lost += messages

    def set_facts(self, facts: Mapping[str, str]) -> None:
        """Add texts by key that the bag holds beside the messages.

        The next flush writes those that are new or changed, so that they survive a kill.
        """
        with self._lock:
            self._facts.update(facts)

    def counts(self) -> tuple[TopicStats, ...]:
        """Return what has become of the messages so far, by topic."""
        return tuple(replace(stats) for _, stats in sorted(self._stats.copy().items()))

    def close(self) -> Summary:
        """Write what waits, finish the bag, and return what became of it."""
        with self._lock:
            self._ending.set()
        self._thread.join()
        writer = self._writer
        return Summary(
            path=self.path,
            counts=self.counts(),
            size=writer.file.stat().st_size if writer.file.exists() else 0,
            seconds=max(writer.end_ns - writer.start_ns, 0) * 1e-9,
            failure=self.failure,
        )

    # The writing thread

    def _run(self) -> None:
        self._attempt(self._write_until_closed)
        with self._lock:
            self._ending.set()
        self._finish()
        if self.failure is not None and self._on_failure is not None:
            self._on_failure(self.failure)

    def _write_until_closed(self) -> None:
        next_flush = time.monotonic() + self._buffering.flush_seconds
        ending = False
        while not ending:
            ending = self._ending.wait(_TICK_SECONDS)
            # Not more than waits now, so that a fast publisher cannot keep the flush from coming.
            for _ in range(len(self._queue)):
                topic, receive_ns, cdr, sent_ns, _ = self._queue[0]
                if topic not in self._announced:
                    self._announce(topic)
                self._writer.write(topic, receive_ns, cdr, sent_ns)
                stats = self._stats[topic]
                if not stats.messages:
                    stats.first_ns = receive_ns
                stats.last_ns = receive_ns
                stats.messages += 1
                self._queue.popleft()
                self._bytes_out += len(cdr)
            if time.monotonic() >= next_flush:
                next_flush = time.monotonic() + self._buffering.flush_seconds
                if self._sync_failure is not None:
                    raise self._sync_failure
                self._take_facts()
                self._writer.flush()

    def _announce(self, topic: str) -> None:
        self._writer.add(self._topics[topic])
        self._announced.add(topic)

    def _take_facts(self) -> None:
        with self._lock:
            facts, self._facts = self._facts, {}
        self._writer.set_facts({**facts, **self._losses()})

    def _losses(self) -> dict[str, str]:
        counts = self.counts()
        return {
            'dropped': json.dumps({count.topic: count.dropped for count in counts}),
            'lost': json.dumps({count.topic: count.lost for count in counts}),
        }

    def _finish(self) -> None:
        """Close the bag, whatever has happened, and count what is in it."""
        for step in (self._take_facts, self._writer.close, self._count):
            self._attempt(step)
        if self.failure is not None and self.path.is_dir():
            rest = 'what was flushed before is in it, and is read as it is'
            self.failure = BagError(f'{str(self.failure).rstrip(".")}; {rest}.')

    def _attempt(self, step: Callable[[], None]) -> None:
        """Do something; the first failure is the one to report, others follow from it."""
        try:
            step()
        except BagError as err:
            self.failure = self.failure or err
        except Exception as err:  # noqa: BLE001 (nothing else would tell the user)
            text = ' '.join(f'{type(err).__name__}: {err}'.split()).rstrip('.')
            msg = f'Cannot write the bag {str(self.path)!r}: {text}.'
            self.failure = self.failure or BagError(msg)

    def _count(self) -> None:
        """Count as dropped what did not get into the bag."""
        inside = self._writer.counts
        with self._lock:
            for topic, *_ in self._queue:
                self._stats[topic].dropped += 1
            self._queue.clear()
            for topic, stats in self._stats.items():
                written, stats.messages = stats.messages, inside[topic]
                stats.dropped += written - stats.messages

    # The waiting thread

    def _sync(self) -> None:
        """Wait for the disk now and then, apart from the writing: it may take seconds."""
        while self._thread.is_alive():
            self._thread.join(self._buffering.sync_seconds)
            try:
                self._writer.sync()
            except BagError as err:
                self._sync_failure = err
                return


def free_name(path: Path) -> Path:
    """Return the path itself, or with the first of ``_1``, ``_2`` … that does not exist."""
    number = 0
    candidate = path
    while candidate.exists() or candidate.is_symlink():
        number += 1
        candidate = path.with_name(f'{path.name}_{number}')
    return candidate
