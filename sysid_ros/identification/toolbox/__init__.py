# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of MuJoCo's sysid toolbox over the engine."""
