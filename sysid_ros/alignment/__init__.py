# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From columns of a bag to sequences aligned with a model."""
