# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What was identified, in the formats of others."""
