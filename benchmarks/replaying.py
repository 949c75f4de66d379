# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The replayer node against a bag of four topics of 1 kHz, heard by another process.

The bag is made first: numbered joint states whose stamps are on a grid, the topics a quarter of a
period apart. The subscriber notes when each message arrives, by the clock of the machine, which
both processes share. What is printed is how far arrivals are from the grid that fits them best,
how far intervals of a topic are from those in the bag, and what the node says of when messages
left. Like the node, the subscriber asks for real-time priority. Other work on the machine is in all
of these; how busy it was is printed, too.

    python benchmarks/replaying.py --seconds 20
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.bags.writer import BagWriter, known_types

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOPICS = tuple(f'/robot_{k}/joint_states' for k in range(4))
JOINTS = 12
STATE = 'sensor_msgs/msg/JointState'
_START_NS = 1_700_000_000_000_000_000
#: What is to hold for 95 % of the messages, s.
_CLOSE = 1e-3
#: Limit on any wait beside the replay itself, s.
_TIMEOUT = 60.0
#: Messages before the last subscriber is connected are not judged: these many of each topic, s.
_FIRST = 0.5


def write_bag(folder: Path, rate: float, seconds: float) -> None:
    """Write numbered joint states."""
    types = known_types()
    kinds = types.types
    joints = [f'joint_{k}' for k in range(JOINTS)]
    values = np.linspace(-1, 1, JOINTS)
    period = 1e9 / rate
    with BagWriter(folder) as bag:
        for topic in TOPICS:
            bag.add_topic(topic, STATE)
        for number in range(round(rate * seconds)):
            for place, topic in enumerate(TOPICS):
                now = _START_NS + round((number + place / len(TOPICS)) * period)
                stamp = kinds['builtin_interfaces/msg/Time'](now // 10**9, now % 10**9)
                message = kinds[STATE](
                    header=kinds['std_msgs/msg/Header'](stamp=stamp, frame_id=''),
                    name=joints,
                    position=values + number,
                    velocity=values,
                    effort=values,
                )
                bag.write(topic, now, types.serialize_cdr(message, STATE))


def listen(file: Path, count: int) -> None:
    """Note when raw messages arrive until there are so many, or standard input ends."""
    import rclpy  # noqa: PLC0415 (the parent needs no ROS)
    from rclpy.experimental import EventsExecutor  # noqa: PLC0415
    from rclpy.qos import QoSProfile  # noqa: PLC0415
    from rclpy.task import Future  # noqa: PLC0415
    from sensor_msgs.msg import JointState  # noqa: PLC0415

    # What measures is not to be late itself, and its threads inherit this.
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    rclpy.init()
    node = rclpy.create_node('listener')
    heard: list[tuple[int, int, bytes]] = []
    done = threading.Event()

    def hear(place: int) -> object:
        def receive(message: bytes) -> None:
            heard.append((time.monotonic_ns(), place, message[4:12]))
            if len(heard) == count:
                done.set()

        return receive

    qos = QoSProfile(depth=1000)
    for place, topic in enumerate(TOPICS):
        node.create_subscription(JointState, topic, hear(place), qos, raw=True)
    executor = EventsExecutor()
    executor.add_node(node)
    # Without a limit it would spin without any callback.
    wait = partial(executor.spin_until_future_complete, Future(), timeout_sec=_TIMEOUT)
    threading.Thread(target=wait, daemon=True).start()

    def end() -> None:
        sys.stdin.read()
        done.set()

    threading.Thread(target=end, daemon=True).start()
    while any(node.count_publishers(topic) == 0 for topic in TOPICS):
        time.sleep(0.1)
    print('connected', flush=True)
    done.wait()
    stamps = np.frombuffer(b''.join(stamp for *_, stamp in heard), '<i4').reshape(-1, 2)
    table = np.array([(arrived, place) for arrived, place, _ in heard], dtype=np.int64)
    sent = stamps[:, 0].astype(np.int64) * 10**9 + stamps[:, 1]
    np.save(file, np.column_stack([table, sent]))
    print('written', flush=True)


def busy() -> NDArray[np.float64]:
    """Return the machine's time at work and in all so far, in ticks of all cores."""
    fields = [float(text) for text in Path('/proc/stat').read_text().split('\n', 1)[0].split()[1:9]]
    return np.array([sum(fields) - fields[3] - fields[4], sum(fields)])


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a running process, s."""
    fields = Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def report(table: NDArray[np.int64], rate: float) -> None:
    """Print how punctual arrivals (n, 3: arrival, topic, stamp in ns) are."""
    arrived, place, stamp = (table[:, column] for column in range(3))
    print(f'{"topic":24s}{"heard":>8s}{"lost":>6s}{"order":>7s}{"≤1 ms":>9s}{"95 %/ms":>9s}')
    off = (arrived - arrived[0]) - (stamp - stamp[0])
    off = (off - np.median(off)) / 1e9
    judged = (stamp - stamp[0]) / 1e9 > _FIRST
    for number, topic in enumerate(TOPICS):
        own = place == number
        steps = np.diff(stamp[own]) * rate / 1e9
        lost = round(float(np.sum(np.round(steps) - 1)))
        exact = 'exact' if np.all(steps > 0) else 'wrong'
        errors = np.abs(np.diff(arrived[own]) - np.diff(stamp[own])) / 1e9
        print(
            f'{topic:24s}{np.count_nonzero(own):8d}{lost:6d}{exact:>7s}'
            f'{np.mean(errors <= _CLOSE):9.2%}{1e3 * np.quantile(errors, 0.95):9.3f}'
        )
    errors = np.abs(off[judged])
    share = np.mean(errors <= _CLOSE)
    quantiles = np.quantile(1e3 * errors, [0.5, 0.95, 0.99, 1.0])
    print(
        f'off the grid: {share:.2%} of {len(errors)} within {1e3 * _CLOSE:g} ms; '
        f'half {quantiles[0]:.3f}, 95 % {quantiles[1]:.3f}, 99 % {quantiles[2]:.3f}, '
        f'all {quantiles[3]:.3f} ms'
    )


def run(rate: float, seconds: float, folder: Path) -> None:
    """Replay, listen and compare."""
    write_bag(folder / 'bag', rate, seconds)
    environment = {
        **os.environ,
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
        'ROS_DOMAIN_ID': str(1 + os.getpid() % 100),
        'PYTHONUNBUFFERED': '1',
    }

    def start(*arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    count = round(rate * seconds) * len(TOPICS)
    listener = start(__file__, 'listen', str(folder / 'heard.npy'), str(count))
    node = start(
        '-m', 'sysid_ros.nodes.replayer', '--ros-args', '-p', f'bag:={folder / "bag"}',
        '-p', 'start_paused:=true', '-p', 'use_sim_time:=false',
    )  # fmt: skip
    try:
        _read(node, 'replaying')
        _read(listener, 'connected')
        time.sleep(1.0)  # what the publishers know of the subscriber nobody says
        before, used, began = busy(), cpu_seconds(node.pid), time.monotonic()
        _resume(environment)
        said = ''
        for line in node.stdout or ():
            said = line
            if 'replayed' in line:
                break
        after, took = busy() - before, time.monotonic() - began
        used = cpu_seconds(node.pid) - used
        node.wait(_TIMEOUT)
        if listener.stdin is not None:
            listener.stdin.close()
        _read(listener, 'written')
    finally:
        for process in (node, listener):
            process.send_signal(signal.SIGKILL)
            process.wait()
    report(np.load(folder / 'heard.npy'), rate)
    print(
        f'the node took {used:.1f} s of a processor, and said: {said.strip().partition("]: ")[2]}'
    )
    print(
        f'the machine was {after[0] / after[1]:.0%} busy for {took:.1f} s, '
        f'load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores'
    )


def _resume(environment: dict[str, str]) -> None:
    subprocess.run(
        [sys.executable, __file__, 'resume'], env=environment, check=True, timeout=_TIMEOUT
    )


def resume() -> None:
    """Call the node's service."""
    import rclpy  # noqa: PLC0415 (the parent needs no ROS)
    from std_srvs.srv import Trigger  # noqa: PLC0415

    rclpy.init()
    node = rclpy.create_node('caller')
    client = node.create_client(Trigger, '/replayer/resume')
    client.wait_for_service(_TIMEOUT)
    rclpy.spin_until_future_complete(node, client.call_async(Trigger.Request()), timeout_sec=5.0)
    node.destroy_node()
    rclpy.shutdown()


def _read(process: subprocess.Popen[str], text: str) -> str:
    """Read lines of a process until one holds a text, and return it."""
    lines: list[str] = []
    for line in process.stdout or ():
        lines.append(line)
        if text in line:
            return line
    msg = f'Expected the line {text!r}, but the process ended; it printed:\n{"".join(lines)}'
    raise RuntimeError(msg)


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seconds', type=float, default=10.0)
    parser.add_argument('--rate', type=float, default=1000.0, help='messages per second and topic')
    options = parser.parse_args()
    print(
        f'{os.cpu_count()} cores, Python {platform.python_version()}; {len(TOPICS)} topics, '
        f'{options.rate:g} Hz each, {JOINTS} joints, {options.seconds:g} s',
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        run(options.rate, options.seconds, Path(folder))


if __name__ == '__main__':
    if sys.argv[1:2] == ['listen']:
        listen(Path(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1:2] == ['resume']:
        resume()
    else:
        main()
