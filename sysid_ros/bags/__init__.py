# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Reading and writing bags."""

from sysid_ros.bags.columns import (
    BagColumns,
    Field,
    SetBack,
    TextColumn,
    TopicColumns,
    UnreadTopic,
)
from sysid_ros.bags.reader import read_bag
from sysid_ros.bags.storage import TopicQos
from sysid_ros.bags.writer import BagWriter

__all__ = [
    'BagColumns',
    'BagWriter',
    'Field',
    'SetBack',
    'TextColumn',
    'TopicColumns',
    'TopicQos',
    'UnreadTopic',
    'read_bag',
]
