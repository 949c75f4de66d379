# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests with a recorder: its process, publishers, and what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore

from builders.ros_graph import RosClient, StartNode, as_arguments

RECORDER = 'recorder'
JOINTS = 12

#: Publishes numbered joint states on all topics at once, as soon as somebody listens to each.
PUBLISHER = f"""
import argparse, sys, time
import rclpy
from rclpy.duration import Duration
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

parser = argparse.ArgumentParser()
parser.add_argument('topics', nargs='+')
parser.add_argument('--rate', type=float, default=500.0)
parser.add_argument('--count', type=int, default=0)
parser.add_argument('--best-effort', action='store_true')
given = parser.parse_args()

rclpy.init()
node = rclpy.create_node('publisher')
reliability = (
    ReliabilityPolicy.BEST_EFFORT if given.best_effort else ReliabilityPolicy.RELIABLE
)
qos = QoSProfile(depth=1000, reliability=reliability)
publishers = [node.create_publisher(JointState, topic, qos) for topic in given.topics]
message = JointState(name=[f'joint{{index}}' for index in range({JOINTS})])
message.position = message.velocity = message.effort = [0.0] * {JOINTS}
print('ready', flush=True)
while min(publisher.get_subscription_count() for publisher in publishers) == 0:
    time.sleep(0.01)
number, start = 0, time.monotonic()
while given.count == 0 or number < given.count:
    time.sleep(max(0.0, start + number / given.rate - time.monotonic()))
    message.header.frame_id = str(number)
    message.header.stamp = node.get_clock().now().to_msg()
    for publisher in publishers:
        publisher.publish(message)
    number += 1
for publisher in publishers:
    publisher.wait_for_all_acked(Duration(seconds=20))
print('published', number, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def publish(start_node: StartNode, tmp_path: Path) -> Callable[..., Any]:
    """Return a function that starts a process that publishes numbered joint states."""
    script = tmp_path / 'publisher.py'
    script.write_text(PUBLISHER)

    def start(*topics: str, **options: object) -> Any:
        flags = [f'--{name.replace("_", "-")}={value}' for name, value in options.items()]
        flags = [flag.removesuffix('=True') for flag in flags]
        return start_node(script, *topics, *flags)

    return start


@pytest.fixture
def record(start_node: StartNode) -> Callable[..., Any]:
    """Return a function that starts a recorder, or a script that runs one, with parameters."""

    def start(program: str | Path = RECORDER, **parameters: object) -> Any:
        return start_node(program, *as_arguments(**parameters))

    return start


@pytest.fixture
def read_numbers() -> Callable[[Path], dict[str, list[int]]]:
    """Return a function that reads the numbers in the messages of each topic by rosbags."""
    store = get_typestore(Stores.ROS2_JAZZY)

    def read(bag: Path) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        with Reader(bag) as reader:
            for connection, _, data in reader.messages():
                message: Any = store.deserialize_cdr(data, connection.msgtype)
                assert len(message.name) == len(message.position) == JOINTS
                found.setdefault(connection.topic, []).append(int(message.header.frame_id))
        return found

    return read


@pytest.fixture
def wait_for_status(ros_client: RosClient) -> Callable[..., dict[str, Any]]:
    """Return a function that returns the first status of the recorder with given values.

    ``messages`` is a minimum for every topic; ``fresh`` leaves out what was said before.
    """

    def wait(*, messages: int = 0, fresh: bool = False, **expected: Any) -> dict[str, Any]:
        from std_msgs.msg import String  # noqa: PLC0415 (absent without ROS)

        def accept(message: Any) -> bool:
            status = json.loads(message.data)
            counts = [count['messages'] for count in status['counts'].values()]
            same = all(status[key] == value for key, value in expected.items())
            return same and (not messages or (bool(counts) and min(counts) >= messages))

        said = ros_client.message(String, '/recorder/status', accept, latched=not fresh)
        found: dict[str, Any] = json.loads(said.data)
        return found

    return wait


@pytest.fixture
def trigger(ros_client: RosClient) -> Callable[[str], tuple[bool, str]]:
    """Return a function that calls a service of the recorder."""

    def call(name: str) -> tuple[bool, str]:
        from std_srvs.srv import Trigger  # noqa: PLC0415 (absent without ROS)

        response = ros_client.call(Trigger, f'/recorder/{name}')
        return response.success, response.message

    return call


@pytest.fixture
def diagnosis(ros_client: RosClient) -> Callable[..., Any]:
    """Return a function that waits until the diagnostics say something of a topic.

    It returns level and values; ``recorder`` stands for the recorder itself.
    """

    def wait(what: str, said: str) -> tuple[bytes, dict[str, str]]:
        from diagnostic_msgs.msg import DiagnosticArray  # noqa: PLC0415 (absent without ROS)

        def named(message: Any) -> list[Any]:
            name = f'recorder: {what}'
            return [s for s in message.status if s.name == name and said in s.message]

        found = ros_client.message(
            DiagnosticArray, '/diagnostics', lambda m: bool(named(m)), latched=False
        )
        (status,) = named(found)
        return status.level, {pair.key: pair.value for pair in status.values}

    return wait
