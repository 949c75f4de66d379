# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The messages of a bag as they were recorded, byte by byte, in a bag that is whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sysid_ros.bags.cdr import known_types
from sysid_ros.bags.reader import BagMessages
from sysid_ros.bags.storage import ROS1, Stream, suffix
from sysid_ros.bags.tables import table_files
from sysid_ros.bags.writer import BagWriter, Definition, TopicQos, define
from sysid_ros.errors import BagError


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
    """Write the messages and facts of a bag into another one.

    What an unfinished bag holds is copied up to its last whole chunk. Messages that are not in CDR
    are left out.

    Args:
        path: A bag as `read_bag` takes it; tables hold no messages.
        writer: The other bag.

    Returns:
        What was read: topics, facts, and files that were not finished.

    Raises:
        BagError: There is no bag, it is damaged, or the other one cannot be written.
    """
    if path.exists() and table_files(path):
        raise BagError(f'Expected a bag of messages, found tables of numbers in {str(path)!r}.')
    bag = BagMessages(path)
    added: set[str] = set()

    def add(stream: Stream) -> None:
        if stream.topic not in added and stream.serialization in {'cdr', ''}:
            definition = _definition(stream, own=suffix(path) != ROS1)
            writer.add_topic(
                stream.topic, stream.msgtype, TopicQos.of(stream.qos), definition=definition
            )
            added.add(stream.topic)

    for stream, messages in bag.batches(lambda stream: stream.serialization in {'cdr', ''}):
        add(stream)
        sent_ns = [0] * len(messages.sizes)
        if messages.sent_ns is not None:
            sent_ns = messages.sent_ns.tolist()
        for row, (received, sent) in enumerate(
            zip(messages.receive_ns.tolist(), sent_ns, strict=True)
        ):
            writer.write(stream.topic, received, messages.message(row), sent)
    for stream in bag.streams:
        add(stream)
    writer.set_facts(bag.facts)
    return bag


def _definition(stream: Stream, *, own: bool) -> Definition:
    """Return the definition in a file, or that of the common interfaces, or one without text."""
    if own and stream.definition and stream.language:
        return define(stream.topic, stream.msgtype, stream.definition, stream.language)
    if stream.msgtype in known_types().fielddefs:
        return define(stream.topic, stream.msgtype)
    return Definition(stream.msgtype, '', 'ros2msg', '')
