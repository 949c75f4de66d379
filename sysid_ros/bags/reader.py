# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From a rosbag2 folder or storage file to columns."""

from __future__ import annotations

import collections
import shlex
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import yaml
from rosbags.rosbag2 import Reader, ReaderError

from sysid_ros.bags.columns import BagColumns, TopicColumns, UnreadTopic
from sysid_ros.bags.messages import DECODERS, TEXT, decode_text
from sysid_ros.bags.messages.cdr import CdrError
from sysid_ros.errors import BagError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rosbags.interfaces import Connection

METADATA = 'metadata.yaml'
STORAGE_SUFFIXES = ('.mcap', '.db3')
#: An MCAP file that was closed ends with the bytes it begins with.
_MCAP_MAGIC = b'\x89MCAP0\r\n'


class UnfinishedBagError(BagError):
    """The bag was begun but never closed: its recorder was killed."""

    def __init__(self, path: Path, missing: str) -> None:
        """Say what is missing, and which command saves the rest."""
        super().__init__(
            f'The bag {str(path)!r} was not finished (was the recorder killed?): {missing}; '
            f'`sysid recover {shlex.quote(str(path))}` saves what is in it.'
        )


class _Received:
    """Messages of one topic and type, as they come out of the bag."""

    def __init__(self) -> None:
        self.receive_ns: list[int] = []
        self.messages: list[bytes] = []


def read_bag(path: Path) -> BagColumns:
    """Read all topics of a bag whose messages are numbers by name.

    Args:
        path: A rosbag2 folder (sqlite3 or mcap), or one of its storage files.

    Raises:
        UnfinishedBagError: The bag was not closed by its recorder.
        BagError: There is no bag, or it is damaged or empty.
    """
    _check_place(path)
    received: dict[tuple[str, str], _Received] = {}
    announced: dict[tuple[str, str], int] = collections.Counter()
    with _readable(path), Reader(path) as reader:
        for connection in reader.connections:
            announced[connection.topic, connection.msgtype] += connection.msgcount
        wanted = [connection for connection in reader.connections if _is_read(connection)]
        if wanted:
            for connection, receive_ns, data in reader.messages(wanted):
                entry = received.setdefault((connection.topic, connection.msgtype), _Received())
                entry.receive_ns.append(receive_ns)
                entry.messages.append(bytes(data))
    if not any(announced.values()):
        topics = ', '.join(sorted({topic for topic, _ in announced})) or 'none'
        msg = f'The bag {str(path)!r} holds no messages; its topics: {topics}.'
        raise BagError(msg)
    return _columns(path, announced, received)


def _is_read(connection: Connection) -> bool:
    return connection.msgtype in DECODERS or connection.msgtype == TEXT


def _columns(
    path: Path,
    announced: dict[tuple[str, str], int],
    received: dict[tuple[str, str], _Received],
) -> BagColumns:
    topics: list[TopicColumns] = []
    unread: list[UnreadTopic] = []
    texts: list[tuple[str, str]] = []
    for (topic, msgtype), count in sorted(announced.items()):
        entry = received.get((topic, msgtype))
        try:
            if msgtype not in DECODERS and msgtype != TEXT:
                unread.append(
                    UnreadTopic(topic, msgtype, count, 'messages of this type are not read')
                )
            elif entry is None:
                unread.append(UnreadTopic(topic, msgtype, count, _absent(count)))
            elif msgtype == TEXT:
                texts.append((topic, decode_text(entry.messages[0])))
            else:
                stamps = np.array(entry.receive_ns, dtype=np.int64)
                topics.append(DECODERS[msgtype](topic, stamps, entry.messages))
        except CdrError as err:
            unread.append(UnreadTopic(topic, msgtype, count, str(err)))
    return BagColumns(path, tuple(topics), tuple(unread), tuple(texts))


def _absent(count: int) -> str:
    return f'{METADATA} announces {count} messages, the files hold none' if count else 'no messages'


def _check_place(path: Path) -> None:
    """Check that a path is a bag before it is opened.

    Raises:
        UnfinishedBagError: The bag has no metadata.
        BagError: There is nothing, or something else.
    """
    if not path.exists():
        folder = path.absolute().parent
        siblings = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
        bags = [name for name in siblings if (folder / name / METADATA).exists()]
        msg = f'There is no bag {str(path)!r}; {nearest(path.name, bags or siblings)}.'
        raise BagError(msg)
    if not path.is_dir():
        if path.suffix not in STORAGE_SUFFIXES:
            known = ' or '.join(STORAGE_SUFFIXES)
            msg = f'Expected a bag folder or a file that ends with {known}, found {str(path)!r}.'
            raise BagError(msg)
        return
    if (path / METADATA).exists():
        return
    storage = sorted(entry for entry in path.iterdir() if entry.suffix in STORAGE_SUFFIXES)
    if storage:
        names = ', '.join(entry.name for entry in storage)
        raise UnfinishedBagError(path, f'it has {names} but no {METADATA}')
    inside = sorted(entry.name for entry in path.iterdir() if (entry / METADATA).exists())
    hint = f'; bags inside: {", ".join(inside[:3])}' if inside else ''
    msg = f'The folder {str(path)!r} is no bag: it has neither {METADATA} nor data files{hint}.'
    raise BagError(msg)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn whatever a damaged bag raises into one sentence."""
    try:
        yield
    except BagError:
        raise
    # The reader lets everything through that damaged bytes can cause: struct.error, KeyError,
    # AssertionError, TypeError, sqlite and zstd errors beside its own.
    except Exception as err:
        raise _diagnosis(path, err) from err


def _diagnosis(path: Path, err: Exception) -> BagError:
    """Find out why a bag cannot be read."""
    files = _data_files(path)
    missing = [file.name for file in files if not file.exists()]
    if missing:
        msg = f'The bag {str(path)!r} has {METADATA}, but its data file {missing[0]} is missing.'
        return BagError(msg)
    for file in files:
        if file.suffix == '.mcap' and not _is_closed(file):
            return UnfinishedBagError(path, f'{file.name} has no MCAP footer')
    if isinstance(err, MemoryError):
        msg = f'The bag {str(path)!r} is damaged or too large: it announces more than memory holds.'
        return BagError(msg)
    return BagError(f'The bag {str(path)!r} is damaged: {_reason(path, files, err)}.')


def _reason(path: Path, files: list[Path], err: Exception) -> str:
    """Say what cannot be read, in the words of the reader where it has any."""
    if path.is_dir() and not files:
        return f'its {METADATA} is not what a recorder writes'
    text = ' '.join(str(err).split()).rstrip('.')
    if isinstance(err, (ReaderError, sqlite3.Error)) and text:
        return text
    names = ', '.join(file.name for file in files)
    return f'{names} cannot be decoded'


def _data_files(path: Path) -> list[Path]:
    """Return the data files that a bag names, or none where its metadata is not readable."""
    if not path.is_dir():
        return [path]
    try:
        document = yaml.safe_load((path / METADATA).read_text('utf8'))
        names = document['rosbag2_bagfile_information']['relative_file_paths']
        return [path / str(name).rsplit('/', 1)[-1] for name in names]
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return []


def _is_closed(file: Path) -> bool:
    with file.open('rb') as stream:
        if stream.read(len(_MCAP_MAGIC)) != _MCAP_MAGIC:
            return True
        stream.seek(-len(_MCAP_MAGIC), 2)
        return stream.tell() > 0 and stream.read() == _MCAP_MAGIC
