# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The files of bags, read message by message in large batches."""
