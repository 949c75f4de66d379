# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A bag of joint states into arrays: read_bag and a loop over rosbags' messages, taking turns.

Both read the same bag from the page cache and end with the same arrays: stamps of receipt and
header, positions, velocities and efforts per joint. The loop is what one writes with rosbags: one
deserialised message after the other. The arrays are compared, bit by bit. Each run is a process of
its own, so that the peak of its memory is known: the largest resident size, less what the imports
take, over the size of the arrays.

    python benchmarks/bag_reading.py --minutes 2
    python benchmarks/bag_reading.py --minutes 60 --runs 1
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rosbags.rosbag2 import Reader
from shared.common import (
    JOINT_STATE,
    STORE,
    Floats,
    OneOf,
    Table,
    in_own_process,
    in_turns,
    joint_state,
    peak,
    resident,
    run,
    verdict,
)

from sysid_ros.bags.reader import read_bag
from sysid_ros.bags.writer import BagWriter

JOINTS = tuple(f'joint_{k}' for k in range(12))
FIELDS = ('position', 'velocity', 'effort')
TOPIC = '/joint_states'
RATE = 1000
_COMPRESSION = OneOf(('none', 'zstd'))
#: Values repeat after this many messages; stamps never do.
_PERIOD = 10_000
_STAMP = slice(4, 12)


class Arrays(NamedTuple):
    """(n,) stamps in ns and one (n, 12) array per field."""

    receive_ns: NDArray[np.int64]
    header_ns: NDArray[np.int64]
    fields: tuple[Floats, ...]


def write_bag(path: Path, count: int, compression: str) -> None:
    """Write a 12-joint robot at 1 kHz."""
    rows = np.random.default_rng(0).normal(size=(_PERIOD, len(FIELDS), len(JOINTS)))
    templates = [
        bytearray(STORE.serialize_cdr(joint_state(0, JOINTS, *row), JOINT_STATE)) for row in rows
    ]
    with BagWriter(path, compression=compression) as writer:
        writer.add_topic(TOPIC, JOINT_STATE)
        for number in range(count):
            data = templates[number % _PERIOD]
            seconds, rest = divmod(number, RATE)
            nanoseconds = rest * (1_000_000_000 // RATE)
            data[_STAMP] = np.array([seconds, nanoseconds], '<i4').tobytes()
            writer.write(TOPIC, seconds * 1_000_000_000 + nanoseconds + 200_000, bytes(data))


def ours(path: Path) -> Arrays:
    """Read with sysid_ros."""
    topic = read_bag(path).topics[0]
    if topic.header_ns is None:
        raise ValueError('Expected header stamps, found none.')
    return Arrays(topic.receive_ns, topic.header_ns, tuple(field.values for field in topic.fields))


def loop(path: Path) -> Arrays:
    """Read with a loop over deserialised messages."""
    received, stamps = [], []
    values: tuple[list[Any], ...] = ([], [], [])
    with Reader(path) as reader:
        for connection, receive_ns, data in reader.messages():
            message: Any = STORE.deserialize_cdr(data, connection.msgtype)
            received.append(receive_ns)
            stamps.append(message.header.stamp.sec * 10**9 + message.header.stamp.nanosec)
            for field, rows in zip(FIELDS, values, strict=True):
                rows.append(getattr(message, field))
    return Arrays(np.array(received), np.array(stamps), tuple(np.array(rows) for rows in values))


CONTENDERS = {'sysid_ros': ours, 'rosbags loop': loop}


def _measure(name: str, path: str) -> None:
    """Read once and print what it took, in JSON."""
    before, began = resident(), time.perf_counter()
    found = CONTENDERS[name](Path(path))
    seconds = time.perf_counter() - began
    most = peak() - before
    arrays = (found.receive_ns, found.header_ns, *found.fields)
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    size = sum(array.nbytes for array in arrays)
    print(json.dumps({'seconds': seconds, 'peak': most, 'size': size, 'sha': digest.hexdigest()}))


def compare(
    *,
    minutes: float = 2.0,
    runs: int = 3,
    compression: OneOf = _COMPRESSION,
    folder: Path = Path('/tmp'),  # noqa: S108
) -> bool:
    """Read a bag of so many minutes by both, in turns."""
    count = round(minutes * 60 * RATE)
    print(
        f'{count} JointState messages of {len(JOINTS)} joints, compression {compression}, {runs} '
        f'runs; rosbags {importlib.metadata.version("rosbags")}, NumPy {np.__version__}'
    )
    with tempfile.TemporaryDirectory(dir=folder) as own:
        path = Path(own) / 'bag'
        write_bag(path, count, str(compression))

        def reader(name: str) -> Any:
            return lambda _: in_own_process(__file__, name, str(path))

        found = in_turns({name: reader(name) for name in CONTENDERS}, runs)
    table = Table(
        'reader:12s', 'median/s:8.2f', 'fastest:8.2f', 'slowest:8.2f', 'messages/s:10.0f',
        'memory:6.2f',
    )  # fmt: skip
    medians = []
    for name, rows in found.items():
        seconds = [row['seconds'] for row in rows]
        medians.append(statistics.median(seconds))
        memory = max(row['peak'] / row['size'] for row in rows)
        rate = count / medians[-1]
        table.row(name, medians[-1], min(seconds), max(seconds), rate, memory)
    print(f'ratio of the medians: {medians[1] / medians[0]:.1f}')
    equal = len({row['sha'] for rows in found.values() for row in rows}) == 1
    return verdict(equal, f'arrays ({found["sysid_ros"][0]["size"] / 1e6:.0f} MB) are equal')


if __name__ == '__main__':
    if sys.argv[1:2] == ['measure']:
        _measure(*sys.argv[2:])
    else:
        run(__doc__, compare)
