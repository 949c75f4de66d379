# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Undecoded subscriptions that fit what the publishers offer."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rclpy.duration import Duration
from rclpy.event_handler import SubscriptionEventCallbacks, UnsupportedEventTypeError
from rclpy.exceptions import NoTypeSupportImportedException
from rclpy.qos import (
    DurabilityPolicy,
    HistoryPolicy,
    LivelinessPolicy,
    QoSProfile,
    ReliabilityPolicy,
)
from rclpy.type_support import check_for_type_support

from sysid_ros.config import QosDuration, QosOverride, read_yaml, validate
from sysid_ros.errors import ConfigError, RosError
from sysid_ros.nodes.ros.parameters import resolve_topic
from sysid_ros.nodes.ros.recorder.graph import message_class, not_installed, topic_spec
from sysid_ros.nodes.ros.recorder.listener import Listener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rclpy.node import Node
    from rclpy.subscription import Subscription

    from sysid_ros.bags.recording import TopicSpec
    from sysid_ros.nodes.ros.recorder.graph import Offer

    #: Called with topic, message type, bag time in ns since the epoch, and the bytes.
    Tap = Callable[[str, str, int, bytes], None]

#: Messages that the middleware holds per topic while the executor is busy.
_DEPTH = 10_000
#: Latched messages that are remembered per topic: each publisher has its own.
_LATCHED = 1000
#: A subscription that replaces another one is given so long to be found by all publishers, after
#: it has found them itself, and if it does not find all of them, seconds.
_OVERLAP_SECONDS = (1.0, 3.0)
#: A subscription that is not connected to a publisher for so long does not fit it, seconds.
_BEHIND_SECONDS = 1.5


class Sink(Protocol):
    """Where messages go."""

    def put(self, topic: str, receive_ns: int, cdr: bytes, sent_ns: int = 0) -> None:
        """Take a message; stamps are ns since the epoch, ``sent_ns`` is 0 where it is not known."""

    def count_lost(self, topic: str, messages: int) -> None:
        """Take note of messages that the middleware lost."""


class TopicTraffic(NamedTuple):
    """What has come of a subscription.

    Attributes:
        topic: Name of the topic.
        messages: Messages that came, recorded or not.
        publishers: Publishers that it is connected to.
        mismatched: Whether it asks for more than a publisher offers, and gets nothing from it.
    """

    topic: str
    messages: int
    publishers: int
    mismatched: bool


@dataclass
class _Served:
    """A topic with its subscription, and with the one before while that is being replaced."""

    spec: TopicSpec
    qos: QoSProfile
    subscription: Subscription = None
    old: Subscription = None
    replaced_at: float = 0.0
    number: int = 0
    #: While two subscriptions hear the same: messages that one has heard more often than the other.
    balance: dict[bytes, int] | None = None
    #: Whether the middleware has reported a publisher that offers less than is asked for.
    reported: bool = False
    #: Since when it is connected to fewer publishers than there are.
    behind_since: float | None = None
    messages: int = 0
    #: Publishers that it was connected to at its end.
    publishers: int = 0
    latched: deque[bytes] = field(default_factory=lambda: deque(maxlen=_LATCHED))


class Subscriptions:
    """The recorder's subscriptions, which stay while recordings come and go.

    Attributes:
        sink: Where messages go now; what comes while it is None is left out.
        tap: Called with every message from the receiving thread, to be quick; None without.
    """

    def __init__(
        self,
        node: Node,
        on_error: Callable[[BaseException], None],
        *,
        overrides: Mapping[str, QosOverride] | None = None,
        now: Callable[[], int] | None = None,
    ) -> None:
        """Begin without any topic.

        Args:
            node: Whose name the subscriptions' node takes.
            on_error: Called, from the receiving thread, with what ended it.
            overrides: Quality of service that users set by topic.
            now: Time of a message, ns since the epoch; default the middleware's receive stamp.
        """
        self.sink: Sink | None = None
        self.tap: Tap | None = None
        self._node = node
        self._overrides = overrides or {}
        self._now = now
        self._listener = Listener(node, on_error)
        self._served: dict[str, _Served] = {}
        self._closed = False

    def __contains__(self, topic: str) -> bool:
        return topic in self._served

    def __len__(self) -> int:
        return len(self._served)

    @property
    def specs(self) -> tuple[TopicSpec, ...]:
        """The topics, in the order in which they were added."""
        return tuple(served.spec for served in self._served.values())

    def heard(self) -> tuple[TopicTraffic, ...]:
        """Return what has come of every subscription."""
        return tuple(
            TopicTraffic(
                topic,
                served.messages,
                served.publishers if self._closed else served.subscription.get_publisher_count(),
                served.behind_since is not None
                and time.monotonic() - served.behind_since > _BEHIND_SECONDS,
            )
            for topic, served in self._served.items()
        )

    def unconnected(self, topics: Iterable[str]) -> tuple[str, ...]:
        """Return those of some topics that are not connected to any publisher."""
        return tuple(
            topic
            for topic in topics
            if topic not in self or not self._served[topic].subscription.get_publisher_count()
        )

    def silent(self, topics: Iterable[str]) -> tuple[str, ...]:
        """Return those of some topics that have not sent a message."""
        return tuple(t for t in topics if t not in self or not self._served[t].messages)

    def add(self, spec: TopicSpec) -> None:
        """Subscribe to a topic.

        Raises:
            RosError: The type of its messages is not installed.
        """
        served = _Served(spec, self._qos(spec))
        self._subscribe(served)
        self._served[spec.topic] = served

    def follow(self, found: Offer) -> bool:
        """Subscribe again where the publishers of a topic offer more or less than they did.

        The subscription before goes when the new one has found them, and what both hear is taken
        once, so that nothing is lost meanwhile.

        Returns:
            Whether it subscribed again.

        Raises:
            RosError: The topic has several types, or another one than before.
        """
        served = self._served[found.topic]
        if served.subscription.get_publisher_count() >= len(found.publishers):
            served.behind_since = None
        elif served.behind_since is None:
            served.behind_since = time.monotonic()
        if not found.publishers or served.old is not None:
            return False
        # Not before a publisher is seen: its report may come earlier than its description.
        served.reported = False
        spec = topic_spec(found)
        if spec.msgtype != served.spec.msgtype:
            msg = (
                f'Expected messages of type {served.spec.msgtype!r} on topic {found.topic!r} as '
                f'at the start, found {spec.msgtype!r}.'
            )
            raise RosError(msg)
        qos = self._qos(spec)
        if _asks(qos) == _asks(served.qos):
            return False
        served.spec, served.qos = spec, qos
        served.behind_since = None
        served.balance = {}
        served.old, served.replaced_at = served.subscription, time.monotonic()
        self._subscribe(served)
        return True

    @property
    def reported(self) -> tuple[str, ...]:
        """Topics with a publisher that offers less than is asked for, to be followed soon."""
        return tuple(topic for topic, served in self._served.items() if served.reported)

    def settle(self) -> None:
        """End subscriptions that were replaced, once their successors hear as many publishers."""
        for served in self._served.values():
            if served.old is None:
                continue
            waited = time.monotonic() - served.replaced_at
            publishers = self._node.count_publishers(served.spec.topic)
            connected = served.subscription.get_publisher_count() >= publishers
            if waited > _OVERLAP_SECONDS[0 if connected else 1]:
                self._listener.unsubscribe(served.old)
                served.old = served.balance = None

    def close(self) -> None:
        """Take what has arrived and end all subscriptions."""
        for served in self._served.values():
            served.publishers = served.subscription.get_publisher_count()
        self._closed = True
        self._listener.close()

    def latched(self) -> Iterator[tuple[str, bytes]]:
        """Yield topic and last message of each latched publisher.

        It came once, before the present recording perhaps, and belongs into every bag.
        """
        for topic, served in self._served.items():
            publishers = served.subscription.get_publisher_count()
            for cdr in list(served.latched)[-max(1, publishers) :]:
                yield topic, cdr

    def repeat_latched(self) -> None:
        """Give the last message of each latched publisher to the sink, as received now."""
        sink = self.sink
        if sink is not None:
            for topic, cdr in self.latched():
                sink.put(topic, self._now() if self._now else time.time_ns(), cdr)

    def _qos(self, spec: TopicSpec) -> QoSProfile:
        """Return what to ask for: what publishers offer, and what the user has set."""
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
        if spec.topic in self._overrides:
            apply_override(self._overrides[spec.topic], qos)
        return qos

    def _subscribe(self, served: _Served) -> None:
        topic, msgtype = served.spec.topic, served.spec.msgtype
        kind = message_class(topic, msgtype)
        try:
            check_for_type_support(kind)
        except NoTypeSupportImportedException as err:
            raise not_installed(topic, msgtype) from err
        served.number += 1
        # Which of two subscriptions hears, while there are two.
        sign = 1 if served.number % 2 else -1

        def receive(stamp: int, sent: int, cdr: bytes) -> None:
            balance = served.balance
            if balance is None or not _is_copy(balance, cdr, sign):
                self._receive(served, stamp, sent, cdr)

        def mismatch(_: object) -> None:
            served.reported = True

        def lost(event: Any) -> None:
            sink = self.sink
            if sink is not None:
                sink.count_lost(topic, event.total_count_change)

        events = SubscriptionEventCallbacks(incompatible_qos=mismatch, message_lost=lost)
        create = self._listener.subscribe
        try:
            subscription = create(kind, topic, receive, served.qos, raw=True, events=events)
        except UnsupportedEventTypeError:
            # Not every middleware reports these; messages come all the same.
            subscription = create(kind, topic, receive, served.qos, raw=True)
        served.subscription = subscription

    def _receive(self, served: _Served, stamp: int, sent: int, cdr: bytes) -> None:
        spec = served.spec
        if spec.qos.transient_local:
            served.latched.append(cdr)
        if self._now is not None:
            # Senders stamp by the time of day.
            stamp, sent = self._now(), 0
        # Read once: the executor's thread may take them away.
        sink, tap = self.sink, self.tap
        if sink is not None:
            sink.put(spec.topic, stamp, cdr, sent)
        if tap is not None:
            tap(spec.topic, spec.msgtype, stamp, cdr)
        # Last: whoever sees the first message counted finds it in the bag, too.
        served.messages += 1


def _asks(qos: QoSProfile) -> tuple[object, object]:
    return qos.reliability, qos.durability


def _is_copy(balance: dict[bytes, int], cdr: bytes, sign: int) -> bool:
    """Tell whether the other subscription has heard a message already, and note who heard it."""
    before = balance.get(cdr, 0)
    if before + sign:
        balance[cdr] = before + sign
    else:
        del balance[cdr]
    return before * sign < 0


def read_overrides(node: Node, path: str) -> dict[str, QosOverride]:
    """Read a file of topics and what is set for each.

    Args:
        node: The node, whose namespace and remappings apply to the topics.
        path: The file; none when empty.

    Raises:
        ConfigError: The file cannot be read or is not valid.
    """
    if not path:
        return {}
    found = {}
    for topic, values in read_yaml(Path(path)).items():
        where = f'topic {topic!r} of {path!r}'
        if not isinstance(values, dict):
            msg = f'Expected keys and values for {where}, found {values!r}.'
            raise ConfigError(msg)
        name = resolve_topic(node, 'qos_overrides', str(topic))
        found[name] = validate(QosOverride, values, where)
    return found


def apply_override(override: QosOverride, qos: QoSProfile) -> None:
    """Set what a user has set in a profile of rclpy."""
    kinds = {
        'history': HistoryPolicy,
        'reliability': ReliabilityPolicy,
        'durability': DurabilityPolicy,
        'liveliness': LivelinessPolicy,
    }
    for name in type(override).model_fields:
        value: Any = getattr(override, name)
        if value is None:
            continue
        if name in kinds:
            value = kinds[name].get_from_short_key(value)
        elif isinstance(value, QosDuration):
            value = Duration(seconds=value.sec, nanoseconds=value.nsec)
        setattr(qos, name, value)
