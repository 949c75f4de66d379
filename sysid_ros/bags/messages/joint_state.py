# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""sensor_msgs/JointState: joints by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysid_ros.bags.messages.labels import labels_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sysid_ros.bags.messages.layout import Part

MSGTYPES = ('sensor_msgs/msg/JointState',)


def label(parts: Iterable[Part], texts: Mapping[str, tuple[str, ...]]) -> Iterator[Part]:
    """Label positions, velocities and efforts by joint."""
    for part in parts:
        yield part._replace(labels=labels_for(texts['name'], len(part.labels)))
