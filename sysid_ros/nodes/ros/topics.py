# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Names of topics that come from parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysid_ros.errors import ConfigError

if TYPE_CHECKING:
    from rclpy.node import Node


def resolve_topic(node: Node, parameter: str, topic: str) -> str:
    """Return a topic's name in full, with the node's namespace and remappings.

    Args:
        node: The node.
        parameter: Name of the parameter that holds the topic, for the error.
        topic: What it holds.

    Raises:
        ConfigError: It is no name of a topic.
    """
    try:
        return str(node.resolve_topic_name(topic))
    except (ValueError, RuntimeError) as err:  # rclpy's RCLError is a RuntimeError
        reason = ' '.join(str(err).split()).rstrip('.')
        msg = f'Expected the name of a topic in parameter {parameter!r}, found an error: {reason}.'
        raise ConfigError(msg) from err
