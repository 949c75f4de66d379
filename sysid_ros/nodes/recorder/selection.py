# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which topics of the graph a recorder takes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sysid_ros.errors import ConfigError
from sysid_ros.nodes.recorder.discovery import default_topics
from sysid_ros.nodes.ros.topics import resolve_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rclpy.node import Node

    from sysid_ros.config import RecorderConfig
    from sysid_ros.nodes.recorder.discovery import Offer

_JOINT_STATES = '/joint_states'
CLOCK = '/clock'


@dataclass(frozen=True)
class Selection:
    """What was asked for; a topic's name is in full.

    Attributes:
        names: Topics that are named.
        defaults: Take what a calibration needs beside these.
        regex: Expression that is found in the names of topics to take; None without one.
        exclude: Expression that is not found in the names of topics that nobody named.
        everything: Take all topics.
        awaited: Topics without a publisher of which recording does not begin; they are taken.
        heard: Those of them that must have sent a message.
        own: Topics that are never taken: the recorder's own.
    """

    names: tuple[str, ...] = ()
    defaults: bool = False
    regex: re.Pattern[str] | None = None
    exclude: re.Pattern[str] | None = None
    everything: bool = False
    awaited: tuple[str, ...] = ()
    heard: tuple[str, ...] = ()
    own: tuple[str, ...] = ()

    @property
    def grows(self) -> bool:
        """Whether topics that nobody named may be taken."""
        return self.defaults or self.everything or self.regex is not None

    @property
    def expected(self) -> tuple[str, ...]:
        """Topics that are missing as long as nobody publishes them."""
        return tuple(dict.fromkeys((*self.awaited, *self.names)))

    def take(self, graph: Iterable[Offer]) -> tuple[Offer, ...]:
        """Return the topics to record: first those that are expected, then the others."""
        offers = {found.topic: found for found in graph if found.topic not in self.own}
        first = [offers.pop(topic) for topic in self.expected if topic in offers]
        # Hidden topics are for tools; rosbag2 leaves them out, too.
        rest = [
            found
            for topic, found in offers.items()
            if '/_' not in topic and not (self.exclude and self.exclude.search(topic))
        ]
        if self.defaults:
            rest = list(default_topics(rest))
        elif not self.everything:
            # Found anywhere in the name, as rosbag2 does it.
            rest = [found for found in rest if self.regex and self.regex.search(found.topic)]
        return (*first, *rest)


def make_selection(node: Node, config: RecorderConfig, *, sim_time: bool) -> Selection:
    """Return what the parameters of a recorder ask for.

    Args:
        node: The node, whose namespace and remappings apply to names.
        config: The parameters.
        sim_time: Whether the clock is awaited and recorded, too.

    Raises:
        ConfigError: Something is no name of a topic, or is excluded although it is named.
    """
    defaults = not (config.topics or config.regex or config.all)
    names = _resolve(node, 'topics', config.topics or ((_JOINT_STATES,) if defaults else ()))
    heard = _resolve(node, 'wait_for', config.wait_for)
    exclude = re.compile(config.exclude) if config.exclude else None
    for topic in (*names, *heard):
        if exclude is not None and exclude.search(topic):
            msg = (
                f"Expected an expression in parameter 'exclude' that leaves {topic!r}, which is "
                f'to be recorded, found {config.exclude!r}.'
            )
            raise ConfigError(msg)
    clock = (CLOCK,) if sim_time else ()
    return Selection(
        names=names,
        defaults=defaults,
        regex=re.compile(config.regex) if config.regex else None,
        exclude=exclude,
        everything=config.all,
        awaited=tuple(dict.fromkeys((*clock, *(heard or names)))),
        heard=tuple(dict.fromkeys((*clock, *heard))),
        own=(str(node.resolve_topic_name('~/status')),),
    )


def _resolve(node: Node, parameter: str, topics: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(resolve_topic(node, parameter, topic) for topic in topics))
