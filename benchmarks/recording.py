# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The recorder node: what it loses at 4 × 2.5 kHz, and what is left of it where it is killed.

``load``: four publishers, all in processes of their own. Each numbers its messages and begins when
the recorder says that it records, whether or not it has discovered the recorder. What is lost is
counted from the numbers in the bag, not from what the recorder says; both are printed. What is
missing before the first message that arrived was sent before discovery was over, what is missing
later was lost. Publishers send prepared bytes: where they do not reach their rate all the same, the
rate that they reached is what was recorded.

``kills``: recorder processes are killed with -9 at random moments while another process publishes
on four topics at 500 Hz. Every message follows from its topic and number, and the time at which it
was sent is kept, so that each byte that is left and each lost second can be told. Then the disk is
full.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from rosbags.rosbag2 import Reader
from shared.common import JOINT_STATE, STORE, OneOf, Table, joint_state, run, verdict

from sysid_ros.bags.reader import read_bag
from sysid_ros.bags.writer import copy_bag, new_bag
from sysid_ros.errors import BagError

TOPICS = tuple(f'/robot_{k}/joint_states' for k in range(4))
JOINTS = 12
_RELIABILITY = OneOf(('mixed', 'reliable', 'best_effort'))
_COMPRESSION = OneOf(('none', 'zstd'))
#: Limit on any wait beside the recording itself, seconds.
_TIMEOUT = 60.0
_GO = 'go\n'
#: Where the stamp is in a serialised message: behind the encapsulation.
_STAMP = struct.Struct('<iI')
_STAMP_OFFSET = 4
_NUMBER = struct.Struct('<d')
#: Stands for the number in the prepared bytes.
_MARK = 1234.56789


class Usage(NamedTuple):
    """What a process has used so far: CPU time, s, and memory now and at most, MB."""

    cpu: float
    memory: float
    peak: float


def prepared() -> tuple[bytearray, int]:
    """Return a serialised message and where the number is in it."""
    values = np.linspace(-1, 1, JOINTS)
    values[0] = _MARK
    names = [f'joint_{k}' for k in range(JOINTS)]
    parts = values, np.linspace(-2, 2, JOINTS), np.linspace(-3, 3, JOINTS)
    data = bytearray(STORE.serialize_cdr(joint_state(0, names, *parts), JOINT_STATE))
    return data, data.index(_NUMBER.pack(_MARK))


def publish(topic: str, reliability: str, rate: float, seconds: float) -> None:
    """Publish numbered messages on schedule once a line arrives on standard input."""
    import rclpy  # noqa: PLC0415 (the parent needs no ROS)
    from rclpy.qos import QoSProfile, ReliabilityPolicy  # noqa: PLC0415
    from sensor_msgs.msg import JointState  # noqa: PLC0415

    data, offset = prepared()
    rclpy.init()
    node = rclpy.create_node(f'publisher_{os.getpid()}')
    qos = QoSProfile(depth=1000, reliability=ReliabilityPolicy[reliability.upper()])
    publisher = node.create_publisher(JointState, topic, qos)
    sys.stdin.readline()
    count = round(rate * seconds)
    began = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        now = time.time_ns()
        _STAMP.pack_into(data, _STAMP_OFFSET, now // 10**9, now % 10**9)
        _NUMBER.pack_into(data, offset, float(number))
        publisher.publish(bytes(data))
    print(f'{count} {time.monotonic() - began}', flush=True)
    if reliability == 'reliable':
        publisher.wait_for_all_acked(rclpy.duration.Duration(seconds=30))
    print('acknowledged', flush=True)
    sys.stdin.readline()
    node.destroy_node()
    rclpy.shutdown()


def usage(pid: int) -> Usage:
    """Return what a running process has used so far."""
    fields = Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')
    status = dict(
        line.split(':', 1) for line in Path(f'/proc/{pid}/status').read_text().splitlines()
    )
    memory, peak = (int(status[key].split()[0]) / 1000 for key in ('VmRSS', 'VmHWM'))
    return Usage(cpu, memory, peak)


class Processes:
    """Processes of the benchmark in a ROS domain of their own; they end with the context."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[str]] = []
        self._environment = {
            **os.environ,
            'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
            'ROS_DOMAIN_ID': str(1 + os.getpid() % 100),
            'PYTHONUNBUFFERED': '1',
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.wait()

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a Python process with pipes."""
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._started.append(process)
        return process


def read_line(process: subprocess.Popen[str], text: str = '') -> str:
    """Read lines of a process until one holds a text, and return it."""
    lines: list[str] = []
    for line in process.stdout or ():
        lines.append(line)
        if text in line:
            return line
    raise RuntimeError(
        f'Expected the line {text!r}, but the process ended; it printed:\n{"".join(lines)}'
    )


def tell(process: subprocess.Popen[str], text: str) -> None:
    """Write to a process's standard input."""
    if process.stdin is not None:
        process.stdin.write(text)
        process.stdin.flush()


def numbers(bag: Path, sent: dict[str, int]) -> dict[str, NDArray[np.int64]]:
    """Return how often each number of each topic is in a bag."""
    _, offset = prepared()
    found = {topic: np.zeros(count, dtype=np.int64) for topic, count in sent.items()}
    with Reader(bag) as reader:
        for connection, _, data in reader.messages():
            if connection.topic in found:
                found[connection.topic][int(_NUMBER.unpack_from(data, offset)[0])] += 1
    return found


def start_recorder(
    processes: Processes, bag: Path, compression: str = 'none'
) -> subprocess.Popen[str]:
    """Start a recorder and wait until it records."""
    values: dict[str, object] = {'output': bag, 'topics': list(TOPICS)}
    if compression != 'none':
        values['compression'] = compression
    words = [word for name, value in values.items() for word in ('-p', f'{name}:={value}')]
    recorder = processes.start('-m', 'sysid_ros.nodes', 'recorder', '--ros-args', *words)
    read_line(recorder, 'recording ')
    return recorder


def load(
    *,
    seconds: float = 10.0,
    rate: float = 2500.0,
    reliability: OneOf = _RELIABILITY,
    compression: OneOf = _COMPRESSION,
    folder: Path = Path('/tmp'),  # noqa: S108
) -> None:
    """Record, and compare the bag with what was sent."""
    chosen = str(reliability)
    kinds = ('reliable',) * 2 + ('best_effort',) * 2 if chosen == 'mixed' else (chosen,) * 4
    with tempfile.TemporaryDirectory(dir=folder) as own, Processes() as processes:
        bag = Path(own) / 'bag'
        schedule = (str(rate), str(seconds))
        publishers = [
            processes.start(__file__, 'publish', topic, kind, *schedule)
            for topic, kind in zip(TOPICS, kinds, strict=True)
        ]
        recorder = start_recorder(processes, bag, str(compression))
        log: list[str] = []
        draining = threading.Thread(target=lambda: log.extend(recorder.stdout or ()), daemon=True)
        draining.start()
        before, began = usage(recorder.pid), time.monotonic()
        for publisher in publishers:
            tell(publisher, _GO)
        sent = [(int(n), float(s)) for n, s in (read_line(p).split() for p in publishers)]
        after, took = usage(recorder.pid), time.monotonic() - began
        for publisher in publishers:
            read_line(publisher, 'acknowledged')
        recorder.send_signal(signal.SIGINT)
        recorder.wait(_TIMEOUT)
        draining.join(_TIMEOUT)
        for publisher in publishers:
            tell(publisher, _GO)
            publisher.wait(_TIMEOUT)
        found = numbers(bag, {topic: n for topic, (n, _) in zip(TOPICS, sent, strict=True)})
        size = sum(file.stat().st_size for file in bag.iterdir())
    table = Table(
        'topic:22s', 'kind:11s', 'sent:8d', 'reached/Hz:10.1f', 'in the bag:10d',
        'undiscovered:12d', 'lost:5d', 'twice:5d',
    )  # fmt: skip
    lost = 0
    for topic, kind, (count, spent) in zip(TOPICS, kinds, sent, strict=True):
        times = found[topic]
        present = np.flatnonzero(times)
        early = int(present[0]) if len(present) else count
        missing = count - early - len(present)
        lost += missing
        twice = int((times > 1).sum())
        table.row(topic, kind, count, count / spent, int(times.sum()), early, missing, twice)
    used = after.cpu - before.cpu
    print(
        f'lost: {lost} of {sum(n for n, _ in sent)}; recorder: {used:.2f} s of CPU in {took:.1f} s '
        f'({used / took:.0%} of a core), memory {before.memory:.0f} MB at the start, '
        f'{after.memory:.0f} MB at the end, {after.peak:.0f} MB at most; bag {size / 1e6:.1f} MB'
    )
    said = next((line for line in log if line.startswith('total')), 'nothing')
    print(f"the recorder's own count (messages, lost, dropped): {' '.join(said.split()[1:])}")


_KILL_RATE = 500.0
#: How long a recorder records before it is killed, at least and at most, seconds.
KILL_SECONDS = (0.3, 5.0)
#: What a killed recorder may lose, seconds.
MOST_LOST = 1.0
#: Size of the disk, or of the largest file, when the disk is to be full, bytes.
DISK = 8 << 20
#: Messages whose sending times are kept: ten minutes at 500 Hz.
_MOST_NUMBERS = 300_000


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


def publish_numbers(folder: Path) -> None:
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
        time.sleep(max(0.0, began + number / _KILL_RATE - time.monotonic()))
        sent.times[number] = time.monotonic()
        for index, publisher in enumerate(publishers):
            sent.heard[number, index] = publisher.get_subscription_count() > 0
            publisher.publish(messages.make(index, number))


@contextmanager
def publishing(folder: Path) -> Iterator[tuple[Processes, Sent]]:
    """Publish in another process; yield where to start others, and what was sent."""
    sent = notes(folder, 'w+')
    with Processes() as processes:
        read_line(processes.start(__file__, 'numbers', str(folder)), 'publishing')
        yield processes, sent


def kill(folder: Path) -> Loss:
    """Kill a recorder at a random moment, and see what is left."""
    bag = folder / 'bag'
    with publishing(folder) as (processes, sent):
        recorder = start_recorder(processes, bag)
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
    complaint, read = '', dict[str, int]()
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
        # A recorder that is killed in its first half second has handed nothing over.
        complaint = '' if 'holds no messages' in str(err) else str(err)
    command = [sys.executable, '-m', 'sysid_ros.cli', 'inspect', str(bag)]
    inspected = subprocess.run(command, check=False, capture_output=True, text=True)
    if 'Traceback' in inspected.stderr or (inspected.returncode and read):
        complaint = complaint or f'inspect: {inspected.stderr[-300:]}'
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
        recorder = start_recorder(processes, bag)
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


def kills(*, kills: int = 3, seed: int = 0) -> bool:
    """Kill recorders, then fill the disk of one."""
    random.seed(seed or None)
    with tempfile.TemporaryDirectory() as name:
        well = run_kills(kills, Path(name))
    with tempfile.TemporaryDirectory() as name:
        well &= run_full_disk(Path(name))
    return verdict(well, '(at most 1 s lost, nothing wrong, no traceback)')


if __name__ == '__main__':
    match sys.argv[1:]:
        case ['publish', topic, reliability, rate, seconds]:
            publish(topic, reliability, float(rate), float(seconds))
        case ['numbers', folder]:
            publish_numbers(Path(folder))
        case _:
            run(__doc__, load, kills)
