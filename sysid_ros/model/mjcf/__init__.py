# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Values put back into the user's MJCF text, byte for byte elsewhere."""
