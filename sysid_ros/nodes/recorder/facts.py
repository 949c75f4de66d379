# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a bag says about its session beside the messages.

Facts are texts by key: ``version``, ``command_line``, ``host``, ``notes``, ``started``, ``clock``,
``topics`` and, where the graph offers them, ``robot_description`` and ``controllers``. What has a
structure is JSON.
"""

from __future__ import annotations

import json
import platform
import shlex
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String

from sysid_ros.nodes.recorder.controllers import Controllers
from sysid_ros.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rclpy.node import Node

    from sysid_ros.config import RecorderConfig
    from sysid_ros.nodes.recorder.discovery import Offer
    from sysid_ros.nodes.recorder.selection import Selection
    from sysid_ros.nodes.recorder.topic_watch import TopicWatch

_DESCRIPTION = 'robot_description'
_STRING = 'std_msgs/msg/String'
#: A bag that is not finished knows the clocks as they were so long before its end, ns.
_CLOCK_NS = 60 * 10**9
#: The clocks are read this often; the quickest reading counts.
_TRIES = 5


class ClockReading(NamedTuple):
    """What the clocks of this machine show at one moment.

    Attributes:
        realtime_ns: CLOCK_REALTIME, ns since the epoch: what stamps are made of.
        monotonic_ns: CLOCK_MONOTONIC, ns since some start: what nobody sets.
    """

    realtime_ns: int
    monotonic_ns: int

    @property
    def offset_ns(self) -> int:
        """How far the first is ahead of the second; when it changes, the clock was set."""
        return self.realtime_ns - self.monotonic_ns


def read_clocks() -> ClockReading:
    """Read both clocks as close to each other as a few tries allow."""
    tries = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(_TRIES)]
    before, realtime, after = min(tries, key=lambda stamps: stamps[2] - stamps[0])
    return ClockReading(realtime, (before + after) // 2)


def clock_fact(begin: ClockReading, now: ClockReading, *, sim_time: bool) -> str:
    """Return the fact ``clock``: what bag times are, and what the clocks did meanwhile.

    ``shift_ns`` is how far CLOCK_REALTIME ran away from CLOCK_MONOTONIC since the begin: what NTP
    or somebody corrected.
    """
    return json.dumps(
        {
            'source': 'ROS time of /clock' if sim_time else 'receive stamps of the middleware',
            'start': {**begin._asdict(), 'offset_ns': begin.offset_ns},
            'end': {**now._asdict(), 'offset_ns': now.offset_ns},
            'shift_ns': now.offset_ns - begin.offset_ns,
        }
    )


def session_facts() -> dict[str, str]:
    """Return what is known when a recording begins."""
    return {
        'version': __version__,
        'command_line': shlex.join(sys.orig_argv),
        'host': f'{platform.node()} ({platform.platform()}, Python {platform.python_version()})',
        'started': datetime.now(UTC).isoformat(),
    }


def topics_fact(
    selection: Selection,
    found: Mapping[str, str],
    missing: Iterable[str],
    refused: Mapping[str, str],
) -> str:
    """Return the fact ``topics``.

    Args:
        selection: What was asked for.
        found: Recorded topics and their types.
        missing: Topics that were asked for by name and have no publisher.
        refused: Topics that cannot be recorded, and why.
    """
    return json.dumps(
        {
            'asked': {
                'topics': list(selection.names),
                'regex': selection.regex.pattern if selection.regex else '',
                'exclude': selection.exclude.pattern if selection.exclude else '',
                'all': selection.everything,
            },
            'found': dict(found),
            'missing': list(missing),
            'refused': dict(refused),
        }
    )


class SessionFacts:
    """Collects the facts of a recorder's bags."""

    def __init__(
        self, node: Node, selection: Selection, on_change: Callable[[], None], *, sim_time: bool
    ) -> None:
        """Begin to listen.

        Args:
            node: A node that is spun.
            selection: What was asked for.
            on_change: Called when something new is known.
            sim_time: Whether bag times are ROS time.
        """
        self._selection = selection
        self._sim_time = sim_time
        self._descriptions = Descriptions(node, on_change)
        self._controllers = Controllers(node, on_change)
        self._session: dict[str, str] = {}
        self._began = self._read = read_clocks()

    def look(self, graph: Iterable[Offer], *, slowly: bool) -> None:
        """Go on asking; to be called several times a second.

        Args:
            graph: All topics.
            slowly: Look for who is new, too; once a second.
        """
        if slowly:
            self._descriptions.follow(graph)
            self._controllers.follow()
        self._controllers.ask()

    def begin(self, config: RecorderConfig, topics: TopicWatch) -> dict[str, str]:
        """Return the facts of a new bag."""
        self._began = self._read = read_clocks()
        self._session = session_facts()
        return self.current(config, topics)

    def current(
        self, config: RecorderConfig, topics: TopicWatch, *, final: bool = False
    ) -> dict[str, str]:
        """Return the facts as they are now.

        Args:
            config: The parameters.
            topics: The topics.
            final: Read the clocks even if they were read lately: a bag gets each change.
        """
        now = read_clocks()
        if final or now.monotonic_ns - self._read.monotonic_ns >= _CLOCK_NS:
            self._read = now
        return {
            **self._session,
            'notes': config.notes,
            'clock': clock_fact(self._began, self._read, sim_time=self._sim_time),
            'topics': topics_fact(self._selection, topics.found, topics.missing, topics.refused),
            **self._descriptions.facts,
            **self._controllers.facts,
        }

    def close(self) -> None:
        """Ask nobody any more."""
        self._controllers.close()


class Descriptions:
    """The robots' models on ``robot_description`` topics, recorded or not.

    Attributes:
        facts: ``robot_description``, the text of ``/robot_description`` or of the topic that came
            first; what others say is ``robot_description:TOPIC``.
    """

    def __init__(self, node: Node, on_change: Callable[[], None]) -> None:
        """Begin without any topic.

        Args:
            node: A node that is spun; what it hears does not come through the recorder's own
                subscriptions.
            on_change: Called when a text came.
        """
        self._node = node
        self._on_change = on_change
        self._subscriptions: dict[str, Any] = {}
        self._texts: dict[str, str] = {}

    @property
    def facts(self) -> dict[str, str]:
        """Facts that are known now."""
        if not self._texts:
            return {}
        plain = f'/{_DESCRIPTION}'
        first = plain if plain in self._texts else next(iter(self._texts))
        others = {f'{_DESCRIPTION}:{t}': x for t, x in self._texts.items() if t != first}
        return {_DESCRIPTION: self._texts[first], **others}

    def follow(self, graph: Iterable[Offer]) -> None:
        """Listen to topics that are there now and were not before."""
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        for found in graph:
            named = found.topic.rpartition('/')[2] == _DESCRIPTION
            holds = any(publisher.transient_local for publisher in found.publishers)
            new = found.topic not in self._subscriptions
            if named and holds and new and found.msgtypes == (_STRING,):
                self._subscriptions[found.topic] = self._node.create_subscription(
                    String, found.topic, self._receive(found.topic), latched
                )

    def _receive(self, topic: str) -> Callable[[Any], None]:
        def receive(message: Any) -> None:
            if self._texts.get(topic) != message.data:
                self._texts[topic] = message.data
                self._on_change()

        return receive
