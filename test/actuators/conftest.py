# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Lets the tests of actuators import the modules beside them."""

from __future__ import annotations

import sys
from pathlib import Path

# Tests are not a package, and not every pytest lets them import relatively.
sys.path.insert(0, str(Path(__file__).parent))
