# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``python -m sysid_ros.cli``: the ``sysid`` command where no script is installed."""

import sys

from sysid_ros.cli.main import main

if __name__ == '__main__':
    sys.exit(main())
