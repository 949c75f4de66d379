# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From a bag to columns."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path

from sysid_ros.bags.cdr import CdrError
from sysid_ros.bags.columns import BagColumns, TextColumn, UnreadTopic
from sysid_ros.bags.message_types import TEXT
from sysid_ros.bags.storage import BagMessages, Topic
from sysid_ros.bags.tables import read_tables, table_files
from sysid_ros.bags.topic import TextReader, TopicReader
from sysid_ros.errors import BagError, nearest


def read_bag(path: Path, topics: Collection[str] | None = None) -> BagColumns:
    """Read the numbers and texts of a bag.

    Args:
        path: A rosbag2 folder with or without metadata, one of its storage files (``.mcap`` or
            ``.db3``, also compressed as ``.zstd``), or a ROS 1 ``.bag``; a CSV file, a folder of
            such, or a LeRobot dataset, see `read_tables`. An MCAP file that was not finished is
            read up to its last whole chunk.
        topics: Topics to read, or patterns such as ``*/robot_description``, which may match none;
            all by default.

    Returns:
        Columns by topic. Rows are in the order of the receive stamps within each file, files in the
        order of the recording; where the recorder's clock was set back, receive times go on.

    Raises:
        BagError: There is no bag, or it is damaged or empty, or it has none of a topic.
    """
    path = Path(path)
    if path.exists() and table_files(path):
        return read_tables(path, topics)

    def is_asked(topic: str) -> bool:
        return topics is None or any(fnmatchcase(topic, name) for name in topics)

    def is_needed(topic: Topic) -> bool:
        return is_asked(topic.name) and (topic.name, topic.msgtype) not in refused

    bag = BagMessages(path)
    counts: dict[tuple[str, str], int] = {}
    readers: dict[tuple[str, str], TopicReader | TextReader] = {}
    refused: dict[tuple[str, str], str] = {}
    for topic, messages in bag.batches(is_needed):
        key = topic.name, topic.msgtype
        counts[key] = counts.get(key, 0) + len(messages.sizes)
        if not topic.is_cdr:
            refused[key] = f'messages are serialized as {topic.serialization!r}, expected cdr'
            continue
        try:
            if key not in readers:
                readers[key] = (TextReader if topic.msgtype == TEXT else TopicReader)(*key)
            readers[key].add(messages, topic.definition, topic.language)
        except CdrError as err:
            refused[key] = str(err)
            readers.pop(key, None)
    _check_topics(bag, topics, empty=not counts)
    unread = []
    for key in sorted({(topic.name, topic.msgtype) for topic in bag.topics} - readers.keys()):
        absent = 'no messages' if is_asked(key[0]) else 'it was not asked for'
        unread.append(UnreadTopic(*key, counts.get(key, 0), refused.get(key, absent)))
    # A reader is let go as its columns are made: a long bag fills much of the memory.
    columns = [readers.pop(key).finish() for key in sorted(readers)]
    return BagColumns(
        path,
        tuple(item for item in columns if not isinstance(item, TextColumn)),
        tuple(unread),
        bag.facts,
        tuple(item for item in columns if isinstance(item, TextColumn)),
        tuple(bag.onward.set_back),
        tuple(bag.unfinished),
    )


def _check_topics(bag: BagMessages, asked: Collection[str] | None, *, empty: bool) -> None:
    """Complain about topics that are not in a bag, and about one without messages."""
    known = sorted({topic.name for topic in bag.topics})
    for name in asked or ():
        if '*' not in name and name not in known:
            raise BagError(
                f'The bag {str(bag.path)!r} has no topic {name!r}; {nearest(name, known)}.'
            )
    if empty and asked is None:
        names = ', '.join(known) or 'none'
        raise BagError(f'The bag {str(bag.path)!r} holds no messages; its topics: {names}.')
