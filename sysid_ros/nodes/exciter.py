# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ``exciter`` node.

``python -m sysid_ros.nodes.exciter --ros-args -p model:=arm.xml -p duration:=15.0``
"""

import sys

from sysid_ros.nodes.ros.runtime import process

main = process('exciter', 'sysid_ros.nodes.ros.exciter', 'Exciter')

if __name__ == '__main__':
    sys.exit(main())
