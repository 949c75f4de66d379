# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Bounded nonlinear least squares with a library's solver and our Jacobian."""
