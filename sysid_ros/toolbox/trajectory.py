# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Runs in the terms of MuJoCo's sysid toolbox: recorded, simulated, and where they begin."""

from sysid_ros.toolbox.initial_state import create_initial_state
from sysid_ros.toolbox.model_sequences import ModelSequences
from sysid_ros.toolbox.rollout import sysid_rollout
from sysid_ros.toolbox.system_trajectory import SystemTrajectory

__all__ = ['ModelSequences', 'SystemTrajectory', 'create_initial_state', 'sysid_rollout']
