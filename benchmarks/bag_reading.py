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

import argparse
import hashlib
import importlib.metadata
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore

from sysid_ros.bags import read_bag
from sysid_ros.bags.writer import BagWriter

JOINTS = tuple(f'joint_{k}' for k in range(12))
FIELDS = ('position', 'velocity', 'effort')
TOPIC = '/joint_states'
MSGTYPE = 'sensor_msgs/msg/JointState'
RATE = 1000
#: Values repeat after this many messages; stamps never do.
_PERIOD = 10_000
_STAMP = slice(4, 12)


class Arrays(NamedTuple):
    """(n,) stamps in ns and one (n, 12) array per field."""

    receive_ns: NDArray[np.int64]
    header_ns: NDArray[np.int64]
    fields: tuple[NDArray[np.float64], ...]


def write_bag(path: Path, count: int, compression: str) -> None:
    """Write a 12-joint robot at 1 kHz."""
    types = get_typestore(Stores.ROS2_JAZZY)
    message_type, header_type, time_type = (
        types.types[name]
        for name in (MSGTYPE, 'std_msgs/msg/Header', 'builtin_interfaces/msg/Time')
    )
    header = header_type(stamp=time_type(sec=0, nanosec=0), frame_id='')
    rows = np.random.default_rng(0).normal(size=(_PERIOD, len(FIELDS), len(JOINTS)))
    templates = []
    for row in rows:
        message: Any = message_type(header, list(JOINTS), row[0], row[1], row[2])
        templates.append(bytearray(types.serialize_cdr(message, MSGTYPE)))
    with BagWriter(path, compression=compression) as writer:
        writer.add_topic(TOPIC, MSGTYPE)
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


CONTENDERS = {'sysid_ros': ours, 'rosbags loop': loop}


def measure(name: str, path: Path) -> None:
    """Read once and print what it took, in JSON."""
    # Linux counts the peak in kB, the present in pages.
    resident = int(Path('/proc/self/statm').read_text('ascii').split()[1])
    before = resident * resource.getpagesize()
    began = time.perf_counter()
    found = CONTENDERS[name](path)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    arrays = (found.receive_ns, found.header_ns, *found.fields)
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    size = sum(array.nbytes for array in arrays)
    print(json.dumps({'seconds': seconds, 'peak': peak, 'size': size, 'sha': digest.hexdigest()}))


def _measured(name: str, path: Path) -> dict[str, Any]:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, '--measure', name, str(path)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return cast('dict[str, Any]', json.loads(out))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--minutes', type=float, default=2.0, help='length of the recording')
    parser.add_argument('--runs', type=int, default=3)
    parser.add_argument('--compression', choices=('none', 'zstd'), default='none')
    parser.add_argument('--folder', type=Path, help='where the bag is written; default: temporary')
    parser.add_argument('--measure', nargs=2, metavar=('NAME', 'BAG'), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Run both in turns and print medians, rates, their ratio, and whether the arrays agree."""
    args = _arguments()
    if args.measure:
        measure(args.measure[0], Path(args.measure[1]))
        return
    count = round(args.minutes * 60 * RATE)
    print(
        f'{os.cpu_count()} cores, Python {platform.python_version()}, '
        f'rosbags {importlib.metadata.version("rosbags")}, NumPy {np.__version__}'
    )
    print(
        f'{count} JointState messages of {len(JOINTS)} joints, '
        f'compression {args.compression}, {args.runs} runs'
    )
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in CONTENDERS}
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        path = Path(folder) / 'bag'
        write_bag(path, count, args.compression)
        for _ in range(args.runs):
            for name, found in runs.items():
                found.append(_measured(name, path))
    print(
        f'{"":14s}{"median/s":>9s}{"fastest":>9s}{"slowest":>9s}{"messages/s":>12s}{"memory":>8s}'
    )
    medians = []
    for name, found in runs.items():
        times = [run['seconds'] for run in found]
        medians.append(statistics.median(times))
        memory = max(run['peak'] / run['size'] for run in found)
        print(
            f'{name:14s}{medians[-1]:9.2f}{min(times):9.2f}{max(times):9.2f}'
            f'{count / medians[-1]:12.0f}{memory:8.2f}'
        )
    print(f'ratio of the medians: {medians[1] / medians[0]:.1f}')
    equal = len({run['sha'] for found in runs.values() for run in found}) == 1
    print(f'arrays ({runs["sysid_ros"][0]["size"] / 1e6:.0f} MB) equal: {"yes" if equal else "NO"}')


if __name__ == '__main__':
    main()
