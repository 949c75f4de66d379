# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ``simulated_servo`` node's process.

``python -m sysid_ros.nodes.simulated_servo --ros-args -p truth:=params.json``

What the node does is in :mod:`sysid_ros.nodes.servo`; it is imported when signals are handled
already, so that Ctrl-C is answered cleanly from the first moment.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from sysid_ros.nodes.runtime import Running, Stop, run

if TYPE_CHECKING:
    from rclpy.node import Node


def main() -> int:
    """Run the node; return the process's exit code."""
    return run('simulated_servo', _start)


def _start(node: Node, stop: Stop) -> Running:
    from sysid_ros.nodes.servo import SimulatedServo  # noqa: PLC0415 (see above)

    return SimulatedServo(node, stop)


if __name__ == '__main__':
    sys.exit(main())
