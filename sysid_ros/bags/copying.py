# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The messages of a bag as they were recorded, byte by byte, in a bag that is whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sysid_ros.bags.cdr import known_types
from sysid_ros.bags.storage import ROS1, BagMessages, Topic, suffix
from sysid_ros.bags.tables import table_files
from sysid_ros.bags.writer import BagWriter, define
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
