# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ``pendulum_bench`` node's process.

``python -m sysid_ros.nodes.pendulum_bench --ros-args -p masses:=0.3 -p lengths:=0.13 …``

What the node does is in :mod:`sysid_ros.nodes.bench`; it is imported when signals are handled
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
    return run('pendulum_bench', _start)


def _start(node: Node, stop: Stop) -> Running:
    from sysid_ros.nodes.bench import Bench  # noqa: PLC0415 (see above)

    return Bench(node, stop)


if __name__ == '__main__':
    sys.exit(main())
