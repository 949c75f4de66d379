# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The topics of the graph: who publishes them, of which type, and which of them a recorder takes.

A bag holds the definition of every type in it, so that it is read on machines without the type's
package. Those of the common interfaces come with rosbags; others stand in ``share/PACKAGE/msg``
of the prefix that their package was installed to.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rosbags.typesys import get_types_from_msg
from rosbags.typesys.base import TypesysError

from sysid_ros.bags.cdr import known_types
from sysid_ros.bags.message_types import (
    CONTROLLER_STATE,
    IMU,
    JOINT_STATE,
    JOINT_TRAJECTORY,
    WRENCH,
    is_applied,
)
from sysid_ros.bags.storage import Topic, TopicQos
from sysid_ros.config.nodes import RecorderConfig
from sysid_ros.errors import ConfigError, RosError, nearest

if TYPE_CHECKING:
    # Which topics are taken can be told without ROS.
    from rclpy.node import Node

CLOCK = '/clock'
_STRING = 'std_msgs/msg/String'
_COMMANDS = 'std_msgs/msg/Float64MultiArray'
#: Line between the definitions that rosbag2 joins for one type.
_RULE = '=' * 80


def message_class(topic: str, msgtype: str) -> Any:
    """Import the Python class of a message type, which a topic needs.

    Raises:
        RosError: The type is not installed.
    """
    package, _, name = msgtype.split('/')
    try:
        return getattr(importlib.import_module(f'{package}.msg'), name)
    except (ImportError, AttributeError) as err:
        raise not_installed(topic, msgtype) from err


def not_installed(topic: str, msgtype: str, hint: str = '') -> RosError:
    """Return the error that names a type that is missing, and the package that has it."""
    package = msgtype.partition('/')[0]
    debian = package.replace('_', '-')
    return RosError(
        f'Message type {msgtype!r} of topic {topic!r} is not installed here: expected the '
        f'package {package!r} (`sudo apt install ros-jazzy-{debian}`), or topics without it{hint}.'
    )


@functools.cache
def installed_definition(msgtype: str) -> str | None:
    """Return the definition of a type and of all types inside it, as rosbag2 joins them.

    None where one of the types has no file here, or a file that is not understood.
    """
    texts: dict[str, str] = {}
    pending = [msgtype]
    while pending:
        name = pending.pop(0)
        if name in texts:
            continue
        file = _definition_file(name)
        if file is None:
            return None
        try:
            texts[name] = file.read_text('utf-8')
            _, fields = get_types_from_msg(texts[name], name)[name]
            pending += [member for _, kind in fields for member in _message_types(kind)]
        except (OSError, UnicodeDecodeError, TypesysError):
            return None
    first, *others = texts
    parts = [texts[first]]
    for name in others:
        package, _, short = name.split('/')
        parts += [f'{_RULE}\nMSG: {package}/{short}', texts[name]]
    return '\n'.join(part.rstrip('\n') for part in parts) + '\n'


def _message_types(kind: Any) -> Iterator[str]:
    """Yield the messages' names in a field's type: its own, or that of an array's elements."""
    if isinstance(kind[1], str):
        yield kind[1]
    elif isinstance(kind[1][0], tuple):
        yield from _message_types(kind[1][0])


def _definition_file(msgtype: str) -> Path | None:
    """Return a type's file in a share of the workspaces, or in one near its package's code."""
    match msgtype.split('/'):
        case [package, _, name]:
            prefixes = os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep)
            parents = [Path(prefix) for prefix in prefixes if prefix]
            spec = importlib.util.find_spec(package)
            if spec is not None and spec.origin:
                parents += Path(spec.origin).parents
            files = (parent / 'share' / package / 'msg' / f'{name}.msg' for parent in parents)
            return next((file for file in files if file.is_file()), None)
    return None


class Endpoint(NamedTuple):
    """One publisher of a topic."""

    msgtype: str
    reliable: bool
    transient_local: bool


class Offer(NamedTuple):
    """A topic of the graph with its types and publishers; without any it has subscribers only."""

    topic: str
    msgtypes: tuple[str, ...]
    publishers: tuple[Endpoint, ...]


def offers(node: Node) -> tuple[Offer, ...]:
    """Return all topics of the graph, named in full.

    The types as subscribers see them count for a topic without a publisher.
    """
    from rclpy.qos import DurabilityPolicy, ReliabilityPolicy  # noqa: PLC0415 (needs ROS)

    found = []
    for topic, msgtypes in node.get_topic_names_and_types():
        publishers = tuple(
            Endpoint(
                info.topic_type,
                info.qos_profile.reliability != ReliabilityPolicy.BEST_EFFORT,
                info.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL,
            )
            for info in node.get_publishers_info_by_topic(topic)
        )
        types = {publisher.msgtype for publisher in publishers} or set(msgtypes)
        found.append(Offer(topic, tuple(sorted(types)), publishers))
    return tuple(found)


def default_topics(graph: Iterable[Offer]) -> tuple[Offer, ...]:
    """Return the topics that a calibration needs beside the joint states.

    These are the command topics by ros2_control's conventions, whether something publishes there
    yet or a controller only listens, what controllers and drivers say that they asked for and sent,
    what IMUs and wrists measure, and the latched texts that hold the robot's model.
    """

    def commands(found: Offer) -> bool:
        if found.msgtypes == (_COMMANDS,):
            return found.topic.endswith('/commands')
        if found.msgtypes == (JOINT_STATE,):
            return is_applied(JOINT_STATE, found.topic)
        return found.msgtypes in {(JOINT_TRAJECTORY,), (CONTROLLER_STATE,)}

    def describes(found: Offer) -> bool:
        name = found.topic.rpartition('/')[2]
        latched = bool(found.publishers) and all(p.transient_local for p in found.publishers)
        named = name == 'robot_description' or name.startswith('mjcf')
        return found.msgtypes == (_STRING,) and latched and named

    def measures(found: Offer) -> bool:
        return bool(found.publishers) and found.msgtypes in {(IMU,), (WRENCH,)}

    return tuple(found for found in graph if commands(found) or measures(found) or describes(found))


def recorded_topic(found: Offer) -> Topic:
    """Return how to subscribe to a topic so that every publisher's messages arrive.

    A subscription that asks for more than a publisher offers gets nothing from it: it is best
    effort as soon as one publisher is, and latched only when all are.

    Raises:
        RosError: The topic has more than one type, or no definition of its type is to be had.
    """
    if len(found.msgtypes) != 1:
        types = ' and '.join(found.msgtypes) or 'none'
        raise RosError(f'Expected one message type on topic {found.topic!r}, found {types}.')
    msgtype = found.msgtypes[0]
    known = known_types().fielddefs
    definition = '' if msgtype in known else installed_definition(msgtype)
    if definition is None:
        raise not_installed(found.topic, msgtype, f'; {nearest(msgtype, known)}')
    qos = TopicQos(
        reliable=all(publisher.reliable for publisher in found.publishers),
        transient_local=bool(found.publishers)
        and all(publisher.transient_local for publisher in found.publishers),
    )
    return Topic(found.topic, msgtype, qos, definition)


@dataclass(frozen=True)
class Selection:
    """The topics to record; names are in full."""

    #: Recording does not begin without a publisher of each of these.
    names: tuple[str, ...] = ()
    #: Whether to take what a calibration needs beside these, of one robot's namespace.
    defaults: bool = False
    namespace: str = '/'
    regex: re.Pattern[str] | None = None
    #: Concerns topics that are not named.
    exclude: re.Pattern[str] | None = None
    everything: bool = False
    #: The recorder's own topics, which are never taken.
    own: tuple[str, ...] = ()

    @property
    def grows(self) -> bool:
        """Whether topics that nobody named may be taken."""
        return bool(self.defaults or self.everything or self.regex)

    def take(self, graph: Iterable[Offer]) -> tuple[Offer, ...]:
        """Return the topics to record: first those that are named, then the others."""
        offers = {found.topic: found for found in graph if found.topic not in self.own}
        first = [offers.pop(topic) for topic in self.names if topic in offers]
        # Hidden topics are for tools; rosbag2 leaves them out, too.
        rest = [
            found
            for topic, found in offers.items()
            if '/_' not in topic and not (self.exclude and self.exclude.search(topic))
        ]
        if self.defaults:
            own = (found for found in rest if found.topic.startswith(self.namespace))
            rest = list(default_topics(own))
        elif not self.everything:
            rest = [item for item in rest if self.regex and self.regex.search(item.topic)]
        return (*first, *rest)


def make_selection(node: Node, config: RecorderConfig, *, sim_time: bool) -> Selection:
    """Return what the parameters of a recorder ask for, and the clock in simulated time.

    Raises:
        ConfigError: Something is no name of a topic, or is excluded although it is named.
    """
    from sysid_ros.nodes.parameters import resolve_topic  # noqa: PLC0415 (needs ROS)

    defaults = not (config.topics or config.regex or config.all)
    topics = config.topics or (('joint_states',) if defaults else ())
    names = tuple(dict.fromkeys(resolve_topic(node, 'topics', topic) for topic in topics))
    exclude = re.compile(config.exclude) if config.exclude else None
    for topic in names:
        if exclude is not None and exclude.search(topic):
            raise ConfigError(
                f"Expected an expression in parameter 'exclude' that leaves {topic!r}, which is "
                f'to be recorded, found {config.exclude!r}.'
            )
    return Selection(
        names=(CLOCK, *names) if sim_time else names,
        defaults=defaults,
        namespace=f'{node.get_namespace().rstrip("/")}/',
        regex=re.compile(config.regex) if config.regex else None,
        exclude=exclude,
        everything=config.all,
        own=(str(node.resolve_topic_name('~/status')),),
    )
