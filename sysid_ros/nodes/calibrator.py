# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ``calibrator`` node's process.

``python -m sysid_ros.nodes.calibrator --ros-args -p config:=calibration.yaml``

What the node does is in :mod:`sysid_ros.nodes.fitter`; it is imported when signals are handled
already, so that Ctrl-C is answered cleanly from the first moment.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from sysid_ros.nodes.runtime import Running, Stop, run

if TYPE_CHECKING:
    from rclpy.node import Node

#: A refit keeps one thread for as long as it fits; the others answer meanwhile.
_THREADS = 4


def main() -> int:
    """Run the node; return the process's exit code."""
    return run('calibrator', _start, threads=_THREADS)


def _start(node: Node, stop: Stop) -> Running:
    from sysid_ros.nodes.fitter import Calibrator  # noqa: PLC0415 (see above)

    return Calibrator(node, stop)


if __name__ == '__main__':
    sys.exit(main())
