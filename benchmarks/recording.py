# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The recorder node against four publishers of 2.5 kHz, all in processes of their own.

Each publisher numbers its messages and begins when the recorder says that it records, whether or
not the publisher has discovered the recorder. What is lost is counted from the numbers in the bag,
not from what the recorder says; both are printed. What is missing before the first message that
arrived was sent before discovery was over, what is missing later was lost. Publishers send
prepared bytes: where they do not reach their rate all the same, the rate that they reached is what
was recorded.

    python benchmarks/recording.py --seconds 60 --load
    python benchmarks/recording.py --soak 1200 --rate 1000
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from rosbags.rosbag2 import Reader

from sysid_ros.bags.cdr import known_types

TOPICS = tuple(f'/robot_{k}/joint_states' for k in range(4))
JOINTS = 12
STATE = 'sensor_msgs/msg/JointState'
#: Limit on any wait beside the recording itself, seconds.
_TIMEOUT = 60.0
_GO = 'go\n'
#: Where the stamp is in a serialised message: behind the encapsulation.
_STAMP = struct.Struct('<iI')
_STAMP_OFFSET = 4
_NUMBER = struct.Struct('<d')
#: Stands for the number in the prepared bytes.
_MARK = 1234.56789
#: What the process that loads the disk reads again and again, bytes.
_LOAD_BYTES = 512 << 20
_LOAD_BLOCK = 1 << 20


class Options(NamedTuple):
    """What to run."""

    seconds: float
    rate: float
    reliability: str
    compression: str
    load: bool
    soak: bool
    folder: Path | None


class Usage(NamedTuple):
    """What a process has used so far: CPU time, s, and memory now and at most, MB."""

    cpu: float
    memory: float
    peak: float


class Sent(NamedTuple):
    """What a publisher sent, and how long that took, s."""

    messages: int
    seconds: float


def prepared() -> tuple[bytearray, int]:
    """Return a serialised message and where the number is in it."""
    types = known_types()
    kinds = types.types
    stamp = kinds['builtin_interfaces/msg/Time'](0, 0)
    values = np.linspace(-1, 1, JOINTS)
    values[0] = _MARK
    message = kinds[STATE](
        header=kinds['std_msgs/msg/Header'](stamp=stamp, frame_id=''),
        name=[f'joint_{k}' for k in range(JOINTS)],
        position=values,
        velocity=np.linspace(-2, 2, JOINTS),
        effort=np.linspace(-3, 3, JOINTS),
    )
    data = bytearray(types.serialize_cdr(message, STATE))
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


def load(file: Path) -> None:
    """Read a large file from the disk, not from the page cache, until standard input ends."""
    block = os.urandom(_LOAD_BLOCK)
    with file.open('wb', buffering=0) as stream:
        for _ in range(_LOAD_BYTES // _LOAD_BLOCK):
            stream.write(block)
        os.fsync(stream.fileno())
    print('loading', flush=True)
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    total, began = 0, time.monotonic()
    with file.open('rb', buffering=0) as stream:
        while not ended.is_set():
            size = len(stream.read(_LOAD_BLOCK))
            total += size
            if not size:
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                stream.seek(0)
    print(f'{total / (time.monotonic() - began) / 1e6:.0f} MB/s', flush=True)


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


def watch(pid: int, ended: threading.Event, began: float) -> None:
    """Print the memory of a process every minute."""
    while not ended.wait(60.0):
        now = usage(pid)
        print(f'{(time.monotonic() - began) / 60:5.1f} min {now.memory:8.1f} MB', flush=True)


def run(options: Options, folder: Path) -> None:
    """Record, and compare the bag with what was sent."""
    kinds = {
        'mixed': ('reliable', 'reliable', 'best_effort', 'best_effort'),
        'reliable': ('reliable',) * 4,
        'best_effort': ('best_effort',) * 4,
    }[options.reliability]
    bag = folder / 'bag'
    parameters = {
        'output': bag,
        'topics': list(TOPICS),
        **({} if options.compression == 'none' else {'compression': options.compression}),
    }
    with Processes() as processes:
        reading = processes.start(__file__, 'load', str(folder / 'load')) if options.load else None
        if reading is not None:
            read_line(reading, 'loading')
        schedule = (str(options.rate), str(options.seconds))
        publishers = [
            processes.start(__file__, 'publish', topic, kind, *schedule)
            for topic, kind in zip(TOPICS, kinds, strict=True)
        ]
        words = [word for name, value in parameters.items() for word in ('-p', f'{name}:={value}')]
        recorder = processes.start('-m', 'sysid_ros.nodes', 'recorder', '--ros-args', *words)
        read_line(recorder, 'recording ')
        log: list[str] = []
        draining = threading.Thread(target=lambda: log.extend(recorder.stdout or ()), daemon=True)
        draining.start()
        before, began = usage(recorder.pid), time.monotonic()
        for publisher in publishers:
            tell(publisher, _GO)
        ended = threading.Event()
        if options.soak:
            threading.Thread(target=watch, args=(recorder.pid, ended, began), daemon=True).start()
        sent: list[Sent] = []
        for publisher in publishers:
            count, _, took = read_line(publisher).partition(' ')
            sent.append(Sent(int(count), float(took)))
        ended.set()
        after, seconds = usage(recorder.pid), time.monotonic() - began
        for publisher in publishers:
            read_line(publisher, 'acknowledged')
        recorder.send_signal(signal.SIGINT)
        recorder.wait(_TIMEOUT)
        draining.join(_TIMEOUT)
        if reading is not None and reading.stdin is not None:
            reading.stdin.close()
            print(f'another process read the disk with {read_line(reading).strip()}')
        for publisher in publishers:
            tell(publisher, _GO)
            publisher.wait(_TIMEOUT)
    found = numbers(bag, {t: own.messages for t, own in zip(TOPICS, sent, strict=True)})
    print(
        f'{"topic":24s}{"":12s}{"sent":>9s}{"reached/Hz":>12s}{"in the bag":>12s}'
        f'{"undiscovered":>14s}{"lost":>6s}{"twice":>7s}'
    )
    lost = 0
    for topic, kind, own in zip(TOPICS, kinds, sent, strict=True):
        times = found[topic]
        present = np.flatnonzero(times)
        early = int(present[0]) if len(present) else own.messages
        missing = own.messages - early - len(present)
        lost += missing
        print(
            f'{topic:24s}{kind:12s}{own.messages:9d}{own.messages / own.seconds:12.1f}'
            f'{int(times.sum()):12d}{early:14d}{missing:6d}{int((times > 1).sum()):7d}'
        )
    used = after.cpu - before.cpu
    size = sum(file.stat().st_size for file in bag.iterdir())
    print(
        f'lost: {lost} of {sum(own.messages for own in sent)}; recorder: {used:.2f} s of CPU in '
        f'{seconds:.1f} s ({used / seconds:.0%} of a core), memory {before.memory:.0f} MB at the '
        f'start, {after.memory:.0f} MB at the end, {after.peak:.0f} MB at most; '
        f'bag {size / 1e6:.1f} MB'
    )
    said = next((line for line in log if line.startswith('total')), 'nothing')
    print(f"the recorder's own count (messages, lost, dropped): {' '.join(said.split()[1:])}")


def main() -> None:
    """Read the options, run, and clean up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seconds', type=float, default=10.0)
    parser.add_argument('--rate', type=float, default=2500.0, help='messages per second and topic')
    parser.add_argument(
        '--reliability', choices=('mixed', 'reliable', 'best_effort'), default='mixed'
    )
    parser.add_argument('--compression', choices=('none', 'zstd'), default='none')
    parser.add_argument('--load', action='store_true', help='let another process read the disk')
    parser.add_argument('--soak', type=float, help='seconds; prints the memory every minute')
    parser.add_argument('--folder', type=Path, help='where to record; default for temporary files')
    given = vars(parser.parse_args())
    soak = given.pop('soak')
    given['seconds'] = soak or given['seconds']
    options = Options(**given, soak=soak is not None)
    print(
        f'{os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}; '
        f'{len(TOPICS)} topics, {options.rate:g} Hz each, {JOINTS} joints, {options.seconds:g} s, '
        f'compression {options.compression}',
        flush=True,
    )
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        run(options, Path(folder))


if __name__ == '__main__':
    if sys.argv[1:2] == ['publish']:
        publish(sys.argv[2], sys.argv[3], float(sys.argv[4]), float(sys.argv[5]))
    elif sys.argv[1:2] == ['load']:
        load(Path(sys.argv[2]))
    else:
        main()
