# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Quality of service that users set by hand, in the format of ``ros2 bag record``.

The format is that of the file for ``--qos-profile-overrides-path``: topics, and below each what
is set. https://github.com/ros2/rosbag2#overriding-qos-profiles
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from sysid_ros.config import Section, read_yaml, validate
from sysid_ros.errors import ConfigError
from sysid_ros.nodes.ros.parameters import resolve_topic

if TYPE_CHECKING:
    from rclpy.node import Node
    from rclpy.qos import QoSProfile


class QosDuration(Section):
    """A duration as rosbag2 writes it."""

    sec: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    nsec: Annotated[int, Field(ge=0, lt=10**9)] = 0


class QosOverride(Section):
    """What is set for one topic; what is not set follows the publishers."""

    history: Literal['keep_last', 'keep_all', 'system_default'] | None = None
    depth: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    reliability: Literal['reliable', 'best_effort', 'system_default'] | None = None
    durability: Literal['transient_local', 'volatile', 'system_default'] | None = None
    deadline: QosDuration | None = None
    lifespan: QosDuration | None = None
    liveliness: Literal['automatic', 'manual_by_topic', 'system_default'] | None = None
    liveliness_lease_duration: QosDuration | None = None
    avoid_ros_namespace_conventions: bool | None = None

    def apply(self, qos: QoSProfile) -> None:
        """Set what is set here in a profile of rclpy."""
        from rclpy import qos as policies  # noqa: PLC0415 (needs ROS)
        from rclpy.duration import Duration  # noqa: PLC0415

        kinds = {
            'history': policies.HistoryPolicy,
            'reliability': policies.ReliabilityPolicy,
            'durability': policies.DurabilityPolicy,
            'liveliness': policies.LivelinessPolicy,
        }
        for name in type(self).model_fields:
            value: Any = getattr(self, name)
            if value is None:
                continue
            if name in kinds:
                value = kinds[name].get_from_short_key(value)
            elif isinstance(value, QosDuration):
                value = Duration(seconds=value.sec, nanoseconds=value.nsec)
            setattr(qos, name, value)


def read_overrides(node: Node, path: str) -> dict[str, QosOverride]:
    """Read a file of topics and what is set for each.

    Args:
        node: The node, whose namespace and remappings apply to the topics.
        path: The file; none when empty.

    Raises:
        ConfigError: The file cannot be read or is not valid.
    """
    if not path:
        return {}
    found = {}
    for topic, values in read_yaml(Path(path)).items():
        where = f'topic {topic!r} of {path!r}'
        if not isinstance(values, dict):
            msg = f'Expected keys and values for {where}, found {values!r}.'
            raise ConfigError(msg)
        name = resolve_topic(node, 'qos_overrides', str(topic))
        found[name] = validate(QosOverride, values, where)
    return found
