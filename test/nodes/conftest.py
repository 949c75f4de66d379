# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests with a recorder: its process, publishers, and what it says."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore

from builders.ros_graph import RosClient, StartNode

#: What imports ROS is left out where there is none, except in CI.
collect_ignore_glob = (
    [] if find_spec('rclpy') or 'CI' in os.environ else ['test_[!r]*.py', 'test_recorder.py']
)
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


class Graph:
    """A recorder and publishers of numbered joint states, and what the recorder says."""

    def __init__(self, start: StartNode, client: RosClient, folder: Path) -> None:
        self.start = start
        self.client = client
        self._publisher = folder / 'publisher.py'
        self._publisher.write_text(PUBLISHER)

    def publish(self, *topics: str, **options: object) -> Any:
        """Start a process that publishes numbered joint states."""
        flags = [f'--{name.replace("_", "-")}={value}' for name, value in options.items()]
        return self.start(self._publisher, *topics, *(flag.removesuffix('=True') for flag in flags))

    def record(self, program: str | Path = RECORDER, **parameters: object) -> Any:
        """Start a recorder, or a script that runs one, with parameters."""
        return self.start(program, **parameters)

    def read_numbers(self, bag: Path) -> dict[str, list[int]]:
        """Return the numbers in the messages of each topic, read by rosbags."""
        store = get_typestore(Stores.ROS2_JAZZY)
        found: dict[str, list[int]] = {}
        with Reader(bag) as reader:
            for connection, _, data in reader.messages():
                message: Any = store.deserialize_cdr(data, connection.msgtype)
                assert len(message.name) == len(message.position) == JOINTS
                found.setdefault(connection.topic, []).append(int(message.header.frame_id))
        return found

    def status(self, *, messages: int = 0, fresh: bool = False, **expected: Any) -> dict[str, Any]:
        """Return the first status of the recorder with given values.

        ``messages`` is a minimum for every topic; ``fresh`` leaves out what was said before.
        """
        from std_msgs.msg import String  # noqa: PLC0415 (absent without ROS)

        def accept(message: Any) -> bool:
            status = json.loads(message.data)
            counts = [count['messages'] for count in status['counts'].values()]
            same = all(status[key] == value for key, value in expected.items())
            return same and (not messages or (bool(counts) and min(counts) >= messages))

        said = self.client.message(String, '/recorder/status', accept, latched=not fresh)
        found: dict[str, Any] = json.loads(said.data)
        return found

    def trigger(self, name: str) -> tuple[bool, str]:
        """Call a service of the recorder."""
        from std_srvs.srv import Trigger  # noqa: PLC0415 (absent without ROS)

        response = self.client.call(Trigger, f'/recorder/{name}')
        return response.success, response.message


@pytest.fixture
def graph(start_node: StartNode, ros_client: RosClient, tmp_path: Path) -> Graph:
    return Graph(start_node, ros_client, tmp_path)
