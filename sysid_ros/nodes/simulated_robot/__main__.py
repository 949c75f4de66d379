# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ``simulated_robot`` node's process."""

import sys

from sysid_ros.nodes.simulated_robot import main

if __name__ == '__main__':
    sys.exit(main())
