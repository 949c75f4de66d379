# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ``simulated_servo`` node.

``python -m sysid_ros.nodes.simulated_servo --ros-args -p truth:=params.json``
"""

from sysid_ros.nodes.ros.runtime import process

main = process('simulated_servo', 'sysid_ros.nodes.simulated_servo.node', 'SimulatedServo')
