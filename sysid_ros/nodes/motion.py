# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How the exciter watches the states of a robot and keeps its times."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

_NS = 10**9


class JointStates:
    """The latest joint states of a topic.

    Attributes:
        topic: Its name in full.
        positions: Joint to its position, rad or m; None before the first message.
    """

    def __init__(self, node: Node, topic: str, on_state: Callable[[int, Any], None]) -> None:
        """Subscribe to a topic, whose name is in full.

        Args:
            node: The node.
            topic: The topic.
            on_state: Called with the stamp, ns, and the message of each state.
        """
        self.topic = topic
        self.positions: dict[str, float] | None = None
        self._node = node
        self._on_state = on_state
        self._stamp = 0
        self._heard = time.monotonic()
        best_effort = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        node.create_subscription(JointState, topic, self._receive, best_effort)

    def missing(self) -> str:
        """Return what of it is missing still; empty when states come."""
        if self.positions is not None:
            return ''
        published = self._node.count_publishers(self.topic)
        return f'a {"JointState" if published else "publisher"} of {self.topic}'

    def is_silent(self, limit: float) -> bool:
        """Whether new states have stopped coming for so many seconds; 0 means never."""
        return bool(limit and time.monotonic() - self._heard > limit)

    def _receive(self, message: Any) -> None:
        stamp = message.header.stamp.sec * _NS + message.header.stamp.nanosec
        # A driver that repeats its last state is as silent as one that sends none.
        if stamp != self._stamp or not stamp:
            self._heard = time.monotonic()
        self._stamp = stamp
        self.positions = dict(zip(message.name, message.position, strict=False))
        self._on_state(stamp, message)


class Schedule:
    """The steps 0 to last, each at its time from the first.

    Attributes:
        skipped: Steps that were left out because their time was over.
    """

    def __init__(self, rate: float, last: int, closing: threading.Event) -> None:
        """Prepare; it starts with the first step.

        Args:
            rate: Steps per second.
            last: Number of the last step; it is never left out.
            closing: Ends it early when it is set.
        """
        self.skipped = 0
        self._rate = rate
        self._last = last
        self._closing = closing

    def __iter__(self) -> Iterator[int]:
        """Yield each step at its time."""
        start = time.monotonic()
        step = 0
        yield step
        while step < self._last:
            due = int((time.monotonic() - start) * self._rate)
            following = min(max(step + 1, due), self._last)
            if self._closing.wait(max(0.0, start + following / self._rate - time.monotonic())):
                return
            self.skipped += following - step - 1
            step = following
            yield step
