# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Candidates times trajectories, simulated in one batch."""
