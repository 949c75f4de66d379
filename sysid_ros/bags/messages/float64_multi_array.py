# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""std_msgs/Float64MultiArray and its kin: elements by index; the layout does not matter."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sysid_ros.bags.messages.layout import Part

_NUMBERS = 'Float32 Float64 Int8 Int16 Int32 Int64 UInt8 UInt16 UInt32 UInt64'
MSGTYPES = tuple(f'std_msgs/msg/{number}MultiArray' for number in _NUMBERS.split())


def label(parts: Iterable[Part], _: Mapping[str, tuple[str, ...]]) -> Iterator[Part]:
    """Leave out dimensions and offset."""
    return (part for part in parts if part.field == 'data')
