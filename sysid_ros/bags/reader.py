# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From a bag to columns."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory

from rosbags.rosbag1 import ReaderError as Ros1Error
from rosbags.rosbag2 import ReaderError as Ros2Error

from sysid_ros.bags.cdr import Batch, CdrError
from sysid_ros.bags.columns import BagColumns, UnreadTopic
from sysid_ros.bags.message_types import TEXT
from sysid_ros.bags.storage import (
    MCAP,
    DamagedFileError,
    Onward,
    StoredFile,
    Stream,
    find_bag,
    suffix,
)
from sysid_ros.bags.tables import read_tables, table_files
from sysid_ros.bags.topic import TextReader, TopicReader
from sysid_ros.errors import BagError, nearest

_Key = tuple[str, str]


class BagMessages:
    """The messages of a bag, read file by file.

    Attributes:
        path: Folder or file.
        streams: The topics in the files, with and without messages.
        facts: Facts of the session.
        onward: Where the recorder's clock was set back.
        unfinished: Names of files that their recorder has not closed.

    All but the path are known when the batches have been read.
    """

    def __init__(self, path: Path) -> None:
        """Look for the files.

        Raises:
            BagError: There is no bag, or a file of it is missing.
        """
        self.path = path
        self.streams: list[Stream] = []
        self.facts: dict[str, str] = {}
        self.onward = Onward()
        self.unfinished: list[str] = []
        self._bag = find_bag(path)

    def batches(self, is_needed: Callable[[Stream], bool]) -> Iterator[tuple[Stream, Batch]]:
        """Yield the messages of each topic, files in the order of the recording.

        Args:
            is_needed: Whether messages of a topic are needed; asked again and again.

        Raises:
            BagError: A file is damaged, in one sentence.
        """
        with TemporaryDirectory() as folder:
            for number, file in enumerate(self._bag.files):
                stored = StoredFile(file, self.onward)
                with _readable(self.path, file):
                    for stream, messages in stored.batches(is_needed, Path(folder)):
                        yield stream, messages._replace(file=number)
                self.streams += [s for s in stored.streams.values() if s not in self.streams]
                self.facts.update(stored.facts)
                if not stored.finished:
                    self.unfinished.append(file.name)
        self.facts.update(self._bag.facts)


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
    bag = BagMessages(path)
    content = _Content(topics)
    for stream, messages in bag.batches(content.is_needed):
        content.take(stream, messages)
    known = sorted({stream.topic for stream in bag.streams})
    for topic in topics or ():
        if '*' not in topic and topic not in known:
            raise BagError(
                f'The bag {str(path)!r} has no topic {topic!r}; {nearest(topic, known)}.'
            )
    if not content.counts and topics is None:
        raise BagError(
            f'The bag {str(path)!r} holds no messages; its topics: {", ".join(known) or "none"}.'
        )
    return content.columns(bag)


class _Content:
    """What has been read of a bag."""

    def __init__(self, topics: Collection[str] | None) -> None:
        self.counts: dict[_Key, int] = {}
        self._topics = topics
        self._readers: dict[_Key, TopicReader] = {}
        self._texts: dict[_Key, TextReader] = {}
        self._refused: dict[_Key, str] = {}

    def is_needed(self, stream: Stream) -> bool:
        """Tell whether messages of a topic are read on."""
        return self._asked(stream.topic) and (stream.topic, stream.msgtype) not in self._refused

    def take(self, stream: Stream, messages: Batch) -> None:
        """Take the next messages of a topic, or give the topic up."""
        key = stream.topic, stream.msgtype
        self.counts[key] = self.counts.get(key, 0) + len(messages.sizes)
        if stream.serialization not in {'cdr', ''}:
            self._refused[key] = (
                f'messages are serialized as {stream.serialization!r}, expected cdr'
            )
            return
        try:
            if stream.msgtype == TEXT:
                self._texts.setdefault(key, TextReader(stream.topic)).add(messages)
            else:
                reader = self._readers.setdefault(key, TopicReader(*key))
                reader.add(messages, stream.definition, stream.language)
        except CdrError as err:
            self._refused[key] = str(err)
            self._readers.pop(key, None)
            self._texts.pop(key, None)

    def columns(self, bag: BagMessages) -> BagColumns:
        """Return everything."""
        unread = []
        for key in sorted({(stream.topic, stream.msgtype) for stream in bag.streams}):
            if key not in self._readers and key not in self._texts:
                absent = 'no messages' if self._asked(key[0]) else 'it was not asked for'
                reason = self._refused.get(key, absent)
                unread.append(UnreadTopic(*key, self.counts.get(key, 0), reason))
        return BagColumns(
            bag.path,
            tuple(self._readers.pop(key).finish() for key in sorted(self._readers)),
            tuple(unread),
            bag.facts,
            tuple(self._texts[key].finish() for key in sorted(self._texts)),
            tuple(bag.onward.set_back),
            tuple(bag.unfinished),
        )

    def _asked(self, topic: str) -> bool:
        return self._topics is None or any(fnmatchcase(topic, name) for name in self._topics)


@contextmanager
def _readable(path: Path, file: Path) -> Iterator[None]:
    """Turn whatever damaged bytes raise into one sentence."""
    try:
        yield
    except BagError:
        raise
    except MemoryError as err:
        raise BagError(
            f'The bag {str(path)!r} is damaged or too large: it announces more than memory holds.'
        ) from err
    except OSError as err:
        raise BagError(
            f'The bag {str(path)!r} cannot be read: {err.strerror or err} ({file.name}).'
        ) from err
    # The libraries let everything through that damaged bytes can cause: struct.error, KeyError,
    # AssertionError, TypeError, sqlite and zstd errors beside their own.
    except Exception as err:
        explained = isinstance(err, (DamagedFileError, Ros1Error, Ros2Error))
        reason = ' '.join(str(err).split()).rstrip('.') if explained else ''
        where = '' if file == path else f' ({file.name})'
        hint = ''
        if suffix(file) == MCAP:
            hint = f'; `mcap recover {shlex.quote(str(file))}` saves the chunks that are whole'
        raise BagError(
            f'The bag {str(path)!r} is damaged: {reason or "it cannot be decoded"}{where}{hint}.'
        ) from err
