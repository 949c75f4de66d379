# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Copies of a bag in which messages are other than they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore

from sysid_ros.bags.writer import BagWriter

_STORE = get_typestore(Stores.ROS2_JAZZY)


def rewrite(
    source: Path,
    target: Path,
    change: Callable[[str, Any], Any] = lambda _, message: message,
    *,
    seconds: float = float('inf'),
) -> Path:
    """Write a bag anew, of each message what ``change`` returns; nothing for None."""
    with AnyReader([source], default_typestore=_STORE) as reader, BagWriter(target) as writer:
        for connection in reader.connections:
            writer.add_topic(connection.topic, connection.msgtype)
        for connection, stamp, raw in reader.messages():
            if stamp > reader.start_time + seconds * 1e9:
                continue
            message = reader.deserialize(raw, connection.msgtype)
            for name, value in vars(message).items():
                if isinstance(value, np.ndarray):
                    setattr(message, name, value.copy())
            message = change(connection.topic, message)
            if message is not None:
                data = bytes(_STORE.serialize_cdr(message, connection.msgtype))
                writer.write(connection.topic, stamp, data)
    return target
