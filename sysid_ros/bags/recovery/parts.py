# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the recovery of the two storage formats has in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


class FoundTopic(NamedTuple):
    """A topic as a damaged file describes it.

    Attributes:
        name: Name of the topic.
        msgtype: Its type, as ``sensor_msgs/msg/JointState``.
        text: Definition of the type; empty where the file has none.
        encoding: Language of the definition.
        digest: Hash of the type; empty where the file has none.
        qos: Quality of service as YAML; empty where the file has none.
        format: How messages are serialised.
    """

    name: str
    msgtype: str
    text: str
    encoding: str
    digest: str
    qos: str
    format: str


class Skipped(NamedTuple):
    """A part of a file that was not saved.

    Attributes:
        file: Name of the file.
        offset: Where it begins in the file, bytes.
        size: How long it is, bytes.
        reason: Why it was not saved, as the end of a sentence.
        lost: Messages in it by number of the topic, 0 for unknown topics; as far as that is known.
        start_ns: Receive time where it begins, ns since the epoch; 0 where not known.
        end_ns: Receive time where it ends.
    """

    file: str
    offset: int
    size: int
    reason: str
    lost: Mapping[int, int] = {}
    start_ns: int = 0
    end_ns: int = 0


class StoredMessage(NamedTuple):
    """A message as it is in a file.

    Attributes:
        number: Number of its topic in the file.
        receive_ns: When it was received, ns since the epoch.
        data: The serialised message.
        sent_ns: When it was sent, or the time of receipt again; 0 where the file does not say.
    """

    number: int
    receive_ns: int
    data: bytes
    sent_ns: int = 0


class SalvagedFile(Protocol):
    """A storage file of a bag, read as far as that is possible.

    What is in it is known once it was made; nothing but MemoryError and OSError is raised,
    whatever the bytes are.
    """

    path: Path
    #: Whether the recorder closed the file.
    closed: bool
    #: What is known about the session.
    facts: dict[str, str]
    #: rosbag2's own metadata as YAML; empty where the file has none.
    information: str
    #: Messages by number of the topic, as the file's statistics say; empty where it has none.
    announced: dict[int, int]
    #: What is not saved; complete after the messages were read.
    skipped: list[Skipped]
    #: Messages read so far that no checksum vouches for.
    unchecked: int

    @property
    def compression(self) -> str:
        """``zstd`` where messages were compressed together, else ``none``."""

    @property
    def topics(self) -> Mapping[int, FoundTopic]:
        """Topics by number."""

    def messages(self) -> Iterator[StoredMessage]:
        """Yield the messages that are right, in the order of the file."""

    def close(self) -> None:
        """Let go of the file."""
