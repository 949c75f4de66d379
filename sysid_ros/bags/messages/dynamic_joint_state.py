# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""control_msgs/DynamicJointState: interfaces (position, velocity, temperature …) of joints."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sysid_ros.bags.messages.labels import labels_for
from sysid_ros.bags.messages.layout import itemsize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sysid_ros.bags.messages.layout import Part

MSGTYPES = ('control_msgs/msg/DynamicJointState',)
_VALUES = re.compile(r'interface_values\[(\d+)\]\.values')


def label(parts: Iterable[Part], texts: Mapping[str, tuple[str, ...]]) -> Iterator[Part]:
    """Make each interface a field whose labels are the joints that have it."""
    found = [(part, int(match[1])) for part in parts if (match := _VALUES.fullmatch(part.field))]
    joints = labels_for(texts['joint_names'], 1 + max((joint for _, joint in found), default=-1))
    for part, joint in found:
        names = texts.get(f'interface_values[{joint}].interface_names', ())
        for index, interface in enumerate(labels_for(names, len(part.labels))):
            yield part._replace(
                field=interface,
                labels=(joints[joint],),
                start=part.start + index * itemsize(part),
            )
