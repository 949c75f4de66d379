# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A mapping proposed from how the columns move, with the reasons."""
