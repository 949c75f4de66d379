# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Commands with the stamps that the middleware gave them on arrival."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import rclpy

from sysid_ros.errors import RosError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray
    from rclpy.node import Node

#: Commands take no longer than the fastest one and this, s, unless the machine is busy.
_HELD_UP = 0.020
#: Messages held by the middleware until they are fetched.
_DEPTH = 1000
_NS = 10**9
#: Argument of rclpy's take_message.
_NOT_RAW = False


class Source(NamedTuple):
    """A topic of commands.

    Attributes:
        topic: Its name in full.
        kind: Type of its messages.
        read: Returns (nu,) commands of a message, NaN for what it leaves as it is; raises a
            RosError where they do not fit.
    """

    topic: str
    kind: Any
    read: Callable[[Any], NDArray[np.float64]]


class Inbox:
    """Commands from several topics.

    A callback would come when Python has time for it. The middleware's stamp does not depend on
    that, but rclpy's EventsExecutor does not hand it on: messages are taken here, from a node that
    no executor spins.
    """

    def __init__(self, node: Node, *sources: Source) -> None:
        """Subscribe."""
        self._log = node.get_logger()
        self._warned: set[str] = set()
        self._fastest: int | None = None
        self._node = rclpy.create_node(
            f'{node.get_name()}_commands',
            namespace=node.get_namespace(),
            use_global_arguments=False,
            start_parameter_services=False,
            enable_rosout=False,
        )
        self.topics = tuple(source.topic for source in sources)
        self._sources = tuple(
            (self._node.create_subscription(source.kind, source.topic, _never, _DEPTH), source.read)
            for source in sources
        )

    def close(self) -> None:
        """Leave the graph."""
        self._node.destroy_node()

    def fetch(self) -> list[tuple[int, NDArray[np.float64]]]:
        """Return what arrived since the last call.

        Returns:
            When each command arrived, ns since the epoch, and its (nu,) values, NaN for the
            actuators that it does not name.
        """
        commands = []
        for subscription, read in self._sources:
            while taken := subscription.handle.take_message(subscription.msg_type, _NOT_RAW):
                message, info = taken
                try:
                    values = read(message)
                except RosError as err:
                    self._ignore(subscription.topic_name, err)
                    continue
                commands.append((self._arrival(info), values))
        return commands

    def _arrival(self, info: Mapping[str, int]) -> int:
        """Return when a command arrived, ns.

        What a busy machine held up by more than `_HELD_UP` counts as having come as fast as the
        fastest: the machine's other work is no part of the robot.
        """
        # Not every middleware stamps what it sends and receives.
        received = info['received_timestamp'] or time.time_ns()
        if not info['source_timestamp']:
            return received
        transit = received - info['source_timestamp']
        self._fastest = transit if self._fastest is None else min(transit, self._fastest)
        if transit - self._fastest <= _HELD_UP * _NS:
            return received
        return info['source_timestamp'] + self._fastest

    def _ignore(self, topic: str, reason: RosError) -> None:
        if topic not in self._warned:
            self._warned.add(topic)
            self._log.warning(f'ignoring a command on {topic}: {reason}')


def read_array(message: Any, count: int) -> NDArray[np.float64]:
    """Return the (count,) finite values of a Float64MultiArray.

    Raises:
        RosError: It has another number of values, or one is not finite.
    """
    values = np.array(message.data, dtype=np.float64)
    if len(values) != count:
        msg = f'expected one value per actuator, {count}, found {len(values)}'
        raise RosError(msg)
    return finite(values)


def finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values that are all finite.

    Raises:
        RosError: One is not.
    """
    if not np.all(np.isfinite(values)):
        msg = f'expected finite values, found {values.tolist()}'
        raise RosError(msg)
    return values


def _never(_: object) -> None:
    """Fill the place of a callback; no executor calls it."""
