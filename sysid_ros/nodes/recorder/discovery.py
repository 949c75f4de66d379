# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which topics the live graph offers, with which types and quality of service."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

from sysid_ros.bags.recording import TopicSpec
from sysid_ros.bags.writer import TopicQos, known_types
from sysid_ros.errors import RosError, nearest
from sysid_ros.nodes.recorder.definitions import installed_definition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rclpy.node import Node

_STRING = 'std_msgs/msg/String'
_COMMANDS = 'std_msgs/msg/Float64MultiArray'
_TRAJECTORY = 'trajectory_msgs/msg/JointTrajectory'


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


def offer(node: Node, topic: str, msgtypes: Iterable[str] = ()) -> Offer:
    """Return what the graph knows of a topic, named in full.

    Args:
        node: A node in the graph.
        topic: Name of the topic.
        msgtypes: Its types as subscribers see them, for a topic that may have no publisher.
    """
    from rclpy.qos import DurabilityPolicy, ReliabilityPolicy  # noqa: PLC0415 (needs ROS)

    publishers = tuple(
        Endpoint(
            info.topic_type,
            info.qos_profile.reliability != ReliabilityPolicy.BEST_EFFORT,
            info.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL,
        )
        for info in node.get_publishers_info_by_topic(topic)
    )
    types = {publisher.msgtype for publisher in publishers} or set(msgtypes)
    return Offer(topic, tuple(sorted(types)), publishers)


def offers(node: Node) -> tuple[Offer, ...]:
    """Return all topics of the graph."""
    return tuple(
        offer(node, topic, msgtypes) for topic, msgtypes in node.get_topic_names_and_types()
    )


def default_topics(graph: Iterable[Offer]) -> tuple[Offer, ...]:
    """Return the topics that a calibration needs beside the joint states.

    These are the command topics by ros2_control's conventions, whether something publishes there
    yet or a controller only listens, and the latched texts that hold the robot's model.
    """
    return tuple(found for found in graph if _is_command(found) or _is_model(found))


def _is_command(found: Offer) -> bool:
    if found.msgtypes == (_COMMANDS,):
        return found.topic.endswith('/commands')
    return found.msgtypes == (_TRAJECTORY,)


def _is_model(found: Offer) -> bool:
    name = found.topic.rpartition('/')[2]
    latched = bool(found.publishers) and all(p.transient_local for p in found.publishers)
    named = name == 'robot_description' or name.startswith('mjcf')
    return found.msgtypes == (_STRING,) and latched and named


def topic_spec(found: Offer) -> TopicSpec:
    """Return how to subscribe to a topic so that every publisher's messages arrive.

    A subscription that asks for more than a publisher offers gets nothing from it: it is best
    effort as soon as one publisher is, and latched only when all are.

    Raises:
        RosError: The topic has more than one type, or no definition of its type is to be had.
    """
    if len(found.msgtypes) != 1:
        types = ' and '.join(found.msgtypes) or 'none'
        msg = f'Expected one message type on topic {found.topic!r}, found {types}.'
        raise RosError(msg)
    msgtype = found.msgtypes[0]
    known = known_types().fielddefs
    definition = None if msgtype in known else installed_definition(msgtype)
    if msgtype not in known and definition is None:
        raise not_installed(found.topic, msgtype, f'; {nearest(msgtype, known)}')
    qos = TopicQos(
        reliable=all(publisher.reliable for publisher in found.publishers),
        transient_local=bool(found.publishers)
        and all(publisher.transient_local for publisher in found.publishers),
    )
    return TopicSpec(found.topic, msgtype, qos, definition)


def message_class(topic: str, msgtype: str) -> Any:
    """Import the Python class of a message type.

    Args:
        topic: The topic that needs it, for the error.
        msgtype: Type of the message, as ``sensor_msgs/msg/JointState``.

    Raises:
        RosError: The type is not installed.
    """
    package, _, name = msgtype.split('/')
    try:
        return getattr(importlib.import_module(f'{package}.msg'), name)
    except (ImportError, AttributeError) as err:
        raise not_installed(topic, msgtype) from err


def not_installed(topic: str, msgtype: str, hint: str = '') -> RosError:
    """Return the error that names a type that is missing, and the package that has it.

    Args:
        topic: The topic that needs it.
        msgtype: Type of the message.
        hint: What else may help, for the end of the sentence.
    """
    package = msgtype.partition('/')[0]
    debian = package.replace('_', '-')
    return RosError(
        f'Message type {msgtype!r} of topic {topic!r} is not installed here: expected the '
        f'package {package!r} (`sudo apt install ros-jazzy-{debian}`), or topics without it{hint}.'
    )
