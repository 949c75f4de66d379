# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Capture on the robot, calibration of its MuJoCo model."""

__version__ = '0.1.0'
