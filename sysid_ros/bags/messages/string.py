# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""std_msgs/String: a text that is published once, such as a robot description."""

from __future__ import annotations

from sysid_ros.bags.messages.cdr import Cursor

MSGTYPE = 'std_msgs/msg/String'


def decode(message: bytes) -> str:
    """Return the text.

    Raises:
        CdrError: The message is not a String.
    """
    cursor = Cursor(message)
    text = cursor.string()
    cursor.finish()
    return text
