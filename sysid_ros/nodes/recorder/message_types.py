# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is known here of the types of messages: their classes and their definitions.

A bag holds the definition of every type in it, so that it is read on machines without the type's
package. Those of the common interfaces come with rosbags; others stand in ``share/PACKAGE/msg``
of the prefix that their package was installed to.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rosbags.typesys import get_types_from_msg
from rosbags.typesys.base import TypesysError

from sysid_ros.errors import RosError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Line between the definitions that rosbag2 joins for one type.
_RULE = '=' * 80
#: Parts of the name of a type.
_PARTS = 3


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


@functools.cache
def installed_definition(msgtype: str) -> str | None:
    """Return the definition of a type and of all types inside it, as rosbag2 joins them.

    Args:
        msgtype: Name of the type, as ``my_msgs/msg/Thing``.

    Returns:
        The text in ROS 2's message language, or None where one of the types has no file here or
        its file is not understood.
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
    parts = msgtype.split('/')
    if len(parts) != _PARTS:
        return None
    package, _, name = parts
    places = (share / package / 'msg' / f'{name}.msg' for share in _shares(package))
    return next((place for place in places if place.is_file()), None)


def _shares(package: str) -> Iterator[Path]:
    """Yield the folders that may hold a package's share: of the workspaces, and near its code."""
    for prefix in filter(None, os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep)):
        yield Path(prefix) / 'share'
    spec = importlib.util.find_spec(package)
    if spec is not None and spec.origin:
        yield from (parent / 'share' for parent in Path(spec.origin).parents)
