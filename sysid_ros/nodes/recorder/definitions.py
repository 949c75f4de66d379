# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Definitions of message types from the packages that are installed here.

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

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Line between the definitions that rosbag2 joins for one type.
_RULE = '=' * 80
#: Parts of the name of a type.
_PARTS = 3


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
    waiting = [msgtype]
    while waiting:
        name = waiting.pop(0)
        if name in texts:
            continue
        file = _file(name)
        if file is None:
            return None
        try:
            texts[name] = file.read_text('utf-8')
            waiting += _members(name, texts[name])
        except (OSError, UnicodeDecodeError, TypesysError):
            return None
    head, *rest = texts
    parts = [texts[head]]
    for name in rest:
        package, _, short = name.split('/')
        parts += [f'{_RULE}\nMSG: {package}/{short}', texts[name]]
    return '\n'.join(part.rstrip('\n') for part in parts) + '\n'


def _members(msgtype: str, text: str) -> list[str]:
    """Return the names of the types of a definition's fields, where these are messages."""
    _, fields = get_types_from_msg(text, msgtype)[msgtype]
    return list(dict.fromkeys(name for _, kind in fields for name in _named(kind)))


def _named(kind: Any) -> Iterator[str]:
    """Yield the messages' names in a field's type: itself, or the elements of an array."""
    if isinstance(kind[1], str):
        yield kind[1]
    elif isinstance(kind[1][0], tuple):
        yield from _named(kind[1][0])


def _file(msgtype: str) -> Path | None:
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
