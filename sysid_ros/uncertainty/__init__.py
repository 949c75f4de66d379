# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How sure a fit is of each parameter, and what the data cannot say."""
