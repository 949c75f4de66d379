# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The parts of a bag as they go to disk: topics, storage files, metadata."""
