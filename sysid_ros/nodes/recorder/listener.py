# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Taking messages with the middleware's own receive stamps.

A callback comes when Python has time for it, a millisecond late now and then; what a command does
to a robot happens when it arrives. The middleware stamps each message on arrival, in a thread of
its own, but rclpy's EventsExecutor does not hand that stamp on. Subscriptions given to a listener
are therefore served from a wait set in a thread of its own, by a node that no executor spins.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import rclpy
from rclpy.exceptions import InvalidHandle
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription

#: Called with the stamps of receipt and of sending, ns since the epoch, the latter 0 where the
#: middleware does not tell, and with the serialised message.
Receive = Callable[[int, int, bytes], None]

#: Longest wait for a message, ns; what changes meanwhile wakes the thread.
_WAIT_NS = 1_000_000_000
#: Pause between two looks, seconds: waking for every message costs more than taking it, and the
#: middleware has stamped it already.
_REST_SECONDS = 0.005


def quiet_node(node: Node, purpose: str) -> Node:
    """Return a node for subscriptions that no executor serves, in the namespace of another one."""
    # Tools do not show such a name: the node has no parameters that they could ask for.
    return rclpy.create_node(
        f'_{node.get_name()}_{purpose}',
        namespace=node.get_namespace(),
        use_global_arguments=False,
        start_parameter_services=False,
        enable_rosout=False,
    )


class Listener:
    """Subscriptions of one process, served by one thread."""

    def __init__(self, node: Node, on_error: Callable[[BaseException], None]) -> None:
        """Start the thread; it ends by a call of ``on_error`` where a callback raises something."""
        self._node = quiet_node(node, 'listener')
        self._on_error = on_error
        self._lock = threading.Lock()
        self._served: dict[Subscription, Receive] = {}
        self._changed = self._node.create_guard_condition(lambda: None)
        self._closing = False
        self._thread = threading.Thread(target=self._run, name='listener')
        self._thread.start()

    def subscribe(
        self, kind: Any, topic: str, receive: Receive, qos: QoSProfile | int, events: Any = None
    ) -> Subscription:
        """Subscribe to a topic, named in full, without decoding its messages.

        ``receive`` and rclpy's SubscriptionEventCallbacks are called from the listener's thread.
        """
        # No executor spins the node: the callback that rclpy asks for is never called.
        subscription = self._node.create_subscription(
            kind, topic, lambda _: None, qos, raw=True, event_callbacks=events
        )
        with self._lock:
            self._served[subscription] = receive
        self._changed.trigger()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription; a message that is being handed over meanwhile may still come."""
        with self._lock:
            del self._served[subscription]
            self._node.destroy_subscription(subscription)
        self._changed.trigger()

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
            wait_set.wait(_WAIT_NS)
            for handler in handlers:
                if handler.is_ready(wait_set):
                    data = handler.take_data()
                    if data is not None:
                        handler.callback(data)

    def _take(self) -> None:
        with self._lock:
            served = list(self._served.items())
        for subscription, receive in served:
            with contextlib.ExitStack() as in_use:
                handle = subscription.handle
                try:
                    in_use.enter_context(handle)
                except InvalidHandle:
                    continue  # the subscription has ended meanwhile
                while taken := handle.take_message(subscription.msg_type, subscription.raw):
                    message, info = taken
                    # Not every middleware stamps what it receives.
                    received = info['received_timestamp'] or time.time_ns()
                    receive(received, info['source_timestamp'], message)
