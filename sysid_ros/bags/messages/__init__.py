# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From messages to columns: any numeric type by its definition, some with names of their own."""

from __future__ import annotations

from sysid_ros.bags.messages.message_types import LABELLERS, TEXT
from sysid_ros.bags.messages.topic import TextReader, TopicReader, decode, decode_text

__all__ = ['LABELLERS', 'TEXT', 'TextReader', 'TopicReader', 'decode', 'decode_text']
