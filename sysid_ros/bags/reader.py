# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From a bag to columns."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from rosbags.rosbag1 import ReaderError

from sysid_ros.bags.columns import BagColumns, SetBack, TopicColumns, UnreadTopic
from sysid_ros.bags.input.files import DamagedFileError, Onward, unpacked
from sysid_ros.bags.input.mcap_file import McapInput
from sysid_ros.bags.input.places import (
    COMPRESSED,
    MCAP,
    METADATA,
    ROS1,
    SQLITE,
    BagFiles,
    UnfinishedBagError,
    check_finished,
    find_bag,
    recovery_hint,
    suffix,
)
from sysid_ros.bags.input.ros1_file import Ros1Input
from sysid_ros.bags.input.sqlite_file import SqliteInput
from sysid_ros.bags.input.tables import read_tables, table_files
from sysid_ros.bags.messages import TEXT, TextReader, TopicReader
from sysid_ros.bags.messages.cdr import CdrError
from sysid_ros.errors import BagError, nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sysid_ros.bags.input.files import InputFile, Stream
    from sysid_ros.bags.messages.batch import Batch

__all__ = ['UnfinishedBagError', 'read_bag']

_Key = tuple[str, str]


def read_bag(path: Path, topics: Collection[str] | None = None) -> BagColumns:
    """Read the numbers and texts of a bag.

    Args:
        path: A rosbag2 folder with or without metadata, one of its storage files (``.mcap`` or
            ``.db3``, also compressed as ``.zstd``), or a ROS 1 ``.bag``; a CSV file, a folder of
            such, or a LeRobot dataset, see `read_tables`.
        topics: Topics to read, or patterns such as ``*/robot_description``, which may match none;
            all by default.

    Returns:
        Columns by topic. Rows are in the order of the receive stamps within each file, files in the
        order of the recording; where the recorder's clock was set back, receive times go on.

    Raises:
        UnfinishedBagError: The bag was not closed by its recorder.
        BagError: There is no bag, or it is damaged or empty, or it has none of a topic.
    """
    path = Path(path)
    if table_files(path) and path.exists():
        return read_tables(path, topics)
    place = find_bag(path)
    onward = Onward()
    with opened_files(place, onward) as files:
        with readable(path, path):
            content = _Content(place, files, topics)
        for file, opened in zip(place.files, files, strict=True):
            with readable(path, file):
                content.read(opened)
        with readable(path, path):
            return content.columns(tuple(onward.set_back))


@contextmanager
def opened_files(place: BagFiles, onward: Onward) -> Iterator[list[InputFile]]:
    """Open the storage files of a bag, in the order of the recording.

    Args:
        place: The bag.
        onward: Lets receive stamps go on where the recorder's clock was set back.

    Raises:
        UnfinishedBagError: The bag was not closed by its recorder.
        BagError: A file is damaged.
    """
    with ExitStack() as stack:
        files = []
        for file in place.files:
            with readable(place.path, file):
                files.append(_opened(place, file, onward, stack))
        yield files


class _Content:
    """What has been read of a bag."""

    def __init__(
        self, place: BagFiles, files: list[InputFile], topics: Collection[str] | None
    ) -> None:
        self._place = place
        self._topics = topics
        self._announced = dict(place.announced) if place.announced else _announced(files)
        self._facts: dict[str, str] = {}
        self._readers: dict[_Key, TopicReader] = {}
        self._texts: dict[_Key, TextReader] = {}
        self._counts: dict[_Key, int] = {}
        self._refused: dict[_Key, str] = {}
        known = sorted({topic for topic, _ in self._announced})
        for topic in topics or ():
            if '*' not in topic and topic not in known:
                msg = (
                    f'The bag {str(place.path)!r} has no topic {topic!r}; {nearest(topic, known)}.'
                )
                raise BagError(msg)

    def read(self, file: InputFile) -> None:
        """Read all of a file."""
        for stream, messages in file.batches(self._is_needed):
            key = stream.topic, stream.msgtype
            self._counts[key] = self._counts.get(key, 0) + len(messages.sizes)
            try:
                self._take(key, stream, messages)
            except CdrError as err:
                self._refused[key] = str(err)
                self._readers.pop(key, None)
        for reader in self._readers.values():
            reader.end_file()
        for texts in self._texts.values():
            texts.end_file()
        self._facts.update(file.facts)

    def columns(self, set_back: tuple[SetBack, ...]) -> BagColumns:
        """Return everything."""
        if not (any(self._announced.values()) or self._counts):
            known = ', '.join(sorted({topic for topic, _ in self._announced})) or 'none'
            msg = f'The bag {str(self._place.path)!r} holds no messages; its topics: {known}.'
            raise BagError(msg)
        topics: list[TopicColumns] = []
        unread: list[UnreadTopic] = []
        for key in sorted({**self._announced, **self._counts}):
            count = max(self._announced.get(key, 0), self._counts.get(key, 0))
            if key in self._refused:
                unread.append(UnreadTopic(*key, count, self._refused[key]))
            elif key in self._readers:
                topics.append(self._readers.pop(key).finish())
            elif key not in self._texts:
                unread.append(UnreadTopic(*key, count, self._absent(key[0], count)))
        texts = tuple(self._texts[key].finish() for key in sorted(self._texts))
        return BagColumns(
            self._place.path,
            tuple(topics),
            tuple(unread),
            {**self._facts, **self._place.facts},
            texts,
            set_back,
        )

    def _asked(self, topic: str) -> bool:
        return self._topics is None or any(fnmatchcase(topic, name) for name in self._topics)

    def _is_needed(self, stream: Stream) -> bool:
        return self._asked(stream.topic) and (stream.topic, stream.msgtype) not in self._refused

    def _take(self, key: _Key, stream: Stream, messages: Batch) -> None:
        if stream.serialization not in {'cdr', ''}:
            msg = f'messages are serialized as {stream.serialization!r}, expected cdr'
            raise CdrError(msg)
        if stream.msgtype == TEXT:
            self._texts.setdefault(key, TextReader(stream.topic)).add(messages)
            return
        reader = self._readers.get(key)
        if reader is None:
            reader = self._readers[key] = TopicReader(*key, self._announced.get(key, 0))
        reader.add(messages, stream.definition, stream.language)

    def _absent(self, topic: str, count: int) -> str:
        if not self._asked(topic):
            return 'it was not asked for'
        if not count:
            return 'no messages'
        where = METADATA if self._place.announced is not None else 'the index'
        return f'{where} announces {count} messages, the files hold none'


def _announced(files: list[InputFile]) -> dict[_Key, int]:
    """Sum up what files announce."""
    found: dict[_Key, int] = {}
    for file in files:
        for stream, count in file.counts().items():
            key = stream.topic, stream.msgtype
            found[key] = found.get(key, 0) + count
    return found


def _opened(place: BagFiles, file: Path, onward: Onward, stack: ExitStack) -> InputFile:
    """Open a storage file, decompressed in a temporary folder if need be."""
    if file.name.endswith(COMPRESSED):
        file = unpacked(file, Path(stack.enter_context(TemporaryDirectory())))
    check_finished(place, file)
    opened: InputFile
    if suffix(file) == MCAP:
        opened = McapInput(file, onward)
    elif suffix(file) == SQLITE:
        opened = SqliteInput(file, onward)
    else:
        opened = Ros1Input(file)
    stack.callback(opened.close)
    return opened


@contextmanager
def readable(path: Path, file: Path) -> Iterator[None]:
    """Turn whatever damaged bytes raise into one sentence.

    Args:
        path: The bag.
        file: What of it is read.
    """
    try:
        yield
    except BagError:
        raise
    except MemoryError as err:
        msg = f'The bag {str(path)!r} is damaged or too large: it announces more than memory holds.'
        raise BagError(msg) from err
    except OSError as err:
        msg = f'The bag {str(path)!r} cannot be read: {err.strerror or err} ({file.name}).'
        raise BagError(msg) from err
    # The libraries let everything through that damaged bytes can cause: struct.error, KeyError,
    # AssertionError, TypeError, sqlite and zstd errors beside their own.
    except Exception as err:
        explained = isinstance(err, (DamagedFileError, sqlite3.Error, ReaderError))
        reason = ' '.join(str(err).split()).rstrip('.') if explained else ''
        where = '' if file == path else f' ({file.name})'
        hint = '' if suffix(file) == ROS1 else f'; {recovery_hint(path)}'
        msg = f'The bag {str(path)!r} is damaged: {reason or "it cannot be decoded"}{where}{hint}.'
        raise BagError(msg) from err
