# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What users may configure: one validated schema for files, flags and node parameters."""
