# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a bag holds, as columns of numbers with their stamps; `reader` reads it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Span(NamedTuple):
    """Values at the ends of a joint's range, of positions in parts of that; else of degrees."""

    low: float
    high: float
    certain: bool  # whether the recording tells which of both it is


@dataclass(frozen=True)
class Field:
    """One numeric field of a message type, over all messages of a topic."""

    #: Path of the field in the message, with dots between levels: ``position``, ``data``,
    #: ``angular_velocity``, ``pose.pose.position``, ``feedback.positions``, ``points[0]`` ….
    name: str
    #: k labels, one per column: joint names, members of a structure (``x``, ``y`` …), or ``'0'``,
    #: ``'1'`` … where the message has neither. A number directly in the message has the label
    #: ``''``.
    labels: tuple[str, ...]
    values: NDArray[np.float64]  # (n, k) float64; NaN where a message did not carry the value
    #: Whether values change linearly from row to row, as what a controller asks for at each moment;
    #: else a command holds until the next.
    interpolated: bool = False
    #: Label to what positions are parts of, where they are no radians.
    spans: Mapping[str, Span] = field(default_factory=dict)
    #: Label to how often its values began a turn anew, where they go on instead.
    turns: Mapping[str, int] = field(default_factory=dict)
    #: Messages whose array has another size than their names, so that indices are the labels.
    unlike_names: int = 0


@dataclass(frozen=True)
class TopicColumns:
    """All messages of one topic."""

    topic: str  # name of the topic
    msgtype: str  # its type, as ``sensor_msgs/msg/JointState``
    #: (n,) int64, when the recorder received each message, ns since the epoch.
    receive_ns: NDArray[np.int64]
    #: (n,) int64, ``header.stamp`` of each message, or None when the type has no header. A stamp of
    #: zero stays zero here.
    header_ns: NDArray[np.int64] | None
    fields: tuple[Field, ...]  # the numeric fields that messages of this topic carry
    #: (n, 2) int64, the message that each row is from, and the leg of its path that ends there or
    #: later, where messages are interpolated between their points; else None.
    legs: NDArray[np.int64] | None = None
    #: (n,) int64, when its sender sent each message, ns since the epoch by that clock, 0 where the
    #: bag does not say; None where it does so of no message.
    sent_ns: NDArray[np.int64] | None = None

    @functools.cached_property
    def parts(self) -> tuple[tuple[frozenset[str], NDArray[np.int64]], ...]:
        """Which labels some messages are about, and the rows of these.

        Several nodes may publish some of the joints each: a message about others lacks nothing
        then, and stamps follow each other in each part. It is one part otherwise.
        """
        labels = list(dict.fromkeys(label for item in self.fields for label in item.labels))
        there = np.zeros((len(self.receive_ns), len(labels)), dtype=bool)
        for item in self.fields:
            columns = [labels.index(label) for label in item.labels]
            there[:, columns] |= np.isfinite(item.values)
        if not there.all() and there.any(axis=1).all():
            # The first label that a message is about tells its part, if there are parts.
            first = there.argmax(axis=1)
            parts = [np.flatnonzero(first == place) for place in np.unique(first)]
            kinds = np.array([there[rows[0]] for rows in parts])
            alike = all(
                (there[rows] == kind).all() for rows, kind in zip(parts, kinds, strict=True)
            )
            if alike and (kinds.sum(axis=0) == 1).all():
                names = np.array(labels)
                return tuple(
                    (frozenset(names[kind].tolist()), rows)
                    for rows, kind in zip(parts, kinds, strict=True)
                )
        return ((frozenset(labels), np.arange(len(there))),)

    @property
    def rows_about(self) -> dict[str, NDArray[np.int64]]:
        """Label to the rows that are about it."""
        return {label: rows for labels, rows in self.parts for label in labels}


@dataclass(frozen=True)
class TextColumn:
    """All messages of a ``std_msgs/String`` topic."""

    topic: str  # name of the topic
    #: (n,) int64, when the recorder received each message, ns since the epoch.
    receive_ns: NDArray[np.int64]
    texts: tuple[str, ...]  # n texts


@dataclass(frozen=True)
class UnreadTopic:
    """A topic that was not turned into columns, and why."""

    topic: str
    msgtype: str
    count: int
    reason: str


class SetBack(NamedTuple):
    """Where the clock of the recorder was set back."""

    receive_ns: int  # between the messages before and after it, as they stand in the columns, ns
    added_ns: int  # what was added to the stamps from there on, so that they go on, ns
    seconds: float  # by how much it was set back, s


@dataclass(frozen=True)
class BagColumns:
    """A bag's numeric content."""

    path: Path  # folder or file that was read
    topics: tuple[TopicColumns, ...]  # topics with columns, sorted by name
    unread: tuple[UnreadTopic, ...]  # topics without, sorted by name
    #: What the recorder noted about the session; empty for bags of most other recorders.
    facts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    #: Topics of ``std_msgs/String``: robot descriptions, markers, ….
    text_columns: tuple[TextColumn, ...] = ()
    #: Where the recorder's clock was set back; receive times go on there.
    set_back: tuple[SetBack, ...] = ()
    #: Names of files that their recorder has not closed: what it had in memory when it ended is not
    #: in the bag.
    unfinished: tuple[str, ...] = ()

    #: Names of files beside those of a bag, that its metadata does not list: they are not read.
    unlisted: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[tuple[str, str], ...]:
        """Topic and text of the first message of each ``std_msgs/String``."""
        return tuple((column.topic, column.texts[0]) for column in self.text_columns)
