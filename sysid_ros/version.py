# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which version this is; ``package.xml`` says the same."""

__version__ = '0.1.0'
