# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""control_msgs/JointTrajectoryControllerState: reference, feedback and error by joint.

Older versions of the type say ``desired`` and ``actual``; fields keep the names that they have in
the message.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sysid_ros.bags.messages.labels import labels_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sysid_ros.bags.messages.layout import Part

MSGTYPES = ('control_msgs/msg/JointTrajectoryControllerState',)
_BY_JOINT = re.compile(r'\w+\.(positions|velocities|accelerations|effort)')


def label(parts: Iterable[Part], texts: Mapping[str, tuple[str, ...]]) -> Iterator[Part]:
    """Label the arrays of each point by joint."""
    for part in parts:
        if _BY_JOINT.fullmatch(part.field):
            labels = labels_for(texts['joint_names'], len(part.labels))
            yield part._replace(labels=labels)
        else:
            yield part
