# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A bag as a whole: when, how long, how large, and what its recorder noted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sysid_ros.alignment.health import SECOND_NS

if TYPE_CHECKING:
    from sysid_ros.bags import BagColumns

_STORAGE = {'.mcap': 'mcap', '.db3': 'sqlite3', '.bag': 'ROS 1'}
#: Suffix of a data file that was compressed as a whole.
_COMPRESSED = '.zstd'


@dataclass(frozen=True)
class BagFacts:
    """The bag as a whole.

    Attributes:
        path: Folder or file.
        storage: ``mcap``, ``sqlite3`` or ``ROS 1``; empty where there are no files.
        size: Of its data files, bytes.
        start_ns: First receive time, ns since the epoch; 0 when nothing was read.
        duration: From there to the last receive time, s.
        messages: In topics with numbers.
        facts: What the recorder wrote about the session; empty for other recorders' bags.
        dropped: Topic to messages that the recorder received and could not write.
        lost: Topic to messages that the middleware reported lost.
    """

    path: Path
    storage: str
    size: int
    start_ns: int
    duration: float
    messages: int
    facts: dict[str, str]
    dropped: dict[str, int]
    lost: dict[str, int]


def bag_facts(bag: BagColumns) -> BagFacts:
    """Say what is known of a bag as a whole; its files are looked up, not read."""
    known = [topic.receive_ns for topic in bag.topics if len(topic.receive_ns)]
    first = min((int(stamps.min()) for stamps in known), default=0)
    last = max((int(stamps.max()) for stamps in known), default=0)
    storage, size = _files(bag.path)
    facts = dict(bag.facts)
    return BagFacts(
        path=bag.path,
        storage=storage,
        size=size,
        start_ns=first,
        duration=(last - first) / SECOND_NS,
        messages=sum(map(len, known)),
        facts=facts,
        dropped=_counts(facts.get('dropped', '')),
        lost=_counts(facts.get('lost', '')),
    )


def _files(path: Path) -> tuple[str, int]:
    """Return the storage of a bag and the size of its data files."""
    files = sorted(path.iterdir()) if path.is_dir() else [path] if path.is_file() else []
    known = [(_STORAGE.get(_suffix(file), ''), file) for file in files]
    data = [(storage, file) for storage, file in known if storage]
    return next((storage for storage, _ in data), ''), sum(file.stat().st_size for _, file in data)


def _suffix(file: Path) -> str:
    return Path(file.name.removesuffix(_COMPRESSED)).suffix


def _counts(text: str) -> dict[str, int]:
    """Read topic to count from a fact; what another program wrote there is no count."""
    try:
        found = json.loads(text or '{}')
        return {str(topic): int(count) for topic, count in found.items() if int(count)}
    except (ValueError, TypeError, AttributeError):
        return {}
