# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Undecoded subscriptions that fit what the publishers offer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from rclpy.event_handler import SubscriptionEventCallbacks, UnsupportedEventTypeError
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

from sysid_ros.nodes.discovery import message_class, offer, topic_spec
from sysid_ros.nodes.listener import Listener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rclpy.node import Node
    from rclpy.subscription import Subscription

    from sysid_ros.bags.recording import TopicSpec

#: Messages that the middleware holds per topic while the executor is busy.
_DEPTH = 10_000


class Sink(Protocol):
    """Where messages go."""

    def put(self, topic: str, receive_ns: int, cdr: bytes) -> None:
        """Take a message; ``receive_ns`` is ns since the epoch."""

    def count_lost(self, topic: str, messages: int) -> None:
        """Take note of messages that the middleware lost."""


class Subscriptions:
    """The recorder's subscriptions, which stay while recordings come and go.

    Attributes:
        sink: Where messages go now; what comes while it is None is left out.
    """

    def __init__(self, node: Node, on_error: Callable[[BaseException], None]) -> None:
        self.sink: Sink | None = None
        self._node = node
        self._listener = Listener(node, on_error)
        self._specs: dict[str, TopicSpec] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._latched: dict[str, bytes] = {}
        self._mismatched: set[str] = set()

    def __contains__(self, topic: str) -> bool:
        return topic in self._specs

    def __len__(self) -> int:
        return len(self._specs)

    @property
    def specs(self) -> tuple[TopicSpec, ...]:
        """The topics, in the order in which they were added."""
        return tuple(self._specs.values())

    def unconnected(self, topics: Iterable[str]) -> tuple[str, ...]:
        """Return those of some topics that are not connected to any publisher."""
        return tuple(t for t in topics if not self._subscriptions[t].get_publisher_count())

    def add(self, spec: TopicSpec) -> None:
        """Subscribe to a topic.

        Raises:
            RosError: The type of its messages is not installed.
        """
        qos = QoSProfile(
            history=HistoryPolicy.KEEP_LAST,
            depth=_DEPTH,
            reliability=(
                ReliabilityPolicy.RELIABLE if spec.qos.reliable else ReliabilityPolicy.BEST_EFFORT
            ),
            durability=(
                DurabilityPolicy.TRANSIENT_LOCAL
                if spec.qos.transient_local
                else DurabilityPolicy.VOLATILE
            ),
        )
        kind = message_class(spec.topic, spec.msgtype)

        def receive(stamp: int, cdr: bytes) -> None:
            self._receive(spec, stamp, cdr)

        def mismatch(_: object) -> None:
            self._mismatched.add(spec.topic)

        def lost(event: Any) -> None:
            sink = self.sink
            if sink is not None:
                sink.count_lost(spec.topic, event.total_count_change)

        events = SubscriptionEventCallbacks(incompatible_qos=mismatch, message_lost=lost)
        create = self._listener.subscribe
        try:
            subscription = create(kind, spec.topic, receive, qos, raw=True, events=events)
        except UnsupportedEventTypeError:
            # Not every middleware reports these; messages come all the same.
            subscription = create(kind, spec.topic, receive, qos, raw=True)
        self._specs[spec.topic] = spec
        self._subscriptions[spec.topic] = subscription

    def close(self) -> None:
        """Take what has arrived and end all subscriptions."""
        self._listener.close()

    def replace_mismatched(self) -> None:
        """Subscribe again where a publisher offers less than the subscription asks for."""
        for topic in sorted(list(self._mismatched)):  # noqa: C414 (the listener's thread adds to it)
            found = offer(self._node, topic)
            if not found.publishers:
                continue
            self._mismatched.discard(topic)
            spec = topic_spec(found)
            if spec.qos != self._specs[topic].qos:
                text = f'{topic} has a publisher with other QoS; subscribing again'
                self._node.get_logger().warning(text)
                self._listener.unsubscribe(self._subscriptions[topic])
                self.add(spec)

    def repeat_latched(self) -> None:
        """Give the last message of each latched topic to the sink, as received now.

        It came once, before this recording perhaps, and belongs into every bag.
        """
        if self.sink is not None:
            for topic, cdr in list(self._latched.items()):
                self.sink.put(topic, time.time_ns(), cdr)

    def _receive(self, spec: TopicSpec, stamp: int, cdr: bytes) -> None:
        if spec.qos.transient_local:
            self._latched[spec.topic] = cdr
        # Read once: the executor's thread may take it away.
        sink = self.sink
        if sink is not None:
            sink.put(spec.topic, stamp, cdr)
