# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The recorder node against four publishers of 1 kHz, all in processes of their own.

Each publisher numbers its messages and begins when the recorder says that it records, whether or
not the publisher has discovered the recorder. What is lost is counted from the numbers in the bag,
not from what the recorder says; both are printed. What is missing before the first message that
arrived was sent before discovery was over, what is missing later was lost. The publishers are
Python, too, and share the cores with the recorder: where they do not reach 1 kHz, the rate that
they reached is what was recorded.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sysid_ros.bags import read_bag

TOPICS = tuple(f'/robot_{k}/joint_states' for k in range(4))
RATE = 1000
SECONDS = 10.0
JOINTS = 12
#: Limit on any wait, seconds.
_TIMEOUT = 60.0
_GO = 'go\n'


class Usage(NamedTuple):
    """CPU time of a process so far, s."""

    user: float
    system: float

    @property
    def total(self) -> float:
        """Both together."""
        return self.user + self.system


class Sent(NamedTuple):
    """What a publisher sent, and how long that took, s."""

    messages: int
    seconds: float

    @property
    def rate(self) -> float:
        """Messages per second that the publisher reached."""
        return self.messages / self.seconds


def publish(topic: str) -> None:
    """Publish numbered messages on schedule once a line arrives on standard input."""
    import rclpy  # noqa: PLC0415 (the parent needs no ROS)
    from sensor_msgs.msg import JointState  # noqa: PLC0415

    rclpy.init()
    node = rclpy.create_node(f'publisher_{os.getpid()}')
    publisher = node.create_publisher(JointState, topic, 10)
    sys.stdin.readline()
    message = JointState(name=[f'joint_{k}' for k in range(JOINTS)])
    values = [0.0] * JOINTS
    count = round(RATE * SECONDS)
    began = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, began + number / RATE - time.monotonic()))
        values[0] = float(number)
        message.header.stamp = node.get_clock().now().to_msg()
        message.position = message.velocity = message.effort = values
        publisher.publish(message)
    seconds = time.monotonic() - began
    publisher.wait_for_all_acked(rclpy.duration.Duration(seconds=5))
    print(f'{count} {seconds}', flush=True)
    sys.stdin.readline()
    node.destroy_node()
    rclpy.shutdown()


def cpu(pid: int) -> Usage:
    """Return the CPU time of a running process."""
    fields = Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    tick = os.sysconf('SC_CLK_TCK')
    return Usage(int(fields[11]) / tick, int(fields[12]) / tick)


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    """Read lines of a process until one holds a text."""
    for line in process.stdout or ():
        if text in line:
            return
    msg = f'Expected the line {text!r}, but the process ended.'
    raise RuntimeError(msg)


def tell(process: subprocess.Popen[str], text: str) -> None:
    """Write to a process's standard input."""
    if process.stdin is not None:
        process.stdin.write(text)
        process.stdin.flush()


def main() -> None:
    """Record, and compare the bag with what was sent."""
    environment = {
        **os.environ,
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
        'ROS_DOMAIN_ID': str(1 + os.getpid() % 100),
        'PYTHONUNBUFFERED': '1',
    }
    print(f'{os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}')
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    with tempfile.TemporaryDirectory() as folder:
        try:
            publishers = [start(__file__, topic) for topic in TOPICS]
            bag = Path(folder) / 'bag'
            node = ['-m', 'sysid_ros.nodes.recorder', '--ros-args', '-p', f'output:={bag}']
            recorder = start(*node, '-p', f'topics:={list(TOPICS)}')
            wait_for(recorder, 'recording ')
            before, began = cpu(recorder.pid), time.monotonic()
            for publisher in publishers:
                tell(publisher, _GO)
            sent: list[Sent] = []
            for publisher in publishers:
                line = publisher.stdout.readline() if publisher.stdout else ''
                count, _, seconds = line.partition(' ')
                sent.append(Sent(int(count), float(seconds)))
            after, ended = cpu(recorder.pid), time.monotonic()
            recorder.send_signal(signal.SIGINT)
            log, _ = recorder.communicate(timeout=_TIMEOUT)
            for publisher in publishers:
                tell(publisher, _GO)
                publisher.wait(_TIMEOUT)
        finally:
            for process in started:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        columns = {topic.topic: topic for topic in read_bag(bag).topics}
    print(f'{len(TOPICS)} topics, {RATE} Hz each, {JOINTS} joints, {SECONDS:g} s')
    print(
        f'{"topic":26s}{"sent":>7s}{"reached/Hz":>12s}{"in the bag":>12s}{"undiscovered":>14s}'
        f'{"lost":>6s}'
    )
    lost = 0
    for topic, own in zip(TOPICS, sent, strict=True):
        position = next(f for f in columns[topic].fields if f.name == 'position')
        numbers = position.values[:, 0].astype(np.int64)
        early = int(numbers.min()) if len(numbers) else own.messages
        missing = own.messages - early - len(np.unique(numbers))
        lost += missing
        print(
            f'{topic:26s}{own.messages:7d}{own.rate:12.1f}{len(numbers):12d}{early:14d}{missing:6d}'
        )
    used = after.total - before.total
    print(
        f'lost: {lost} of {sum(own.messages for own in sent)}; recorder: {used:.2f} s of CPU in '
        f'{ended - began:.1f} s ({used / (ended - began):.0%} of a core)'
    )
    said = next((line for line in log.splitlines() if line.startswith('total')), 'nothing')
    print(f"the recorder's own count (messages, lost): {' '.join(said.split()[1:])}")


if __name__ == '__main__':
    if len(sys.argv) > 1:
        publish(sys.argv[1])
    else:
        main()
