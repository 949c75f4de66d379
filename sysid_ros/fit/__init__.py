# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Residuals, their derivatives, and the solvers that make them small."""
