# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ``simulated_robot`` node.

``python -m sysid_ros.nodes.simulated_robot --ros-args -p model:=arm.xml -p truth:=truth.yaml``
"""

import sys

from sysid_ros.nodes.ros.runtime import process

main = process('simulated_robot', 'sysid_ros.nodes.ros.simulated_robot', 'SimulatedRobot')

if __name__ == '__main__':
    sys.exit(main())
