# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ``simulated_servo`` node.

``python -m sysid_ros.nodes.simulated_servo --ros-args -p truth:=params.json``
"""

import sys

from sysid_ros.nodes.ros.runtime import process

main = process('simulated_servo', 'sysid_ros.nodes.ros.simulated_servo', 'SimulatedServo')

if __name__ == '__main__':
    sys.exit(main())
