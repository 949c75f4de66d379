# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What became of the messages of a recording."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sysid_ros.errors import BagError


class TopicCount(NamedTuple):
    """What became of the messages of one topic.

    Attributes:
        topic: Name of the topic.
        messages: Messages that were written.
        rate: Messages per second between the first and the last, Hz; 0 below two messages.
        lost: Messages that the middleware reported lost before they came here.
        dropped: Messages that came and were not written: the disk stalled for longer than the
            queue holds, or failed.
    """

    topic: str
    messages: int
    rate: float
    lost: int
    dropped: int = 0


class Summary(NamedTuple):
    """What became of a recording.

    Attributes:
        path: Folder of the bag.
        counts: Messages by topic.
        files: Names of the bag's files.
        size: Bytes of these files; 0 if they are gone.
        seconds: Time from the first to the last message that was received.
        failure: Why the bag could not be written to its end, if so.
    """

    path: Path
    counts: tuple[TopicCount, ...]
    files: tuple[str, ...]
    size: int
    seconds: float
    failure: BagError | None


def summary(counts: Iterable[TopicCount]) -> str:
    """Return the counts as a table of plain text, one line per topic, with a line of totals."""
    rows = [
        (c.topic, str(c.messages), f'{c.rate:.1f}', str(c.lost), str(c.dropped)) for c in counts
    ]
    messages, lost, dropped = (str(sum(int(row[k]) for row in rows)) for k in (1, 3, 4))
    table = [
        ('topic', 'messages', 'rate/Hz', 'lost', 'dropped'),
        *rows,
        ('total', messages, '', lost, dropped),
    ]
    widths = [max(len(row[column]) for row in table) for column in range(5)]
    return '\n'.join(
        '  '.join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in table
    )
