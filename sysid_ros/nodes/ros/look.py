# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A look at the graph, for ``sysid doctor``: which topics are there, and what arrives on them.

``python -m sysid_ros.nodes.ros.look SECONDS`` prints it as JSON. It runs in a process of its own,
which its parent ends when the middleware does not answer.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any

from sysid_ros.bags.message_types import JOINT_STATE
from sysid_ros.errors import RosError
from sysid_ros.inspection.live import LiveQuality
from sysid_ros.json_text import to_json
from sysid_ros.nodes.ros.recorder.graph import message_class, offers
from sysid_ros.nodes.ros.runtime import import_rclpy

if TYPE_CHECKING:
    from rclpy.node import Node

    from sysid_ros.nodes.ros.recorder.graph import Offer

#: Topics that every node has, which say nothing of a robot.
_OF_NODES = frozenset({'/parameter_events', '/rosout'})


def look(seconds: float) -> list[dict[str, Any]]:
    """Return topic, types, publishers, messages, rate and findings of what is published.

    Args:
        seconds: So long is listened.

    Raises:
        RosError: There is no rclpy.
    """
    rclpy = import_rclpy()
    rclpy.init(args=[])
    node = rclpy.create_node('sysid_doctor')
    counts: dict[str, int] = {}
    quality = LiveQuality()
    known: dict[str, Offer] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for found in offers(node):
            if found.publishers and found.topic not in _OF_NODES | known.keys():
                known[found.topic] = found
                _listen(node, found, counts, quality)
        rclpy.spin_once(node, timeout_sec=0.05)
    rclpy.try_shutdown()
    report = quality.report()
    rates = {topic.topic: topic.rate for topic in report.inspection.topics}
    return [
        {
            'topic': topic,
            'types': list(found.msgtypes),
            'publishers': len(found.publishers),
            'messages': counts.get(topic, 0),
            'rate': rates.get(topic, counts.get(topic, 0) / seconds),
            'findings': sorted({str(item.kind) for item in report.findings(topic)}),
        }
        for topic, found in sorted(known.items())
    ]


def _listen(node: Node, found: Offer, counts: dict[str, int], quality: LiveQuality) -> None:
    """Count the messages of a topic, as any of its publishers sends them."""
    from rclpy.qos import QoSProfile, ReliabilityPolicy  # noqa: PLC0415 (needs ROS)

    (msgtype, *_) = found.msgtypes

    def take(message: bytes) -> None:
        counts[found.topic] = counts.get(found.topic, 0) + 1
        if msgtype == JOINT_STATE:
            quality.take(found.topic, msgtype, time.time_ns(), message)

    # A type that is not installed can be seen, and not be listened to.
    with contextlib.suppress(RosError):
        node.create_subscription(
            message_class(found.topic, msgtype),
            found.topic,
            take,
            QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT),
            raw=True,
        )


if __name__ == '__main__':
    print(to_json(look(float(sys.argv[1]))))  # noqa: T201 (escaped as JSON)
