# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a bag says about a topic: its name, its message definition, its quality of service."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from rosbags.interfaces import (
    Qos,
    QosDurability,
    QosHistory,
    QosLiveliness,
    QosReliability,
    QosTime,
)
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.base import TypesysError

from sysid_ros.errors import BagError, nearest

if TYPE_CHECKING:
    from rosbags.typesys.store import Typestore

#: How ROS writes "no limit" into a QoS profile.
_FOREVER = QosTime(9_223_372_036, 854_775_807)
#: How rosbag2 names the languages of message definitions.
ENCODINGS = ('ros2msg', 'ros2idl')


class TopicQos(NamedTuple):
    """What players need to know about how a topic was offered."""

    reliable: bool = True
    transient_local: bool = False
    depth: int = 10

    def profile(self) -> Qos:
        """Return the full profile, as bags hold it."""
        return Qos(
            history=QosHistory.KEEP_LAST,
            depth=self.depth,
            reliability=QosReliability.RELIABLE if self.reliable else QosReliability.BEST_EFFORT,
            durability=(
                QosDurability.TRANSIENT_LOCAL if self.transient_local else QosDurability.VOLATILE
            ),
            deadline=_FOREVER,
            lifespan=_FOREVER,
            liveliness=QosLiveliness.AUTOMATIC,
            liveliness_lease_duration=_FOREVER,
            avoid_ros_namespace_conventions=False,
        )


class Definition(NamedTuple):
    """A message type, so that it is read without its package.

    Attributes:
        msgtype: Name of the type, as ``sensor_msgs/msg/JointState``.
        text: Its definition and those of all types inside it, as rosbag2 joins them.
        encoding: Language of the text, ``ros2msg`` or ``ros2idl``.
        digest: REP-2011's hash of the type; empty where the text does not give it.
    """

    msgtype: str
    text: str
    encoding: str
    digest: str


class Topic(NamedTuple):
    """A topic in a bag; its number is the same in all files of the bag."""

    number: int
    name: str
    definition: Definition
    qos: TopicQos


@functools.lru_cache(maxsize=1)
def known_types() -> Typestore:
    """Return the message definitions of ROS 2 Jazzy's common interfaces."""
    return get_typestore(Stores.ROS2_JAZZY)


def define(
    topic: str, msgtype: str, text: str | None = None, encoding: str = 'ros2msg'
) -> Definition:
    """Return the definition of a topic's message type.

    Args:
        topic: Name of the topic, for the error.
        msgtype: Name of the type.
        text: Its definition, where it is not one of the common interfaces.
        encoding: Language of the text.

    Raises:
        BagError: There is no definition, or its language is none that bags hold.
    """
    if encoding not in ENCODINGS:
        msg = (
            f'Topic {topic!r} cannot be recorded: expected a message definition in '
            f'{" or ".join(ENCODINGS)}, found {encoding!r}.'
        )
        raise BagError(msg)
    if text is not None:
        return Definition(msgtype, text, encoding, _digest(msgtype, text, encoding))
    types = known_types()
    if msgtype not in types.fielddefs:
        msg = (
            f'Topic {topic!r} cannot be recorded: no definition of message type {msgtype!r}; '
            f'{nearest(msgtype, types.fielddefs)}.'
        )
        raise BagError(msg)
    generated, _ = types.generate_msgdef(msgtype, ros_version=2)
    return Definition(msgtype, generated, 'ros2msg', types.hash_rihs01(msgtype))


def _digest(msgtype: str, text: str, encoding: str) -> str:
    """Return the hash of a type, or nothing where its text is in IDL or not complete."""
    if encoding != 'ros2msg':
        return ''
    types = get_typestore(Stores.EMPTY)
    try:
        types.register(get_types_from_msg(text, msgtype))
        return types.hash_rihs01(msgtype)
    except (TypesysError, KeyError):
        return ''
