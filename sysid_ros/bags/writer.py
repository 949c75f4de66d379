# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Writing a bag that survives its writer: MCAP files and rosbag2's metadata, as of ROS 2 Jazzy.

What is in the metadata: https://github.com/ros2/rosbag2/blob/jazzy/rosbag2_storage/include/
rosbag2_storage/bag_metadata.hpp and yaml.hpp beside it; how rosbag2 uses MCAP:
https://github.com/ros2/rosbag2/tree/jazzy/rosbag2_storage_mcap.
"""

from __future__ import annotations

import functools
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import IO, Any, Self

import yaml
from mcap.writer import CompressionType, Writer
from rosbags.interfaces import (
    Qos,
    QosDurability,
    QosHistory,
    QosLiveliness,
    QosReliability,
    QosTime,
)
from rosbags.rosbag2.metadata import dump_qos_v9
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.base import TypesysError

from sysid_ros.bags.cdr import known_types
from sysid_ros.bags.storage import FACTS, METADATA, ROS1, BagMessages, Topic, TopicQos, suffix
from sysid_ros.bags.tables import table_files
from sysid_ros.errors import BagError, nearest
from sysid_ros.files import replace_file
from sysid_ros.version import __version__

#: Version of the metadata that ROS 2 Jazzy writes.
_VERSION = 9
#: How ROS writes "no limit" into a QoS profile.
_FOREVER = QosTime(9_223_372_036, 854_775_807)
_COMPRESSIONS = {'none': CompressionType.NONE, 'zstd': CompressionType.ZSTD}


def define(topic: Topic) -> Topic:
    """Return a topic with its definition, by default that of the common interfaces.

    Raises:
        BagError: There is no definition.
    """
    if topic.definition:
        return topic
    types = known_types()
    if topic.msgtype not in types.fielddefs:
        raise BagError(
            f'Topic {topic.name!r} cannot be recorded: no definition of message type '
            f'{topic.msgtype!r}; {nearest(topic.msgtype, types.fielddefs)}.'
        )
    generated, _ = types.generate_msgdef(topic.msgtype, ros_version=2)
    return topic._replace(definition=generated)


@functools.lru_cache(maxsize=256)
def _type_hash(topic: Topic) -> str:
    """Return REP-2011's hash of a topic's type, empty where its definition is not complete."""
    if topic.language != 'ros2msg':
        return ''
    if not topic.definition and topic.msgtype in known_types().fielddefs:
        return known_types().hash_rihs01(topic.msgtype)
    types = get_typestore(Stores.EMPTY)
    try:
        types.register(get_types_from_msg(topic.definition, topic.msgtype))
        return types.hash_rihs01(topic.msgtype)
    except (TypesysError, KeyError):
        return ''


def _profiles(qos: TopicQos) -> Any:
    """Return the full profile of a topic, as metadata holds it."""
    profile = Qos(
        history=QosHistory.KEEP_LAST,
        depth=qos.depth,
        reliability=QosReliability.RELIABLE if qos.reliable else QosReliability.BEST_EFFORT,
        durability=QosDurability.TRANSIENT_LOCAL if qos.transient_local else QosDurability.VOLATILE,
        deadline=_FOREVER,
        lifespan=_FOREVER,
        liveliness=QosLiveliness.AUTOMATIC,
        liveliness_lease_duration=_FOREVER,
        avoid_ros_namespace_conventions=False,
    )
    return dump_qos_v9([profile])


class BagWriter:
    """A new bag.

    The folder appears with the first topic, under its final name, with the file ``<name>_0.mcap``,
    as rosbag2 names it; ``metadata.yaml`` comes last and says that the bag is whole. One thread at
    a time may use the writer, except for :meth:`sync`. Leaving the context closes the bag even
    after an exception: what was written until then is a valid bag.

    When the disk refuses something, the file is left as it is: it was not finished, and is read up
    to what was flushed before.
    """

    def __init__(self, path: Path, *, compression: str = 'none') -> None:
        """Check the arguments; nothing is created yet.

        Raises:
            BagError: The path exists already, or the compression is unknown.
        """
        if compression not in _COMPRESSIONS:
            known = ' or '.join(_COMPRESSIONS)
            raise BagError(f'Expected compression {known}, found {compression!r}.')
        if path.exists() or path.is_symlink():
            raise BagError(
                f'The bag {str(path)!r} exists already; choose another name or remove it.'
            )
        self.path = path
        self.file = path / f'{path.name}_0.mcap'
        self.finished = False
        #: What was handed to the operating system: messages by topic, receive stamps, ns.
        self.counts: Counter[str] = Counter()
        self.start_ns, self.end_ns = sys.maxsize, 0
        self._compression = _COMPRESSIONS[compression]
        self._topics: dict[str, Topic] = {}
        self._facts: dict[str, str] = {}
        self._waiting: list[tuple[str, int]] = []
        self._stream: IO[bytes] | None = None
        self._writer: Writer | None = None
        self._schemas: dict[str, int] = {}
        self._channels: dict[str, int] = {}
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def add_topic(
        self, topic: str, msgtype: str, qos: TopicQos | None = None, definition: str = ''
    ) -> None:
        """Announce a topic before its first message; by default it is reliable and volatile.

        Raises:
            BagError: The type is not known, the topic is there already, or the disk refuses.
        """
        self.add(define(Topic(topic, msgtype, qos or TopicQos(), definition)))

    def add(self, topic: Topic) -> None:
        """Announce a topic whose definition is known, or is to be left out."""
        if topic.name in self._topics:
            raise BagError(f'Topic {topic.name!r} is in the bag {str(self.path)!r} already.')
        with self._writing():
            self._announce(self._writer or self._open(), topic)

    def set_facts(self, facts: Mapping[str, str]) -> None:
        """Add what is to be known about the recording, as texts by key.

        They are in ``custom_data`` of the metadata and in the file: all of them in its beginning
        and its end, and those that change in between at once.

        Raises:
            BagError: The disk refuses.
        """
        changed = {key: text for key, text in facts.items() if self._facts.get(key) != text}
        self._facts.update(changed)
        if self._writer is not None and changed:
            with self._writing():
                self._writer.add_metadata(FACTS, changed)

    def write(self, topic: str, receive_ns: int, cdr: bytes, sent_ns: int = 0) -> None:
        """Write one message, received and sent at so many ns since the epoch; 0 where not known.

        Raises:
            BagError: The topic was not added, the bag is closed, or the disk refuses.
        """
        if self._writer is None or topic not in self._topics:
            hint = nearest(topic, () if self._closed else self._topics)
            raise BagError(
                f'Topic {topic!r} was not added to the open bag {str(self.path)!r}; {hint}.'
            )
        try:
            self._waiting.append((topic, receive_ns))
            self._writer.add_message(self._channels[topic], receive_ns, cdr, sent_ns or receive_ns)
        except OSError as err:
            raise self._failure(err) from err

    def flush(self) -> None:
        """Hand all messages so far to the operating system: they survive the end of the process.

        Raises:
            BagError: The disk refuses, or the bag is gone.
        """
        if self._writer is None:
            return
        with self._writing():
            self._writer.flush()  # type: ignore[no-untyped-call]
            if not self.file.exists():
                # Writing to a file that was unlinked succeeds on every POSIX system.
                raise FileNotFoundError
        for topic, stamp in self._waiting:
            self.counts[topic] += 1
            self.start_ns, self.end_ns = min(self.start_ns, stamp), max(self.end_ns, stamp)
        self._waiting = []

    def sync(self) -> None:
        """Wait until what was flushed is on the disk: it survives losing power.

        Any thread may call this while another writes.

        Raises:
            BagError: The disk refuses.
        """
        stream = self._stream
        if stream is None:
            return
        # The other thread may close the file meanwhile, which has then been synced.
        with self._writing(), suppress(ValueError):
            descriptor = os.dup(stream.fileno())
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def close(self) -> None:
        """Write what waits, index and metadata; a second call does nothing.

        Raises:
            BagError: The disk refuses something.
        """
        if self._closed:
            return
        self._closed = True
        with self._writing():
            if self._writer is not None:
                self._finish_file(self._writer)
                information = {'rosbag2_bagfile_information': self._information()}
                replace_file(self.path / METADATA, _yaml(information).encode())
                self.finished = True

    def _open(self) -> Writer:
        """Create the file with the facts."""
        self.path.mkdir(parents=True)
        self._stream = self.file.open('xb')
        self._writer = Writer(self._stream, compression=self._compression)
        self._writer.start(profile='ros2', library=f'sysid_ros {__version__}')
        if self._facts:
            self._writer.add_metadata(FACTS, self._facts)
        self._writer.flush()  # type: ignore[no-untyped-call]
        return self._writer

    def _announce(self, writer: Writer, topic: Topic) -> None:
        self._topics[topic.name] = topic
        if topic.msgtype not in self._schemas:
            self._schemas[topic.msgtype] = writer.register_schema(
                topic.msgtype, topic.language, topic.definition.encode()
            )
        self._channels[topic.name] = writer.register_channel(
            topic.name,
            'cdr',
            self._schemas[topic.msgtype],
            {
                'offered_qos_profiles': _yaml(_profiles(topic.qos)).strip(),
                'topic_type_hash': _type_hash(topic),
            },
        )

    def _finish_file(self, writer: Writer) -> None:
        self.flush()
        stream, self._writer, self._stream = self._stream, None, None
        assert stream is not None  # noqa: S101 (it is there while the writer is)
        try:
            writer.add_metadata(FACTS, self._facts)
            # The facts are in the file already.
            content = self._information() | {'custom_data': {}}
            writer.add_metadata('rosbag2', {'serialized_metadata': _yaml(content)})
            writer.finish()  # type: ignore[no-untyped-call]
            stream.flush()
            os.fsync(stream.fileno())
        finally:
            stream.close()

    def _information(self) -> dict[str, Any]:
        """Return what rosbag2 calls the information of a bag file."""
        span = {
            'duration': {'nanoseconds': max(self.end_ns - self.start_ns, 0)},
            'starting_time': {'nanoseconds_since_epoch': self.start_ns},
            'message_count': self.counts.total(),
        }
        return {
            'version': _VERSION,
            'storage_identifier': 'mcap',
            **span,
            'topics_with_message_count': [
                {
                    'topic_metadata': {
                        'name': topic.name,
                        'type': topic.msgtype,
                        'serialization_format': 'cdr',
                        'offered_qos_profiles': _profiles(topic.qos),
                        'type_description_hash': _type_hash(topic),
                    },
                    'message_count': self.counts[topic.name],
                }
                for topic in self._topics.values()
            ],
            'compression_format': '',
            'compression_mode': '',
            'relative_file_paths': [self.file.name],
            'files': [{'path': self.file.name, **span}],
            'custom_data': dict(self._facts),
            'ros_distro': os.environ.get('ROS_DISTRO', 'unknown'),
        }

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as err:
            raise self._failure(err) from err

    def _failure(self, err: OSError) -> BagError:
        """Leave the file as it is, and return what to raise."""
        stream, self._stream, self._writer, self._closed = self._stream, None, None, True
        if stream is not None:
            with suppress(OSError):
                stream.close()
            if not self.file.exists():
                return BagError(f'The bag {str(self.path)!r} was removed while it was recorded.')
        reason = err.strerror or str(err).rstrip('.')
        return BagError(f'Cannot write the bag {str(self.path)!r}: {reason}.')


def _yaml(content: object) -> str:
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


@contextmanager
def new_bag(path: Path) -> Iterator[BagWriter]:
    """Write a bag that appears when it is whole.

    Raises:
        BagError: Something is there already, or the disk refuses.
    """
    if path.exists():
        raise BagError(f'{str(path)!r} exists already; choose another name or remove it.')
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent, prefix=f'.{path.name}.') as folder:
            with BagWriter(Path(folder) / path.name) as writer:
                yield writer
            writer.path.replace(path)
    except OSError as err:
        raise BagError(f'Cannot write {str(path)!r}: {err.strerror}.') from err


def copy_bag(path: Path, writer: BagWriter) -> BagMessages:
    """Write the messages and facts of a bag into another one, and return what was read.

    What an unfinished bag holds is copied up to its last whole chunk. Messages that are not in CDR
    are left out.

    Raises:
        BagError: There is no bag, it is damaged, or the other one cannot be written.
    """
    if table_files(path):
        raise BagError(f'Expected a bag of messages, found tables of numbers in {str(path)!r}.')
    bag = BagMessages(path)
    added: set[str] = set()

    def add(topic: Topic) -> None:
        if topic.name in added or not topic.is_cdr:
            return
        added.add(topic.name)
        is_known = topic.msgtype in known_types().fielddefs
        if suffix(path) == ROS1 or not topic.language:
            topic = topic._replace(definition='', language='ros2msg')
        writer.add(define(topic) if is_known else topic)

    for topic, messages in bag.batches(lambda topic: topic.is_cdr):
        add(topic)
        received = messages.receive_ns.tolist()
        sent = [0] * len(received) if messages.sent_ns is None else messages.sent_ns.tolist()
        for row, stamps in enumerate(zip(received, sent, strict=True)):
            writer.write(topic.name, stamps[0], messages.message(row), stamps[1])
    for topic in bag.topics:
        add(topic)
    writer.set_facts(bag.facts)
    return bag
