# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From unfinished or damaged bags to good ones."""
