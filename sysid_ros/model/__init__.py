# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a model is: MJCF loaded, targets, inertia, compiled fields, and the text written back."""
