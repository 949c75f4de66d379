# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The messages of a bag as they were recorded, byte by byte."""

from __future__ import annotations

import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.bags.input.files import Onward
from sysid_ros.bags.input.places import ROS1, find_bag, suffix
from sysid_ros.bags.input.tables import table_files
from sysid_ros.bags.output.files import Definition, Topic, TopicQos, define, known_types
from sysid_ros.bags.output.mcap_file import McapFile
from sysid_ros.bags.output.metadata import WrittenFile, information, metadata_text, qos_of
from sysid_ros.bags.reader import opened_files, readable
from sysid_ros.errors import BagError, nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from sysid_ros.bags.input.files import Stream
    from sysid_ros.bags.messages.batch import Batch

_CDR = ('cdr', '')


class RawTopic(NamedTuple):
    """A topic whose messages are kept as bytes.

    Attributes:
        name: Name of the topic.
        definition: Its type; without text where the bag has none and it is not a common one.
        qos: How it was offered.
    """

    name: str
    definition: Definition
    qos: TopicQos = TopicQos()

    @property
    def msgtype(self) -> str:
        """Type of its messages, as ``sensor_msgs/msg/JointState``."""
        return self.definition.msgtype


@dataclass(frozen=True)
class RawMessages:
    """Messages of several topics in the order in which they came.

    Attributes:
        topics: The topics.
        times_ns: (n,) int64, when each message was received, ns since the epoch; they increase.
        numbers: (n,) int64, which of the topics each message is on.
        messages: n messages, serialised.
    """

    topics: tuple[RawTopic, ...]
    times_ns: NDArray[np.int64]
    numbers: NDArray[np.int64]
    messages: tuple[bytes, ...]

    @classmethod
    def in_order(
        cls,
        topics: Sequence[RawTopic],
        times_ns: NDArray[np.int64],
        numbers: NDArray[np.int64],
        messages: Sequence[bytes],
    ) -> RawMessages:
        """Sort messages by time; those of one time stay in the order in which they are given."""
        order = np.argsort(times_ns, kind='stable')
        return cls(
            tuple(topics), times_ns[order], numbers[order], tuple(messages[row] for row in order)
        )

    def beside(self, other: RawMessages) -> RawMessages:
        """Return these messages and others, whose topics are other ones, in one order."""
        return self.in_order(
            (*self.topics, *other.topics),
            np.concatenate([self.times_ns, other.times_ns]),
            np.concatenate([self.numbers, other.numbers + len(self.topics)]),
            (*self.messages, *other.messages),
        )

    def without(self, names: Collection[str]) -> RawMessages:
        """Return what is on other topics than these."""
        kept = [k for k, topic in enumerate(self.topics) if topic.name not in names]
        places = np.full(len(self.topics), -1)
        places[kept] = np.arange(len(kept))
        rows = np.flatnonzero(places[self.numbers] >= 0)
        return RawMessages(
            tuple(self.topics[k] for k in kept),
            self.times_ns[rows],
            places[self.numbers[rows]],
            tuple(self.messages[row] for row in rows),
        )


def read_raw(path: Path, topics: Collection[str] = (), exclude: str = '') -> RawMessages:
    """Read the messages of a bag without looking into them; all of them are kept in memory.

    Args:
        path: A bag as `read_bag` takes it; tables hold no messages.
        topics: Topics to read, or patterns such as ``/left/*``; default all.
        exclude: But none in whose name this regular expression is found.

    Returns:
        The messages in the order of their receive stamps. Where the recorder's clock was set back,
        receive times go on. Topics without messages, and those that are not in CDR, are left out.

    Raises:
        UnfinishedBagError: The bag was not closed by its recorder.
        BagError: There is no bag, it is damaged, or there are no messages of a topic.
    """
    path = Path(path)
    if path.exists() and table_files(path):
        msg = f'Expected a bag of messages, found tables of numbers in {str(path)!r}.'
        raise BagError(msg)
    place, onward = find_bag(path), Onward()
    found: dict[tuple[str, str], list[Batch]] = {}
    described: dict[tuple[str, str], RawTopic] = {}

    def is_needed(stream: Stream) -> bool:
        asked = not topics or any(fnmatchcase(stream.topic, name) for name in topics)
        excluded = bool(exclude) and re.search(exclude, stream.topic) is not None
        return asked and not excluded and stream.serialization in _CDR

    known: set[str] = set()
    with opened_files(place, onward) as files:
        for file, opened in zip(place.files, files, strict=True):
            with readable(path, file):
                known |= {stream.topic for stream in opened.counts()}
                for stream, batch in opened.batches(is_needed):
                    key = stream.topic, stream.msgtype
                    # Definitions in ROS 1 bags are in another language.
                    described.setdefault(key, _described(stream, own=suffix(file) != ROS1))
                    found.setdefault(key, []).append(batch)
    if not found:
        asked = ', '.join(topics) or 'any topic'
        hint = nearest(next(iter(topics), ''), sorted(known))
        msg = f'The bag {str(path)!r} holds no messages of {asked} that are wanted; {hint}.'
        raise BagError(msg)
    batches = [(number, batch) for number, key in enumerate(found) for batch in found[key]]
    return RawMessages.in_order(
        [described[key] for key in found],
        np.concatenate([batch.receive_ns for _, batch in batches]),
        np.concatenate([np.full(len(batch.sizes), number) for number, batch in batches]),
        [batch.message(row) for _, batch in batches for row in range(len(batch.sizes))],
    )


def write_mcap(path: Path, content: RawMessages) -> None:
    """Write messages into one MCAP file, which appears when it is whole.

    Raises:
        BagError: The file cannot be written.
    """
    topics = [Topic(k + 1, *topic) for k, topic in enumerate(content.topics)]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f'.{path.name}.') as folder:
            file = McapFile(Path(folder) / path.name)
            try:
                for topic in topics:
                    file.add_topic(topic)
                rows = zip(
                    content.numbers.tolist(),
                    content.times_ns.tolist(),
                    content.messages,
                    strict=True,
                )
                for number, receive_ns, message in rows:
                    file.write(number + 1, receive_ns, message)
                file.flush()
                written = [WrittenFile(path.name, file.extent)]
                file.close(metadata_text(information(topics, written, 'mcap', {})))
            except BaseException:
                with suppress(OSError):
                    file.abort()
                raise
            file.path.replace(path)
    except OSError as err:
        msg = f'Cannot write {str(path)!r}: {err.strerror}.'
        raise BagError(msg) from err


def _described(stream: Stream, *, own: bool) -> RawTopic:
    """Return a topic with the definition in its file, or that of the common interfaces."""
    name, msgtype, text, language = stream[:4]
    if own and text and language:
        definition = define(name, msgtype, text, language)
    elif msgtype in known_types().fielddefs:
        definition = define(name, msgtype)
    else:
        definition = Definition(msgtype, '', 'ros2msg', '')
    return RawTopic(name, definition, qos_of(stream.qos))
