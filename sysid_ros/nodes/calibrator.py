# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ``calibrator`` node.

``python -m sysid_ros.nodes.calibrator --ros-args -p config:=calibration.yaml``
"""

import sys

from sysid_ros.nodes.ros.runtime import process

#: A refit keeps one thread for as long as it fits; the others answer meanwhile.
_THREADS = 4

main = process('calibrator', 'sysid_ros.nodes.ros.calibrator', 'Calibrator', threads=_THREADS)

if __name__ == '__main__':
    sys.exit(main())
