# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ``pendulum_bench`` node's process."""

import sys

from sysid_ros.nodes.pendulum_bench import main

if __name__ == '__main__':
    sys.exit(main())
