# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Following the graph: which topics a recorder waits for, takes, misses and cannot take."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from sysid_ros.errors import RosError
from sysid_ros.nodes.ros.recorder.graph import CLOCK, message_class, offer, offers, topic_spec

if TYPE_CHECKING:
    from rclpy.node import Node

    from sysid_ros.bags.recording import Recording, TopicSpec
    from sysid_ros.nodes.ros.recorder.graph import Offer, Selection
    from sysid_ros.nodes.ros.recorder.subscriptions import Subscriptions

#: Without a list of topics, the graph must not have changed for so long, seconds: the topics of
#: one robot are discovered one after the other.
_SETTLE_SECONDS = 1.0


class Awaited(NamedTuple):
    """What a recorder waits for.

    Attributes:
        what: A publisher, a message …
        topics: On these topics.
    """

    what: str
    topics: tuple[str, ...]

    def __str__(self) -> str:
        return f'{self.what} of {", ".join(self.topics)}' if self.topics else self.what


class TopicWatch:
    """The topics of the graph that were asked for.

    Attributes:
        graph: All topics of the graph when it was looked at last.
        begun: Whether there are subscriptions.
    """

    def __init__(self, node: Node, selection: Selection, subscriptions: Subscriptions) -> None:
        """Begin without having looked."""
        self.graph: tuple[Offer, ...] = ()
        self.begun = False
        self._node = node
        self._log = node.get_logger()
        self._selection = selection
        self._subscriptions = subscriptions
        self._taken: tuple[Offer, ...] = ()
        self._taken_since = time.monotonic()
        self._names: object = None
        self._refused: dict[str, str] = {}
        self._refused_types: dict[str, tuple[str, ...]] = {}

    @property
    def refused(self) -> dict[str, str]:
        """Topics that cannot be recorded, and why."""
        return self._refused.copy()

    @property
    def missing(self) -> tuple[str, ...]:
        """Topics that are expected and have no publisher."""
        published = {found.topic for found in self.graph if found.publishers}
        expected = self._selection.expected
        return tuple(t for t in expected if t not in published and t not in self._refused)

    @property
    def unpublished(self) -> tuple[str, ...]:
        """A sentence on each expected topic from which nothing came."""
        silent = self._subscriptions.silent(self._selection.expected)
        return tuple(f'Nothing came on topic {t!r}.' for t in silent if t not in self._refused)

    @property
    def found(self) -> dict[str, str]:
        """Topics that are recorded, and their types."""
        return {spec.topic: spec.msgtype for spec in self._subscriptions.specs}

    @property
    def waiting_for(self) -> Awaited | None:
        """What recording waits for; None when it may begin."""
        awaited = [t for t in self._selection.awaited if t not in self._refused]
        if CLOCK in awaited and not self._node.get_clock().now().nanoseconds:
            return Awaited('the time', (CLOCK,))
        if not self.begun:
            missing = tuple(topic for topic in self.missing if topic in awaited)
            if not (missing or self._taken):
                return Awaited('any topic to record', ())
        else:
            missing = self._subscriptions.unconnected(awaited)
        if missing:
            return Awaited('a publisher', missing)
        heard = [t for t in self._selection.heard if t not in self._refused]
        silent = self._subscriptions.silent(heard) if self.begun else ()
        return Awaited('a message', silent) if silent else None

    def look(self, recording: Recording | None, *, slowly: bool) -> None:
        """Look at the graph and follow its changes.

        Args:
            recording: Takes topics that come up now.
            slowly: Look at everything; otherwise only where there is a sign of change.

        Raises:
            RosError: None of the topics can be recorded.
        """
        self._subscriptions.settle()
        for topic in self._subscriptions.reported:
            self._follow(offer(self._node, topic))
        names = self._node.get_topic_names_and_types()
        if self.begun and names == self._names and not slowly:
            return
        self._names = names
        self.graph = offers(self._node)
        taken = self._selection.take(self.graph)
        if taken != self._taken:
            self._taken, self._taken_since = taken, time.monotonic()
        for found in taken if self.begun else ():
            if found.topic in self._subscriptions:
                self._follow(found)
            elif (spec := self._spec(found)) is not None:
                if recording is not None:
                    recording.add(spec)
                if self._subscribe(spec):
                    self._log.info(f'also recording {spec.topic}')

    def is_complete(self, now: float) -> bool:
        """Tell whether all that is needed to begin is published.

        Args:
            now: time.monotonic().
        """
        settled = not self._selection.grows or now - self._taken_since >= _SETTLE_SECONDS
        return settled and self.waiting_for is None

    def specs(self) -> tuple[TopicSpec, ...]:
        """Return how to record what is there now.

        Raises:
            RosError: None of the topics can be recorded.
        """
        specs = tuple(filter(None, map(self._spec, self._taken)))
        if not specs:
            raise RosError(next(iter(self._refused.values())))
        return specs

    def begin(self, specs: tuple[TopicSpec, ...]) -> None:
        """Subscribe."""
        for spec in specs:
            self._subscribe(spec)
        self.begun = True

    def _spec(self, found: Offer) -> TopicSpec | None:
        """Return how to record a topic, or None after noting why that cannot be."""
        if self._refused_types.get(found.topic) == found.msgtypes:
            return None
        try:
            spec = topic_spec(found)
            message_class(spec.topic, spec.msgtype)
        except RosError as err:
            self._refuse(found.topic, found.msgtypes, err)
            return None
        self._refused.pop(found.topic, None)
        return spec

    def _subscribe(self, spec: TopicSpec) -> bool:
        try:
            self._subscriptions.add(spec)
        except RosError as err:
            self._refuse(spec.topic, (spec.msgtype,), err)
            return False
        return True

    def _follow(self, found: Offer) -> None:
        try:
            if self._subscriptions.follow(found):
                text = f'{found.topic} has a publisher with other QoS; subscribing again'
                self._log.warning(text)
            self._refused.pop(found.topic, None)
        except RosError as err:
            self._refuse(found.topic, found.msgtypes, err)

    def _refuse(self, topic: str, msgtypes: tuple[str, ...], err: RosError) -> None:
        if self._refused.get(topic) != str(err):
            self._log.error(str(err))
        self._refused[topic] = str(err)
        self._refused_types[topic] = msgtypes
