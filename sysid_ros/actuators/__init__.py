# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Motor and friction laws of servos, the pendulum bench, and its files."""
