# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ``exciter`` node's process."""

import sys

from sysid_ros.nodes.exciter import main

if __name__ == '__main__':
    sys.exit(main())
