# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What people do, from a configuration to a result, a file each."""
