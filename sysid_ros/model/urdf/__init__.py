# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""URDF: what MJCF it means, and identified values in its text."""
