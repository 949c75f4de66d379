# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From messages to columns: any numeric type by its definition, some with names of their own."""

from __future__ import annotations

from sysid_ros.bags.messages.string import MSGTYPE as TEXT
from sysid_ros.bags.messages.string import TextReader
from sysid_ros.bags.messages.string import decode as decode_text
from sysid_ros.bags.messages.topic import LABELLERS, TopicReader, decode

__all__ = ['LABELLERS', 'TEXT', 'TextReader', 'TopicReader', 'decode', 'decode_text']
