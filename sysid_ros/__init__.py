# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Capture on the robot, calibration of its MuJoCo model."""

from sysid_ros.version import __version__

__all__ = ['__version__']
