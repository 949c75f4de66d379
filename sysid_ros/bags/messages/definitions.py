# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a message type consists of, by the definition in the bag or the one that ROS 2 ships."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from rosbags.interfaces import Nodetype
from rosbags.typesys import get_types_from_idl, get_types_from_msg
from rosbags.typesys.msg import normalize_msgtype

from sysid_ros.bags.messages.cdr import CdrError
from sysid_ros.bags.output.topics import known_types

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: rosbag2's separator between the IDL definitions of a type and of the types inside it.
_IDL_SEPARATOR = '=' * 80 + '\n'
_IDL_TITLE = 'IDL: '

#: A field's name and its type in the words of rosbags: a node type and what belongs to it.
Member = tuple[str, tuple[Nodetype, Any]]


class DefinitionError(CdrError):
    """There is no usable definition of a message type."""


class MessageType(NamedTuple):
    """A message type and all types inside it.

    Attributes:
        name: As ``sensor_msgs/msg/JointState``.
        structures: Name of each structure to its members, in order.
    """

    name: str
    structures: Mapping[str, tuple[Member, ...]]


@functools.lru_cache(maxsize=1024)
def message_type(name: str, text: str = '', encoding: str = '') -> MessageType:
    """Return a type by its definition, or else by ROS 2 Jazzy's common interfaces.

    Args:
        name: Name of the type; ``sensor_msgs/JointState`` means the same as with ``msg``.
        text: Definitions of the type and the types inside it, as bags embed them.
        encoding: Language of the text, ``ros2msg`` or ``ros2idl``; empty for no text.

    Raises:
        DefinitionError: The type or one inside it is not defined, or contains itself.
    """
    name = normalize_msgtype(name)
    own = _parsed(name, text, encoding)
    return MessageType(name, _collected(name, own))


def _parsed(name: str, text: str, encoding: str) -> dict[str, Any]:
    """Return the definitions in a text, or none where it cannot be read."""
    if not text:
        return {}
    try:
        if encoding == 'ros2msg':
            return dict(get_types_from_msg(text, name))
        if not text.startswith(_IDL_SEPARATOR + _IDL_TITLE):
            return dict(get_types_from_idl(text))
        types: dict[str, Any] = {}
        for part in text.split(_IDL_SEPARATOR)[1:]:
            types.update(get_types_from_idl(part.partition('\n')[2]))
    # The parsers let through whatever a text that is no definition makes them stumble over.
    except Exception:  # noqa: BLE001
        return {}
    return types


def _collected(name: str, own: Mapping[str, Any]) -> dict[str, tuple[Member, ...]]:
    found: dict[str, tuple[Member, ...]] = {}

    def collect(item: str, around: tuple[str, ...]) -> None:
        if item in around:
            msg = f'message type {item!r} contains itself'
            raise DefinitionError(msg)
        if item in found:
            return
        # ROS 2's own are many: they are loaded when something is missing.
        definition = own.get(item) or known_types().fielddefs.get(item)
        if definition is None:
            where = f' (in {around[0]!r})' if around else ''
            msg = f'there is no readable definition of message type {item!r}{where}'
            raise DefinitionError(msg)
        members = tuple(definition[1])
        for inner in _structures_in(members):
            collect(inner, (*around, item))
        found[item] = members

    collect(name, ())
    return found


def _structures_in(members: tuple[Member, ...]) -> Iterator[str]:
    for _, (kind, detail) in members:
        inner_kind, inner = (
            detail[0] if kind in (Nodetype.ARRAY, Nodetype.SEQUENCE) else (kind, detail)
        )
        if inner_kind == Nodetype.NAME:
            yield inner
