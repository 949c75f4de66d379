# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Robots that exist only here, with true parameters that they hide."""

from sysid_ros.virtual_robot.plant import Noise, Plant, Sample, load_truth

__all__ = ['Noise', 'Plant', 'Sample', 'load_truth']
