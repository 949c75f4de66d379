# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The joint states that somebody who moves a robot waits for and watches."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

from sysid_ros.errors import RosError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rclpy.node import Node

_NS = 10**9


class JointStates:
    """The latest joint states of a topic.

    Attributes:
        topic: Its name in full.
        positions: Joint to its position, rad or m; None before the first message.
    """

    def __init__(
        self,
        node: Node,
        parameter: str,
        topic: str,
        on_state: Callable[[int, Any], None] = lambda *_: None,
    ) -> None:
        """Begin without a subscription: `missing` makes it.

        Args:
            node: The node.
            parameter: Name of the parameter that holds the topic, for the error.
            topic: Its name in full.
            on_state: Called with the stamp, ns, and the message of each state.
        """
        self.topic = topic
        self.positions: dict[str, float] | None = None
        self._node = node
        self._parameter = parameter
        self._on_state = on_state
        self._subscription: Any = None
        self._stamp = 0
        self._heard = time.monotonic()

    def missing(self) -> str:
        """Return what of it is missing still, and subscribe when that is possible; else ``''``.

        Raises:
            RosError: The topic has another type.
        """
        if self._subscription is None and not self._subscribe():
            return f'a publisher of {self.topic}'
        return f'a message on {self.topic}' if self.positions is None else ''

    def publisher(self) -> str:
        """Return the full name of the node that publishes them."""
        (first, *_) = self._node.get_publishers_info_by_topic(self.topic)
        return f'{first.node_namespace.rstrip("/")}/{first.node_name}'

    def is_silent(self, limit: float) -> bool:
        """Whether new states have stopped coming for so many seconds; 0 means never."""
        return bool(limit and time.monotonic() - self._heard > limit)

    def _subscribe(self) -> bool:
        types = {info.topic_type for info in self._node.get_publishers_info_by_topic(self.topic)}
        if not types:
            return False
        if 'sensor_msgs/msg/JointState' not in types:
            msg = (
                f'Expected sensor_msgs/msg/JointState on topic {self.topic!r} of parameter '
                f'{self._parameter!r}, found {min(types)}.'
            )
            raise RosError(msg)
        best_effort = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        self._subscription = self._node.create_subscription(
            JointState, self.topic, self._receive, best_effort
        )
        return True

    def _receive(self, message: Any) -> None:
        stamp = message.header.stamp.sec * _NS + message.header.stamp.nanosec
        # A driver that repeats its last state is as silent as one that sends none.
        if stamp != self._stamp or not stamp:
            self._heard = time.monotonic()
        self._stamp = stamp
        self.positions = dict(zip(message.name, message.position, strict=False))
        self._on_state(stamp, message)
