# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A bag of joint states into arrays: read_bag and a loop over rosbags' messages, taking turns.

Both read the same bag from the page cache and end with the same arrays: stamps of receipt and
header, positions, velocities and efforts per joint. The loop is what one writes with rosbags: one
deserialised message after the other. The arrays are compared, bit by bit.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore

from sysid_ros.bags import read_bag
from sysid_ros.bags.writer import BagWriter

if TYPE_CHECKING:
    from numpy.typing import NDArray

RUNS = 5
MESSAGES = 100_000
JOINTS = tuple(f'joint_{k}' for k in range(12))
FIELDS = ('position', 'velocity', 'effort')
TOPIC = '/joint_states'
MSGTYPE = 'sensor_msgs/msg/JointState'
_PERIOD_NS = 1_000_000


class Arrays(NamedTuple):
    """(n,) stamps in ns and one (n, 12) array per field."""

    receive_ns: NDArray[np.int64]
    header_ns: NDArray[np.int64]
    fields: tuple[NDArray[np.float64], ...]


def write_bag(path: Path) -> None:
    """Write 100 s of a 12-joint robot at 1 kHz."""
    types = get_typestore(Stores.ROS2_JAZZY)
    message_type, header_type, time_type = (
        types.types[name]
        for name in (MSGTYPE, 'std_msgs/msg/Header', 'builtin_interfaces/msg/Time')
    )
    values = np.random.default_rng(0).normal(size=(MESSAGES, len(FIELDS), len(JOINTS)))
    with BagWriter(path) as writer:
        writer.add_topic(TOPIC, MSGTYPE)
        for number, row in enumerate(values):
            seconds, nanoseconds = divmod(number * _PERIOD_NS, 10**9)
            header = header_type(stamp=time_type(sec=seconds, nanosec=nanoseconds), frame_id='')
            message: Any = message_type(header, list(JOINTS), row[0], row[1], row[2])
            stamp = number * _PERIOD_NS + 200_000
            writer.write(TOPIC, stamp, bytes(types.serialize_cdr(message, MSGTYPE)))


def ours(path: Path) -> Arrays:
    """Read with sysid_ros."""
    topic = read_bag(path).topics[0]
    if topic.header_ns is None:
        msg = 'Expected header stamps, found none.'
        raise ValueError(msg)
    return Arrays(
        topic.receive_ns, topic.header_ns, tuple(np.array(field.values) for field in topic.fields)
    )


def loop(path: Path) -> Arrays:
    """Read with a loop over deserialised messages."""
    types = get_typestore(Stores.ROS2_JAZZY)
    received, stamps = [], []
    values: tuple[list[Any], ...] = ([], [], [])
    with Reader(path) as reader:
        for connection, receive_ns, data in reader.messages():
            message: Any = types.deserialize_cdr(data, connection.msgtype)
            received.append(receive_ns)
            stamps.append(message.header.stamp.sec * 10**9 + message.header.stamp.nanosec)
            for field, rows in zip(FIELDS, values, strict=True):
                rows.append(getattr(message, field))
    return Arrays(np.array(received), np.array(stamps), tuple(np.array(rows) for rows in values))


def main() -> None:
    """Run both in turns and print medians, rates, their ratio, and whether the arrays agree."""
    print(
        f'{os.cpu_count()} cores, Python {platform.python_version()}, '
        f'rosbags {importlib.metadata.version("rosbags")}, NumPy {np.__version__}'
    )
    print(f'{MESSAGES} JointState messages of {len(JOINTS)} joints, mcap, {RUNS} runs')
    contenders = {'sysid_ros': ours, 'rosbags loop': loop}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    equal = True
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'bag'
        write_bag(path)
        for run in range(-1, RUNS):  # the first warms up
            found = []
            for name, contender in contenders.items():
                began = time.perf_counter()
                found.append(contender(path))
                if run >= 0:
                    seconds[name].append(time.perf_counter() - began)
            first, second = found
            pairs = zip((*first[:2], *first.fields), (*second[:2], *second.fields), strict=True)
            equal &= all(np.array_equal(a, b) for a, b in pairs)
    print(f'{"":14s}{"median/s":>9s}{"fastest":>9s}{"slowest":>9s}{"messages/s":>12s}')
    for name, times in seconds.items():
        median = statistics.median(times)
        print(f'{name:14s}{median:9.3f}{min(times):9.3f}{max(times):9.3f}{MESSAGES / median:12.0f}')
    medians = [statistics.median(times) for times in seconds.values()]
    print(f'ratio of the medians: {medians[1] / medians[0]:.1f}')
    print(f'arrays equal: {"yes" if equal else "NO"}')


if __name__ == '__main__':
    main()
