# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A robot that exists only in MuJoCo, with true parameters that it hides."""

from sysid_ros.simulation.plant import Noise, Plant, Sample
from sysid_ros.simulation.truth import load_truth

__all__ = ['Noise', 'Plant', 'Sample', 'load_truth']
