# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""tf2_msgs/TFMessage: transforms by the name of their child frame.

A message holds some of the robot's transforms, others each time: ``tool0.translation`` is NaN where
a message has no transform of that frame.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sysid_ros.bags.messages.layout import Part

MSGTYPES = ('tf2_msgs/msg/TFMessage',)
_TRANSFORM = re.compile(r'(transforms\[\d+\])\.transform\.(translation|rotation)')


def label(parts: Iterable[Part], texts: Mapping[str, tuple[str, ...]]) -> Iterator[Part]:
    """Make translation and rotation of each frame a field."""
    taken: set[str] = set()
    for part in parts:
        match = _TRANSFORM.fullmatch(part.field)
        if match is None:
            continue
        field = f'{texts[f"{match[1]}.child_frame_id"][0]}.{match[2]}'
        # A frame that is there twice: the first counts.
        if field not in taken:
            taken.add(field)
            yield part._replace(field=field)
