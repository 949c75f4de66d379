# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is left of recordings whose recorder was killed or whose disk was full.

Recorder processes are killed with -9 at random moments while another process publishes on four
topics at 500 Hz. Every message follows from its topic and number, and the time at which it was
sent is kept, so that each byte that is left and each lost second can be told. Then the disk is
full. The exit code is 1 if anything is not as it should be.

    python benchmarks/crashes.py --kills 30
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from recording import TOPICS, Processes, prepared, read_line
from rosbags.rosbag2 import Reader

from sysid_ros.bags import read_bag
from sysid_ros.bags.copying import copy_bag, new_bag
from sysid_ros.errors import BagError

RATE = 500.0
#: How long a recorder records before it is killed, at least and at most, seconds.
KILL_SECONDS = (0.3, 5.0)
#: What a killed recorder may lose, seconds.
MOST_LOST = 1.0
#: Size of the disk, or of the largest file, when the disk is to be full, bytes.
DISK = 8 << 20
#: Until a full disk has ended the recorder, seconds.
_TIMEOUT = 60.0
#: Messages whose sending times are kept: ten minutes at 500 Hz.
_MOST_NUMBERS = 300_000
_STAMP = struct.Struct('<iI')
_STAMP_OFFSET = 4
_NUMBER = struct.Struct('<d')


class Messages:
    """The messages of the publisher: every byte follows from topic and number."""

    def __init__(self) -> None:
        self._data, self._offset = prepared()

    def make(self, topic: int, number: int) -> bytes:
        """Return a serialised message."""
        _STAMP.pack_into(self._data, _STAMP_OFFSET, number, topic)
        _NUMBER.pack_into(self._data, self._offset, number + topic / len(TOPICS))
        return bytes(self._data)

    def number(self, data: bytes) -> int:
        """Return the number in a message."""
        return int(_STAMP.unpack_from(data, _STAMP_OFFSET)[0])


class Sent(NamedTuple):
    """What the publisher has noted so far.

    Attributes:
        times: When each number was sent, monotonic, s; 0 where it was not.
        heard: Whether each topic had a subscription then, by number and topic.
    """

    times: NDArray[np.float64]
    heard: NDArray[np.bool_]


def notes(folder: Path, mode: Literal['r+', 'w+']) -> Sent:
    """Return what the publisher notes, shared between processes."""
    return Sent(
        np.memmap(folder / 'times', np.float64, mode, shape=(_MOST_NUMBERS,)),
        np.memmap(folder / 'heard', np.bool_, mode, shape=(_MOST_NUMBERS, len(TOPICS))),
    )


class Loss(NamedTuple):
    """What a kill has cost.

    Attributes:
        messages: Messages that are left.
        seconds: From the first message that is missing at the end to the kill; the largest of all
            topics.
        gaps: Messages that are missing between others.
        wrong: Messages that are not what was sent.
        complaint: What else is not as it should be, or nothing.
    """

    messages: int
    seconds: float
    gaps: int
    wrong: int
    complaint: str = ''


def publish(folder: Path) -> None:
    """Publish numbered messages on all topics until the process is killed."""
    import rclpy  # noqa: PLC0415 (the parent needs no ROS)
    from rclpy.qos import QoSProfile  # noqa: PLC0415
    from sensor_msgs.msg import JointState  # noqa: PLC0415

    sent = notes(folder, 'r+')
    messages = Messages()
    rclpy.init()
    node = rclpy.create_node('publisher')
    publishers = [
        node.create_publisher(JointState, topic, QoSProfile(depth=1000)) for topic in TOPICS
    ]
    print('publishing', flush=True)
    began = time.monotonic()
    for number in range(_MOST_NUMBERS):
        time.sleep(max(0.0, began + number / RATE - time.monotonic()))
        sent.times[number] = time.monotonic()
        for index, publisher in enumerate(publishers):
            sent.heard[number, index] = publisher.get_subscription_count() > 0
            publisher.publish(messages.make(index, number))


def record(processes: Processes, bag: Path) -> subprocess.Popen[str]:
    """Start a recorder and wait until it records."""
    values = {'output': bag, 'topics': list(TOPICS)}
    words = [word for name, value in values.items() for word in ('-p', f'{name}:={value}')]
    recorder = processes.start('-m', 'sysid_ros.nodes', 'recorder', '--ros-args', *words)
    read_line(recorder, 'recording ')
    return recorder


@contextmanager
def publishing(folder: Path) -> Iterator[tuple[Processes, Sent]]:
    """Publish in another process; yield where to start others, and what was sent."""
    sent = notes(folder, 'w+')
    with Processes() as processes:
        read_line(processes.start(__file__, '--publish', str(folder)), 'publishing')
        yield processes, sent


def kill(folder: Path) -> Loss:
    """Kill a recorder at a random moment, and see what is left."""
    bag = folder / 'bag'
    with publishing(folder) as (processes, sent):
        recorder = record(processes, bag)
        time.sleep(random.uniform(*KILL_SECONDS))  # noqa: S311 (not for secrets)
        recorder.kill()
        killed = time.monotonic()
        recorder.wait()
    return compare(bag, sent, killed)


def compare(bag: Path, sent: Sent, killed: float) -> Loss:
    """Recover a bag and compare it with what was sent until the recorder was killed."""
    before = {file.name: file.read_bytes() for file in bag.iterdir()}
    target = bag.with_name(f'{bag.name}_recovered')
    found: dict[str, list[int]] = {topic: [] for topic in TOPICS}
    wrong = 0
    complaint = ''
    try:
        read = {topic.topic: len(topic.receive_ns) for topic in read_bag(bag).topics}
        with new_bag(target) as writer:
            copy_bag(bag, writer)
        messages = Messages()
        with Reader(target) as reader:
            for connection, _, data in reader.messages():
                number = messages.number(data)
                found[connection.topic].append(number)
                wrong += messages.make(TOPICS.index(connection.topic), number) != bytes(data)
        if read != {topic: len(own) for topic, own in found.items() if own}:
            complaint = 'reading and recovering differ'
    except BagError as err:
        complaint = str(err)
    if before != {file.name: file.read_bytes() for file in bag.iterdir()}:
        complaint = 'the bag was changed'
    numbers = [np.unique(found[topic]) for topic in TOPICS]
    gaps = sum(int(np.ptp(own)) + 1 - len(own) for own in numbers if len(own))
    seconds = max(_lost(own, sent, index, killed) for index, own in enumerate(numbers))
    counts = [len(found[topic]) for topic in TOPICS]
    if seconds > MOST_LOST:
        complaint = complaint or f'too much is lost; messages by topic: {counts}'
    return Loss(sum(counts), seconds, gaps, wrong, complaint)


def _lost(numbers: NDArray[np.int64], sent: Sent, topic: int, killed: float) -> float:
    """Return from when on messages of a topic are missing, in seconds before the kill."""
    is_due = (sent.times > 0) & (sent.times < killed) & sent.heard[:, topic]
    if len(numbers):
        is_due[: numbers[-1] + 1] = False
    return float(killed - sent.times[is_due].min()) if is_due.any() else 0.0


def run_kills(kills: int, folder: Path) -> bool:
    """Kill recorders, print what each lost, and tell whether all is well."""
    losses: list[Loss] = []
    for index in range(kills):
        own = folder / str(index)
        own.mkdir()
        loss = kill(own)
        losses.append(loss)
        print(
            f'kill {index + 1:3d}: {loss.messages:6d} messages left, '
            f'{loss.seconds:.3f} s lost, {loss.gaps} missing in between, {loss.wrong} wrong '
            f'{loss.complaint}',
            flush=True,
        )
        shutil.rmtree(own)
    worst = max(loss.seconds for loss in losses)
    wrong = sum(loss.wrong for loss in losses)
    bad = sum(bool(loss.complaint) for loss in losses)
    print(
        f'{kills} recorders killed, {bad} bags with complaints, at most {worst:.3f} s '
        f'lost, {sum(loss.gaps for loss in losses)} messages missing in between, {wrong} of '
        f'{sum(loss.messages for loss in losses)} messages wrong'
    )
    return worst <= MOST_LOST and not wrong and not bad


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """Make a folder a small disk; yield whether that was possible."""
    folder.mkdir()
    command = ['mount', '-t', 'tmpfs', '-o', f'size={DISK}', 'tmpfs', str(folder)]
    try:
        mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(['umount', str(folder)], check=True)


def run_full_disk(folder: Path) -> bool:
    """Record until the disk is full, print what is left, and tell whether all is well."""
    with publishing(folder) as (processes, _), small_disk(folder / 'disk') as mounted:
        bag = folder / 'disk' / 'bag'
        recorder = record(processes, bag)
        if not mounted:
            resource.prlimit(recorder.pid, resource.RLIMIT_FSIZE, (DISK, DISK))
        output, _ = recorder.communicate(timeout=_TIMEOUT)
        kind = f'a tmpfs of {DISK} bytes' if mounted else f'a limit of {DISK} bytes per file'
        print(f'{kind}; the recorder ended with {recorder.returncode} and said:')
        print('\n'.join(line for line in output.splitlines() if 'bag' in line.lower()))
        try:
            counts = [len(topic.receive_ns) for topic in read_bag(bag).topics]
            print(f'the bag reads: {sum(counts)} messages')
        except BagError as err:
            print(err)
            counts = []
    is_clean = 'Traceback' not in output and recorder.returncode in {0, 2}
    return is_clean and sum(counts) > 0


def main() -> int:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').splitlines()[0])
    parser.add_argument('--kills', type=int, default=3, help='recorders to kill')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--publish', type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.publish is not None:
        publish(given.publish)
        return 0
    random.seed(given.seed or None)
    print(f'{os.cpu_count()} cores, Python {sys.version.split()[0]}')
    with tempfile.TemporaryDirectory() as name:
        well = run_kills(given.kills, Path(name))
    with tempfile.TemporaryDirectory() as name:
        well &= run_full_disk(Path(name))
    print('all is well' if well else 'not all is well')
    return 0 if well else 1


if __name__ == '__main__':
    sys.exit(main())
