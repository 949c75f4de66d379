# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ``recorder`` node.

``python -m sysid_ros.nodes.recorder --ros-args -p output:=DIR -p topics:="[joint_states]"``
"""

import sys

from sysid_ros.nodes.ros.runtime import process

main = process('recorder', 'sysid_ros.nodes.ros.recorder.node', 'Recorder')

if __name__ == '__main__':
    sys.exit(main())
