# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From logs of a pendulum to fitted coefficients and their report."""
