# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which column of a bag is which sensor or actuator of a model."""
