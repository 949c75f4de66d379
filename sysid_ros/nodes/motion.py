# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How the exciter waits for a robot, watches its states and keeps its times."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

from sysid_ros.errors import RosError

#: The graph is looked at this often, s.
_LOOK_SECONDS = 0.1
#: What is still missing is logged this often, s.
_REMIND_SECONDS = 3.0
#: The subscribers of the commands must not have changed for so long, s: those of one robot are
#: discovered one after the other, and a recorder should not miss the beginning.
_SETTLE_SECONDS = 0.5
_NS = 10**9


class JointStates:
    """The latest joint states of a topic.

    Attributes:
        topic: Its name in full.
        positions: Joint to its position, rad or m; None before the first message.
    """

    def __init__(self, node: Node, topic: str, on_state: Callable[[int, Any], None]) -> None:
        """Start without a subscription: `missing` makes it.

        Args:
            node: The node.
            topic: Its name in full.
            on_state: Called with the stamp, ns, and the message of each state.
        """
        self.topic = topic
        self.positions: dict[str, float] | None = None
        self._node = node
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

    def is_silent(self, limit: float) -> bool:
        """Whether new states have stopped coming for so many seconds; 0 means never."""
        return bool(limit and time.monotonic() - self._heard > limit)

    def _subscribe(self) -> bool:
        types = {info.topic_type for info in self._node.get_publishers_info_by_topic(self.topic)}
        if not types:
            return False
        if 'sensor_msgs/msg/JointState' not in types:
            raise RosError(
                f'Expected sensor_msgs/msg/JointState on topic {self.topic!r} of parameter '
                f"'wait_for', found {min(types)}."
            )
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


class ReadinessCheck:
    """Looks at the graph until nothing is missing and it has settled, and says what is missing."""

    def __init__(
        self,
        node: Node,
        commands: Publisher,
        missing: Callable[[], list[str]],
        on_ready: Callable[[], None],
    ) -> None:
        """Start to look.

        Args:
            node: The node.
            commands: Publisher whose subscribers must have settled.
            missing: Returns what is missing still.
            on_ready: Called once.
        """
        self._log = node.get_logger()
        self._commands = commands
        self._missing = missing
        self._on_ready = on_ready
        self._reminded = -_REMIND_SECONDS
        self._listeners = 0
        self._listening_since = time.monotonic()
        # Not the node's clock: the schedule is the wall clock's, also with use_sim_time.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = node.create_timer(_LOOK_SECONDS, self._look, clock=steady)

    def _look(self) -> None:
        missing = self._missing()
        now = time.monotonic()
        listeners = self._commands.get_subscription_count()
        if listeners != self._listeners:
            self._listeners, self._listening_since = listeners, now
        if missing and now - self._reminded >= _REMIND_SECONDS:
            self._reminded = now
            self._log.info(f'waiting for {" and ".join(missing)}')
        elif not missing and now - self._listening_since >= _SETTLE_SECONDS:
            self._timer.cancel()
            self._on_ready()


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
