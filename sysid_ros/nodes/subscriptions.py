# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Undecoded subscriptions to what was asked for, which follow what publishers offer.

A callback comes when Python has time for it, a millisecond late now and then; what a command does
to a robot happens when it arrives. The middleware stamps each message on arrival, in a thread of
its own, but rclpy's EventsExecutor does not hand that stamp on. Subscriptions given to a listener
are therefore served from a wait set in a thread of its own, by a node that no executor spins.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from rclpy.event_handler import SubscriptionEventCallbacks, UnsupportedEventTypeError
from rclpy.exceptions import InvalidHandle, NoTypeSupportImportedException
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription
from rclpy.type_support import check_for_type_support

from sysid_ros.bags.recording import Recording
from sysid_ros.bags.storage import Topic
from sysid_ros.errors import RosError
from sysid_ros.nodes.graph import (
    CLOCK,
    Offer,
    Selection,
    message_class,
    not_installed,
    offers,
    recorded_topic,
)
from sysid_ros.nodes.runtime import DEPTH, PATIENCE_SECONDS, STATUS_SECONDS, quiet_node
from sysid_ros.vocabulary import SECOND_NS

#: Called with the stamps of receipt and of sending, ns since the epoch, the latter 0 where the
#: middleware does not tell, and with the serialised message.
Receive = Callable[[int, int, bytes], None]

#: Pause between two looks, s: waking for every message costs more than taking it, and the
#: middleware has stamped it already.
_REST_SECONDS = 0.005


class Numbers:
    """Tells how many messages of a topic are missing, by the numbers that its publishers give them.

    Fast DDS reports no message that later ones pushed out of a queue. No middleware tells rclpy
    whose a number is, but what is missing of all publishers together does not depend on that, once
    each has spoken again: a number follows the largest of the last ones that is below it.

    Attributes:
        publishers: How many have been connected so far; as long as more have than have spoken, a
            number that follows none may be the first of another one.
    """

    def __init__(self) -> None:
        self.publishers = sys.maxsize
        self._last: list[int] = []  # as many as publishers that have spoken

    @property
    def known(self) -> bool:
        """Whether messages have numbers."""
        return bool(self._last)

    def missing(self, number: int) -> int:
        """Return how many messages are missing before one that has come."""
        last = self._last
        before = max((n for n in last if n < number), default=None)
        if before is None or (before < number - 1 and len(last) < self.publishers):
            last.append(number)
            return 0
        last[last.index(before)] = number
        return number - before - 1


class _Heard(NamedTuple):
    """Who is told of the messages of a subscription, and of how many were lost."""

    receive: Receive
    lost: Callable[[int], None]
    numbers: Numbers


class Listener:
    """Subscriptions of one process, served by one thread."""

    def __init__(self, node: Node, on_error: Callable[[BaseException], None]) -> None:
        """Start the thread; it ends by a call of ``on_error`` where a callback raises something."""
        self._node = quiet_node(node, 'listener')
        self._on_error = on_error
        self._lock = threading.Lock()
        self._taking = threading.Lock()
        self._served: dict[Subscription, _Heard] = {}
        self._changed = self._node.create_guard_condition(lambda: None)
        self._closing = False
        self._thread = threading.Thread(target=self._run, name='listener')
        self._thread.start()

    def subscribe(
        self,
        kind: Any,
        topic: str,
        receive: Receive,
        qos: QoSProfile | int,
        lost: Callable[[int], None] = lambda _: None,
    ) -> Subscription:
        """Subscribe to a topic, named in full, without decoding its messages.

        ``receive``, and ``lost`` with how many messages are missing, are called from the
        listener's thread, or from one that catches up.
        """
        numbers = Numbers()

        def matched(event: Any) -> None:
            numbers.publishers = event.total_count

        def reported(event: Any) -> None:
            # Where messages have numbers, these tell.
            if not numbers.known:
                lost(event.total_count_change)

        # No executor spins the node: the callback that rclpy asks for is never called.
        create = partial(self._node.create_subscription, kind, topic, lambda _: None, qos, raw=True)
        try:
            events = SubscriptionEventCallbacks(matched=matched, message_lost=reported)
            subscription = create(event_callbacks=events)
        except UnsupportedEventTypeError:
            # Not every middleware has all events; messages come all the same.
            subscription = create()
        with self._lock:
            self._served[subscription] = _Heard(receive, lost, numbers)
        self._changed.trigger()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription; a message that is being handed over meanwhile may still come."""
        with self._lock:
            del self._served[subscription]
            self._node.destroy_subscription(subscription)
        self._changed.trigger()

    def catch_up(self) -> None:
        """Take what has arrived, at once."""
        self._take()

    def close(self) -> None:
        """Take what has arrived, end the thread and leave the graph."""
        self._closing = True
        self._changed.trigger()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._node.destroy_node()

    def _run(self) -> None:
        try:
            while not self._closing:
                self._wait()
                self._take()
                time.sleep(_REST_SECONDS)
            # What came between the last look and the end.
            self._take()
        except BaseException as err:  # noqa: BLE001 (raised again in the main thread)
            self._on_error(err)

    def _wait(self) -> None:
        """Wait for a message, an event or a change."""
        with contextlib.ExitStack() as in_use:
            with self._lock:
                served = list(self._served)
                handlers = [handler for item in served for handler in item.event_handlers]
                # What is in use is not destroyed before this wait is over.
                for entity in (*(item.handle for item in served), *handlers):
                    in_use.enter_context(entity)
            wait_set = rclpy_implementation.WaitSet(
                len(served), 1, 0, 0, 0, len(handlers), self._node.context.handle
            )
            wait_set.clear_entities()
            for subscription in served:
                wait_set.add_subscription(subscription.handle)
            for handler in handlers:
                handler.add_to_wait_set(wait_set)
            wait_set.add_guard_condition(self._changed.handle)
            wait_set.wait(int(STATUS_SECONDS * SECOND_NS))
            for handler in handlers:
                if handler.is_ready(wait_set):
                    data = handler.take_data()
                    if data is not None:
                        handler.callback(data)

    def _take(self) -> None:
        with self._lock:
            served = list(self._served.items())
        with self._taking:
            for subscription, heard in served:
                self._take_from(subscription, heard)

    def _take_from(self, subscription: Subscription, heard: _Heard) -> None:
        with contextlib.ExitStack() as in_use:
            handle = subscription.handle
            try:
                in_use.enter_context(handle)
            except InvalidHandle:
                return  # the subscription has ended meanwhile
            # Not more than waited at first, so that a fast publisher keeps nobody here.
            for _ in range(DEPTH):
                taken = handle.take_message(subscription.msg_type, subscription.raw)
                if taken is None:
                    return
                message, info = taken
                number = info['publication_sequence_number']
                missing = 0 if number is None else heard.numbers.missing(number)
                if missing:
                    heard.lost(missing)
                # Not every middleware stamps what it receives.
                received = info['received_timestamp'] or time.time_ns()
                heard.receive(received, info['source_timestamp'], message)


@dataclass
class _Served:
    """A topic with its subscription, and with the one before while that is being replaced."""

    spec: Topic
    subscription: Subscription = None
    old: Subscription = None
    replaced_at: float = 0.0
    #: Which of two subscriptions the latest one is: 1 or -1.
    sign: int = -1
    #: While two subscriptions hear the same: messages that one has heard more often than the other.
    balance: dict[bytes, int] | None = None
    latched: list[bytes] = field(default_factory=list)


class Topics:
    """The recorder's subscriptions, which stay while recordings come and go.

    Attributes:
        recording: Where messages go now; what comes while it is None is left out.
        begun: Whether there are subscriptions.
        refused: Topics that cannot be recorded, and why.
    """

    def __init__(
        self,
        node: Node,
        selection: Selection,
        on_error: Callable[[BaseException], None],
        now: Callable[[], int] | None = None,
    ) -> None:
        """Begin without having looked.

        ``on_error`` is called, from the receiving thread, with what ended it. ``now`` tells the
        time of a message, ns since the epoch; default is the middleware's receive stamp.
        """
        self.recording: Recording | None = None
        self.begun = False
        self.refused: dict[str, str] = {}
        self._node = node
        self._log = node.get_logger()
        self._selection = selection
        self._now = now
        self._listener = Listener(node, on_error)
        self._served: dict[str, _Served] = {}
        self._taken: tuple[Offer, ...] = ()
        self._taken_since = time.monotonic()
        self._names: object = None
        self._last: dict[str, int] = {}
        self._closed = False

    @property
    def specs(self) -> tuple[Topic, ...]:
        """The topics that are subscribed to, in the order in which they were added."""
        return tuple(served.spec for served in self._served.values())

    @property
    def missing(self) -> tuple[str, ...]:
        """Topics that are named, without a publisher that is seen or, later, connected."""
        published = {found.topic for found in self._taken if found.publishers}
        if self.begun:
            published = {topic for topic in self._served if self.publishers(topic)}
        names = (name for name in self._selection.names if name not in self.refused)
        return tuple(name for name in names if name not in published)

    @property
    def waiting_for(self) -> str:
        """What recording waits for; empty when it may begin."""
        if self.missing:
            return f'a publisher of {", ".join(self.missing)}'
        if CLOCK in self._selection.names and not self._node.get_clock().now().nanoseconds:
            return f'the time on {CLOCK}'
        return '' if self._taken else 'any topic to record'

    def publishers(self, topic: str) -> int:
        """Return how many publishers a topic is connected to; after the end, to how many it was."""
        if self._closed or topic not in self._served:
            return self._last.get(topic, 0)
        return int(self._served[topic].subscription.get_publisher_count())

    def look(self, *, slowly: bool) -> None:
        """Follow the changes of the graph: all if slowly, else only where topics come or go."""
        self._settle()
        names = self._node.get_topic_names_and_types()
        if self.begun and names == self._names and not slowly:
            return
        self._names = names
        taken = self._selection.take(offers(self._node))
        if taken != self._taken:
            self._taken, self._taken_since = taken, time.monotonic()
        for found in taken if self.begun else ():
            if found.topic in self._served:
                self._follow(found)
            elif (spec := self._spec(found)) is not None:
                if self.recording is not None:
                    self.recording.add(spec)
                self._log.info(f'also recording {spec.name}')
                self._add(spec)

    def found(self, now: float) -> tuple[Topic, ...]:
        """Return how to record what is there, once that is all; until then nothing.

        Raises:
            RosError: None of the topics can be recorded.
        """
        settled = not self._selection.grows or now - self._taken_since >= STATUS_SECONDS
        if self.begun or self.waiting_for or not settled:
            return ()
        specs = tuple(filter(None, map(self._spec, self._taken)))
        if not specs:
            raise RosError(next(iter(self.refused.values())))
        return specs

    def begin(self, specs: tuple[Topic, ...]) -> None:
        """Subscribe."""
        for spec in specs:
            self._add(spec)
        self.begun = True

    def record(self, recording: Recording | None) -> None:
        """Give what comes from now on to a recording, with the last latched messages before it.

        What is latched came once, before the recording perhaps, and belongs into every bag; what
        has arrived belongs into the one that ends.
        """
        if self.recording is not None and not self._closed:
            self._listener.catch_up()
        self.recording = recording
        if recording is None:
            return
        for topic, served in self._served.items():
            for cdr in served.latched[-max(1, self.publishers(topic)) :]:
                recording.put(topic, self._now() if self._now else time.time_ns(), cdr)

    def close(self) -> None:
        """Take what has arrived and end all subscriptions."""
        self._last = {topic: self.publishers(topic) for topic in self._served}
        self._closed = True
        self._listener.close()

    def _spec(self, found: Offer) -> Topic | None:
        """Return how to record a topic, or None after noting why that cannot be."""
        try:
            spec = recorded_topic(found)
            check_for_type_support(message_class(spec.name, spec.msgtype))
        except NoTypeSupportImportedException:
            self._refuse(found.topic, not_installed(found.topic, found.msgtypes[0]))
            return None
        except RosError as err:
            self._refuse(found.topic, err)
            return None
        self.refused.pop(found.topic, None)
        return spec

    def _refuse(self, topic: str, err: RosError) -> None:
        if self.refused.get(topic) != str(err):
            self._log.error(str(err))
        self.refused[topic] = str(err)

    def _add(self, spec: Topic) -> None:
        self._served[spec.name] = served = _Served(spec)
        self._subscribe(served)

    # The publishers of a topic

    def _follow(self, found: Offer) -> None:
        """Subscribe again where the publishers of a topic offer more or less than they did.

        The subscription before goes when the new one has found them, and what both hear is taken
        once, so that nothing is lost meanwhile.
        """
        served = self._served[found.topic]
        if not found.publishers or served.old is not None:
            return
        if found.msgtypes != (served.spec.msgtype,):
            types = ' and '.join(found.msgtypes)
            text = f'Expected only {served.spec.msgtype!r} on topic {found.topic!r}, found {types}.'
            self._refuse(found.topic, RosError(text))
            return
        spec = self._spec(found)
        if spec is None or spec.qos == served.spec.qos:
            return
        self._log.warning(f'{found.topic} has a publisher with other QoS; subscribing again')
        served.spec = spec
        served.balance = {}
        served.old, served.replaced_at = served.subscription, time.monotonic()
        self._subscribe(served)

    def _settle(self) -> None:
        """End subscriptions that were replaced, once all publishers have found their successors."""
        for topic, served in self._served.items():
            if len(served.latched) > 1:
                # Each publisher has a latched message of its own.
                del served.latched[: -max(1, self.publishers(topic))]
            if served.old is None:
                continue
            waited = time.monotonic() - served.replaced_at
            connected = self.publishers(topic) >= self._node.count_publishers(topic)
            if waited > (STATUS_SECONDS if connected else PATIENCE_SECONDS):
                self._listener.unsubscribe(served.old)
                served.old = served.balance = None

    def _subscribe(self, served: _Served) -> None:
        topic, offered = served.spec.name, served.spec.qos
        qos = QoSProfile(
            depth=DEPTH,
            reliability=(
                ReliabilityPolicy.RELIABLE if offered.reliable else ReliabilityPolicy.BEST_EFFORT
            ),
            durability=(
                DurabilityPolicy.TRANSIENT_LOCAL
                if offered.transient_local
                else DurabilityPolicy.VOLATILE
            ),
        )
        served.sign = sign = -served.sign

        def receive(stamp: int, sent: int, cdr: bytes) -> None:
            balance = served.balance
            if balance is None or not _is_copy(balance, cdr, sign):
                self._receive(served, stamp, sent, cdr)

        def lost(messages: int) -> None:
            recording = self.recording
            # What the subscription before does not hear any more, the latest one does.
            if recording is not None and served.sign == sign:
                recording.count_lost(topic, messages)

        kind = message_class(topic, served.spec.msgtype)
        served.subscription = self._listener.subscribe(kind, topic, receive, qos, lost)

    def _receive(self, served: _Served, stamp: int, sent: int, cdr: bytes) -> None:
        spec = served.spec
        if spec.qos.transient_local:
            served.latched.append(cdr)
        if self._now is not None:
            # Senders stamp by the time of day.
            stamp, sent = self._now(), 0
        # Read once: the executor's thread may take it away.
        recording = self.recording
        if recording is not None:
            recording.put(spec.name, stamp, cdr, sent)


def _is_copy(balance: dict[bytes, int], cdr: bytes, sign: int) -> bool:
    """Tell whether the other subscription has heard a message already, and note who heard it."""
    before = balance.get(cdr, 0)
    if before + sign:
        balance[cdr] = before + sign
    else:
        del balance[cdr]
    return before * sign < 0
