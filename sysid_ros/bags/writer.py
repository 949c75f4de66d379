# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Writing a bag that survives its writer, its disk and the power supply."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, get_args

from sysid_ros.bags.output.files import (
    Definition,
    Reserve,
    Topic,
    TopicQos,
    define,
    known_types,
    sync_folder,
)
from sysid_ros.bags.output.metadata import (
    WrittenFile,
    information,
    joined,
    metadata_text,
    write_metadata,
)
from sysid_ros.config import Storage
from sysid_ros.errors import BagError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from sysid_ros.bags.output.files import StorageFile

__all__ = ['BagWriter', 'Definition', 'Splitting', 'TopicQos', 'define', 'known_types']

_SUFFIXES = {'mcap': '.mcap', 'sqlite3': '.db3'}
COMPRESSIONS = ('none', 'zstd')
#: zstd's fastest regular level: one more costs a recorder's CPU time and gains little.
_ZSTD_LEVEL = 1


class Splitting(NamedTuple):
    """When a bag goes on in another file; 0 means never.

    Attributes:
        size: Bytes that a file has at least when the next one begins.
        seconds: Receive time that one file covers.
    """

    size: int = 0
    seconds: float = 0.0


class BagWriter:
    """A new bag.

    The folder appears with the first topic, under its final name, with files ``<name>_0.mcap``,
    ``<name>_1.mcap`` … as rosbag2 names them; ``metadata.yaml`` comes last and says that the bag
    is whole. One thread at a time may use the writer, except for :meth:`sync`. Leaving the context
    closes the bag even after an exception: what was written until then is a valid bag.

    What the disk does not take raises once; then only :meth:`close` makes sense. It finishes the
    bag as it was flushed before, from space that was kept free for that.
    """

    def __init__(
        self,
        path: Path,
        storage: Storage = 'mcap',
        *,
        compression: str = 'none',
        splitting: Splitting | None = None,
        durable: bool = True,
    ) -> None:
        """Check the arguments; nothing is created yet.

        Args:
            path: Folder of the new bag.
            storage: Format of its files.
            compression: ``none``, or ``zstd`` for chunks of MCAP files.
            splitting: When to begin the next file; default never.
            durable: Let a sqlite3 bag wait for the disk at every flush: without that, losing
                power may leave a malformed database. MCAP needs :meth:`sync` only.

        Raises:
            BagError: The path exists already, or the storage or compression is unknown.
        """
        if storage not in _SUFFIXES:
            known = get_args(Storage)
            msg = f'Expected storage {" or ".join(known)}, found {storage!r}.'
            raise BagError(msg)
        if compression not in COMPRESSIONS:
            msg = f'Expected compression {" or ".join(COMPRESSIONS)}, found {compression!r}.'
            raise BagError(msg)
        if compression != 'none' and storage != 'mcap':
            msg = (
                f'Expected storage mcap for compression {compression!r}, found {storage!r}: '
                'rosbag2 compresses its messages only in ways that other readers do not know.'
            )
            raise BagError(msg)
        if path.exists() or path.is_symlink():
            msg = f'The bag {str(path)!r} exists already; choose another name or remove it.'
            raise BagError(msg)
        self.path = path
        self._storage: Storage = storage
        self._compression = compression
        self._splitting = splitting or Splitting()
        self._durable = durable
        self._topics: dict[str, Topic] = {}
        self._facts: dict[str, str] = {}
        self._files: list[WrittenFile] = []
        self._file: StorageFile | None = None
        self._identity = (0, 0)
        self._first_ns: int | None = None
        self._reserve: Reserve | None = None
        self._closed = False
        self._finished = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def finished(self) -> bool:
        """Whether the bag was closed and is whole."""
        return self._finished

    @property
    def files(self) -> tuple[WrittenFile, ...]:
        """The files so far; counts are of what was flushed."""
        return tuple(self._files)

    def counts(self) -> dict[str, int]:
        """Return the messages that are in the bag by topic, as far as they were flushed."""
        total = joined(file.extent for file in self._files).counts
        return {topic.name: total.get(topic.number, 0) for topic in self._topics.values()}

    def add_topic(
        self,
        topic: str,
        msgtype: str,
        qos: TopicQos | None = None,
        *,
        definition: Definition | None = None,
    ) -> None:
        """Announce a topic before its first message.

        Args:
            topic: Name of the topic.
            msgtype: Its type, as ``sensor_msgs/msg/JointState``.
            qos: How it is offered; default reliable and volatile.
            definition: The type's definition, from :func:`define`; default that of ROS 2 Jazzy's
                common interfaces.

        Raises:
            BagError: The type is not known, the topic is there already, or the disk refuses.
        """
        definition = definition or define(topic, msgtype)
        if topic in self._topics:
            msg = f'Topic {topic!r} is in the bag {str(self.path)!r} already.'
            raise BagError(msg)
        added = Topic(len(self._topics) + 1, topic, definition, qos or TopicQos())
        with self._writing():
            if self._file is None:
                self._open()
            if self._file is not None:
                self._file.add_topic(added)
            self._topics[topic] = added

    def set_facts(self, facts: Mapping[str, str]) -> None:
        """Add what is to be known about the recording, as texts by key.

        They are in ``custom_data`` of the metadata and in each file: all of them in its beginning
        and its end, and those that change in between with the flush that follows.
        """
        changed = {key: text for key, text in facts.items() if self._facts.get(key) != text}
        self._facts.update(changed)
        if self._file is not None:
            self._file.set_facts(changed)

    def write(self, topic: str, receive_ns: int, cdr: bytes | memoryview, sent_ns: int = 0) -> None:
        """Write one message.

        Args:
            topic: A topic that was added.
            receive_ns: When it was received, ns since the epoch.
            cdr: The serialised message.
            sent_ns: When it was sent, by the sender's clock, 0 where that is not known; mcap only.

        Raises:
            BagError: The topic was not added, the bag is closed, or the disk refuses.
        """
        if self._closed or topic not in self._topics:
            hint = nearest(topic, () if self._closed else self._topics)
            msg = f'Topic {topic!r} was not added to the open bag {str(self.path)!r}; {hint}.'
            raise BagError(msg)
        try:
            if self._is_full(receive_ns):
                self._finish_file()
            if self._file is None:
                self._open()
            if self._first_ns is None:
                self._first_ns = receive_ns
            if self._file is not None:
                self._file.write(self._topics[topic].number, receive_ns, cdr, sent_ns)
        except (OSError, sqlite3.Error) as err:
            raise self._failure(err) from err

    def flush(self) -> None:
        """Hand all messages so far to the operating system: they survive the end of the process.

        MCAP: the pending chunk is finished. sqlite3: the transaction is committed.

        Raises:
            BagError: The disk refuses, or the bag is gone.
        """
        file = self._file
        if file is None:
            return
        with self._writing():
            file.flush()
            if self._is_gone():
                # Writing to a file that was unlinked succeeds on every POSIX system.
                raise FileNotFoundError

    def sync(self) -> None:
        """Wait until what was flushed is on the disk: it survives losing power.

        Any thread may call this while another writes.

        Raises:
            BagError: The disk refuses.
        """
        file = self._file
        if file is not None:
            with self._writing():
                file.sync()

    def split(self) -> None:
        """Finish the present file; the next one begins with the next message.

        Raises:
            BagError: The disk refuses.
        """
        if self._file is not None and self._first_ns is not None:
            with self._writing():
                self._finish_file()

    def settle(self) -> None:
        """Flush for the last time, with the space that was kept free; what fails is given up.

        Raises:
            BagError: Something was given up, so that ``counts`` are lower than what was written.
        """
        if self._reserve is not None:
            self._reserve.release()
        file = self._file
        if file is not None:
            with self._writing():
                try:
                    file.flush()
                except (OSError, sqlite3.Error):
                    file.discard()
                    raise

    def close(self) -> None:
        """Write what waits, index and metadata; a second call does nothing.

        Raises:
            BagError: The disk refuses something. Where ``finished`` is true, the bag is whole all
                the same.
        """
        if self._closed:
            return
        failure: BagError | None = None
        try:
            self.settle()
        except BagError as err:
            failure = err
        self._closed = True
        try:
            with self._writing():
                if self._file is not None:
                    self._finish_file()
                if self._files:
                    write_metadata(self.path, self._information(self._files, self._facts))
                    self._finished = True
        except BagError as err:
            failure = failure or err
        if failure is not None:
            raise failure

    # Files

    def _is_full(self, receive_ns: int) -> bool:
        """Tell whether a message belongs into the next file."""
        size, seconds = self._splitting
        if self._file is None or self._first_ns is None:
            return False
        return bool(
            (size and self._file.size >= size)
            or (seconds and receive_ns - self._first_ns >= seconds * 1e9)
        )

    def _open(self) -> None:
        """Create the next file with all topics and facts."""
        number = len(self._files)
        if number == 0:
            self.path.mkdir(parents=True)
            self._reserve = Reserve(self.path)
        name = f'{self.path.name}_{number}{_SUFFIXES[self._storage]}'
        file = self._create(self.path / name)
        self._file = file
        self._files.append(WrittenFile(name, file.extent))
        found = file.path.stat()
        self._identity = (found.st_dev, found.st_ino)
        for topic in self._topics.values():
            file.add_topic(topic)
        file.set_facts(self._facts)
        file.flush()
        sync_folder(self.path)

    def _create(self, path: Path) -> StorageFile:
        # Imported late, each with its libraries: a reader needs neither.
        if self._storage == 'sqlite3':
            from sysid_ros.bags.output.sqlite_file import SqliteFile  # noqa: PLC0415

            return SqliteFile(path, durable=self._durable)
        from sysid_ros.bags.output.mcap_file import McapFile  # noqa: PLC0415

        if self._compression == 'none':
            return McapFile(path)
        import zstandard  # noqa: PLC0415 (comes with mcap)

        return McapFile(path, compress=zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress)

    def _finish_file(self) -> None:
        """Finish the present file, or leave it as it was flushed."""
        file, self._file = self._file, None
        self._first_ns = None
        if file is None:
            return
        try:
            file.flush()
            file.set_facts(self._facts)
            # The facts are in the file already.
            content = self._information(self._files[-1:], {})
            file.close(metadata_text(content))
        except BaseException:
            with suppress(OSError, sqlite3.Error):
                file.abort()
            raise

    def _information(
        self, files: list[WrittenFile], facts: Mapping[str, str]
    ) -> Mapping[str, object]:
        return information(tuple(self._topics.values()), files, self._storage, facts)

    def _is_gone(self) -> bool:
        """Tell whether the present file is no longer where it was made."""
        if not self._files:
            return False
        try:
            found = (self.path / self._files[-1].name).stat()
        except OSError:
            return True
        return (found.st_dev, found.st_ino) != self._identity

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as err:
            raise self._failure(err) from err

    def _failure(self, err: OSError | sqlite3.Error) -> BagError:
        if self._identity != (0, 0) and self._is_gone():
            return BagError(f'The bag {str(self.path)!r} was removed while it was recorded.')
        reason = getattr(err, 'strerror', None) or str(err).rstrip('.')
        return BagError(f'Cannot write the bag {str(self.path)!r}: {reason}.')
