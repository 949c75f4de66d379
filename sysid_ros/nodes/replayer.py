# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ``replayer`` node.

``python -m sysid_ros.nodes.replayer --ros-args -p bag:=bags/validate_1 -p result:=out``
"""

import sys

from sysid_ros.nodes.ros.runtime import process

main = process('replayer', 'sysid_ros.nodes.ros.replayer', 'Replayer')

if __name__ == '__main__':
    sys.exit(main())
