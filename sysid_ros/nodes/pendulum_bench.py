# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ``pendulum_bench`` node.

``python -m sysid_ros.nodes.pendulum_bench --ros-args -p masses:=0.3 -p lengths:=0.13 …``
"""

import sys

from sysid_ros.nodes.ros.runtime import process

main = process('pendulum_bench', 'sysid_ros.nodes.ros.pendulum_bench', 'BenchSession')

if __name__ == '__main__':
    sys.exit(main())
