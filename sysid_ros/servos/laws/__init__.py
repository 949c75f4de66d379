# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What servos do: motors, friction, and how they drive the joints of a model."""
