# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Types whose numbers make no time series: what a graph says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Message type to why it is not read.
REASONS: Mapping[str, str] = {
    'diagnostic_msgs/msg/DiagnosticArray': 'diagnostics are texts, each message about other things',
    'rcl_interfaces/msg/Log': 'log messages are texts',
    'rcl_interfaces/msg/ParameterEvent': 'events are about other parameters each time',
    'rosgraph_msgs/msg/Log': 'log messages are texts',
}
